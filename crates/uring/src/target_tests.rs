//! What a target says of itself and of its file, without commands.

use super::*;
use crate::job::tests::target;
use crate::loops::tests::Attached;
use std::path::PathBuf;

/// An image that goes away with the test.
struct Image(PathBuf);

impl Image {
    fn new(name: &str, bytes: u64) -> Self {
        let name = format!("nearhead-target-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        crate::create_image(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self, options: &OpenOptions) -> Result<Target, OpenError> {
        Target::open(&self.0, options)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether the file system of a file is one of those of which it is known; says if not.
pub(crate) fn has_durable_direct_writes(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let is_direct = rustix::fs::open(path, flags, Mode::empty()).is_ok();
    let magic = rustix::fs::statfs(path).unwrap().f_type as u64;
    // ext4, xfs, btrfs (statfs(2)).
    let is_known = is_direct && [0xEF53, 0x5846_5342, 0x9123_683E].contains(&magic);
    if !is_known {
        println!(
            "skipped: the temporary folder's file system {magic:#x} has no durable direct writes"
        );
    }
    is_known
}

/// It then closes its file, which the kernel may still hold for a ring.
#[test]
fn a_target_that_is_released_lets_others_in_at_once() {
    let image = Image::new("released", 1 << 20);
    let target = image.open(&OpenOptions::default()).unwrap();
    let held = target.fd.try_clone().unwrap();
    assert_eq!(image.open(&OpenOptions::default()).err().unwrap().kind, OpenErrorKind::InUse);
    target.release();
    drop(target);
    drop(image.open(&OpenOptions::default()).unwrap());
    drop(held);
}

#[test]
fn only_a_file_where_no_head_moves_is_one_on_flash() {
    let mut target = target("flash");
    for (is_file, rotational, expected) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
    {
        target.is_file = is_file;
        target.properties.rotational = rotational;
        assert_eq!(target.is_file_on_flash(), expected, "file: {is_file}, rotates: {rotational}");
    }
}

/// It grows where it is written to: no room for that is no end.
#[test]
fn a_file_never_ends_before_what_is_written_to_it() {
    let target = target("end");
    for end in [0, target.properties.capacity_bytes, u64::MAX] {
        assert!(!target.ends_before(end), "{end}");
    }
}

#[test]
fn a_rotation_that_is_told_counts_more_than_one_that_was_found() {
    let found = Some(Nanos(7));
    for (told, expected) in [
        (Some(7200), Some(Nanos(8_333_333))),
        (Some(1), Some(Nanos(60_000_000_000))),
        (Some(0), found),
        (None, found),
    ] {
        assert_eq!(rotation_period(told, found), expected, "{told:?}");
    }
}

#[test]
fn a_sector_is_one_of_two_sizes_and_no_smaller_than_the_disks_own() {
    let image = Image::new("sector", 1 << 20);
    let with = |sector_bytes, least| {
        let mut target = image.open(&OpenOptions::default()).unwrap();
        target.properties.sector_bytes = least;
        let options = OpenOptions { sector_bytes: Some(sector_bytes), ..OpenOptions::default() };
        target.apply(&options, "a.img").map(|()| target.properties)
    };
    for (sector, least) in [(512, 512), (4096, 512), (4096, 4096)] {
        let properties = with(sector, least).unwrap();
        assert_eq!(properties.sector_bytes, sector);
        assert!(properties.physical_sector_bytes >= sector);
    }
    for (sector, least) in [(0, 512), (1024, 512), (8192, 512), (512, 4096)] {
        let error = with(sector, least).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::NotADisk, "{error}");
        assert!(error.detail.contains(&format!("a sector of {sector} bytes")), "{error}");
    }
}

#[test]
fn a_queue_depth_is_within_its_bounds() {
    let image = Image::new("depth", 1 << 20);
    for (queue_depth, is_allowed) in
        [(0, false), (1, true), (OpenOptions::QUEUE_DEPTH_LIMIT, true), (u16::MAX, false)]
    {
        let opened = image.open(&OpenOptions { queue_depth, ..OpenOptions::default() });
        assert_eq!(opened.is_ok(), is_allowed, "{queue_depth}");
    }
}

/// All ways in which a file can be asked for, on a file system that honours durable writes and has direct I/O.
#[test]
fn a_file_goes_through_the_page_cache_where_that_was_asked_for_and_is_safe_and_nowhere_else() {
    let image = Image::new("ways", 1 << 20);
    if !has_durable_direct_writes(&image.0) {
        return;
    }
    for case in 0..1 << 6 {
        let is_set = |bit: u32| case >> bit & 1 == 1;
        let options = OpenOptions {
            read_only: is_set(0),
            exclusive: is_set(1),
            direct: is_set(2),
            cache_reads: is_set(3),
            cache_writes: is_set(4),
            rotational: Some(is_set(5)),
            ..OpenOptions::default()
        };
        let target = image.open(&options).unwrap();
        let OpenOptions { read_only, direct, cache_reads, cache_writes, .. } = options;
        let may_cache = direct && !is_set(5);
        let writes_by_choice = cache_writes && may_cache && !read_only;
        let writes_cached = writes_by_choice || (!direct && !read_only);
        assert_eq!(target.page_cache.is_some(), writes_cached, "{options:?}");
        assert_eq!(
            target.cached.is_some(),
            writes_by_choice || (cache_reads && may_cache),
            "{options:?}"
        );
        assert_eq!(target.way.direct, direct && !writes_cached, "{options:?}");
        let flags = rustix::fs::fcntl_getfl(&target.fd).unwrap();
        assert_eq!(flags.contains(OFlags::DIRECT), direct, "{options:?}");
        assert_eq!(target.way.write_through, !writes_cached, "{options:?}");
        assert_eq!(target.way_past_cache.is_some(), writes_by_choice, "{options:?}");
        assert!(target.way_past_cache.is_none_or(|way| way.direct && way.write_through));
        assert_eq!(target.trim_by == TrimBy::Punch, !read_only, "{options:?}");
        assert_eq!(target.trim_by == TrimBy::Nothing, read_only, "{options:?}");
        assert_eq!(target.properties.trim_reads_zero, !read_only, "{options:?}");
        assert_eq!(target.properties.fast_zero, !read_only, "{options:?}");
        let told = |what: &str| target.notes.iter().any(|note| note.contains(what));
        assert_eq!(told("goes through the page cache (as asked)"), !direct, "{options:?}");
        assert_eq!(
            told("is read and written through the page cache"),
            writes_by_choice,
            "{options:?}"
        );
        assert!(!told("not known to honour"), "{options:?}");
    }
}

#[test]
fn a_device_is_written_through_the_page_cache_only_if_that_was_asked_for() {
    let image = Image::new("device", 1 << 20);
    let Some(device) = Attached::to(&image.0) else { return };
    for (direct, read_only, rotational) in
        [(true, false, false), (true, true, true), (false, false, true), (false, true, false)]
    {
        let rotational = Some(rotational);
        let options = OpenOptions { read_only, direct, rotational, ..OpenOptions::default() };
        let target = Target::open(&device.0, &options).unwrap();
        let writes_cached = !direct && !read_only;
        assert_eq!(target.page_cache.is_some(), writes_cached, "{options:?}");
        assert_eq!((target.way.direct, target.way.write_through), (direct, !writes_cached));
        assert_eq!(Some(target.properties.rotational), rotational);
        target.release();
    }
}

#[test]
fn a_device_ends_where_its_last_byte_is() {
    let image = Image::new("device-end", 1 << 20);
    let Some(device) = Attached::to(&image.0) else { return };
    let target = Target::open(&device.0, &OpenOptions::default()).unwrap();
    assert!(!target.ends_before(1) && !target.ends_before(1 << 20));
    assert!(target.ends_before((1 << 20) + 1));
    target.release();
}

#[test]
fn who_only_reads_shares_a_file_with_other_readers_of_a_kind() {
    let image = Image::new("shared", 1 << 20);
    let other = fs::File::open(&image.0).unwrap();
    for read_only in [true, false] {
        let target = image.open(&OpenOptions { read_only, ..OpenOptions::default() }).unwrap();
        let held = crate::byte_lock::holder(&other).expect("programs for virtual machines see it");
        assert_eq!(held.is_shared_by_us, read_only);
        target.release();
        assert_eq!(crate::byte_lock::holder(&other), None);
    }
}

#[test]
fn a_file_system_is_trusted_by_its_kind_and_asked_what_it_can() {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let made_up = rustix::fs::open("/proc/self/status", flags, Mode::empty()).unwrap();
    assert!(!honours_dsync(&made_up));
    assert!(!can_punch(&made_up, &rustix::fs::fstat(&made_up).unwrap()));
    let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(honours_dsync(&memory), "tmpfs has nothing that could be late");
    assert!(can_punch(&memory, &rustix::fs::fstat(&memory).unwrap()));
}
