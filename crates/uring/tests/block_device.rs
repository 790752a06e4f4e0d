//! A loop device stands in for a real block device; skipped where the machine allows none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod support;

use nearhead_disk::{Class, Command, Disk, DiskErrorKind, Payload};
use nearhead_uring::{Engine, OpenErrorKind, OpenOptions, RealDisk};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use support::*;

/// For tests that open a device again and again: a child of another test may hold for a moment what was open.
fn shared(engine: Engine) -> OpenOptions {
    OpenOptions { exclusive: false, ..options(engine) }
}

#[test]
fn facts_of_a_block_device_come_from_the_kernel() {
    let scratch = Scratch::new("device-facts");
    let image = scratch.image("disk.img", 8 * MIB);
    for sector in [512, 4096] {
        let argument = sector.to_string();
        let Some(device) = LoopDevice::attach(&image, &["--sector-size", &argument]) else {
            return;
        };
        let disk = open(&device.path, Engine::Automatic);
        let properties = disk.properties();
        assert_eq!(properties.capacity_bytes, 8 * MIB);
        assert_eq!(properties.sector_bytes, sector);
        let name = device.path.file_name().unwrap().display().to_string();
        let told = format!("/sys/block/{name}/queue/write_zeroes_max_bytes");
        let zeroes = std::fs::read_to_string(told).is_ok_and(|bytes| bytes.trim() != "0");
        assert_eq!(
            properties.trim_reads_zero, zeroes,
            "trim leaves zeros where the kernel zeroes with unmapping: {zeroes}"
        );
        for rotational in [false, true] {
            let rotates = Some(rotational);
            let options = OpenOptions { rotational: rotates, ..shared(Engine::Automatic) };
            let disk = nearhead_uring::open(&device.path, &options).unwrap();
            let properties = disk.properties();
            assert_eq!(properties.rotational, rotational);
            assert_eq!(properties.fast_zero, zeroes, "zeros offloaded: {zeroes}");
        }
        let cache = std::fs::read_to_string(format!(
            "/sys/block/{}/queue/write_cache",
            device.path.file_name().unwrap().display()
        ));
        if let Ok(cache) = cache {
            assert_eq!(properties.volatile_cache, cache.trim() == "write back");
        }
    }
}

#[test]
fn every_kind_of_command_works_on_a_block_device() {
    let scratch = Scratch::new("device-kinds");
    let image = scratch.image("disk.img", 32 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    for engine in ENGINES {
        if !available(engine, &device.path) {
            continue;
        }
        for direct in [true, false] {
            let options = OpenOptions { direct, ..shared(engine) };
            let mut disk = nearhead_uring::open(&device.path, &options).unwrap();
            let bytes = pattern(8 << 20, u64::from(direct));
            write(&mut disk, 0, &bytes, false);
            write(&mut disk, 8 * MIB, &bytes[..4096], true);
            let mut seen = vec![0; 4096];
            let reader = std::fs::File::open(&device.path).unwrap();
            reader.read_exact_at(&mut seen, 8 * MIB).unwrap();
            assert!(seen == bytes[..4096], "an independent reader sees the durable write");
            for (offset, len) in [(4096, 8192), (MIB, 2 * MIB)] {
                run(&mut disk, Command::WriteZeroes { offset, len, durable: true }).unwrap();
                assert!(read(&mut disk, offset, len as u32).iter().all(|byte| *byte == 0));
            }
            run(&mut disk, Command::Trim { offset: 16 * MIB, len: MIB }).unwrap();
            assert!(read(&mut disk, 0, 4096) == bytes[..4096]);
            run(&mut disk, Command::Flush).unwrap();
        }
    }
}

#[test]
fn a_discard_reaches_the_device_and_leaves_the_rest_alone() {
    let scratch = Scratch::new("device-discard");
    let image = scratch.image("disk.img", 32 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let allocated = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&image).unwrap());
    for engine in ENGINES {
        if !available(engine, &device.path) {
            continue;
        }
        let mut disk = open(&device.path, engine);
        let bytes = pattern(8 << 20, 2);
        write(&mut disk, 0, &bytes, true);
        let before = allocated();
        // Many at once: the helper must give every one of them back.
        for id in 0..64 {
            let command = Command::Trim { offset: MIB + id * 65536, len: 65536 };
            submit(&mut disk, id, Class::Background, command);
        }
        disk.kick();
        let mut ids: Vec<u64> = (0..64)
            .map(|_| {
                let completion = next_completion(&mut disk);
                completion.result.unwrap();
                completion.id.0
            })
            .collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..64));
        assert!(read(&mut disk, 0, 1 << 20) == bytes[..1 << 20]);
        assert!(read(&mut disk, 5 * MIB, 1 << 20) == bytes[5 << 20..6 << 20]);
        assert!(allocated() < before, "the loop device gives discarded space back: {engine:?}");
    }
}

#[test]
fn whatever_was_to_be_discarded_is_gone_once_the_disk_was_dropped() {
    let scratch = Scratch::new("device-dropped");
    let image = scratch.image("disk.img", 32 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    if !available(Engine::Uring, &device.path) {
        return;
    }
    let bytes = pattern(8 << 20, 3);
    let mut seen = vec![0; 4096];
    for round in 0..3 {
        let mut disk = nearhead_uring::open(&device.path, &shared(Engine::Uring)).unwrap();
        for part in 0..4 {
            write(&mut disk, part * 8 * MIB, &bytes, true);
        }
        for id in 0..128 {
            let command = Command::Trim { offset: id * 262_144, len: 262_144 };
            submit(&mut disk, id, Class::Background, command);
        }
        disk.kick();
        drop(disk);
        let file = std::fs::File::open(&image).unwrap();
        for id in (0..128).rev() {
            file.read_exact_at(&mut seen, id * 262_144).unwrap();
            assert!(seen.iter().all(|byte| *byte == 0), "round {round}, command {id}");
        }
    }
}

#[test]
fn whether_a_device_rotates_is_what_the_kernel_says_of_it() {
    let scratch = Scratch::new("device-rotates");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let name = device.path.file_name().unwrap().display().to_string();
    let attribute = format!("/sys/block/{name}/queue/rotational");
    let before = std::fs::read(&attribute).unwrap_or_default();
    for (told, rotational) in [("1", true), ("0", false)] {
        if let Err(error) = std::fs::write(&attribute, told) {
            println!("skipped: {attribute}: {error}");
            return;
        }
        let disk = nearhead_uring::open(&device.path, &shared(Engine::Automatic)).unwrap();
        assert_eq!(disk.properties().rotational, rotational, "the kernel says {told}");
    }
    // It outlives what is attached.
    let _ = std::fs::write(&attribute, before);
}

#[test]
fn a_write_protected_device_opens_only_read_only() {
    let scratch = Scratch::new("device-protected");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(device) = LoopDevice::attach(&image, &["--read-only"]) else { return };
    let error = nearhead_uring::open(&device.path, &OpenOptions::default()).err().unwrap();
    let expected = [OpenErrorKind::ReadOnly, OpenErrorKind::Permission];
    assert!(expected.contains(&error.kind), "{error}");
    assert!(error.detail.contains("read-only"), "says what to do: {error}");
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let mut disk = nearhead_uring::open(&device.path, &options).unwrap();
    assert!(read(&mut disk, 0, 4096).iter().all(|byte| *byte == 0));
}

#[test]
fn a_full_file_system_under_a_sparse_image_is_out_of_space_and_loses_nothing() {
    let scratch = Scratch::new("full");
    let small = scratch.image("small.img", 16 * MIB);
    let Some(device) = LoopDevice::attach(&small, &[]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("mnt")) else { return };
    for engine in ENGINES {
        let image = mount.point.join("sparse.img");
        nearhead_uring::create_image(&image, 1 << 30).unwrap();
        if !available(engine, &image) {
            continue;
        }
        let mut disk = open(&image, engine);
        let mut acknowledged = Vec::new();
        let error = loop {
            let offset = acknowledged.len() as u64 * MIB;
            let bytes = pattern(1 << 20, offset);
            let parts = vec![Payload::Bytes(buffer(&bytes))];
            match run(&mut disk, Command::Write { offset, parts, durable: true }) {
                Ok(_) => acknowledged.push(bytes),
                Err(error) => break error,
            }
            assert!(acknowledged.len() < 16, "16 MiB of file system never fill");
        };
        assert_eq!(error.kind, DiskErrorKind::OutOfSpace, "{error}");
        assert!(error.detail.contains("free space"), "says what to do: {error}");
        for (index, bytes) in acknowledged.iter().enumerate() {
            assert!(read(&mut disk, index as u64 * MIB, 1 << 20) == *bytes, "MiB {index}");
        }
        drop(disk);
        std::fs::remove_file(&image).unwrap();
    }
}

#[test]
fn an_image_as_large_as_what_is_free_misses_no_space_and_a_larger_one_does() {
    let scratch = Scratch::new("fits");
    let Some(mount) = Mount::in_memory(4 * MIB, scratch.path("mnt")) else { return };
    let image = mount.point.join("larger.img");
    nearhead_uring::create_image(&image, 4 * MIB + 4096).unwrap();
    assert_eq!(nearhead_uring::space_missing(&image), Some((4 * MIB + 4096, 4 * MIB)));
    let error = nearhead_uring::preallocate_image(&image).unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::Size, "{error}");
    std::fs::remove_file(&image).unwrap();

    let image = mount.point.join("fits.img");
    nearhead_uring::create_image(&image, 4 * MIB).unwrap();
    assert_eq!(nearhead_uring::space_missing(&image), None);
    nearhead_uring::preallocate_image(&image).unwrap();
    assert_eq!(nearhead_uring::space_missing(&image), None, "it has what it wants");
}

#[test]
fn an_image_that_does_not_fit_takes_no_space_from_others() {
    let scratch = Scratch::new("too-large");
    let small = scratch.image("small.img", 16 * MIB);
    let Some(device) = LoopDevice::attach(&small, &[]) else { return };
    let Some(mount) = Mount::ext4(&device.path, scratch.path("mnt")) else { return };
    let image = mount.point.join("large.img");
    nearhead_uring::create_image(&image, 64 * MIB).unwrap();
    let error = nearhead_uring::preallocate_image(&image).unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::Size, "{error}");
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&image).unwrap()), 0);
    std::fs::write(mount.point.join("others"), pattern(1 << 20, 1)).unwrap();
}

#[test]
fn a_device_that_shrinks_under_a_command_gives_an_error() {
    let scratch = Scratch::new("shrunk");
    let image = scratch.image("disk.img", 8 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    for engine in ENGINES {
        if !available(engine, &device.path) {
            continue;
        }
        let mut disk = open(&device.path, engine);
        let file = std::fs::File::options().write(true).open(&image).unwrap();
        file.set_len(4 * MIB).unwrap();
        let resized = std::process::Command::new("losetup").arg("-c").arg(&device.path).status();
        if !resized.is_ok_and(|status| status.success()) {
            println!("skipped: losetup -c does not work here");
            return;
        }
        let outcome = run(&mut disk, Command::Read { offset: 6 * MIB, len: 4096 });
        outcome.expect_err("bytes that no longer exist cannot be read");
        let parts = vec![Payload::Zeros(4096)];
        let outcome = run(&mut disk, Command::Write { offset: 6 * MIB, parts, durable: true });
        let error = outcome.expect_err("bytes that no longer exist cannot be written");
        assert_eq!(error.kind, DiskErrorKind::Gone, "no space that is freed helps: {error}");
        file.set_len(8 * MIB).unwrap();
        let _ = std::process::Command::new("losetup").arg("-c").arg(&device.path).status();
    }
}

/// Flushes that the device has completed since it was attached (field 16 of the `stat` file,
/// `Documentation/block/stat.rst`), or `None` where the kernel does not count them.
fn flushes_of(device: &LoopDevice) -> Option<u64> {
    let name = device.path.file_name().unwrap().display().to_string();
    let cache = std::fs::read_to_string(format!("/sys/block/{name}/queue/write_cache")).ok()?;
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).ok()?;
    let flushes = stat.split_whitespace().nth(15)?.parse().ok()?;
    (cache.trim() == "write back").then_some(flushes)
}

/// Durable commands make the `device` under `disk` flush; others do not.
fn check_flushes(disk: &mut RealDisk, device: &LoopDevice, context: &str) {
    let data = || Payload::Bytes(buffer(&pattern(4096, 3)));
    let write = |offset, durable| Command::Write { offset, parts: vec![data()], durable };
    // The first write to a block may bring the file system's own flushes.
    for page in 0..8 {
        run(disk, write(page * 4096, true)).unwrap();
    }
    run(disk, Command::Flush).unwrap();
    let Some(before) = flushes_of(device) else {
        println!("skipped: this device has no volatile cache to flush");
        return;
    };
    // Each to a page of its own: one that may be on its way through the page cache is not written again before a sync.
    for page in 0..8 {
        run(disk, write(page * 4096, false)).unwrap();
    }
    assert!(flushes_of(device) < Some(before + 8), "plain writes flush: {context}");
    for command in [
        write(4096, true),
        Command::Write { offset: 0, parts: vec![data(), data()], durable: true },
        Command::WriteZeroes { offset: 0, len: 4096, durable: true },
        Command::WriteZeroes { offset: MIB, len: MIB, durable: true },
        Command::Flush,
    ] {
        run(disk, write(0, false)).unwrap();
        let before = flushes_of(device);
        let shown = format!("{command:?}");
        run(disk, command).unwrap();
        assert!(flushes_of(device) > before, "nothing was flushed by {shown}: {context}");
    }
}

#[test]
fn durable_commands_flush_the_device_and_plain_ones_do_not() {
    let scratch = Scratch::new("flushes");
    let image = scratch.image("disk.img", 64 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    for engine in ENGINES {
        if available(engine, &device.path) {
            let mut disk = open(&device.path, engine);
            check_flushes(&mut disk, &device, &format!("{engine:?} on the device"));
        }
    }
    let Some(mount) = Mount::ext4(&device.path, scratch.path("mnt")) else { return };
    for engine in ENGINES {
        for direct in [true, false] {
            let path = mount.point.join(format!("{engine:?}-{direct}.img"));
            nearhead_uring::create_image(&path, 8 * MIB).unwrap();
            if available(engine, &path) {
                let options = OpenOptions { direct, ..options(engine) };
                let mut disk = nearhead_uring::open(&path, &options).unwrap();
                check_flushes(&mut disk, &device, &format!("a file on ext4, {options:?}"));
            }
        }
    }
}

#[test]
fn the_scheduler_of_a_device_is_one_of_those_it_could_have_and_may_be_another() {
    let scratch = Scratch::new("scheduler");
    let image = scratch.image("disk.img", 4 * MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let number = std::os::unix::fs::MetadataExt::rdev(&std::fs::metadata(&device.path).unwrap());
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let name = device.path.file_name().unwrap().display().to_string();
    let told = || std::fs::read_to_string(format!("/sys/block/{name}/queue/scheduler")).unwrap();
    if !told().contains('[') {
        println!("skipped: this device has no scheduler: {}", told());
        return;
    }
    let (current, others) = nearhead_uring::scheduler_of(major, minor).unwrap();
    assert!(told().contains(&format!("[{current}]")), "{current}: {}", told());
    for other in others.iter().chain([&current]) {
        if let Err(error) = nearhead_uring::set_scheduler_of(major, minor, other) {
            println!("skipped: {other} may not be chosen here: {error}");
            return;
        }
        assert!(told().contains(&format!("[{other}]")), "{other}: {}", told());
        assert_eq!(nearhead_uring::scheduler_of(major, minor).unwrap().0, *other);
    }
    nearhead_uring::set_scheduler_of(major, minor, "no-such-scheduler").unwrap_err();
    nearhead_uring::set_scheduler_of(4095, 99_999, "none").unwrap_err();
    assert_eq!(nearhead_uring::scheduler_of(4095, 99_999), None);
}

/// A child that is not a program of its own yet holds what its parent had open, for a moment.
#[test]
fn a_device_that_was_closed_can_be_opened_again_while_other_programs_are_being_started() {
    let scratch = Scratch::new("reopened");
    let image = scratch.image("disk.img", MIB);
    let Some(device) = LoopDevice::attach(&image, &[]) else { return };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::process::Command::new("true").status().unwrap();
            }
        });
        for number in 0..200 {
            let opened = nearhead_uring::open(&device.path, &options(Engine::Threads));
            is_over.store(opened.is_err() || number == 199, Ordering::Relaxed);
            assert!(opened.is_ok(), "time {number}: {}", opened.err().unwrap());
        }
    });
}
