//! What a merge finds that nobody needs any more: counted for each log, and let go only once the snapshot without it is durable.

use crate::state::logs::Logs;
use nearhead_format::{Entry, Place};
use std::collections::BTreeMap;

/// Slices of a log in which sectors are counted.
pub(in crate::state) const SLICES: usize = crate::state::logs::SLICES as usize;

/// Sectors of each slice of logs. As large as what is counted of the logs anyway.
#[derive(Debug, Default)]
pub(super) struct Drops {
    of_logs: BTreeMap<u32, Box<[u32; SLICES]>>,
    /// Each of them, for tests that count anew.
    kept: Option<Vec<Entry>>,
}

impl Drops {
    /// None yet.
    pub(super) fn new(keeps: bool) -> Self {
        Self { kept: keeps.then(Vec::new), ..Self::default() }
    }

    pub(super) fn kept(&self) -> &[Entry] {
        self.kept.as_deref().unwrap_or_default()
    }

    /// So many sectors of the chunk of an entry are hidden by what is newer.
    pub(super) fn add(&mut self, entry: &Entry, sectors: u64, logs: &Logs) {
        let Place::Log { chunk_sector, .. } = entry.place else { return };
        if sectors == 0 {
            return;
        }
        let (log, slice) = logs.slice_of(chunk_sector);
        let counts = self.of_logs.entry(log).or_insert_with(|| Box::new([0; SLICES]));
        counts[slice] += sectors as u32;
        if let Some(kept) = &mut self.kept {
            kept.push(Entry { len_sectors: sectors as u8, ..*entry });
        }
    }

    /// These as well.
    pub(super) fn append(&mut self, other: Self) {
        for (log, more) in other.of_logs {
            let counts = self.of_logs.entry(log).or_insert_with(|| Box::new([0; SLICES]));
            for (count, more) in counts.iter_mut().zip(&*more) {
                *count += more;
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.extend(other.kept.into_iter().flatten());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_logs.is_empty()
    }

    /// The snapshot counts: they do not.
    pub(super) fn apply(self, logs: &mut Logs) {
        for (log, counts) in self.of_logs {
            logs.drop_slices(log, &counts);
        }
    }
}
