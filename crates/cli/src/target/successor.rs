//! A disk that is to replace a member of a mirror: judged while the mirror is served, and given its label while the mirror is closed.
//!
//! It must never write to a disk that another process uses, nor over the contents of others without consent.

use super::{Access, Beside, DeviceNames, DiskArgs, array, data, open_real};
use nearhead_arrays::{
    ArraySpec, LABEL_BYTES, Label, MISSING, Replacement, label_of, label_successor as write_label,
};
use nearhead_disk::{Disk, DiskError};
use nearhead_models::ModelSpec;
use nearhead_volume::SyncIo;
use nearhead_volume::create::refuse_used_part;
use std::path::Path;
use std::time::Instant;

type OneDisk = Box<dyn Disk + Send>;

/// Refuses a disk that cannot replace a member of `replacement.mirror`, whose other members are in use: one that is in use itself, too small,
/// has larger sectors, is one of the devices `during` the replacement already, or holds something (unless `force`).
pub fn check_successor(
    replacement: &Replacement,
    during: &DeviceNames,
    force: bool,
    args: &DiskArgs,
) -> Result<(), String> {
    let disks = during.disk_args(args);
    data::refuse_one_device_twice(&during.target, &disks, &Beside::of(&disks)?)?;
    let Replacement { new, mirror, old, .. } = replacement;
    let start = Instant::now();
    let whole = ArraySpec::parse(&replacement.during).map_err(|error| error.to_string())?;
    array::refuse_one_disk_twice(&replacement.during, &whole)?;
    let spec = ArraySpec::parse(mirror).map_err(|error| error.to_string())?;
    let mut others = spec.members.iter().filter(|member| *member != old && *member != new);
    let known = others.find_map(|member| label_in_use(member, args, start));
    let (mut disk, _) = open_real(Path::new(new), Access::Write, args)?;
    let properties = disk.properties().clone();
    if let Some((label, sector_bytes)) = &known {
        let expected = label.member_bytes + LABEL_BYTES;
        let room = Label::offset(properties.capacity_bytes);
        if room.is_none_or(|room| room < label.member_bytes) {
            return Err(format!(
                "{new}: expected at least {expected} bytes, as much as the other members use, found {}; choose a larger one",
                properties.capacity_bytes
            ));
        }
        if properties.sector_bytes > *sector_bytes {
            return Err(format!(
                "{new}: expected sectors of at most {sector_bytes} bytes, as the other members have, found {}; choose another device",
                properties.sector_bytes
            ));
        }
    }
    if force {
        return Ok(());
    }
    let own = label_of(&mut disk, &mut |disk: &mut OneDisk, command| {
        SyncIo::in_real_time(disk, start).run(command)
    });
    let own = own.map_err(|error| format!("{new}: {error}"))?;
    let is_begun =
        |own: &Label, label: &Label| own.array_id == label.array_id && !own.counts(own.index);
    match (own, &known) {
        // An earlier attempt of the same replacement.
        (Some(own), Some((label, _))) if is_begun(&own, label) => return Ok(()),
        (Some(own), _) => {
            return Err(format!(
                "{new}: expected a disk that holds nothing, found member {} of {} of an array ({}); choose another one, or overwrite it with \
                 --force",
                own.index + 1,
                own.count,
                own.array_name()
            ));
        }
        (None, _) => {}
    }
    refuse_used_part(&mut SyncIo::in_real_time(&mut disk, start), properties.capacity_bytes)
        .map_err(|error| format!("{error} (it is to replace {old})"))
}

/// The label of a member that is in use, and the size of its sectors; none if it cannot be read now.
fn label_in_use(member: &str, args: &DiskArgs, start: Instant) -> Option<(Label, u32)> {
    if member == MISSING || ModelSpec::is_model(member) {
        return None;
    }
    let (mut disk, _) = open_real(Path::new(member), Access::Beside, args).ok()?;
    let label = label_of(&mut disk, &mut |disk: &mut OneDisk, command| {
        SyncIo::in_real_time(disk, start).run(command)
    });
    Some((label.ok()??, disk.properties().sector_bytes))
}

/// Writes the label of the successor. The mirror must be closed: its members are opened here.
pub fn label_successor(replacement: &Replacement, args: &DiskArgs) -> Result<(), String> {
    let start = Instant::now();
    let spec = ArraySpec::parse(&replacement.mirror).map_err(|error| error.to_string())?;
    let opened = |(place, member): (usize, &String)| -> Result<Option<OneDisk>, String> {
        if member == MISSING {
            return Ok(None);
        }
        let is_new = place + 1 == spec.members.len();
        let access = if is_new { Access::Write } else { Access::Read };
        let disk = if ModelSpec::is_model(member) {
            super::open_model(member, access)
        } else {
            open_real(Path::new(member), access, args).map(|(disk, _)| disk)
        };
        match disk {
            Err(_) if *member == replacement.old => Ok(None),
            disk => disk.map(Some),
        }
    };
    let disks: Result<Vec<_>, String> = spec.members.iter().enumerate().map(opened).collect();
    let mut run = |disk: &mut OneDisk, command| -> Result<_, DiskError> {
        SyncIo::in_real_time(disk, start).run(command)
    };
    write_label(&spec, &mut disks?, &mut run).map_err(|error| error.to_string())
}
