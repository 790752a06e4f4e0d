//! Where the next record goes: the placement policy is asked, told what happens, and held to the laws.
//!
//! Whatever it answers, a record goes only into a log that a recovery is certain to read, over nothing that is needed, and
//! no further on than a recovery looks. An answer that is none of that is passed over: the record goes on in the log that
//! it named, or in the nearest that may take it.

use super::Commit;
use super::record::Record;
use crate::core::Core;
use crate::disk::dispatch::{InFlight, Purpose};
use crate::disk::lanes::Lanes;
use crate::placement::{
    Completed, LogDisk, LogDisks, Need, Placement, Reposition, Seen, Spot, View,
};
use nearhead_disk::{Class, Command, Lane, Nanos};

/// Most claims added to one record beyond the one that is needed.
pub(super) const CLAIMS_AHEAD_MAX: u32 = 3;

/// A record waits no longer than this for a disk on which nothing is.
const HELD_MAX: Nanos = Nanos::from_millis(50);

/// The policy, asked by the rules.
#[derive(Debug)]
pub(super) struct Placer(Box<dyn Placement>);

/// What a policy may look at.
fn view(core: &Core) -> View<'_> {
    let queue = core.lanes().main();
    View {
        logs: core.logs(),
        head_offset: queue.head_offset(),
        now: core.now(),
        is_idle: queue.is_idle(),
        on_disk: queue.on_disk_count(),
        drives: queue.drives(),
        disks: core.has_several_log_disks().then_some(core.lanes()),
    }
}

impl LogDisks for Lanes {
    fn disk_at(&self, address: u64) -> LogDisk<'_> {
        let queue = self.queue_of_log(address);
        LogDisk {
            head_offset: queue.head_offset(),
            is_idle: queue.is_idle(),
            on_disk: queue.on_disk_count(),
            drives: queue.drives(),
        }
    }
}

impl Placer {
    pub(super) fn new(policy: Box<dyn Placement>) -> Self {
        Self(policy)
    }

    /// Where the policy puts a record, if anywhere.
    pub(super) fn choose(&mut self, core: &Core, need: Need) -> Option<Spot> {
        let view = view(core);
        let spot = self.0.choose(need, &view)?;
        if view.is_legal(spot, need) {
            return Some(spot);
        }
        let named = Some(spot.log_index).filter(|log| view.logs.is_claimed(*log));
        let named = named.filter(|log| view.logs.has_room(*log, need));
        let log_index = named.or_else(|| view.logs.nearest_claimed(view.head_offset, need))?;
        let block = view.logs.next_place(log_index, need)?;
        Some(Spot { log_index, block, ..spot })
    }

    /// How many logs a record claims for the next ones.
    pub(super) fn claims_ahead(&self) -> u32 {
        self.0.claims_ahead().min(CLAIMS_AHEAD_MAX)
    }

    /// How many logs stay claimed when a snapshot begins: the one in use at least.
    fn claims_kept(&self) -> usize {
        self.0.claims_kept().max(1)
    }

    /// The logs in which the policy goes on, beside that of the newest record.
    fn goes_on_in(&self) -> Vec<u32> {
        self.0.goes_on_in()
    }

    /// Whether the policy would rather be asked once nothing is on the disk.
    fn waits(&self, core: &Core) -> bool {
        self.0.waits(&view(core))
    }

    /// Where the arm is to be taken by now.
    fn repositions(&self, core: &Core) -> Option<Reposition> {
        self.0.repositions(&view(core))
    }

    /// A record leaves for this spot.
    pub(super) fn record_leaves(&mut self, core: &Core, spot: Spot) {
        self.0.seen(&Seen::RecordLeaves { spot }, &view(core));
    }
}

impl Commit {
    /// Whether records go to other logs than the first, so that logs must be claimed.
    pub(crate) fn claims_logs(&self) -> bool {
        self.placer.claims_ahead() > 0
    }

    /// How many logs stay claimed when a snapshot begins.
    pub(crate) fn claims_kept(&self) -> usize {
        self.placer.claims_kept()
    }

    /// The logs in which records go on, beside that of the newest one.
    pub(crate) fn goes_on_in(&self) -> Vec<u32> {
        self.placer.goes_on_in()
    }

    /// Whether the next record waits until nothing is on the disk: as its placement wishes, and not for long.
    pub(crate) fn holds_for_head(&mut self, core: &Core) -> bool {
        let since = self.held_since.unwrap_or(core.now());
        self.is_held = self.placer.waits(core) && core.now().since(since) < HELD_MAX;
        self.held_since = self.is_held.then_some(since);
        if self.is_held {
            self.rests.begin(core.now());
        }
        self.is_held
    }

    /// Until when the next record of what is staged waits because bulk has a share of the disk, if it does.
    pub(crate) fn rests_until(&self, core: &Core) -> Option<Nanos> {
        self.rests.until(core.now(), core.lanes().has_bulk_beside_logs())
    }

    /// Nobody waits, as far as is known before it is asked anew; who waited when it was asked last has waited since then.
    pub(crate) fn release(&mut self) {
        self.held_since = self.held_since.filter(|_| self.is_held);
        self.is_held = false;
    }

    /// When it has waited long enough.
    pub(crate) fn held_until(&self) -> Option<Nanos> {
        self.held_since.filter(|_| self.is_held).map(|since| since + HELD_MAX)
    }

    /// Whether one does.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Takes arms where next records will go, as their placement wishes, each while nothing else is to be done there.
    pub(crate) fn reposition(&mut self, core: &mut Core) {
        // One is asked of each disk at most: it is not idle then.
        while let Some(Reposition { offset, .. }) =
            self.next_reposition(core).filter(|due| due.at <= core.now())
        {
            let len = core.logs().block_bytes() as u32;
            core.stats_mut().repositions += 1;
            core.issue(Class::Foreground, Purpose::Reposition, Command::Read { offset, len });
        }
    }

    /// Where the next one goes: while a record is on its way only on another disk.
    fn next_reposition(&self, core: &Core) -> Option<Reposition> {
        if self.in_flight.is_some() && !core.has_several_log_disks() {
            return None;
        }
        let due = self.placer.repositions(core)?;
        core.lanes().queue_of_log(due.offset).is_idle().then_some(due)
    }

    /// When that is due, if nothing happens before.
    pub(crate) fn reposition_wake(&self, core: &Core) -> Option<Nanos> {
        self.next_reposition(core).map(|due| due.at)
    }

    /// The arm is there, or could not be taken there.
    pub(crate) fn repositioned(&mut self, core: &Core, extent: Option<(u64, u64)>) {
        let Some((offset, _)) = extent else { return };
        self.placer.0.repositioned(offset, &view(core));
    }

    /// A command completed: what that says of the disk.
    pub(crate) fn note_completed(&mut self, core: &Core, lane: Lane, done: &InFlight, is_ok: bool) {
        let (took, has_moved) = core.lanes().queue(lane).took(done);
        let record = self.in_flight.as_ref().filter(|_| done.purpose() == Purpose::Record);
        let (offset, bytes) = done.transferred();
        let completed = Completed {
            record_end: record.map(Record::end),
            offset,
            bytes,
            took,
            has_moved,
            is_ok,
        };
        self.placer.0.seen(&Seen::Completed(completed), &view(core));
        if done.class() == Class::Bulk {
            self.rests.bulk_done(core.now(), core.admission());
        }
    }
}
