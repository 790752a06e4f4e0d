//! Members of a mirror that rest: while nothing is written one member is enough, and the others are asked nothing, so that their
//! drives may sleep (Gecko, section 4: mirrors of the body of a chain can be powered down).
//!
//! What stays true:
//! - without leave ([`nearhead_disk::Disk::let_rest`]) nothing here makes any difference;
//! - once nothing was written for as long as was said, the first member that has everything serves all reads, and no other is given
//!   any; a write, or a read that this one cannot do, goes where it would have gone in any case;
//! - from when it is told that writes are about to come, no member has nothing to do for long: each is given a read that takes an arm now
//!   and then, so that its drive turns and does not go to sleep again.
//!
//! It never tells a drive to sleep: whether one does, and when, is up to its own timer.

use super::Core;
use super::mirror::Copies;
use super::parts::Parts;
use super::sides::Sides;
use nearhead_disk::{Class, Command, Disk, Nanos, Side, WokenBy};

/// A member that is to be awake, and has had nothing to do for so long, is given a read: less than any drive waits before it sleeps
/// (5 s are the least that ATA has a number for, as `hdparm -S` sets it).
const KEPT_AWAKE_EVERY: Nanos = Nanos::from_secs(1);
/// From the place of one read that wakes a member to that of the next: no memory of a drive has it still.
const WAKING_READS_APART: u64 = 64 << 20;

impl Sides {
    /// Whether one member serves everybody, because nothing was written for long.
    pub(super) fn is_at_rest(&self, now: Nanos) -> bool {
        self.rest_after.is_some_and(|after| now.since(self.changed_at) >= after)
    }
}

impl Copies {
    /// Members may rest once nothing was written for so long, or none may.
    pub(super) fn may_rest<D: Disk>(&mut self, core: &mut Core<D, Parts>, after: Option<Nanos>) {
        self.sides.rest_after = after;
        core.members.let_rest(after, core.now);
    }

    /// Writes are about to come.
    pub(super) fn wake<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        if self.sides.rest_after.is_none() {
            return;
        }
        self.sides.changed_at = core.now;
        let len = core.properties.sector_bytes.max(core.properties.physical_sector_bytes);
        for member in self.counting().collect::<Vec<_>>() {
            if core.members.idle(member, core.now) < KEPT_AWAKE_EVERY {
                continue;
            }
            let places = (core.properties.capacity_bytes / WAKING_READS_APART).max(1);
            let offset = self.sides.waking_reads % places * WAKING_READS_APART;
            self.sides.waking_reads += 1;
            // Nobody waits for the answer; what a member cannot do is seen when it is needed.
            let id = core.desk.number();
            let read = Command::Read { offset, len };
            let part = (member, id, Class::Foreground);
            core.members.submit_for(WokenBy::Ahead, part, read, core.now);
        }
        core.members.kick();
    }

    /// How every member that counts rests.
    pub(super) fn rests<D: Disk>(&self, core: &Core<D, Parts>, now: Nanos) -> Vec<Side> {
        if self.sides.rest_after.is_none() {
            return Vec::new();
        }
        let side = |member: usize| Side {
            name: core.members.disk(member).properties().name.clone(),
            resting_for: core.members.resting_for(member, now),
            idle: core.members.idle(member, now),
            rested: core.members.rested(member, now),
            woken: core.members.woken(member),
        };
        self.counting().map(side).collect()
    }
}
