//! What is known of a running system: its threads, its open files, what lies under them.
//!
//! From `/proc` and `/sys` (`proc(5)`). What cannot be read, of another user's process or in a container, is
//! missing, never guessed; files and threads come and go meanwhile, and are left out then.

use super::log_names::pattern_of;
use crate::error::{Result, WalError, WalErrorKind};
use nearhead_uring::{IoPriority, priority_of, scheduler_of, wake_up_limit_us};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Flags of an open file, as `/proc/PID/fdinfo` has them in octal (`open(2)`, Linux).
const ACCESS: u32 = 3;
const DSYNC: u32 = 0o10_000;
const DIRECT: u32 = 0o40_000;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub number: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Whether it is in the real-time I/O class; `None` where that cannot be asked.
    pub is_real_time: Option<bool>,
}

/// A file that is open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it looks like a log.
    pub is_log: bool,
    /// Whether each write is durable when it returns.
    pub writes_through: bool,
    /// Whether it bypasses the page cache.
    pub is_direct: bool,
}

/// A system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The process that was asked about, or that has files below the directory.
    pub process: Option<u32>,
    /// Its name.
    pub process_name: String,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its regular files, open for writing.
    pub files: Vec<OpenFile>,
    /// Where its logs are.
    pub directory: PathBuf,
    /// The type of the file system there, and its options.
    pub file_system: Option<(String, String)>,
    /// The device under it.
    pub device: Option<(u32, u32)>,
    /// The scheduler of that.
    pub scheduler: Option<String>,
    /// The others it could have.
    pub schedulers_other: Vec<String>,
    /// Within how many microseconds idle processors have to be back, as somebody asked; 0: they stay awake.
    pub wake_up_limit_us: Option<i32>,
}

impl Facts {
    /// About the process with this number.
    ///
    /// # Errors
    /// [`WalErrorKind::NotFound`] without one; [`WalErrorKind::Permission`] for another user's.
    pub fn of_process(process: u32) -> Result<Self> {
        let root = PathBuf::from(format!("/proc/{process}"));
        if !root.is_dir() {
            let detail = format!("process {process}: expected a running one, found none");
            return Err(WalError::new(WalErrorKind::NotFound, detail));
        }
        let files = files_of(&root).ok_or_else(|| {
            let detail = format!("process {process}: its open files are another user's to see; run as that user, or as root");
            WalError::new(WalErrorKind::Permission, detail)
        })?;
        let named = files.iter().find(|file| file.is_log).or_else(|| files.first());
        let directory = named.and_then(|file| file.path.parent()).map(Path::to_owned);
        let mut facts = Self {
            process: Some(process),
            process_name: name_of(&root),
            threads: threads_of(&root),
            files,
            ..Self::default()
        };
        if let Some(directory) = directory {
            facts.look_below(&directory);
        }
        Ok(facts)
    }

    /// About a directory, and the process that has most files below it open for writing, if any has.
    ///
    /// # Errors
    /// [`WalErrorKind::NotFound`] without one.
    pub fn of_directory(directory: &Path) -> Result<Self> {
        let Ok(directory) = directory.canonicalize() else {
            let detail = format!(
                "{}: expected a process or a directory, found neither",
                directory.display()
            );
            return Err(WalError::new(WalErrorKind::NotFound, detail));
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let open_below = |process: &u32| {
            let files = files_of(Path::new(&format!("/proc/{process}"))).unwrap_or_default();
            files.iter().filter(|file| file.path.starts_with(&directory)).count()
        };
        let busiest = numbers.map(|process| (open_below(&process), process)).max();
        let mut facts = match busiest {
            Some((1.., process)) => Self::of_process(process).unwrap_or_default(),
            _ => Self::default(),
        };
        facts.files.retain(|file| file.path.starts_with(&directory));
        facts.look_below(&directory);
        Ok(facts)
    }

    fn look_below(&mut self, directory: &Path) {
        directory.clone_into(&mut self.directory);
        let Ok(status) = fs::metadata(directory) else { return };
        let device = (major(status.dev()), minor(status.dev()));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        self.file_system = file_system_in(&mounts, directory);
        self.device = Some(device);
        let scheduler = scheduler_of(device.0, device.1);
        let (scheduler, others) = scheduler.unzip();
        self.scheduler = scheduler;
        self.schedulers_other = others.unwrap_or_default();
        self.wake_up_limit_us = wake_up_limit_us();
    }
}

/// As the kernel packs them for programs (`makedev(3)`).
fn major(device: u64) -> u32 {
    ((device >> 8 & 0xFFF) | (device >> 32 & !0xFFF)) as u32
}

fn minor(device: u64) -> u32 {
    ((device & 0xFF) | (device >> 12 & !0xFF)) as u32
}

fn name_of(root: &Path) -> String {
    fs::read_to_string(root.join("comm")).unwrap_or_default().trim_end().to_owned()
}

fn threads_of(root: &Path) -> Vec<Thread> {
    let entries = fs::read_dir(root.join("task")).into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let is_real_time = priority_of(number).ok().map(IoPriority::is_real_time);
        Some(Thread { number, name: name_of(&entry.path()), is_real_time })
    });
    threads.collect()
}

/// `None` if they are another user's.
fn files_of(root: &Path) -> Option<Vec<OpenFile>> {
    let mut files: Vec<OpenFile> = Vec::new();
    // What a program says, whatever the file is called.
    let said = ["1", "2"].map(|name| fs::read_link(root.join("fd").join(name)).ok());
    for entry in fs::read_dir(root.join("fd")).ok()?.flatten() {
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        let is_regular = fs::metadata(entry.path()).is_ok_and(|status| status.is_file());
        let information = root.join("fdinfo").join(entry.file_name());
        let flags = flags_in(&fs::read_to_string(information).unwrap_or_default()).unwrap_or(0);
        if !is_regular || !path.is_absolute() || flags & ACCESS == 0 {
            continue;
        }
        if files.iter().all(|file| file.path != path) {
            files.push(OpenFile {
                is_log: pattern_of(&path).is_some() && !said.contains(&Some(path.clone())),
                path,
                writes_through: flags & DSYNC != 0,
                is_direct: flags & DIRECT != 0,
            });
        }
    }
    Some(files)
}

fn flags_in(information: &str) -> Option<u32> {
    let line = information.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// Type and options of the mount that a path lies below, from the text of `mountinfo`: the mount point is
/// the fifth field, its options the sixth, the type the first behind a lone dash.
fn file_system_in(mounts: &str, path: &Path) -> Option<(String, String)> {
    let parsed = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let mut rest = fields.skip_while(|field| *field != "-").skip(1);
        let (kind, of_system) = (rest.next()?, rest.nth(1).unwrap_or_default());
        path.starts_with(point).then(|| (point.len(), kind, format!("{options},{of_system}")))
    });
    // The innermost; of two at one place, the later.
    let found = parsed.max_by_key(|(depth, ..)| *depth);
    found.map(|(_, kind, options)| (kind.to_owned(), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                      40 22 8:2 / /data rw,noatime shared:1 - xfs /dev/sda2 rw,sync\n\
                      41 22 0:5 / /database rw - tmpfs tmpfs rw\n";
        let found = |path: &str| file_system_in(mounts, Path::new(path)).unwrap();
        assert_eq!(found("/data/log"), ("xfs".to_owned(), "rw,noatime,rw,sync".to_owned()));
        assert_eq!(found("/database/x").0, "tmpfs");
        assert_eq!(found("/var").0, "ext4");
        assert_eq!(flags_in("pos:\t0\nflags:\t0150002\nmnt_id:\t1\n"), Some(0o150_002));
    }

    #[test]
    fn numbers_of_devices_are_taken_apart_as_the_kernel_packs_them() {
        assert_eq!((major(0x0000_0801), minor(0x0000_0801)), (8, 1));
        assert_eq!((major(0x0010_0103), minor(0x0010_0103)), (0x1, 0x100 | 0x3));
    }

    #[test]
    fn a_process_is_seen_with_its_log() {
        let path = std::env::temp_dir().join(format!("nearhead-advise-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let file = fs::File::create(path.join("log.1a")).unwrap();
        let own = std::process::id();
        let inside = std::thread::Builder::new().name("SyncThread:7".to_owned());
        let facts = inside.spawn(move || Facts::of_process(own)).unwrap().join().unwrap().unwrap();
        assert!(facts.threads.iter().any(|thread| thread.name == "SyncThread:7"), "{facts:?}");
        let log = facts.files.iter().find(|file| file.path.ends_with("log.1a")).unwrap();
        assert!(log.is_log && !log.writes_through);
        let facts = Facts::of_directory(&path).unwrap();
        assert_eq!((facts.process, facts.files.len()), (Some(own), 1));
        drop(file);
        assert_eq!(Facts::of_directory(&path).unwrap().files, []);
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(Facts::of_directory(&path).unwrap_err().kind, WalErrorKind::NotFound);
        assert_eq!(Facts::of_process(u32::MAX).unwrap_err().kind, WalErrorKind::NotFound);
    }
}
