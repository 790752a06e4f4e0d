//! Loading the newest sound snapshot: the headers of both slots and their copies, then the body of one.
//!
//! A slot that was being written when the power went is not sound, and that is no damage: the other
//! one counts (`slots.rs`). A sound header with a body that is not is damage, and the other slot is
//! tried.

use super::bounds::{check_header, check_item, log_outside, outside};
use super::careful::Piece;
use super::find::{ByClaims, ByJournal, ByWholeLogs, Finder};
use super::slots::{FoundSlot, Place, Unusable, judge};
use super::{Next, Recovery, Snapshot, Step};
use crate::config::MapPlace;
use crate::damage::DamageKind;
use crate::state::logs::Logs;
use crate::state::map::{LoadError, Loader, Map};
use crate::state::paged::{BaseBuilder, Paged, PagedBounds};
use nearhead_disk::At;
use nearhead_format::record::Claim;
use nearhead_format::snapshot::{
    BodyItem, BodyReader, FLAG_CLEAN_SHUTDOWN, FragmentCell, HintRange, LogState,
    SNAPSHOT_HEADER_BYTES, SnapshotHeader,
};
use nearhead_format::{Entry, Layout};
use std::collections::{BTreeMap, VecDeque};

/// Size of one read of a snapshot's body, in bytes.
pub(super) const BODY_READ_BYTES: u64 = 1 << 20;

/// The map of a snapshot.
pub(super) enum LoadedMap {
    /// All of it.
    Whole(Map),
    /// Its index, and the logs with all that it counts of them.
    Paged(Box<Paged>, Box<Logs>),
}

/// The entries of a body as they come.
enum Entries {
    Whole(Loader),
    Paged { bounds: PagedBounds, builder: BaseBuilder, logs: Box<Logs> },
}

impl Entries {
    /// Takes the next one. Of pages nothing is kept but the index and the counts, which go with the rest if the body does not verify.
    fn push(&mut self, entry: Entry, is_on_volume: bool) -> Result<(), LoadError> {
        match self {
            Self::Whole(loader) => loader.push(entry),
            Self::Paged { builder, logs, .. } => {
                builder.entry(&entry);
                if is_on_volume {
                    logs.add_entry(&entry);
                }
                Ok(())
            }
        }
    }

    fn note_bytes(&mut self, bytes: &[u8]) {
        if let Self::Paged { builder, .. } = self {
            builder.bytes(bytes);
        }
    }

    fn finish(self, header: &SnapshotHeader, map: &MapPlace) -> LoadedMap {
        match self {
            Self::Whole(loader) => LoadedMap::Whole(loader.finish()),
            Self::Paged { bounds, builder, logs } => {
                let offset = map.slots.body_offset(header.slot() as usize);
                let base = builder.finish(header.snapshot_number, offset);
                LoadedMap::Paged(Box::new(Paged::new(bounds, base)), logs)
            }
        }
    }
}

/// A snapshot as loaded so far.
pub(super) struct Loading {
    pub(super) header: SnapshotHeader,
    pub(super) reader: BodyReader,
    /// Where its next bytes are; nowhere, if it came from elsewhere.
    pub(super) at: Option<At>,
    entries: Entries,
    pub(super) problem: Option<String>,
    /// What of it does not lie on the volume.
    pub(super) past_volume: Option<String>,
    pub(super) logs: Vec<LogState>,
    pub(super) claims: Vec<u32>,
    pub(super) hints: Vec<HintRange>,
    pub(super) fragments: Vec<FragmentCell>,
}

impl Loading {
    fn new(header: SnapshotHeader, at: Option<At>, entries: Entries) -> Self {
        Self {
            reader: BodyReader::new(header.body),
            header,
            at,
            entries,
            problem: None,
            past_volume: None,
            logs: Vec::new(),
            claims: Vec::new(),
            hints: Vec::new(),
            fragments: Vec::new(),
        }
    }

    /// Takes the next bytes of the body.
    fn feed(&mut self, bytes: &[u8], layout: &Layout) -> Result<(), String> {
        let Self { reader, entries, problem, past_volume, logs, claims, hints, fragments, .. } =
            self;
        entries.note_bytes(bytes);
        let fed = reader.feed(bytes, &mut |item| {
            if let Err(error) = check_item(&item, layout) {
                past_volume.get_or_insert(error);
            }
            match item {
                BodyItem::Entry(entry) => {
                    if let Err(error) = entries.push(entry, past_volume.is_none()) {
                        problem.get_or_insert(format!("{error:?}"));
                    }
                }
                BodyItem::Log(state) => logs.push(state),
                BodyItem::Claim(index) => claims.push(index),
                BodyItem::Hint(range) => hints.push(range),
                BodyItem::Fragment(cell) => fragments.push(cell),
            }
        });
        fed.map_err(|error| error.to_string())
    }
}

impl Recovery {
    /// The bytes where a header of `slot` should be: the header, or why it is none.
    fn slot_place(&self, slot: usize, piece: &Piece) -> Place {
        // One whose checksum holds is whole, whatever of it could not be read: that was zeros.
        self.header_of(&piece.bytes, slot as u32).map_err(|problem| {
            let is_unreadable = !piece.unread.is_empty();
            let problem = if is_unreadable { piece.why.clone() } else { problem };
            Unusable { problem, is_unreadable }
        })
    }

    fn header_of(&self, bytes: &[u8], slot: u32) -> Result<SnapshotHeader, String> {
        let (volume_id, body_bytes_max) =
            (&self.context.volume_id, self.map.slots.body_bytes_max());
        let header = SnapshotHeader::decode(bytes, volume_id, slot, body_bytes_max)
            .map_err(|error| error.to_string())?;
        check_header(&header).map(|()| header)
    }

    pub(super) fn read_header(&mut self, slot: usize) -> Next {
        self.step = Step::Header { slot };
        self.read(self.map.header(slot), SNAPSHOT_HEADER_BYTES)
    }

    pub(super) fn on_slot_header(&mut self, slot: usize, piece: &Piece) -> Next {
        let header = self.slot_place(slot, piece);
        self.step = Step::HeaderCopy { slot, header };
        self.read(self.map.copy(slot), SNAPSHOT_HEADER_BYTES)
    }

    pub(super) fn on_slot_copy(&mut self, slot: usize, header: Place, piece: &Piece) -> Next {
        let copy = self.slot_place(slot, piece);
        let at = self.map.header(slot);
        self.slots.push(FoundSlot { slot, at, header, copy });
        if slot == 0 {
            return self.read_header(1);
        }
        let judged = judge(&self.slots);
        self.headers = judged.headers;
        self.slot_problems = judged.problems;
        self.unreadable = judged.unreadable;
        for finding in judged.findings {
            self.result.note(DamageKind::Snapshot.told(finding));
        }
        self.load_next_snapshot()
    }

    fn load_next_snapshot(&mut self) -> Next {
        let Some(header) = self.headers.pop() else {
            if self.terms.rebuild {
                return self.begin_rebuild(None);
            }
            let problems = self.slot_problems.join("; ");
            return self.refuse(format!(
                "no sound snapshot of the map: expected one in slot 0 or 1, found {problems}; \
                 `nearhead repair --dry-run` says what the logs still know, and changes nothing"
            ));
        };
        let body = self.map.body(header.slot() as usize);
        let entries = self.entries();
        self.read_body(Box::new(Loading::new(header, Some(body), entries)))
    }

    /// As this volume keeps them.
    fn entries(&self) -> Entries {
        let Some(bounds) = self.paged else { return Entries::Whole(Loader::new()) };
        let logs = Logs::new(&self.context.layout, self.map.journal.is_some());
        let builder = BaseBuilder::new(bounds.keeps_base());
        Entries::Paged { bounds, builder, logs: Box::new(logs) }
    }

    /// A snapshot from elsewhere takes the place of both slots.
    pub(super) fn load_base(&mut self, base: &[u8]) -> Next {
        let (first, body) = base.split_at(base.len().min(SNAPSHOT_HEADER_BYTES as usize));
        let slot = first.get(12).map_or(0, |byte| u32::from(*byte));
        let header = match self.header_of(first, slot) {
            Ok(header) => header,
            Err(problem) => return self.refuse(format!("the snapshot given: {problem}")),
        };
        let mut loading = Loading::new(header, None, Entries::Whole(Loader::new()));
        match loading.feed(body, &self.context.layout) {
            Ok(()) => self.body_is_read(loading),
            Err(problem) => self.refuse(format!("the snapshot given: {problem}")),
        }
    }

    fn read_body(&mut self, loading: Box<Loading>) -> Next {
        let left = loading.reader.bytes_left();
        let Some(at) = loading.at.filter(|_| left > 0) else {
            return self.body_is_read(*loading);
        };
        self.step = Step::Body(loading);
        self.read(at, left.min(BODY_READ_BYTES))
    }

    /// What cannot be read of a body is damage like any other: its checksum covers all of it.
    pub(super) fn on_body(&mut self, mut loading: Box<Loading>, piece: Piece) -> Next {
        let at = loading.at.unwrap_or(At::from(0));
        let bytes = piece.whole().map_err(|why| format!("{at}: could not be read: {why}"));
        let layout = &self.context.layout;
        let fed = bytes.and_then(|bytes| loading.feed(&bytes, layout).map(|()| bytes.len() as u64));
        match fed {
            Ok(len) => {
                loading.at = loading.at.map(|at| at + len);
                self.read_body(loading)
            }
            Err(problem) => self.body_is_damaged(&loading.header, &problem),
        }
    }

    fn body_is_damaged(&mut self, header: &SnapshotHeader, problem: &str) -> Next {
        let slot = header.slot();
        self.known_sequence = self.known_sequence.max(header.record_sequence);
        self.known_snapshot = self.known_snapshot.max(header.snapshot_number);
        let finding = format!("snapshot slot {slot}: its body is damaged: {problem}");
        self.slot_problems.push(finding.clone());
        self.result.note(DamageKind::Snapshot.told(finding));
        self.load_next_snapshot()
    }

    fn body_is_read(&mut self, loading: Loading) -> Next {
        let is_base = loading.at.is_none();
        let Loading {
            header,
            reader,
            entries,
            problem,
            past_volume,
            logs,
            claims,
            hints,
            fragments,
            ..
        } = loading;
        let problem = reader.finish().err().map(|error| error.to_string()).or(problem);
        match problem {
            // Whoever gives one wants what it holds, and no map without it.
            Some(problem) if is_base => {
                return self.refuse(format!("the snapshot given: {problem}"));
            }
            Some(problem) => return self.body_is_damaged(&header, &problem),
            None => {}
        }
        let log_count = self.context.layout.log_count();
        let map = entries.finish(&header, &self.map);
        let named = logs.iter().map(|state| state.log_index).chain(claims.iter().copied());
        let beyond = named.filter(|index| *index >= log_count).max();
        if let Some(problem) = beyond.map(|index| log_outside(index, log_count)) {
            return self.refuse(problem);
        }
        if let Some(problem) = past_volume {
            return self.refuse(outside(&problem));
        }
        if is_base {
            let (logs, claims) = (BTreeMap::new(), Vec::new());
            return self.begin_rebuild(Some(Snapshot {
                header,
                map,
                logs,
                claims,
                hints,
                fragments,
            }));
        }
        let logs: BTreeMap<u32, LogState> =
            logs.into_iter().map(|state| (state.log_index, state)).collect();
        let claims: Vec<Claim> = claims
            .into_iter()
            .map(|log_index| {
                let state = logs.get(&log_index);
                Claim { log_index, position: state.map_or(0, |state| state.position) }
            })
            .collect();
        self.context.floor_sequence = header.record_sequence;
        let snapshot = Snapshot { header, map, logs, claims, hints, fragments };
        let finder = self.finder(&snapshot, VecDeque::new());
        self.snapshot = Some(snapshot);
        self.find(finder)
    }

    /// What looks for the records since a snapshot, also in the logs of `peeks`, which it does not claim.
    pub(super) fn finder(&self, snapshot: &Snapshot, peeks: VecDeque<Claim>) -> Box<dyn Finder> {
        let claims = &snapshot.claims;
        match self.map.journal {
            Some(place) => {
                let is_clean = snapshot.header.flags & FLAG_CLEAN_SHUTDOWN != 0;
                Box::new(ByJournal::at(self.map.lane, place, is_clean))
            }
            None if self.context.layout.records_anywhere => {
                Box::new(ByWholeLogs::of(claims).peeking_into(peeks))
            }
            None => Box::new(ByClaims::of(claims).peeking_into(peeks)),
        }
    }
}
