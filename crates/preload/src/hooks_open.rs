//! Opening, duplicating, closing: which descriptors there are, and what is left of them.
//!
//! Each function does what the C library's does, by the system call, and keeps the table right.

use crate::bulk::Bulk;
use crate::durability;
use crate::guard;
use crate::raw::{self, Outcome, call};
use crate::routed::{self, Done, Routed};
use crate::settings::{Settings, Use, settings};
use crate::synced;
use crate::table::{self, File, inside};
use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Marks descriptors rather than closing them (`linux/close_range.h`).
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// Takes note of a descriptor that was just opened.
fn opened(fd: Outcome, flags: c_int) -> c_int {
    let fd = fd as c_int;
    let Some(settings) = settings() else { return fd };
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    if fd < 0 || flags & libc::O_PATH != 0 || (!writes && !table::is_any_flagged()) {
        return fd;
    }
    inside(|| {
        let Some(status) = raw::status(fd) else { return };
        if status.st_mode & libc::S_IFMT != libc::S_IFREG {
            return;
        }
        // Of a descriptor that was closed unseen.
        table::forget(fd);
        synced::forget(fd);
        let identity = (status.st_dev, status.st_ino);
        if let Some(file) = table::file_with(identity) {
            if let (File::Wal(routed), true) = (&file, flags & libc::O_TRUNC != 0) {
                let _ = routed.truncate(0);
            }
            table::remember(fd, file);
        } else if writes {
            let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{fd}")) else { return };
            match settings.use_of(path.as_os_str().as_bytes()) {
                Some(Use::Wal) if settings.guardian.is_none() => {
                    let how = synced::remember(fd, status.st_dev);
                    if settings.verbose {
                        let what = format!("has its exact size; its syncs are made {how}");
                        routed::tell(&path.display(), &what);
                    }
                }
                Some(Use::Wal) => {
                    let routed = Routed::new(identity, path.display().to_string());
                    table::remember(fd, File::Wal(Arc::new(routed)));
                }
                Some(Use::Bulk) => {
                    table::remember(fd, File::Bulk(Arc::new(Bulk::new(identity))));
                }
                None => {}
            }
        }
    });
    fd
}

fn open_at(directory: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let (flags, is_durability_only) = durability::without(flags);
    if !path.is_null() && settings().is_some_and(Settings::has_logs) {
        // SAFETY: not null, and the program's promise to libc.
        let path = unsafe { CStr::from_ptr(path) };
        inside(|| guard::repair_before_opening(directory, path));
    }
    let arguments = [directory as usize, path as usize, flags as usize, mode as usize, 0, 0];
    let fd = opened(call(libc::SYS_openat, arguments), flags);
    if is_durability_only && fd >= 0 && flags & libc::O_PATH == 0 {
        durability::mark(fd);
    }
    fd
}

macro_rules! open_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            open_at(libc::AT_FDCWD, path, flags, mode)
        }
    )*};
}
open_functions!(open open64 __open_2 __open64_2);

macro_rules! openat_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
            mode: c_uint,
        ) -> c_int {
            open_at(directory, path, flags, mode)
        }
    )*};
}
openat_functions!(openat openat64 __openat_2 __openat64_2);

macro_rules! creat_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: c_uint) -> c_int {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            open_at(libc::AT_FDCWD, path, flags, mode)
        }
    )*};
}
creat_functions!(creat creat64);

/// What is owed to the file before a descriptor of it goes: 0, or an `errno`.
fn release(fd: c_int) -> c_int {
    synced::forget(fd);
    if !table::is_flagged(fd) {
        return 0;
    }
    let outcome = inside(|| {
        // Looked up first: a descriptor that is another file's by now owes nothing.
        table::file_of(fd)?;
        match table::forget(fd)? {
            File::Wal(routed) => Some(routed.close()),
            File::Bulk(_) => None,
        }
    });
    match outcome.flatten() {
        Some(Done::Fails(errno)) => errno,
        _ => 0,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    let errno = release(fd);
    let outcome = raw::close(fd) as c_int;
    if errno == 0 { outcome } else { raw::fail(errno) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        for fd in table::flagged_between(first, last) {
            release(fd);
        }
        synced::forget_between(first, last);
    }
    call(libc::SYS_close_range, [first as usize, last as usize, flags as usize, 0, 0, 0]) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: three numbers and no memory.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// The second descriptor is the first's file's, too.
fn duplicated(from: c_int, to: Outcome) -> c_int {
    let to = to as c_int;
    if to >= 0 && from != to {
        synced::duplicate(from, to);
    }
    if to >= 0 && from != to && table::is_flagged(from) {
        inside(|| {
            if let Some(file) = table::file_of(from) {
                table::remember(to, file);
            }
        });
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    duplicated(fd, call(libc::SYS_dup, [fd as usize, 0, 0, 0, 0, 0]))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if from == to {
        // As libc: whether it is open.
        return if raw::flags_of(from) < 0 { -1 } else { to };
    }
    release(to);
    duplicated(from, call(libc::SYS_dup3, [from as usize, to as usize, 0, 0, 0, 0]))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if from != to {
        release(to);
    }
    let arguments = [from as usize, to as usize, flags as usize, 0, 0, 0];
    duplicated(from, call(libc::SYS_dup3, arguments))
}

/// Whether a command of `fcntl` is about locks or leases.
fn is_lock(command: c_int) -> bool {
    matches!(
        command,
        libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_SETLEASE
    )
}

macro_rules! lockf_functions {
    ($($name:ident)*) => {$(
        /// The C library takes the lock by a call of its own.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, command: c_int, len: libc::off_t) -> c_int {
            type Function = unsafe extern "C" fn(c_int, c_int, libc::off_t) -> c_int;
            crate::hooks_other::leave(fd, "a lock of the program's own");
            // SAFETY: the type of the C library's function of this name.
            let Some(next) = (unsafe { raw::next::<Function>(c"lockf64") }) else { return -1 };
            // SAFETY: with the caller's own arguments.
            unsafe { next(fd, command, len) }
        }
    )*};
}
lockf_functions!(lockf lockf64);

macro_rules! fcntl_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, command: c_int, argument: usize) -> c_int {
            if is_lock(command) {
                // The library's own descriptors must not be closed once the lock is there: a lock of
                // a process ends with any descriptor of the file.
                crate::hooks_other::leave(fd, "a lock of the program's own");
            }
            let outcome = call(libc::SYS_fcntl, [fd as usize, command as usize, argument, 0, 0, 0]);
            match command {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicated(fd, outcome),
                _ => outcome as c_int,
            }
        }
    )*};
}
fcntl_functions!(fcntl fcntl64);

/// A stdio stream over a descriptor writes past every function here.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    type Function = unsafe extern "C" fn(c_int, *const c_char) -> *mut c_void;
    crate::hooks_other::leave(fd, "a stdio stream over it");
    // SAFETY: the type of the C library's function of this name.
    let Some(next) = (unsafe { raw::next::<Function>(c"fdopen") }) else {
        return std::ptr::null_mut();
    };
    // SAFETY: with the caller's own arguments.
    unsafe { next(fd, mode) }
}
