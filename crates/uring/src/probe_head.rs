//! Reads that find out whether a head moves: at most [`PAIRS_MAX`] pairs and [`TIME_MAX`], past the page
//! cache, and never a write.
//!
//! What is timed is the block device. A file's own holes are answered by its file system, so for a file it is
//! the device that the file lies on, and for a loop device the one that its backing file lies on. Where
//! that cannot be opened (it takes a privilege) the file is read where it holds data; where it holds too
//! little the verdict is "not sure".
//!
//! Places differ from one opening to the next: a drive remembers what it has read.

use crate::head_judgement::{PAIRS_MIN, Pair, Times, Verdict, judge};
use nearhead_disk::{BufferMut, Nanos};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Most pairs of reads.
pub(crate) const PAIRS_MAX: usize = 16;
/// No pair is begun after that.
const TIME_MAX: Duration = Duration::from_millis(250);
const READ_BYTES: u64 = 4096;
/// Loop devices on files on loop devices are followed so far.
const LOOPS_MAX: usize = 4;
/// Loop devices (`Documentation/admin-guide/devices.txt`).
const LOOP_MAJOR: u32 = 7;

/// What was found out.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// For people.
    pub(crate) text: String,
}

impl Finding {
    fn not_sure(text: String) -> Self {
        Self { verdict: Verdict::NotSure, text }
    }
}

/// Times the block device with these numbers, or the one that it lies on.
pub(crate) fn time_device(major: u32, minor: u32) -> Finding {
    match open_node(major, minor) {
        Ok((path, file)) => time_whole(&file, &path.display().to_string()),
        Err(why) => Finding::not_sure(why),
    }
}

/// Times the device under a file, or else the file where it holds data.
pub(crate) fn time_file(file: BorrowedFd<'_>, major: u32, minor: u32, is_direct: bool) -> Finding {
    match open_node(major, minor) {
        Ok((path, file)) => time_whole(&file, &path.display().to_string()),
        Err(why) if !is_direct => Finding::not_sure(why),
        Err(why) => time_data(file).unwrap_or_else(|| Finding::not_sure(why)),
    }
}

/// The node of the device that reads are answered by, opened past the page cache.
fn open_node(mut major: u32, mut minor: u32) -> Result<(PathBuf, OwnedFd), String> {
    for _ in 0..LOOPS_MAX {
        let Some(backing) = backing_file(major, minor) else { break };
        let found = fs::metadata(&backing).map_err(|error| {
            format!("the backing file {} is out of reach: {error}", backing.display())
        })?;
        (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    }
    let told = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent"))
        .map_err(|_| format!("no block device {major}:{minor} is to be seen"))?;
    let name = told.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    let path = Path::new("/dev").join(name.ok_or("the device has no name")?);
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::empty())
        .map_err(|errno| format!("{} cannot be opened to time it: {errno}", path.display()))?;
    let found = rustix::fs::fstat(&file).map_err(|errno| errno.to_string())?;
    // Names under /dev are whatever somebody made there.
    if found.st_rdev != rustix::fs::makedev(major, minor) {
        return Err(format!("{} is another device than {major}:{minor}", path.display()));
    }
    Ok((path, file))
}

fn backing_file(major: u32, minor: u32) -> Option<PathBuf> {
    let path = format!("/sys/dev/block/{major}:{minor}/loop/backing_file");
    let told = (major == LOOP_MAJOR).then(|| fs::read_to_string(path).ok())??;
    Some(PathBuf::from(told.trim_end_matches('\n')))
}

fn time_whole(file: &OwnedFd, name: &str) -> Finding {
    match crate::ioctl::size_bytes(file.as_fd()) {
        Ok(bytes) => told(name, &time(file.as_fd(), far_offsets(bytes, phase()))),
        Err(errno) => Finding::not_sure(format!("{name} does not tell its size: {errno}")),
    }
}

/// A file where it holds data; `None` if that is in too few places.
fn time_data(file: BorrowedFd<'_>) -> Option<Finding> {
    let bytes = rustix::fs::fstat(file).ok()?.st_size as u64;
    let mut places: Vec<u64> = far_offsets(bytes, phase())
        .take(PAIRS_MAX)
        .filter_map(|offset| {
            let found = rustix::fs::seek(file, SeekFrom::Data(offset)).ok()?;
            let place = found.next_multiple_of(READ_BYTES);
            (place + 2 * READ_BYTES <= bytes).then_some(place)
        })
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(*place));
    (places.len() >= PAIRS_MIN).then(|| told("the file", &time(file, places.into_iter())))
}

fn time(file: BorrowedFd<'_>, offsets: impl Iterator<Item = u64>) -> Vec<Pair> {
    let mut page = BufferMut::zeroed(READ_BYTES as usize);
    let mut read = |offset: u64| {
        let began = Instant::now();
        let outcome = rustix::io::pread(file, &mut *page, offset);
        outcome.ok().map(|_| Nanos(began.elapsed().as_nanos() as u64))
    };
    let until = Instant::now() + TIME_MAX;
    offsets
        .take(PAIRS_MAX)
        .take_while(|_| Instant::now() < until)
        // What cannot be read tells nothing here; whoever needs it will say so.
        .filter_map(|offset| Some(Pair { far: read(offset)?, near: read(offset + READ_BYTES)? }))
        .collect()
}

fn told(name: &str, pairs: &[Pair]) -> Finding {
    let verdict = judge(pairs);
    if pairs.len() < PAIRS_MIN {
        let text = format!("{name} answered {} pairs of reads in time", pairs.len());
        return Finding { verdict, text };
    }
    let ms = |time: Nanos| time.as_secs_f64() * 1e3;
    let (far, near) = (Times::far(pairs), Times::near(pairs));
    let text = format!(
        "{name} reads far places in {:.2} ms and their neighbours in {:.2} ms, in the middle of {}",
        ms(far.middle),
        ms(near.middle),
        pairs.len()
    );
    Finding { verdict, text }
}

/// Places of which each is at least a third of `bytes` from the one before: steps of the golden ratio, from
/// `phase` on.
pub(crate) fn far_offsets(bytes: u64, phase: u64) -> impl Iterator<Item = u64> {
    // 2^64 over the golden ratio.
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let places = bytes / READ_BYTES;
    let count = if places < 2 { 0 } else { usize::MAX };
    (0..count).scan(phase, move |at, _| {
        *at = at.wrapping_add(STEP);
        let place = (u128::from(*at) * u128::from(places - 1)) >> 64;
        Some(place as u64 * READ_BYTES)
    })
}

fn phase() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_far_apart_and_within_the_device() {
        for (bytes, phase) in [(1 << 40, 7), (1 << 30, u64::MAX), (8192, 3)] {
            let places: Vec<u64> = far_offsets(bytes, phase).take(100).collect();
            for pair in places.windows(2) {
                let far = pair[0].abs_diff(pair[1]);
                assert!(bytes < 1 << 20 || far >= bytes / 3, "{far} of {bytes}");
            }
            assert!(places.iter().all(|place| place + 2 * READ_BYTES <= bytes));
        }
        assert_eq!(far_offsets(4096, 1).count(), 0, "a device of one block has no far places");
        assert_eq!(far_offsets(8192, 1).next(), Some(0), "one of two blocks has one place");
    }

    #[test]
    fn a_device_that_is_not_there_leaves_it_open() {
        let finding = time_device(4095, 99_999);
        assert_eq!(finding.verdict, Verdict::NotSure);
    }

    /// A file that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: usize) -> Self {
            let name = format!("nearhead-probe-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::write(&path, vec![7; bytes]).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_is_timed_where_it_holds_data_if_its_device_is_out_of_reach() {
        let scratch = Scratch::new("data", 4 << 20);
        let file = fs::File::open(&scratch.0).unwrap();
        let of_file = |is_direct| time_file(file.as_fd(), 4095, 99_999, is_direct);
        assert!(of_file(true).text.starts_with("the file "), "{}", of_file(true).text);
        // Through the page cache its times say nothing.
        let finding = of_file(false);
        assert_eq!(finding.verdict, Verdict::NotSure);
        assert!(finding.text.contains("no block device 4095:99999"), "{}", finding.text);
    }

    #[test]
    fn what_cannot_be_read_is_not_timed() {
        let scratch = Scratch::new("unreadable", 1 << 20);
        let file = fs::File::options().write(true).open(&scratch.0).unwrap();
        assert!(time(file.as_fd(), std::iter::once(0)).is_empty());
        let file = fs::File::open(&scratch.0).unwrap();
        assert_eq!(time(file.as_fd(), std::iter::once(0)).len(), 1);
        assert!(time(file.as_fd(), std::iter::repeat(4096)).len() <= PAIRS_MAX);
    }

    #[test]
    fn people_are_told_how_long_reads_took_or_that_there_were_too_few() {
        let pair = Pair { far: Nanos(5_250_000), near: Nanos(40_000) };
        let few = told("/dev/sda", &[pair; PAIRS_MIN - 1]);
        assert_eq!(few.verdict, Verdict::NotSure);
        assert_eq!(few.text, "/dev/sda answered 5 pairs of reads in time");
        let enough = told("/dev/sda", &[pair; PAIRS_MIN]);
        assert_eq!(enough.verdict, Verdict::Moves);
        assert_eq!(
            enough.text,
            "/dev/sda reads far places in 5.25 ms and their neighbours in 0.04 ms, in the middle of 6"
        );
    }

    /// A drive remembers what it has read.
    #[test]
    fn places_differ_from_one_opening_to_the_next() {
        let first = phase();
        while phase() == first {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_loop_device_lies_on_its_file_and_nothing_else_lies_on_one() {
        let scratch = Scratch::new("loop", 1 << 20);
        let Some(device) = crate::loops::tests::Attached::to(&scratch.0) else { return };
        let number = fs::metadata(&device.0).unwrap().rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        assert_eq!(backing_file(major, minor), Some(fs::canonicalize(&scratch.0).unwrap()));
        assert_eq!(backing_file(major + 1, minor), None);
    }

    /// A partition of a loop device stands for a disk: it has a number of another kind.
    #[test]
    fn a_device_is_timed_past_the_page_cache_and_no_other_one_in_its_place() {
        let scratch = Scratch::new("partition", 8 << 20);
        let Some(device) = crate::loops::tests::Attached::to(&scratch.0) else { return };
        let mut made = std::process::Command::new("addpart");
        made.arg(&device.0).args(["1", "2048", "8192"]);
        let node = PathBuf::from(format!("{}p1", device.0.display()));
        if !made.output().is_ok_and(|output| output.status.success()) || !node.exists() {
            return println!("skipped: nobody makes partitions and their device nodes here");
        }
        let number = fs::metadata(&node).unwrap().rdev();
        let found = open_node(rustix::fs::major(number), rustix::fs::minor(number));
        let (path, file) = found.unwrap();
        assert_eq!(path, node);
        assert!(rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
        let inherited = rustix::io::fcntl_getfd(&file).unwrap();
        assert!(inherited.contains(rustix::io::FdFlags::CLOEXEC));
    }

    /// A hole is answered without the device: it must not look like a fast one.
    #[test]
    fn a_file_without_data_tells_nothing() {
        let path = std::env::temp_dir().join(format!("nearhead-holes-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        assert!(time_data(file.as_fd()).is_none());
        fs::remove_file(&path).unwrap();
    }
}
