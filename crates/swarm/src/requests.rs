//! What the client asks, told to the oracle first, and the answers, held against it.

use crate::content::{SECTOR, payload, versions};
use crate::life::{Life, Waiting};
use crate::oracle::Write;
use crate::steps::Place;
use nearhead_disk::Payload;
use nearhead_format::AckMode;
use nearhead_service::{
    Changed, ErrorKind, Hint, Operation, Reply, Request, RequestError, RequestId, Service,
};

/// Durable writes of so many sectors are atomic ones of bytes every other time, where records bring such.
const BYTES_SECTORS_MAX: u64 = 8;

impl Life<'_> {
    pub(crate) fn send(&mut self, operation: Operation, waiting: Waiting) -> Result<u64, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.tally.requests += 1;
        self.waiting.insert(id, waiting);
        let now = self.now;
        self.volume()?.submit(Request { id: RequestId(id), operation }, now);
        Ok(id)
    }

    fn change(&mut self, ranges: Vec<(u64, u64)>, value: u64, fua: bool) -> Write {
        let durable_on_reply = fua || self.scenario.ack == AckMode::Durable;
        Write { ranges, value, atomic: false, optional: false, durable_on_reply }
    }

    pub(crate) fn write(&mut self, place: Place, fua: bool) -> Result<(), String> {
        let ((start, count), id) = (self.sectors(place), self.next_id);
        if fua && self.scenario.has_fragments && count <= BYTES_SECTORS_MAX && id.is_multiple_of(2)
        {
            return self.write_bytes(start, count);
        }
        let change = self.change(vec![(start, count)], id, fua);
        self.oracle.sent(id, change);
        let data = payload(start, count, id);
        self.send(Operation::Write { offset: start * SECTOR, data, fua }, Waiting::Change).map(drop)
    }

    /// The same as an atomic write of bytes.
    fn write_bytes(&mut self, start: u64, count: u64) -> Result<(), String> {
        let id = self.next_id;
        let change = self.change(vec![(start, count)], id, true);
        self.oracle.sent(id, Write { atomic: true, ..change });
        let extents = vec![(start * SECTOR, payload(start, count, id))];
        let changed = self.changed(&extents);
        self.send(Operation::WriteAtomic { extents, changed }, Waiting::Change).map(drop)
    }

    pub(crate) fn zeroes(
        &mut self,
        place: Place,
        fua: bool,
        fast_only: bool,
    ) -> Result<(), String> {
        let ((start, count), id) = (self.sectors(place), self.next_id);
        let change = self.change(vec![(start, count)], 0, fua);
        self.oracle.sent(id, change);
        let (offset, len) = (start * SECTOR, count * SECTOR);
        let waiting = if fast_only { Waiting::FastZeroes } else { Waiting::Change };
        // Both kinds at any place, without another number from the seed.
        let may_unmap = count % 16 < 8 || count > 1024;
        self.send(Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }, waiting)
            .map(drop)
    }

    pub(crate) fn trim(&mut self, place: Place, fua: bool) -> Result<(), String> {
        let ((start, count), id) = (self.sectors(place), self.next_id);
        let change = self.change(vec![(start, count)], 0, fua);
        self.oracle.sent(id, Write { optional: true, ..change });
        let (offset, len) = (start * SECTOR, count * SECTOR);
        self.send(Operation::Trim { offset, len, fua }, Waiting::Change).map(drop)
    }

    pub(crate) fn atomic(&mut self, place: Place, other: Place) -> Result<(), String> {
        let ((start, count), (other, _)) = (self.sectors(place), self.sectors(other));
        let apart = start + count <= other || other + count <= start;
        let size = self.size_bytes();
        let end = |start: u64| (start + count) * SECTOR <= size;
        let fits = self.atomic_bytes_max()? >= 2 * count * SECTOR;
        if !apart || !fits || !end(other) || !end(start) {
            return Ok(());
        }
        let id = self.next_id;
        let change = self.change(vec![(start, count), (other, count)], id, true);
        self.oracle.sent(id, Write { atomic: true, ..change });
        let extents = [start, other].map(|start| (start * SECTOR, payload(start, count, id)));
        let extents = extents.to_vec();
        let changed = self.changed(&extents);
        self.send(Operation::WriteAtomic { extents, changed }, Waiting::Change).map(drop)
    }

    /// All of it is new, as the oracle knows whole sectors; where records bring bytes it is said byte by byte.
    fn changed(&self, extents: &[(u64, Payload)]) -> Changed {
        if !self.scenario.has_fragments {
            return Changed::All;
        }
        let range = |(offset, data): &(u64, Payload)| *offset..offset + data.len() as u64;
        let mut ranges: Vec<_> = extents.iter().map(range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        Changed::Only(ranges)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.volume.as_ref().map_or(0, |volume| volume.info().size_bytes)
    }

    fn atomic_bytes_max(&mut self) -> Result<u64, String> {
        Ok(self.volume()?.engine().atomic_bytes_max())
    }

    pub(crate) fn read(&mut self, place: Place) -> Result<u64, String> {
        let (start, count) = self.sectors(place);
        self.read_sectors(start, count)
    }

    pub(crate) fn read_sectors(&mut self, start: u64, count: u64) -> Result<u64, String> {
        let waiting = Waiting::Read(self.oracle.read_sent(start, count));
        let len = (count * SECTOR) as u32;
        self.send(Operation::Read { offset: start * SECTOR, len }, waiting)
    }

    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.oracle.flush_sent(self.next_id);
        self.send(Operation::Flush, Waiting::Change).map(drop)
    }

    pub(crate) fn hint(&mut self, place: Place, on: bool) -> Result<(), String> {
        let (start, count) = self.sectors(place);
        let hint = if on { Hint::DurabilityOnly } else { Hint::Normal };
        let (offset, len) = (start * SECTOR, count * SECTOR);
        let number = self.volume()?.engine().snapshot_number();
        self.hints.sent(start..start + count, on, number);
        self.send(Operation::Hint { offset, len, hint }, Waiting::Hint).map(drop)
    }

    pub(crate) fn take_replies(&mut self) -> Result<(), String> {
        while let Some(Reply { id, result }) = self.volume()?.poll_reply() {
            let Some(waiting) = self.waiting.remove(&id.0) else {
                return Err(format!("{id:?} was answered twice, or never asked"));
            };
            self.tally.mix(id.0 << 1 | u64::from(result.is_ok()));
            match result {
                Ok(parts) => self.succeeded(id.0, waiting, &parts)?,
                Err(error) => self.failed(id.0, &waiting, &error)?,
            }
        }
        Ok(())
    }

    fn succeeded(&mut self, id: u64, waiting: Waiting, parts: &[Payload]) -> Result<(), String> {
        match waiting {
            Waiting::Read(read) => {
                let found =
                    versions(read.start, parts).map_err(|what| format!("read {id}: {what}"))?;
                self.tally.sectors_checked += found.len() as u64;
                for version in &found {
                    self.tally.mix(*version);
                }
                self.oracle.check_read(id, &read, &found)
            }
            Waiting::Change | Waiting::FastZeroes => {
                self.oracle.replied(id, true);
                Ok(())
            }
            Waiting::Hint => Ok(()),
            Waiting::Refusal(what) => Err(format!("request {id} was accepted: {what}")),
            Waiting::TooLate => Err(format!("request {id} was accepted by a stopping volume")),
        }
    }

    fn failed(&mut self, id: u64, waiting: &Waiting, error: &RequestError) -> Result<(), String> {
        let expected = match waiting {
            Waiting::Refusal(_) => {
                matches!(error.kind, ErrorKind::Invalid | ErrorKind::NotSupported)
            }
            Waiting::TooLate => error.kind == ErrorKind::ShuttingDown,
            Waiting::FastZeroes if error.kind == ErrorKind::NotSupported => true,
            _ => false,
        };
        if matches!(waiting, Waiting::Change | Waiting::FastZeroes) {
            self.oracle.replied(id, false);
        }
        if matches!(waiting, Waiting::Hint) {
            self.hints.failed();
        }
        if error.detail.is_empty() {
            return Err(format!("request {id} failed and nothing says why"));
        }
        if expected {
            return Ok(());
        }
        if !self.is_excused() {
            return Err(format!("request {id} failed without a fault: {error}"));
        }
        if matches!(waiting, Waiting::Read(_)) && self.is_damaged() {
            self.tally.damage_found += 1;
        }
        Ok(())
    }
}
