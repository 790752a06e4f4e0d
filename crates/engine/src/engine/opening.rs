//! How a volume begins: recovery's reads and flushes are commands like any other, and what it found is the volume.

use super::{Engine, Phase};
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use crate::recovery::{Next, Rebuilt, Recovered, Refusal};
use nearhead_disk::{At, Class, Command, DiskError, Payload};
use nearhead_format::Place;
use nearhead_service::ErrorKind;
use std::ops::Range;

impl Engine {
    /// Asks for the first read of a recovery; everything else follows from completions.
    pub(super) fn begin_recovery(&mut self) {
        if let Phase::Recovering(recovery) = &mut self.phase
            && !recovery.has_begun()
        {
            let next = recovery.next(None);
            self.recovery_goes_on(next);
        }
    }

    pub(super) fn on_recovery(&mut self, result: Result<Payload, DiskError>) {
        if let Phase::Recovering(recovery) = &mut self.phase {
            let next = recovery.next(Some(result));
            self.recovery_goes_on(next);
        }
    }

    fn recovery_goes_on(&mut self, next: Next) {
        match next {
            Next::Read { at: At { lane, offset }, len } => {
                let read = Command::Read { offset, len };
                self.core.issue_on(lane, Class::Foreground, Purpose::Recovery, read);
            }
            Next::Flush { lane } => {
                self.core.issue_on(lane, Class::Durable, Purpose::Recovery, Command::Flush);
            }
            Next::Open(recovered) => self.serve(*recovered),
            Next::Refuse(refusal) => self.refuse_to_serve(refusal),
        }
    }

    fn serve(&mut self, recovered: Recovered) {
        let now = self.core.now();
        let rebuilt = recovered.share(&mut self.core, &mut self.commit, &mut self.snapshotter);
        if rebuilt.is_some() {
            self.core.set_read_only(true);
        }
        self.rebuilt = rebuilt;
        self.phase = Phase::Serving;
        self.schedule.note_request(now);
        for request in self.requests.take_held() {
            self.handle_request(request, now);
        }
    }

    fn refuse_to_serve(&mut self, refusal: Refusal) {
        let (problem, findings) = refusal.into_parts();
        self.core.set_findings(findings);
        self.phase = Phase::Stopped;
        for request in self.requests.take_held() {
            self.fail_request(request.id, ErrorKind::Io, &problem);
        }
        self.core.fail(Failure::Recovery { problem });
    }

    /// What a rebuild of the map found, if this volume was opened by one and nobody took it yet.
    pub fn rebuilt(&self) -> Option<&Rebuilt> {
        self.rebuilt.as_deref()
    }

    /// The owner decided: reads of `given_up`, in sectors, fail until they are written again, and the volume may be
    /// changed from now on. Nothing is durable before a snapshot is.
    pub fn take_rebuilt(&mut self, given_up: impl IntoIterator<Item = Range<u64>>) {
        if self.rebuilt.take().is_none() {
            return;
        }
        for range in given_up {
            let (start, sectors) = (range.start, range.end - range.start);
            self.core.recorded_mut().fill(start, sectors, Place::Poisoned);
        }
        self.core.set_read_only(false);
    }
}
