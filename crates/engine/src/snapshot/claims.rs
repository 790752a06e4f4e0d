//! Which logs a snapshot claims: those that stay in use, and some with room where those have none.
//!
//! A log that is claimed is read by every recovery from that snapshot, and only such a log may be written.

use super::SnapshotContext;
use crate::commit::Commit;
use crate::core::Core;
use crate::placement::Need;
use crate::state::logs::chain::{Spared, Wanted};

/// Logs looked at for room when none of those claimed has any.
const CLAIM_SEARCH_MAX: usize = 1 << 16;

/// Claims that carry over, all of them claimed already: the log a record is on its way to (that
/// record is newer than the snapshot), the target of a swap, the log in use and its neighbours, as many as the placement wants: each costs a
/// recovery one read.
pub(super) fn claims_to_keep(core: &Core, commit: &Commit, context: SnapshotContext) -> Vec<u32> {
    let newest = core.recorded().last_log();
    let in_flight = commit.in_flight().map(|record| record.header().log_index);
    let cold = context.cold_log;
    let in_use = commit.goes_on_in();
    let from_used = |index: u32| {
        let used = in_use.iter().chain(std::iter::once(&newest));
        used.map(|used| index.abs_diff(*used)).min()
    };
    // Where a log is begun only once it is free, the others are of no use but the one in use.
    let next = |spared| core.logs().next_in_chain(newest, spared, Wanted::Claimed);
    let for_any = || next(Spared::Kept).or_else(|| next(Spared::Logs(0)));
    let in_chain = core.logs().has_no_homes().then(|| [Some(newest), for_any()]);
    let has_use = |index| in_chain.is_none_or(|used| used.contains(&Some(index)));
    let needed = |index: &u32| Some(*index) == in_flight || Some(*index) == cold;
    let kept = |index: &u32| needed(index) || has_use(*index);
    // No recovery is to need a device that is lost: what stands there is in the snapshot, or was never answered.
    let there = core.logs().claimed().filter(|index| !core.logs().is_lost(*index));
    let mut claimed: Vec<u32> = there.filter(kept).collect();
    claimed.sort_by_key(|index| (!needed(index), from_used(*index), *index));
    let at_least = claimed.iter().filter(|index| needed(index)).count();
    claimed.truncate(commit.claims_kept().max(at_least));
    claimed.sort_unstable();
    claimed
}

/// The log that clients' records go to next, if none such is claimed.
fn claims_to_add_in_chain(core: &Core) -> Vec<u32> {
    let (logs, newest) = (core.logs(), core.recorded().last_log());
    let spared = if logs.needs_claim(newest) { Spared::Kept } else { Spared::Logs(0) };
    let next = |wanted| logs.next_in_chain(newest, spared, wanted);
    let is_claimed = next(Wanted::Claimed).is_some();
    next(Wanted::Free).filter(|_| !is_claimed).into_iter().collect()
}

/// Whether a snapshot that ends an orderly stop may claim the log: of several devices those alone on which the newest record is, so that the
/// volume opens without any other one. A start that finds no room there begins with a snapshot.
pub(super) fn may_be_claimed_at_rest(core: &Core, log: u32) -> bool {
    let (logs, newest) = (core.logs(), core.recorded().last_log());
    let tail = logs.by_device().find(|device| device.contains(&newest));
    !core.setup().layout.logs_are_on_several() || tail.is_none_or(|device| device.contains(&log))
}

/// Logs with room that the snapshot claims because those that stay claimed have none, or failed. A log may be
/// written only once it is claimed, and when all claimed ones are full no record can claim more.
pub(super) fn claims_to_add(core: &Core, commit: &Commit, keep: &[u32]) -> Vec<u32> {
    if core.logs().has_no_homes() {
        return claims_to_add_in_chain(core);
    }
    let layout = &core.setup().layout;
    let blocks = (core.record_bytes_max() / layout.log_block_bytes).max(1);
    let fits = |index: &u32, blocks| core.logs().has_room(*index, Need { blocks, reserve: 0 });
    let has_room = |index: &u32| fits(index, blocks) && !core.logs().has_failed(*index);
    if !commit.claims_logs() || keep.iter().any(has_room) {
        return Vec::new();
    }
    let near = layout.log_offset(core.recorded().last_log()).unwrap_or(0);
    let others = core.logs().near(near).filter(|index| !core.logs().is_claimed(*index));
    let roomy = others.take(CLAIM_SEARCH_MAX).filter(|index| fits(index, 1));
    let mut found: Vec<u32> = roomy.collect();
    // Stable: of those with the same room the nearest come first.
    found.sort_by_key(|index| !has_room(index));
    found.truncate(commit.claims_kept());
    found.sort_unstable();
    found
}
