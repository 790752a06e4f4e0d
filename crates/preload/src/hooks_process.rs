//! How programs begin, end, and start others: what becomes of the streams then.
//!
//! A stream believes that no other process writes to its file. A child of `fork` has every descriptor,
//! and a program that is started gets each that is not closed by `exec`: so those files are the
//! kernel's before it starts. A program that ends or becomes another one leaves every file as it wrote
//! it.

use crate::guard;
use crate::raw::{self, call};
use crate::routed::PROGRAM_ENDS;
use crate::settings::{self, settings};
use crate::synced;
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
    synced::begin();
    inside(guard::begin);
    // SAFETY: both functions are there as long as this library, which is never unloaded.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(Some(before_fork), None, Some(in_child));
    }
}

/// A child of `fork` has every descriptor, and may read or write by it before it becomes another program.
unsafe extern "C" fn before_fork() {
    if table::is_any_flagged() {
        inside(|| leave(table::files(), "a child process has its descriptor"));
    }
}

unsafe extern "C" fn in_child() {
    table::begin();
    synced::begin();
    inside(guard::begin);
}

extern "C" fn at_exit() {
    finish();
}

/// Leaves every file as the program wrote it: it ends without closing them.
fn finish() {
    inside(|| leave(table::files(), PROGRAM_ENDS));
}

fn leave(files: Vec<File>, why: &str) {
    for file in files {
        if let File::Wal(routed) = file {
            // An error is one line on standard error.
            routed.leave(why);
        }
    }
}

/// What another program is about to get is the kernel's from here on.
fn share() {
    if !table::is_any_flagged() {
        return;
    }
    inside(|| leave(table::inherited(), "a child process gets its descriptor"));
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
