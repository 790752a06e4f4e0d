//! Data devices that failed, or are not there: the volume goes on without what lies on them.
//!
//! A device whose flush fails may have lost whatever it had answered since the last one (law 7). Where nothing but cleaning relied on that,
//! nobody was told anything wrong: the logs still have all of it. So that device alone is given up, until the volume is opened again: what
//! was on its way home stays in the logs, nothing more is asked of it, and whoever needs it is told. Where a client's write in place, a spill
//! or something taken back relied on the flush the volume fails as a whole; so it does if the map's snapshots are on the device. One that is
//! not there when the volume is opened is given up from the start.
//!
//! In a chain nothing relies on a flush, as every record is durable by itself, and what lies on a device lies nowhere else. One that is gone,
//! or cannot be flushed, is given up with what it holds: that reads as errors, and never as something older, until it is written again or the
//! device is back. The first one has the snapshots: without it nothing goes on. One that answers reads and takes no records is only closed.
//!
//! It is the same with a log device beside the volume's own, as records are durable by themselves there, too. What is still in memory of
//! what it holds goes home from there.

use super::Core;
use crate::damage::{Damage, DamageKind};
use crate::disk::dispatch::InFlight;
use nearhead_disk::{DiskError, DiskErrorKind, Lane};
use nearhead_service::{ErrorKind, RequestError};

/// Said of a link, or a log device, that takes no records.
const CLOSED: &str = "several of its logs in a row did not take a record, so it takes none until the volume is opened again; what it holds \
                      can be read";

impl Core {
    /// Nothing is asked of the data devices that are not there.
    pub(super) fn give_up_absent(&mut self) {
        for position in self.setup.absent_devices.clone() {
            self.give_up(position, "it was missing when the volume was opened".to_owned());
        }
    }

    /// What messages call a device.
    fn name_of_device(&self, position: u8) -> String {
        // The first of a chain, and the first log device, is the volume's own.
        let parts = &self.setup.layout.data_parts;
        match usize::from(position).checked_sub(parts.with_homes()) {
            _ if self.setup.layout.is_chain() => format!("link {}", position + 1),
            Some(number) => format!("log device {}", number + 1),
            None => format!("data device {position}"),
        }
    }

    /// Whether a device has logs and no homes, so that nothing on it relies on a flush.
    fn has_logs(&self, position: u8) -> bool {
        self.logs().of_position(position).is_some()
    }

    fn told(&self, position: u8, why: &str) -> Damage {
        let kind = if self.has_logs(position) { DamageKind::Log } else { DamageKind::Home };
        kind.told(format!("{} was given up: {why}", self.name_of_device(position)))
    }

    /// Says so of each, where findings begin anew.
    pub(super) fn note_given_up(&mut self) {
        let given_up: Vec<_> =
            self.lanes.given_up().map(|(at, why)| (at, self.told(at, why))).collect();
        for (position, damage) in given_up {
            self.lose_logs_of(position);
            self.note(damage);
        }
    }

    fn give_up(&mut self, position: u8, why: String) -> bool {
        self.stats.devices_given_up += 1;
        self.note(self.told(position, &why));
        self.lose_logs_of(position);
        self.lanes.give_up(Lane::data(position), why)
    }

    /// The logs of that device take nothing any more, if it has any.
    fn lose_logs_of(&mut self, position: u8) {
        if let Some(device) = self.logs().of_position(position) {
            self.logs_mut().lose(&device);
        }
    }

    /// A device of logs that is gone is given up; says whether it was now.
    pub(crate) fn give_up_if_gone(&mut self, lane: Lane, error: &DiskError) -> bool {
        let position = lane.data_position().filter(|_| error.kind == DiskErrorKind::Gone);
        let position = position.filter(|position| self.has_logs(*position));
        let Some(position) = position.filter(|_| !self.is_given_up(lane)) else { return false };
        self.give_up(position, error.to_string())
    }

    /// Whether nothing is asked of that device any more: what it answers all the same is not relied on.
    pub(crate) fn is_given_up(&self, lane: Lane) -> bool {
        self.lanes.given_up().any(|(position, _)| Lane::data(position) == lane)
    }

    /// If so many logs of a device do not take a record that it is no matter of places, none of them takes any more, as long as another
    /// device does. Says whether that is so from now on.
    pub(crate) fn close_link_of(&mut self, log: u32) -> bool {
        let Some(device) = self.logs().device_that_takes_nothing(log) else { return false };
        let number = self.logs().by_device().position(|other| other == device).unwrap_or(0);
        let noun = if self.setup.layout.is_chain() { "link" } else { "log device" };
        self.note(DamageKind::Log.told(format!("{noun} {number}: {CLOSED}")));
        self.logs_mut().lose(&device);
        true
    }

    /// The flush of a data device failed, and nothing but what cleaning brought home relied on it: no more is asked of that device, and
    /// the volume goes on without. False if it may not be so: then the volume fails.
    pub(crate) fn give_up_device(&mut self, lane: Lane, error: &DiskError) -> bool {
        let (Some(position), map) = (lane.data_position(), &self.setup.map) else { return false };
        let has_logs = self.has_logs(position);
        let has_map = map.lane == Lane::MAIN && position == 0 && !has_logs;
        if has_map || !has_logs && !self.flusher().is_done(self.clients_ticket) {
            return false;
        }
        self.give_up(position, format!("its cache could not be flushed: {error}"))
    }

    /// Why nothing more is asked of the device with the home of one of these client bytes, if so.
    pub(crate) fn given_up_under(&self, offset: u64, len: u64) -> Option<RequestError> {
        let (position, why) = self.given_up_at(offset, len)?;
        Some(RequestError::new(ErrorKind::Io, self.refusal_of(position, why)))
    }

    fn refusal_of(&self, position: u8, why: &str) -> String {
        let (name, has_logs) = (self.name_of_device(position), self.has_logs(position));
        let what = if has_logs {
            "what it holds reads as errors until it is written again, or the device is mended and the volume opened again"
        } else {
            "what it holds can neither be read nor written until it is mended and the volume opened again"
        };
        format!("{name} was given up: {why}; {what}")
    }

    /// Whether that is so.
    pub(crate) fn is_given_up_under(&self, offset: u64, len: u64) -> bool {
        self.given_up_at(offset, len).is_some()
    }

    fn given_up_at(&self, offset: u64, len: u64) -> Option<(u8, &str)> {
        self.lanes.given_up().next()?;
        let mut pieces = self.setup.layout.home_pieces(offset, len);
        pieces.find_map(|piece| self.lanes.given_up_at(piece.device_offset))
    }

    /// Whether somebody asked something of such a device all the same, and was not told yet.
    pub(crate) fn has_refused(&self) -> bool {
        self.lanes.has_refused()
    }

    /// What is told to whoever did.
    pub(crate) fn take_refused(&mut self) -> Option<(Lane, InFlight, DiskError)> {
        let id = self.lanes.take_refused()?;
        let (lane, done) = self.complete(id, &[])?;
        let given_up = self.lanes.given_up().find(|(position, _)| Lane::data(*position) == lane);
        let detail =
            given_up.map(|(position, why)| self.refusal_of(position, why)).unwrap_or_default();
        Some((lane, done, DiskError { kind: DiskErrorKind::Gone, detail }))
    }
}
