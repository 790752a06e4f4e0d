//! `nearhead_log`: a log of records for C.

use crate::outcome::{CError, bytes_of, held, mode_of, offer, path_of, place, run, text};
use std::ffi::{c_char, c_int, c_void};
use wal::{Log, LogOptions, Lsn, OpenOptions, Result};

/// `nearhead_log_options`. Zeros mean the defaults.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct CLogOptions {
    mode: u32,
    must_exist: u32,
    segment_bytes: u32,
    record_bytes_max: u32,
    segments_max: u32,
}

/// `nearhead_log`: the log, until it is closed.
pub struct CLog {
    log: Log,
    choice: String,
}

/// `nearhead_record_function`: gets one record; anything but 0 ends the reading.
pub type RecordFunction =
    unsafe extern "C" fn(lsn: u64, record: *const u8, len: usize, context: *mut c_void) -> c_int;

/// Hands a record to C.
fn hand_over(function: RecordFunction, lsn: Lsn, record: &[u8], context: *mut c_void) -> c_int {
    // SAFETY: the record lives during the call, and the header asks for a function of this type.
    unsafe { function(lsn.0, record.as_ptr(), record.len(), context) }
}

fn open_log(path: *const c_char, options: *const CLogOptions) -> Result<CLog> {
    // SAFETY: the header asks for null or for options that live during the call.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let mut log = LogOptions::default();
    if options.segment_bytes != 0 {
        log.geometry.segment_bytes = options.segment_bytes;
    }
    if options.record_bytes_max != 0 {
        log.record_bytes_max = options.record_bytes_max;
    }
    if options.segments_max != 0 {
        log.segments_max = options.segments_max as usize;
    }
    let create = options.must_exist == 0;
    let open = OpenOptions { log, mode: mode_of(options.mode)?, create, ..OpenOptions::default() };
    let opened = open.open(&path_of(path)?, |_, _| {})?;
    Ok(CLog { log: opened.log, choice: opened.choice.to_string() })
}

/// Opens a log.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_open(
    path: *const c_char,
    options: *const CLogOptions,
    log: *mut *mut CLog,
    error: *mut CError,
) -> c_int {
    run(error, || {
        place(log, std::ptr::null_mut(), "log")?;
        let opened = Box::new(open_log(path, options)?);
        place(log, Box::into_raw(opened), "log")
    })
}

/// Adds a record, durable when it returns if `durable` is not 0.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_append(
    log: *mut CLog,
    record: *const u8,
    len: usize,
    durable: c_int,
    lsn: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        let log = &held(log, "log")?.log;
        let record = bytes_of(record, len)?;
        let number = if durable == 0 { log.append(record) } else { log.append_durable(record) }?;
        offer(lsn, number.0);
        Ok(())
    })
}

/// Makes all records durable.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_sync(
    log: *mut CLog,
    next: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        offer(next, held(log, "log")?.log.sync()?.0);
        Ok(())
    })
}

/// Which records there are.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_bounds(
    log: *mut CLog,
    first: *mut u64,
    next: *mut u64,
    durable_next: *mut u64,
    error: *mut CError,
) -> c_int {
    run(error, || {
        let log = &held(log, "log")?.log;
        log.check_opener()?;
        offer(first, log.first_lsn().0);
        offer(next, log.next_lsn().0);
        offer(durable_next, log.durable_next().0);
        Ok(())
    })
}

/// Reads the durable records from `from` on.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_read(
    log: *mut CLog,
    from: u64,
    function: Option<RecordFunction>,
    context: *mut c_void,
    error: *mut CError,
) -> c_int {
    run(error, || {
        let Some(function) = function else { return Ok(()) };
        for record in held(log, "log")?.log.records(Lsn(from))? {
            let (lsn, bytes) = record?;
            if hand_over(function, lsn, &bytes, context) != 0 {
                break;
            }
        }
        Ok(())
    })
}

/// Gives up the records before `lsn`.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_truncate_prefix(
    log: *mut CLog,
    lsn: u64,
    error: *mut CError,
) -> c_int {
    run(error, || held(log, "log")?.log.truncate_prefix(Lsn(lsn)))
}

/// Who writes it, in one line.
///
/// # Safety
/// As the header says of each pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_choice(
    log: *mut CLog,
    line: *mut *mut c_char,
    error: *mut CError,
) -> c_int {
    run(error, || place(line, text(&held(log, "log")?.choice), "line"))
}

/// Closes it; it is gone whatever the outcome.
///
/// # Safety
/// As the header says of each pointer. Nobody else may be using the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearhead_log_close(log: *mut CLog, error: *mut CError) -> c_int {
    run(error, || {
        held(log, "log")?;
        // SAFETY: not null, made by `open`, and the caller gives it up.
        let log = unsafe { Box::from_raw(log) };
        log.log.close()
    })
}
