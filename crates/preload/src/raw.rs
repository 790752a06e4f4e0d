//! The system calls themselves, past the functions that stand in for them.
//!
//! Through `syscall(2)` of the C library, which nobody stands in for: no lookup of the next library,
//! and so nothing that could be missing early in a program's life. Each sets `errno` as libc's own does.

use libc::{c_int, c_long, off_t};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// What a call gave, as a function of libc returns it.
pub(crate) type Outcome = isize;

/// A system call with up to six arguments.
pub(crate) fn call(number: c_long, arguments: [usize; 6]) -> Outcome {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the arguments are those that the program gave to the function that makes this call,
    // or this library's own, and keep its contract.
    (unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) }) as isize
}

/// Sets `errno` and returns what functions return with it.
pub(crate) fn fail(errno: c_int) -> Outcome {
    // SAFETY: the C library gives each thread a place for it.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// The error of the last call.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `fail`.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64 {
    call(libc::SYS_lseek, [fd as usize, offset as usize, whence as usize, 0, 0, 0]) as i64
}

pub(crate) fn close(fd: c_int) -> Outcome {
    call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0])
}

pub(crate) fn flags_of(fd: c_int) -> c_int {
    call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) as c_int
}

pub(crate) fn truncate(fd: c_int, len: u64) -> Outcome {
    call(libc::SYS_ftruncate, [fd as usize, len as off_t as usize, 0, 0, 0, 0])
}

pub(crate) fn pread(fd: c_int, memory: &mut [u8], offset: u64) -> Outcome {
    let (at, len) = (memory.as_mut_ptr() as usize, memory.len());
    call(libc::SYS_pread64, [fd as usize, at, len, offset as usize, 0, 0])
}

/// Whether programs that are started get the descriptor.
pub(crate) fn is_inherited(fd: c_int) -> bool {
    let flags = call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]);
    flags >= 0 && flags as c_int & libc::FD_CLOEXEC == 0
}

/// The same file opened once more, for reading and writing, out of the way of the program's descriptors.
pub(crate) fn open_again(fd: c_int) -> c_int {
    let Ok(path) = CString::new(format!("/proc/self/fd/{fd}")) else { return -1 };
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, 0, 0, 0];
    let low = call(libc::SYS_openat, arguments);
    if low < 0 {
        return -1;
    }
    let command = libc::F_DUPFD_CLOEXEC as usize;
    let high = call(libc::SYS_fcntl, [low as usize, command, 512, 0, 0, 0]);
    close(low as c_int);
    high as c_int
}

/// Copies a descriptor to a number out of the way of the program's.
pub(crate) fn duplicate(fd: c_int) -> Option<OwnedFd> {
    let command = libc::F_DUPFD_CLOEXEC as usize;
    let high = call(libc::SYS_fcntl, [fd as usize, command, 512, 0, 0, 0]);
    // SAFETY: new, and no other owner knows it.
    (high >= 0).then(|| unsafe { OwnedFd::from_raw_fd(high as c_int) })
}

/// The function of this name that would be called if this library were not there.
///
/// # Safety
/// `Function` is a pointer to a function, of the type that the one of this name has.
pub(crate) unsafe fn next<Function: Copy>(name: &CStr) -> Option<Function> {
    const { assert!(size_of::<Function>() == size_of::<*mut libc::c_void>()) };
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        fail(libc::ENOSYS);
        return None;
    }
    // SAFETY: the caller's promise; the sizes are the same.
    Some(unsafe { std::mem::transmute_copy(&found) })
}

/// Device, inode, kind and length of an open file.
pub(crate) fn status(fd: c_int) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    let at = status.as_mut_ptr() as usize;
    let outcome = call(libc::SYS_fstat, [fd as usize, at, 0, 0, 0, 0]);
    // SAFETY: zeros are a valid `stat`, and the kernel filled it in.
    (outcome == 0).then(|| unsafe { status.assume_init() })
}
