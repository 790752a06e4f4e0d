//! Data devices that failed, or are not there: the volume goes on without what lies on them.
//!
//! A device whose flush fails may have lost whatever it had answered since the last one (law 7). Where nothing but cleaning relied on that,
//! nobody was told anything wrong: the logs still have all of it. So that device alone is given up, until the volume is opened again: what
//! was on its way home stays in the logs, nothing more is asked of it, and whoever needs it is told. Where a client's write in place, a spill
//! or something taken back relied on the flush the volume fails as a whole; so it does if the map's snapshots are on the device. One that is
//! not there when the volume is opened is given up from the start.

use super::Core;
use crate::damage::{Damage, DamageKind};
use crate::disk::dispatch::InFlight;
use nearhead_disk::{DiskError, DiskErrorKind, Lane};
use nearhead_service::{ErrorKind, RequestError};

fn told(position: u8, why: &str) -> Damage {
    DamageKind::Home.told(format!("data device {position} was given up: {why}"))
}

impl Core {
    /// Nothing is asked of the data devices that are not there.
    pub(super) fn give_up_absent(&mut self) {
        for position in self.setup.absent_devices.clone() {
            self.give_up(position, "it was missing when the volume was opened".to_owned());
        }
    }

    /// Says so of each, where findings begin anew.
    pub(super) fn note_given_up(&mut self) {
        let given_up: Vec<_> = self.lanes.given_up().map(|(at, why)| told(at, why)).collect();
        for damage in given_up {
            self.note(damage);
        }
    }

    fn give_up(&mut self, position: u8, why: String) -> bool {
        self.stats.devices_given_up += 1;
        self.note(told(position, &why));
        self.lanes.give_up(Lane::data(position), why)
    }

    /// The flush of a data device failed, and nothing but what cleaning brought home relied on it: no more is asked of that device, and
    /// the volume goes on without. False if it may not be so: then the volume fails.
    pub(crate) fn give_up_device(&mut self, lane: Lane, error: &DiskError) -> bool {
        let (Some(position), map) = (lane.data_position(), &self.setup.map) else { return false };
        let has_map = map.lane == Lane::MAIN && position == 0;
        // In a chain records lie there, and nobody has them but the device.
        if has_map || !self.setup.has_homes() || !self.flusher().is_done(self.clients_ticket) {
            return false;
        }
        self.give_up(position, format!("its cache could not be flushed: {error}"))
    }

    /// Why nothing more is asked of the device with the home of one of these client bytes, if so.
    pub(crate) fn given_up_under(&self, offset: u64, len: u64) -> Option<RequestError> {
        let (position, why) = self.given_up_at(offset, len)?;
        let detail = format!(
            "data device {position} was given up: {why}; what it holds can neither be read nor written until it is mended and the volume \
             opened again"
        );
        Some(RequestError::new(ErrorKind::Io, detail))
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
        let detail = format!("lane {} was given up", lane.0);
        Some((lane, done, DiskError { kind: DiskErrorKind::Gone, detail }))
    }
}
