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
    }

    #[test]
    fn a_device_that_is_not_there_leaves_it_open() {
        let finding = time_device(4095, 99_999);
        assert_eq!(finding.verdict, Verdict::NotSure);
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
