//! Where a sector may be unreadable: every kind of place that an opening reads, and what may come of it.

use super::{Allowed, BLOCKS, Killed};
use crate::support::options::DEVICE_BYTES;
use nearhead_format::blank_map::{BLANK_MAP_OFFSET, BLANK_UNITS_OFFSET};
use nearhead_format::data_device::DATA_DEVICE_COPIES;
use nearhead_format::generation::GENERATION_OFFSETS;
use nearhead_format::map_device::{JOURNAL_BLOCK_BYTES, MAP_DEVICE_COPIES};
use nearhead_format::record::{RecordHeader, peek};
use nearhead_format::{Layout, MapDevice};
use nearhead_models::{MemoryStore, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Every record that can be found, by its sequence.
pub(super) fn records(image: &MemoryStore, layout: &Layout) -> BTreeMap<u64, (u64, RecordHeader)> {
    let places = (0..layout.log_count())
        .flat_map(|log| (0..layout.log_blocks()).map(move |position| (log, position)));
    let found = places.filter_map(|(log, position)| {
        let offset = layout.log_block_offset(log, position)?;
        let mut bytes = vec![0; 64 << 10];
        image.read(offset, &mut bytes[..512]).unwrap();
        let len = peek(&bytes[..512]).ok()?.header_bytes as usize;
        image.read(offset, &mut bytes[..len]).unwrap();
        let header = RecordHeader::decode(&bytes[..len]).ok()?;
        Some((header.sequence, (offset, header)))
    });
    found.collect()
}

/// The places of a kind: their structure, and the outcomes that the law allows.
pub(super) type Case = (String, Vec<u64>, Allowed, BTreeSet<u64>);

impl Killed {
    fn payload_of(&self, sequence: u64) -> u64 {
        let (offset, header) = &self.records[&sequence];
        offset + header.encoded_bytes(self.layout.log_block_bytes as usize) as u64
    }

    fn end_of(&self, sequence: u64) -> u64 {
        let (offset, header) = &self.records[&sequence];
        offset + header.record_bytes(self.layout.log_block_bytes as usize) as u64
    }

    pub(super) fn cases(&self) -> Vec<Case> {
        let mut cases = match &self.map {
            Some(map) => self.in_journal(map),
            None => [self.in_records(), self.behind_records()].concat(),
        };
        cases.extend(self.pairs());
        cases.extend(self.in_slots());
        cases.extend(self.in_labels());
        cases
    }

    /// Where recovery finds the header of a record.
    fn header_of(&self, sequence: u64) -> u64 {
        let Some(map) = &self.map else { return self.records[&sequence].0 };
        let entries = 0..map.journal_bytes / JOURNAL_BLOCK_BYTES;
        let mut places =
            entries.map(|at| DEVICE_BYTES + map.journal_offset + at * JOURNAL_BLOCK_BYTES);
        let is_it = |place: &u64| {
            let mut bytes = [0; 512];
            self.image.read(*place, &mut bytes).unwrap();
            peek(&bytes).is_ok_and(|peeked| peeked.sequence == sequence)
        };
        places.find(is_it).unwrap()
    }

    /// Whether one of `places` is the start of the journal, where the first record after an orderly stop goes.
    pub(super) fn begins_a_journal(&self, places: &[u64]) -> bool {
        self.map.is_some_and(|map| places.contains(&(DEVICE_BYTES + map.journal_offset)))
    }

    /// Records that wrote something.
    fn written(&self) -> Vec<u64> {
        let writes =
            |header: &RecordHeader| !header.writes.is_empty() || !header.fragments.is_empty();
        let records = self.records.iter().filter(|(_, (_, header))| writes(header));
        records.map(|(sequence, _)| *sequence).collect()
    }

    /// The header of a record; nothing shows that the newest one is there.
    fn in_header(&self, sequence: u64) -> Case {
        let is_newest = self.records.keys().last() == Some(&sequence);
        let allowed = if is_newest { Allowed::Consent } else { Allowed::Errors };
        let at = self.header_of(sequence);
        case(&format!("header of {sequence}"), &[at], allowed, &[sequence])
    }

    fn in_records(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for sequence in self.written() {
            cases.push(self.in_header(sequence));
            let has_payload = !self.records[&sequence].1.writes.is_empty();
            let payload = self.payload_of(sequence);
            for at in [payload, payload + 4095].into_iter().filter(|_| has_payload) {
                let name = format!("payload of {sequence}");
                cases.push(case(&name, &[at], Allowed::Errors, &[sequence]));
            }
        }
        cases
    }

    /// Two headers in a row, which only consent gives up; two apart; any and the newest, which nothing shows to be there.
    fn pairs(&self) -> Vec<Case> {
        let sequences = self.written();
        let newest = *self.records.keys().last().unwrap();
        let mut cases = Vec::new();
        let mut add = |pair: &[u64], allowed| {
            let headers: Vec<u64> = pair.iter().map(|sequence| self.header_of(*sequence)).collect();
            cases.push(case(&format!("headers of {pair:?}"), &headers, allowed, pair));
        };
        for pair in sequences.windows(2).step_by(5).filter(|pair| pair[0] + 1 == pair[1]) {
            add(pair, Allowed::Consent);
        }
        for pair in sequences.windows(4).step_by(3).filter(|pair| pair[3] < newest) {
            add(&[pair[0], pair[2]], Allowed::Errors);
            add(&[pair[0], pair[3]], Allowed::Errors);
        }
        for sequence in sequences.iter().filter(|sequence| **sequence + 1 < newest).step_by(3) {
            add(&[*sequence, newest], Allowed::Consent);
        }
        cases
    }

    fn behind_records(&self) -> Vec<Case> {
        let newest = *self.records.keys().last().unwrap();
        let log = self.records[&newest].1.log_index;
        let start = self.layout.log_offset(log).unwrap();
        let end =
            start + u64::from(self.layout.log_blocks()) * u64::from(self.layout.log_block_bytes);
        let far = if self.layout.is_chain() { 300 << 10 } else { 5 * 4096 };
        // In a chain a gap may be left that reaches there.
        let at_end =
            if self.layout.is_chain() { Allowed::PerhapsConsent } else { Allowed::Nothing };
        let behind = self.end_of(newest);
        vec![
            case("behind the newest", &[behind], Allowed::PerhapsConsent, &[]),
            case("never written", &[behind + far], Allowed::Nothing, &[]),
            case("the end of the log", &[end - 512], at_end, &[]),
        ]
    }

    /// The journal of a map device, and its header.
    fn in_journal(&self, map: &MapDevice) -> Vec<Case> {
        let mut cases = Vec::new();
        let newest = *self.records.keys().last().unwrap();
        for sequence in self.written() {
            cases.push(self.in_header(sequence));
            let padding = self.header_of(sequence) + JOURNAL_BLOCK_BYTES - 512;
            cases.push(case(&format!("padding of {sequence}"), &[padding], Allowed::Nothing, &[]));
            let in_log = self.records[&sequence].0;
            cases.push(case(
                &format!("log header of {sequence}"),
                &[in_log],
                Allowed::Nothing,
                &[],
            ));
        }
        let payload = [self.payload_of(newest)];
        cases.push(case("payload of the newest", &payload, Allowed::Errors, &[newest]));
        let behind = self.header_of(newest) + JOURNAL_BLOCK_BYTES;
        cases.push(case("behind the newest", &[behind], Allowed::PerhapsConsent, &[]));
        let end = DEVICE_BYTES + map.journal_offset + map.journal_bytes;
        for at in [behind + 5 * JOURNAL_BLOCK_BYTES, end - 512] {
            cases.push(case("never written", &[at], Allowed::Nothing, &[]));
        }
        for at in MAP_DEVICE_COPIES {
            let at = DEVICE_BYTES + at as u64;
            cases.push(case("copy of the map device's header", &[at], Allowed::Nothing, &[]));
        }
        cases
    }

    fn in_slots(&self) -> Vec<Case> {
        let (start, slots) = match &self.map {
            Some(map) => (DEVICE_BYTES, map.slots()),
            None => (0, self.layout.slots()),
        };
        let header = |slot: usize| start + slots.offsets[slot];
        let copy = |slot: usize| start + slots.copy_offset(slot);
        let newest = self.newest_slot;
        let mut cases = Vec::new();
        let mut add = |name: &str, at: &[u64], allowed| cases.push(case(name, at, allowed, &[]));
        for slot in 0..2 {
            let name = if slot == newest { "newest" } else { "older" };
            add(&format!("{name} slot's header"), &[header(slot)], Allowed::Nothing);
            add(&format!("{name} slot's copy"), &[copy(slot)], Allowed::Nothing);
            // The journal has no records any more that only the older snapshot needs, but the logs do.
            let is_needed = slot == newest && self.map.is_some();
            let body = if is_needed { Allowed::Consent } else { Allowed::Nothing };
            for at in [4096, 4608] {
                add(&format!("{name} slot's body"), &[header(slot) + at], body);
            }
            let both = [header(slot), copy(slot)];
            add(&format!("{name} slot's header and copy"), &both, Allowed::Consent);
        }
        let other = 1 - newest;
        // All records since the older snapshot are in the logs.
        let headers = [header(newest), header(other)];
        add("headers of both slots", &headers, Allowed::Nothing);
        let bodies = [header(newest) + 4096, header(other), copy(other)];
        add("newest body, header and copy of the other", &bodies, Allowed::Refusal);
        let all = [header(newest), copy(newest), header(other), copy(other)];
        add("headers and copies of both slots", &all, Allowed::Refusal);
        cases
    }

    /// Other structures that an opening reads: superblocks, the blank map, and the labels of devices.
    fn in_labels(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut add = |name: &str, at: u64| cases.push(case(name, &[at], Allowed::Nothing, &[]));
        for (number, at) in self.layout.superblock_offsets().into_iter().enumerate() {
            add(&format!("superblock copy {number}"), at);
        }
        add("header of the blank map", BLANK_MAP_OFFSET);
        for unit in [0, 1, BLOCKS] {
            add("unit of the blank map", BLANK_UNITS_OFFSET + unit * 512);
        }
        let sizes = self.options.device_properties().into_iter().map(|disk| disk.capacity_bytes);
        let mut starts = sizes.scan(0, |next, bytes| {
            *next += bytes;
            Some(*next - bytes)
        });
        for at in starts.next().into_iter().flat_map(|_| GENERATION_OFFSETS) {
            add("generation of the volume's own device", at);
        }
        for start in starts {
            for at in GENERATION_OFFSETS.into_iter().chain(DATA_DEVICE_COPIES) {
                add("label of another device", start + at);
            }
        }
        cases
    }
}

fn case(name: &str, at: &[u64], allowed: Allowed, sequences: &[u64]) -> Case {
    (name.to_owned(), at.to_vec(), allowed, sequences.iter().copied().collect())
}
