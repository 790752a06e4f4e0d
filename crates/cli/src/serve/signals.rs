//! SIGTERM and SIGINT: the first asks for a graceful stop, the second for one at once.
//!
//! Until the volume is open there is nothing to make durable, so a signal ends the program.

use nearhead_nbd::ShutdownHandle;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIGNALS: [i32; 2] = [SIGTERM, SIGINT];

/// Handlers that are in place.
pub struct Signals {
    exit_at_once: Arc<AtomicBool>,
}

impl Signals {
    /// From now on either signal ends the program.
    pub fn install() -> Result<Self, String> {
        let exit_at_once = Arc::new(AtomicBool::new(true));
        for signal in SIGNALS {
            let flag = Arc::clone(&exit_at_once);
            signal_hook::flag::register_conditional_shutdown(signal, 1, flag)
                .map_err(|error| format!("signal {signal} cannot be handled: {error}"))?;
        }
        Ok(Self { exit_at_once })
    }

    /// From now on each signal is one request for a stop.
    pub fn stop_gracefully_through(&self, handle: &ShutdownHandle) -> Result<(), String> {
        for signal in SIGNALS {
            let failed = |error| format!("signal {signal} cannot be handled: {error}");
            let descriptor = handle.descriptor().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, descriptor).map_err(failed)?;
        }
        self.exit_at_once.store(false, Ordering::SeqCst);
        Ok(())
    }
}
