//! How programs begin, end, and start others: what becomes of the streams then.
//!
//! A stream believes that nobody else writes to its file. A program that is started gets every
//! descriptor that is not closed by `exec`, and may write by it: so files that have such a one are the
//! kernel's before it starts. Those opened with `O_CLOEXEC` stay. A program that ends or becomes another
//! one leaves every file as it wrote it.

use crate::raw::{self, call};
use crate::settings::{self, settings};
use crate::table::{self, File, inside};
use libc::{c_char, c_int, c_void, pid_t};

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    settings::read();
    if settings().is_none() {
        return;
    }
    table::begin();
    // SAFETY: both functions are there as long as this library, which is never unloaded.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(Some(before_fork), None, Some(in_child));
    }
}

unsafe extern "C" fn before_fork() {
    share();
}

unsafe extern "C" fn in_child() {
    table::begin();
}

extern "C" fn at_exit() {
    finish();
}

/// Leaves every file as the program wrote it: it ends without closing them.
fn finish() {
    inside(|| {
        for file in table::files() {
            if let File::Wal(routed) = file {
                // What fails is told in a line.
                routed.leave("the program ends");
            }
        }
    });
}

/// What another program is about to get is the kernel's from here on.
fn share() {
    if !table::is_any_flagged() {
        return;
    }
    inside(|| {
        for file in table::inherited() {
            if let File::Wal(routed) = file {
                routed.leave("a child process gets its descriptor; opened with O_CLOEXEC it would stay a stream");
            }
        }
    });
}

macro_rules! exit_functions {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(status: c_int) -> ! {
            if table::is_any_flagged() {
                finish();
            }
            loop {
                call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]);
            }
        }
    )*};
}
exit_functions!(_exit _Exit);

/// As `fork`: what is done before a fork cannot be done where the child runs in this program's memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> pid_t {
    // SAFETY: no arguments; the library's own handlers keep its state right.
    unsafe { libc::fork() }
}

/// Functions that start a program without a fork that anybody is told of, and those that become another:
/// name, what is done first, arguments, what is returned if there is no such function.
macro_rules! starting_functions {
    ($($name:ident $first:ident ($($argument:ident: $type:ty),*) -> $result:ty, $none:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            type Function = unsafe extern "C" fn($($type),*) -> $result;
            $first();
            let name = concat!(stringify!($name), "\0").as_bytes();
            let Ok(name) = std::ffi::CStr::from_bytes_with_nul(name) else { return $none };
            // SAFETY: the type of the C library's function of this name.
            let Some(next) = (unsafe { raw::next::<Function>(name) }) else { return $none };
            // SAFETY: with the caller's own arguments.
            unsafe { next($($argument),*) }
        }
    )*};
}
type Words = *const *const c_char;
starting_functions! {
    posix_spawn share (pid: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, words: Words, variables: Words) -> c_int, libc::ENOSYS;
    posix_spawnp share (pid: *mut pid_t, file: *const c_char, actions: *const c_void,
        attributes: *const c_void, words: Words, variables: Words) -> c_int, libc::ENOSYS;
    system share (command: *const c_char) -> c_int, -1;
    popen share (command: *const c_char, mode: *const c_char) -> *mut c_void, std::ptr::null_mut();
    execve finish (path: *const c_char, words: Words, variables: Words) -> c_int, -1;
    execv finish (path: *const c_char, words: Words) -> c_int, -1;
    execvp finish (file: *const c_char, words: Words) -> c_int, -1;
    execvpe finish (file: *const c_char, words: Words, variables: Words) -> c_int, -1;
    fexecve finish (fd: c_int, words: Words, variables: Words) -> c_int, -1;
}
