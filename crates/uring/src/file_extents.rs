//! Where a file lies on the device under its file system, as the kernel tells by `FS_IOC_FIEMAP`.
//!
//! What is told holds for that moment: a file system moves what it likes. Parts that lie in no blocks of their own (in the inode, compressed, not
//! written yet) are counted and not told. Nothing here keeps a pointer after it returns, or trusts a number for an allocation.
#![expect(unsafe_code, reason = "ioctl takes an untyped pointer")]

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;

/// `_IOWR('f', 11, struct fiemap)` (linux/fiemap.h).
const FIEMAP: Opcode = 0xC020_660B;
/// What was written is to have its place first.
const SYNC: u32 = 1;
const LAST: u32 = 1;
/// Unknown place, delayed, encoded, encrypted, not aligned, in the inode, tail.
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;
/// Extents asked for at once; the head of the structure, and each extent, in words of 64 bits.
const AT_ONCE: usize = 256;
const HEAD_WORDS: usize = 4;
const EXTENT_WORDS: usize = 7;
/// A file in more parts than this is not looked at further.
const EXTENTS_MAX: usize = 1 << 16;

/// Where a file lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileExtents {
    /// Bytes of the device, neighbours together, in the order of the file.
    pub ranges: Vec<Range<u64>>,
    /// Parts that have no place of their own there.
    pub without_place: usize,
}

/// Where `file` lies on the device of its file system. `Unsupported` where that does not tell.
pub fn file_extents(file: &File) -> std::io::Result<FileExtents> {
    let (mut found, mut from, mut looked_at) = (FileExtents::default(), 0_u64, 0);
    while looked_at < EXTENTS_MAX {
        let mut words = vec![0_u64; HEAD_WORDS + AT_ONCE * EXTENT_WORDS];
        (words[0], words[1]) = (from, u64::MAX - from);
        words[2] = u64::from(SYNC);
        words[3] = AT_ONCE as u64;
        // SAFETY: FIEMAP reads the head and writes as many extents as that says there is room for, which `words` has.
        unsafe { ioctl(file, Map(&mut words)) }.map_err(std::io::Error::from)?;
        let mapped = ((words[2] >> 32) as usize).min(AT_ONCE);
        let extents = &words[HEAD_WORDS..HEAD_WORDS + mapped * EXTENT_WORDS];
        let mut is_last = mapped == 0;
        for extent in extents.chunks_exact(EXTENT_WORDS) {
            let (logical, physical, len) = (extent[0], extent[1], extent[2]);
            let flags = extent[5] as u32;
            from = logical.saturating_add(len);
            is_last |= flags & LAST != 0;
            looked_at += 1;
            if flags & NO_PLACE != 0 || physical.checked_add(len).is_none() {
                found.without_place += 1;
                continue;
            }
            match found.ranges.last_mut() {
                Some(last) if last.end == physical => last.end += len,
                _ => found.ranges.push(physical..physical + len),
            }
        }
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// Argument of FIEMAP: its head, and room behind it.
struct Map<'a>(&'a mut [u64]);

// SAFETY: the opcode reads and writes within the words that `as_ptr` points to, as their head says.
unsafe impl Ioctl for Map<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FIEMAP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<(), Errno> {
        Ok(())
    }
}
