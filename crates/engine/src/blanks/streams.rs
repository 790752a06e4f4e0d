//! Where writes fill blank regions one after the other, so that their promises can be taken back ahead of them.
//!
//! Taking a promise back costs a durable write of one block. A stream of bulk through blank space would pay it for
//! every region; so promises are taken back for as many regions again as the stream has filled, up to
//! [`AHEAD_BYTES_MAX`], and before it comes there. What is held back so is blank all the same and is promised again
//! when the stream has ended.

use std::ops::Range;

/// Streams that are told apart; the one longest unused makes room.
const STREAMS_MAX: usize = 4;
/// Most bytes ahead of a stream whose promises are taken back.
const AHEAD_BYTES_MAX: u64 = 256 << 20;

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The region after the last one it touched.
    end: u64,
    /// Regions before this one are held back.
    held_to: u64,
    /// How far ahead they were held back the last time.
    ahead: u64,
}

/// The streams, the newest one last.
#[derive(Debug)]
pub(super) struct Streams {
    streams: Vec<Stream>,
    regions_max: u64,
}

impl Streams {
    pub(super) fn new(region_bytes: u64) -> Self {
        Self { streams: Vec::new(), regions_max: (AHEAD_BYTES_MAX / region_bytes).max(1) }
    }

    /// These regions, of which some are blank, are about to be written: what to hold back behind them.
    pub(super) fn note(&mut self, regions: Range<u64>) -> Range<u64> {
        let goes_on = |stream: &Stream| {
            (stream.end.saturating_sub(1)..stream.held_to.max(stream.end + 1))
                .contains(&regions.start)
        };
        let Some(at) = self.streams.iter().position(goes_on) else {
            if self.streams.len() == STREAMS_MAX {
                self.streams.remove(0);
            }
            let end = regions.end;
            self.streams.push(Stream { end, held_to: end, ahead: 0 });
            return end..end;
        };
        let mut stream = self.streams.remove(at);
        stream.end = stream.end.max(regions.end);
        // Twice as far as last time once half of that is used up.
        if stream.held_to.saturating_sub(stream.end) <= stream.ahead / 2 {
            stream.ahead = (2 * stream.ahead).clamp(1, self.regions_max);
            stream.held_to = stream.held_to.max(stream.end + stream.ahead);
        }
        self.streams.push(stream);
        stream.end..stream.held_to
    }

    /// What is held back.
    pub(super) fn held(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.streams.iter().map(|stream| stream.end..stream.held_to.max(stream.end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.streams.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_kept_ahead_of_with_ever_fewer_steps() {
        let mut streams = Streams::new(1 << 20);
        let (mut held_to, mut steps) = (0, 0);
        for region in 0..4096 {
            let held = streams.note(region..region + 1);
            assert_eq!(held.start, region + 1);
            assert!(held.end - held.start <= 256, "{held:?}");
            assert!(region < 2 || region < held_to, "region {region} was not held back before");
            steps += u64::from(held.end != held_to && held_to <= 4096);
            held_to = held.end;
        }
        assert!(steps < 60, "{steps} steps");
    }

    #[test]
    fn scattered_writes_hold_nothing_back_and_more_streams_than_are_known_end() {
        let mut streams = Streams::new(1 << 20);
        for n in 0..100 {
            let held = streams.note(n * 1000..n * 1000 + 1);
            assert!(held.is_empty(), "{held:?}");
        }
        assert_eq!(streams.held().count(), STREAMS_MAX);
        streams.clear();
        assert!(streams.is_empty());
    }
}
