//! A file for blocking durable writes: it is what was opened, holds what was written, and is one owner's.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::SplitMix;
use nearhead_uring::{Access, DurableFile, IoPriority, OpenErrorKind, PriorityRing};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use support::{MIB, Mount, Scratch, pattern};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearhead-df-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("a.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_made_once_for_its_owner_alone_and_found_again() {
    let folder = Folder::new("made");
    let missing = DurableFile::open(&folder.file(), Access::Write, false).unwrap_err();
    assert_eq!(missing.kind, OpenErrorKind::NotFound);
    let made = DurableFile::open(&folder.file(), Access::Create, false).unwrap();
    made.write_at(b"hello", 0).unwrap();
    let again = DurableFile::open(&folder.file(), Access::Create, false).unwrap_err();
    assert_eq!(again.kind, OpenErrorKind::AlreadyExists);
    let permissions = std::fs::metadata(folder.file()).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600);
    let found = DurableFile::open(&folder.file(), Access::Read, false).unwrap();
    assert_eq!(found.name(), folder.file().display().to_string());
    assert_eq!((found.len_bytes().unwrap(), found.is_direct(), found.align_bytes()), (5, false, 1));
    assert!(found.write_at(b"no", 0).is_err(), "it was opened for reading");
}

#[test]
fn what_was_written_is_read_back_up_to_the_end_also_past_the_cache() {
    for direct in [false, true] {
        let folder = Folder::new(if direct { "past" } else { "cached" });
        let made = DurableFile::open(&folder.file(), Access::Create, false).unwrap();
        made.set_len(40_000).unwrap();
        drop(made);
        let file = DurableFile::open(&folder.file(), Access::Write, direct).unwrap();
        let can = rustix::fs::open(folder.file(), OFlags::RDWR | OFlags::DIRECT, Mode::empty());
        if direct && can.is_err() {
            println!("skipped: the file system of {} has no direct I/O", folder.0.display());
            continue;
        }
        assert_eq!(file.is_direct(), direct);
        let align = file.align_bytes() as usize;
        let (mut random, mut expected) = (SplitMix::new(3), vec![0_u8; 40_000]);
        assert_eq!(direct, align >= 512, "{align}");
        for _ in 0..50 {
            let unit = align.max(512);
            let at = random.below(30_000) as usize / unit * unit;
            let len = (1 + random.below(6)) as usize * unit;
            let len = len.min(36_864 - at);
            // Memory that is as aligned as the file wants it.
            let mut memory = vec![0_u8; len + unit];
            let skip = memory.as_ptr().align_offset(unit);
            memory[skip..skip + len].fill(random.below(255) as u8 + 1);
            let bytes = &memory[skip..skip + len];
            if random.coin() {
                file.write_durable_at(bytes, at as u64).unwrap();
            } else {
                file.write_at(bytes, at as u64).unwrap();
            }
            expected[at..at + len].copy_from_slice(bytes);
        }
        file.sync().unwrap();
        let mut memory = vec![9_u8; 49_152 + 4096];
        let skip = memory.as_ptr().align_offset(4096);
        let target = &mut memory[skip..skip + 49_152];
        assert_eq!(file.read_at(target, 0).unwrap(), 40_000, "direct: {direct}");
        assert!(target[..40_000] == expected, "direct: {direct}");
        assert_eq!(file.read_at(&mut target[..4096], 36_864).unwrap(), 40_000 - 36_864);
        assert_eq!(file.read_at(&mut target[..4096], 40_960).unwrap(), 0);
        let read = std::fs::read(folder.file()).unwrap();
        assert!(read == expected);
    }
}

#[test]
fn a_write_that_finds_no_room_on_its_way_says_so_and_leaves_alone_what_was_there() {
    let scratch = Scratch::new("no-room");
    let Some(mount) = Mount::in_memory(MIB, scratch.path("mnt")) else { return };
    let path = mount.point.join("a.log");
    let file = DurableFile::open(&path, Access::Create, false).unwrap();
    let (kept, much) = (pattern(8192, 1), pattern(2 << 20, 2));
    file.write_at(&kept, 0).unwrap();
    let mut failures = vec![file.write_at(&much, 8192), file.write_durable_at(&much, 8192)];
    match PriorityRing::new(IoPriority::BEST_EFFORT_FIRST) {
        Ok(mut ring) => failures.push(ring.write_durable_at(&file, &much, 8192)),
        Err(error) => println!("skipped: no io_uring here: {error}"),
    }
    for failure in failures {
        assert_eq!(failure.unwrap_err().raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert!(std::fs::read(&path).unwrap()[..8192] == kept);
        file.set_len(8192).unwrap();
    }
}

#[test]
fn its_length_room_and_device_are_what_the_system_says() {
    let folder = Folder::new("facts");
    let file = DurableFile::open(&folder.file(), Access::Create, false).unwrap();
    file.set_len(12_345).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 12_345);
    let before = std::fs::metadata(folder.file()).unwrap();
    file.allocate(8192, 1 << 20).unwrap();
    let after = std::fs::metadata(folder.file()).unwrap();
    assert_eq!(after.len(), 8192 + (1 << 20));
    assert!(after.blocks() >= before.blocks() + 2048, "{} blocks", after.blocks());
    let mut target = [7; 4096];
    assert_eq!(file.read_at(&mut target, 8192).unwrap(), 4096);
    assert_eq!(target, [0; 4096]);
    let dev = after.dev();
    let major = ((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff);
    let minor = (dev & 0xff) | ((dev >> 12) & !0xff);
    assert_eq!(file.device().unwrap(), (major as u32, minor as u32));
    let free = file.free_bytes().unwrap();
    let of_system = std::process::Command::new("stat")
        .args(["--file-system", "--format=%a %S"])
        .arg(&folder.0)
        .output()
        .unwrap();
    let said = String::from_utf8(of_system.stdout).unwrap();
    let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let told = numbers[0] * numbers[1];
    // Others write there, too.
    assert!(free > told / 2 && free < told.saturating_mul(2), "{free} of {told}");
}

#[test]
fn a_locked_file_is_somebodys_until_it_is_closed() {
    let folder = Folder::new("locked");
    let mine = DurableFile::open(&folder.file(), Access::Create, false).unwrap();
    mine.lock().unwrap();
    let other = DurableFile::open(&folder.file(), Access::Write, false).unwrap();
    let refused = other.lock().unwrap_err();
    assert_eq!(refused.kind, OpenErrorKind::InUse);
    assert!(refused.to_string().contains("a.log is in use"), "{refused}");
    drop(mine);
    other.lock().unwrap();
}

#[test]
fn a_file_that_was_opened_elsewhere_is_taken_as_it_is() {
    let folder = Folder::new("taken");
    std::fs::write(folder.file(), vec![5; 8192]).unwrap();
    let cached = std::fs::File::open(folder.file()).unwrap();
    let file = DurableFile::from_open(cached.into(), "the log");
    assert_eq!((file.name(), file.is_direct()), ("the log", false));
    let direct = DurableFile::open(&folder.file(), Access::Write, true).unwrap();
    let is_direct = direct.is_direct();
    let handed_on = std::os::fd::AsFd::as_fd(&direct).try_clone_to_owned().unwrap();
    assert_eq!(DurableFile::from_open(handed_on, "the same").is_direct(), is_direct);
}
