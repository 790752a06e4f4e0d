//! An attached volume whose supervisor ended: what it left, and how another supervisor goes on with it.
//!
//! A worker serves on without its supervisor, and has all that is needed: its standard input is the connection to the kernel, and
//! `identity.json` says what later workers open. Where the worker ended as well, the kernel's client of NBD and its driver ublk keep the device;
//! a loop device is at its end then, and is made again once its last user has left. It must never make a second worker while one lives.

use super::backend::{self, Backend, Device};
use super::identity::Identity;
use super::place::{Facts, Place};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::os::fd::OwnedFd;

/// How a worker's command line begins, behind the program's name.
const WORKER: [&[u8]; 3] = [b"attach", b"--role", b"worker"];

/// State that a supervisor left.
pub(super) struct Resumed {
    pub(super) facts: Facts,
    pub(super) identity: Identity,
    /// The worker, if it lives.
    pub(super) worker: Option<Pid>,
    /// The kernel still has the device.
    pub(super) has_device: bool,
}

impl Resumed {
    /// Reads the state at `place`; none if a supervisor has it, or nothing is left.
    pub(super) fn at(place: &Place) -> Option<Self> {
        if place.is_held() {
            return None;
        }
        let facts = place.facts().ok()?;
        let identity = Identity::read(&place.identity()).ok()?;
        let worker = living_worker(&facts);
        Some(Self { facts, identity, worker, has_device: true })
    }

    /// Whether the kernel still has the device, and something can serve it.
    pub(super) fn is_there(&self, place: &Place) -> bool {
        let Ok(backend) = backend::named(&self.facts.by) else { return false };
        let needs_worker = backend.name() == "loop";
        backend.is_there(place, &self.facts) && (self.worker.is_some() || !needs_worker)
    }

    /// The same where the device has to be made again.
    pub(super) fn without_device(self) -> Self {
        Self { has_device: false, worker: None, ..self }
    }

    /// The device.
    pub(super) fn adopt(
        &self,
        place: &Place,
    ) -> Result<(&'static dyn Backend, Box<dyn Device>), String> {
        let backend = backend::named(&self.facts.by)?;
        let workers = self.worker.map(|worker| standard_input_of(worker, place)).transpose()?;
        Ok((backend, backend.adopt(place, &self.facts, workers)?))
    }
}

/// A descriptor of the worker's standard input, its side of the device.
fn standard_input_of(worker: Pid, place: &Place) -> Result<OwnedFd, String> {
    let handle = pidfd_open(worker, PidfdFlags::empty());
    let given = handle.and_then(|handle| pidfd_getfd(handle, 0, PidfdGetfdFlags::empty()));
    given.map_err(|error| {
        format!(
            "attach {}: expected the connection of its worker, process {}, found {error}; it takes root, and Linux 5.6",
            place.name,
            worker.as_raw_nonzero()
        )
    })
}

/// The worker, if it lives.
pub(super) fn living_worker(facts: &Facts) -> Option<Pid> {
    let worker = facts.worker.filter(|worker| is_worker(*worker))?;
    Pid::from_raw(worker.cast_signed())
}

/// Whether the process with this number is a worker, and not another process that has the number by now.
fn is_worker(number: u32) -> bool {
    let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    words.get(1..4).is_some_and(|words| words == WORKER)
}

/// Takes away what processes that ended left at `place`: a loop device without a user, and the folder under it. One that is used stays.
pub(super) fn clear(place: &Place) -> Result<(), String> {
    let facts = place.facts().ok();
    if let Some(facts) = &facts {
        let backend = backend::named(&facts.by)?;
        if backend.is_there(place, facts) {
            super::detach::refuse_if_used(place, facts, backend, "attach")?;
        }
        backend.give_up(place, Some(&facts.device))?;
    }
    if nearhead_uring::mount_at(&place.shown()).is_some() {
        let _ = nearhead_one_file::unmount(&place.shown());
    }
    Ok(())
}
