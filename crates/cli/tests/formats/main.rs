//! Images of every format version that was ever written open and hold what they held; newer ones and
//! unknown features are refused, or not changed.
//!
//! `golden/vVERSION-PRESET.image` were written by the program of their time (`cargo xtask
//! golden-images`) and are never changed: they stand for the disks of users. A new format version adds
//! images and keeps the old ones.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod fixture;
mod write;

use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};
use fixture::{Fixture, SECTOR, content, runs};
use nearhead_format::superblock::FORMAT_VERSION;
use std::path::{Path, PathBuf};
use write::Second;

/// Presets, each with the disk that it needs.
const PRESETS: [(&str, &str); 6] = [
    ("nolog", "disk.toml"),
    ("singlelog", "disk.toml"),
    ("mlb", "disk.toml"),
    ("mlb-256", "disk.toml"),
    ("slsmr", "shingled.toml"),
    ("mlsmr", "shingled.toml"),
];

/// Of these also volumes whose records bring bytes, in the snapshot and behind it.
const WITH_FRAGMENTS: [&str; 2] = ["singlelog", "mlb"];

/// Volumes on two disks: name, preset, and what the second disk is for.
const ON_TWO_DISKS: [(&str, &str, Second); 3] = [
    ("mlb-256-with-map", "mlb-256", Second::Map),
    ("mlb-stripe", "mlb", Second::Stripe),
    ("mlb-mirror", "mlb", Second::Mirror),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/golden")
}

fn image_path(version: u32, preset: &str) -> PathBuf {
    folder().join(format!("v{version}-{preset}.image"))
}

/// The image as a file, and how the program names it.
fn expanded(scratch: &Scratch, fixture: &Fixture) -> String {
    fixture.expand(&scratch.path("a.img"));
    let profile = folder().join(&fixture.profile);
    format!("model:{},file={}", profile.display(), scratch.text("a.img"))
}

fn expect_content(client: &mut Client, fixture: &Fixture, name: &str) {
    for (start, count, version) in runs(&fixture.holds) {
        let found = client.read(start * SECTOR as u64, (count * SECTOR as u64) as u32);
        for (sector, found) in (start..).zip(found.chunks(SECTOR)) {
            let expected = content(sector, version);
            assert!(
                found == expected,
                "{name}: sector {sector} is not version {version}: {:02x?}",
                &found[..16]
            );
        }
    }
}

/// The image of this name, which is there.
fn fixture(version: u32, name: &str) -> Fixture {
    let path = image_path(version, name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        let name = path.display();
        panic!("{name}: expected the image of format version {version}, found {error}")
    });
    Fixture::from_text(&text)
}

fn an_image_opens_and_goes_on(version: u32, preset: &str) {
    let fixture = fixture(version, preset);
    let scratch = Scratch::new("golden");
    let target = expanded(&scratch, &fixture);
    opens_and_goes_on(&scratch, fixture, preset, &target, &[]);
}

fn images_on_two_disks_open_and_go_on(version: u32, name: &str, second: Second) {
    let first = fixture(version, name);
    let scratch = Scratch::new("golden-two");
    fixture(version, &format!("{name}.second")).expand(&scratch.path("b.img"));
    let one = expanded(&scratch, &first);
    let other = one.replace("a.img", "b.img");
    let map = scratch.text("b.img");
    let (target, args) = match second {
        Second::Map => (one, vec!["--map-device", &map]),
        Second::Stripe => (format!("raid0:{one},{other}?chunk=16k"), Vec::new()),
        Second::Mirror => (format!("mirror:{one},{other}"), Vec::new()),
    };
    opens_and_goes_on(&scratch, first, name, &target, &args);
}

fn opens_and_goes_on(
    scratch: &Scratch,
    mut fixture: Fixture,
    name: &str,
    target: &str,
    args: &[&str],
) {
    assert!(fixture.holds.len() > 800, "{name}: it must hold something to be a test");
    let with = |command| [&[command, target], args].concat();
    run_ok(scratch, &with("check"));
    run_ok(scratch, &with("dump"));
    let daemon = Daemon::serve(scratch, target, args);
    let mut client = Client::connect(&daemon.socket).unwrap();
    expect_content(&mut client, &fixture, name);
    // It is used, killed, opened again, closed and opened.
    let newest = 1_000_000;
    let sectors = [fixture.holds.keys().copied().min().unwrap(), 80_000];
    for sector in sectors {
        client.write(sector * SECTOR as u64, &content(sector, newest), true);
        fixture.holds.insert(sector, newest);
    }
    daemon.kill();
    for _ in 0..2 {
        let daemon = Daemon::serve(scratch, target, args);
        expect_content(&mut Client::connect(&daemon.socket).unwrap(), &fixture, name);
        daemon.stop_ok();
    }
    assert_eq!(run_json(scratch, &with("check"))["damage_count"], 0, "{name}");
}

#[test]
fn images_of_every_version_on_ordinary_disks_open_and_go_on() {
    for version in 1..=FORMAT_VERSION {
        for (preset, _) in PRESETS.iter().filter(|(_, disk)| *disk == "disk.toml") {
            an_image_opens_and_goes_on(version, preset);
        }
    }
}

/// Version 1 as it is laid out now: a snapshot slot at either end, and logs that tell all.
#[test]
fn images_with_a_slot_at_either_end_open_and_go_on() {
    for (preset, _) in PRESETS.iter().filter(|(_, disk)| *disk == "disk.toml") {
        an_image_opens_and_goes_on(1, &format!("{preset}-far"));
    }
}

/// With bytes that records brought: over logged blocks, over zeros, and over what is at home.
#[test]
fn images_with_fragments_open_and_go_on() {
    for preset in WITH_FRAGMENTS {
        an_image_opens_and_goes_on(1, &format!("{preset}-fragments"));
    }
}

#[test]
fn images_of_every_version_on_shingled_disks_open_and_go_on() {
    for version in 1..=FORMAT_VERSION {
        for (preset, _) in PRESETS.iter().filter(|(_, disk)| *disk != "disk.toml") {
            an_image_opens_and_goes_on(version, preset);
        }
    }
}

#[test]
fn images_of_every_version_on_two_disks_open_and_go_on() {
    for version in 1..=FORMAT_VERSION {
        for (name, _, second) in ON_TWO_DISKS {
            images_on_two_disks_open_and_go_on(version, name, second);
        }
    }
}

#[test]
fn an_image_reads_back_from_text_as_it_was() {
    let fixture = write::write("mlb", "disk.toml", &folder(), false);
    assert!(fixture.sectors.len() > 100);
    let text = fixture.to_text();
    let read = Fixture::from_text(&text);
    assert!(read == fixture, "{text}");
    assert!(text.len() < 40_000, "an image is a few KB, found {}", text.len());
}

#[test]
#[ignore = "writes test data: for a new format version only, by cargo xtask golden-images"]
fn write_the_images_of_this_format_version() {
    for (preset, profile) in PRESETS {
        // Those without a word were written when both slots were in front.
        let name = if profile == "disk.toml" { format!("{preset}-far") } else { preset.to_owned() };
        keep(&name, preset, &write::write(preset, profile, &folder(), false));
    }
    for preset in WITH_FRAGMENTS {
        let fixture = write::write(preset, "disk.toml", &folder(), true);
        keep(&format!("{preset}-fragments"), preset, &fixture);
    }
    for (name, preset, second) in ON_TWO_DISKS {
        let scratch = Scratch::new("golden-write");
        let [one, other] =
            write::write_two(preset, second, "disk.toml", &folder(), &scratch.path(""));
        keep(name, preset, &one);
        keep(&format!("{name}.second"), preset, &other);
    }
}

/// Writes an image, unless there is one: it stands for users' disks and stays.
fn keep(name: &str, preset: &str, fixture: &Fixture) {
    let path = image_path(FORMAT_VERSION, name);
    if path.exists() {
        return println!("{} is there, and stays as it is", path.display());
    }
    let head = format!(
        "# A {preset} volume of format version {FORMAT_VERSION} after a power cut, by cargo xtask golden-images.\n\
         # tests/formats/fixture.rs says how to read it. Never changed.\n"
    );
    std::fs::write(&path, head + &fixture.to_text()).unwrap();
}

/// The image of a preset with fields of all superblock copies changed, their checksums right.
fn changed(scratch: &Scratch, preset: &str, fields: &[(usize, &[u8])]) -> String {
    let text = std::fs::read_to_string(image_path(1, preset)).unwrap();
    let mut fixture = Fixture::from_text(&text);
    let last = fixture.disk_bytes / 4096 * 4096 - 4096;
    for offset in [0, 65536, last] {
        let first = offset / SECTOR as u64;
        let mut block: Vec<u8> = (first..first + 8)
            .flat_map(|sector| fixture.sectors.get(&sector).cloned().unwrap_or(vec![0; SECTOR]))
            .collect();
        for (at, bytes) in fields {
            block[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        let crc = nearhead_format::crc::crc32c(&block[..4092]);
        block[4092..].copy_from_slice(&crc.to_le_bytes());
        let sectors = block.chunks(SECTOR).map(<[u8]>::to_vec);
        fixture.sectors.extend((first..).zip(sectors));
    }
    expanded(scratch, &fixture)
}

/// Every command that looks at a volume or changes it.
const LOOKING: [&[&str]; 2] = [&["status"], &["check"]];
const CHANGING: [&[&str]; 7] = [
    &["repair"],
    &["grow"],
    &["checkpoint"],
    &["drain"],
    &["hint", "--offset", "0", "--len", "4096", "--kind", "normal"],
    &["forget-log", "0"],
    &["create"],
];

/// Runs a command on the target and expects a refusal with these words; nothing may be changed.
fn refused(scratch: &Scratch, target: &str, command: &[&str], words: &[&str]) {
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    let args = [&command[..1], &[target], &command[1..]].concat();
    let message = run_fails(scratch, &args, words);
    assert!(!message.contains("make one with"), "{command:?} would destroy it: {message}");
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "{command:?} changed it");
}

#[test]
fn a_newer_format_version_is_refused_with_the_version_found_and_the_one_read() {
    let scratch = Scratch::new("newer");
    let target = changed(&scratch, "mlb", &[(8, &2_u32.to_le_bytes())]);
    let words = ["this program reads 1, found 2", "use a version of the program that reads it"];
    let serve: &[&str] = &["serve", "--socket", "s"];
    for command in LOOKING.iter().chain(&CHANGING[..6]).chain([&serve]) {
        refused(&scratch, &target, command, &words);
    }
    refused(&scratch, &target, &["create"], &["Nearhead"]);
}

#[test]
fn an_unknown_feature_that_must_be_known_to_open_a_volume_refuses_it() {
    let scratch = Scratch::new("incompat");
    let target = changed(&scratch, "singlelog", &[(128, &(1_u64 << 40).to_le_bytes())]);
    let words = ["feature_incompat", "0x10000000000", "newer version"];
    let serve: &[&str] = &["serve", "--socket", "s"];
    for command in LOOKING.iter().chain(&CHANGING[..6]).chain([&serve]) {
        refused(&scratch, &target, command, &words);
    }
    refused(&scratch, &target, &["create"], &["Nearhead"]);
}

#[test]
fn an_unknown_feature_that_must_be_known_to_change_a_volume_makes_it_read_only() {
    let scratch = Scratch::new("rocompat");
    let text = std::fs::read_to_string(image_path(1, "mlb")).unwrap();
    let fixture = Fixture::from_text(&text);
    // Also something in the bytes that are reserved today: a newer program may use them.
    let fields: [(usize, &[u8]); 2] = [(136, &(1_u64 << 40).to_le_bytes()), (3000, b"newer")];
    let target = changed(&scratch, "mlb", &fields);
    for command in LOOKING {
        run_ok(&scratch, &[command, &[target.as_str()][..]].concat());
    }
    for command in &CHANGING[..6] {
        refused(
            &scratch,
            &target,
            command,
            &["feature_ro_compat", "0x10000000000", "newer version"],
        );
    }
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    let daemon = Daemon::serve(&scratch, &target, &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    expect_content(&mut client, &fixture, "read-only");
    let written = client.run(common::nbd::Kind::Write, true, 0, 512, &[1; 512]).unwrap();
    assert_ne!(written, 0, "a write must be refused");
    daemon.stop_ok();
    assert!(std::fs::read(scratch.path("a.img")).unwrap() == before, "it was changed");
}
