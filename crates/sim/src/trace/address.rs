//! Fitting the addresses of a trace onto a disk that is smaller, larger or coarser.
//!
//! Requests keep their length (but for alignment) and, with every fit, runs of neighbouring
//! requests stay runs, so that sequential streams stay sequential. A request that cannot be placed
//! is an error; it is never cut off silently.

use super::{Problem, TraceError, TraceRequest};

/// Zones that [`AddressFit::Scale`] moves as a whole.
pub const SCALE_ZONES: u64 = 4096;

/// What to do with requests past the end of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFit {
    /// Stop with an error that names the line.
    #[default]
    Error,
    /// Take addresses modulo the disk's size; a request across the end is moved to end there.
    Wrap,
    /// Stretch or shrink the first `span_bytes` of the traced disk to the whole disk, in 4096
    /// zones of equal size, so that seek distances keep their proportions. Zones that fall on each
    /// other (when shrinking) overlay. [`super::summarize`] tells the span of a trace.
    Scale {
        /// Size of the traced disk, or the end of its last request.
        span_bytes: u64,
    },
}

/// The disk that requests must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressOptions {
    /// Its size; `None` leaves addresses as they are.
    pub capacity_bytes: Option<u64>,
    /// What to do with requests past its end.
    pub fit: AddressFit,
    /// Requests start and end on multiples of this: starts are moved down, ends up. A power of two;
    /// 1 leaves them as they are.
    pub align_bytes: u32,
}

impl Default for AddressOptions {
    /// As in the trace.
    fn default() -> Self {
        Self { capacity_bytes: None, fit: AddressFit::Error, align_bytes: 1 }
    }
}

/// The checked options, and how often they changed a request.
pub(super) struct AddressMap {
    align: u64,
    /// Whole blocks of the disk, in bytes.
    capacity: Option<u64>,
    fit: AddressFit,
    pub(super) moved: u64,
}

impl AddressMap {
    pub(super) fn new(options: &AddressOptions) -> Result<Self, TraceError> {
        let refuse = |problem: String| Err(TraceError::Options { problem });
        let align = u64::from(options.align_bytes);
        if !align.is_power_of_two() {
            return refuse(format!("expected an alignment that is a power of two, found {align}"));
        }
        let capacity = options.capacity_bytes.map(|bytes| bytes / align * align);
        if capacity == Some(0) {
            return refuse(format!(
                "expected a disk of at least one block of {align} bytes, found none"
            ));
        }
        if let AddressFit::Scale { span_bytes } = options.fit
            && (span_bytes == 0 || capacity.is_none())
        {
            return refuse("scaling needs a span above 0 and the size of the disk".into());
        }
        Ok(Self { align, capacity, fit: options.fit, moved: 0 })
    }

    /// The request as it goes to the disk. Zero-length requests must not come here.
    pub(super) fn place(&mut self, mut request: TraceRequest) -> Result<TraceRequest, Problem> {
        let start = request.offset_bytes / self.align * self.align;
        let end = request.end_bytes().checked_next_multiple_of(self.align);
        let len = end.map(|end| end - start).filter(|len| u32::try_from(*len).is_ok());
        let Some(len) = len else {
            return Err(problem(&request, "an aligned length below 2^32 bytes".into()));
        };
        request.len_bytes = len as u32;
        request.offset_bytes = match self.capacity {
            None => start,
            Some(capacity) => {
                let placed = self.onto(capacity, start, len).ok_or_else(|| {
                    problem(&request, format!("a request within the {capacity} bytes of the disk"))
                })?;
                self.moved += u64::from(placed != start);
                placed
            }
        };
        Ok(request)
    }

    fn onto(&self, capacity: u64, start: u64, len: u64) -> Option<u64> {
        let last_start = capacity.checked_sub(len)?;
        match self.fit {
            AddressFit::Error => (start <= last_start).then_some(start),
            AddressFit::Wrap => Some((start % capacity).min(last_start)),
            AddressFit::Scale { span_bytes } => {
                let zone_len = |whole: u64| {
                    (whole.div_ceil(SCALE_ZONES)).next_multiple_of(self.align).max(self.align)
                };
                let from = zone_len(span_bytes);
                let (zone, within) = (start / from, start % from);
                let zone_start =
                    u128::from(zone) * u128::from(capacity) / u128::from(span_bytes.div_ceil(from));
                let zone_start =
                    u64::try_from(zone_start).unwrap_or(u64::MAX) / self.align * self.align;
                Some(zone_start.saturating_add(within).min(last_start))
            }
        }
    }
}

fn problem(request: &TraceRequest, expected: String) -> Problem {
    let found = format!("{} bytes at {}", request.len_bytes, request.offset_bytes);
    Problem::new(expected, found.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::Random;

    fn request(offset_bytes: u64, len_bytes: u32) -> TraceRequest {
        TraceRequest { offset_bytes, len_bytes, ..TraceRequest::default() }
    }

    fn map(capacity: u64, fit: AddressFit, align_bytes: u32) -> AddressMap {
        AddressMap::new(&AddressOptions { capacity_bytes: Some(capacity), fit, align_bytes })
            .unwrap()
    }

    #[test]
    fn without_options_nothing_changes() {
        let mut map = AddressMap::new(&AddressOptions::default()).unwrap();
        assert_eq!(map.place(request(513, 7)).unwrap(), request(513, 7));
        assert_eq!(map.moved, 0);
    }

    #[test]
    fn alignment_covers_the_request_and_no_more() {
        let mut map = map(1 << 20, AddressFit::Error, 4096);
        assert_eq!(map.place(request(4095, 2)).unwrap(), request(0, 8192));
        assert_eq!(map.place(request(4096, 4096)).unwrap(), request(4096, 4096));
    }

    #[test]
    fn past_the_end_is_an_error_unless_told_otherwise() {
        let mut map = map(8192, AddressFit::Error, 512);
        assert!(map.place(request(4096, 4096)).is_ok());
        let text = map.place(request(4608, 4096)).unwrap_err().to_string();
        assert!(text.contains("8192 bytes of the disk") && text.contains("4608"), "{text}");
    }

    #[test]
    fn wrapping_keeps_requests_whole() {
        let mut map = map(10_000, AddressFit::Wrap, 512);
        assert_eq!(map.place(request(9728 + 512, 512)).unwrap().offset_bytes, 512);
        assert_eq!(map.place(request(9216, 1024)).unwrap().offset_bytes, 9728 - 1024);
        assert_eq!(map.moved, 2);
        assert!(map.place(request(0, 10_240)).is_err(), "larger than the disk");
    }

    #[test]
    fn every_fit_stays_on_the_disk_and_aligned() {
        let mut random = Random::new(9);
        for round in 0..50_000 {
            let (capacity_bits, span_bits) = (random.below(41), random.below(45));
            let capacity = 4096 + random.below(1 << capacity_bits);
            let span_bytes = 1 + random.below(1 << span_bits);
            let align_bytes = 1 << random.below(13);
            for fit in [AddressFit::Wrap, AddressFit::Scale { span_bytes }] {
                let mut map = map(capacity, fit, align_bytes);
                let asked = request(random.below(1 << 45), 1 + random.below(1 << 16) as u32);
                let Ok(placed) = map.place(asked) else {
                    assert!(u64::from(asked.len_bytes) + 2 * u64::from(align_bytes) > capacity);
                    continue;
                };
                assert!(placed.end_bytes() <= capacity, "round {round}: {fit:?} {placed:?}");
                assert_eq!(placed.offset_bytes % u64::from(align_bytes), 0, "round {round}");
                assert!(placed.len_bytes >= asked.len_bytes);
            }
        }
    }

    #[test]
    fn scaling_keeps_proportions_and_neighbours() {
        let (span_bytes, capacity) = (4 << 40, 1 << 40);
        let mut map = map(capacity, AddressFit::Scale { span_bytes }, 4096);
        let mut place = |offset| map.place(request(offset, 4096)).unwrap().offset_bytes;
        assert_eq!((place(0), place(span_bytes / 2)), (0, capacity / 2));
        assert_eq!(place(span_bytes / 2 + 4096), capacity / 2 + 4096);
        assert!(place(span_bytes - 4096) > capacity - (1 << 31));
    }

    #[test]
    fn impossible_options_are_refused() {
        for options in [
            AddressOptions { align_bytes: 3, ..AddressOptions::default() },
            AddressOptions { align_bytes: 0, ..AddressOptions::default() },
            AddressOptions { capacity_bytes: Some(100), align_bytes: 512, fit: AddressFit::Wrap },
            AddressOptions {
                fit: AddressFit::Scale { span_bytes: 5 },
                ..AddressOptions::default()
            },
        ] {
            assert!(AddressMap::new(&options).is_err(), "{options:?}");
        }
    }
}
