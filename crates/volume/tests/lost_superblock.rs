//! Superblocks that are made again from what lies on the disk: of volumes that grew, have a map device or are on a
//! shingled disk. The law is the same for all: exactly the layout that was lost, or nothing.

#![allow(clippy::unwrap_used)]

#[expect(dead_code, reason = "shared with tests that need more of it")]
mod support;

use nearhead_arrays::model_from_text;
use nearhead_disk::{Disk, Nanos, Properties};
use nearhead_format::{AckMode, Label, Superblock};
use nearhead_models::CrashDisk;
use nearhead_service::Service;
use nearhead_volume::lost_superblock::{Fit, Known, SearchError, search, write};
use nearhead_volume::{
    CreateOptions, GatheredDisk, Lanes, NamedPreset, SyncIo, create, find_superblock, grow,
};
use std::path::Path;
use support::Run;

const MIB: u64 = 1 << 20;

fn known(preset: Option<&str>, grown_from: Option<u64>) -> Known {
    Known {
        preset: preset.map(|name| NamedPreset::by_name(name).unwrap()),
        group_bytes: None,
        log_bytes: None,
        grow_to_bytes: None,
        grown_from_bytes: grown_from,
        logged_write_bytes_max: None,
        ack: AckMode::Flush,
        label: Label::default(),
        second_snapshot_is_far: None,
    }
}

fn options(preset: &str, volume_id: u8) -> CreateOptions {
    let named = NamedPreset::by_name(preset).unwrap();
    CreateOptions { force: true, ..CreateOptions::new([volume_id; 16], named) }
}

/// Disks and the time on their clock.
struct On<D> {
    disk: Lanes<D>,
    now: Nanos,
}

impl<D: Disk> On<D> {
    fn new(disk: impl Into<Lanes<D>>) -> Self {
        Self { disk: disk.into(), now: Nanos::from_secs(1) }
    }

    fn io(&mut self) -> SyncIo<'_> {
        // Whatever came before took less.
        self.now += Nanos::from_secs(60);
        self.disk.in_virtual_time(self.now)
    }

    fn made(mut self, options: &CreateOptions) -> Self {
        create(&mut self.io(), options).unwrap();
        self
    }

    fn open(mut self) -> Run<D> {
        self.now += Nanos::from_secs(60);
        Run::open(self.disk, self.now, |config| config.cleaning.idle_after = None)
    }

    /// Writes to `blocks`, a record each, and stops in order.
    fn written(self, blocks: &[u64], version: u64) -> Self {
        let mut run = self.open();
        for &block in blocks {
            let id = run.write(block..block + 1, version);
            run.wait(id);
        }
        run.volume.begin_shutdown(run.now);
        while !run.volume.is_shut_down() {
            run.volume.drive(run.now);
            run.now = run.volume.wake_at().unwrap_or(run.now).max(run.now);
        }
        Self { now: run.now, disk: run.volume.into_lanes() }
    }

    /// Zeros over all superblocks; what they were.
    fn lose(&mut self) -> Superblock {
        let superblock = find_superblock(&mut self.io()).unwrap().superblock;
        for offset in superblock.layout.superblock_offsets() {
            self.io().write(offset, &[0; 4096]).unwrap();
        }
        self.io().flush().unwrap();
        assert!(find_superblock(&mut self.io()).is_err());
        superblock
    }

    fn search(&mut self, known: &Known) -> Result<Fit, SearchError> {
        search(&mut self.io(), known)
    }

    /// What was lost is found, written, and the volume opens with it and reads as it was written.
    fn comes_back(mut self, known: &Known, lost: &Superblock, blocks: &[(u64, u64)]) {
        let found = self.search(known).unwrap().superblock;
        assert_eq!((found.layout, found.volume_id), (lost.layout, lost.volume_id));
        assert_eq!((found.preset, found.map_device_id), (lost.preset, lost.map_device_id));
        assert_eq!(found.feature_incompat, lost.feature_incompat);
        write(&mut self.io(), &found).unwrap();
        let mut run = self.open();
        for &(block, version) in blocks {
            assert_eq!(run.version(block), version, "block {block}");
        }
    }

    /// With what is not true the same is found, or nothing.
    fn assert_no_other(&mut self, wrong: &[Known], lost: &Superblock) {
        for known in wrong {
            if let Ok(fit) = self.search(known) {
                assert_eq!(fit.superblock.layout, lost.layout, "{known:?}");
            }
        }
    }
}

fn crash_disk(bytes: u64) -> CrashDisk {
    CrashDisk::new(bytes, 512).with_latency(Nanos::from_micros(50))
}

fn enlarged(disk: &CrashDisk, bytes: u64) -> CrashDisk {
    let properties = Properties { capacity_bytes: bytes, ..disk.properties().clone() };
    CrashDisk::with_image(properties, disk.image_after(&|_, _| true))
}

impl On<CrashDisk> {
    fn grown(self, bytes: u64) -> Self {
        let mut larger = Self { disk: enlarged(self.disk.main(), bytes).into(), now: self.now };
        let growth = grow::plan(&mut larger.io()).unwrap();
        grow::grow(&mut larger.io(), &growth).unwrap();
        larger
    }
}

#[test]
fn a_volume_that_grew_is_found_by_the_size_that_it_was_made_on() {
    for preset in ["mlb", "nolog"] {
        for sizes in [&[160][..], &[96, 160], &[96, 128, 160]] {
            println!("{preset}, {sizes:?}");
            let mut disk = On::new(crash_disk(64 * MIB)).made(&options(preset, 7));
            disk = disk.written(&[0, 5000, 9000], 1);
            for size in sizes {
                disk = disk.grown(size * MIB);
            }
            let opened = disk.open();
            let blocks = opened.volume.info().size_bytes / 4096;
            disk = On { now: opened.now, disk: opened.volume.into_lanes() };
            disk = disk.written(&[5000, 20_000, blocks - 1], 2);
            let lost = disk.lose();
            // One that is not told of having grown, or wrongly so, is not found as another one.
            let wrong = [None, Some(96 * MIB), Some(128 * MIB), Some(64 * MIB + 4096)];
            let wrong = wrong.map(|from| known(Some(preset), from));
            disk.assert_no_other(&wrong, &lost);
            let too_large = disk.search(&known(None, Some(160 * MIB))).unwrap_err();
            assert!(too_large.to_string().contains("--grown-from: expected less"), "{too_large}");
            let expected = [(0, 1), (9000, 1), (5000, 2), (20_000, 2), (blocks - 1, 2)];
            disk.comes_back(&known(Some(preset), Some(64 * MIB)), &lost, &expected);
        }
    }
}

fn joined(main: CrashDisk, map: CrashDisk) -> Lanes<CrashDisk> {
    Lanes::with_map(main, map).unwrap()
}

fn parts(lanes: Lanes<CrashDisk>) -> (CrashDisk, CrashDisk) {
    let (main, map) = lanes.into_parts();
    (main, map.unwrap())
}

#[test]
fn a_volume_with_a_map_device_is_found_with_that_and_no_other() {
    for grows in [false, true] {
        let disk = joined(crash_disk(64 * MIB), crash_disk(4 * MIB));
        let mut disk = On::new(disk).made(&options("mlb", 7)).written(&[0, 9000], 1);
        if grows {
            let now = disk.now;
            let (main, map) = parts(disk.disk);
            disk = On { disk: joined(enlarged(&main, 160 * MIB), map), now };
            let growth = grow::plan(&mut disk.io()).unwrap();
            grow::grow(&mut disk.io(), &growth).unwrap();
        }
        disk = disk.written(&[0, 5000], 2);
        let lost = disk.lose();
        let from = grows.then_some(64 * MIB);
        if grows {
            disk.assert_no_other(&[known(None, None), known(None, Some(96 * MIB))], &lost);
        }
        // Without its map device, with an empty one, and with that of another volume, full or empty.
        let (own, map) = parts(disk.disk);
        let main =
            || CrashDisk::with_image(own.properties().clone(), own.image_after(&|_, _| true));
        let fits = |search: &mut dyn FnMut(&Known) -> Result<Fit, SearchError>| {
            [None, Some("mlb")].iter().any(|preset| search(&known(*preset, from)).is_ok())
        };
        let mut alone = On::new(main());
        assert!(!fits(&mut |known| alone.search(known)));
        let mut with_empty = On::new(joined(main(), crash_disk(4 * MIB)));
        assert!(!fits(&mut |known| with_empty.search(known)));
        for blocks in [&[][..], &[0, 77]] {
            let other = On::new(joined(crash_disk(64 * MIB), crash_disk(4 * MIB)));
            let other = other.made(&options("mlb", 9)).written(blocks, 3);
            let mut wrong = On::new(joined(main(), parts(other.disk).1));
            assert!(!fits(&mut |known| wrong.search(known)), "{blocks:?}");
        }
        let disk = On { disk: joined(main(), map), now: disk.now };
        disk.comes_back(&known(None, from), &lost, &[(0, 2), (9000, 1), (5000, 2)]);
    }
}

/// Of a little in the first log nobody can say whether that is the only one, so then it is as its owner says, or nothing.
#[test]
fn a_volume_on_a_shingled_disk_is_found_as_its_logs_say_or_its_owner_does() {
    for (model, preset) in
        [("model:st8000as0002-slsmr", "slsmr"), ("model:st8000as0002-mlsmr", "mlsmr")]
    {
        println!("{model}, {preset}");
        // A file knows at once where 8 TB hold nothing.
        let name = format!("lost-superblock-{preset}-{}.img", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let text = format!("{model},file={}", path.display());
        let disk = GatheredDisk::new(model_from_text(&text).unwrap()).unwrap();
        // Gone with the last who has it open.
        std::fs::remove_file(&path).unwrap();
        let mut disk = On::new(disk).made(&options(preset, 7));
        // With many logs these go to several, which one log has not.
        let blocks = [0, 1, 2, 300_000_000, 900_000_000];
        disk = disk.written(&blocks, 1);
        let lost = disk.lose();
        disk.assert_no_other(&[known(None, None), known(Some("mlb"), None)], &lost);
        let told = (preset == "slsmr").then_some(preset);
        if told.is_none() {
            disk.assert_no_other(&[known(Some("slsmr"), None)], &lost);
        }
        disk.comes_back(&known(told, None), &lost, &blocks.map(|block| (block, 1)));
    }
}
