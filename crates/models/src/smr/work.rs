//! What happens inside the drive, event by event.
//!
//! Events are commands of the moving parts that are done, answers whose time has come, and the
//! host having stayed away long enough. They are taken in order of time, each seeing the disk as it
//! is at its own time, so that polling late changes nothing.

use super::{Kind, Purpose, SmrModel, TRANSFER_BYTES_MAX};
use crate::pending;
use nearhead_disk::{
    Class, Command, CommandId, Completion, Disk, DiskError, Nanos, Payload, Submission, Ticket,
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
    pub(super) fn read_parts(
        &mut self,
        range: Range<u64>,
        class: Class,
        purpose: Purpose,
    ) -> usize {
        self.give(range, class, purpose, |offset, len| Command::Read { offset, len })
    }

    /// Writes the drive's sectors; in how many commands.
    pub(super) fn write_parts(
        &mut self,
        range: Range<u64>,
        class: Class,
        purpose: Purpose,
    ) -> usize {
        self.give(range, class, purpose, |offset, len| {
            let parts = vec![Payload::Phantom(len as usize)];
            Command::Write { offset, parts, durable: true }
        })
    }

    fn give(
        &mut self,
        range: Range<u64>,
        class: Class,
        purpose: Purpose,
        command: impl Fn(u64, u32) -> Command,
    ) -> usize {
        let sector = self.sector_bytes();
        let most = u64::from(TRANSFER_BYTES_MAX) / sector;
        let mut at = range.start;
        let mut count = 0;
        while at < range.end {
            let sectors = most.min(range.end - at);
            let id = self.desk.number();
            self.purposes.insert(id, purpose);
            let command = command(at * sector, (sectors * sector) as u32);
            self.parts_waiting.push_back((id, class, command));
            (at, count) = (at + sectors, count + 1);
        }
        self.feed_parts();
        count
    }

    /// Hands the moving parts what they have room for.
    fn feed_parts(&mut self) {
        let depth = usize::from(self.parts.properties().queue_depth_max);
        while self.parts.outstanding() < depth {
            let Some((id, class, command)) = self.parts_waiting.pop_front() else { return };
            let ticket = Ticket::new(CommandId(id));
            let submission = Submission { ticket, class, command };
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
        if self.desk.part_done(id, error) && !self.zero_on(id) {
            self.finish_at(self.time, id);
        }
    }

    fn finish(&mut self, id: u64) {
        self.last_activity = self.time;
        let sector = self.sector_bytes();
        let Self { desk, stats, lost, pieces, store, .. } = self;
        desk.finish(id, |kind| match kind {
            Kind::Read { range } => {
                stats.served.reads += 1;
                stats.served.read_bytes += (range.end - range.start) * sector;
                pending::content(pieces, &**store, sector, &range)
            }
            Kind::Write { bytes, .. } => {
                stats.served.writes += 1;
                stats.served.write_bytes += bytes;
                Ok(Payload::EMPTY)
            }
            Kind::Flush => {
                stats.served.flushes += 1;
                lost.take().map_or(Ok(Payload::EMPTY), Err)
            }
            Kind::Trim => Ok(Payload::EMPTY),
        });
    }
}
