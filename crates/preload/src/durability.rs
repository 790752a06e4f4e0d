//! `O_DUR`: programs that were compiled with it say of a file that it is needed after a crash only (`include/nearhead_durability.h`).
//!
//! The flag never reaches the kernel. A file on a file system of Nearhead's is marked; where that cannot be, or on any other, the open
//! is as without the flag: it never fails for it.

use crate::raw;
use libc::c_int;

/// The flag: a bit that no Linux flag uses on any architecture.
const O_DUR: c_int = 0x4000_0000;
/// `_IOW('N', 0xd0, struct nearhead_durability)`.
const SET_DURABILITY: usize = 0x4008_4ED0;

/// The flags as the kernel knows them, and whether there was ours.
pub(crate) fn without(flags: c_int) -> (c_int, bool) {
    (flags & !O_DUR, flags & O_DUR != 0)
}

/// Marks the file of a descriptor. The error of the last call is as it was.
pub(crate) fn mark(fd: c_int) {
    let errno = raw::errno();
    let wanted: [u32; 2] = [1, 0];
    raw::call(libc::SYS_ioctl, [fd as usize, SET_DURABILITY, wanted.as_ptr() as usize, 0, 0, 0]);
    raw::fail(errno);
}
