//! How a disk is to be opened. The defaults are what a volume wants: read-write, exclusive, direct.

/// Which way commands reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring` if this kernel and container allow it, else threads.
    #[default]
    Automatic,
    /// `io_uring` or an error.
    Uring,
    /// A bounded pool of threads using `preadv2` and `pwritev2`.
    Threads,
}

/// How to open a file or block device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices, not a state")]
pub struct OpenOptions {
    /// Refuse every command that changes the disk.
    pub read_only: bool,
    /// Refuse to share the disk with any other process (and keep others out while open).
    pub exclusive: bool,
    /// Bypass the page cache (`O_DIRECT`) where the file system can.
    pub direct: bool,
    /// Let the page cache answer reads of a file where no head moves; writes go past it all the same.
    pub cache_reads: bool,
    /// Let the page cache take the writes, too, of a file where no head moves, if its file system is
    /// one of those that are known to honour durable writes.
    pub cache_writes: bool,
    /// Which way commands go.
    pub engine: Engine,
    /// Most commands outstanding: 1 to [`OpenOptions::QUEUE_DEPTH_LIMIT`].
    pub queue_depth: u16,
    /// Overrides what the kernel reports (virtual disks often claim to rotate).
    pub rotational: Option<bool>,
    /// Find out by timing reads whether a head moves, where [`OpenOptions::rotational`] does not tell. It
    /// takes some milliseconds where none does and a quarter of a second elsewhere.
    pub time_head: bool,
    /// Revolutions per minute, where the device does not tell.
    pub revolutions_per_minute: Option<u32>,
    /// Pretend a larger sector than the device's: 4096 over 512.
    pub sector_bytes: Option<u32>,
}

impl OpenOptions {
    /// Bound on [`OpenOptions::queue_depth`]: memory for each command is set aside at open.
    pub const QUEUE_DEPTH_LIMIT: u16 = 4096;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            exclusive: true,
            direct: true,
            cache_reads: false,
            cache_writes: false,
            engine: Engine::Automatic,
            queue_depth: 128,
            rotational: None,
            time_head: false,
            revolutions_per_minute: None,
            sector_bytes: None,
        }
    }
}
