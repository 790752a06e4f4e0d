//! Arrays as targets: every member opened by itself, then made one disk.
//!
//! What is checked here is what only the opened disks show: that no two members are the same disk
//! under two names, how their sizes differ, and, of an array without labels, whether a volume looks as
//! it does when the members are named as they were when it was made. Reading the text and judging
//! labels is the work of `nearhead_models`.

use super::{Access, DiskArgs, LoneMember, Target, open_model, open_real};
use nearhead_arrays::{
    ArrayKind, ArraySpec, Label, MISSING, Purpose, label_of, open_to_send as open_array,
    remove_label,
};
use nearhead_disk::{Disk, DiskError, Properties};
use nearhead_models::ModelSpec;
use nearhead_volume::SyncIo;
use nearhead_volume::create::refuse_used_part;
use nearhead_volume::open::{Copies, read_copies};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

/// Opens all members of the array that `text` describes.
pub(super) fn open(
    text: &str,
    access: Access,
    args: &DiskArgs,
    start: Instant,
) -> Result<(Box<dyn Disk + Send>, Vec<String>), String> {
    let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
    let is_mirror = matches!(spec.kind, ArrayKind::Mirror { .. });
    refuse_one_disk_twice(text, &spec)?;
    let mut disks = Vec::new();
    let mut notes = Vec::new();
    for member in &spec.members {
        if is_mirror && member == MISSING {
            disks.push(None);
        } else if ArraySpec::is_array(member) {
            let (disk, of_member) = open(member, access.of_part(), args, start)?;
            notes.extend(of_member);
            disks.push(Some(disk));
        } else if ModelSpec::is_model(member) {
            disks.push(Some(open_model(member, access)?));
        } else {
            super::refuse_unknown_kind(member)?;
            match open_real(Path::new(member), access, args) {
                Ok((disk, of_member)) => {
                    notes.extend(of_member.into_iter().map(|note| format!("{member}: {note}")));
                    disks.push(Some(disk));
                }
                // It is being replaced because it fails.
                Err(problem) if spec.replaced().is_some_and(|(old, _)| old == disks.len()) => {
                    notes.push(format!("{problem}; it is being replaced, and is left out"));
                    disks.push(None);
                }
                Err(problem) => return Err(problem),
            }
        }
    }
    let capacities: Option<Vec<u64>> =
        disks.iter().map(|disk| Some(disk.as_ref()?.properties().capacity_bytes)).collect();
    notes.extend(capacities.and_then(|capacities| spec.size_note(&capacities)));
    if matches!(access, Access::Create { force: false, .. }) {
        refuse_used_members(text, &mut disks, start)?;
    }
    let purpose = match access {
        Access::Read | Access::Beside => Purpose::Look,
        Access::Create { force, whole_runs }
            if force || !holds_a_volume(disks.first_mut(), start) =>
        {
            let mut array_id = [0; 16];
            rustix::rand::getrandom(&mut array_id, rustix::rand::GetRandomFlags::empty())
                .map_err(|error| format!("create: no random identity from the kernel: {error}"))?;
            Purpose::Make { array_id, anew: force, whole_runs }
        }
        // Who makes a volume finds the one that is there, and refuses.
        Access::Write | Access::Create { .. } => Purpose::Use,
    };
    let (disk, told) = open_array(&spec, disks, purpose, &mut |disk, command| {
        SyncIo::in_real_time(disk, start).run(command)
    })
    .map_err(|error| format!("open {text}: {error}"))?;
    notes.extend(told);
    Ok((disk, notes))
}

/// Making an array writes to every member, first of all a label to its end. So each is looked at by itself and before
/// that. A label that is there is no content.
fn refuse_used_members(
    text: &str,
    disks: &mut [Option<Box<dyn Disk + Send>>],
    start: Instant,
) -> Result<(), String> {
    let mut run =
        |disk: &mut Box<dyn Disk + Send>, command| SyncIo::in_real_time(disk, start).run(command);
    for disk in disks.iter_mut().flatten() {
        let label =
            label_of(disk, &mut run).map_err(|error| format!("create on {text}: {error}"))?;
        let capacity_bytes = disk.properties().capacity_bytes;
        let before_label = label.and_then(|_| Label::offset(capacity_bytes));
        let bytes = before_label.unwrap_or(capacity_bytes);
        refuse_used_part(&mut SyncIo::in_real_time(disk, start), bytes)
            .map_err(|error| format!("{error} (it is a member of {text})"))?;
    }
    Ok(())
}

/// Whether the first member of an array begins like a volume. The first copy of a superblock lies at
/// its beginning, whatever the array.
fn holds_a_volume(first: Option<&mut Option<Box<dyn Disk + Send>>>, start: Instant) -> bool {
    let Some(disk) = first.and_then(Option::as_mut) else { return false };
    read_copies(&mut SyncIo::in_real_time(disk, start)).copies[0].is_ok()
}

/// Refuses to change a member of an array by itself: the others would not know. What people should
/// know is told if it is only read.
pub(super) fn refuse_lone_member(
    text: &str,
    disk: &mut Box<dyn Disk + Send>,
    access: Access,
    start: Instant,
) -> Result<Option<LoneMember>, String> {
    let mut run =
        |disk: &mut Box<dyn Disk + Send>, command| SyncIo::in_real_time(disk, start).run(command);
    let failed = |error: DiskError| format!("open {text}: {error}");
    let Some(label) = label_of(disk, &mut run).map_err(failed)? else { return Ok(None) };
    let (member, count) = (label.index + 1, label.count);
    let kind = if label.is_mirror() { "mirror" } else { "stripe" };
    let what = format!("{text} is member {member} of {count} of a {kind} ({})", label.array_name());
    match access {
        Access::Read | Access::Beside if label.is_mirror() => {
            let told = format!("{what}; the other members may be newer");
            Ok(Some(LoneMember { told, is_whole: true }))
        }
        Access::Read | Access::Beside => Ok(Some(LoneMember { told: what, is_whole: false })),
        Access::Create { force: true, .. } => {
            remove_label(disk, &mut run).map_err(failed)?;
            Ok(None)
        }
        Access::Write | Access::Create { force: false, .. } => {
            let missing = vec![MISSING; usize::from(count) - 1].join(",");
            let alone = format!("mirror:{text},{missing}");
            let how = if label.is_mirror() { alone.as_str() } else { "raid0: and all its members" };
            // Only who wanted to make something of it is told how to.
            let or = if access == Access::Write {
                ""
            } else {
                ", or give the disk another use with --force, which destroys what it has of the array"
            };
            Err(format!(
                "open {text}: expected a disk of its own: {what}; name the array, {how}{or}"
            ))
        }
    }
}

/// What two names of one disk have in common; none where there is nothing yet.
fn identity(member: &str) -> Option<(u64, u64)> {
    let path = super::backing_path(member).ok()??;
    let found = std::fs::metadata(path).ok()?;
    let is_device = found.file_type().is_block_device();
    Some(if is_device { (u64::MAX, found.rdev()) } else { (found.dev(), found.ino()) })
}

pub(super) fn refuse_one_disk_twice(text: &str, spec: &ArraySpec) -> Result<(), String> {
    let of_member = |member: &String| match ArraySpec::parse(member) {
        Ok(nested) => nested.members,
        Err(_) => vec![member.clone()],
    };
    let members: Vec<String> = spec.members.iter().flat_map(of_member).collect();
    let known: Vec<_> = members.iter().map(|member| (member, identity(member))).collect();
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

/// What a volume on an array with these facts is labelled with if its owner gives no label; none on one disk.
pub fn label(text: &str, disk: &Properties) -> Option<String> {
    let spec = ArraySpec::is_array(text).then(|| ArraySpec::parse(text).ok())??;
    let has_whole_logs = disk.striping.is_some_and(|striping| striping.whole_runs().is_some());
    let logs = if has_whole_logs { ", logs on one each" } else { "" };
    matches!(spec.kind, ArrayKind::Stripe { .. }).then(|| spec.shape() + logs)
}

/// Refuses a volume on an array whose members seem to be named otherwise than when it was made: its
/// superblock's copies are not all where they should be, or its label tells of another array.
///
/// Of an array without labels this is what there is to go by. The copies lie on up to three members;
/// two others that changed places among themselves are not found out.
pub fn refuse_if_misnamed(target: &mut Target) -> Result<(), String> {
    let disk = target.lanes.properties();
    let Some(shape) = label(&target.name, disk) else { return Ok(()) };
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
