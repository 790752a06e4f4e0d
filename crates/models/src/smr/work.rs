//! What happens inside the drive, event by event.
//!
//! Events are commands of the moving parts that are done, answers whose time has come, and the
//! host having stayed away long enough. They are taken in order of time, each seeing the disk as it
//! is at its own time, so that polling late changes nothing.

use super::{Kind, Purpose, SmrModel, TRANSFER_BYTES_MAX};
use crate::overlay::overlay;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Disk, DiskError, Nanos, Payload, Submission,
    Ticket,
};
use std::ops::Range;

impl SmrModel {
    /// Does everything that happens until `now`. Time never goes back.
    pub(super) fn advance(&mut self, now: Nanos) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            self.time = self.time.max(at);
            while let Some(done) = self.parts.poll(self.time) {
                self.part_done(&done);
            }
            while let Some(entry) = self.finishing.first_entry() {
                if entry.key().0 > self.time {
                    break;
                }
                let id = entry.remove();
                self.finish(id);
            }
            self.pump();
        }
        self.time = self.time.max(now);
    }

    /// When something happens next, if nothing is submitted before.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let finish = self.finishing.first_key_value().map(|((at, _), _)| *at);
        [finish, self.parts.wake_at(), self.idle_at()].into_iter().flatten().min()
    }

    /// Begins everything that can begin now.
    pub(super) fn pump(&mut self) {
        self.append();
        self.work_on_bands();
    }

    /// Reads the drive's sectors; in how many commands.
    pub(super) fn read_parts(&mut self, range: Range<u64>, purpose: Purpose) -> usize {
        self.give(range, purpose, |offset, len| Command::Read { offset, len })
    }

    /// Writes the drive's sectors; in how many commands.
    pub(super) fn write_parts(&mut self, range: Range<u64>, purpose: Purpose) -> usize {
        self.give(range, purpose, |offset, len| {
            let parts = vec![Payload::Phantom(len as usize)];
            Command::Write { offset, parts, durable: true }
        })
    }

    fn give(
        &mut self,
        range: Range<u64>,
        purpose: Purpose,
        command: impl Fn(u64, u32) -> Command,
    ) -> usize {
        let sector = self.sector_bytes();
        let most = u64::from(TRANSFER_BYTES_MAX) / sector;
        let mut at = range.start;
        let mut count = 0;
        while at < range.end {
            let sectors = most.min(range.end - at);
            let id = self.number();
            self.purposes.insert(id, purpose);
            let command = command(at * sector, (sectors * sector) as u32);
            self.parts_waiting.push_back((id, command));
            (at, count) = (at + sectors, count + 1);
        }
        self.feed_parts();
        count
    }

    /// Hands the moving parts what they have room for.
    fn feed_parts(&mut self) {
        let depth = usize::from(self.parts.properties().queue_depth_max);
        while self.parts.outstanding() < depth {
            let Some((id, command)) = self.parts_waiting.pop_front() else { return };
            let ticket = Ticket::new(CommandId(id));
            let submission = Submission { ticket, class: Class::Foreground, command };
            self.parts.submit(submission, self.time);
        }
    }

    fn part_done(&mut self, done: &Completion) {
        self.feed_parts();
        match self.purposes.remove(&done.id.0) {
            Some(Purpose::Read { command }) => self.part_of_command_done(command, None),
            Some(Purpose::Direct { piece }) => self.direct_done(piece),
            Some(Purpose::Append { id }) => self.append_done(id),
            Some(Purpose::Band) => self.band_step_done(),
            None => {}
        }
    }

    /// A part of a host's command is done; the command is when it was the last.
    pub(super) fn part_of_command_done(&mut self, id: u64, error: Option<DiskError>) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        command.left -= 1;
        command.error = command.error.take().or(error);
        if command.left == 0 && !self.zero_on(id) {
            self.finish_at(self.time, id);
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(command) = self.commands.remove(&id) else { return };
        self.last_activity = self.time;
        self.stats.commands += 1;
        let mut result = match command.kind {
            Kind::Read { range } => {
                self.stats.reads += 1;
                self.stats.read_bytes += (range.end - range.start) * self.sector_bytes();
                self.content(range)
            }
            Kind::Write { bytes, .. } => {
                self.stats.writes += 1;
                self.stats.write_bytes += bytes;
                Ok(Payload::EMPTY)
            }
            Kind::Flush => {
                self.stats.flushes += 1;
                self.lost.take().map_or(Ok(Payload::EMPTY), Err)
            }
            Kind::Trim => Ok(Payload::EMPTY),
        };
        if let Some(error) = command.error {
            result = Err(error);
        }
        self.stats.errors += u64::from(result.is_err());
        self.done.push_back(command.ticket.complete(result));
    }

    /// Whether the drive's memory has all of `range`, from writes that were answered early.
    pub(super) fn is_in_memory(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let holds = |piece: &&super::writes::Piece| {
                piece.volatile && piece.host.start <= at && at < piece.host.end
            };
            let Some(piece) = self.pieces.values().find(holds) else { return false };
            at = piece.host.end;
        }
        true
    }

    /// The bytes a host sees: what was stored, and over it what was answered and is not stored yet.
    fn content(&self, range: Range<u64>) -> Result<Payload, DiskError> {
        let sector = self.sector_bytes();
        let (start, end) = (range.start * sector, range.end * sector);
        if !self.keeps_content {
            return Ok(Payload::Phantom((end - start) as usize));
        }
        let mut bytes = BufferMut::zeroed((end - start) as usize);
        self.store.read(start, &mut bytes)?;
        for piece in self.pieces.values().filter(|piece| piece.volatile) {
            overlay(&mut bytes, start, piece.host.start * sector, &piece.parts);
        }
        Ok(Payload::Bytes(bytes.freeze()))
    }
}
