//! Which requests are bulk: valued for their bandwidth, so that they may wait for others and are let onto the disk a little at a
//! time.
//!
//! A large request is bulk if it goes on where another one ended, or is so large that its transfer outlasts any positioning. Large
//! ones all over the disk are not: somebody waits for each, and a drive that is given one at a time cannot choose among them.

/// Requests up to this many bytes are never bulk.
const BULK_BYTES_ABOVE: u64 = 64 << 10;
/// From this many on they are, wherever they begin: 4 ms at 130 MB/s, as long as an arm needs to get anywhere.
const BULK_BYTES_ALONE: u64 = 512 << 10;
/// Streams that are told apart; the one that has not gone on for longest makes room.
const STREAMS_MAX: usize = 32;

/// Where large requests ended lately.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Client bytes, the latest last.
    ends: Vec<u64>,
}

impl Streams {
    /// Whether a request that comes now is bulk.
    pub(super) fn is_bulk(&mut self, offset: u64, len: u64) -> bool {
        if len <= BULK_BYTES_ABOVE {
            return false;
        }
        let found = self.ends.iter().rposition(|end| *end == offset);
        match found {
            Some(at) => drop(self.ends.remove(at)),
            None if self.ends.len() == STREAMS_MAX => drop(self.ends.remove(0)),
            None => {}
        }
        self.ends.push(offset.saturating_add(len));
        found.is_some() || len >= BULK_BYTES_ALONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 128 << 10;

    #[test]
    fn what_goes_on_where_another_ended_is_bulk_however_many_streams_there_are_beside_it() {
        let mut streams = Streams::default();
        for step in 0..10 {
            for stream in 0..STREAMS_MAX as u64 {
                let offset = (stream << 30) + step * LEN;
                assert_eq!(streams.is_bulk(offset, LEN), step > 0, "{stream} {step}");
            }
        }
    }

    #[test]
    fn large_requests_all_over_the_disk_are_not_bulk_unless_they_are_very_large() {
        let mut streams = Streams::default();
        for number in 0..1000_u64 {
            assert!(!streams.is_bulk((number * 7919) << 20, LEN));
            assert!(streams.ends.len() <= STREAMS_MAX);
        }
        assert!(streams.is_bulk(1 << 40, BULK_BYTES_ALONE));
        assert!(!streams.is_bulk(0, BULK_BYTES_ABOVE) && !streams.is_bulk(BULK_BYTES_ABOVE, 4096));
    }
}
