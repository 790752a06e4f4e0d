//! The segments of a log: which are in use, which comes next, which are free again.
//!
//! The next segment is made ready before it is needed, so that no append waits for zeros: its
//! extents are written (an append to extents that were only allocated makes the file system
//! journal, which costs more than the append), its header is durable, its name is durable, and the
//! control block counts it, in this order. A free segment is recycled rather than a new one zeroed;
//! its sequence is new, so nothing it holds counts. Segments in use, ready and free together never
//! exceed `segments_max`.

use super::control_file::ControlFile;
use super::{LogOptions, Lsn};
use crate::codec::control::Control;
use crate::codec::record::Seed;
use crate::codec::segment::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage, StoredFile};
use nearhead_disk::BufferMut;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a segment is called while it is made.
const SPARE_NAME: &str = "spare.tmp";
/// Zeros are written in pieces of this size, one at a time: an append never waits behind more.
const ZERO_PIECE_BYTES: usize = 128 << 10;
/// Free segments kept for the next ones; more are removed.
const FREE_MAX: usize = 2;

/// What segment `sequence` is called.
pub(crate) fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}.wal")
}

/// The sequence of a segment with this name.
pub(crate) fn sequence_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().filter(|sequence| segment_name(*sequence) == name)
}

/// A segment to go on in.
#[derive(Clone)]
pub(crate) struct Ready {
    pub(crate) sequence: u64,
    pub(crate) seed: Seed,
    pub(crate) file: Arc<dyn StoredFile>,
}

/// A segment in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) sequence: u64,
    pub(crate) first_lsn: Lsn,
}

struct State {
    live: VecDeque<Live>,
    /// Made ready, in the order of their sequences; more than one only after a crash.
    ready: VecDeque<Ready>,
    free: VecDeque<u64>,
    last_sequence: u64,
    first_lsn: Lsn,
}

/// All segments of an open log.
pub(crate) struct Pool {
    storage: Arc<dyn Storage>,
    options: LogOptions,
    control: Mutex<ControlFile>,
    /// Held while a segment is made: one at a time, so that sequences have no gaps.
    making: Mutex<()>,
    state: Mutex<State>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these mutexes guard is changed in one step each: sound also after a panic elsewhere.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// What recovery found.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        control: ControlFile,
        live: VecDeque<Live>,
        ready: VecDeque<Ready>,
        free: VecDeque<u64>,
    ) -> Self {
        let Control { last_sequence, first_lsn, .. } = *control.current();
        let state = State { live, ready, free, last_sequence, first_lsn };
        Self {
            storage,
            options,
            control: Mutex::new(control),
            making: Mutex::new(()),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn seed_of(&self, sequence: u64) -> Seed {
        Seed::of(&locked(&self.control).current().log_id, sequence)
    }

    /// Segments in use, oldest first.
    pub(crate) fn live(&self) -> Vec<Live> {
        locked(&self.state).live.iter().copied().collect()
    }

    /// The oldest record that may be read.
    pub(crate) fn first_lsn(&self) -> Lsn {
        locked(&self.state).first_lsn
    }

    /// Files there are now: in use, ready, free.
    pub(crate) fn segments(&self) -> usize {
        let state = locked(&self.state);
        state.live.len() + state.free.len() + state.ready.len()
    }

    /// Whether a segment is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !locked(&self.state).ready.is_empty()
    }

    /// The ready segment, if there is one.
    pub(crate) fn take_ready(&self) -> Option<Ready> {
        locked(&self.state).ready.pop_front()
    }

    /// A segment is in use from now on.
    pub(crate) fn enter(&self, sequence: u64, first_lsn: Lsn) {
        locked(&self.state).live.push_back(Live { sequence, first_lsn });
    }

    /// Makes a segment ready unless one is. Blocks as long as that takes.
    ///
    /// # Errors
    /// [`WalErrorKind::Full`], [`WalErrorKind::NoSpace`], [`WalErrorKind::Io`]: nothing has changed,
    /// and it may be tried again.
    pub(crate) fn prepare(&self, in_use: usize) -> Result<()> {
        let _one_at_a_time = locked(&self.making);
        let (sequence, recycled) = {
            let mut state = locked(&self.state);
            if !state.ready.is_empty() {
                return Ok(());
            }
            let files = state.live.len() + state.free.len() + in_use;
            if state.free.is_empty() && files >= self.options.segments_max {
                return Err(self.full());
            }
            let sequence = state.last_sequence + 1;
            (sequence, take_free(&mut state.free, sequence))
        };
        let mut file = recycled;
        let outcome = self.make(sequence, &mut file);
        let mut state = locked(&self.state);
        match outcome {
            Ok(ready) => {
                state.last_sequence = sequence;
                state.ready.push_back(ready);
                Ok(())
            }
            Err(error) => {
                // The file is free under whichever name it has now. First in line, so that the next
                // attempt completes this one.
                if let Some(file) = file {
                    state.free.push_front(file);
                }
                Err(error)
            }
        }
    }

    fn full(&self) -> WalError {
        let detail = format!(
            "{}: expected room for another segment, found all {} of segments_max in use; truncate the prefix that is no longer needed, or raise segments_max",
            self.storage.describe(),
            self.options.segments_max
        );
        WalError::new(WalErrorKind::Full, detail)
    }

    /// Makes segment `sequence` of the free file `recycled`, or of a new one. After an error
    /// `recycled` names the free file that is left of the attempt.
    fn make(&self, sequence: u64, recycled: &mut Option<u64>) -> Result<Ready> {
        let name = segment_name(sequence);
        let log_id = locked(&self.control).current().log_id;
        let header = SegmentHeader { log_id, sequence, geometry: self.options.geometry };
        let from = match *recycled {
            Some(old) => self.rewrite_header(old, sequence, &header)?,
            None => self.zeroed_file(&header)?,
        };
        if from != name {
            self.storage.rename(&from, &name)?;
        }
        *recycled = Some(sequence);
        self.storage.sync_names()?;
        locked(&self.control).store(|control| control.last_sequence = sequence)?;
        let file = self.storage.open(&name, Access::Write)?;
        Ok(Ready { sequence, seed: Seed::of(&log_id, sequence), file })
    }

    /// Returns the name under which it lies. An attempt that was cut may have renamed it already.
    fn rewrite_header(&self, old: u64, sequence: u64, header: &SegmentHeader) -> Result<String> {
        let names = [segment_name(old), segment_name(sequence)];
        let known = self.storage.names()?;
        let name = names.into_iter().find(|name| known.contains(name));
        let Some(name) = name else { return self.zeroed_file(header) };
        let file = self.storage.open(&name, Access::Write)?;
        if file.len_bytes()? != u64::from(header.geometry.segment_bytes) {
            // Somebody else cut it off or wrote behind it: not a segment any more, and nobody's.
            drop(file);
            self.storage.remove(&name)?;
            return self.zeroed_file(header);
        }
        let mut block = BufferMut::zeroed(SEGMENT_HEADER_BYTES);
        header.encode(&mut block);
        file.write_durable(0, &block)?;
        Ok(name)
    }

    fn zeroed_file(&self, header: &SegmentHeader) -> Result<String> {
        if self.storage.names()?.iter().any(|name| name == SPARE_NAME) {
            self.storage.remove(SPARE_NAME)?;
        }
        let file = self.storage.open(SPARE_NAME, Access::Create)?;
        let outcome = fill(&*file, header);
        if outcome.is_err() {
            drop(file);
            // Frees the space; if that fails too, the next attempt does it.
            let _ = self.storage.remove(SPARE_NAME);
        }
        outcome.map(|()| SPARE_NAME.to_owned())
    }

    /// Gives up all records before `lsn`: they are no longer read, and segments that hold nothing
    /// else are free. The newest segment stays.
    pub(crate) fn release_before(&self, lsn: Lsn) -> Result<()> {
        let mut control = locked(&self.control);
        let (gone, first_sequence) = {
            let state = locked(&self.state);
            if lsn <= state.first_lsn {
                return Ok(());
            }
            let next_starts = state.live.iter().skip(1);
            let gone = next_starts.take_while(|next| next.first_lsn <= lsn).count();
            let first = state.live.get(gone).map(|live| live.sequence);
            (gone, first.unwrap_or(control.current().first_sequence))
        };
        control.store(|control| {
            control.first_lsn = lsn;
            control.first_sequence = first_sequence;
        })?;
        let mut surplus = Vec::new();
        {
            let mut state = locked(&self.state);
            state.first_lsn = lsn;
            let freed: Vec<Live> = state.live.drain(..gone).collect();
            state.free.extend(freed.iter().map(|live| live.sequence));
            while state.free.len() > FREE_MAX {
                surplus.extend(state.free.pop_front());
            }
        }
        drop(control);
        for sequence in surplus {
            match self.storage.remove(&segment_name(sequence)) {
                // An attempt that failed half way may have replaced it.
                Err(error) if error.kind == WalErrorKind::NotFound => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Says durably that the log ends in order.
    pub(crate) fn mark_clean(&self, end: crate::codec::control::End) -> Result<()> {
        locked(&self.control).store(|control| control.clean_end = Some(end))
    }
}

/// Takes the free file that becomes segment `sequence`.
///
/// A file that already has that name comes first: an attempt that was cut gave it the name, and the
/// control block does not count it yet. Another file renamed over it would leave the name among the
/// free ones, and the next attempt would recycle a segment in use.
fn take_free(free: &mut VecDeque<u64>, sequence: u64) -> Option<u64> {
    let named = free.iter().position(|file| *file == sequence);
    free.remove(named.unwrap_or(0))
}

fn fill(file: &dyn StoredFile, header: &SegmentHeader) -> Result<()> {
    let segment_bytes = u64::from(header.geometry.segment_bytes);
    let zeros = BufferMut::zeroed(ZERO_PIECE_BYTES);
    let mut offset = SEGMENT_HEADER_BYTES as u64;
    while offset < segment_bytes {
        let piece = (segment_bytes - offset).min(ZERO_PIECE_BYTES as u64) as usize;
        file.write(offset, &zeros[..piece])?;
        offset += piece as u64;
    }
    let mut block = BufferMut::zeroed(SEGMENT_HEADER_BYTES);
    header.encode(&mut block);
    file.write(0, &block)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_sequence_and_nothing_else_is_a_segment() {
        assert_eq!(sequence_of(&segment_name(0xabc)), Some(0xabc));
        for name in ["wal.control", "abc.wal", "000000000000000A.wal", "+00000000000000a.wal"] {
            assert_eq!(sequence_of(name), None, "{name}");
        }
    }
}
