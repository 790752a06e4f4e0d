//! Memory that two processes share: a memory file of a fixed size, mapped as 64-bit words.
//!
//! Every word is an atomic, also those that carry data: whatever the other process does at the same
//! time, a read gives some value, never undefined behaviour. The file is sealed against shrinking
//! before it is mapped, so no access can meet a page that is gone. What the words mean, and whether
//! they can be believed, is for others: nothing here looks at one.
#![expect(unsafe_code, reason = "a mapping is memory that Rust did not allocate")]

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

const WORD_BYTES: usize = size_of::<AtomicU64>();

/// A mapping, as long as this lives.
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: it owns its mapping, which belongs to the process and to no thread of it.
unsafe impl Send for SharedWords {}
// SAFETY: it gives out shared references to atomics, and nothing else.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// New memory of so many words, all 0, and the file to give to the other process.
    ///
    /// # Errors
    /// What the kernel answered: `ENOSYS` where there are no memory files, `ENOMEM`, `EMFILE`.
    pub fn create(name: &str, words: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags)?;
        // Memory that cannot be had is an error now, not a signal later.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes_of(words)? as u64)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let memory = Self::open(&file, words)?;
        Ok((memory, file))
    }

    /// Memory that another process created.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is not of that size or might shrink.
    pub fn open(file: impl AsFd, words: usize) -> io::Result<Self> {
        let bytes = bytes_of(words)?;
        // First the seal, then the size: it stays what is found after that.
        let sealed = rustix::fs::fcntl_get_seals(&file);
        if !sealed.is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(invalid("expected a memory file sealed against shrinking, found another"));
        }
        let found = rustix::fs::fstat(&file)?.st_size;
        if found != bytes as i64 {
            return Err(invalid(&format!("expected {bytes} bytes of memory, found {found}")));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes, so nothing that Rust knows of is replaced.
        let start = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }?;
        let Some(start) = NonNull::new(start.cast::<AtomicU64>()) else {
            return Err(invalid("expected a mapping, found address 0"));
        };
        Ok(Self { start, words })
    }

    /// The memory.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped, page-aligned, readable and writable, until `drop`, which
        // the borrow outlaws; the seal keeps their pages. Zeros and anything else are valid values,
        // and the other process's accesses are to atomics as ours are.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast::<c_void>();
        // SAFETY: exactly what `open` mapped, and no reference to it is left. It can only fail for
        // what is no mapping; then nothing happens.
        let _ = unsafe { munmap(start, self.words * WORD_BYTES) };
    }
}

fn bytes_of(words: usize) -> io::Result<usize> {
    let bytes = words.checked_mul(WORD_BYTES).filter(|bytes| (1..1 << 40).contains(bytes));
    bytes.ok_or_else(|| invalid("expected a size that memory can have"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_stores_the_other_loads() {
        let (ours, file) = SharedWords::create("test", 1024).unwrap();
        let theirs = SharedWords::open(&file, 1024).unwrap();
        ours.words()[1023].store(7, Ordering::Release);
        assert_eq!(theirs.words()[1023].load(Ordering::Acquire), 7);
        assert_eq!(theirs.words().len(), 1024);
        assert!(rustix::fs::ftruncate(&file, 8).is_err(), "it cannot shrink");
    }

    #[test]
    fn memory_that_is_dropped_is_mapped_no_more() {
        let name = format!("nearhead-gone-{}", std::process::id());
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().matches(&name).count();
        let (memory, file) = SharedWords::create(&name, 4096).unwrap();
        let other = SharedWords::open(&file, 4096).unwrap();
        assert_ne!(mapped(), 0);
        drop((memory, other));
        assert_eq!(mapped(), 0);
    }

    #[test]
    fn memory_that_might_shrink_or_has_another_size_is_refused() {
        let (_memory, file) = SharedWords::create("test", 1024).unwrap();
        for words in [0, 1023, 1025, usize::MAX] {
            assert!(SharedWords::open(&file, words).is_err(), "{words}");
        }
        let loose = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 8192).unwrap();
        assert!(SharedWords::open(&loose, 1024).is_err(), "not sealed");
        assert!(SharedWords::open(std::fs::File::open("/dev/null").unwrap(), 1024).is_err());
    }
}
