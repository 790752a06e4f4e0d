//! What the client asks for by chance, and what it then knows of the sectors.

use super::{Asked, Client, SECTOR, Sector};
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Payload};
use nearhead_service::{Changed, Operation, Request, RequestId, Service};
use std::ops::Range;

/// Where the blocks lie that it uses, in blocks: so that large writes end within some.
const SPREAD: u64 = 3;

impl Client<'_> {
    /// The block at this place of those that it uses.
    fn block(&mut self) -> u64 {
        self.random.below(self.life.blocks) * SPREAD % (self.life.blocks + 7)
    }

    pub(super) fn is_busy(&self, sectors: &Range<u64>) -> bool {
        let blocks = |range: &Range<u64>| range.start / 8..range.end.div_ceil(8);
        let own = blocks(sectors);
        self.asked
            .values()
            .filter(|asked| !asked.is_read() || !self.life.reads_late)
            .map(|asked| blocks(&asked.sectors))
            .any(|other| other.start < own.end && own.start < other.end)
    }

    pub(super) fn ask_something(&mut self) {
        let kind = if self.random.below(20) < self.life.fragments_of_20 {
            0
        } else {
            11 + self.random.below(9)
        };
        let fua = !self.life.volatile || self.random.below(4) == 0;
        let (block, unit) = (self.block(), u64::from(self.options.sector_bytes) / 512);
        let units = 8 / unit;
        let small = |random: &mut SplitMix| {
            let first = random.below(units);
            let len = 1 + random.below(units - first);
            block * 8 + first * unit..block * 8 + (first + len) * unit
        };
        let large = self.life.large;
        match kind {
            0..=10 => self.ask_fragments(block),
            11..=13 => {
                let sectors = small(&mut self.random);
                self.ask_write(sectors, |offset, data| Operation::Write { offset, data, fua });
            }
            14 => {
                let sectors = small(&mut self.random);
                self.ask_zeros(sectors, |offset, len| Operation::WriteZeroes {
                    offset,
                    len,
                    fua,
                    fast_only: false,
                    may_unmap: false,
                });
            }
            15 if large && !self.life.reads_late => {
                let sectors = small(&mut self.random);
                self.ask_trim(sectors);
            }
            16 | 17 if large => {
                let len = (8 + self.random.below(40)) * 8;
                let first = self.random.below(units) * unit;
                let len = len + self.random.below(units) * unit;
                let sectors = block * 8 + first..block * 8 + first + len;
                self.ask_write(sectors, |offset, data| Operation::WriteInPlace {
                    offset,
                    data,
                    fua,
                });
            }
            18 if large => {
                let sectors = small(&mut self.random);
                self.ask_write(sectors, |offset, data| Operation::WriteInPlace {
                    offset,
                    data,
                    fua,
                });
            }
            _ => {
                self.check_zeros(block);
                let sectors = block * 8..(block + 1 + self.random.below(6)) * 8;
                self.ask_read(sectors);
            }
        }
    }

    pub(super) fn send(&mut self, asked: Asked, operation: Operation) {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, asked);
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
    }

    fn content(&mut self, sectors: &Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        match self.random.below(4) {
            // What a first append leaves.
            0 => {
                let len = 1 + self.random.below(700) as usize;
                let len = len.min(bytes.len());
                self.random.fill(&mut bytes[..len]);
            }
            _ => self.random.fill(&mut bytes),
        }
        bytes
    }

    pub(super) fn becomes(&mut self, sectors: &Range<u64>, bytes: &[u8]) {
        for (number, new) in sectors.clone().zip(bytes.chunks(SECTOR)) {
            let sector = self.sectors.entry(number).or_insert_with(Sector::blank);
            sector.becomes = Some(new.to_vec());
        }
        for asked in self.asked.values_mut() {
            let Some(versions) = &mut asked.versions else { continue };
            let read = asked.sectors.clone();
            for (number, new) in sectors.clone().zip(bytes.chunks(SECTOR)) {
                if read.contains(&number) {
                    versions[(number - read.start) as usize].push(new.to_vec());
                }
            }
        }
    }

    pub(super) fn ask_write(
        &mut self,
        sectors: Range<u64>,
        of: impl Fn(u64, Payload) -> Operation,
    ) {
        if self.is_busy(&sectors) {
            return;
        }
        let bytes = self.content(&sectors);
        self.becomes(&sectors, &bytes);
        let operation = of(sectors.start * 512, payload(&bytes));
        self.send(Asked::write(sectors), operation);
    }

    pub(super) fn ask_zeros(&mut self, sectors: Range<u64>, of: impl Fn(u64, u64) -> Operation) {
        if self.is_busy(&sectors) {
            return;
        }
        let len = (sectors.end - sectors.start) * 512;
        self.becomes(&sectors, &vec![0; len as usize]);
        let operation = of(sectors.start * 512, len);
        self.send(Asked::write(sectors), operation);
    }

    fn ask_trim(&mut self, sectors: Range<u64>) {
        if self.is_busy(&sectors) {
            return;
        }
        let (offset, len) = (sectors.start * 512, (sectors.end - sectors.start) * 512);
        // Anything, from now on.
        for number in sectors.clone() {
            let sector = self.sectors.entry(number).or_insert_with(Sector::blank);
            sector.becomes = Some(sector.is.clone());
            sector.is_any = true;
        }
        let operation = Operation::Trim { offset, len, fua: true };
        self.send(Asked { is_trim: true, ..Asked::write(sectors) }, operation);
    }

    pub(super) fn ask_read(&mut self, sectors: Range<u64>) {
        if self.is_busy(&sectors) && !self.life.reads_late {
            return;
        }
        let (offset, len) = (sectors.start * 512, (sectors.end - sectors.start) as u32 * 512);
        let now = sectors.clone().map(|number| match self.sectors.get(&number) {
            Some(sector) => sector.versions(),
            None => Sector::blank().versions(),
        });
        let asked = Asked { versions: Some(now.collect()), ..Asked::write(sectors) };
        self.send(asked, Operation::Read { offset, len });
    }

    /// Some bytes of one to three blocks, as one atomic write.
    pub(super) fn ask_fragments(&mut self, block: u64) {
        let count = 1 + self.random.below(3);
        let sectors = block * 8..(block + count) * 8;
        let is_known = |number: u64| self.sectors.get(&number).is_none_or(|sector| !sector.is_any);
        if self.is_busy(&sectors) || !sectors.clone().all(is_known) {
            return;
        }
        let mut bytes = Vec::new();
        for number in sectors.clone() {
            bytes.extend_from_slice(&self.sectors.entry(number).or_insert_with(Sector::blank).is);
        }
        let (start, mut changed) = (sectors.start * 512, Vec::new());
        let mut at = self.random.below(1500) as usize;
        while at < bytes.len() {
            let longest = [8, 130, 700][self.random.below(3) as usize];
            let end = (at + 1 + self.random.below(longest) as usize).min(bytes.len());
            self.random.fill(&mut bytes[at..end]);
            changed.push(start + at as u64..start + end as u64);
            at = end + 1 + self.random.below(4000) as usize;
        }
        if changed.is_empty() {
            return;
        }
        self.becomes(&sectors, &bytes);
        let extents = vec![(start, payload(&bytes))];
        let operation = Operation::WriteAtomic { extents, changed: Changed::Only(changed) };
        self.send(Asked::write(sectors), operation);
    }
}

pub(super) fn payload(bytes: &[u8]) -> Payload {
    Payload::Bytes(BufferMut::copy_of(bytes).freeze())
}
