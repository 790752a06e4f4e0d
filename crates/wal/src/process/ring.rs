//! A ring of words between one that produces and one that consumes, who need not trust each other.
//!
//! Each side keeps its own position in its own memory and never reads it back; the other side's it
//! loads once, and believes it only if it has not gone back and is not further than there can be
//! words. So whatever the other side stores, nothing outside the ring is touched, nothing is handed
//! out twice, and nothing here loops. This file names no file descriptor and maps nothing:
//! `tests/ring_interleavings.rs` builds it over a model of threads and tries them all.
//!
//! # Memory ordering
//!
//! *Data*: words are stored relaxed, then `written` is stored with release; whoever loads `written`
//! with acquire sees the words before it. Back the same way with `read`: the producer stores over a
//! word only after it acquired the position behind the consumer's load of it. (That `read` is stored with
//! release no model here can show: loom tries no load of a store that comes later.)
//!
//! *Sleep*: who wants to sleep stores its flag, then looks once more at the position. Who moves the
//! position stores that, then looks at the flag. Between the two steps each has a sequentially
//! consistent fence, so that not both can miss the other's store: either the sleeper sees the new
//! position and stays awake, or the other sees the flag and rings. Both sides store to a flag, so it is
//! only ever exchanged: over plain stores the model of threads finds a wake-up that gets lost. To ring the
//! bell is for the caller; it must not get lost even if it comes before the sleep.

use super::atomics::{AtomicU64, Ordering, fence};

/// What one word carries.
pub(super) const WORD_BYTES: usize = 8;

/// The shared words of one direction. Flags are 0 or not.
pub(super) struct Lane<'a> {
    /// How many words were produced since the beginning; the producer stores it.
    pub(super) written: &'a AtomicU64,
    /// How many were consumed; the consumer stores it.
    pub(super) read: &'a AtomicU64,
    /// That the consumer waits for words.
    pub(super) consumer_sleeps: &'a AtomicU64,
    /// That the producer waits for room.
    pub(super) producer_sleeps: &'a AtomicU64,
    /// A power of two of them.
    pub(super) data: &'a [AtomicU64],
}

impl Lane<'_> {
    fn capacity(&self) -> u64 {
        self.data.len() as u64
    }

    /// The slots of `count` words from `position` on: up to the end of the ring, then from its beginning.
    /// At most the ring long. Two slices, so that a copy looks at bounds twice and not for each word.
    fn slots(&self, position: u64, count: usize) -> [&[AtomicU64]; 2] {
        // The mask keeps it inside; an empty ring has none.
        let begin = (position & self.capacity().wrapping_sub(1)) as usize;
        let (behind, from) = self.data.split_at(begin.min(self.data.len()));
        let first = &from[..count.min(from.len())];
        [first, &behind[..(count - first.len()).min(behind.len())]]
    }
}

fn store(slots: &[AtomicU64], words: &[[u8; WORD_BYTES]]) {
    for (slot, word) in slots.iter().zip(words) {
        slot.store(u64::from_le_bytes(*word), Ordering::Relaxed);
    }
}

fn load(slots: &[AtomicU64], words: &mut [[u8; WORD_BYTES]]) {
    for (slot, word) in slots.iter().zip(words) {
        *word = slot.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// A position that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nonsense {
    /// Whose.
    pub(super) what: &'static str,
    /// It may be this to `most`.
    pub(super) least: u64,
    /// The largest it may be.
    pub(super) most: u64,
    /// And was this.
    pub(super) found: u64,
}

/// Loads the other side's position and checks it: `least` to `most`, which may wrap around.
fn position_of(
    word: &AtomicU64,
    what: &'static str,
    least: u64,
    most: u64,
) -> Result<u64, Nonsense> {
    let found = word.load(Ordering::Acquire);
    if found.wrapping_sub(least) > most.wrapping_sub(least) {
        return Err(Nonsense { what, least, most, found });
    }
    Ok(found)
}

/// Takes the other side's flag down, if it was up: then its bell has to be rung, by us alone.
fn take_flag(flag: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0
}

fn put_flag(flag: &AtomicU64) {
    flag.swap(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The side that fills the ring.
#[derive(Default)]
pub(super) struct Producer {
    /// Where the next word goes.
    position: u64,
    /// What the consumer has been told of.
    published: u64,
    /// What it has consumed, when that was looked at last.
    consumed: u64,
}

impl Producer {
    /// How many words have room now.
    pub(super) fn room(&mut self, lane: &Lane<'_>) -> Result<usize, Nonsense> {
        self.consumed = position_of(lane.read, "read", self.consumed, self.published)?;
        Ok(self.room_known(lane))
    }

    fn room_known(&self, lane: &Lane<'_>) -> usize {
        (lane.capacity() - (self.position - self.consumed)) as usize
    }

    /// Puts in as many of these bytes as the room last looked at has; the last word is filled up with
    /// zeros. Returns how many: all, or whole words of them.
    pub(super) fn put(&mut self, lane: &Lane<'_>, bytes: &[u8]) -> usize {
        let fitting = bytes.len().min(self.room_known(lane) * WORD_BYTES);
        let (words, rest) = bytes[..fitting].as_chunks::<WORD_BYTES>();
        let [first, second] = lane.slots(self.position, words.len());
        let (words_first, words_second) = words.split_at(first.len());
        store(first, words_first);
        store(second, words_second);
        self.position += words.len() as u64;
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            let [slots, _] = lane.slots(self.position, 1);
            store(slots, &[word]);
            self.position += 1;
        }
        fitting
    }

    /// Tells the consumer of everything put in. True if its bell has to be rung.
    #[must_use]
    pub(super) fn publish(&mut self, lane: &Lane<'_>) -> bool {
        self.published = self.position;
        lane.written.store(self.published, Ordering::Release);
        take_flag(lane.consumer_sleeps)
    }

    /// Says that it sleeps until there is room for `words`. False if there is: then it must not.
    pub(super) fn may_sleep(&mut self, lane: &Lane<'_>, words: usize) -> Result<bool, Nonsense> {
        put_flag(lane.producer_sleeps);
        Ok(self.room(lane)? < words)
    }

    /// Says that it is awake.
    pub(super) fn wake(lane: &Lane<'_>) {
        lane.producer_sleeps.swap(0, Ordering::Relaxed);
    }
}

/// The side that empties the ring.
#[derive(Default)]
pub(super) struct Consumer {
    /// Which word is next.
    position: u64,
    /// What the producer had told of, when that was looked at last.
    told: u64,
}

impl Consumer {
    /// How many words there are.
    pub(super) fn available(&mut self, lane: &Lane<'_>) -> Result<usize, Nonsense> {
        let most = self.position.wrapping_add(lane.capacity());
        self.told = position_of(lane.written, "written", self.told, most)?;
        Ok(self.available_known())
    }

    fn available_known(&self) -> usize {
        (self.told - self.position) as usize
    }

    /// Copies words out to `memory`, as many as were there when it was last looked; of the last one
    /// only what fits. Returns how many bytes.
    pub(super) fn get(&mut self, lane: &Lane<'_>, memory: &mut [u8]) -> usize {
        let there = memory.len().min(self.available_known() * WORD_BYTES);
        let (words, rest) = memory[..there].as_chunks_mut::<WORD_BYTES>();
        let [first, second] = lane.slots(self.position, words.len());
        let (words_first, words_second) = words.split_at_mut(first.len());
        load(first, words_first);
        load(second, words_second);
        self.position += words.len() as u64;
        if !rest.is_empty() {
            let mut word = [[0; WORD_BYTES]];
            let [slots, _] = lane.slots(self.position, 1);
            load(slots, &mut word);
            rest.copy_from_slice(&word[0][..rest.len()]);
            self.position += 1;
        }
        there
    }

    /// Gives the room of what was copied out back. True if the producer's bell has to be rung.
    #[must_use]
    pub(super) fn free(&mut self, lane: &Lane<'_>) -> bool {
        lane.read.store(self.position, Ordering::Release);
        take_flag(lane.producer_sleeps)
    }

    /// Says that it sleeps until there are `words`. False if there are: then it must not.
    pub(super) fn may_sleep(&mut self, lane: &Lane<'_>, words: usize) -> Result<bool, Nonsense> {
        put_flag(lane.consumer_sleeps);
        Ok(self.available(lane)? < words)
    }

    /// Says that it is awake.
    pub(super) fn wake(lane: &Lane<'_>) {
        lane.consumer_sleeps.swap(0, Ordering::Relaxed);
    }
}
