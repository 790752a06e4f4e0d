//! What a host says to the drive, and when it hears of it.
//!
//! The model first does what would have happened until the host's `now`; then a command that passes the gate becomes work
//! for the arm, the cache or neither. One that does not is answered at once, by a completion like any other. It must
//! never hand out a completion before its time.

use super::queue::MediaOperation;
use super::{Arrival, FinishAction, HddModel};
use nearhead_disk::{Command, Completion, Disk, Nanos, Properties, Run, Submission};

impl Disk for HddModel {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.known_run(offset)
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.advance(now);
        let refused = self.refuse(&submission.command);
        self.outstanding += 1;
        self.last_activity = self.time;
        if let Some(error) = refused {
            self.finish_at(self.time, submission.ticket, FinishAction::Failed(error));
            return;
        }
        let Submission { ticket, class, command } = submission;
        let arrival = Arrival { ticket, class };
        match command {
            Command::Read { offset, len } => self.submit_read(arrival, offset, len),
            Command::Write { offset, parts, durable } => {
                self.submit_write(arrival, offset, parts, durable);
            }
            Command::WriteZeroes { offset, len, .. } => {
                let (lbn, sectors) = (offset / self.sector_bytes(), len / self.sector_bytes());
                self.enqueue(arrival, lbn, sectors, MediaOperation::Zero);
            }
            // A hard disk has nothing to gain from a trim; the bytes stay as they are.
            Command::Trim { .. } => {
                let at = self.time + self.cached_overhead();
                self.finish_at(at, arrival.ticket, FinishAction::Plain { flush: false });
            }
            Command::Flush => self.submit_flush(arrival.ticket),
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.done.is_empty() { self.next_event() } else { Some(self.time) }
    }
}
