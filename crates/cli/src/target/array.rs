//! Arrays as targets: every member opened by itself, then made one disk.
//!
//! What is checked here is what only the opened disks show: that no two members are the same disk
//! under two names, how their sizes differ, and whether a volume looks as it does when the members
//! are named as they were when it was made. Reading the text is the work of
//! `nearhead_models::ArraySpec`.

use super::{Access, DiskArgs, Target, open_model, open_real};
use nearhead_disk::Disk;
use nearhead_models::{ArrayKind, ArraySpec, ModelSpec};
use nearhead_volume::open::{Copies, read_copies};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Opens all members of the array that `text` describes.
pub(super) fn open(
    text: &str,
    access: Access,
    args: &DiskArgs,
) -> Result<(Box<dyn Disk>, Vec<String>), String> {
    let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
    refuse_one_disk_twice(text, &spec)?;
    let mut disks = Vec::new();
    let mut notes = Vec::new();
    for member in &spec.members {
        if ModelSpec::is_model(member) {
            disks.push(open_model(member, access)?);
        } else {
            let (disk, of_member) = open_real(Path::new(member), access, args)?;
            notes.extend(of_member.into_iter().map(|note| format!("{member}: {note}")));
            disks.push(disk);
        }
    }
    let capacities: Vec<u64> = disks.iter().map(|disk| disk.properties().capacity_bytes).collect();
    notes.extend(spec.size_note(&capacities));
    let disk = spec.build(disks).map_err(|error| format!("open {text}: {error}"))?;
    Ok((disk, notes))
}

/// What two names of one disk have in common; none where there is nothing yet.
fn identity(member: &str) -> Option<(u64, u64)> {
    let path = super::backing_path(member).ok()??;
    let found = std::fs::metadata(path).ok()?;
    let is_device = found.file_type().is_block_device();
    Some(if is_device { (u64::MAX, found.rdev()) } else { (found.dev(), found.ino()) })
}

fn refuse_one_disk_twice(text: &str, spec: &ArraySpec) -> Result<(), String> {
    let known: Vec<_> = spec.members.iter().map(|member| (member, identity(member))).collect();
    for (index, (member, identity)) in known.iter().enumerate() {
        let same = |(_, other): &&(_, Option<_>)| identity.is_some() && other == identity;
        if let Some((other, _)) = known[..index].iter().find(same) {
            return Err(format!(
                "open {text}: expected a disk of its own for every member, found {other} and \
                 {member} to be the same one"
            ));
        }
    }
    Ok(())
}

/// What a volume on an array is labelled with if its owner gives no label; none on one disk.
pub fn label(text: &str) -> Option<String> {
    let spec = ArraySpec::is_array(text).then(|| ArraySpec::parse(text).ok())??;
    matches!(spec.kind, ArrayKind::Stripe { .. }).then(|| spec.shape())
}

/// Refuses a volume on an array whose members seem to be named otherwise than when it was made: its
/// superblock's copies are not all where they should be, or its label tells of another array.
///
/// An array keeps nothing about itself, so this is what there is to go by. The copies lie on up to
/// three members; two others that changed places among themselves are not found out.
pub fn refuse_if_misnamed(target: &mut Target) -> Result<(), String> {
    let Some(shape) = label(&target.name) else { return Ok(()) };
    let name = target.name.clone();
    let Copies { offsets, copies } = read_copies(&mut target.io());
    for (copy, offset) in copies.iter().zip(offsets) {
        match copy {
            Err(error) => {
                return Err(format!(
                    "open {name}: superblock copy at byte {offset}: {error}; expected all three \
                     copies to be sound before anything on an array is changed: name its members \
                     and ?chunk= as when the volume was made, or, if they are, run `nearhead repair`"
                ));
            }
            Ok(superblock) => {
                let label = superblock.label.as_str();
                if label.starts_with("raid0 of ") && label != shape {
                    return Err(format!(
                        "open {name}: expected the array that the volume was made on, {label:?}, \
                         found {shape:?}; name its members and ?chunk= as then"
                    ));
                }
            }
        }
    }
    Ok(())
}
