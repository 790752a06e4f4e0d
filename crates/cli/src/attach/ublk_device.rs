//! A volume as a block device of the kernel's driver for such: no file system and no other device in between.
//!
//! The driver keeps the device while it has no server, and gives it to one process at a time: the worker has it as its standard input, and
//! no one else, so that the driver sees when it ends. Each order goes through a control device of its own, so that one that waits
//! (for a worker that does not come) keeps no other process from it.

use super::backend::{
    Backend, Device, HandedOver, Shape, missing_file, missing_root, nothing_more,
};
use super::place::{Facts, Place};
use super::resize::size_of;
use nearhead_ublk::{Control, State, block_device, open_for_server};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The way.
pub(super) struct UblkDevice;

/// A device, taken away when this is dropped.
struct Made {
    number: u32,
    outlives_a_kill: bool,
    was_started: AtomicBool,
    /// A worker after the first was given it, and has not gone on yet.
    is_recovering: AtomicBool,
}

impl Backend for UblkDevice {
    fn name(&self) -> &'static str {
        "ublk"
    }

    fn missing(&self) -> Option<String> {
        missing_root()
            .or_else(|| missing_file("/dev/ublk-control", "ublk_drv"))
            .or_else(nearhead_ublk::why_missing)
    }

    fn begin(&self, place: &Place) -> Result<Box<dyn Device>, String> {
        let made = with_control("making a device", |control| control.add(mark_of(place)))?;
        Ok(Box::new(Made {
            number: made.number,
            outlives_a_kill: made.outlives_a_kill,
            was_started: AtomicBool::new(false),
            is_recovering: AtomicBool::new(false),
        }))
    }

    fn adopt(
        &self,
        place: &Place,
        facts: &Facts,
        _: Option<OwnedFd>,
    ) -> Result<Box<dyn Device>, String> {
        let Some(number) = number_of(&facts.device) else {
            let device = facts.device.display();
            return Err(format!(
                "attach {}: expected a device of ublk, found {device}",
                place.name
            ));
        };
        Ok(Box::new(Made {
            number,
            outlives_a_kill: facts.outlives_a_kill,
            was_started: AtomicBool::new(true),
            is_recovering: AtomicBool::new(false),
        }))
    }

    fn is_there(&self, place: &Place, facts: &Facts) -> bool {
        number_of(&facts.device).is_some_and(|number| is_of(number, place))
    }

    fn take_away(&self, place: &Place, facts: &Facts) -> Result<(), String> {
        self.give_up(place, Some(&facts.device))
    }

    fn give_up(&self, place: &Place, device: Option<&Path>) -> Result<(), String> {
        let Some(number) = device.and_then(number_of).filter(|number| is_of(*number, place)) else {
            return Ok(());
        };
        with_control("stopping the device", |control| control.stop(number))?;
        if place.is_held() {
            // The supervisor takes the rest away.
            return Ok(());
        }
        with_control("taking the device away", |control| control.delete(number))
    }
}

impl Device for Made {
    fn for_worker(&self) -> Result<(OwnedFd, HandedOver), String> {
        if self.has_ended() {
            return nothing_more();
        }
        if self.was_started.load(Ordering::Acquire) {
            self.recover()?;
        }
        let device = open_for_server(self.number);
        let device = device.map_err(|error| failed("opening the device", &error))?;
        Ok((device, HandedOver::Ublk))
    }

    fn outlives_a_kill(&self) -> bool {
        self.outlives_a_kill
    }

    fn make(&self, _: &Place, _: Shape, worker: u32) -> Result<PathBuf, String> {
        // Before it is asked: from the first moment on there may be unanswered requests.
        self.was_started.store(true, Ordering::Release);
        with_control("starting the device", |control| control.start(self.number, worker))?;
        Ok(block_device(self.number))
    }

    fn go_on(&self, worker: u32) -> Result<(), String> {
        with_control("going on", |control| control.end_recovery(self.number, worker))?;
        self.is_recovering.store(false, Ordering::Release);
        Ok(())
    }

    fn resize(&self, place: &Place, device: &Path, size_bytes: u64) -> Result<(), String> {
        let resized = with_control("giving the device another size", |control| {
            control.resize(self.number, size_bytes)
        });
        if size_of(device) == Some(size_bytes / 512 * 512) {
            return Ok(());
        }
        Err(format!(
            "ublk: the volume has grown, and the driver of this kernel cannot give a device that is used another size (Linux 6.16 can); to \
             see it: nearhead detach {name}, and attach it again ({why})",
            name = place.name,
            why = resized.err().unwrap_or_else(|| "the driver said nothing".to_owned()),
        ))
    }

    fn has_ended(&self) -> bool {
        let found = with_control("looking", |control| control.device(self.number));
        let is_dead = |state| state == State::Dead && self.was_started.load(Ordering::Acquire);
        found.is_ok_and(|device| device.is_none_or(|device| is_dead(device.state)))
    }
}

impl Made {
    /// Lets the next worker take it.
    fn recover(&self) -> Result<(), String> {
        let was_recovering = self.is_recovering.swap(true, Ordering::AcqRel);
        let outcome = Control::open().and_then(|mut control| control.start_recovery(self.number));
        match outcome {
            // The last one ended before it had taken anything: the driver is still where this led to.
            Err(error) if was_recovering && error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(|error| failed("going on", &error)),
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // Its worker has ended, so there is nothing to wait for.
        let _ = with_control("stopping the device", |control| control.stop(self.number));
        let _ = with_control("taking the device away", |control| control.delete(self.number));
    }
}

fn with_control<T>(
    doing: &str,
    order: impl FnOnce(&mut Control) -> io::Result<T>,
) -> Result<T, String> {
    let outcome = Control::open().and_then(|mut control| order(&mut control));
    outcome.map_err(|error| failed(doing, &error))
}

fn failed(doing: &str, error: &io::Error) -> String {
    format!("ublk: {doing}: {error}")
}

fn number_of(device: &Path) -> Option<u32> {
    device.file_name()?.to_str()?.strip_prefix("ublkb")?.parse().ok()
}

/// Whether the device with this number, which may belong to another one by this time, is the one of `place`.
fn is_of(number: u32, place: &Place) -> bool {
    let found = with_control("looking", |control| control.device(number)).ok().flatten();
    found.is_some_and(|device| device.mark == mark_of(place) && device.state != State::Dead)
}

/// Mark of the device of `place`: four letters, and a checksum of its name.
fn mark_of(place: &Place) -> u64 {
    u64::from(u32::from_be_bytes(*b"near")) << 32 | u64::from(crc32c::crc32c(place.name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_the_driver_is_told_by_its_name() {
        assert_eq!(number_of(Path::new("/dev/ublkb12")), Some(12));
        for other in ["/dev/ublkc1", "/dev/ublkb", "/dev/ublkb1p1", "/dev/loop1", ""] {
            assert_eq!(number_of(Path::new(other)), None, "{other}");
        }
    }
}
