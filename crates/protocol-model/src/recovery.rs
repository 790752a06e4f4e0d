//! Crashes and recoveries of the model, and the laws they are held against.
//!
//! A power cut keeps any version of a home block that was on the medium, in the cache or on its way;
//! each record on its way is there, torn or never came. Recovery reads what `crates/engine/src/recovery`
//! reads, in the same order of decisions, and writes nothing.

use crate::state::{
    BLOCKS, CheckpointStep, Content, DiskState, Entry, LOGS, Map, Memory, Place, Record, Snapshot,
    SnapshotStep, State, Wrong,
};
use crate::{Mistake, Protocol};
use std::collections::BTreeMap;

/// What of one crash is left to chance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// What is on the medium of each home block. After a kill: the last one in the cache.
    pub home: [Content; BLOCKS],
    /// What became of each record on its way.
    pub records: Vec<Fate>,
    /// What became of the snapshot being written.
    pub snapshot: Fate,
    /// The newest snapshot's slot does not read back.
    pub rot: bool,
}

/// What became of a write on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// All of it is there.
    Whole,
    /// It destroyed what was there before.
    Torn,
    /// Nothing of it is there.
    Never,
}

impl Protocol {
    /// Every outcome of a power cut now.
    pub(crate) fn outcomes(&self, state: &State) -> Vec<Outcome> {
        let Some(memory) = &state.memory else { return Vec::new() };
        let flying = |block: usize| {
            let copying = memory.checkpoint.filter(|checkpoint| {
                checkpoint.step == CheckpointStep::Writing && usize::from(checkpoint.block) == block
            });
            memory.transferring[block].into_iter().chain(copying.map(|work| work.content))
        };
        let homes: [Vec<Content>; BLOCKS] = std::array::from_fn(|block| {
            let home = &state.disk.home[block];
            let cached = home.pending.iter().copied();
            let mut values: Vec<Content> =
                std::iter::once(home.durable).chain(cached).chain(flying(block)).collect();
            values.sort_unstable();
            values.dedup();
            values
        });
        let snapshot: &[Fate] = match memory.snapshot.map(|work| work.step) {
            None => &[Fate::Never],
            Some(SnapshotStep::Body(_) | SnapshotStep::Flushing(_)) => &[Fate::Torn, Fate::Never],
            Some(SnapshotStep::Header) => &[Fate::Whole, Fate::Torn],
        };
        let rot: &[bool] = if self.bounds.rot && !state.rotten { &[false, true] } else { &[false] };
        let mut outcomes = vec![Outcome {
            home: Default::default(),
            records: Vec::new(),
            snapshot: Fate::Never,
            rot: false,
        }];
        for (block, values) in homes.iter().enumerate() {
            outcomes = each(&outcomes, values, |outcome, value| outcome.home[block] = *value);
        }
        for flying in &memory.records {
            let fates: &[Fate] = if flying.landed {
                &[Fate::Whole]
            } else {
                &[Fate::Whole, Fate::Torn, Fate::Never]
            };
            outcomes = each(&outcomes, fates, |outcome, fate| outcome.records.push(*fate));
        }
        outcomes = each(&outcomes, snapshot, |outcome, fate| outcome.snapshot = *fate);
        each(&outcomes, rot, |outcome, rot| outcome.rot = *rot)
    }

    /// The power is cut. `kept` says what the medium holds afterwards.
    pub(crate) fn cut(&self, state: &mut State, kept: &Outcome) -> Option<()> {
        let memory = self.crash(state, &kept.records)?;
        for (home, value) in state.disk.home.iter_mut().zip(kept.home) {
            home.durable = value;
            home.pending.clear();
        }
        if let Some(work) = memory.snapshot {
            let slot = &mut state.disk.snapshots[usize::from(work.image.number % 2)];
            match kept.snapshot {
                Fate::Whole => *slot = Some(work.image),
                Fate::Torn => *slot = None,
                Fate::Never => {}
            }
        }
        if kept.rot {
            let newest = state.disk.snapshots.iter_mut().flatten().map(|slot| slot.number).max();
            let slots = state.disk.snapshots.iter_mut();
            for slot in slots.filter(|slot| slot.map(|slot| slot.number) == newest) {
                *slot = None;
            }
            state.rotten = true;
        }
        Some(())
    }

    /// The process is killed: the device's cache stays as it is, a record on its way may land.
    pub(crate) fn kill(&self, state: &mut State, lands: bool) -> Option<()> {
        let fate = if lands { Fate::Whole } else { Fate::Never };
        let count = state.memory.as_ref()?.records.len();
        let memory = self.crash(state, &vec![fate; count])?;
        for (home, content) in state.disk.home.iter_mut().zip(memory.transferring) {
            home.pending.extend(content.filter(|_| lands));
        }
        if let Some(work) = memory.snapshot {
            state.disk.snapshots[usize::from(work.image.number % 2)] = None;
        }
        Some(())
    }

    fn crash(&self, state: &mut State, fates: &[Fate]) -> Option<Memory> {
        if state.crashes == self.bounds.crashes {
            return None;
        }
        let memory = state.memory.take()?;
        state.crashes += 1;
        for (flying, fate) in memory.records.iter().zip(fates) {
            let (log, slot) = flying.place;
            let slot = &mut state.disk.slots[usize::from(log)][usize::from(slot)];
            match fate {
                Fate::Whole => *slot = Some(flying.record),
                Fate::Torn => *slot = None,
                Fate::Never => {}
            }
        }
        Some(memory)
    }

    /// Recovery up to its flush. What it finds must hold against what clients know.
    pub(crate) fn recover(&self, state: &mut State) -> Option<()> {
        if state.memory.is_some() || state.refused {
            return None;
        }
        let Some(mut memory) = self.read_disk(&state.disk) else {
            state.refused = true;
            // After rot a refusal is what SAFETY.md promises; after a mere crash it is a loss.
            state.wrong = (!state.rotten).then_some(Wrong::Refused);
            return Some(());
        };
        memory.recovering = true;
        state.memory = Some(memory);
        state.wrong = self.judge(state);
        if self.makes(Mistake::RecoveryNotFlushed) {
            self.serve(state);
        }
        Some(())
    }

    /// Requests are served: whatever is read now may be relied on.
    pub(crate) fn serve(&self, state: &mut State) {
        for block in 0..BLOCKS {
            state.floor[block] = read(state, block).unwrap_or(state.floor[block]);
        }
        state.sent_before = state.sent;
        // Of several in flight what stands behind a gap is cleared and flushed before the next record.
        let leaves = self.bounds.records_in_flight == 1 || self.makes(Mistake::KeepBehindGap);
        let done = state.memory.as_ref().map_or(0, |memory| memory.sequence_done);
        for slot in state.disk.slots.iter_mut().flatten() {
            *slot = slot.filter(|record| leaves || record.sequence <= done);
        }
        if let Some(memory) = state.memory.as_mut() {
            memory.recovering = false;
        }
    }

    /// Laws 1, 2 and 4 for what recovery found.
    fn judge(&self, state: &State) -> Option<Wrong> {
        (0..BLOCKS).find_map(|block| {
            let Some(found) = read(state, block) else { return Some(Wrong::Overwritten) };
            let floor = state.floor[block];
            // Sent before the last recovery and not found by it: gone for good.
            let risen = |found: u8, floor| found > floor && found <= state.sent_before[block];
            let has_risen = risen(found.rest, floor.rest) || risen(found.bytes, floor.bytes);
            against(found, floor).or(has_risen.then_some(Wrong::Risen))
        })
    }

    /// `recovery/mod.rs`: the sound snapshot with the higher number, every claimed log, the chain.
    fn read_disk(&self, disk: &DiskState) -> Option<Memory> {
        let snapshot = disk.snapshots.iter().flatten().max_by_key(|snapshot| snapshot.number)?;
        let found = self.scan(disk, snapshot);
        let mut memory = Memory {
            map: Self::map_of(snapshot),
            sequence_done: snapshot.sequence,
            snapshot_number: snapshot.number,
            ..Memory::default()
        };
        for log in 0..LOGS {
            memory.rings[log].position = snapshot.positions[log];
            memory.rings[log].claimed = snapshot.claims[log];
        }
        // `chain::order`: no gap below the newest. With several records in flight what stands behind
        // a gap was never acknowledged, and is left out.
        let newest = found.keys().next_back().copied().unwrap_or(snapshot.sequence);
        for sequence in snapshot.sequence + 1..=newest {
            match found.get(&sequence) {
                Some((place, record)) => self.replay(&mut memory, *place, record),
                None if newest - sequence < self.bounds.records_in_flight => break,
                None => return None,
            }
        }
        Some(memory)
    }

    /// `adopt_cell`: what lay over the map when the snapshot began, over the body, which is younger.
    fn map_of(snapshot: &Snapshot) -> Map {
        std::array::from_fn(|block| {
            let over = snapshot.cells[block];
            let entry = snapshot.map[block].or(over.map(|_| Entry::AT_HOME))?;
            Some(Entry { over, ..entry })
        })
    }

    /// `scan.rs` and `Recovery::follow`: records by sequence, from every log that is claimed.
    fn scan(&self, disk: &DiskState, snapshot: &Snapshot) -> BTreeMap<u8, ((u8, u8), Record)> {
        let mut found = BTreeMap::new();
        let mut known: [Option<(u8, u8)>; LOGS] =
            std::array::from_fn(|log| snapshot.claims[log].then_some((0, snapshot.positions[log])));
        let mut to_scan: Vec<usize> = (0..LOGS).filter(|log| known[*log].is_some()).collect();
        while let Some(log) = to_scan.pop() {
            let Some((_, from)) = known[log] else { continue };
            for (slot, record) in self.scan_log(disk, log, from, snapshot.sequence) {
                found.entry(record.sequence).or_insert(((log as u8, slot), record));
                for (claimed, claim) in record.claims.iter().enumerate() {
                    let Some(position) = *claim else { continue };
                    // The claim of the earlier record is where the log really begins.
                    let earlier = known[claimed].is_none_or(|(by, _)| record.sequence < by);
                    if earlier {
                        let again = known[claimed].map(|(_, at)| at) == Some(position);
                        known[claimed] = Some((record.sequence, position));
                        if !again {
                            to_scan.push(claimed);
                        }
                    }
                }
            }
        }
        found
    }

    /// `LogScan`: in a row from the claim, once round the end, and a look ahead.
    fn scan_log(&self, disk: &DiskState, log: usize, from: u8, floor: u8) -> Vec<(u8, Record)> {
        let slots = self.bounds.slots;
        let (mut found, mut cursor, mut newest) = (Vec::new(), from, floor);
        let mut wrapped = from == 0;
        let at = |slot: u8, newest: u8| {
            let record = (slot < slots).then(|| disk.slots[log][usize::from(slot)]).flatten();
            record.filter(|record| record.sequence > newest)
        };
        while found.len() <= 2 * usize::from(slots) {
            let next = at(cursor, newest).map(|record| (cursor, record)).or_else(|| {
                let round = (!wrapped && cursor != 0).then(|| at(0, newest)).flatten();
                wrapped |= round.is_some();
                round.map(|record| (0, record))
            });
            let ahead = || {
                (cursor + 1..slots).find_map(|slot| at(slot, newest).map(|record| (slot, record)))
            };
            let Some((slot, record)) = next.or_else(ahead) else { break };
            found.push((slot, record));
            newest = record.sequence;
            cursor = slot + 1;
        }
        found
    }

    /// `replay_record`.
    fn replay(&self, memory: &mut Memory, place: (u8, u8), record: &Record) {
        memory.sequence_done = record.sequence;
        for (log, claim) in record.claims.iter().enumerate() {
            // `adopt_claim`: one that was unused when it was claimed begins anew.
            if let Some(position) = claim.filter(|_| !memory.rings[log].claimed) {
                memory.rings[log].claimed = true;
                memory.rings[log].position = position;
            }
        }
        for block in 0..BLOCKS {
            if record.invalid[block] {
                memory.map[block] = None;
            }
            if let Some(datum) = record.writes[block] {
                self.write_entry(memory, block, datum, place, record.relocation);
            }
        }
        self.lay_over(memory, record, place);
        self.advance_ring(memory, place.0, place.1);
        if !record.relocation {
            memory.last_log = place.0;
        }
    }
}

/// Every outcome with every value.
fn each<T>(outcomes: &[Outcome], values: &[T], set: impl Fn(&mut Outcome, &T)) -> Vec<Outcome> {
    let mut all = Vec::with_capacity(outcomes.len() * values.len());
    for outcome in outcomes {
        for value in values {
            let mut next = outcome.clone();
            set(&mut next, value);
            all.push(next);
        }
    }
    all
}

/// What is wrong with a block that holds this although so much may be relied on.
pub(crate) fn against(found: Content, floor: Content) -> Option<Wrong> {
    if found.rest < floor.rest || found.bytes < floor.bytes {
        Some(Wrong::Older)
    } else {
        (found.bytes < found.rest).then_some(Wrong::Mixed)
    }
}

/// What a read of `block` returns: the newest in memory over what the map says, or home. Nothing where the
/// log does not hold what the map says (EIO).
pub(crate) fn read(state: &State, block: usize) -> Option<Content> {
    let memory = state.memory.as_ref()?;
    let records = memory.records.iter().map(|flying| &flying.record);
    let mut found = recorded(state, memory, block);
    for record in records.filter(|record| !record.relocation) {
        found = record.writes[block].map(|datum| datum.content).or(found);
        found = found.map(|content| content.under(record.fragments[block]));
    }
    found = memory.staged[block].map(|datum| datum.content).or(found);
    found.map(|content| content.under(memory.staged_bytes[block]))
}

fn recorded(state: &State, memory: &Memory, block: usize) -> Option<Content> {
    let Some(entry) = memory.map[block] else { return Some(state.disk.home[block].newest()) };
    let below = match entry.place {
        Place::Home => state.disk.home[block].newest(),
        Place::Zero => entry.content,
        Place::Log(log, slot) => {
            let record = state.disk.slots[usize::from(log)][usize::from(slot)];
            let holds = record.and_then(|record| record.writes[block]);
            holds.map(|datum| datum.content).filter(|content| *content == entry.content)?
        }
    };
    Some(below.under(entry.over.map(|piece| piece.version)))
}
