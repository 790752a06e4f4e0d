//! A header whose twin is missing gets it back before anything is written that needs two.
//!
//! A power cut between a snapshot's header and the copy of it, or rot of one of the two, leaves the newest snapshot
//! with one header. Recovery takes it, and writes nothing. From then on the older snapshot counts for nothing: log
//! space that only it protects is used again, and the next snapshot's body is written over its own. One bad sector
//! under the lone header would then cost the volume. So the other place is written first: before the first record
//! after a recovery, before the first snapshot, and by a stop. It writes what stands in the sound place, so a cut in
//! the middle of it leaves what was there. A place that cannot be written is told and left alone: the next snapshot
//! has two places of its own.

use super::Snapshotter;
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use nearhead_disk::{At, Buffer, BufferMut, Class, Command, DiskError, Payload};

/// The place without a header, and what belongs there.
#[derive(Debug)]
pub(crate) struct LoneHeader {
    at: At,
    bytes: Buffer,
    is_being_written: bool,
}

impl LoneHeader {
    /// `bytes` is the header that stands in the other place of the slot.
    pub(crate) fn new(at: At, bytes: &[u8]) -> Self {
        Self { at, bytes: BufferMut::copy_of(bytes).freeze(), is_being_written: false }
    }
}

impl Snapshotter {
    /// Whether whoever needs two headers must wait, because there is one; begins to write the other.
    pub(crate) fn restores_header(&mut self, core: &mut Core) -> bool {
        let Some(lone) = self.lone.as_mut() else { return false };
        if !std::mem::replace(&mut lone.is_being_written, true) {
            let (At { lane, offset }, parts) = (lone.at, vec![Payload::Bytes(lone.bytes.clone())]);
            let durable = core.lanes().flusher(lane).is_needed();
            let command = Command::Write { offset, parts, durable };
            core.issue_on(lane, Class::Durable, Purpose::LoneHeader, command);
        }
        true
    }

    /// Whether the place is being written.
    pub(crate) fn is_restoring_header(&self) -> bool {
        self.lone.as_ref().is_some_and(|lone| lone.is_being_written)
    }

    pub(crate) fn on_lone_header(&mut self, core: &mut Core, result: &Result<Payload, DiskError>) {
        let Some(lone) = self.lone.take() else { return };
        if let Err(error) = result {
            let at = lone.at;
            let told = format!("snapshot header at {at}: could not be written again: {error}");
            core.note(DamageKind::Snapshot.told(told));
        }
    }

    /// Recovery took a snapshot of whose header one place only is sound.
    pub(crate) fn note_lone_header(&mut self, lone: Option<LoneHeader>) {
        self.lone = lone;
    }
}
