//! Waiting in real time for a volume that recovers, with a report of how it gets on.

use super::Volume;
use crate::open::OpenError;
use nearhead_disk::Disk;
use nearhead_engine::Status;
use nearhead_service::Service;
use std::time::Instant;

impl<D: Disk> Volume<D> {
    /// Waits in real time until recovery is done; an error says why it could not be.
    pub fn wait_until_open(&mut self, start: Instant) -> Result<(), OpenError> {
        self.wait_until_open_and_tell(start, |_| {})
    }

    /// The same; `tell` is called whenever recovery goes on, with what gives its state.
    pub fn wait_until_open_and_tell(
        &mut self,
        start: Instant,
        mut tell: impl FnMut(&dyn Fn() -> Status),
    ) -> Result<(), OpenError> {
        while !self.engine.is_open() {
            let now = self.lanes.in_real_time(start).now();
            self.drive(now);
            self.tell_events();
            tell(&|| self.engine.status());
            if !self.engine.is_open() {
                let latest = self.engine.next_wake();
                self.lanes.in_real_time(start).wait_until(latest)?;
            }
        }
        self.check_open()
    }

    /// Ends a checkpoint that [`Volume::start_checkpoint`] began; drive the volume afterwards.
    pub fn cancel_checkpoint(&mut self, now: nearhead_disk::Nanos) {
        self.engine.cancel_checkpoint(now);
    }
}
