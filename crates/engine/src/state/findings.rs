//! What was found on the disk that people should know: how much recovery read, and what is damaged.

use crate::damage::{Damage, DamageKind};

/// Findings remembered for people.
pub(crate) const DAMAGE_NOTES_MAX: usize = 64;

/// What recovery found, for status and check.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveredState {
    damage: Vec<Damage>,
    read_bytes: u64,
    records: u64,
    logs: u32,
}

impl RecoveredState {
    /// What is wrong.
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Bytes that recovery read.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Records that it replayed.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Logs that it read.
    pub(crate) fn logs(&self) -> u32 {
        self.logs
    }

    /// Remembers a finding, once; past a bound only that there were more.
    pub(crate) fn note(&mut self, finding: Damage) {
        if self.damage.contains(&finding) {
            return;
        }
        if self.damage.len() < DAMAGE_NOTES_MAX {
            self.damage.push(finding);
        } else if self.damage.len() == DAMAGE_NOTES_MAX {
            self.damage.push(DamageKind::More.told("more findings were left out"));
        }
    }

    /// Recovery read so many bytes more.
    pub(crate) fn note_read(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }

    /// It looked into so many logs.
    pub(crate) fn note_logs(&mut self, logs: u32) {
        self.logs = logs;
    }

    /// It replayed so many records.
    pub(crate) fn note_records(&mut self, records: usize) {
        self.records = records as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_past_a_bound_are_left_out_and_that_is_said_once() {
        let mut state = RecoveredState::default();
        for number in 0..DAMAGE_NOTES_MAX + 10 {
            state.note(DamageKind::Copy.told(number.to_string()));
        }
        let (last, kept) = state.damage.split_last().unwrap();
        let told = |number: usize| DamageKind::Copy.told(number.to_string());
        assert!(kept.iter().cloned().eq((0..DAMAGE_NOTES_MAX).map(told)));
        assert_eq!(last, &DamageKind::More.told("more findings were left out"));
    }

    /// A chunk that cannot be read is found by each checkpoint, and must not crowd out what else is wrong.
    #[test]
    fn what_is_found_again_and_again_is_told_once() {
        let mut state = RecoveredState::default();
        for _ in 0..2 * DAMAGE_NOTES_MAX {
            state.note(DamageKind::Copy.told("a chunk"));
        }
        state.note(DamageKind::Copy.told("another"));
        assert_eq!(state.damage, ["a chunk", "another"].map(|text| DamageKind::Copy.told(text)));
    }
}
