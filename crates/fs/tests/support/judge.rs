//! Looks at what a crash left: e2fsck first, then as a user. What was seen before is not looked at again.

use super::known::Known;
use super::user::{SMALL_BYTES, tree_of};
use super::{BLOCK, Blocks, Client, Ram, scratch};
use nearhead_ext4::FileKind;
use nearhead_fs::{Answer, FsOperation};
use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

/// Of those images that pass, one in so many is used on, unmounted and looked at again.
const USED_ON: u64 = 8;

/// The judge of all images that differ little from one.
pub struct Judge {
    base: Blocks,
    path: PathBuf,
    file: File,
    seen: BTreeSet<u64>,
    /// Images looked at, those that had not been seen among them.
    pub images: u64,
    pub new_images: u64,
}

impl Judge {
    pub fn new(base: Blocks) -> Self {
        let path = scratch("judge");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(SMALL_BYTES).unwrap();
        for (block, bytes) in &base {
            file.write_all_at(bytes, block * BLOCK as u64).unwrap();
        }
        Self { base, path, file, seen: BTreeSet::new(), images: 0, new_images: 0 }
    }

    /// What is wrong with it, if anything is.
    pub fn look(&mut self, blocks: &Blocks, mode: &str, known: &Known) -> Result<(), String> {
        self.images += 1;
        let digest = self.digest(blocks);
        let is_new = self.seen.insert(digest);
        if is_new {
            self.new_images += 1;
            self.clean(blocks)?;
        }
        let mut client = Client::of(Ram::of(SMALL_BYTES, blocks.clone()), mode);
        known.check(&tree_of(&mut client))?;
        if is_new && self.new_images.is_multiple_of(USED_ON) {
            grow_all(&mut client, "")?;
            self.clean(&client.unmount()).map_err(|what| format!("used on: {what}"))?;
        } else {
            grow_all(&mut client, "")?;
        }
        Ok(())
    }

    /// The blocks that differ from the base, and what they are.
    fn differences<'a>(&'a self, blocks: &'a Blocks) -> Vec<(u64, &'a [u8])> {
        const ZEROS: &[u8] = &[0; BLOCK];
        let is_same = |block: &u64, bytes: &Rc<Vec<u8>>| {
            self.base.get(block).is_some_and(|base| Rc::ptr_eq(base, bytes) || base == bytes)
        };
        let changed = blocks.iter().filter(|(block, bytes)| !is_same(block, bytes));
        let mut all: Vec<_> = changed.map(|(block, bytes)| (*block, &bytes[..])).collect();
        let gone = self.base.keys().filter(|block| !blocks.contains_key(block));
        all.extend(gone.map(|block| (*block, ZEROS)));
        all
    }

    fn digest(&self, blocks: &Blocks) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.differences(blocks).hash(&mut hasher);
        hasher.finish()
    }

    fn clean(&self, blocks: &Blocks) -> Result<(), String> {
        const ZEROS: &[u8] = &[0; BLOCK];
        let changed = self.differences(blocks);
        for (block, bytes) in &changed {
            self.file.write_all_at(bytes, block * BLOCK as u64).unwrap();
        }
        let output = Command::new("e2fsck").arg("-fn").arg(&self.path).output().unwrap();
        if !output.status.success() {
            let kept = std::env::temp_dir().join("nearhead-fs-failed.img");
            let _ = std::fs::copy(&self.path, &kept);
            let words = String::from_utf8_lossy(&output.stdout);
            return Err(format!("e2fsck (image kept at {}):\n{words}", kept.display()));
        }
        for (block, _) in &changed {
            let bytes = self.base.get(block).map_or(ZEROS, |bytes| bytes);
            self.file.write_all_at(bytes, block * BLOCK as u64).unwrap();
        }
        Ok(())
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whatever lies behind the end of a file on the disk, it must not come back when the file grows.
fn grow_all(client: &mut Client, folder: &str) -> Result<(), String> {
    const MORE: u64 = 9000;
    let ino = client.find(folder).unwrap();
    let list = FsOperation::ReadDirectory { ino, after: 0, entries_max: 1000 };
    let Ok(Answer::Entries(entries)) = client.ask(list) else { panic!("no entries") };
    for entry in entries {
        let name = String::from_utf8(entry.name).unwrap();
        let path = format!("{folder}/{name}");
        match entry.kind {
            FileKind::Directory if !name.starts_with('.') && name != "lost+found" => {
                grow_all(client, &path)?;
            }
            FileKind::Regular => {
                let size = client.size(entry.ino);
                client.cut(entry.ino, size + MORE);
                let behind = client.read(entry.ino, size, MORE as u32);
                let other = behind.iter().position(|byte| *byte != 0);
                if let Some(at) = other {
                    return Err(format!(
                        "{path}: {size} bytes long, then made longer: byte {} is {:#x}, expected zeros",
                        size + at as u64,
                        behind[at]
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
