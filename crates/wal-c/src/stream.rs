//! `nearhead_stream`: a durable stream of bytes for C.

use crate::outcome::{
    CError, bytes_of, held, memory_of, mode_of, offer, path_of, place, run, text, wrong,
};
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wal::process::HelperOptions;
use wal::{Begin, OpenStream, Result, Stream, StreamOptions};

/// `nearhead_stream_options`. Zeros mean the defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStreamOptions {
    mode: u32,
    permissions: u32,
    ahead_bytes: u64,
    buffer_bytes: u64,
}

/// `nearhead_stream`: the stream, until it is closed.
pub struct CStream {
    stream: Mutex<Stream>,
    choice: String,
}

impl CStream {
    fn locked(&self) -> MutexGuard<'_, Stream> {
        // A stream that panicked half way refuses by itself: its memory is gone.
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_stream(
    path: *const c_char,
    at: u32,
    position: u64,
    options: *const CStreamOptions,
) -> Result<CStream> {
    // SAFETY: the header asks for null or for options that live during the call.
    let options = unsafe { options.as_ref() }.copied();
    let options = options.unwrap_or(CStreamOptions {
        mode: 0,
        permissions: 0,
        ahead_bytes: 0,
        buffer_bytes: 0,
    });
    let begin = match at {
        0 => Begin::New,
        1 => Begin::End,
        2 => Begin::Position(position),
        3 => Begin::Emptied,
        4 => Begin::EndOrNew,
        _ => return Err(wrong("at", &format!("0 to 4, found {at}"))),
    };
    let defaults = StreamOptions::default();
    if options.buffer_bytes > 1 << 30 || options.ahead_bytes > 1 << 40 {
        return Err(wrong("options", "a buffer of at most 1 GiB, 1 TiB ahead, found more"));
    }
    let or = |value: u64, default: u64| if value == 0 { default } else { value };
    let open = OpenStream {
        path: path_of(path)?,
        begin,
        permissions: if options.permissions == 0 { 0o666 } else { options.permissions },
        options: StreamOptions {
            ahead_bytes: or(options.ahead_bytes, defaults.ahead_bytes),
            buffer_bytes: or(options.buffer_bytes, defaults.buffer_bytes as u64) as usize,
            ..defaults
        },
    };
    let (stream, choice) = open.open(mode_of(options.mode)?, &HelperOptions::default())?;
    Ok(CStream { stream: Mutex::new(stream), choice: choice.to_string() })
}

/// Opens a stream.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_open(
    path: *const c_char,
    at: u32,
    position: u64,
    options: *const CStreamOptions,
    stream: *mut *mut CStream,
    error: *mut CError,
) -> c_int {
    run(error, || {
        place(stream, std::ptr::null_mut(), "stream")?;
        let opened = Box::new(open_stream(path, at, position, options)?);
        place(stream, Box::into_raw(opened), "stream")
    })
}

/// Adds bytes.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_write(
    stream: *mut CStream,
    bytes: *const u8,
    len: usize,
    error: *mut CError,
) -> c_int {
    run(error, || held(stream, "stream")?.locked().write(bytes_of(bytes, len)?))
}

/// Makes them durable.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_sync(
    stream: *mut CStream,
    durable: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        offer(durable, held(stream, "stream")?.locked().sync()?);
        Ok(())
    })
}

/// Where it is.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_position(
    stream: *mut CStream,
    position: *mut u64,
    durable: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        let stream = held(stream, "stream")?.locked();
        offer(position, stream.position());
        offer(durable, stream.durable_position());
        Ok(())
    })
}

/// Reads from it.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_read(
    stream: *mut CStream,
    offset: u64,
    memory: *mut u8,
    len: usize,
    read: *mut usize,
    error: *mut CError,
) -> c_int {
    run(error, || {
        let stream = held(stream, "stream")?.locked();
        place(read, stream.read_at(offset, memory_of(memory, len)?)?, "read")
    })
}

/// Cuts it.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_truncate(
    stream: *mut CStream,
    len: u64,
    error: *mut CError,
) -> c_int {
    run(error, || held(stream, "stream")?.locked().truncate(len))
}

/// Who writes it, in one line.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_choice(
    stream: *mut CStream,
    line: *mut *mut c_char,
    error: *mut CError,
) -> c_int {
    run(error, || place(line, text(&held(stream, "stream")?.choice), "line"))
}

/// Closes it; it is gone whatever the outcome.
///
/// # Safety
/// As the header says of each pointer. Nobody else may be using the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_stream_close(
    stream: *mut CStream,
    len: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        held(stream, "stream")?;
        // SAFETY: not null, made by `open`, and the caller gives it up.
        let stream = unsafe { Box::from_raw(stream) };
        let stream = stream.stream.into_inner().unwrap_or_else(PoisonError::into_inner);
        offer(len, stream.close()?);
        Ok(())
    })
}
