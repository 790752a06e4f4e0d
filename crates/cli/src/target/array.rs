//! Arrays as targets: every member opened by itself, then made one disk.
//!
//! What is checked here is what only the opened disks show: that no two members are the same disk
//! under two names, and how their sizes differ. Reading the text is the work of
//! `nearhead_models::ArraySpec`.

use super::{Access, DiskArgs, open_model, open_real};
use nearhead_disk::Disk;
use nearhead_models::{ArraySpec, ModelSpec};
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
