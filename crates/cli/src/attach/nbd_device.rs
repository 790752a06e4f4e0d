//! A volume as a block device of the kernel's client of NBD: what kernels before Linux 6.0 have that outlives its server.
//!
//! Each worker gets one end of a new socket, and the kernel the other: when a worker ends the device waits, and goes on with the next
//! one's. What was not answered is sent again when it is overdue, so a pause may be as long as that
//! ([`nearhead_nbd::kernel::OVERDUE`]).

use super::backend::{
    Backend, Device, HandedOver, Shape, missing_file, missing_root, nothing_more,
};
use super::place::{Facts, Place};
use nearhead_nbd::kernel::{Attached, Nbd, block_device, offered_flags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So long the kernel may take to see that a connection ended, and to end a device.
const SEES_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The way.
pub(super) struct NbdDevice;

#[derive(Default)]
struct Inner {
    number: Option<u32>,
    /// The kernel's end of the newest worker's socket, until it has it.
    kernels: Option<UnixStream>,
}

struct Made {
    place: Place,
    inner: Mutex<Inner>,
}

impl Backend for NbdDevice {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn missing(&self) -> Option<String> {
        let no_netlink = || {
            let failed = |error| format!("the kernel's NBD over netlink: {error}");
            Nbd::open().err().map(failed)
        };
        missing_root().or_else(|| missing_file("/sys/module/nbd", "nbd")).or_else(no_netlink)
    }

    fn begin(&self, place: &Place) -> Result<Box<dyn Device>, String> {
        let _ = std::fs::remove_file(place.ended());
        Ok(Box::new(Made { place: place.clone(), inner: Mutex::default() }))
    }

    fn adopt(
        &self,
        place: &Place,
        facts: &Facts,
        _: Option<OwnedFd>,
    ) -> Result<Box<dyn Device>, String> {
        let inner = Mutex::new(Inner { number: number_of(&facts.device), kernels: None });
        Ok(Box::new(Made { place: place.clone(), inner }))
    }

    fn is_there(&self, place: &Place, facts: &Facts) -> bool {
        is_of(&facts.device, place)
    }

    fn take_away(&self, place: &Place, facts: &Facts) -> Result<(), String> {
        self.give_up(place, Some(&facts.device))?;
        // It has no user, so it goes at once.
        if within(SEES_MAX, || !is_of(&facts.device, place)) {
            return Ok(());
        }
        let (device, limit) = (facts.device.display(), SEES_MAX.as_secs());
        Err(format!("nbd: expected that {device} ends within {limit} s, found it there"))
    }

    fn give_up(&self, place: &Place, device: Option<&Path>) -> Result<(), String> {
        let ours = device.filter(|device| is_of(device, place));
        let Some(number) = ours.and_then(number_of) else { return Ok(()) };
        // The kernel shows it as connected for as long as a process has it open.
        let noted = std::fs::write(place.ended(), "");
        noted.map_err(|error| failed("noting that the device ends", &error))?;
        // The kernel closes the worker's connection, and the worker ends.
        let ended = Nbd::open().and_then(|mut kernel| kernel.disconnect(number));
        ended.map_err(|error| failed("ending the device", &error))
    }
}

impl Device for Made {
    fn for_worker(&self) -> Result<(OwnedFd, HandedOver), String> {
        if self.has_ended() {
            return nothing_more();
        }
        let pair = UnixStream::pair().map_err(|error| failed("making a socket", &error));
        let (kernels, workers) = pair?;
        self.inner().kernels = Some(kernels);
        Ok((workers.into(), HandedOver::Nbd))
    }

    fn outlives_a_kill(&self) -> bool {
        true
    }

    fn make(&self, _: &Place, shape: Shape, _worker: u32) -> Result<PathBuf, String> {
        let Some(socket) = self.inner().kernels.take() else {
            return Err("nbd: the first worker ended before there was a device".to_owned());
        };
        let device = Attached {
            size_bytes: shape.volume.size_bytes,
            block_bytes: shape.block_bytes,
            flags: offered_flags(shape.read_only, shape.volume.rotational, shape.volume.fast_zero),
            identifier: &identifier(&self.place),
        };
        let made = Nbd::open().and_then(|mut kernel| kernel.connect(socket.as_fd(), device));
        let number = made.map_err(|error| failed("making a device", &error))?;
        self.inner().number = Some(number);
        Ok(block_device(number))
    }

    fn go_on(&self, _worker: u32) -> Result<(), String> {
        let Some(number) = self.inner().number else { return Ok(()) };
        let Some(socket) = self.inner().kernels.take() else { return Ok(()) };
        let mut kernel = Nbd::open().map_err(|error| failed("going on", &error))?;
        let mut outcome = Ok(());
        // It takes another connection once it has seen that the last one ended.
        let went_on = within(SEES_MAX, || {
            outcome = kernel.reconnect(number, socket.as_fd(), &identifier(&self.place));
            outcome.is_ok()
        });
        if went_on { Ok(()) } else { outcome.map_err(|error| failed("going on", &error)) }
    }

    fn resize(&self, _: &Place, _: &Path, size_bytes: u64) -> Result<(), String> {
        let Some(number) = self.inner().number else { return Ok(()) };
        let resized = Nbd::open()
            .and_then(|mut kernel| kernel.resize(number, size_bytes, &identifier(&self.place)));
        resized.map_err(|error| failed("giving the device another size", &error))
    }

    fn has_ended(&self) -> bool {
        let is_connected = |number| Nbd::is_connected(number, &identifier(&self.place));
        let number = self.inner().number;
        number.is_some_and(|number| self.place.ended().exists() || !is_connected(number))
    }
}

impl Made {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `is_so` becomes true within so long.
fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn failed(doing: &str, error: &io::Error) -> String {
    format!("nbd: {doing}: {error}")
}

fn number_of(device: &Path) -> Option<u32> {
    device.file_name()?.to_str()?.strip_prefix("nbd")?.parse().ok()
}

/// Whether the device, whose number may belong to another one by this time, is the one of `place`.
fn is_of(device: &Path, place: &Place) -> bool {
    number_of(device).is_some_and(|number| Nbd::is_connected(number, &identifier(place)))
}

fn identifier(place: &Place) -> String {
    format!("nearhead {}", place.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_the_kernels_client_is_told_by_its_name() {
        assert_eq!(number_of(Path::new("/dev/nbd12")), Some(12));
        for other in ["/dev/nbd", "/dev/nbd1p1", "/dev/ublkb1", ""] {
            assert_eq!(number_of(Path::new(other)), None, "{other}");
        }
    }
}
