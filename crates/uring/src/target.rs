//! An opened file or block device and the facts about it that commands depend on.
//!
//! Facts come from the kernel where it tells, from the options where the user knows better, and
//! from the cautious side otherwise; each guess leaves a note. The target never changes after open
//! except for learning that the kernel refuses one way of zeroing.

use crate::error::{OpenError, OpenErrorKind};
use crate::exclusive;
use crate::ioctl;
use crate::medium;
use crate::options::OpenOptions;
use crate::page_cache::PageCache;
use crate::past_cache::Way;
use crate::probe_direct::{self, Alignment};
use crate::probe_head;
use crate::sysfs::BlockAttributes;
use crate::zoned;
use nearhead_disk::{Nanos, Properties, Run};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest single read or write. Eight large transfers keep any disk streaming; a larger limit
/// would only add memory per command.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 8 << 20;

/// File systems whose in-kernel write path is known to honour `RWF_DSYNC` also for direct I/O:
/// `(magic of statfs(2), name)`. Elsewhere a durable write is a write followed by `fdatasync`.
const HONOURS_DSYNC: [(u64, &str); 5] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
];
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// How a range can be made to read as zeros, or forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrimBy {
    /// Deallocating blocks of a file, or unmapping those of a device that zeroes by itself; they then read as zeros.
    Punch,
    /// A discard of a device that promises nothing about later reads.
    Discard,
    /// Not at all: a trim is a hint, and succeeds without effect.
    Nothing,
}

/// An open disk.
pub(crate) struct Target {
    pub(crate) fd: OwnedFd,
    /// The same file through the page cache: for reads, and for writes as well if `page_cache` is there.
    pub(crate) cached: Option<OwnedFd>,
    /// What is to be kept in mind where writes go through the page cache.
    pub(crate) page_cache: Option<PageCache>,
    /// How bytes go to the disk now, and how they can go past the page cache if they do not yet.
    pub(crate) way: Way,
    pub(crate) way_past_cache: Option<Way>,
    /// Whether they go that way instead.
    pub(crate) is_past_cache: AtomicBool,
    pub(crate) properties: Properties,
    pub(crate) read_only: bool,
    pub(crate) trim_by: TrimBy,
    pub(crate) notes: Vec<String>,
    is_file: bool,
    /// What lies beneath a device, kept from others as well.
    beneath: Vec<OwnedFd>,
    zero_range_refused: AtomicBool,
}

impl Target {
    /// Holes of a file, also of parts that were allocated and never written. A device does not tell of any.
    pub(crate) fn run_at(&self, offset: u64) -> Run {
        if !self.is_file {
            return Run::UNKNOWN;
        }
        // Every transfer names its place: nobody minds where the file's own offset stands.
        match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => Run { len: data - offset, zero: true },
            Ok(_) => match rustix::fs::seek(&self.fd, SeekFrom::Hole(offset)) {
                Ok(hole) if hole > offset => Run { len: hole - offset, zero: false },
                _ => Run::UNKNOWN,
            },
            // No data from there on.
            Err(Errno::NXIO) if offset < self.properties.capacity_bytes => {
                Run { len: self.properties.capacity_bytes - offset, zero: true }
            }
            Err(_) => Run::UNKNOWN,
        }
    }

    /// Opens `path` and learns the facts.
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let shown = path.display().to_string();
        if !(1..=OpenOptions::QUEUE_DEPTH_LIMIT).contains(&options.queue_depth) {
            let detail = format!(
                "cannot open {shown}: expected a queue depth of 1 to {}, found {}",
                OpenOptions::QUEUE_DEPTH_LIMIT,
                options.queue_depth
            );
            return Err(OpenError::new(OpenErrorKind::NotADisk, detail));
        }
        // Looked at before opening: opening a FIFO would wait for its other end.
        let kind = fs::metadata(path)
            .map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                OpenError::from_errno("open", &shown, errno)
            })?
            .file_type();
        let mut target = if kind.is_file() {
            open_file(path, &shown, options)?
        } else if kind.is_block_device() {
            open_device(path, &shown, options)?
        } else {
            let detail = format!(
                "cannot open {shown}: expected a regular file or a block device, found {}",
                crate::error::name_of_type(kind)
            );
            return Err(OpenError::new(OpenErrorKind::NotADisk, detail));
        };
        target.apply(options, &shown)?;
        if target.caches_writes() && options.exclusive {
            target.empty_cache();
        }
        Ok(target)
    }

    /// What somebody wrote before, and the disk did not take, may be in the cache all the same: what is read
    /// from here on is what the disk has.
    fn empty_cache(&mut self) {
        if let Err(errno) = rustix::fs::fdatasync(self.write_fd()) {
            let found = crate::error::name_of(errno);
            self.notes.push(format!(
                "{}: what was written before it was opened could not be made durable ({found}): what counts is \
                 what the disk has; see the kernel log",
                self.properties.name
            ));
        }
        let _ = rustix::fs::fadvise(self.write_fd(), 0, None, rustix::fs::Advice::DontNeed);
    }

    /// Whether it is a block device that is shorter than `end` bytes by now: it left, or was made smaller.
    pub(crate) fn ends_before(&self, end: u64) -> bool {
        let stat = rustix::fs::fstat(&self.fd);
        let is_device = stat
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device());
        is_device && rustix::fs::seek(&self.fd, SeekFrom::End(0)).is_ok_and(|size| size < end)
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether it is a file on a device without a head: the kernel makes durable writes to it in a
    /// worker thread, and they take about as long as waking two threads.
    pub(crate) fn is_file_on_flash(&self) -> bool {
        self.is_file && !self.properties.rotational
    }

    /// Whether the kernel may still be asked to zero a range by itself.
    pub(crate) fn may_zero_range(&self) -> bool {
        !self.zero_range_refused.load(Ordering::Relaxed)
    }

    /// Remembers that it refused.
    pub(crate) fn zero_range_was_refused(&self) {
        self.zero_range_refused.store(true, Ordering::Relaxed);
    }

    /// Lets others in. Called once no command is outstanding.
    pub(crate) fn release(&self) {
        if self.is_file {
            exclusive::unlock_file(self.fd());
        }
        self.beneath.iter().for_each(exclusive::unlock_file);
    }

    /// Lets the user's knowledge override the kernel's, and checks the outcome.
    fn apply(&mut self, options: &OpenOptions, shown: &str) -> Result<(), OpenError> {
        let properties = &mut self.properties;
        if let Some(sector) = options.sector_bytes {
            if !matches!(sector, 512 | 4096) || sector < properties.sector_bytes {
                let detail = format!(
                    "cannot open {shown} with a sector of {sector} bytes: expected 512 or 4096 and at least the {} of the device",
                    properties.sector_bytes
                );
                return Err(OpenError::new(OpenErrorKind::NotADisk, detail));
            }
            properties.sector_bytes = sector;
            properties.physical_sector_bytes = properties.physical_sector_bytes.max(sector);
        }
        if let Some(rotational) = options.rotational {
            properties.rotational = rotational;
        }
        let told = options.revolutions_per_minute;
        properties.rotation_period =
            rotation_period(told, properties.rotation_period).filter(|_| properties.rotational);
        properties.queue_depth_max = options.queue_depth;
        let tail = properties.capacity_bytes % u64::from(properties.sector_bytes);
        if tail != 0 {
            self.notes.push(format!("the last {tail} bytes are no whole sector and are not used"));
            properties.capacity_bytes -= tail;
        }
        if properties.capacity_bytes == 0 {
            let detail = format!(
                "cannot use {shown}: expected at least one sector of {} bytes, found {tail} bytes",
                properties.sector_bytes
            );
            return Err(OpenError::new(OpenErrorKind::Size, detail));
        }
        properties
            .validate()
            .map_err(|error| OpenError::new(OpenErrorKind::NotADisk, format!("cannot use {error}")))
    }
}

fn rotation_period(told: Option<u32>, found: Option<Nanos>) -> Option<Nanos> {
    match told {
        Some(rpm) if rpm > 0 => Some(Nanos(60_000_000_000 / u64::from(rpm))),
        _ => found,
    }
}

fn access_flags(options: &OpenOptions) -> OFlags {
    let access = if options.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    access | OFlags::CLOEXEC
}

fn open_file(path: &Path, shown: &str, options: &OpenOptions) -> Result<Target, OpenError> {
    let flags = access_flags(options);
    let failed = |errno| OpenError::from_errno("open", shown, errno);
    let mut notes = Vec::new();
    let mut fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let alignment = if options.direct { probe_direct::reported_alignment(&fd) } else { None };
    let wants_direct = options.direct && alignment.is_none_or(Alignment::is_usable);
    let mut direct = false;
    if wants_direct {
        match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(direct_fd) => {
                fd = direct_fd;
                direct = true;
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    if options.exclusive {
        exclusive::lock_file(&fd, shown, !options.read_only)?;
    }
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    // Whoever had it before may have taken its name away until they let go: what is written to it would be gone.
    if options.exclusive && stat.st_nlink == 0 {
        return Err(failed(Errno::NOENT));
    }
    let magic = magic_of(&fd);
    let under = BlockAttributes::of(rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let alignment = direct.then(|| {
        alignment.unwrap_or_else(|| probe_direct::measured_alignment(&fd, stat.st_size as u64))
    });
    let direct = alignment.is_some_and(Alignment::is_usable);
    if alignment.is_some() && !direct {
        // The probe found no alignment that works: go on through the page cache.
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(failed)?;
        rustix::fs::fcntl_setfl(&fd, flags - OFlags::DIRECT).map_err(failed)?;
    }
    if !direct {
        notes.push(format!(
            "{shown} goes through the page cache ({}); durability is by fdatasync all the same",
            if options.direct { "its file system has no direct I/O" } else { "as asked" }
        ));
    }
    if magic == TMPFS_MAGIC {
        notes.push(format!("{shown} lives in memory (tmpfs): nothing in it survives a power cut"));
    }
    let write_through = honours_dsync(&fd);
    if !write_through {
        notes.push(format!(
            "file system {magic:#x} is not known to honour RWF_DSYNC: a durable write is a write and an fdatasync"
        ));
    }
    let trim_by =
        if !options.read_only && can_punch(&fd, &stat) { TrimBy::Punch } else { TrimBy::Nothing };
    // Also where writes go through the page cache: the volume may be opened past it tomorrow.
    let sector_bytes = alignment.filter(|_| direct).map_or(512, Alignment::sector_bytes);
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let time = || probe_head::time_file(fd.as_fd(), major, minor, direct);
    let rotational = medium::is_rotational(options, under.rotational(), time, &mut notes);
    let may_cache = direct && !rotational;
    // The same file systems tell each open file of a page that they could not write.
    let tells = write_through && !options.read_only;
    let writes = options.cache_writes && may_cache && tells;
    let reads = options.cache_reads && may_cache;
    let cached = if reads || writes { open_cached(path, &stat, writes) } else { None };
    let caches_writes = !options.read_only && (!direct || (writes && cached.is_some()));
    if caches_writes && direct {
        notes.push(format!(
            "{shown} is read and written through the page cache, since no head moves; --page-cache=false for past it"
        ));
    }
    let past_cache = Way {
        direct,
        memory_align_bytes: alignment.filter(|_| direct).map_or(1, Alignment::memory_bytes),
        write_through,
    };
    Ok(Target {
        cached,
        page_cache: caches_writes.then(|| PageCache::new(write_through)),
        properties: Properties {
            name: shown.to_owned(),
            capacity_bytes: stat.st_size as u64,
            sector_bytes,
            physical_sector_bytes: under.physical_block_bytes().unwrap_or(4096).max(sector_bytes),
            rotational,
            rotation_period: rotation_period(under.revolutions_per_minute(), None),
            volatile_cache: true,
            trim_reads_zero: trim_by == TrimBy::Punch,
            fast_zero: trim_by == TrimBy::Punch,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            queue_depth_max: options.queue_depth,
            width: 1,
            striping: None,
        },
        fd,
        read_only: options.read_only,
        way: if caches_writes { Way::THROUGH_CACHE } else { past_cache },
        way_past_cache: (caches_writes && direct).then_some(past_cache),
        is_past_cache: AtomicBool::new(false),
        trim_by,
        notes,
        is_file: true,
        beneath: Vec::new(),
        zero_range_refused: AtomicBool::new(false),
    })
}

/// The file at `path` through the page cache, if it still is the one that `stat` is of.
fn open_cached(path: &Path, stat: &Stat, writes: bool) -> Option<OwnedFd> {
    let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let found = rustix::fs::fstat(&fd).ok()?;
    ((found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino)).then_some(fd)
}

/// Which kind of file system a file is in.
fn magic_of(fd: &OwnedFd) -> u64 {
    rustix::fs::fstatfs(fd).map_or(0, |found| found.f_type as u64)
}

/// Whether a write with `RWF_DSYNC` is known to be durable there.
pub(crate) fn honours_dsync(fd: &OwnedFd) -> bool {
    let magic = magic_of(fd);
    HONOURS_DSYNC.iter().any(|(known, _)| *known == magic)
}

/// Whether the file system deallocates ranges, asked beyond the end of the file, where there is
/// nothing to lose.
fn can_punch(fd: &OwnedFd, stat: &Stat) -> bool {
    let beyond = (stat.st_size as u64).next_multiple_of(4096);
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, mode, beyond, 4096).is_ok()
}

/// How a block device is trimmed. Since Linux 4.12 no device's discard is trusted to leave zeros; a hole that is punched into a device
/// is zeroed by a command that lets the device unmap (`blkdev_fallocate`).
fn trim_of_device(discards: bool, writes_zeroes: bool) -> TrimBy {
    match (discards, writes_zeroes) {
        (true, true) => TrimBy::Punch,
        (true, false) => TrimBy::Discard,
        (false, _) => TrimBy::Nothing,
    }
}

fn open_device(path: &Path, shown: &str, options: &OpenOptions) -> Result<Target, OpenError> {
    let failed = |errno| OpenError::from_errno("open", shown, errno);
    let mut flags = access_flags(options);
    if options.direct {
        flags |= OFlags::DIRECT;
    }
    let (fd, beneath) = if options.exclusive {
        exclusive::open_device(path, flags)?
    } else {
        (rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?, Vec::new())
    };
    if !options.read_only && ioctl::is_read_only(fd.as_fd()).map_err(failed)? {
        let detail = format!(
            "cannot write to {shown}: expected a writable device, found it write-protected; open it read-only"
        );
        return Err(OpenError::new(OpenErrorKind::ReadOnly, detail));
    }
    let stat = rustix::fs::fstat(&fd).map_err(failed)?;
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let attributes = BlockAttributes::of(major, minor);
    let sector_bytes = rustix::fs::ioctl_blksszget(&fd).map_err(failed)?;
    let physical = rustix::fs::ioctl_blkpbszget(&fd).unwrap_or(sector_bytes);
    let mut notes: Vec<String> = zoned::check(&attributes, shown)?.into_iter().collect();
    let kernel = ioctl::is_rotational(fd.as_fd()).ok().filter(|_| attributes.knows_rotation());
    let kernel = kernel.or_else(|| attributes.rotational());
    let time = || probe_head::time_device(major, minor);
    let rotational = medium::is_rotational(options, kernel, time, &mut notes);
    if attributes.write_back_cache().is_none() {
        notes.push(format!(
            "{shown} does not tell whether its cache is volatile: taken as volatile"
        ));
    }
    let caches_writes = !options.direct && !options.read_only;
    let trim_by = trim_of_device(attributes.discards(), attributes.writes_zeroes());
    // A mechanical disk offloads the transfer of zeros, not the time to write them; one that discards as well is a device of
    // another kind that says it turns (a loop device, a thin volume).
    let fast_zero = trim_by == TrimBy::Punch || (attributes.writes_zeroes() && !rotational);
    Ok(Target {
        cached: None,
        page_cache: caches_writes.then(|| PageCache::new(true)),
        properties: Properties {
            name: shown.to_owned(),
            capacity_bytes: ioctl::size_bytes(fd.as_fd()).map_err(failed)?,
            sector_bytes,
            physical_sector_bytes: physical.max(sector_bytes),
            rotational,
            rotation_period: rotation_period(attributes.revolutions_per_minute(), None),
            volatile_cache: attributes.write_back_cache().unwrap_or(true),
            trim_reads_zero: trim_by == TrimBy::Punch,
            fast_zero,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            queue_depth_max: options.queue_depth,
            width: 1,
            striping: None,
        },
        fd,
        read_only: options.read_only,
        way: Way {
            direct: options.direct,
            memory_align_bytes: if options.direct { sector_bytes as usize } else { 1 },
            write_through: !caches_writes,
        },
        way_past_cache: None,
        is_past_cache: AtomicBool::new(false),
        trim_by,
        notes,
        is_file: false,
        beneath,
        zero_range_refused: AtomicBool::new(false),
    })
}

#[cfg(test)]
#[path = "target_tests.rs"]
pub(crate) mod tests;
