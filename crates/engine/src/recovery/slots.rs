//! Which snapshots there are to load: the header at the start of each slot and its copy at the end.
//!
//! The copy is written once the header is durable, and only then is anything used again that the
//! older snapshot needs. So a header that does not hold beside a copy that is the newest of all was
//! sound once: rot, told and survived. Beside an older copy, or none, it may be what a cut tore, and
//! nothing is lost: the other slot counts. Nothing here reads anything.

use nearhead_disk::At;
use nearhead_format::SnapshotHeader;

/// Why four kilobytes are no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    /// Expected and found, or what the disk said.
    pub(super) problem: String,
    /// The disk failed: another time they may be the newest header of all.
    pub(super) is_unreadable: bool,
}

/// One of the two places of a slot's header.
pub(super) type Place = Result<SnapshotHeader, Unusable>;

/// A slot as it was read.
pub(super) struct FoundSlot {
    pub(super) slot: usize,
    /// Its start.
    pub(super) at: At,
    pub(super) header: Place,
    pub(super) copy: Place,
}

/// What both slots say together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    /// Headers of the snapshots to try, the first one last.
    pub(super) headers: Vec<SnapshotHeader>,
    /// Why slots have no sound header, for an error.
    pub(super) problems: Vec<String>,
    /// Damage that a copy made good.
    pub(super) findings: Vec<String>,
    /// What could not be read and may be newer than everything that could.
    pub(super) unreadable: Option<String>,
}

impl FoundSlot {
    fn newest(&self) -> Option<SnapshotHeader> {
        let sound = |place: &Place| place.as_ref().ok().copied();
        SnapshotHeader::newer(sound(&self.header), sound(&self.copy))
    }

    /// The place that should hold `header` and does not, if the other one does.
    pub(super) fn place_without(&self, header: &SnapshotHeader, copy_at: At) -> Option<At> {
        let holds = |place: &Place| place.as_ref() == Ok(header);
        match (holds(&self.header), holds(&self.copy)) {
            (true, false) => Some(copy_at),
            (false, true) => Some(self.at),
            _ => None,
        }
    }

    fn name(&self) -> String {
        format!("snapshot slot {} at {}", self.slot, self.at)
    }

    fn judge(&self, newest_of_all: Option<u64>, judged: &mut Judged) {
        let newest = self.newest();
        let counts =
            newest.is_some() && newest.map(|header| header.snapshot_number) == newest_of_all;
        match &self.header {
            Ok(header) if newest != Some(*header) => judged.findings.push(format!(
                "{}: its header is that of snapshot {}, which was overwritten; the copy behind it counts",
                self.name(),
                header.snapshot_number
            )),
            Ok(_) => {}
            Err(unusable) => {
                let copy_is_unreadable = self.copy.as_ref().is_err_and(|copy| copy.is_unreadable);
                let says = if unusable.is_unreadable { "could not be read: " } else { "" };
                let problem = format!("{}: {says}{}", self.name(), unusable.problem);
                if counts {
                    judged.findings.push(format!("{problem}; the copy behind it counts"));
                } else if unusable.is_unreadable && self.copy.is_ok() {
                    // Nothing relies on a snapshot before its copy is durable, too.
                    judged.findings.push(format!(
                        "{problem}; the copy behind it is of an older snapshot, so the other slot counts"
                    ));
                } else if unusable.is_unreadable || copy_is_unreadable {
                    judged.unreadable.get_or_insert_with(|| problem.clone());
                }
                judged.problems.push(problem);
            }
        }
        judged.headers.extend(newest);
    }
}

/// Weighs both slots.
pub(super) fn judge(slots: &[FoundSlot]) -> Judged {
    let newest = slots.iter().filter_map(FoundSlot::newest).map(|header| header.snapshot_number);
    let newest = newest.max();
    let mut judged = Judged::default();
    for slot in slots {
        slot.judge(newest, &mut judged);
    }
    judged.headers.sort_by_key(|header| header.snapshot_number);
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(snapshot_number: u64) -> SnapshotHeader {
        let body = nearhead_format::snapshot::BodySummary::default();
        SnapshotHeader { volume_id: [7; 16], snapshot_number, record_sequence: 0, flags: 0, body }
    }

    fn bad(is_unreadable: bool) -> Place {
        Err(Unusable { problem: "not what it was".to_owned(), is_unreadable })
    }

    /// The number that is loaded, how many findings, and whether opening is refused.
    fn outcome(places: [(Place, Place); 2]) -> (Option<u64>, usize, bool) {
        let slots = places.into_iter().enumerate();
        let found =
            slots.map(|(slot, (header, copy))| FoundSlot { slot, at: 0.into(), header, copy });
        let judged = judge(&found.collect::<Vec<_>>());
        let first = judged.headers.last().map(|header| header.snapshot_number);
        (first, judged.findings.len(), judged.unreadable.is_some())
    }

    #[test]
    fn a_header_that_rotted_is_replaced_by_its_copy_and_that_is_said() {
        let good = |number| (Ok(header(number)), Ok(header(number)));
        assert_eq!(outcome([good(4), good(3)]), (Some(4), 0, false));
        assert_eq!(outcome([(bad(false), Ok(header(4))), good(3)]), (Some(4), 1, false));
        assert_eq!(outcome([(bad(true), Ok(header(4))), good(3)]), (Some(4), 1, false));
        let both = [(bad(false), Ok(header(4))), (bad(false), Ok(header(3)))];
        assert_eq!(outcome(both), (Some(4), 1, false));
        assert_eq!(outcome([(Ok(header(2)), Ok(header(4))), good(3)]), (Some(4), 1, false));
    }

    #[test]
    fn of_a_header_without_its_twin_the_place_is_told_that_lacks_it() {
        let lacks = |header, copy| {
            let slot = FoundSlot { slot: 0, at: 100.into(), header, copy };
            slot.place_without(&self::header(4), 200.into()).map(|at| at.offset)
        };
        assert_eq!(lacks(Ok(header(4)), Ok(header(4))), None);
        assert_eq!(lacks(Ok(header(4)), Ok(header(2))), Some(200));
        assert_eq!(lacks(Ok(header(4)), bad(true)), Some(200));
        assert_eq!(lacks(bad(false), Ok(header(4))), Some(100));
        assert_eq!(lacks(bad(false), Ok(header(2))), None, "the other slot's");
    }

    #[test]
    fn what_a_cut_leaves_is_no_damage() {
        let good = |number| (Ok(header(number)), Ok(header(number)));
        // Torn while it was written over snapshot 2, never written, or durable before its copy.
        assert_eq!(outcome([(bad(false), Ok(header(2))), good(3)]), (Some(3), 0, false));
        assert_eq!(outcome([good(0), (bad(false), bad(false))]), (Some(0), 0, false));
        assert_eq!(outcome([(Ok(header(4)), Ok(header(2))), good(3)]), (Some(4), 0, false));
        assert_eq!(outcome([(Ok(header(4)), bad(false)), good(3)]), (Some(4), 0, false));
    }

    #[test]
    fn what_cannot_be_read_and_may_be_the_newest_is_refused() {
        let good = |number| (Ok(header(number)), Ok(header(number)));
        // Its copy is durable before anything relies on a snapshot.
        assert_eq!(outcome([(bad(true), Ok(header(2))), good(3)]), (Some(3), 1, false));
        assert_eq!(outcome([(bad(true), bad(false)), good(3)]), (Some(3), 0, true));
        assert_eq!(outcome([(bad(false), bad(true)), good(3)]), (Some(3), 0, true));
        assert_eq!(outcome([(Ok(header(4)), bad(true)), good(3)]), (Some(4), 0, false));
        let none = [(bad(false), bad(false)), (bad(false), bad(false))];
        assert_eq!(outcome(none), (None, 0, false));
    }
}
