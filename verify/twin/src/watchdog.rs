//! The watchdog: an act that never ends is a difference, and must not hang the twin.
//!
//! A process that waits for a block device in the kernel cannot be killed. So an act that takes too
//! long has its device taken away by force: everything outstanding then fails with EIO.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Far more than the slowest act on a busy machine takes.
const ACT_MAX: Duration = Duration::from_secs(150);

/// Watches the acts of one run.
#[derive(Debug)]
pub struct Watchdog {
    begun: Sender<()>,
    has_bitten: Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches the attached volume `name` of the program `nearhead`.
    pub fn over(nearhead: &std::path::Path, name: &str) -> Self {
        let (begun, acts) = channel();
        let has_bitten = Arc::new(AtomicBool::new(false));
        let (bitten, nearhead, name) =
            (Arc::clone(&has_bitten), nearhead.to_owned(), name.to_owned());
        std::thread::spawn(move || {
            loop {
                match acts.recv_timeout(ACT_MAX) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        bitten.store(true, Ordering::SeqCst);
                        let mut command = std::process::Command::new(&nearhead);
                        command.args(["detach", &name, "--force"]).stdin(Stdio::null());
                        let _ = command.output();
                    }
                }
            }
        });
        Self { begun, has_bitten }
    }

    /// An act begins.
    pub fn begin(&self) {
        let _ = self.begun.send(());
    }

    /// Whether an act took too long.
    pub fn has_bitten(&self) -> bool {
        self.has_bitten.load(Ordering::SeqCst)
    }
}
