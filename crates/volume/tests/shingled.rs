//! Volumes on shingled disks, where logs are apart from the data and homes are written band by band.

#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod support;

use nearhead_arrays::model_from_text;
use nearhead_basics::SplitMix;
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket, Zones};
use nearhead_format::superblock::features_of;
use nearhead_format::{Label, Superblock};
use nearhead_models::{Model, Report, SmrStats};
use nearhead_service::{Operation, Service};
use nearhead_volume::lost_superblock::{Known, search};
use nearhead_volume::{
    CreateOptions, GatheredDisk, NamedPreset, OpenError, SyncIo, Volume, create,
};
use std::collections::BTreeMap;
use support::Run;

const BLOCK: u64 = 4096;

/// A shingled disk, as volumes want it; what is below can be reached.
type Gathered = GatheredDisk<Box<dyn Model>>;

fn gathered(text: &str) -> Gathered {
    GatheredDisk::new(model_from_text(text).unwrap()).unwrap()
}

fn options(preset: &str) -> CreateOptions {
    let named = NamedPreset::by_name(preset).unwrap();
    CreateOptions { force: true, ..CreateOptions::new([3; 16], named) }
}

/// A volume on a shingled disk, and what its client wrote.
struct Shingled {
    run: Run<Gathered>,
    /// What every block must read as.
    versions: BTreeMap<u64, u64>,
}

impl Shingled {
    fn create(disk: &str, preset: &str) -> Self {
        let mut disk = gathered(disk);
        create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options(preset)).unwrap();
        Self::open(disk, Nanos::from_secs(60), BTreeMap::new())
    }

    fn open(disk: Gathered, now: Nanos, versions: BTreeMap<u64, u64>) -> Self {
        // Only what a test asks for.
        let run = Run::open(disk, now, |config| config.cleaning.idle_after = None);
        Self { run, versions }
    }

    fn write_durably(&mut self, block: u64, count: u64, version: u64) {
        let id = self.run.write(block..block + count, version);
        self.run.wait(id);
        self.versions.extend((block..block + count).map(|block| (block, version)));
    }

    fn check(&mut self) {
        for (&block, &version) in &self.versions {
            assert_eq!(self.run.version(block), version, "block {block}");
        }
    }

    /// One checkpoint of everything, until it ends or `until`.
    fn checkpoint(&mut self, until: Nanos) {
        self.run.volume.start_checkpoint(true, self.run.now);
        loop {
            self.run.volume.drive(self.run.now);
            let wake = self.run.volume.wake_at().filter(|&at| at <= until);
            match wake {
                Some(at) if self.run.volume.status().checkpointing => {
                    self.run.now = at.max(self.run.now);
                }
                _ => return,
            }
        }
    }

    fn power_cut(self, random: &mut SplitMix) -> Self {
        let mut disk = self.run.volume.into_disk().into_disk();
        disk.power_cut(self.run.now, random).unwrap();
        Self::open(GatheredDisk::new(disk).unwrap(), self.run.now, self.versions)
    }

    fn stop_and_start(mut self) -> Self {
        self.run.now = nearhead_laws::stop(&mut self.run.volume, self.run.now);
        Self::open(self.run.volume.into_disk(), self.run.now, self.versions)
    }

    fn disk_stats(&self) -> SmrStats {
        match self.run.volume.disk().disk().report() {
            Report::Shingled(stats) => *stats,
            other => panic!("expected a shingled disk, found {other:?}"),
        }
    }

    /// The band of a client byte, in the client's addresses.
    fn band(&self, offset: u64) -> std::ops::Range<u64> {
        let start = self.run.volume.superblock().layout.data_offset;
        let zones: &Zones = self.run.volume.disk().zones().unwrap();
        let band = zones.band_at(start + offset).unwrap();
        band.start.saturating_sub(start)..band.end - start
    }
}

const DISKS: [(&str, &str); 4] = [
    ("model:st8000as0002-slsmr,cache=on", "slsmr"),
    ("model:st8000as0002-mlsmr,cache=on", "mlsmr"),
    ("model:st8000as0002-mlsmr", "mlsmr"),
    ("model:st8000as0002-mlsmr", "slsmr"),
];

#[test]
fn what_was_durable_is_there_after_power_cuts_also_in_the_middle_of_a_band() {
    for (disk, preset) in DISKS {
        let mut random = SplitMix::new(5);
        let mut shingled = Shingled::create(disk, preset);
        let blocks = shingled.run.volume.info().size_bytes / BLOCK;
        for round in 1..=3 {
            println!("repeat with {disk}, {preset}, round {round}");
            for step in 0..20 {
                // Three places far from each other; large writes are logged like small ones.
                let first = blocks / 3 * (step % 3) + random.below(20_000);
                let count = if step == 7 { 600 } else { 1 + random.below(4) };
                shingled.write_durably(first, count, round);
            }
            assert_eq!(
                shingled.run.volume.status().stats.in_place_bytes,
                0,
                "all writes are logged"
            );
            let end = shingled.run.now + Nanos::from_millis(random.below(4000));
            shingled.checkpoint(end);
            shingled = shingled.power_cut(&mut random);
            shingled.check();
        }
    }
}

#[test]
fn a_checkpoint_writes_every_band_once_and_lets_all_of_it_go() {
    let mut shingled = Shingled::create("model:st8000as0002-mlsmr", "mlsmr");
    let size_bytes = shingled.run.volume.info().size_bytes;
    let middle = shingled.band(size_bytes / 2);
    let (first, bytes) = (middle.start.div_ceil(BLOCK), middle.end - middle.start);
    // More entries than one record lets go, and a band next to it; neither is covered wholly.
    for index in 0..1500 {
        shingled.write_durably(first + index * 3, 2, 1);
    }
    shingled.write_durably(middle.end.div_ceil(BLOCK) + 5, 1, 1);
    assert!(1500 * 3 * BLOCK < bytes, "the blocks are in one band of {bytes} bytes");
    let before = shingled.disk_stats().bands_rewritten;
    shingled.checkpoint(Nanos::MAX);
    let status = shingled.run.volume.status();
    assert_eq!((status.map_entries, status.stats.bands_written), (0, 2));
    assert_eq!(shingled.disk_stats().bands_rewritten - before, 2, "the disk did it once for each");
    shingled.check();
}

#[test]
fn a_full_log_moves_to_a_cold_one_without_any_band_being_rewritten() {
    let mut shingled = Shingled::create("model:st8000as0002-mlsmr", "mlsmr");
    let log_bytes = shingled.run.volume.superblock().layout.log_bytes;
    let before = shingled.disk_stats().bands_rewritten;
    // More than the logs hold that an idle disk is given in turn, whichever comes round first.
    let writes = 12 * log_bytes / (64 * BLOCK);
    for index in 0..writes {
        shingled.write_durably(index * 64, 64, index + 1);
        if index % 8 == 7 {
            // Somebody reads here, so the head stays; then nobody asks for anything.
            let id = shingled.run.send(Operation::Read { offset: 900_000 * BLOCK, len: 4096 });
            shingled.run.wait(id);
            shingled.run.rest(Nanos::from_secs(6));
        }
    }
    let stats = shingled.run.volume.status().stats;
    assert!(stats.swaps > 0 && stats.swapped_bytes > 0, "{stats:?}");
    assert_eq!(shingled.disk_stats().bands_rewritten, before, "{stats:?}");
    shingled.check();
}

/// Mean time of a durable write of one block after a read at a third of the data, over many.
fn write_ms(disk: &mut Gathered, share_between: f64) -> f64 {
    let zones = disk.zones().unwrap();
    let (free, end) = (zones.non_shingled_start_bytes(), disk.properties().capacity_bytes);
    let place = |start: u64, len: u64, share: f64, index: u64| {
        start + (len as f64 * share) as u64 / BLOCK * BLOCK + index * 16 * BLOCK
    };
    let (mut now, mut total) = (disk.wake_at().unwrap_or(Nanos::from_secs(1)), Nanos::ZERO);
    let carry_out = |disk: &mut Gathered, id: u64, command: Command, now: &mut Nanos| {
        let (ticket, started) = (Ticket::new(CommandId(id)), *now);
        disk.submit(Submission { ticket, class: Class::Durable, command }, *now);
        disk.kick();
        loop {
            if let Some(done) = disk.poll(*now) {
                done.result.unwrap();
                return now.since(started);
            }
            *now = disk.wake_at().unwrap();
        }
    };
    for index in 0..200 {
        let offset = place(free, end - free, 1.0 / 3.0, index);
        let read = Command::Read { offset, len: BLOCK as u32 };
        carry_out(disk, 2 * index, read, &mut now);
        now += Nanos::from_micros(731);
        let offset = place(0, free, 1.0 / 3.0 + share_between, index);
        let parts = vec![Payload::Phantom(BLOCK as usize)];
        let write = Command::Write { offset, parts, durable: true };
        total += carry_out(disk, 2 * index + 1, write, &mut now);
        now += Nanos::from_micros(731);
    }
    total.as_millis_f64() / 200.0
}

#[test]
fn a_place_among_the_logs_is_near_the_data_that_is_as_far_in() {
    let mut disk = gathered("model:st8000as0002-mlsmr,content=none");
    let beside = write_ms(&mut disk, 0.0);
    for away in [-0.3, -0.1, 0.1, 0.3] {
        let there = write_ms(&mut disk, away);
        assert!(there > beside + 2.0, "{beside} ms beside it, {there} ms {away} of the disk away");
    }
}

#[test]
fn a_shingled_volume_opens_on_its_own_disk_only() {
    let shingled = Shingled::create("model:st8000as0002-mlsmr", "mlsmr");
    let disk = shingled.run.volume.into_disk().into_disk();
    // The disk as it is, with its non-shingled ranges between the bands.
    let opened = Volume::open_in_virtual_time(disk, Nanos::from_secs(90), |_, _| {});
    match opened.err() {
        Some(error @ OpenError::Zones { .. }) => {
            let text = error.to_string();
            assert!(text.contains("expected") && text.contains("found"), "{text}");
        }
        other => panic!("expected a refusal for the wrong zones, found {other:?}"),
    }
}

#[test]
fn a_disk_that_does_not_tell_its_bands_is_refused_with_what_to_use_instead() {
    for name in ["model:st8000as0002,content=none", "model:st3146855fc,content=none"] {
        let mut disk = model_from_text(name).unwrap();
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let error = create(&mut io, &options("mlsmr")).unwrap_err().to_string();
        let tells = ["not shingled", "expected", "found", "use mlb"];
        assert!(tells.iter().all(|words| error.contains(words)), "{name}: {error}");
    }
}

/// Volumes of before have their records in order; what lies on the disk tells them from those that are made now.
#[test]
fn a_volume_without_superblocks_is_found_with_its_records_in_the_order_that_they_have() {
    for in_order in [true, false] {
        let mut disk = gathered("model:st8000as0002-mlsmr");
        let io = &mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let mut lost = create(io, &options("mlsmr")).unwrap();
        if in_order {
            lost.layout = lost.layout.with_records_in_order();
            lost.feature_incompat = features_of(&lost.layout);
            write_superblocks(io, &lost);
        }
        assert_eq!(lost.layout.records_anywhere, !in_order);
        let mut shingled = Shingled::open(disk, Nanos::from_secs(60), BTreeMap::new());
        // Two snapshots, so that none is left that `create` wrote.
        for version in 1..=2 {
            shingled.write_durably(1000 * version, 4, version);
            shingled = shingled.stop_and_start();
        }
        let now = shingled.run.now;
        let mut disk = shingled.run.volume.into_disk();
        let io = &mut SyncIo::in_virtual_time(&mut disk, now);
        for at in lost.layout.superblock_offsets() {
            io.write(at, &[0; 4096]).unwrap();
        }
        let known = Known {
            preset: None,
            group_bytes: None,
            log_bytes: None,
            grow_to_bytes: None,
            grown_from_bytes: None,
            logged_write_bytes_max: None,
            ack: lost.ack,
            label: Label::default(),
            second_snapshot_is_far: None,
        };
        let found = search(io, &known).unwrap();
        assert_eq!(found.superblock.layout, lost.layout, "in order: {in_order}");
        assert_eq!(found.superblock.feature_incompat, lost.feature_incompat);
    }
}

fn write_superblocks(io: &mut SyncIo<'_>, superblock: &Superblock) {
    for (copy, at) in superblock.layout.superblock_offsets().into_iter().enumerate() {
        io.write(at, &superblock.encode(copy as u32)).unwrap();
    }
    io.flush().unwrap();
}
