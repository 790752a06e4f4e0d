//! Who holds a permit, from the names of znodes alone.
//!
//! ```text
//! PATH/checkpointing/permit-0000000017   ephemeral, sequential: a volume that wants a permit, or has one
//! PATH/snapshotting/ID                   a permit of `nearhead-zk-snapshots`, which may share the path
//! ```
//!
//! The lowest numbers have the permits. A server of ZooKeeper that snapshots has one too: it does not ask us, so we
//! yield. What else lies there is nobody's business and is not counted.

use std::time::{Duration, Instant};

/// Below the path, what volumes ask for permits with.
pub(crate) const QUEUE: &str = "checkpointing";
/// Below the path, what the snapshot scheduler gives permits with (`Permits.java`).
pub(crate) const SNAPSHOTS: &str = "snapshotting";
/// Before the number that ZooKeeper gives.
pub(crate) const PREFIX: &str = "permit-";

/// How a volume stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has a permit.
    Holds,
    /// So many others are served first.
    Waits(u32),
    /// Its znode is not there: somebody removed it.
    Gone,
}

fn number_of(name: &str) -> Option<i64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// How the volume with `own` number stands among `names`, while `snapshots` servers have a permit for theirs.
pub(crate) fn standing(own: i64, names: &[String], snapshots: usize, permits: u32) -> Standing {
    let numbers = || names.iter().filter_map(|name| number_of(name));
    if !numbers().any(|number| number == own) {
        return Standing::Gone;
    }
    let before = numbers().filter(|number| *number < own).count() + snapshots;
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    if before < permits { Standing::Holds } else { Standing::Waits(before - permits + 1) }
}

/// Until when a permit counts that a server confirmed in answer to a request sent at `sent`. The session was alive
/// then and lives for its timeout at least; the last third is for the pass to end, and for what a follower that dies
/// had not told its leader yet (half a tick, a quarter of the shortest timeout).
pub(crate) fn valid_until(sent: Instant, session_timeout: Duration) -> Instant {
    sent + session_timeout * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(numbers: &[i64]) -> Vec<String> {
        let mut names: Vec<String> =
            numbers.iter().map(|number| format!("{PREFIX}{number:010}")).collect();
        names.extend(["lock".to_owned(), "permit-".to_owned(), "permit-x1".to_owned()]);
        names
    }

    #[test]
    fn the_lowest_numbers_hold_the_permits_and_never_more_than_there_are() {
        let queue = [12, 9, 2_147_483_650, 10, 40];
        for permits in 1..=6 {
            for snapshots in 0..4 {
                let holders = queue.iter().filter(|own| {
                    standing(**own, &names(&queue), snapshots, permits) == Standing::Holds
                });
                let expected = queue.len().min((permits as usize).saturating_sub(snapshots));
                assert_eq!(holders.count(), expected, "{permits} permits, {snapshots} snapshots");
            }
        }
        assert_eq!(standing(9, &names(&queue), 0, 1), Standing::Holds);
        assert_eq!(standing(12, &names(&queue), 0, 2), Standing::Waits(1));
        assert_eq!(standing(40, &names(&queue), 0, 1), Standing::Waits(3));
        assert_eq!(standing(9, &names(&queue), 1, 1), Standing::Waits(1), "a server snapshots");
    }

    #[test]
    fn who_is_not_in_the_queue_holds_nothing() {
        assert_eq!(standing(8, &names(&[9, 10]), 0, 5), Standing::Gone);
        assert_eq!(standing(8, &[], 0, 5), Standing::Gone);
    }

    #[test]
    fn a_permit_ends_before_its_session_can() {
        let (sent, timeout) = (Instant::now(), Duration::from_secs(9));
        assert!(valid_until(sent, timeout) < sent + timeout);
    }
}
