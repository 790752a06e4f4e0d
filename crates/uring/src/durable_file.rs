//! One file for blocking durable writes: past the page cache where the file system can.
//!
//! What a log or a bulk stream needs, as opposed to a disk: no queue, no commands, the caller's
//! thread does the work. A durable write has returned only once its bytes survive a power cut, by
//! `RWF_DSYNC` where the file system is known to honour it and by `fdatasync` elsewhere. An error
//! of either says that nobody knows what is durable: it must never be answered by calling
//! [`DurableFile::sync`] alone again, because the kernel may have thrown the bytes away and
//! reported that once.

use crate::error::OpenError;
use crate::exclusive;
use crate::probe_direct::{self, Alignment};
use crate::target::honours_dsync;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSlice};
use std::path::Path;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading one that exists.
    Read,
    /// Reading and writing one that exists.
    Write,
    /// The same, and it must be made.
    Create,
}

/// An open file.
#[derive(Debug)]
pub struct DurableFile {
    fd: OwnedFd,
    name: String,
    direct: Option<Alignment>,
    dsync: bool,
}

impl DurableFile {
    /// Opens `path`; `direct` asks to bypass the page cache, which [`DurableFile::is_direct`] confirms.
    pub fn open(path: &Path, access: Access, direct: bool) -> Result<Self, OpenError> {
        let name = path.display().to_string();
        let failed = |errno| OpenError::from_errno("open", &name, errno);
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        } | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let fd = rustix::fs::open(path, flags, mode).map_err(failed)?;
        let dsync = honours_dsync(&fd);
        let mut file = Self { fd, name, direct: None, dsync };
        if direct {
            file.go_direct();
        }
        Ok(file)
    }

    /// A file that is open already, called `name` in messages. Whether it bypasses the page cache
    /// is for whoever opened it to say, and is taken over.
    pub fn from_open(fd: OwnedFd, name: &str) -> Self {
        let dsync = honours_dsync(&fd);
        let mut file = Self { fd, name: name.to_owned(), direct: None, dsync };
        let flags = rustix::fs::fcntl_getfl(&file.fd);
        if flags.is_ok_and(|flags| flags.contains(OFlags::DIRECT)) {
            file.direct = Some(file.alignment());
        }
        file
    }

    fn alignment(&self) -> Alignment {
        let size_bytes = self.len_bytes().unwrap_or(0);
        probe_direct::reported_alignment(&self.fd)
            .unwrap_or_else(|| probe_direct::measured_alignment(&self.fd, size_bytes))
    }

    /// Switches the page cache off if that works here.
    fn go_direct(&mut self) {
        let Ok(flags) = rustix::fs::fcntl_getfl(&self.fd) else { return };
        if rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::DIRECT).is_err() {
            return;
        }
        let alignment = self.alignment();
        if alignment.is_usable() {
            self.direct = Some(alignment);
        } else {
            // Without the flag it works as before, which was all right.
            let _ = rustix::fs::fcntl_setfl(&self.fd, flags);
        }
    }

    /// Keeps every other writer out until this file is closed.
    ///
    /// # Errors
    /// [`crate::OpenErrorKind::InUse`], naming who has it.
    pub fn lock(&self) -> Result<(), OpenError> {
        exclusive::lock_by(&self.fd, FlockOperation::NonBlockingLockExclusive, &self.name)
    }

    /// As it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether transfers bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Offsets, lengths and memory of transfers must be multiples of this.
    pub fn align_bytes(&self) -> u32 {
        self.direct.map_or(1, |direct| direct.sector_bytes().max(direct.memory_bytes() as u32))
    }

    /// Whether a durable write is one system call.
    pub fn writes_through(&self) -> bool {
        self.dsync
    }

    /// Numbers (major, minor) of the block device it lies on.
    pub fn device(&self) -> io::Result<(u32, u32)> {
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok((rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)))
    }

    /// Its length.
    pub fn len_bytes(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)?.st_size as u64)
    }

    /// Cuts it off or extends it with a hole. Durable after the next [`DurableFile::sync`].
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.fd, bytes)?)
    }

    /// Bytes that its file system has left for everybody.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::fstatvfs(&self.fd)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Gives it room for `bytes` from `offset` on, which read as zeros, and makes it so long. What is written there
    /// then needs no other room.
    pub fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), offset, bytes)?)
    }

    /// Fills `memory` from `offset` on; returns how much there was before the end of the file.
    pub fn read_at(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < memory.len() {
            match rustix::io::pread(&self.fd, &mut memory[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => {
                    done += read;
                    if self.is_direct() && !done.is_multiple_of(512) {
                        // Only the end of the file is not aligned.
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }

    /// Writes `bytes`. Durable after the next [`DurableFile::sync`].
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all(bytes, offset, ReadWriteFlags::empty())
    }

    /// Writes `bytes`, which are durable when it returns.
    pub fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.dsync {
            return self.write_all(bytes, offset, ReadWriteFlags::DSYNC);
        }
        self.write_at(bytes, offset)?;
        self.sync()
    }

    fn write_all(&self, bytes: &[u8], offset: u64, flags: ReadWriteFlags) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = [IoSlice::new(&bytes[done..])];
            match rustix::io::pwritev2(&self.fd, &rest, offset + done as u64, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Makes what was written, and the length, durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.fd)?)
    }
}

impl AsFd for DurableFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
