//! Writing and reading: to a stream where the file is a log, in paced pieces where it is bulk.

use crate::raw::{self, Outcome, call};
use crate::routed::Done;
use crate::synced;
use crate::table::{self, File, inside};
use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};

/// The parts of a transfer, as the program described them, each made a slice by `slice_of`.
///
/// # Safety
/// The description is valid, as for the function of libc that it was given to.
unsafe fn parts_of<T>(
    parts: *const iovec,
    count: c_int,
    slice_of: unsafe fn(*const c_void, size_t) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= 1024)?;
    if parts.is_null() {
        return None;
    }
    let mut slices = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: the caller's promise.
        let part = unsafe { *parts.add(index) };
        // SAFETY: the same.
        slices.push(unsafe { slice_of(part.iov_base, part.iov_len) }?);
    }
    Some(slices)
}

/// Whether it can be memory: if not, the kernel says what is wrong with it.
fn is_memory(memory: *const c_void, len: size_t) -> bool {
    !memory.is_null() && isize::try_from(len).is_ok()
}

/// # Safety
/// As for the function of libc that it was given to: bytes to be read.
unsafe fn bytes_of<'a>(bytes: *const c_void, len: size_t) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise.
    is_memory(bytes, len).then(|| unsafe { std::slice::from_raw_parts(bytes.cast(), len) })
}

/// # Safety
/// As for the function of libc that it was given to: memory to be written.
unsafe fn memory_of<'a>(memory: *const c_void, len: size_t) -> Option<&'a mut [u8]> {
    if len == 0 {
        return Some(&mut []);
    }
    let memory_at = memory.cast_mut().cast();
    // SAFETY: the caller's promise.
    is_memory(memory, len).then(|| unsafe { std::slice::from_raw_parts_mut(memory_at, len) })
}

/// What the library returns; `None` leaves it to the kernel.
fn returned(done: Option<Done>) -> Option<Outcome> {
    match done? {
        Done::Returns(value) => Some(value),
        Done::Fails(errno) => Some(raw::fail(errno)),
        Done::Pass => None,
    }
}

/// Writes to a log; `None` leaves it to the kernel.
fn write_log(fd: c_int, parts: Option<Vec<&[u8]>>, position: Option<off_t>) -> Option<Outcome> {
    let parts = parts?;
    let position = position.map(u64::try_from).transpose().ok()?;
    let done = inside(|| match table::file_of(fd)? {
        File::Wal(routed) => Some(routed.write(fd, &parts, position)),
        File::Bulk(_) => None,
    });
    returned(done.flatten())
}

/// Paces what the kernel just wrote.
fn wrote(fd: c_int, outcome: Outcome, position: Option<off_t>) -> Outcome {
    if outcome > 0 && table::is_flagged(fd) {
        inside(|| {
            if let Some(File::Bulk(bulk)) = table::file_of(fd) {
                let end = position.map_or_else(
                    || raw::lseek(fd, 0, libc::SEEK_CUR),
                    |position| position + outcome as i64,
                );
                bulk.wrote(fd, end.max(0) as u64, outcome as u64);
            }
        });
    }
    outcome
}

/// Has the kernel write: with priority where that is a sync, in paces where the file is bulk.
fn write_by(fd: c_int, number: c_long, arguments: [usize; 6], position: Option<off_t>) -> Outcome {
    let outcome = synced::write(fd, number, arguments);
    wrote(fd, outcome.unwrap_or_else(|| call(number, arguments)), position)
}

/// Reads from a log, one part after the other; `None` leaves it to the kernel.
fn read_log(fd: c_int, parts: Option<Vec<&mut [u8]>>, position: Option<off_t>) -> Option<Outcome> {
    let mut position = position.map(u64::try_from).transpose().ok()?;
    let parts = parts?;
    let done = inside(|| {
        let File::Wal(routed) = table::file_of(fd)? else { return None };
        let mut total = 0;
        for part in parts {
            let len = part.len();
            match routed.read(fd, part, position) {
                Done::Returns(read) => {
                    total += read;
                    position = position.map(|position| position + read as u64);
                    if (read as usize) < len {
                        break;
                    }
                }
                // What was read before counts; the next call meets the rest again.
                _ if total > 0 => break,
                other => return Some(other),
            }
        }
        Some(Done::Returns(total))
    });
    returned(done.flatten())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    if table::is_flagged(fd) {
        // SAFETY: the program's promise to libc.
        let parts = unsafe { bytes_of(bytes, len) }.map(|part| vec![part]);
        if let Some(outcome) = write_log(fd, parts, None) {
            return outcome;
        }
    }
    write_by(fd, libc::SYS_write, [fd as usize, bytes as usize, len, 0, 0, 0], None)
}

macro_rules! pwrite_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            bytes: *const c_void,
            len: size_t,
            offset: off_t,
        ) -> ssize_t {
            if table::is_flagged(fd) {
                // SAFETY: the program's promise to libc.
                let parts = unsafe { bytes_of(bytes, len) }.map(|part| vec![part]);
                if let Some(outcome) = write_log(fd, parts, Some(offset)) {
                    return outcome;
                }
            }
            let arguments = [fd as usize, bytes as usize, len, offset as usize, 0, 0];
            write_by(fd, libc::SYS_pwrite64, arguments, Some(offset))
        }
    )*};
}
pwrite_functions!(pwrite pwrite64);

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if table::is_flagged(fd) {
        // SAFETY: the program's promise to libc.
        let slices = unsafe { parts_of(parts, count, bytes_of) };
        if let Some(outcome) = write_log(fd, slices, None) {
            return outcome;
        }
    }
    let arguments = [fd as usize, parts as usize, count as usize, 0, 0, 0];
    write_by(fd, libc::SYS_writev, arguments, None)
}

macro_rules! pwritev_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off_t,
        ) -> ssize_t {
            if table::is_flagged(fd) {
                // SAFETY: the program's promise to libc.
                let slices = unsafe { parts_of(parts, count, bytes_of) };
                if let Some(outcome) = write_log(fd, slices, Some(offset)) {
                    return outcome;
                }
            }
            let arguments =
                [fd as usize, parts as usize, count as usize, offset as usize, 0, 0];
            write_by(fd, libc::SYS_pwritev, arguments, Some(offset))
        }
    )*};
}
pwritev_functions!(pwritev pwritev64);

macro_rules! pwritev2_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off_t,
            flags: c_int,
        ) -> ssize_t {
            // Its flags are many and few use it: the file is the kernel's from here on.
            crate::hooks_other::leave(fd, "a write with flags of its own");
            let arguments =
                [fd as usize, parts as usize, count as usize, offset as usize, 0, flags as usize];
            write_by(fd, libc::SYS_pwritev2, arguments, Some(offset).filter(|offset| *offset >= 0))
        }
    )*};
}
pwritev2_functions!(pwritev2 pwritev64v2);

/// Reads, from the log or by the kernel.
unsafe fn read_some(fd: c_int, memory: *mut c_void, len: size_t) -> ssize_t {
    if table::is_flagged(fd) {
        // SAFETY: the program's promise to libc.
        let parts = unsafe { memory_of(memory, len) }.map(|part| vec![part]);
        if let Some(outcome) = read_log(fd, parts, None) {
            return outcome;
        }
    }
    call(libc::SYS_read, [fd as usize, memory as usize, len, 0, 0, 0])
}

unsafe fn pread_some(fd: c_int, memory: *mut c_void, len: size_t, offset: off_t) -> ssize_t {
    if table::is_flagged(fd) {
        // SAFETY: the program's promise to libc.
        let parts = unsafe { memory_of(memory, len) }.map(|part| vec![part]);
        if let Some(outcome) = read_log(fd, parts, Some(offset)) {
            return outcome;
        }
    }
    call(libc::SYS_pread64, [fd as usize, memory as usize, len, offset as usize, 0, 0])
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, memory: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's promise to libc.
    unsafe { read_some(fd, memory, len) }
}

/// As compilers call it that know how large the memory is.
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(
    fd: c_int,
    memory: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: the program's promise to libc, and no more than there is room for.
    unsafe { read_some(fd, memory, len.min(room)) }
}

macro_rules! pread_functions {
    ($($name:ident $checked:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            memory: *mut c_void,
            len: size_t,
            offset: off_t,
        ) -> ssize_t {
            // SAFETY: the program's promise to libc.
            unsafe { pread_some(fd, memory, len, offset) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $checked(
            fd: c_int,
            memory: *mut c_void,
            len: size_t,
            offset: off_t,
            room: size_t,
        ) -> ssize_t {
            // SAFETY: the program's promise to libc, and no more than there is room for.
            unsafe { pread_some(fd, memory, len.min(room), offset) }
        }
    )*};
}
pread_functions!(pread __pread_chk pread64 __pread64_chk);

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if table::is_flagged(fd) {
        // SAFETY: the program's promise to libc.
        let slices = unsafe { parts_of(parts, count, memory_of) };
        if let Some(outcome) = read_log(fd, slices, None) {
            return outcome;
        }
    }
    call(libc::SYS_readv, [fd as usize, parts as usize, count as usize, 0, 0, 0])
}

macro_rules! preadv_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off_t,
        ) -> ssize_t {
            if table::is_flagged(fd) {
                // SAFETY: the program's promise to libc.
                let slices = unsafe { parts_of(parts, count, memory_of) };
                if let Some(outcome) = read_log(fd, slices, Some(offset)) {
                    return outcome;
                }
            }
            let arguments =
                [fd as usize, parts as usize, count as usize, offset as usize, 0, 0];
            call(libc::SYS_preadv, arguments)
        }
    )*};
}
preadv_functions!(preadv preadv64);
