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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, Mode, OFlags};

    #[test]
    fn an_alignment_is_usable_up_to_the_largest_sector() {
        let of = |memory_bytes, offset_bytes| Alignment { memory_bytes, offset_bytes };
        for (memory, offset, sector_bytes) in
            [(1, 1, 512), (4, 512, 512), (512, 513, 4096), (4096, 4096, 4096)]
        {
            let alignment = of(memory, offset);
            assert!(alignment.is_usable(), "{alignment:?}");
            assert_eq!(alignment.sector_bytes(), sector_bytes, "{alignment:?}");
            assert_eq!(alignment.memory_bytes(), memory as usize, "{alignment:?}");
        }
        for alignment in
            [Alignment::IMPOSSIBLE, of(0, 512), of(512, 0), of(8192, 512), of(512, 8192)]
        {
            assert!(!alignment.is_usable(), "{alignment:?}");
        }
    }

    /// Zeros would say that there is no direct I/O.
    #[test]
    fn a_file_system_that_does_not_tell_says_nothing() {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/self/status", flags, Mode::empty()).unwrap();
        assert_eq!(reported_alignment(&file), None);
    }

    #[test]
    fn where_any_alignment_works_the_smallest_sector_is_found() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        for bytes in [0_u64, 512, 1024, 1 << 20] {
            rustix::fs::ftruncate(&file, bytes).unwrap();
            let found = measured_alignment(&file, bytes);
            assert_eq!(found, Alignment { memory_bytes: 512, offset_bytes: 512 }, "{bytes} bytes");
        }
    }
}
