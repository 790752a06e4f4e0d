//! What each sector may hold after a loss: its content at the last flush, and every newer one.
//!
//! The oracle itself never crashes, so this model says what a crash of the subject may lead to.
//! A killed process may lose nothing that the device answered; a dead device may lose what only the
//! page cache had; a power cut may lose everything since the last flush. Per sector each content
//! that was there since is right, and nothing else.

use crate::content::SECTOR;
use std::collections::HashMap;
use std::sync::Arc;

/// How far a content has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// The kernel's page cache, or a device that did not answer.
    Cache,
    /// The device answered it.
    Device,
    /// A flush covers it.
    Disk,
}

type Sector = Arc<[u8]>;

/// Contents of the sectors that were written.
#[derive(Debug, Default)]
pub struct History {
    /// Oldest first; the last one is what a read returns. Sectors that are not named are zeros.
    sectors: HashMap<u64, Vec<(Sector, Reached)>>,
}

impl History {
    /// The current content of `sector`.
    pub fn current(&self, sector: u64) -> Sector {
        let versions = self.sectors.get(&sector);
        versions.and_then(|all| all.last()).map_or_else(zeros, |(bytes, _)| Arc::clone(bytes))
    }

    /// Notes that `bytes` were written at byte `at`.
    pub fn write(&mut self, at: u64, bytes: &[u8], reached: Reached) {
        let end = at + bytes.len() as u64;
        for sector in at / SECTOR..end.div_ceil(SECTOR) {
            let mut content = self.current(sector).to_vec();
            let start = sector * SECTOR;
            let (from, to) = (at.max(start), end.min(start + SECTOR));
            content[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            let versions = self.sectors.entry(sector);
            versions
                .or_insert_with(|| vec![(zeros(), Reached::Disk)])
                .push((content.into(), reached));
        }
    }

    /// Notes that everything written so far is durable.
    pub fn flush(&mut self) {
        for versions in self.sectors.values_mut() {
            if versions.len() > 1 {
                versions.drain(..versions.len() - 1);
            }
            for version in versions.iter_mut() {
                version.1 = Reached::Disk;
            }
        }
    }

    /// Whether `sector` may hold `found` if everything short of `kept` may be lost.
    pub fn allows(&self, sector: u64, found: &[u8], kept: Reached) -> bool {
        let Some(versions) = self.sectors.get(&sector) else {
            return found.iter().all(|byte| *byte == 0);
        };
        let oldest = versions.iter().rposition(|(_, reached)| *reached >= kept).unwrap_or(0);
        versions[oldest..].iter().any(|(bytes, _)| bytes[..] == *found)
    }

    /// Takes `found` as the content of `sector` from now on, as durable as `reached`.
    pub fn settle(&mut self, sector: u64, found: &[u8], reached: Reached) {
        self.sectors.insert(sector, vec![(found.into(), reached)]);
    }

    /// Puts `found` behind what `sector` had, as the content that a read returned.
    pub fn choose(&mut self, sector: u64, found: &[u8], reached: Reached) {
        if self.current(sector)[..] != *found {
            self.write(sector * SECTOR, found, reached);
        }
    }
}

fn zeros() -> Sector {
    Arc::from([0; SECTOR as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_may_take_what_no_flush_covers_and_no_more() {
        let mut history = History::default();
        let sector = |byte: u8| vec![byte; 512];
        history.write(0, &sector(1), Reached::Device);
        history.flush();
        history.write(0, &sector(2), Reached::Device);
        history.write(0, &sector(3), Reached::Cache);
        let allowed = |byte, kept| history.allows(0, &sector(byte), kept);
        assert!((1..4).all(|byte| allowed(byte, Reached::Disk)) && !allowed(0, Reached::Disk));
        assert!(allowed(2, Reached::Device) && allowed(3, Reached::Device));
        assert!(!allowed(1, Reached::Device), "the device had answered a newer one");
        assert!(allowed(3, Reached::Cache) && !allowed(2, Reached::Cache));
        assert!(history.allows(9, &sector(0), Reached::Disk), "never written");
        assert!(!history.allows(9, &sector(1), Reached::Disk));
    }

    #[test]
    fn a_part_of_a_sector_keeps_the_rest() {
        let mut history = History::default();
        history.write(510, &[7; 4], Reached::Device);
        assert_eq!(history.current(0)[508..], [0, 0, 7, 7]);
        assert_eq!(history.current(1)[..3], [7, 7, 0]);
    }
}
