//! Questions and orders to block devices that have no system call of their own.
//!
//! All `ioctl` numbers are those of `linux/fs.h` (`_IO(0x12, n)`, and `_IOR(0x12, 114, size_t)` for
//! `BLKGETSIZE64`), but for the one of loop devices. Nothing here keeps a pointer after it returns.
#![expect(unsafe_code, reason = "ioctl takes an untyped pointer")]

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::c_void;

const BLKROGET: Opcode = opcode::none(0x12, 94);
const BLKROTATIONAL: Opcode = opcode::none(0x12, 126);
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
/// `linux/loop.h`.
const LOOP_GET_STATUS64: Opcode = 0x4c05;
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);

/// Size of the device, in bytes.
pub(crate) fn size_bytes(device: BorrowedFd<'_>) -> Result<u64, Errno> {
    // SAFETY: BLKGETSIZE64 writes one u64, despite the size_t in its number.
    unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Whether the device is write-protected.
pub(crate) fn is_read_only(device: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: BLKROGET writes one int.
    unsafe { ioctl(device, Getter::<BLKROGET, i32>::new()) }.map(|value| value != 0)
}

/// Whether the kernel takes the device for a mechanical one.
pub(crate) fn is_rotational(device: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: BLKROTATIONAL writes one unsigned short.
    unsafe { ioctl(device, Getter::<BLKROTATIONAL, u16>::new()) }.map(|value| value != 0)
}

/// Tells the device that `len` bytes at `offset` are no longer needed. Blocks until it is done.
pub(crate) fn discard(device: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKDISCARD reads two u64 from the pointer, which `Range` provides.
    unsafe { ioctl(device, Range([offset, len])) }
}

/// The beginning of `struct loop_info64` (`linux/loop.h`), and room for the rest of it.
#[repr(C)]
struct LoopInfo {
    file_system: u64,
    inode: u64,
    device_attached: u64,
    rest: [u64; 26],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

/// What is attached to a loop device.
pub(crate) struct LoopStatus {
    /// `st_dev` of the file.
    pub(crate) file_system: u64,
    /// `st_ino` of the file.
    pub(crate) inode: u64,
    /// The number of the device, if that is what is attached; else 0.
    pub(crate) device_attached: u64,
}

/// What is attached to a loop device.
pub(crate) fn loop_status(device: impl AsFd) -> Result<LoopStatus, Errno> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, which is 232 bytes.
    let found = unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }?;
    let LoopInfo { file_system, inode, device_attached, rest: _ } = found;
    Ok(LoopStatus { file_system, inode, device_attached })
}

/// Argument of BLKDISCARD: first byte and number of bytes.
struct Range([u64; 2]);

// SAFETY: the opcode reads exactly the two u64 that `as_ptr` points to and writes nothing.
unsafe impl Ioctl for Range {
    type Output = ();
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        BLKDISCARD
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<(), Errno> {
        Ok(())
    }
}
