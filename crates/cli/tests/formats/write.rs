//! Writes a golden image: the same life of a volume for each preset, in virtual time, cut at its end.
//!
//! It leaves what a reader of the format may meet: a snapshot that is not the first, records behind
//! it, chunks cut by later ones, zeros in the map, invalidations by large writes and trims, an atomic
//! write, a durability-only range. Only what is certain is written down as held: not what was trimmed.

use crate::fixture::{Fixture, SECTOR, content};
use nearhead_arrays::{ArraySpec, Purpose, model_from_text, open as open_array};
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Disk, Nanos, Payload};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label};
use nearhead_models::Model;
use nearhead_service::{Changed, Hint, Operation, Request, RequestId, Service};
use nearhead_swarm::Eager;
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, SyncIo, Volume, create};
use std::collections::BTreeMap;
use std::path::Path;

struct Life<D: Disk> {
    volume: Volume<D>,
    now: Nanos,
    version: u64,
    holds: BTreeMap<u64, u64>,
}

impl<D: Disk> Life<D> {
    fn run(&mut self, operation: Operation) {
        self.volume.submit(Request { id: RequestId(1), operation }, self.now);
        loop {
            self.volume.drive(self.now);
            if let Some(reply) = self.volume.poll_reply() {
                reply.result.unwrap();
                return;
            }
            self.now = self.volume.wake_at().unwrap().max(self.now);
        }
    }

    fn payload(&mut self, start: u64, sectors: u64) -> Payload {
        self.version += 1;
        let bytes: Vec<u8> =
            (start..start + sectors).flat_map(|sector| content(sector, self.version)).collect();
        self.holds.extend((start..start + sectors).map(|sector| (sector, self.version)));
        Payload::Bytes(BufferMut::copy_of(&bytes).freeze())
    }

    fn write(&mut self, start: u64, sectors: u64) {
        let data = self.payload(start, sectors);
        self.run(Operation::Write { offset: start * SECTOR as u64, data, fua: true });
    }

    fn zero(&mut self, start: u64, sectors: u64) {
        self.holds.extend((start..start + sectors).map(|sector| (sector, 0)));
        let (offset, len) = (start * SECTOR as u64, sectors * SECTOR as u64);
        self.run(Operation::WriteZeroes {
            offset,
            len,
            fua: true,
            fast_only: false,
            may_unmap: false,
        });
    }

    fn trim(&mut self, start: u64, sectors: u64) {
        self.holds.retain(|sector, _| !(start..start + sectors).contains(sector));
        let (offset, len) = (start * SECTOR as u64, sectors * SECTOR as u64);
        self.run(Operation::Trim { offset, len, fua: true });
    }

    fn snapshot(&mut self) {
        let before = self.volume.status().stats.snapshots;
        self.volume.start_snapshot(self.now);
        while self.volume.status().stats.snapshots == before {
            self.volume.drive(self.now);
            if let Some(wake) = self.volume.wake_at() {
                self.now = wake.max(self.now);
            }
        }
    }

    /// Writes at four places of the volume, of every size.
    fn work(&mut self, round: u64) {
        let quarter = self.volume.info().size_bytes / SECTOR as u64 / 4 / 8 * 8;
        for place in 0..4 {
            let base = place * quarter + 40;
            for block in 0..3 {
                self.write(base + 8 * (2 * block + round), 8);
            }
            self.write(base + 3 + round, 3);
            self.write(base + 8 * (1 + round) + 5, 6);
            self.zero(base + 18, 4);
            self.trim(base + 33, 2);
        }
        self.write(quarter + 36 + round, 700);
        self.write(quarter + 200, 2);
    }

    /// Bytes of some sectors, over a logged block, over zeros, and over what is at home.
    fn bytes(&mut self, round: u64) {
        let quarter = self.volume.info().size_bytes / SECTOR as u64 / 4 / 8 * 8;
        for start in [43, 58, quarter + 300 + round, 2 * quarter + 41, 3 * quarter + 5000 + round] {
            let before = content(start, self.holds.get(&start).copied().unwrap_or(0));
            let data = self.payload(start, 1);
            let after = content(start, self.version);
            let first = start * SECTOR as u64;
            let differ = (0..SECTOR).filter(|at| before[*at] != after[*at]);
            let changed = differ.map(|at| first + at as u64..first + at as u64 + 1).collect();
            let (extents, changed) = (vec![(first, data)], Changed::Only(changed));
            self.run(Operation::WriteAtomic { extents, changed });
        }
        assert!(self.volume.status().stats.fragments > 50, "no bytes of records: it is no test");
    }

    fn atomic(&mut self) {
        let extents = [16, 4000].map(|start| (start * SECTOR as u64, self.payload(start, 4)));
        self.run(Operation::WriteAtomic { extents: extents.to_vec(), changed: Changed::All });
    }
}

/// What the second disk of a volume is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    Map,
    Stripe,
    Mirror,
}

/// Lives a volume of `preset` and keeps what a power cut leaves of it.
pub(crate) fn write(
    preset: &'static str,
    profile: &str,
    folder: &Path,
    fragments: bool,
) -> Fixture {
    let text = format!("model:{},cache=on", folder.join(profile).display());
    let disk = model_from_text(&text).unwrap();
    let (lanes, now, holds) = live(preset, disk.into(), fragments);
    let (mut disk, _) = lanes.into_parts();
    disk.power_cut(now, &mut SplitMix::new(1)).unwrap();
    let disk_bytes = disk.properties().capacity_bytes;
    let sectors = not_zero(&mut disk, now, disk_bytes);
    Fixture { profile: profile.to_owned(), disk_bytes, sectors, holds }
}

/// The same on two disks, whose caches are lost with the program. What is held is in the first.
pub(crate) fn write_two(
    preset: &'static str,
    second: Second,
    profile: &str,
    folder: &Path,
    scratch: &Path,
) -> [Fixture; 2] {
    let files = ["first.img", "second.img"].map(|name| scratch.join(name));
    let [first, other] = files.each_ref().map(|file| {
        let profile = folder.join(profile);
        let text = format!("model:{},cache=on,file={}", profile.display(), file.display());
        model_from_text(&text).unwrap()
    });
    let lanes = match second {
        Second::Map => {
            let (first, other): (Box<dyn Disk>, Box<dyn Disk>) = (Box::new(first), Box::new(other));
            Lanes::with_map(first, other).unwrap()
        }
        Second::Stripe => array("raid0:first,second?chunk=16k", first, other).into(),
        Second::Mirror => array("mirror:first,second", first, other).into(),
    };
    let (_, _, holds) = live(preset, lanes, false);
    let [first, other] = files.map(|file| {
        let bytes = std::fs::read(file).unwrap();
        let sectors = (0..).zip(bytes.chunks(SECTOR).map(<[u8]>::to_vec));
        let sectors = sectors.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0)).collect();
        let disk_bytes = bytes.len() as u64;
        Fixture { profile: profile.to_owned(), disk_bytes, sectors, ..Fixture::default() }
    });
    [Fixture { holds, ..first }, other]
}

fn array(text: &str, first: Box<dyn Model>, second: Box<dyn Model>) -> Box<dyn Disk> {
    let spec = ArraySpec::parse(text).unwrap();
    let purpose = Purpose::Make { array_id: *b"golden array id.", anew: true, whole_runs: None };
    let disks = vec![Some(first), Some(second)];
    let (disk, _) = open_array(&spec, disks, purpose, &mut |disk, command| {
        SyncIo::in_virtual_time(disk, Nanos::ZERO).run(command)
    })
    .unwrap();
    disk
}

/// The life of a volume of `preset` on these disks: the disks, when it ended, and what is certainly held.
fn live<D: Disk>(
    preset: &'static str,
    mut lanes: Lanes<D>,
    fragments: bool,
) -> (Lanes<D>, Nanos, BTreeMap<u64, u64>) {
    let named = NamedPreset::by_name(preset).unwrap();
    let many = preset.starts_with("mlb");
    let options = CreateOptions {
        volume_id: *b"golden volume id",
        created_unix_s: 1_763_769_600,
        preset: named,
        logged_write_bytes_max: named.logged_write_bytes_max.min(1 << 20),
        group_bytes: many.then_some(8 << 20),
        log_bytes: many.then_some(1 << 20),
        ack: AckMode::Flush,
        label: Label::new("golden".to_owned()).unwrap(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments,
        force: true,
    };
    create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
    let from = Nanos::from_secs(60);
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, from, |_, config| {
        // Only where a volume takes bytes it is asked about them.
        config.packing = Box::new(Eager(config.packing.clone()));
    })
    .unwrap();
    let now = volume.run_until_open(now).unwrap();
    let mut life = Life { volume, now, version: 0, holds: BTreeMap::new() };
    life.run(Operation::Hint { offset: 4096, len: 8192, hint: Hint::DurabilityOnly });
    life.work(0);
    if fragments {
        life.bytes(0);
    }
    life.snapshot();
    life.work(1);
    if fragments {
        life.bytes(1);
    }
    if preset != "nolog" {
        life.atomic();
    }
    life.run(Operation::Flush);
    let Life { volume, now, holds, .. } = life;
    (volume.into_lanes(), now, holds)
}

fn not_zero(disk: &mut dyn Disk, now: Nanos, disk_bytes: u64) -> BTreeMap<u64, Vec<u8>> {
    const STEP: u64 = 1 << 20;
    let mut sectors = BTreeMap::new();
    let mut io = SyncIo::in_virtual_time(disk, now);
    for offset in (0..disk_bytes).step_by(STEP as usize) {
        let bytes = io.read(offset, STEP.min(disk_bytes - offset) as usize).unwrap();
        let chunks = (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR));
        let kept = chunks.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
        sectors.extend(kept.map(|(sector, bytes)| (sector, bytes.to_vec())));
    }
    sectors
}
