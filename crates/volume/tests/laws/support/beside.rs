//! Cuts that do not end a life: what one would leave now is opened beside it and held against what the running engine
//! says of itself. So a mistake shows at the moment it is made, not only once somebody stumbles over what it left.
//!
//! - Everything acknowledged stands, and nothing else is read.
//! - Nothing that recovery needs may be overwritten by what the running engine writes next.
//! - Recovery finds no logged copy of which the running engine does not know: nobody would take that one back.
//!
//! The first and the third hold as well when the newest snapshot rots, header and copy: whatever is in neither slot by
//! then no record behind the older one may bring back. Space that only the older one needs may be used again by then.

use super::content::{SECTOR, versions};
use super::harness::Harness;
use super::options::Options;
use nearhead_disk::Nanos;
use nearhead_engine::Activity;
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use std::collections::BTreeMap;

/// What is looked at when something of it has changed: the newest record, the newest snapshot.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    seen: (u64, u64),
    /// Cuts that were tried.
    pub(crate) cuts: u64,
}

impl Beside {
    /// Tries cuts if a record or a snapshot has become durable since the last look; `sectors` of the volume are read.
    pub(crate) fn look(&mut self, harness: &mut Harness, sectors: u64) -> Result<(), String> {
        let status = harness.volume().status();
        let seen = (status.record_sequence, status.snapshot_number);
        if std::mem::replace(&mut self.seen, seen) == seen {
            return Ok(());
        }
        let activities = harness.volume().engine().activities();
        // One that is being written has the older one's place: then there is one alone, and two faults.
        let may_rot = !activities.iter().any(|activity| SNAPSHOTS.contains(&activity));
        for (is_lost, rots) in [(true, false), (false, false), (true, true)] {
            if rots && (!may_rot || status.snapshot_number < 2) {
                continue;
            }
            self.cuts += 1;
            let image = image_of(harness, is_lost, rots);
            check(harness, image, rots, sectors).map_err(|problem| {
                let names: Vec<&str> = activities.iter().map(Activity::name).collect();
                let kept = if is_lost { "nothing" } else { "everything" };
                format!(
                    "a cut at {seen:?} that keeps {kept} unflushed, newest snapshot rotten: {rots}, during {}: \
                     {problem}",
                    names.join(", ")
                )
            })?;
        }
        Ok(())
    }
}

const SNAPSHOTS: [Activity; 4] = [
    Activity::SnapshotBody,
    Activity::SnapshotFlush,
    Activity::SnapshotHeader,
    Activity::SnapshotCopy,
];

/// What a cut leaves.
fn image_of(harness: &mut Harness, is_lost: bool, rots: bool) -> MemoryStore {
    let disk = harness.volume().disk();
    let mut image = if is_lost { disk.safe_image() } else { disk.image() };
    if rots {
        let layout = harness.volume().superblock().layout;
        let slot = (harness.volume().status().snapshot_number % 2) as usize;
        for offset in [layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)] {
            image.write(offset + 32, &[0xa5; 8]).unwrap();
        }
    }
    image
}

fn check(
    harness: &mut Harness,
    image: MemoryStore,
    rots: bool,
    sectors: u64,
) -> Result<(), String> {
    // It only looks: what it would move by itself would be found where nothing is yet.
    let options = Options { swap_above_pct: None, ..harness.options.clone() };
    let (mut volume, now) =
        Volume::open_in_virtual_time(options.disk_with(image), Nanos::ZERO, |_, config| {
            options.configure(config);
        })
        .map_err(|error| error.to_string())?;
    let mut now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    let engine = harness.volume().engine();
    let (needed, open) = (volume.engine().needed_space(), engine.open_space());
    for (lane, needed) in needed.into_iter().filter(|_| !rots) {
        let Some(open) = open.get(&lane) else { continue };
        if let Some(range) = needed.iter().find(|range| open.overlaps(range.clone())) {
            return Err(format!(
                "bytes {range:?} of {lane:?} are needed, and may be overwritten now"
            ));
        }
    }
    let (found, known) = (volume.engine().mapped_homes(), engine.known_homes());
    if let Some(range) = found.iter().find(|range| !known.contains_range(range.clone())) {
        return Err(format!(
            "sectors {range:?} come from a log, and the running volume knows of no copy there"
        ));
    }
    let operation = Operation::Read { offset: 0, len: (sectors * SECTOR) as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    let reply = loop {
        volume.drive(now);
        if let Some(reply) = volume.poll_reply() {
            break reply;
        }
        now = volume.wake_at().ok_or("a read is never answered")?.max(now);
    };
    let parts = reply.result.map_err(|error| error.to_string())?;
    let read: BTreeMap<u64, u64> = (0..).zip(versions(0, &parts)?).collect();
    harness.oracle.check_restart(&read)
}
