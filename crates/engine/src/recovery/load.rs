//! Loading the newest sound snapshot: the headers of both slots and their copies, then the body of one.
//!
//! A slot that was being written when the power went is not sound, and that is no damage: the other
//! one counts (`slots.rs`). A sound header with a body that is not is damage, and the other slot is
//! tried.

use super::bounds::{check_header, check_item};
use super::slots::{FoundSlot, Place, Unusable, judge};
use super::{Recovery, Step, bytes_of};
use crate::engine::Engine;
use crate::map::Loader;
use nearhead_disk::{DiskError, Payload};
use nearhead_format::Layout;
use nearhead_format::snapshot::{
    BodyItem, BodyReader, HintRange, LogState, SNAPSHOT_HEADER_BYTES, SnapshotHeader,
};
use nearhead_planted::{Mistake, is_made};

/// Size of one read of a snapshot's body, in bytes.
pub(super) const BODY_READ_BYTES: u64 = 1 << 20;

impl Recovery {
    /// A disk that cannot read what it may read again later: log space may have been used again since the
    /// snapshot there, so that the older one is not enough.
    fn body_is_unreadable(&mut self, slot: usize, offset: u64, problem: &str) {
        if is_made(Mistake::SnapshotReadErrorIgnored) {
            return;
        }
        let problem =
            format!("snapshot slot {slot} at device byte {offset}: could not be read: {problem}");
        self.unreadable.get_or_insert(problem);
    }
}

/// A snapshot as loaded so far.
pub(super) struct Loading {
    pub(super) header: SnapshotHeader,
    pub(super) reader: BodyReader,
    pub(super) offset: u64,
    pub(super) entries: Loader,
    pub(super) problem: Option<String>,
    /// What of it does not lie on the volume.
    pub(super) past_volume: Option<String>,
    pub(super) logs: Vec<LogState>,
    pub(super) claims: Vec<u32>,
    pub(super) hints: Vec<HintRange>,
}

impl Loading {
    fn new(header: SnapshotHeader, offset: u64) -> Self {
        Self {
            reader: BodyReader::new(header.body),
            header,
            offset,
            entries: Loader::new(),
            problem: None,
            past_volume: None,
            logs: Vec::new(),
            claims: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Takes the next bytes of the body.
    fn feed(&mut self, bytes: &[u8], layout: &Layout) -> Result<(), String> {
        let Self { reader, entries, problem, past_volume, logs, claims, hints, .. } = self;
        let fed = reader.feed(bytes, &mut |item| {
            if let Err(error) = check_item(&item, layout) {
                past_volume.get_or_insert(error);
            }
            match item {
                BodyItem::Entry(entry) => {
                    if let Err(error) = entries.push(entry) {
                        problem.get_or_insert(format!("{error:?}"));
                    }
                }
                BodyItem::Log(state) => logs.push(state),
                BodyItem::Claim(index) => claims.push(index),
                BodyItem::Hint(range) => hints.push(range),
            }
        });
        fed.map_err(|error| error.to_string())
    }
}

impl Engine {
    /// The bytes where a header of `slot` should be: the header, or why it is none.
    fn slot_place(&self, slot: usize, result: Result<Payload, DiskError>) -> Place {
        let unusable = |is_unreadable| move |problem| Unusable { problem, is_unreadable };
        let bytes = bytes_of(result).map_err(unusable(true))?;
        let body_bytes_max = self.setup.layout.snapshot_body_bytes_max();
        SnapshotHeader::decode(&bytes, &self.setup.volume_id, slot as u32, body_bytes_max)
            .map_err(|error| error.to_string())
            .and_then(|header| check_header(&header).map(|()| header))
            .map_err(unusable(false))
    }

    pub(super) fn on_slot_header(&mut self, slot: usize, result: Result<Payload, DiskError>) {
        let header = self.slot_place(slot, result);
        let offset = self.setup.layout.snapshot_copy_offset(slot);
        let Some(recovery) = self.recovering() else { return };
        recovery.step = Step::HeaderCopy { slot, header };
        self.recovery_read(offset, SNAPSHOT_HEADER_BYTES);
    }

    pub(super) fn on_slot_copy(
        &mut self,
        slot: usize,
        header: Place,
        result: Result<Payload, DiskError>,
    ) {
        let copy = self.slot_place(slot, result);
        let offsets = self.setup.layout.slot_offsets;
        let Some(recovery) = self.recovering() else { return };
        recovery.slots.push(FoundSlot { slot, offset: offsets[slot], header, copy });
        if slot == 0 {
            recovery.step = Step::Header { slot: 1 };
            return self.recovery_read(offsets[1], SNAPSHOT_HEADER_BYTES);
        }
        let judged = judge(&recovery.slots);
        recovery.headers = judged.headers;
        recovery.slot_problems = judged.problems;
        recovery.unreadable = judged.unreadable;
        judged.findings.into_iter().for_each(|finding| recovery.result.note(finding));
        self.load_next_snapshot();
    }

    pub(super) fn load_next_snapshot(&mut self) {
        let slots = self.setup.layout.slot_offsets;
        let Some(recovery) = self.recovering() else { return };
        let Some(header) = recovery.headers.pop() else {
            if self.setup.config.rebuild {
                return self.begin_rebuild(None);
            }
            let Some(recovery) = self.recovering() else { return };
            let problems = recovery.slot_problems.join("; ");
            return self.recovery_fails(&format!(
                "no sound snapshot of the map: expected one in slot 0 or 1, found {problems}; \
                 `nearhead repair --dry-run` says what the logs still know, and changes nothing"
            ));
        };
        let offset = slots[header.slot() as usize] + SNAPSHOT_HEADER_BYTES;
        self.read_body(Box::new(Loading::new(header, offset)));
    }

    /// A snapshot from elsewhere takes the place of both slots.
    pub(super) fn load_base(&mut self, base: &[u8]) {
        let volume_id = self.setup.volume_id;
        let body_bytes_max = self.setup.layout.snapshot_body_bytes_max();
        let (first, body) = base.split_at(base.len().min(SNAPSHOT_HEADER_BYTES as usize));
        let slot = first.get(12).map_or(0, |byte| u32::from(*byte));
        let header = SnapshotHeader::decode(first, &volume_id, slot, body_bytes_max)
            .map_err(|error| error.to_string())
            .and_then(|header| check_header(&header).map(|()| header));
        let header = match header {
            Ok(header) => header,
            Err(problem) => return self.recovery_fails(&format!("the snapshot given: {problem}")),
        };
        let mut loading = Loading::new(header, 0);
        match loading.feed(body, &self.setup.layout) {
            Ok(()) if loading.reader.bytes_left() == 0 => self.body_is_read(loading),
            Ok(()) => self.recovery_fails("the snapshot given ends before its end"),
            Err(problem) => self.recovery_fails(&format!("the snapshot given: {problem}")),
        }
    }

    pub(super) fn read_body(&mut self, loading: Box<Loading>) {
        let (offset, left) = (loading.offset, loading.reader.bytes_left());
        if left == 0 {
            return self.body_is_read(*loading);
        }
        if let Some(recovery) = self.recovering() {
            recovery.step = Step::Body(loading);
        }
        self.recovery_read(offset, left.min(BODY_READ_BYTES));
    }

    pub(super) fn on_body(
        &mut self,
        mut loading: Box<Loading>,
        result: Result<Payload, DiskError>,
    ) {
        let layout = self.setup.layout;
        let bytes = bytes_of(result);
        if let (Err(problem), Some(recovery)) = (&bytes, self.recovering()) {
            recovery.body_is_unreadable(loading.header.slot() as usize, loading.offset, problem);
        }
        let fed =
            bytes.and_then(|bytes| loading.feed(&bytes, &layout).map(|()| bytes.len() as u64));
        match fed {
            Ok(len) => {
                loading.offset += len;
                self.read_body(loading);
            }
            Err(problem) => self.body_is_damaged(&loading.header, &problem),
        }
    }

    pub(super) fn body_is_damaged(&mut self, header: &SnapshotHeader, problem: &str) {
        let slot = header.slot();
        let Some(recovery) = self.recovering() else { return };
        recovery.known_sequence = recovery.known_sequence.max(header.record_sequence);
        recovery.known_snapshot = recovery.known_snapshot.max(header.snapshot_number);
        let finding = format!("snapshot slot {slot}: its body is damaged: {problem}");
        recovery.slot_problems.push(finding.clone());
        recovery.result.note(finding);
        self.load_next_snapshot();
    }
}
