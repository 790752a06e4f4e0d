//! Profiles of disks in TOML, and the one-line texts that name models and arrays.
//!
//! The laws: no text makes reading one panic; what is accepted can be built, holds whole sectors,
//! and the disk answers a read of its first and of its last sector. Profiles that describe more
//! than a test can hold are read, not built.

use crate::input::Input;
use nearhead_arrays::ArraySpec;
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Submission, Ticket};
use nearhead_models::{Dataless, Drive, HddOptions, ModelSpec};

/// Longest text that is built, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Largest disk that is built, in bytes: a mapping in memory grows with it.
const BUILT_BYTES_MAX: u64 = 1 << 30;
/// Wake-ups until an answer, at most.
const WAKES_MAX: u32 = 10_000;

/// Reads the input as a profile or as a line of text.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let text = String::from_utf8_lossy(input.rest());
    match choice & 3 {
        0 => {
            // A path is not opened: a hostile text is not an owner's command line.
            if !text.contains(".toml") {
                let _ = ModelSpec::parse(&text);
            }
        }
        1 => {
            if let Ok(array) = ArraySpec::parse(&text) {
                assert!(!array.shape().is_empty());
                let _ = array.size_note(&[1 << 30, 1 << 31]);
            }
        }
        _ => profile(&text),
    }
}

fn profile(text: &str) {
    let Ok(drive) = Drive::parse("hostile", text) else { return };
    let Ok(capacity) = drive.capacity_bytes() else { return };
    assert!(capacity > 0, "{drive:?}");
    if text.len() > TEXT_BYTES_MAX || capacity > BUILT_BYTES_MAX {
        return;
    }
    let Ok(mut disk) = drive.build(Box::new(Dataless), HddOptions::default()) else { return };
    let (capacity, sector) = {
        let properties = disk.properties();
        (properties.capacity_bytes, properties.sector_bytes)
    };
    assert!(sector >= 512 && capacity.is_multiple_of(u64::from(sector)), "{capacity} {sector}");
    let mut now = Nanos::ZERO;
    for offset in [0, capacity - u64::from(sector)] {
        now = read(&mut *disk, offset, sector, now);
    }
}

/// Reads a sector; when the answer came.
fn read(disk: &mut (impl Disk + ?Sized), offset: u64, len: u32, mut now: Nanos) -> Nanos {
    let id = CommandId(offset);
    let command = Command::Read { offset, len };
    disk.submit(Submission { ticket: Ticket::new(id), class: Class::Foreground, command }, now);
    disk.kick();
    for _ in 0..WAKES_MAX {
        if let Some(done) = disk.poll(now) {
            assert!(done.result.is_ok(), "{done:?}");
            return now;
        }
        let wake = disk.wake_at();
        now = wake.unwrap_or_else(|| panic!("a read at {offset} is never answered")).max(now);
    }
    panic!("a read at {offset} has no end");
}

/// Small disks of every kind, and texts.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for text in PROFILES {
        seeds.push([&[2], text.as_bytes()].concat());
    }
    for text in ["model:st3146855fc,cache=off,depth=4,ncq=sptf", "st8000as0002,content=none"] {
        seeds.push([&[0], text.as_bytes()].concat());
    }
    for text in ["raid0:a.img,b.img?chunk=64k", "mirror:a,missing?read=nearest"] {
        seeds.push([&[1], text.as_bytes()].concat());
    }
    seeds
}

/// One small disk of each kind, and one whose layout is a tree.
const PROFILES: [&str; 4] = [
    include_str!("profiles/disk.toml"),
    include_str!("profiles/tree.toml"),
    include_str!("profiles/shingled.toml"),
    include_str!("profiles/flash.toml"),
];
