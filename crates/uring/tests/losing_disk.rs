//! On a disk that loses what was not flushed, whatever was acknowledged as durable is on the medium.
//!
//! Every way to say that a command is durable, on every way to drive a disk, over what lies below in
//! real life: a file system that does not know durable writes, a block device with a volatile cache,
//! and ext4 on it. The kernel is the real one; only the disk at the bottom is made to forget
//! (`support/losing_disk.rs`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

#[path = "support/losing_disk.rs"]
mod losing;
mod support;

use losing::{LosingDisk, serve_if_asked};
use nearhead_disk::{BufferMut, Class, Command, Disk, Payload};
use nearhead_uring::{
    Access, DurableFile, Engine, IoPriority, OpenOptions, PriorityRing, RealDisk, create_image,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use support::*;

/// Room for an ext4 with an image of 16 MiB, and little to copy for each look at it.
const DISK_BYTES: u64 = 32 * MIB;
const SERVER: &str = "serve_a_losing_disk_for_the_other_tests";

#[test]
fn serve_a_losing_disk_for_the_other_tests() {
    serve_if_asked();
}

/// So many bytes at an offset of a disk, as a power cut now would leave them.
type Survivors<'a> = &'a dyn Fn(u64, usize) -> Vec<u8>;

fn on_medium(medium: &Path) -> impl Fn(u64, usize) -> Vec<u8> {
    let file = File::open(medium).unwrap();
    move |offset, len| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }
}

/// Each way to drive a disk that is available here, with a name for messages.
fn ways(path: &Path) -> Vec<(String, OpenOptions)> {
    let mut ways = Vec::new();
    for engine in ENGINES.into_iter().filter(|engine| available(*engine, path)) {
        for direct in [true, false] {
            // A lone small write goes another way on a disk without a head.
            for rotational in [true, false] {
                let name = format!("{engine:?}, direct {direct}, rotational {rotational}");
                let rotational = Some(rotational);
                ways.push((name, OpenOptions { direct, rotational, ..options(engine) }));
            }
        }
        let name = format!("{engine:?}, writes through the page cache");
        let (rotational, cache_writes) = (Some(false), true);
        ways.push((name, OpenOptions { rotational, cache_writes, ..options(engine) }));
    }
    ways
}

/// The law, on the first 16 MiB of `disk`.
fn what_is_durable_survives(disk: &mut RealDisk, survivors: Survivors<'_>, way: &str, salt: u64) {
    let check = |what: &str, offset: u64, expected: &[u8]| {
        assert!(survivors(offset, expected.len()) == expected, "{way}: {what} was lost");
    };
    for (number, len) in [4096, 64 << 10, 1 << 20, 8 << 20].into_iter().enumerate() {
        let (offset, bytes) = (number as u64 * MIB, pattern(len, salt + len as u64));
        write(disk, offset, &bytes, true);
        check(&format!("a durable write of {len} bytes"), offset, &bytes);
    }
    let parts = [pattern(4096, salt + 1), vec![0; 600 << 10], pattern(8192, salt + 2)];
    let payloads = vec![
        Payload::Bytes(buffer(&parts[0])),
        Payload::Zeros(600 << 10),
        Payload::Bytes(buffer(&parts[2])),
    ];
    run(disk, Command::Write { offset: 12 * MIB, parts: payloads, durable: true }).unwrap();
    check("a durable write of parts", 12 * MIB, &parts.concat());
    for len in [4096, 64 << 10, 512 << 10, 3 << 20] {
        run(disk, Command::WriteZeroes { offset: 4 * MIB, len, durable: true }).unwrap();
        check(&format!("a durable write of {len} zeros"), 4 * MIB, &vec![0; len as usize]);
    }
    many_at_once(disk, survivors, way, salt);
    flushed(disk, survivors, way, salt);
}

/// Durable writes beside each other, each acknowledged by itself.
fn many_at_once(disk: &mut RealDisk, survivors: Survivors<'_>, way: &str, salt: u64) {
    let bytes = |id: u64| pattern(4096, salt + 100 + id);
    for id in 0..8 {
        let parts = vec![Payload::Bytes(buffer(&bytes(id)))];
        let command = Command::Write { offset: id * 65536, parts, durable: true };
        submit(disk, id, Class::Durable, command);
    }
    disk.kick();
    for _ in 0..8 {
        let completion = next_completion(disk);
        completion.result.unwrap();
        let id = completion.id.0;
        assert!(survivors(id * 65536, 4096) == bytes(id), "{way}: one of eight writes was lost");
    }
}

/// What a flush covers; and what a disk that says it has no volatile cache needs none for.
fn flushed(disk: &mut RealDisk, survivors: Survivors<'_>, way: &str, salt: u64) {
    let bytes = pattern(256 << 10, salt + 3);
    write(disk, 14 * MIB, &bytes, false);
    let is_volatile = disk.properties().volatile_cache;
    if !is_volatile {
        let survives = survivors(14 * MIB, bytes.len()) == bytes;
        assert!(survives, "{way}: it says that its cache is not volatile, and a write was lost");
    }
    run(disk, Command::WriteZeroes { offset: 13 * MIB, len: 512 << 10, durable: false }).unwrap();
    run(disk, Command::Flush).unwrap();
    assert!(survivors(14 * MIB, bytes.len()) == bytes, "{way}: a flushed write was lost");
    let zeros = survivors(13 * MIB, 512 << 10);
    assert!(zeros.iter().all(|byte| *byte == 0), "{way}: flushed zeros were lost");
}

#[test]
fn the_disk_below_loses_what_nobody_made_durable() {
    let scratch = Scratch::new("losing-loses");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let survivors = on_medium(losing.medium());
    let mut disk = open(&losing.path(), Engine::Automatic);
    let bytes = pattern(4096, 1);
    write(&mut disk, 0, &bytes, false);
    assert!(read(&mut disk, 0, 4096) == bytes && survivors(0, 4096) != bytes);
    // As a file system that does not know the flag treats it.
    let file = File::options().write(true).open(losing.path()).unwrap();
    let flag = rustix::io::ReadWriteFlags::DSYNC;
    let aligned = BufferMut::copy_of(&bytes).freeze();
    rustix::io::pwritev2(&file, &[std::io::IoSlice::new(&aligned)], 8192, flag).unwrap();
    let survives = survivors(8192, 4096) == bytes;
    drop(file);
    assert!(!survives, "a durable write was honoured: the tests here could not fail");
}

#[test]
fn what_is_durable_survives_on_a_file_system_that_ignores_durable_writes() {
    let scratch = Scratch::new("losing-file");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    for (number, (way, options)) in (0..).zip(ways(&losing.path())) {
        let mut disk = nearhead_uring::open(&losing.path(), &options).unwrap();
        what_is_durable_survives(&mut disk, &on_medium(losing.medium()), &way, number << 32);
    }
}

#[test]
fn what_is_durable_survives_on_a_block_device_with_a_volatile_cache() {
    let scratch = Scratch::new("losing-device");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let Some(device) = LoopDevice::attach(&losing.path(), &["--direct-io=on"]) else { return };
    for (number, (way, options)) in (0..).zip(ways(&device.path)) {
        let mut disk = nearhead_uring::open(&device.path, &options).unwrap();
        what_is_durable_survives(&mut disk, &on_medium(losing.medium()), &way, number << 32);
    }
}

#[test]
fn what_is_durable_survives_in_a_file_of_ext4_on_such_a_device() {
    let scratch = Scratch::new("losing-ext4");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let Some(device) = LoopDevice::attach(&losing.path(), &["--direct-io=on"]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("ext4")) else { return };
    let image = mount.point.join("image");
    create_image(&image, 16 * MIB).unwrap();
    let survivors = in_ext4_after_a_cut(&scratch, losing.medium());
    for (number, (way, options)) in (0..).zip(ways(&image)) {
        let mut disk = nearhead_uring::open(&image, &options).unwrap();
        let bytes = pattern(4096, number);
        write(&mut disk, number * MIB, &bytes, true);
        assert!(survivors(number * MIB, 4096) == bytes, "{way}: a durable write was lost");
        many_at_once(&mut disk, &survivors, &way, number << 32);
        flushed(&mut disk, &survivors, &way, number << 32);
    }
}

/// Each way through the page cache. (By default only file systems that are known well are written so.)
fn cached_ways(path: &Path) -> Vec<(String, OpenOptions)> {
    let mut ways = ways(path);
    ways.retain(|(_, options)| !options.direct);
    ways
}

/// A file system tells once of pages that it could not write. Nobody who is told "durable" afterwards, or beside,
/// may rely on one of them.
#[test]
fn after_a_failed_sync_nothing_counts_as_durable_until_the_disk_is_opened_again() {
    let scratch = Scratch::new("losing-sync");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let survivors = on_medium(losing.medium());
    for (number, (way, options)) in (1..).zip(cached_ways(&losing.path())) {
        let salt = number << 32;
        let mut disk = nearhead_uring::open(&losing.path(), &options).unwrap();
        let before = pattern(4096, salt);
        write(&mut disk, 8 * MIB, &before, true);
        losing.fail_next_sync();
        let bytes = |id: u64| pattern(4096, salt + 1 + id);
        for id in 0..8 {
            let parts = vec![Payload::Bytes(buffer(&bytes(id)))];
            submit(
                &mut disk,
                id,
                Class::Durable,
                Command::Write { offset: id * MIB, parts, durable: true },
            );
        }
        disk.kick();
        let mut failed = 0;
        for _ in 0..8 {
            let completion = next_completion(&mut disk);
            let id = completion.id.0;
            let survives = survivors(id * MIB, 4096) == bytes(id);
            failed += u32::from(completion.result.is_err());
            assert!(
                completion.result.is_err() || survives,
                "{way}: write {id} is lost, and was called durable"
            );
        }
        assert!(failed > 0 && losing.has_failed(), "{way}: nobody was told");
        let error = run(&mut disk, Command::Flush).unwrap_err();
        assert!(error.detail.contains("opened again"), "{way}: {error}");
        for durable in [true, false] {
            let parts = vec![Payload::Bytes(buffer(&before))];
            let refused = run(&mut disk, Command::Write { offset: 0, parts, durable });
            assert!(refused.is_err(), "{way}: a write was taken");
        }
        run(&mut disk, Command::Trim { offset: 0, len: MIB }).unwrap_err();
        assert!(read(&mut disk, 8 * MIB, 4096) == before, "{way}: what is durable can be read");
        drop(disk);
        let mut disk = nearhead_uring::open(&losing.path(), &options).unwrap();
        assert!(survivors(8 * MIB, 4096) == before, "{way}: what was durable before is lost");
        write(&mut disk, 0, &before, true);
        assert!(survivors(0, 4096) == before, "{way}: opened again, a durable write was lost");
    }
}

/// A file of a real file system leaves the page cache for good: what is read is what the medium has, and a sector that
/// stays bad costs what touches it.
#[test]
fn after_a_failed_sync_a_file_goes_past_the_page_cache_and_names_what_fails() {
    let scratch = Scratch::new("losing-over");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let Some(device) = LoopDevice::attach(&losing.path(), &["--direct-io=on"]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("ext4")) else { return };
    for (number, engine) in (0..).zip(ENGINES) {
        let image = mount.point.join(format!("image-{number}"));
        create_image(&image, 4 * MIB).unwrap();
        if !available(engine, &image) {
            continue;
        }
        let (rotational, cache_writes) = (Some(false), true);
        let options =
            OpenOptions { rotational, cache_writes, cache_reads: true, ..options(engine) };
        let mut disk = nearhead_uring::open(&image, &options).unwrap();
        let old = pattern(64 << 10, number);
        write(&mut disk, 0, &old, true);
        assert!(disk.lost_writes().is_none());
        let new = pattern(64 << 10, number + 100);
        losing.spoil_where(&new[8192..8192 + 64]);
        write(&mut disk, 0, &new, false);
        run(&mut disk, Command::Flush).unwrap_err();
        assert!(losing.is_spoilt(), "{engine:?}: the disk was not asked");
        let why = disk.lost_writes().map(str::to_owned);
        assert!(why.is_some_and(|why| why.contains("image")), "{engine:?}: it does not say so");
        disk.start_over().unwrap_or_else(|error| panic!("{engine:?}: {error}"));
        assert!(disk.lost_writes().is_none(), "{engine:?}");
        let found = read(&mut disk, 0, 64 << 10);
        let on_disk = |sector: usize| &found[sector * 512..][..512];
        assert_eq!(on_disk(16), &old[8192..8704], "{engine:?}: the cache is believed");
        for sector in 0..128 {
            let range = sector * 512..(sector + 1) * 512;
            let is_known = on_disk(sector) == &old[range.clone()] || on_disk(sector) == &new[range];
            assert!(is_known, "{engine:?}: sector {sector} is neither old nor new");
        }
        // The one bad sector, again and again, and everything beside it.
        for round in 0..3 {
            let bytes = pattern(4096, number + 200 + round);
            for durable in [true, false] {
                let parts = vec![Payload::Bytes(buffer(&bytes))];
                let command = Command::Write { offset: 8192, parts, durable };
                run(&mut disk, command).expect_err("a bad sector was written");
            }
            write(&mut disk, 4096, &bytes, true);
            write(&mut disk, 16_384, &bytes, false);
            run(&mut disk, Command::Flush).unwrap();
            assert!(read(&mut disk, 4096, 4096) == bytes && read(&mut disk, 16_384, 4096) == bytes);
            assert!(disk.lost_writes().is_none(), "{engine:?}: an error that names its place");
        }
        drop(disk);
        let mut disk = nearhead_uring::open(&image, &options).unwrap();
        assert!(read(&mut disk, 4096, 4096) == pattern(4096, number + 202), "{engine:?}: lost");
    }
}

/// The file `image` of an ext4 as the machine finds it when it starts again: a copy of the medium,
/// mounted, which replays its journal.
fn in_ext4_after_a_cut(scratch: &Scratch, medium: &Path) -> impl Fn(u64, usize) -> Vec<u8> {
    let (copy, point) = (scratch.path("after.img"), scratch.path("after"));
    std::fs::create_dir(&point).unwrap();
    let medium = medium.to_owned();
    move |offset, len| {
        std::fs::copy(&medium, &copy).unwrap();
        let device = LoopDevice::attach(&copy, &[]).unwrap();
        let mounted = std::process::Command::new("mount").arg(&device.path).arg(&point).status();
        assert!(mounted.unwrap().success(), "the file system can be mounted after a cut");
        let mount = Mount { point: point.clone() };
        let mut bytes = vec![0; len];
        let file = File::open(point.join("image")).unwrap();
        file.read_exact_at(&mut bytes, offset).unwrap();
        drop((file, mount));
        bytes
    }
}

/// Every way in which a log's file makes a write durable.
fn what_a_log_wrote_survives(path: &Path, survivors: Survivors<'_>, salt: u64) {
    for (number, direct) in (0..).zip([true, false]) {
        let file = DurableFile::open(path, Access::Write, direct).unwrap();
        let way = format!("{}, direct {direct}, through {}", path.display(), file.writes_through());
        let offset = MIB * (1 + 4 * number);
        let check = |what: &str, offset: u64, bytes: &[u8]| {
            assert!(survivors(offset, bytes.len()) == bytes, "{way}: {what} was lost");
        };
        for (step, len) in [4096, 128 << 10].into_iter().enumerate() {
            let offset = offset + step as u64 * MIB;
            let bytes = BufferMut::copy_of(&pattern(len, salt + offset)).freeze();
            file.write_durable_at(&bytes, offset).unwrap();
            check("a durable write", offset, &bytes);
        }
        let bytes = BufferMut::copy_of(&pattern(4096, salt + offset + 1)).freeze();
        file.write_at(&bytes, offset).unwrap();
        file.sync().unwrap();
        check("a write that was synced", offset, &bytes);
        match PriorityRing::new(IoPriority::BEST_EFFORT_FIRST) {
            Err(error) => println!("skipped: requests with a priority: {error}"),
            Ok(mut ring) => {
                let bytes = BufferMut::copy_of(&pattern(8192, salt + offset + 2)).freeze();
                ring.write_durable_at(&file, &bytes, offset + 2 * MIB).unwrap();
                check("a durable write with a priority", offset + 2 * MIB, &bytes);
            }
        }
    }
}

#[test]
fn what_a_log_wrote_survives_on_a_file_system_that_ignores_durable_writes() {
    let scratch = Scratch::new("losing-log-file");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    what_a_log_wrote_survives(&losing.path(), &on_medium(losing.medium()), 1);
}

#[test]
fn what_a_log_wrote_survives_on_a_block_device_with_a_volatile_cache() {
    let scratch = Scratch::new("losing-log-device");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let Some(device) = LoopDevice::attach(&losing.path(), &["--direct-io=on"]) else { return };
    what_a_log_wrote_survives(&device.path, &on_medium(losing.medium()), 2);
}

#[test]
fn what_a_log_wrote_survives_in_a_file_of_ext4_on_such_a_device() {
    let scratch = Scratch::new("losing-log-ext4");
    let Some(losing) = LosingDisk::start(&scratch, DISK_BYTES, SERVER) else { return };
    let Some(device) = LoopDevice::attach(&losing.path(), &["--direct-io=on"]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("ext4")) else { return };
    let image = mount.point.join("image");
    create_image(&image, 16 * MIB).unwrap();
    what_a_log_wrote_survives(&image, &in_ext4_after_a_cut(&scratch, losing.medium()), 3);
}
