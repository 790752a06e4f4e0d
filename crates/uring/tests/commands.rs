//! Every kind of command on a real file, through both engines, with and without the page cache.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use nearhead_disk::{Class, Command, CommandId, Disk, DiskErrorKind, Nanos, Payload, Run};
use nearhead_uring::{Engine, OpenErrorKind, OpenOptions, create_image};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::FileExt;
use std::path::Path;
use support::*;

/// Runs `law` on a fresh 16 MiB image for each engine, direct and buffered.
fn on_every_kind(test: &str, law: impl Fn(&Path, &OpenOptions)) {
    let scratch = Scratch::new(test);
    for engine in ENGINES {
        for direct in [true, false] {
            let path = scratch.image(&format!("{engine:?}-{direct}.img"), 16 * MIB);
            if available(engine, &path) {
                law(&path, &OpenOptions { direct, ..options(engine) });
            }
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    on_every_kind("read-back", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        for (offset, len) in [(0, 4096), (MIB, 8 << 20), (16 * MIB - 4096, 4096)] {
            let bytes = pattern(len, offset);
            write(&mut disk, offset, &bytes, false);
            assert!(read(&mut disk, offset, len as u32) == bytes, "{len} bytes at {offset}");
        }
    });
}

#[test]
fn a_durable_write_is_seen_by_an_independent_reader() {
    on_every_kind("independent", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        for round in 0..32 {
            let bytes = pattern(4096, round);
            write(&mut disk, round * 8192, &bytes, true);
            let mut seen = vec![0; 4096];
            std::fs::File::open(path).unwrap().read_exact_at(&mut seen, round * 8192).unwrap();
            assert!(seen == bytes, "round {round}");
        }
    });
}

#[test]
fn the_parts_of_a_write_land_one_after_the_other() {
    on_every_kind("parts", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        write(&mut disk, 0, &pattern(8 << 20, 1), false);
        let (first, last) = (pattern(4096, 2), pattern(8192, 3));
        let whole = buffer(&last);
        let odd = buffer(&pattern(3 * 4096, 4));
        let parts = vec![
            Payload::Bytes(buffer(&first)),
            Payload::Zeros(600 * 1024),
            Payload::Bytes(whole.slice(0..4096)),
            Payload::Bytes(whole.slice(4096..8192)),
            // An address that direct I/O cannot use.
            Payload::Bytes(odd.slice(3..4099)),
        ];
        let mut expected = first;
        expected.extend(vec![0; 600 * 1024]);
        expected.extend(last);
        expected.extend(&odd[3..4099]);
        run(&mut disk, Command::Write { offset: 65536, parts, durable: true }).unwrap();
        assert!(read(&mut disk, 65536, expected.len() as u32) == expected);
    });
}

#[test]
fn a_write_of_thousands_of_parts_is_carried_out_whole() {
    on_every_kind("many-parts", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        let sector = disk.properties().sector_bytes as usize;
        let parts: Vec<Vec<u8>> = (0..2500).map(|index| pattern(sector, index)).collect();
        let payloads = parts.iter().map(|part| Payload::Bytes(buffer(part))).collect();
        let write = Command::Write { offset: 8192, parts: payloads, durable: true };
        run(&mut disk, write).unwrap();
        let len = (2500 * sector) as u32;
        assert!(read(&mut disk, 8192, len) == parts.concat());
    });
}

#[test]
fn zeroed_and_trimmed_ranges_read_as_zeros_and_nothing_around_them_changes() {
    on_every_kind("zeroes", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        assert!(disk.properties().trim_reads_zero, "this file system punches holes");
        let bytes = pattern(8 << 20, 5);
        for (offset, len) in [(4096, 512 * 8), (1 << 20, 3 << 20), (512 * 9, 512 * 2001)] {
            for durable in [false, true] {
                for trim in [false, true] {
                    write(&mut disk, 0, &bytes, false);
                    let command = if trim {
                        Command::Trim { offset, len }
                    } else {
                        Command::WriteZeroes { offset, len, durable }
                    };
                    let shown = format!("{command:?}");
                    run(&mut disk, command).unwrap();
                    let mut expected = bytes.clone();
                    expected[offset as usize..(offset + len) as usize].fill(0);
                    assert!(read(&mut disk, 0, 8 << 20) == expected, "{shown}");
                }
            }
        }
        let size = std::fs::metadata(path).unwrap().len();
        assert_eq!(size, 16 * MIB, "the file keeps its size");
    });
}

#[test]
fn a_flush_completes_with_writes_before_and_after_it() {
    on_every_kind("flush", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        run(&mut disk, Command::Flush).unwrap();
        write(&mut disk, 0, &pattern(4096, 1), false);
        run(&mut disk, Command::Flush).unwrap();
    });
}

#[test]
fn a_misaligned_or_outlying_command_is_refused_and_the_next_one_works() {
    on_every_kind("refused", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        for (offset, len) in [(100, 512), (512, 100), (16 * MIB, 512), (16 * MIB - 512, 1024)] {
            let error = run(&mut disk, Command::Read { offset, len }).unwrap_err();
            assert_eq!(error.kind, DiskErrorKind::Invalid, "{error}");
        }
        write(&mut disk, 0, &pattern(4096, 1), true);
    });
}

#[test]
fn a_4096_byte_sector_can_be_imposed_and_is_then_kept_to() {
    on_every_kind("sector", |path, options| {
        let options = OpenOptions { sector_bytes: Some(4096), ..options.clone() };
        let mut disk = nearhead_uring::open(path, &options).unwrap();
        assert_eq!(disk.properties().sector_bytes, 4096);
        let error = run(&mut disk, Command::Read { offset: 512, len: 4096 }).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Invalid, "{error}");
    });
}

#[test]
fn as_many_commands_as_the_queue_depth_are_outstanding_at_once_and_no_more() {
    on_every_kind("depth", |path, options| {
        let options = OpenOptions { queue_depth: 48, ..options.clone() };
        let mut disk = nearhead_uring::open(path, &options).unwrap();
        for round in 0..20 {
            for id in 0..48 {
                let class = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background]
                    [id as usize % 4];
                let parts = vec![Payload::Bytes(buffer(&pattern(4096, round * 48 + id)))];
                let command = Command::Write { offset: id * 4096, parts, durable: id % 3 == 0 };
                submit(&mut disk, id, class, command);
            }
            submit(&mut disk, 999, Class::Foreground, Command::Read { offset: 0, len: 4096 });
            disk.kick();
            let mut ids = Vec::new();
            for _ in 0..49 {
                let completion = next_completion(&mut disk);
                let refused = completion.result.is_err();
                assert_eq!(refused, completion.id == CommandId(999), "{completion:?}");
                ids.push(completion.id.0);
            }
            ids.sort_unstable();
            assert!(ids.iter().copied().eq((0..48).chain([999])), "exactly one each: {ids:?}");
        }
        for id in 0..48 {
            assert!(read(&mut disk, id * 4096, 4096) == pattern(4096, 19 * 48 + id), "block {id}");
        }
    });
}

#[test]
fn a_disk_dropped_under_its_commands_waits_for_them_and_lets_the_next_one_in() {
    on_every_kind("dropped", |path, options| {
        for round in 0..20 {
            let mut disk = nearhead_uring::open(path, options).unwrap();
            for id in 0..16 {
                let command = match id % 4 {
                    0 => Command::Read { offset: id * MIB, len: 1 << 20 },
                    1 => Command::Flush,
                    _ => Command::Write {
                        offset: id * MIB,
                        parts: vec![Payload::Bytes(buffer(&pattern(65536, round)))],
                        durable: true,
                    },
                };
                submit(&mut disk, id, Class::Bulk, command);
            }
            if round % 2 == 0 {
                disk.kick();
            }
        }
    });
}

/// What its memory holds afterwards is no more of the kernel's business, nor what the disk does of ours.
#[test]
fn whatever_a_ring_was_given_is_on_the_disk_once_it_was_dropped() {
    on_every_kind("settled", |path, options| {
        if options.engine != Engine::Uring {
            return;
        }
        let file = std::fs::File::open(path).unwrap();
        let mut seen = vec![0; 1 << 20];
        for round in 0..3 {
            let expected = pattern(1 << 20, round);
            let mut disk = nearhead_uring::open(path, options).unwrap();
            for id in 0..16 {
                let parts = vec![Payload::Bytes(buffer(&expected))];
                let command = Command::Write { offset: id * MIB, parts, durable: false };
                submit(&mut disk, id, Class::Bulk, command);
            }
            disk.kick();
            drop(disk);
            for id in (0..16).rev() {
                file.read_exact_at(&mut seen, id * MIB).unwrap();
                assert!(seen == expected, "round {round}, command {id}");
            }
        }
    });
}

/// Whoever drives it may sleep then, until there is an answer.
#[test]
fn a_command_that_was_kicked_is_answered_though_nobody_looks() {
    on_every_kind("kicked", |path, options| {
        let options = OpenOptions { rotational: Some(true), ..options.clone() };
        let mut disk = nearhead_uring::open(path, &options).unwrap();
        submit(&mut disk, 7, Class::Foreground, Command::Read { offset: 0, len: 4096 });
        disk.kick();
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let fd = disk.wake_fd().unwrap();
        let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
        assert_ne!(ready, Ok(0), "no completion within a minute: it was never handed over");
        next_completion(&mut disk).result.unwrap();
    });
}

#[test]
fn a_disk_asks_to_be_looked_at_if_it_has_an_answer_and_at_no_time_if_it_has_nothing_to_do() {
    on_every_kind("wake-up", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        assert_eq!(disk.wake_at(), None, "it was never used");
        submit(&mut disk, 7, Class::Foreground, Command::Read { offset: 1, len: 1 });
        assert_eq!(disk.wake_at(), Some(Nanos::ZERO), "a refusal is an answer");
        assert!(next_completion(&mut disk).result.is_err());
        write(&mut disk, 0, &pattern(4096, 1), true);
        read(&mut disk, 0, 4096);
        run(&mut disk, Command::Flush).unwrap();
        assert!(disk.poll(Nanos::ZERO).is_none());
        assert_eq!(disk.wake_at(), None, "all is answered");
    });
}

#[test]
fn a_read_only_disk_reads_and_refuses_to_change() {
    on_every_kind("read-only", |path, options| {
        let bytes = pattern(4096, 1);
        write(&mut nearhead_uring::open(path, options).unwrap(), 0, &bytes, true);
        let options = OpenOptions { read_only: true, ..options.clone() };
        let mut disk = nearhead_uring::open(path, &options).unwrap();
        assert!(read(&mut disk, 0, 4096) == bytes);
        run(&mut disk, Command::Flush).unwrap();
        let error = run(&mut disk, Command::Trim { offset: 0, len: 4096 }).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::ReadOnly, "{error}");
        assert!(read(&mut disk, 0, 4096) == bytes);
    });
}

#[test]
fn a_file_cut_short_while_open_gives_errors_not_garbage() {
    on_every_kind("cut", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        let file = rustix::fs::open(path, OFlags::WRONLY, Mode::empty()).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let error = run(&mut disk, Command::Read { offset: 0, len: 8192 }).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Io);
        assert!(error.detail.contains("truncated"), "{error}");
    });
}

#[test]
fn a_file_in_memory_works_through_the_page_cache_and_says_so() {
    let Some(scratch) =
        Path::new("/dev/shm").is_dir().then(|| Scratch::under(Path::new("/dev/shm"), "tmpfs"))
    else {
        println!("skipped: no /dev/shm");
        return;
    };
    for engine in ENGINES {
        let path = scratch.image(&format!("{engine:?}.img"), 4 * MIB);
        if !available(engine, &path) {
            continue;
        }
        let mut disk = open(&path, engine);
        let notes = disk.notes().join("\n");
        assert!(notes.contains("power cut"), "notes: {notes}");
        let bytes = pattern(65536, 9);
        write(&mut disk, 512, &bytes, true);
        run(&mut disk, Command::WriteZeroes { offset: 1024, len: 1 << 20, durable: true }).unwrap();
        run(&mut disk, Command::Flush).unwrap();
        assert!(read(&mut disk, 512, 512) == bytes[..512]);
        assert!(read(&mut disk, 1024, 1 << 20).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn facts_of_a_file_are_honest() {
    on_every_kind("facts", |path, options| {
        let options = OpenOptions {
            revolutions_per_minute: Some(15_000),
            rotational: Some(true),
            ..options.clone()
        };
        let disk = nearhead_uring::open(path, &options).unwrap();
        let properties = disk.properties();
        assert_eq!(properties.capacity_bytes, 16 * MIB);
        assert!(properties.volatile_cache, "a file may always sit behind a volatile cache");
        assert!(properties.rotational);
        assert_eq!(properties.rotation_period.map(|period| period.0), Some(4_000_000));
        assert_eq!(properties.name, path.display().to_string());
    });
}

#[test]
fn holes_are_told_from_data_to_the_byte_and_nothing_is_told_of_what_is_behind_the_end() {
    on_every_kind("holes", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        write(&mut disk, MIB, &pattern(2 << 20, 1), true);
        run(&mut disk, Command::Trim { offset: MIB + 65536, len: 65536 }).unwrap();
        let runs = [
            (0, MIB, true),
            (MIB, MIB + 65536, false),
            (MIB + 65536, MIB + 131_072, true),
            (MIB + 131_072, 3 * MIB, false),
            (3 * MIB, 16 * MIB, true),
        ];
        for (from, to, zero) in runs {
            for offset in [from, from + 4096, to - 4096, to - 512] {
                assert_eq!(disk.run_at(offset), Run { len: to - offset, zero }, "at {offset}");
            }
        }
        for offset in [16 * MIB, 17 * MIB, u64::MAX] {
            assert_eq!(disk.run_at(offset), Run::UNKNOWN, "at {offset}");
        }
    });
}

#[test]
fn a_tail_that_is_no_whole_sector_is_left_alone() {
    let scratch = Scratch::new("tail");
    let path = scratch.path("odd.img");
    std::fs::write(&path, vec![7; 1_000_000]).unwrap();
    let disk = open(&path, Engine::Threads);
    assert_eq!(disk.properties().capacity_bytes, 1_000_000 / 512 * 512);
    assert!(disk.notes().iter().any(|note| note.contains("no whole sector")), "{:?}", disk.notes());
}

#[test]
fn what_is_no_disk_is_refused_with_the_reason() {
    let scratch = Scratch::new("no-disk");
    let empty = scratch.path("empty");
    std::fs::write(&empty, b"").unwrap();
    let fifo = scratch.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (path, kind, found) in [
        (scratch.path("missing"), OpenErrorKind::NotFound, "No such file"),
        (scratch.path(""), OpenErrorKind::NotADisk, "a directory"),
        ("/dev/null".into(), OpenErrorKind::NotADisk, "a character device"),
        (fifo, OpenErrorKind::NotADisk, "a named pipe"),
        (empty, OpenErrorKind::Size, "found 0 bytes"),
    ] {
        let error = nearhead_uring::open(&path, &OpenOptions::default()).err().unwrap();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.detail.contains(found), "{error}");
        assert!(error.detail.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn an_image_is_created_sparse_and_never_over_something() {
    let scratch = Scratch::new("create");
    let path = scratch.image("new.img", 1 << 40);
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 1 << 40);
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&metadata), 0, "sparse");
    let precious = scratch.path("precious");
    std::fs::write(&precious, b"precious").unwrap();
    for path in [&precious, &path] {
        let error = create_image(path, MIB).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::AlreadyExists, "{error}");
    }
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    for bytes in [0, 1000, u64::MAX - 4095] {
        let error = create_image(&scratch.path("bad.img"), bytes).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::Size, "{error}");
        assert!(!scratch.path("bad.img").exists(), "nothing is left behind");
    }
}

#[test]
fn a_disk_may_be_handed_from_thread_to_thread_with_commands_on_their_way() {
    on_every_kind("handed-on", |path, options| {
        let mut disk = nearhead_uring::open(path, options).unwrap();
        for round in 0..16 {
            let worker = std::thread::spawn(move || {
                for id in 0..8 {
                    let parts = vec![Payload::Bytes(buffer(&pattern(65536, round * 8 + id)))];
                    let command = Command::Write { offset: id * 65536, parts, durable: true };
                    submit(&mut disk, id, Class::Durable, command);
                }
                disk.kick();
                disk
            });
            disk = worker.join().unwrap();
            for _ in 0..8 {
                next_completion(&mut disk).result.unwrap();
            }
            for id in 0..8 {
                assert!(read(&mut disk, id * 65536, 65536) == pattern(65536, round * 8 + id));
            }
        }
    });
}
