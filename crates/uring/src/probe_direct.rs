//! What alignment direct I/O on a file needs: as the kernel reports it, or else as it turns out.

use nearhead_disk::BufferMut;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

/// Alignment of a direct transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    memory_bytes: u32,
    offset_bytes: u32,
}

impl Alignment {
    const IMPOSSIBLE: Self = Self { memory_bytes: 0, offset_bytes: 0 };

    /// Whether direct I/O works at all, with sectors the rest of the program knows.
    pub(crate) fn is_usable(self) -> bool {
        (1..=4096).contains(&self.offset_bytes) && (1..=4096).contains(&self.memory_bytes)
    }

    /// The sector commands must keep to: 512 or 4096.
    pub(crate) fn sector_bytes(self) -> u32 {
        if self.offset_bytes <= 512 { 512 } else { 4096 }
    }

    /// What the address of the memory must be a multiple of.
    pub(crate) fn memory_bytes(self) -> usize {
        self.memory_bytes as usize
    }
}

/// What the kernel reports (`STATX_DIOALIGN`, Linux 6.1 and later; zeros mean no direct I/O).
pub(crate) fn reported_alignment(fd: &OwnedFd) -> Option<Alignment> {
    let found = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    told.then_some(Alignment {
        memory_bytes: found.stx_dio_mem_align,
        offset_bytes: found.stx_dio_offset_align,
    })
}

/// What works, found by reading, on kernels that do not report it.
pub(crate) fn measured_alignment(fd: &OwnedFd, size_bytes: u64) -> Alignment {
    let mut page = BufferMut::zeroed(4096);
    for sector in [512_usize, 4096] {
        let offset = if size_bytes >= 2 * sector as u64 { sector as u64 } else { 0 };
        loop {
            match rustix::io::pread(fd, &mut page[..sector], offset) {
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::OPNOTSUPP) => break,
                // An unreadable sector says nothing against the alignment.
                Ok(_) | Err(_) => {
                    let bytes = sector as u32;
                    return Alignment { memory_bytes: bytes, offset_bytes: bytes };
                }
            }
        }
    }
    Alignment::IMPOSSIBLE
}
