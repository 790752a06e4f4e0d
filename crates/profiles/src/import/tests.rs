//! Imports of small packages written for these tests: what is read, what is told, what is refused.

use super::{ImportError, Imported, import, to_toml};
use nearhead_basics::SplitMix;
use nearhead_models::{LayoutSpec, Profile, ReadAhead};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the test.
pub(super) struct Package(PathBuf);

impl Package {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("nh-import-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
        Self(path)
    }

    pub(super) fn import(&self, name: &str) -> Result<Imported, ImportError> {
        import(&self.0.join(name))
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) const SEEKS: &str =
    "Seek distances measured: 3\n1, 1.0\n 10,\t2.0\n# why not\n50, 3.0\n";

pub(super) const MODEL: &str = "dm_disk tiny_model {
   Number of data surfaces = 2,
   Number of cylinders = 60,
   Block count = 1190,   # two slips and eight spares less than 1200
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0,
      Sparing scheme used = 9,
      Rangesize for sparing = 1,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0,
            Last cylinder number = 29,
            Blocks per track = 12,
            Offset of first block = 0.0,
            Empty space at zone front = 0,
            Skew for track switch = 2.0,
            Skew for cylinder switch = 3.0,
            Number of spares = 10,
            slips = [ 5 ],
            defects = [ 30, 715 ]
         },
         dm_layout_g1_zone {
            First cylinder number = 30
            Last cylinder number = 59
            Blocks per track = 8,
            Offset of first block = 4,
            Skew for track switch = 1,
            Skew for cylinder switch = 2,
            slips = [ ]
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Full seek curve = tiny.seek,
      Add. write settling delay = -0.25,
      Head switch time = 0.5,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }
}
";

pub(super) const SPECS: &str = "disksim_disk tiny_drive {
   Model = source tiny.model,
   Scheduler = disksim_ioqueue { Scheduling policy = 8, Cylinder mapping strategy = 0 },
   Max queue length = 4,
   Bulk sector transfer time = 0.05,
   Number of buffer segments = 3,
   Maximum number of write segments = 2,
   Segment size (in blks) = 64,
   Enable caching in buffer = 1,
   Buffer continuous read = 4,
   Allow read hits on write data = 1,
   Fast write level = 2,
   Read hit over. after read = 0.2,
   Read hit over. after write = 0.3,
   Read miss over. after read = 0.4,
   Read miss over. after write = 0.5,
   Write hit over. after read = 0.6,
   Write hit over. after write = 0.7,
   Data preparation overhead = 0.01,
   First reselect overhead = 0.02,
   Read completion overhead = 0.03
}
";

const PARV: &str = "disksim_global Global { Init Seed = 42 }
disksim_bus BUS1 { type = 1, Read block transfer time = 0.1, Write block transfer time = 0.2 }
source tiny.diskspecs
instantiate [ disk0 ] as tiny_drive
topology disksim_iodriver driver0 [ disksim_bus bus0 [
   disksim_disk disk0 []
] # end
]
disksim_pf Proc { Number of processors = 1 }
";

fn tiny() -> Package {
    let specs = ("tiny.diskspecs", SPECS);
    Package::new(&[("tiny.parv", PARV), specs, ("tiny.model", MODEL), ("tiny.seek", SEEKS)])
}

#[test]
fn a_package_becomes_a_profile_that_reads_back_as_itself() {
    let imported = tiny().import("tiny").unwrap();
    let profile = &imported.profile;
    assert_eq!((profile.heads, profile.cylinders, profile.period_ns), (2, 60, 10_000_000));
    // 30 cylinders of 2 tracks of 12 sectors less 10 spares, and of 8.
    assert_eq!(profile.blocks, 710 + 480);
    let [warning] = imported.warnings.as_slice() else { panic!("{:?}", imported.warnings) };
    assert!(warning.contains("found -0.25: no write settles faster than a read"), "{warning}");
    assert_eq!(profile.seek.points_ms[..3], [(1, 1.0), (10, 2.0), (50, 3.0)]);
    assert!(profile.seek.write_settle_ms.abs() < 1e-12);
    let exchange = profile.command.exchange.unwrap();
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found}");
    near(exchange.read_seek_ms[1], 0.5);
    near(exchange.read_hit_ms[0], 0.21);
    near(exchange.read_reconnect_ms, 0.03);
    near(exchange.cached_write_data_ms[1], 0.71);
    // The slower of bus and drive: 0.1 and 0.2 ms for 512 bytes.
    near(profile.interface.megabytes_per_s, 5.12);
    near(profile.interface.write_megabytes_per_s.unwrap(), 2.56);
    assert_eq!(profile.cache.read_ahead_until, ReadAhead::NextTrack);
    assert_eq!((profile.cache.segments, profile.cache.written_segments), (3, 2));
    assert!(profile.cache.write_cache && profile.queue.depth == 4);
    let text = to_toml(profile, &imported.sources);
    let again = Profile::parse("again", &text).unwrap();
    assert_eq!(to_toml(&again, &imported.sources), text);
    assert_eq!(again.geometry().unwrap().locate(800), profile.geometry().unwrap().locate(800));
}

#[test]
fn slips_defects_and_skews_are_where_the_package_says() {
    let imported = tiny().import("tiny").unwrap();
    let disk = imported.profile.geometry().unwrap();
    let at = |lbn: u64| {
        let track = disk.locate(lbn);
        let angle = track.angle_of(lbn).revolutions();
        (track.cylinder, track.head, (angle * 1e4).round() as u32)
    };
    let sectors = |sectors: f64, per_track: f64| (sectors / per_track % 1.0 * 1e4).round() as u32;
    assert_eq!(at(4), (0, 0, sectors(4.0, 12.0)));
    // Sector 5 is slipped.
    assert_eq!(at(5), (0, 0, sectors(6.0, 12.0)));
    // The next track is turned by two sectors; its first sector is number 12.
    assert_eq!(at(11), (0, 1, sectors(2.0, 12.0)));
    // The first sector of the next cylinder: two more for the track, three for the cylinder.
    assert_eq!(at(23), (1, 0, sectors(5.0, 12.0)));
    // Sector 30 went to sector 715, on the last track: cylinder 29, head 1, its seventh.
    assert_eq!(at(29).0, 29);
    assert_eq!(at(30).0, 1);
    // The second zone begins with its own offset.
    assert_eq!(at(710), (30, 0, sectors(4.0, 8.0)));
    assert_eq!(disk.locate(1189).cylinder, 59);
}

#[test]
fn compressed_files_and_names_of_files_are_found() {
    let package = tiny();
    let text = std::fs::read(package.0.join("tiny.model")).unwrap();
    std::fs::write(package.0.join("tiny.model.zst"), zstd::encode_all(&text[..], 3).unwrap())
        .unwrap();
    std::fs::remove_file(package.0.join("tiny.model")).unwrap();
    assert_eq!(import(&package.0).unwrap().profile.name, "tiny");
    for name in ["tiny", "tiny.parv", "tiny.diskspecs", "tiny.model.zst"] {
        assert_eq!(package.import(name).unwrap().profile.blocks, 1190, "{name}");
    }
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    let package = tiny();
    std::fs::remove_file(package.0.join("tiny.seek")).unwrap();
    let told = package.import("tiny").unwrap_err().to_string();
    assert!(told.contains("tiny.model:36") && told.contains("tiny.seek"), "{told}");
    std::fs::remove_file(package.0.join("tiny.model")).unwrap();
    let told = package.import("tiny").unwrap_err().to_string();
    assert!(told.contains("tiny.diskspecs:2") && told.contains("put tiny.model"), "{told}");
    let told = package.import("other").unwrap_err().to_string();
    assert!(told.contains("other.diskspecs") && told.contains("tiny.parv"), "{told}");
    let two = Package::new(&[("a.diskspecs", SPECS), ("b.diskspecs", SPECS)]);
    let told = import(&two.0).unwrap_err().to_string();
    assert!(told.contains("FOLDER/NAME") && told.contains("b.diskspecs"), "{told}");
}

#[test]
fn contradictions_are_told_and_the_layout_is_believed() {
    let model = MODEL.replace("Block count = 1190", "Block count = 1234");
    let model = model.replace("Number of cylinders = 60", "Number of cylinders = 50");
    let seeks = SEEKS.replace("measured: 3", "measured: 4");
    let package = Package::new(&[("tiny.model", model.as_str()), ("tiny.seek", seeks.as_str())]);
    let imported = package.import("tiny").unwrap();
    assert_eq!((imported.profile.blocks, imported.profile.cylinders), (1190, 60));
    let told = imported.warnings.join("\n");
    for expected in ["1234", "uses 60 cylinders", "claims 4 distances, found 3", "disksim_disk"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn mistakes_are_named_with_file_and_line() {
    let cases = [
        (
            "Rotation speed (in rpms) = 6000",
            "Rotation speed (in rpms) = fast",
            "tiny.model:39",
            "a number",
        ),
        (
            "Rotation speed (in rpms) = 6000",
            "Rotation speed (in rpms) = 6",
            "tiny.model:39",
            "60 to 60000",
        ),
        ("   Number of data surfaces = 2,\n", "", "tiny.model:1", "Number of data surfaces"),
        ("Seek type = extracted", "Seek type = guessed", "tiny.model:35", "hplplus10"),
        ("Sparing scheme used = 9", "Sparing scheme used = 11", "tiny.model:7", "0 to 10"),
        ("dm_layout_g1 {", "dm_layout_g3 {", "tiny.model:5", "dm_layout_g4"),
        ("defects = [ 30, 715 ]", "defects = [ 30 ]", "tiny.model:20", "odd number"),
        ("slips = [ 5 ]", "slips = [ 5000 ]", "tiny.model:5", "below 720"),
        ("slips = [ ]", "slips = [ 1", "tiny.model:30", "slips"),
        ("Percent error in rpms = 0.0\n   }\n}", "Percent", "tiny.model:40", "key = value"),
        ("Last cylinder number = 59", "Last cylinder number = 20", "tiny.model:5", "zone 1"),
    ];
    for (from, to, place, expected) in cases {
        assert!(MODEL.contains(from), "{from}");
        let model = MODEL.replacen(from, to, 1);
        let package = Package::new(&[("tiny.model", model.as_str()), ("tiny.seek", SEEKS)]);
        let told = package.import("tiny").unwrap_err().to_string();
        assert!(told.contains(place) && told.contains(expected), "{from} -> {to}: {told}");
    }
}

#[test]
fn files_that_include_themselves_come_to_an_end() {
    let package = Package::new(&[("round.model", "source round.model\nsource round.model\n")]);
    let told = package.import("round").unwrap_err().to_string();
    assert!(told.contains("round.model"), "{told}");
}

#[test]
fn no_file_outside_of_the_folder_is_read() {
    let model = MODEL.replace("tiny.seek", "../../etc/passwd");
    let package = Package::new(&[("tiny.model", model.as_str())]);
    let told = package.import("tiny").unwrap_err().to_string();
    assert!(told.contains("in the package's folder"), "{told}");
}

#[test]
fn writes_have_their_own_curve_where_it_was_measured() {
    let seeks = "1, 0.5, 0.01, 0.7\n30, 2.0, 0.02, 2.1\n";
    let package = Package::new(&[("tiny.model", MODEL), ("tiny.seek", seeks)]);
    let seek = package.import("tiny").unwrap().profile.seek;
    assert_eq!(seek.points_ms[..2], [(1, 0.5), (30, 2.0)]);
    assert_eq!(seek.write_points_ms.unwrap()[..2], [(1, 0.7), (30, 2.1)]);
}

#[test]
fn every_formula_of_a_seek_curve_meets_the_times_it_is_made_of() {
    let three =
        "Single cylinder seek time = 1.0, Average seek time = 3.0, Full strobe seek time = 5.0";
    let values = "HPL seek equation values = [ 20, 1.0, 0.5, 2.0, 0.05, -1.0 ]";
    let ten = "First ten seek times = [ 1,2,3,4,5,6,7,8,9,10 ]";
    let cases = [
        ("constant", three.to_owned(), vec![(1, 3.0), (60, 3.0)]),
        ("linear", three.to_owned(), vec![(1, 1.0), (20, 3.0), (60, 5.0)]),
        // Close to the average at a third, and to the full stroke at the end.
        ("curve", three.to_owned(), vec![(1, 1.0)]),
        ("hpl", values.to_owned(), vec![(4, 2.0), (16, 3.0), (40, 4.0)]),
        ("hplplus10", format!("{values}, {ten}"), vec![(3, 3.0), (16, 3.0), (40, 4.0)]),
    ];
    for (kind, fields, expected) in cases {
        let model =
            MODEL.replace("Seek type = extracted", &format!("Seek type = {kind}, {fields}"));
        let package = Package::new(&[("tiny.model", model.as_str())]);
        let curve = package.import("tiny").unwrap().profile.seek_curve().unwrap();
        for (distance, ms) in expected {
            let found = curve.time_ns(distance) as f64 / 1e6;
            assert!((found - ms).abs() < 0.02, "{kind} at {distance}: {found}, expected {ms}");
        }
    }
}

/// Two heads, runs of 3 cylinders there and back; a slip in the first track.
pub(super) const TREE: &str = "dm_disk snake {
   Number of data surfaces = 2, Number of cylinders = 6, Block count = 118,
   Layout Model = dm_layout_g4 {
      TP = [ 0, 9, 10 ],
      IDX = [
         [ 0, 0, 0.0, 10, 1, 0.25, 30, 3, TRACK, 0, 0,
           30, 2, 0.1, 10, 1, 0.25, 30, -3, TRACK, 0, 1 ],
         [ 0, 0, 0.5, 60, 3, 0.125, 120, 6, IDX, 0 ]
      ],
      Slips = [ 4, 1 ], Remaps = []
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = constant, Average seek time = 1.0, Rotation speed (in rpms) = 6000
   }
}";

#[test]
fn a_tree_repeats_its_tables_turned_and_leaves_out_slips() {
    let package = Package::new(&[("snake.model", TREE)]);
    let imported = package.import("snake").unwrap();
    assert!(matches!(imported.profile.layout, LayoutSpec::Tree(_)));
    let disk = imported.profile.geometry().unwrap();
    let at = |lbn: u64| {
        let track = disk.locate(lbn);
        let angle = track.angle_of(lbn).revolutions();
        (track.cylinder, track.head, (angle * 1e4).round() as u32)
    };
    assert_eq!(at(0), (0, 0, 5000));
    assert_eq!(at(3), (0, 0, 8000));
    // Address 4 is slipped, so block 4 is address 5.
    assert_eq!(at(4), (0, 0, 0));
    assert_eq!(at(9), (1, 0, 7500));
    // Back on the other head, from the innermost cylinder of the run.
    assert_eq!(at(29), (2, 1, 6000));
    assert_eq!(at(39), (1, 1, 8500));
    // The second repetition: three cylinders further in, an eighth further round.
    assert_eq!(at(59), (3, 0, 6250));
    let text = to_toml(&imported.profile, &imported.sources);
    let again = Profile::parse("again", &text).unwrap();
    assert_eq!(to_toml(&again, &imported.sources), text);
    assert_eq!(again.geometry().unwrap().locate(77), disk.locate(77));
}

#[test]
fn tracks_come_from_a_raw_map_where_the_layout_is_missing() {
    let start = TREE.find("dm_layout_g4").unwrap();
    let end = TREE.find("   Mechanical").unwrap();
    let model = format!("{}source snake.layout,\n{}", &TREE[..start], &TREE[end..]);
    let map = "maxlbn 59, blocksize 512\n6 cylinders, 6000 rot, 2 heads\n\
        lbn 0 --> cyl 0, head 0, sect 0, count 10\nlbn 10 --> cyl 1, head 0, sect 0, count 10\n\
        lbn 20 --> cyl 2, head 0, sect 0, count 10\nlbn 30 --> cyl 2, head 1, sect 0, count 10\n\
        lbn 40 --> cyl 1, head 1, sect 0, count 10\nlbn 50 --> cyl 0, head 1, sect 0, count 10\n";
    let package = Package::new(&[("snake.model", model.as_str()), ("layout.mappings", map)]);
    let imported = package.import("snake").unwrap();
    assert_eq!(imported.profile.blocks, 60);
    let disk = imported.profile.geometry().unwrap();
    let places: Vec<_> =
        (0..6).map(|track| disk.locate(track * 10 + 5)).map(|at| (at.cylinder, at.head)).collect();
    assert_eq!(places, [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1)]);
    let told = imported.warnings.join("\n");
    assert!(told.contains("snake.layout") && told.contains("60 blocks"), "{told}");
}

#[test]
fn broken_packages_are_refused_and_never_crash() {
    for seed in 0..400 {
        let mut random = SplitMix::new(seed);
        let mut text = if random.coin() { MODEL } else { TREE }.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len() as u64) as usize;
            let digits = *b"0123456789[]{},=-#9";
            match random.below(3) {
                0 => text[at] = digits[random.below(digits.len() as u64) as usize],
                1 => drop(text.remove(at)),
                _ => text.splice(at..at, *b"99999999").for_each(drop),
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let package = Package::new(&[("broken.model", text.as_str()), ("tiny.seek", SEEKS)]);
        // Whatever it says, it must come back; what it accepts must be a disk.
        if let Ok(imported) = package.import("broken") {
            assert!(imported.profile.geometry().is_ok(), "seed {seed}: {text}");
        }
    }
}

#[test]
fn what_overheads_contradict_each_other_in_is_told_and_replaced() {
    let wrong = SPECS
        .replace("Write hit over. after write = 0.7", "Write hit over. after write = 0.1")
        .replace("Read hit over. after read = 0.2", "Read hit over. after read = 0.0");
    let files = [
        ("tiny.parv", PARV),
        ("tiny.diskspecs", &wrong),
        ("tiny.model", MODEL),
        ("tiny.seek", SEEKS),
    ];
    let imported = Package::new(&files).import("tiny").unwrap();
    let told = imported.warnings.join("\n");
    assert!(told.contains("0.3 ms is taken for both"), "{told}");
    assert!(told.contains("no write to take less than a read after the same command"), "{told}");
    let exchange = imported.profile.command.exchange.unwrap();
    assert!((exchange.read_hit_ms[0] - 0.31).abs() < 1e-9, "{exchange:?}");
    assert!((exchange.cached_write_data_ms[1] - 0.61).abs() < 1e-9, "{exchange:?}");
}

#[test]
fn a_drive_that_answers_writes_early_turns_to_reading_as_it_seeks() {
    let with = |specs: &str| {
        let files = [
            ("tiny.parv", PARV),
            ("tiny.diskspecs", specs),
            ("tiny.model", MODEL),
            ("tiny.seek", SEEKS),
        ];
        Package::new(&files).import("tiny").unwrap().profile.seek.read_after_write_ms
    };
    assert!((with(SPECS) - 1.0).abs() < 1e-9, "the shortest seek");
    let off = SPECS.replace("Fast write level = 2", "Fast write level = 0");
    let on_arrival =
        SPECS.replace("Fast write level = 2", "Fast write level = 2, Immediate buffer read = 1");
    assert!(with(&off).abs() < 1e-9 && with(&on_arrival).abs() < 1e-9);
}

#[test]
fn whether_reading_ahead_keeps_what_was_asked_for_is_read() {
    let with = |over: &str| {
        let specs = SPECS
            .replace("Buffer continuous read = 4", &format!("Buffer continuous read = 3{over}"));
        let files = [
            ("tiny.parv", PARV),
            ("tiny.diskspecs", &specs),
            ("tiny.model", MODEL),
            ("tiny.seek", SEEKS),
        ];
        Package::new(&files).import("tiny").unwrap().profile.cache.read_ahead_keeps_requested
    };
    assert!(with(", Read-ahead over requested = 0"));
    assert!(
        !with(", Read-ahead over requested = 1")
            && !with(", Read-ahead over requested = -1")
            && !with("")
    );
}
