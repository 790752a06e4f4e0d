//! Signals that stop a process which serves: SIGTERM, SIGINT and SIGQUIT.
//!
//! SIGHUP is ignored: a terminal that goes away must not take a disk or a file system with it.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Calls `deliver` with each signal that stops, on a thread of its own.
pub fn stopping_signals(deliver: impl Fn(i32) + Send + 'static) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP]).map_err(failed)?;
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let started = waiting.spawn(move || {
        signals.forever().filter(|signal| *signal != SIGHUP).for_each(deliver);
    });
    started.map(drop).map_err(failed)
}
