//! The end of batches: the oldest ones go once nothing in them is needed, or what is needed is repeated in the next batch.
//!
//! Facts, orphans and answers are small, and repeated. Blocks and pages are not: a commit makes them durable soon, and their batch waits for
//! it.

use super::entry::FileFacts;
use super::{Appended, Survival};
use crate::core::{BLOCK, Core};
use nearhead_ext4::Ext4;
use std::mem::size_of;

/// Bytes of the log that may be dead.
const DEAD_BYTES_MAX: u64 = 8 << 20;
/// Batches that go at once, at most: repeating their facts is a part of a client's request.
const BATCHES_AT_ONCE: usize = 64;
/// Bytes of the entry with a node's facts, about.
const FACTS_BYTES: u64 = 24 + size_of::<FileFacts>() as u64;

impl Survival {
    /// Bytes of facts, which no commit lets go of.
    fn facts_bytes(&self) -> u64 {
        self.files.len() as u64 * FACTS_BYTES
    }

    /// Bytes of the log that a commit lets go of, about.
    pub(super) fn passing_bytes(&self) -> u64 {
        self.bytes.saturating_sub(2 * self.facts_bytes())
    }

    fn has_much_dead(&self) -> bool {
        let most = self.bytes.saturating_sub(2 * self.facts_bytes() + DEAD_BYTES_MAX);
        most > 2 * BLOCK * self.pages_len
    }

    /// Whether a batch has to stay until a commit.
    fn is_needed(&self, batch: &Appended) -> bool {
        let is_newest = |ino, page: u64| {
            let kept = self.pages.get(ino);
            kept.and_then(|kept| kept.get(&page)) == Some(&batch.number)
        };
        batch.record.is_some_and(|record| record > self.durable_record)
            || batch.pages.iter().any(|(ino, pages)| pages.clone().any(|page| is_newest(ino, page)))
    }
}

impl Survival {
    /// Puts into the next batch what has to stay of one that goes.
    fn repeat(&mut self, oldest: &Appended, ext4: &Ext4) {
        let number = oldest.number;
        for ino in &oldest.files {
            if self.files.get(ino).is_some_and(|(_, at)| *at == number) {
                self.files.remove(ino);
                self.touched.insert(*ino);
            }
        }
        for ino in &oldest.orphans {
            if self.orphans.get(ino) == Some(&number) {
                self.push_orphan(*ino, ext4.noted_orphan(*ino));
            }
        }
        for request in &oldest.answers {
            let found = self.answers.get(request).copied();
            if let Some((answer, _)) = found.filter(|(_, at)| *at == number) {
                self.push_answer(*request, answer);
            }
        }
    }
}

impl Core {
    /// Chooses the oldest batches that go with the next append, and repeats in the next batch what has to stay of them; their number.
    pub(super) fn let_batches_go(&mut self) -> usize {
        let (Some(survival), Some(ext4)) = (&mut self.survival, &self.ext4) else { return 0 };
        if survival.is_restoring {
            return 0;
        }
        let mut dropped = std::mem::take(&mut survival.inherited);
        let most = dropped + BATCHES_AT_ONCE;
        while dropped < most && survival.has_much_dead() {
            let Some(oldest) = survival.batches.pop_front() else { break };
            if survival.is_needed(&oldest) {
                survival.batches.push_front(oldest);
                break;
            }
            survival.bytes -= oldest.bytes;
            dropped += 1;
            survival.repeat(&oldest, ext4);
        }
        dropped
    }
}
