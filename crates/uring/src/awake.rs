//! Processors that do not go to sleep: what a synchronous write spends on waking them.
//!
//! Whoever waits for a disk leaves its processor idle. An idle one goes to sleep, and waking it again is part of the
//! write's latency, twice where the device has a volatile cache: the write's end and the flush's. In a virtual
//! machine a sleeping processor is given back to the host and each waking is an exit, so there it is a third of a
//! write of 0.13 ms (docs/wal-performance.md).
//!
//! Linux keeps all processors awake for as long as somebody holds [`DEVICE`] open at 0 ("PM Quality Of Service
//! Interface", `Documentation/power/pm_qos_interface.rst`): they wait in a loop, at the price of their power, and in a
//! virtual machine of the host's time. So nothing here does it unasked.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// Four bytes, native order: within how many microseconds an idle processor has to be back.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// While it lives, no processor sleeps deeper than a loop.
#[derive(Debug)]
pub struct Awake {
    device: File,
}

impl Awake {
    /// Keeps processors awake from here on.
    ///
    /// # Errors
    /// Those of opening and writing the device: without the privilege (root, as it is installed), in containers
    /// that have no such device.
    pub fn keep() -> io::Result<Self> {
        Self::keep_at(Path::new(DEVICE))
    }

    fn keep_at(path: &Path) -> io::Result<Self> {
        let mut device = OpenOptions::new().write(true).open(path)?;
        device.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { device })
    }

    /// Lets the program that this process becomes, and those it starts, keep them awake: until the last of
    /// them has ended or closed it.
    ///
    /// # Errors
    /// Those of `fcntl(2)`; none is expected of an open file.
    pub fn hand_on(self) -> io::Result<()> {
        rustix::io::fcntl_setfd(&self.device, rustix::io::FdFlags::empty())?;
        // Closed with this process, or by the program that it becomes.
        std::mem::forget(self.device);
        Ok(())
    }
}

/// Within how many microseconds idle processors have to be back, as somebody asked; 0: they stay awake. `None` where
/// it cannot be asked.
pub fn wake_up_limit_us() -> Option<i32> {
    let mut limit = [0; 4];
    File::open(DEVICE).ok()?.read_exact(&mut limit).ok()?;
    Some(i32::from_ne_bytes(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_microseconds_are_asked_for_in_four_bytes() {
        let path = std::env::temp_dir().join(format!("nearhead-awake-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        drop(Awake::keep_at(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), [0; 4]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(Awake::keep_at(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_handed_on_stays_open_for_the_program_that_this_process_becomes() {
        let path = std::env::temp_dir().join(format!("nearhead-hand-on-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        Awake::keep_at(&path).unwrap().hand_on().unwrap();
        // A child that becomes another program has what this process would have then.
        let held = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        let held = String::from_utf8_lossy(&held.stdout);
        assert!(held.contains(path.to_str().unwrap()), "{held}");
    }

    #[test]
    fn the_kernel_keeps_processors_awake_for_as_long_as_it_is_held() {
        let mut told = [0; 4];
        if File::open(DEVICE).and_then(|mut device| device.read_exact(&mut told)).is_ok() {
            assert_eq!(wake_up_limit_us(), Some(i32::from_ne_bytes(told)));
        }
        let Ok(awake) = Awake::keep() else {
            eprintln!("skipped: {DEVICE} may not be opened here");
            return;
        };
        assert_eq!(wake_up_limit_us(), Some(0));
        drop(awake);
        // Somebody else may hold it: then nothing can be said of the end.
    }
}
