//! Extended attributes: names as Linux has them, where they lie, and ACLs, which are attributes that also say the mode.
//!
//! All attributes of an inode are read, changed and written as one list: what fits lies in the inode, the rest in one
//! block. A block that several inodes share (the kernel does that) is left to the others.

use crate::Ext4;
use crate::acl::Acl;
use crate::attributes::check_removable;
use crate::cache::Kind;
use crate::error::{Errno, Outcome, corrupt, fail};
use crate::inode::{Inode, Time};
use crate::transaction::Transaction;
use crate::types::{Caller, FileKind, Ino, XattrSet};
use crate::xattr_block::{self, Xattr};

const ACCESS_ACL: u8 = 2;
const DEFAULT_ACL: u8 = 3;

/// Numbers of prefixes on disk. What stands before a shorter one that also fits counts.
const PREFIXES: &[(u8, &str)] = &[
    (ACCESS_ACL, "system.posix_acl_access"),
    (DEFAULT_ACL, "system.posix_acl_default"),
    (1, "user."),
    (4, "trusted."),
    (6, "security."),
];

impl Ext4 {
    /// The value of an extended attribute; ACLs as Linux passes them.
    pub fn get_xattr(&mut self, ino: Ino, name: &[u8]) -> Outcome<Vec<u8>> {
        self.run(|transaction| {
            let (prefix, rest) = split(name)?;
            let inode = transaction.inode(ino)?;
            let all = transaction.xattrs_of(&inode)?;
            let Some(xattr) = find(&all, prefix, rest) else { return Err(no_data(ino, name)) };
            if !is_acl(prefix) {
                return Ok(xattr.value.clone());
            }
            let acl = Acl::from_stored(&xattr.value);
            acl.map(|acl| acl.to_passed())
                .ok_or_else(|| corrupt(format!("inode {}: its ACL is not valid", ino.0)))
        })
    }

    /// Their names.
    pub fn list_xattrs(&mut self, ino: Ino) -> Outcome<Vec<Vec<u8>>> {
        self.run(|transaction| {
            let inode = transaction.inode(ino)?;
            let all = transaction.xattrs_of(&inode)?;
            Ok(all.iter().filter_map(full_name).collect())
        })
    }

    /// Sets one. An access ACL also sets the mode; one that says no more than the mode is not kept.
    pub fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrSet,
        caller: &Caller,
    ) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let (prefix, rest) = split(name)?;
            let mut inode = transaction.inode(ino)?;
            check_removable(&inode)?;
            let mut all = transaction.xattrs_of(&inode)?;
            let is_there = find(&all, prefix, rest).is_some();
            match (is_there, how) {
                (true, XattrSet::Create) => {
                    let name = String::from_utf8_lossy(name);
                    let text = format!("inode {} has an attribute {name}", ino.0);
                    return Err(fail(Errno::Exists, text));
                }
                (false, XattrSet::Replace) => return Err(no_data(ino, name)),
                _ => {}
            }
            let stored = if is_acl(prefix) {
                store_acl(&mut inode, prefix, value)?
            } else {
                Some(value.to_vec())
            };
            let before = all.clone();
            put(&mut all, prefix, rest, stored);
            if before != all {
                transaction.put_xattrs(&mut inode, &all)?;
            }
            inode.set_time(Time::Changed, caller.now);
            transaction.put_inode(&inode)
        })
    }

    /// Removes one.
    pub fn remove_xattr(&mut self, ino: Ino, name: &[u8], caller: &Caller) -> Outcome<()> {
        self.run_change(caller, |transaction| {
            let (prefix, rest) = split(name)?;
            let mut inode = transaction.inode(ino)?;
            check_removable(&inode)?;
            let mut all = transaction.xattrs_of(&inode)?;
            if find(&all, prefix, rest).is_none() {
                return Err(no_data(ino, name));
            }
            put(&mut all, prefix, rest, None);
            transaction.put_xattrs(&mut inode, &all)?;
            inode.set_time(Time::Changed, caller.now);
            transaction.put_inode(&inode)
        })
    }
}

fn is_acl(prefix: u8) -> bool {
    matches!(prefix, ACCESS_ACL | DEFAULT_ACL)
}

fn no_data(ino: Ino, name: &[u8]) -> crate::Stop {
    let name = String::from_utf8_lossy(name);
    fail(Errno::NoData, format!("inode {} has no attribute {name}", ino.0))
}

/// Number of the prefix, and the rest.
fn split(name: &[u8]) -> Outcome<(u8, &[u8])> {
    for (prefix, text) in PREFIXES {
        let Some(rest) = name.strip_prefix(text.as_bytes()) else { continue };
        if rest.len() > 255 {
            return Err(fail(Errno::Range, "the name of an attribute has at most 255 bytes"));
        }
        if rest.is_empty() == is_acl(*prefix) && !rest.contains(&0) {
            return Ok((*prefix, rest));
        }
    }
    let text = format!(
        "attribute {:?}: expected user., trusted., security. or an access list",
        String::from_utf8_lossy(name)
    );
    Err(fail(Errno::NotSupported, text))
}

fn full_name(xattr: &Xattr) -> Option<Vec<u8>> {
    let (_, text) = PREFIXES.iter().find(|(prefix, _)| *prefix == xattr.prefix)?;
    Some([text.as_bytes(), &xattr.name].concat())
}

fn find<'a>(all: &'a [Xattr], prefix: u8, name: &[u8]) -> Option<&'a Xattr> {
    all.iter().find(|xattr| xattr.prefix == prefix && xattr.name == name)
}

/// Sets, or without a value removes.
fn put(all: &mut Vec<Xattr>, prefix: u8, name: &[u8], value: Option<Vec<u8>>) {
    let nth = all.iter().position(|xattr| xattr.prefix == prefix && xattr.name == name);
    match (nth, value) {
        (Some(nth), Some(value)) => all[nth].value = value,
        (Some(nth), None) => {
            all.remove(nth);
        }
        (None, Some(value)) => all.push(Xattr { prefix, name: name.to_vec(), value }),
        (None, None) => {}
    }
}

/// What is stored of an ACL; an access ACL goes into the mode.
fn store_acl(inode: &mut Inode, prefix: u8, value: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let acl = Acl::from_passed(value);
    let acl = acl.ok_or_else(|| fail(Errno::Invalid, "the ACL is not valid"))?;
    if inode.kind() == Some(FileKind::Symlink) {
        return Err(fail(Errno::NotSupported, "a symbolic link has no ACL"));
    }
    if prefix == DEFAULT_ACL {
        if !inode.is_directory() {
            return Err(fail(Errno::NotPermitted, "only directories have a default ACL"));
        }
        return Ok((!acl.is_empty()).then(|| acl.to_stored()));
    }
    if acl.is_empty() {
        return Ok(None);
    }
    let (mode, says_no_more) = acl.mode();
    inode.set_permissions(inode.mode() & 0o7000 | mode);
    Ok((!says_no_more).then(|| acl.to_stored()))
}

impl Transaction<'_> {
    /// All attributes of an inode.
    pub(crate) fn xattrs_of(&mut self, inode: &Inode) -> Outcome<Vec<Xattr>> {
        if inode.is_in_memory {
            let orphan = self.orphan(inode.ino);
            return Ok(orphan.map_or_else(Vec::new, |orphan| orphan.xattrs.clone()));
        }
        let wrong = |text: String| corrupt(format!("inode {}: {text}", inode.ino.0));
        let mut all = match inode.xattrs_at() {
            Some(at) => xattr_block::of_inode(&inode.raw[at..]).map_err(wrong)?,
            None => Vec::new(),
        };
        if inode.xattr_block() != 0 {
            let block = inode.xattr_block();
            if block >= self.fs.geometry.blocks {
                return Err(wrong(format!("its attributes are in block {block}, behind the end")));
            }
            self.check_no_system(&(block..block + 1))?;
            let bytes = self.read(block, Kind::Xattrs)?;
            all.extend(xattr_block::of_block(&*bytes).map_err(wrong)?);
        }
        Ok(all)
    }

    /// Writes all attributes of an inode; the caller puts the inode back.
    pub(crate) fn put_xattrs(&mut self, inode: &mut Inode, all: &[Xattr]) -> Outcome<()> {
        if inode.is_in_memory {
            if let Some(orphan) = self.orphan_mut(inode.ino) {
                orphan.xattrs = all.to_vec();
            }
            return Ok(());
        }
        let at = inode.xattrs_at();
        let area_bytes = at.map_or(0, |at| inode.raw.len() - at);
        let Some((inside, outside)) = xattr_block::divide(all, area_bytes) else {
            let text = format!("inode {}: its attributes do not fit into a block", inode.ino.0);
            return Err(fail(Errno::NoSpace, text));
        };
        if let Some(at) = at {
            xattr_block::into_inode(&mut inode.raw[at..], &inside);
        }
        if outside.is_empty() {
            return self.drop_xattr_block(inode);
        }
        let own = match inode.xattr_block() {
            0 => None,
            block => {
                let bytes = self.read(block, Kind::Xattrs)?;
                (xattr_block::references(&*bytes) == 1).then_some(block)
            }
        };
        let block = if let Some(block) = own {
            block
        } else {
            self.drop_xattr_block(inode)?;
            let goal = self.goal_of(inode);
            let block = self.take_blocks(goal, 1, false)?.start;
            inode.set_xattr_block(block);
            inode.add_blocks(1);
            block
        };
        let bytes = self.fresh(block, Kind::Xattrs)?;
        xattr_block::into_block(bytes.as_mut_slice(), &outside);
        Ok(())
    }

    /// What a new inode takes of its directory's default ACL; without one the umask counts.
    pub(crate) fn inherit_acls(
        &mut self,
        directory: &Inode,
        inode: &mut Inode,
        umask: u16,
    ) -> Outcome<()> {
        if inode.kind() == Some(FileKind::Symlink) {
            return Ok(());
        }
        let theirs = self.xattrs_of(directory)?;
        let Some(default) = find(&theirs, DEFAULT_ACL, b"") else {
            inode.set_permissions(inode.mode() & !(umask & 0o777));
            return Ok(());
        };
        let Some(acl) = Acl::from_stored(&default.value).filter(|acl| !acl.is_empty()) else {
            let text = format!("directory {}: its default ACL is not valid", directory.ino.0);
            return Err(corrupt(text));
        };
        let (access, mode) = acl.inherited(inode.mode() & 0xFFF);
        inode.set_permissions(mode);
        let mut all = Vec::new();
        if !access.mode().1 {
            put(&mut all, ACCESS_ACL, b"", Some(access.to_stored()));
        }
        if inode.is_directory() {
            put(&mut all, DEFAULT_ACL, b"", Some(acl.to_stored()));
        }
        if all.is_empty() { Ok(()) } else { self.put_xattrs(inode, &all) }
    }

    /// A mode that was set goes into the access ACL, if there is one.
    pub(crate) fn mode_into_acl(&mut self, inode: &mut Inode) -> Outcome<()> {
        let mut all = self.xattrs_of(inode)?;
        let Some(known) = find(&all, ACCESS_ACL, b"") else { return Ok(()) };
        let Some(mut acl) = Acl::from_stored(&known.value) else {
            return Err(corrupt(format!("inode {}: its ACL is not valid", inode.ino.0)));
        };
        acl.set_mode(inode.mode() & 0o777);
        put(&mut all, ACCESS_ACL, b"", Some(acl.to_stored()));
        self.put_xattrs(inode, &all)
    }
}
