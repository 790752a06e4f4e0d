//! Which devices a trace is about: the one that is named, or those under the files that a process has open.
//!
//! The kernel tells of whole devices and their sectors, so of a partition it is known where it begins; the trace then has its own number and its own
//! sectors. What `/sys` says of the device goes into the trace's notes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a sector in `/sys` and in the kernel's events, whatever the device has.
const SECTOR_BYTES: u64 = 512;
/// Devices in one trace; what the kernel takes as a filter is bounded.
const DEVICES_MAX: usize = 64;

/// A device that is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traced {
    /// Its number, major and minor.
    pub(super) number: (u32, u32),
    /// Its name in `/sys`.
    pub(super) name: String,
    /// The whole device that the kernel tells of.
    pub(super) whole: (u32, u32),
    /// Where it begins there, and how long it is.
    pub(super) first_sector: u64,
    pub(super) sectors: u64,
    /// What else is known of the whole device.
    pub(super) facts: String,
}

/// A trace's subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A device.
    Device(PathBuf),
    /// A process.
    Process(u32),
}

impl Subject {
    /// By what was typed: digits alone are a process.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            let number = text.parse().map_err(|_| {
                format!("trace {text}: expected the number of a process, found one that is none")
            })?;
            return Ok(Self::Process(number));
        }
        Ok(Self::Device(PathBuf::from(text)))
    }
}

/// The devices of `subject`.
pub(super) fn of(subject: &Subject) -> Result<Vec<Traced>, String> {
    match subject {
        Subject::Device(path) => Ok(vec![named(path)?]),
        Subject::Process(number) => of_process(*number),
    }
}

fn named(path: &Path) -> Result<Traced, String> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(|error| {
        format!("trace {shown}: {error}; expected a block device, such as /dev/sda (`lsblk` lists them), or the number of a process")
    })?;
    if !found.file_type().is_block_device() {
        return Err(format!(
            "trace {shown}: expected a block device or the number of a process, found something else; for the disk under a file take the one that `df {shown}` names"
        ));
    }
    traced(Path::new("/sys"), numbers(found.rdev()))
        .ok_or_else(|| format!("trace {shown}: expected the device in /sys/dev/block, found none"))
}

/// Those under the files that a process has open, itself or by its threads.
fn of_process(process: u32) -> Result<Vec<Traced>, String> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    if !folder.is_dir() {
        return Err(format!(
            "trace {process}: expected a running process, found none with this number; a device is named by its path"
        ));
    }
    let files = fs::read_dir(folder.join("fd"))
        .map_err(|error| format!("trace {process}: cannot see which files it has open: {error}"))?;
    let mounts = fs::read_to_string(folder.join("mountinfo")).unwrap_or_default();
    let mut found = BTreeMap::new();
    for file in files.flatten() {
        let Ok(status) = fs::metadata(file.path()) else { continue };
        let number = if status.file_type().is_block_device() {
            Some(status.rdev())
        } else if status.is_file() {
            Some(status.dev())
        } else {
            None
        };
        let Some(number) = number.map(numbers) else { continue };
        let number = if number.0 == 0 { source_of(&mounts, number) } else { Some(number) };
        if let Some(traced) = number.and_then(|number| traced(Path::new("/sys"), number)) {
            found.insert(traced.number, traced);
        }
    }
    let whole: Vec<_> = found.values().map(|it: &Traced| it.number).collect();
    // A partition is told with the whole device, if that is there, too.
    found.retain(|number, it| it.whole == *number || !whole.contains(&it.whole));
    if found.is_empty() {
        return Err(format!(
            "trace {process} ({}): expected files open on a block device, found none (tmpfs, a network, pipes and sockets are none); name the device",
            name_of(process)
        ));
    }
    if found.len() > DEVICES_MAX {
        return Err(format!(
            "trace {process}: expected files on {DEVICES_MAX} devices at most, found {}; name one of them",
            found.len()
        ));
    }
    Ok(found.into_values().collect())
}

/// The device under a file system with this number.
pub(super) fn under(device: u64) -> Option<Traced> {
    traced(Path::new("/sys"), numbers(device))
}

/// What a process is called.
pub(super) fn name_of(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The device under a file system with a number of its own (btrfs, overlays have such), as `mountinfo` tells its source.
fn source_of(mounts: &str, number: (u32, u32)) -> Option<(u32, u32)> {
    let own = format!("{}:{}", number.0, number.1);
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(own.as_str()))?;
    let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
    let found = fs::metadata(source).ok()?;
    found.file_type().is_block_device().then(|| numbers(found.rdev()))
}

fn numbers(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// The device with this number, by `/sys` at `root`.
fn traced(root: &Path, number: (u32, u32)) -> Option<Traced> {
    let (major, minor) = number;
    let folder = fs::canonicalize(root.join(format!("dev/block/{major}:{minor}"))).ok()?;
    let text = |folder: &Path, name: &str| {
        fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
    };
    let count = |name: &str| text(&folder, name)?.parse::<u64>().ok();
    let is_partition = folder.join("partition").exists();
    let parent = folder.parent()?;
    let (whole, whole_folder, first_sector) = if is_partition {
        let told = text(parent, "dev")?;
        let (major, minor) = told.split_once(':')?;
        ((major.parse().ok()?, minor.parse().ok()?), parent, count("start")?)
    } else {
        (number, folder.as_path(), 0)
    };
    let sectors = count("size")?;
    let of_whole = |name: &str| text(whole_folder, name).unwrap_or_else(|| "?".to_owned());
    let kind = match of_whole("queue/rotational").as_str() {
        "0" => "no head that moves",
        "1" => "a head that moves",
        _ => "of a kind that is not told",
    };
    let facts = format!(
        "{}, {} bytes, blocks of {}, {kind}, {} cache",
        text(whole_folder, "device/model").unwrap_or_else(|| "no model told".to_owned()),
        sectors.saturating_mul(SECTOR_BYTES),
        of_whole("queue/logical_block_size"),
        of_whole("queue/write_cache")
    );
    let name = folder.file_name()?.to_string_lossy().into_owned();
    Some(Traced { number, name, whole, first_sector, sectors, facts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sys(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("nearhead-sys-{}-{name}", std::process::id()));
        let disk = root.join("block/sda");
        for folder in ["queue", "device", "sda2"] {
            fs::create_dir_all(disk.join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("dev/block")).unwrap();
        for (file, text) in [
            ("dev", "8:0\n"),
            ("size", "1000000\n"),
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "4096\n"),
            ("queue/write_cache", "write back\n"),
            ("device/model", "ST4000DM004     \n"),
            ("sda2/partition", "2\n"),
            ("sda2/start", "2048\n"),
            ("sda2/size", "4096\n"),
            ("sda2/dev", "259:7\n"),
        ] {
            fs::write(disk.join(file), text).unwrap();
        }
        for (number, target) in [("8:0", "../../block/sda"), ("259:7", "../../block/sda/sda2")] {
            std::os::unix::fs::symlink(target, root.join("dev/block").join(number)).unwrap();
        }
        root
    }

    #[test]
    fn a_partition_is_known_by_its_own_number_and_where_it_begins() {
        let root = sys("part");
        let whole = traced(&root, (8, 0)).unwrap();
        assert_eq!(
            (whole.name.as_str(), whole.whole, whole.first_sector, whole.sectors),
            ("sda", (8, 0), 0, 1_000_000)
        );
        assert_eq!(
            whole.facts,
            "ST4000DM004, 512000000 bytes, blocks of 4096, a head that moves, write back cache"
        );
        let part = traced(&root, (259, 7)).unwrap();
        assert_eq!((part.name.as_str(), part.number, part.whole), ("sda2", (259, 7), (8, 0)));
        assert_eq!((part.first_sector, part.sectors), (2048, 4096));
        assert_eq!(traced(&root, (8, 16)), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn digits_are_a_process_and_anything_else_is_a_path() {
        assert_eq!(Subject::parse("4711"), Ok(Subject::Process(4711)));
        assert_eq!(Subject::parse("./4711"), Ok(Subject::Device("./4711".into())));
        assert_eq!(Subject::parse("/dev/sda"), Ok(Subject::Device("/dev/sda".into())));
        assert!(Subject::parse("99999999999").unwrap_err().contains("number of a process"));
    }

    #[test]
    fn what_cannot_be_traced_says_what_was_expected() {
        for (subject, part) in [
            (Subject::Device("/no/such".into()), "expected a block device, such as /dev/sda"),
            (Subject::Device("/dev/null".into()), "found something else"),
            (Subject::Process(4_194_999), "expected a running process"),
        ] {
            let problem = of(&subject).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
