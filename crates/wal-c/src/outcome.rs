//! From Rust to C: codes, messages, and the fence that no panic passes.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use wal::process::code_of;
use wal::writer::Mode;
use wal::{Result, WalError, WalErrorKind};

/// Bytes of a message, with its terminator: `NEARHEAD_MESSAGE_BYTES`.
const MESSAGE_BYTES: usize = 512;
/// `NEARHEAD_INTERNAL`: a panic, which is a bug.
const INTERNAL: u16 = 100;

/// `nearhead_error`.
#[repr(C)]
pub struct CError {
    code: c_int,
    message: [c_char; MESSAGE_BYTES],
}

const _: () = assert!(size_of::<CError>() == size_of::<c_int>() + MESSAGE_BYTES);

/// Runs `body`; returns 0 or the code of its error, which is also put into `error` if that is there.
pub(crate) fn run(error: *mut CError, body: impl FnOnce() -> Result<()>) -> c_int {
    let (code, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => (0, String::new()),
        Ok(Err(error)) => (code_of(error.kind), error.detail),
        Err(_) => {
            (INTERNAL, "internal: the library panicked; this is a bug of Nearhead".to_owned())
        }
    };
    // SAFETY: the header asks for null or for an error that lives during the call.
    if let Some(error) = unsafe { error.as_mut() } {
        error.fill(c_int::from(code), &message);
    }
    c_int::from(code)
}

impl CError {
    fn fill(&mut self, code: c_int, message: &str) {
        self.code = code;
        let mut len = message.len().min(MESSAGE_BYTES - 1);
        while !message.is_char_boundary(len) {
            len -= 1;
        }
        self.message = [0; MESSAGE_BYTES];
        for (to, from) in self.message.iter_mut().zip(&message.as_bytes()[..len]) {
            *to = c_char::from_ne_bytes([*from]);
        }
    }
}

/// What a caller did that the header forbids.
#[cold]
pub(crate) fn wrong(argument: &str, expected: &str) -> WalError {
    let detail = format!("{argument}: expected {expected}; see nearhead_wal.h");
    WalError::new(WalErrorKind::OutOfRange, detail)
}

/// A thing that C holds.
pub(crate) fn held<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: the header asks for null, which is refused, or for what `open` gave and `close` did not take.
    unsafe { pointer.as_ref() }.ok_or_else(|| wrong(what, "one that was opened, found NULL"))
}

/// Where to put a result.
pub(crate) fn place<T>(pointer: *mut T, value: T, what: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(wrong(what, "a place for it, found NULL"));
    }
    // SAFETY: not null, and the header asks for memory of that type; it may hold nothing yet.
    unsafe { pointer.write(value) };
    Ok(())
}

/// The same where NULL means that nobody wants it.
pub(crate) fn offer<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: as in `place`.
        unsafe { pointer.write(value) };
    }
}

/// Bytes that C has.
pub(crate) fn bytes_of<'a>(bytes: *const u8, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || isize::try_from(len).is_err() {
        return Err(wrong("bytes", "as many as the length says, found NULL or too many"));
    }
    // SAFETY: not null, and the header asks for `len` bytes that nobody changes during the call.
    Ok(unsafe { std::slice::from_raw_parts(bytes, len) })
}

/// Memory that C has for bytes.
pub(crate) fn memory_of<'a>(memory: *mut u8, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if memory.is_null() || isize::try_from(len).is_err() {
        return Err(wrong("memory", "as much as the length says, found NULL or too much"));
    }
    // SAFETY: as in `bytes_of`; and nobody else uses it during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(memory, len) })
}

/// A path of C.
pub(crate) fn path_of(path: *const c_char) -> Result<PathBuf> {
    if path.is_null() {
        return Err(wrong("path", "a path, found NULL"));
    }
    // SAFETY: not null, and the header asks for a terminated string.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// `nearhead_mode`.
pub(crate) fn mode_of(mode: u32) -> Result<Mode> {
    match mode {
        0 => Ok(Mode::Thread),
        1 => Ok(Mode::Request),
        2 => Ok(Mode::Caller),
        3 => Ok(Mode::Process),
        _ => Err(wrong("mode", &format!("0 to 3, found {mode}"))),
    }
}

/// Text for C, which must free it with `nearhead_free_text`; a null inside ends it early.
pub(crate) fn text(text: &str) -> *mut c_char {
    let until = text.split('\0').next().unwrap_or_default();
    std::ffi::CString::new(until).map_or(std::ptr::null_mut(), std::ffi::CString::into_raw)
}

/// Frees a text that this library gave.
///
/// # Safety
/// Null, or a text of this library that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { std::ffi::CString::from_raw(text) });
    }
}
