//! Signals: SIGTERM, SIGINT and SIGQUIT ask for a stop, the first for a graceful one, the second for one
//! at once; no other signal that a terminal, a shell or a limit may send ends the program.
//!
//! Until the volume is open there is nothing to make durable, so those three end the program. SIGHUP is
//! said and otherwise passed over: settings are read at the start only, and a terminal that goes away
//! must not take the disk of a file system with it. A file that may not become larger (SIGXFSZ) is an
//! error of the write. SIGPIPE is ignored by every Rust program.

use nearhead_nbd::ShutdownHandle;
use nearhead_output::note;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const STOPPING: [i32; 3] = [SIGTERM, SIGINT, SIGQUIT];

/// Handlers that are in place.
pub struct Signals {
    exit_at_once: Arc<AtomicBool>,
    hangup: Hangup,
}

/// Whether a SIGHUP came.
#[derive(Clone, Debug, Default)]
pub struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// Says so if one came since the last call.
    pub fn tell(&self) {
        if self.0.swap(false, Ordering::Relaxed) {
            note(
                "SIGHUP: going on as before; settings are read at the start only, so to change them stop \
                 with SIGTERM and start again",
            );
        }
    }
}

impl Signals {
    /// From now on a signal that stops ends the program at once.
    pub fn install() -> Result<Self, String> {
        let exit_at_once = Arc::new(AtomicBool::new(true));
        for signal in STOPPING {
            let flag = Arc::clone(&exit_at_once);
            signal_hook::flag::register_conditional_shutdown(signal, 1, flag)
                .map_err(|error| unhandled(signal, &error))?;
        }
        let hangup = Hangup::default();
        for (signal, flag) in [(SIGHUP, Arc::clone(&hangup.0)), (SIGXFSZ, Arc::default())] {
            signal_hook::flag::register(signal, flag).map_err(|error| unhandled(signal, &error))?;
        }
        Ok(Self { exit_at_once, hangup })
    }

    /// Runs `act`, which handles the signals that stop by itself.
    pub fn leave_to<T>(&self, act: impl FnOnce() -> T) -> T {
        self.exit_at_once.store(false, Ordering::SeqCst);
        let outcome = act();
        self.exit_at_once.store(true, Ordering::SeqCst);
        outcome
    }

    /// Whoever looks now and then says that a SIGHUP came.
    pub fn hangup(&self) -> Hangup {
        self.hangup.clone()
    }

    /// From now on each signal that stops is one request for a stop.
    pub fn stop_gracefully_through(&self, handle: &ShutdownHandle) -> Result<(), String> {
        for signal in STOPPING {
            let failed = |error| unhandled(signal, &error);
            let descriptor = handle.descriptor().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, descriptor).map_err(failed)?;
        }
        self.exit_at_once.store(false, Ordering::SeqCst);
        Ok(())
    }
}

fn unhandled(signal: i32, error: &std::io::Error) -> String {
    format!("signal {signal} cannot be handled: {error}")
}
