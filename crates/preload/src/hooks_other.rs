//! Syncing, lengths, positions; and what a stream cannot do, before which the file is the kernel's again.

use crate::raw::{self, call};
use crate::routed::{Done, Routed};
use crate::synced;
use crate::table::{self, File, inside};
use libc::{c_char, c_int, c_long, c_uint, c_void, off_t, size_t, ssize_t};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The log of a descriptor.
fn log_of(fd: c_int) -> Option<Arc<Routed>> {
    match table::file_of(fd)? {
        File::Wal(routed) => Some(routed),
        File::Bulk(_) => None,
    }
}

/// Does something with the log of a descriptor; `None` leaves it to the kernel.
fn with_log(fd: c_int, action: impl FnOnce(&Routed) -> Done) -> Option<c_int> {
    if !table::is_flagged(fd) {
        return None;
    }
    match inside(|| log_of(fd).map(|routed| action(&routed))).flatten()? {
        Done::Returns(value) => Some(value as c_int),
        Done::Fails(errno) => Some(raw::fail(errno) as c_int),
        Done::Pass => None,
    }
}

/// From here on the file is the kernel's.
pub(crate) fn leave(fd: c_int, why: &str) {
    let left = |routed: &Routed| {
        routed.leave(why);
        Done::Pass
    };
    with_log(fd, left);
}

/// Syncs a stream, or has the kernel sync, with priority where the file is a log.
fn sync_by(fd: c_int, number: c_long, arguments: [usize; 6]) -> c_int {
    with_log(fd, Routed::sync).unwrap_or_else(|| {
        let outcome = synced::sync(fd, number, arguments);
        outcome.unwrap_or_else(|| call(number, arguments)) as c_int
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync_by(fd, libc::SYS_fsync, [fd as usize, 0, 0, 0, 0, 0])
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync_by(fd, libc::SYS_fdatasync, [fd as usize, 0, 0, 0, 0, 0])
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync_file_range(fd: c_int, offset: off_t, len: off_t, flags: c_uint) -> c_int {
    let arguments = [fd as usize, offset as usize, len as usize, flags as usize, 0, 0];
    sync_by(fd, libc::SYS_sync_file_range, arguments)
}

/// Syncs every stream. Returns the first error.
fn sync_all() -> c_int {
    if !table::is_any_flagged() {
        return 0;
    }
    let outcome = inside(|| {
        let logs = table::files().into_iter().filter_map(|file| match file {
            File::Wal(routed) => Some(routed.sync()),
            File::Bulk(_) => None,
        });
        logs.fold(0, |first, done| match done {
            Done::Fails(errno) if first == 0 => errno,
            _ => first,
        })
    });
    outcome.unwrap_or(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sync() {
    // It has no outcome; what failed is one line on standard error.
    sync_all();
    call(libc::SYS_sync, [0; 6]);
}

/// More than asked for: streams on other file systems, too.
#[unsafe(no_mangle)]
unsafe extern "C" fn syncfs(fd: c_int) -> c_int {
    let errno = sync_all();
    let outcome = call(libc::SYS_syncfs, [fd as usize, 0, 0, 0, 0, 0]) as c_int;
    if errno == 0 { outcome } else { raw::fail(errno) as c_int }
}

macro_rules! truncate_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, len: off_t) -> c_int {
            if table::is_any_flagged() {
                let mut status = MaybeUninit::<libc::stat>::zeroed();
                let arguments =
                    [libc::AT_FDCWD as usize, path as usize, status.as_mut_ptr() as usize, 0, 0, 0];
                if call(libc::SYS_newfstatat, arguments) == 0 {
                    // SAFETY: zeros are a valid `stat`, and the kernel filled it in.
                    let status = unsafe { status.assume_init() };
                    let log = inside(|| table::file_with((status.st_dev, status.st_ino)));
                    if let Some(Some(File::Wal(routed))) = log {
                        // By its path, so with the kernel's own checks of permission.
                        inside(|| routed.leave("it is cut by its path"));
                    }
                }
            }
            call(libc::SYS_truncate, [path as usize, len as usize, 0, 0, 0, 0]) as c_int
        }
    )*};
}
truncate_functions!(truncate truncate64);

macro_rules! ftruncate_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, len: off_t) -> c_int {
            let by_log = |routed: &Routed| {
                u64::try_from(len).map_or(Done::Pass, |len| routed.truncate(len))
            };
            with_log(fd, by_log).unwrap_or_else(|| {
                call(libc::SYS_ftruncate, [fd as usize, len as usize, 0, 0, 0, 0]) as c_int
            })
        }
    )*};
}
ftruncate_functions!(ftruncate ftruncate64);

macro_rules! fallocate_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
            let by_log = |routed: &Routed| match mode {
                0 => routed.extend((offset.max(0) + len.max(0)) as u64),
                libc::FALLOC_FL_KEEP_SIZE => Done::Returns(0),
                _ => {
                    routed.leave("holes in it");
                    Done::Pass
                }
            };
            with_log(fd, by_log).unwrap_or_else(|| {
                let arguments =
                    [fd as usize, mode as usize, offset as usize, len as usize, 0, 0];
                call(libc::SYS_fallocate, arguments) as c_int
            })
        }
    )*};
}
fallocate_functions!(fallocate fallocate64);

macro_rules! posix_fallocate_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, offset: off_t, len: off_t) -> c_int {
            // SAFETY: three numbers and no memory.
            match unsafe { fallocate(fd, 0, offset, len) } {
                0 => 0,
                // It returns the error, and sets nothing.
                _ => raw::errno(),
            }
        }
    )*};
}
posix_fallocate_functions!(posix_fallocate posix_fallocate64);

macro_rules! lseek_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, offset: off_t, whence: c_int) -> off_t {
            if whence == libc::SEEK_END && table::is_flagged(fd) {
                let size = inside(|| log_of(fd).and_then(|routed| routed.size())).flatten();
                if let Some(size) = size {
                    return raw::lseek(fd, size as off_t + offset, libc::SEEK_SET);
                }
            } else if whence > libc::SEEK_END {
                leave(fd, "a look for its holes");
            }
            raw::lseek(fd, offset, whence)
        }
    )*};
}
lseek_functions!(lseek lseek64);

/// Puts the length that the program believes in into what the kernel told.
fn correct(outcome: isize, status: *mut libc::stat) -> c_int {
    if outcome == 0 && table::is_any_flagged() {
        // SAFETY: the kernel just filled it in.
        if let Some(status) = unsafe { status.as_mut() } {
            let identity = (status.st_dev, status.st_ino);
            let size = inside(|| match table::file_with(identity)? {
                File::Wal(routed) => routed.size(),
                File::Bulk(_) => None,
            });
            if let Some(size) = size.flatten() {
                status.st_size = size as off_t;
            }
        }
    }
    outcome as c_int
}

fn status_of(fd: c_int, status: *mut libc::stat) -> c_int {
    correct(call(libc::SYS_fstat, [fd as usize, status as usize, 0, 0, 0, 0]), status)
}

fn status_at(
    directory: c_int,
    path: *const c_char,
    status: *mut libc::stat,
    flags: c_int,
) -> c_int {
    let arguments = [directory as usize, path as usize, status as usize, flags as usize, 0, 0];
    correct(call(libc::SYS_newfstatat, arguments), status)
}

macro_rules! fstat_functions {
    ($($name:ident $versioned:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, status: *mut libc::stat) -> c_int {
            status_of(fd, status)
        }

        /// As programs call it that were built with older libraries.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $versioned(_: c_int, fd: c_int, status: *mut libc::stat) -> c_int {
            status_of(fd, status)
        }
    )*};
}
fstat_functions!(fstat __fxstat fstat64 __fxstat64);

macro_rules! stat_functions {
    ($($name:ident $versioned:ident $flags:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, status: *mut libc::stat) -> c_int {
            status_at(libc::AT_FDCWD, path, status, $flags)
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $versioned(
            _: c_int,
            path: *const c_char,
            status: *mut libc::stat,
        ) -> c_int {
            status_at(libc::AT_FDCWD, path, status, $flags)
        }
    )*};
}
stat_functions! {
    stat __xstat 0;
    stat64 __xstat64 0;
    lstat __lxstat libc::AT_SYMLINK_NOFOLLOW;
    lstat64 __lxstat64 libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! fstatat_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            status: *mut libc::stat,
            flags: c_int,
        ) -> c_int {
            status_at(directory, path, status, flags)
        }
    )*};
}
fstatat_functions!(fstatat fstatat64);

#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    status: *mut libc::statx,
) -> c_int {
    let arguments =
        [directory as usize, path as usize, flags as usize, mask as usize, status as usize, 0];
    let outcome = call(libc::SYS_statx, arguments) as c_int;
    if outcome == 0 && table::is_any_flagged() {
        // SAFETY: the kernel just filled it in.
        if let Some(status) = unsafe { status.as_mut() } {
            let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
            let size = inside(|| match table::file_with((device, status.stx_ino))? {
                File::Wal(routed) => routed.size(),
                File::Bulk(_) => None,
            });
            if let Some(size) = size.flatten() {
                status.stx_size = size;
            }
        }
    }
    outcome
}

/// The stream has a lock of this kind, which would be in the way.
#[unsafe(no_mangle)]
unsafe extern "C" fn flock(fd: c_int, operation: c_int) -> c_int {
    leave(fd, "a lock of the program's own");
    call(libc::SYS_flock, [fd as usize, operation as usize, 0, 0, 0, 0]) as c_int
}

macro_rules! mmap_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            at: *mut c_void,
            len: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            leave(fd, "a mapping of it");
            let arguments = [
                at as usize,
                len,
                protection as usize,
                flags as usize,
                fd as usize,
                offset as usize,
            ];
            call(libc::SYS_mmap, arguments) as *mut c_void
        }
    )*};
}
mmap_functions!(mmap mmap64);

macro_rules! sendfile_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            to: c_int,
            from: c_int,
            offset: *mut off_t,
            len: size_t,
        ) -> ssize_t {
            leave(to, "sendfile");
            leave(from, "sendfile");
            call(libc::SYS_sendfile, [to as usize, from as usize, offset as usize, len, 0, 0])
        }
    )*};
}
sendfile_functions!(sendfile sendfile64);

macro_rules! transfer_functions {
    ($($name:ident $number:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            from: c_int,
            from_offset: *mut off_t,
            to: c_int,
            to_offset: *mut off_t,
            len: size_t,
            flags: c_uint,
        ) -> ssize_t {
            leave(to, stringify!($name));
            leave(from, stringify!($name));
            let arguments = [
                from as usize,
                from_offset as usize,
                to as usize,
                to_offset as usize,
                len,
                flags as usize,
            ];
            call($number, arguments)
        }
    )*};
}
transfer_functions! {
    copy_file_range libc::SYS_copy_file_range;
    splice libc::SYS_splice;
}
