//! POSIX ACLs: as Linux passes them, as ext4 stores them, and what they have to do with the mode.
//!
//! Passed: version 2, then 8 bytes for each entry: tag, permissions, id. Stored: version 1, then 4 bytes for each entry and
//! the id only where it means something. Whatever is passed is checked as the kernel does (order, exactly one owner, group
//! and others, a mask where there are named ones).

use nearhead_basics::little_endian::{u16_at, u32_at};

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Entry {
    fn has_id(self) -> bool {
        matches!(self.tag, USER | GROUP)
    }
}

/// An access control list that is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// As Linux passes it; none if it is not valid. No entries at all are `Some` without entries.
    pub(crate) fn from_passed(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 4 || u32_at(bytes, 0) != 2 || !(bytes.len() - 4).is_multiple_of(8) {
            return None;
        }
        let entries = bytes[4..].chunks_exact(8).map(|entry| Entry {
            tag: u16_at(entry, 0),
            permissions: u16_at(entry, 2),
            id: u32_at(entry, 4),
        });
        Self(entries.collect()).checked()
    }

    /// As it is stored; none if it is not valid.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 4 || u32_at(bytes, 0) != 1 {
            return None;
        }
        let mut entries = Vec::new();
        let mut rest = &bytes[4..];
        while rest.len() >= 4 {
            let mut entry =
                Entry { tag: u16_at(rest, 0), permissions: u16_at(rest, 2), id: u32::MAX };
            rest = &rest[4..];
            if entry.has_id() {
                entry.id = u32_at(rest.get(..4)?, 0);
                rest = &rest[4..];
            }
            entries.push(entry);
        }
        if rest.is_empty() { Self(entries).checked() } else { None }
    }

    fn checked(self) -> Option<Self> {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let has_named = count(USER) + count(GROUP) > 0;
        let is_known = |entry: &Entry| {
            matches!(entry.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER)
                && entry.permissions <= 7
        };
        let is_valid = self.0.is_empty()
            || (self.0.iter().all(is_known)
                && self.0.windows(2).all(|pair| pair[0].tag <= pair[1].tag)
                && [USER_OBJ, GROUP_OBJ, OTHER].into_iter().all(|tag| count(tag) == 1)
                && count(MASK) <= 1
                && (count(MASK) == 1 || !has_named));
        is_valid.then_some(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn to_passed(&self) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.permissions.to_le_bytes());
            bytes.extend(if entry.has_id() { entry.id } else { u32::MAX }.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let mut bytes = 1_u32.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend(entry.tag.to_le_bytes());
            bytes.extend(entry.permissions.to_le_bytes());
            if entry.has_id() {
                bytes.extend(entry.id.to_le_bytes());
            }
        }
        bytes
    }

    /// The entry that the group bits of a mode stand for.
    fn group_tag(&self) -> u16 {
        if self.0.iter().any(|entry| entry.tag == MASK) { MASK } else { GROUP_OBJ }
    }

    /// The nine bits of a mode that say the same, and whether they say all of it.
    pub(crate) fn mode(&self) -> (u16, bool) {
        let group = self.group_tag();
        let bits = self.0.iter().map(|entry| match entry.tag {
            USER_OBJ => entry.permissions << 6,
            OTHER => entry.permissions,
            tag if tag == group => entry.permissions << 3,
            _ => 0,
        });
        (bits.fold(0, |all, bits| all | bits), self.0.len() == 3)
    }

    /// A changed mode goes into the list.
    pub(crate) fn set_mode(&mut self, mode: u16) {
        let group = self.group_tag();
        for entry in &mut self.0 {
            match entry.tag {
                USER_OBJ => entry.permissions = mode >> 6 & 7,
                OTHER => entry.permissions = mode & 7,
                tag if tag == group => entry.permissions = mode >> 3 & 7,
                _ => {}
            }
        }
    }

    /// The access list of something new with `mode` below a directory with this default: gives its mode as well.
    pub(crate) fn inherited(&self, mode: u16) -> (Self, u16) {
        let mut acl = self.clone();
        let own = self.mode().0 & mode;
        acl.set_mode(own);
        (acl, mode & !0o777 | own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    const NONE: u32 = u32::MAX;

    #[test]
    fn a_list_is_stored_in_these_bytes_and_comes_back() {
        let bytes =
            passed(&[(1, 7, NONE), (2, 5, 1000), (4, 5, NONE), (0x10, 7, NONE), (0x20, 4, NONE)]);
        let acl = Acl::from_passed(&bytes).unwrap();
        assert_eq!(acl.to_passed(), bytes);
        let stored = acl.to_stored();
        let expected = [
            1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 5, 0, 0xE8, 3, 0, 0, 4, 0, 5, 0, 16, 0, 7, 0, 32, 0, 4, 0,
        ];
        assert_eq!(stored, expected);
        assert_eq!(Acl::from_stored(&stored), Some(acl.clone()));
        assert_eq!(acl.mode(), (0o774, false));
        let (child, mode) = acl.inherited(0o2640);
        assert_eq!((child.mode().0, mode), (0o640, 0o2640));
    }

    #[test]
    fn lists_without_owner_order_or_mask_are_not_valid() {
        let base = [(1, 7, NONE), (4, 5, NONE), (0x20, 4, NONE)];
        assert_eq!(Acl::from_passed(&passed(&base)).unwrap().mode(), (0o754, true));
        for wrong in [
            vec![base[0], base[1]],
            vec![base[1], base[0], base[2]],
            vec![base[0], (2, 7, 5), base[1], base[2]],
            vec![base[0], base[0], base[1], base[2]],
            vec![(1, 8, NONE), base[1], base[2]],
        ] {
            assert_eq!(Acl::from_passed(&passed(&wrong)), None, "{wrong:?}");
        }
        assert_eq!(Acl::from_passed(&[2, 0, 0, 0, 1]), None);
        assert!(Acl::from_passed(&[2, 0, 0, 0]).unwrap().is_empty());
    }
}
