//! The oracle: for every sector the set of values that a read may return, now and after a crash.
//!
//! It knows nothing of logs, records or snapshots; only what was sent, what was answered, and the
//! laws of SAFETY.md. Every write has its own number, and every sector written carries it.

use std::collections::{BTreeMap, HashMap};

/// A change to one sector that may or may not have happened yet.
#[derive(Clone, Copy, Debug)]
struct Change {
    by: u64,
    value: u64,
    /// Answered with success.
    acknowledged: bool,
    /// A trim: zeros, or what was there before, as the volume likes.
    optional: bool,
}

/// What a sector may be. Value 0 is zeros.
#[derive(Clone, Debug, Default)]
struct Sector {
    /// The newest value known to be durable.
    settled: u64,
    settled_by: u64,
    /// Changes since, oldest first.
    since: Vec<Change>,
}

impl Sector {
    /// What a read sent now may return.
    fn current(&self) -> Vec<u64> {
        let newest = self.since.iter().rposition(|change| change.acknowledged && !change.optional);
        let mut values = if newest.is_some() { Vec::new() } else { vec![self.settled] };
        values.extend(self.since[newest.unwrap_or(0)..].iter().map(|change| change.value));
        values
    }

    fn settle(&mut self, by: u64) {
        let Some(at) = self.since.iter().position(|change| change.by == by) else { return };
        // A durable trim stays one of two possibilities until something newer is durable.
        if !self.since[at].optional {
            self.settled_by = by;
            self.settled = self.since[at].value;
            self.since.drain(..=at);
        }
    }
}

/// A change a client asked for.
#[derive(Clone, Debug)]
pub struct Write {
    /// Sectors: start and count.
    pub ranges: Vec<(u64, u64)>,
    /// What each of the sectors is afterwards.
    pub value: u64,
    /// All of it or nothing after a crash.
    pub atomic: bool,
    /// It need not have an effect: a trim.
    pub optional: bool,
    /// A success means that it is durable.
    pub durable_on_reply: bool,
}

/// A read and what it may return, as of when it was sent.
#[derive(Clone, Debug)]
pub struct Read {
    /// First sector.
    pub start: u64,
    allowed: Vec<Vec<u64>>,
}

/// What was asked and answered, and what follows from it.
#[derive(Clone, Default)]
pub struct Oracle {
    sectors: BTreeMap<u64, Sector>,
    writes: BTreeMap<u64, Write>,
    acknowledged: Vec<u64>,
    flushes: HashMap<u64, Vec<u64>>,
    /// Grows with everything learnt.
    pub epoch: u64,
}

impl Oracle {
    /// A change with the number `id` is sent.
    pub fn sent(&mut self, id: u64, write: Write) {
        self.epoch += 1;
        let Write { value, optional, .. } = write;
        for (start, count) in &write.ranges {
            for sector in *start..start + count {
                let change = Change { by: id, value, acknowledged: false, optional };
                self.sectors.entry(sector).or_default().since.push(change);
            }
        }
        self.writes.insert(id, write);
    }

    /// A flush is sent: it covers what was answered before.
    pub fn flush_sent(&mut self, id: u64) {
        self.flushes.insert(id, self.acknowledged.clone());
    }

    /// What a read sent now may return.
    pub fn read_sent(&self, start: u64, count: u64) -> Read {
        let current = |sector| self.sectors.get(&sector).map_or(vec![0], Sector::current);
        Read { start, allowed: (start..start + count).map(current).collect() }
    }

    /// A write or flush was answered.
    pub fn replied(&mut self, id: u64, success: bool) {
        self.epoch += 1;
        if let Some(covered) = self.flushes.remove(&id) {
            if success {
                for write in covered {
                    self.make_durable(write);
                }
            }
            return;
        }
        // One that failed may still happen, wholly or in part, until something newer is durable.
        let Some(write) = self.writes.get(&id).filter(|_| success) else { return };
        for (start, count) in &write.ranges {
            for sector in *start..start + count {
                let Some(sector) = self.sectors.get_mut(&sector) else { continue };
                let own = sector.since.iter_mut().find(|change| change.by == id);
                if let Some(change) = own {
                    change.acknowledged = true;
                }
            }
        }
        if write.durable_on_reply {
            self.make_durable(id);
        } else {
            self.acknowledged.push(id);
        }
    }

    fn make_durable(&mut self, id: u64) {
        self.acknowledged.retain(|known| *known != id);
        let Some(write) = self.writes.remove(&id) else { return };
        for (start, count) in write.ranges {
            for sector in start..start + count {
                if let Some(sector) = self.sectors.get_mut(&sector) {
                    sector.settle(id);
                }
            }
        }
    }

    /// The volume was shut down cleanly: everything answered with success is durable.
    pub fn stopped(&mut self) {
        for id in self.acknowledged.clone() {
            self.make_durable(id);
        }
    }

    /// The volume lost what was not durable, and says so: all of it may be old or new, and no later flush covers it.
    pub fn lost(&mut self) {
        self.epoch += 1;
        self.acknowledged.clear();
        self.flushes.clear();
        for change in self.sectors.values_mut().flat_map(|state| &mut state.since) {
            change.acknowledged = false;
        }
    }

    /// A read was answered.
    pub fn check_read(&self, id: u64, read: &Read, versions: &[u64]) -> Result<(), String> {
        if versions.len() != read.allowed.len() {
            let (expected, found) = (read.allowed.len(), versions.len());
            return Err(format!("read {id}: expected {expected} sectors, found {found}"));
        }
        for ((sector, value), allowed) in (read.start..).zip(versions).zip(&read.allowed) {
            let changed_since = || {
                let state = self.sectors.get(&sector);
                state.is_some_and(|state| {
                    state.settled_by > id || state.since.iter().any(|change| change.by > id)
                })
            };
            let newer = (*value == 0 || *value > id) && changed_since();
            if !allowed.contains(value) && !newer {
                return Err(format!(
                    "read {id}, sector {sector}: found version {value}, allowed {allowed:?}; now {:?}",
                    self.sectors.get(&sector)
                ));
            }
        }
        Ok(())
    }

    /// Whether anything was ever asked to change this sector.
    pub fn knows(&self, sector: u64) -> bool {
        self.sectors.contains_key(&sector)
    }

    /// Whether these values may be there after a restart.
    pub fn check_restart(&self, read: &BTreeMap<u64, u64>) -> Result<(), String> {
        for (sector, value) in read {
            let Some(state) = self.sectors.get(sector) else {
                if *value != 0 {
                    return Err(format!("sector {sector}: found version {value}, never written"));
                }
                continue;
            };
            let known = state.since.iter().any(|change| change.value == *value);
            if !known && state.settled != *value {
                return Err(format!("sector {sector}: found version {value}, allowed {state:?}"));
            }
        }
        self.writes.iter().try_for_each(|(id, write)| self.check_whole(*id, write, read))
    }

    /// An atomic write is there as a whole or not at all.
    fn check_whole(&self, id: u64, write: &Write, read: &BTreeMap<u64, u64>) -> Result<(), String> {
        if !write.atomic {
            return Ok(());
        }
        let sectors = write.ranges.iter().flat_map(|(start, count)| *start..start + count);
        // Sectors that a later write may have taken say nothing.
        let own = |sector: &u64| {
            let newest = self.sectors.get(sector).and_then(|state| state.since.last());
            newest.is_some_and(|change| change.by == id)
        };
        let hits: Vec<bool> = sectors
            .filter(own)
            .filter_map(|sector| Some(*read.get(&sector)? == write.value))
            .collect();
        if hits.contains(&true) && hits.contains(&false) {
            return Err(format!("atomic write {id} is there only in part"));
        }
        Ok(())
    }

    /// After a restart what was read is the truth, and must stay it, if it was allowed.
    pub fn adopt(&mut self, read: &BTreeMap<u64, u64>) -> Result<(), String> {
        self.check_restart(read)?;
        self.epoch += 1;
        self.writes.clear();
        self.acknowledged.clear();
        self.flushes.clear();
        for (sector, value) in read {
            let state = Sector { settled: *value, settled_by: 0, since: Vec::new() };
            self.sectors.insert(*sector, state);
        }
        // What could not be read may be anything it could have been; a crash acknowledges nothing.
        for (_, state) in self.sectors.iter_mut().filter(|(sector, _)| !read.contains_key(sector)) {
            state.since.iter_mut().for_each(|change| change.acknowledged = false);
        }
        Ok(())
    }
}
