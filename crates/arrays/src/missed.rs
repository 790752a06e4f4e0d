//! What members that are away have missed, so that one that comes back is copied only that.
//!
//! Regions are set from the moment from which a member is known to be like the others: the last flush that both answered
//! before it fell out, or the last time the mirror was left in order with it. What stays true:
//! - while this says of a member since when (`covers`), its content differs from that of a member with everything in set regions
//!   at most: what was under way or not flushed when it left is set, and so is every region that changed since;
//! - no change is sent before the labels of all members that count say of its regions (`tells`), or, for those under way when a
//!   member left, before any label says that it left;
//! - nothing is cleared while any member is covered.
//!
//! The disk that replaces a member is covered in the same way under a number of its own (`copy`), from nothing on: all regions are set
//! when its copy begins. Where it alone is covered, regions that were copied and flushed are cleared (`keep_only`), so a copy goes on
//! behind them after a crash.
//!
//! A member whose leaving nobody saw is not covered: one that counted, and was missing after a crash. It is copied everything.

use super::MEMBERS_MAX;
use super::label::Label;
use super::noted::{MemberLabel, Noted, Since};
use super::regions::Regions;
use std::ops::Range;

/// What members missed, and how much of it the labels tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// By the members' numbers: the generation of the last label with which each had everything; 0 if what it missed is not known.
    since: Since,
    /// Number of the copy to a disk that replaces a member, if what that disk lacks is known.
    copy: Option<u32>,
    regions: Regions,
    /// As the labels of all members that count say for certain.
    labelled: Regions,
    /// As the labels that are being written say.
    labelling: Option<Regions>,
}

impl Missed {
    /// Nobody is known to have missed anything.
    pub(super) fn nothing(member_bytes: u64) -> Self {
        let regions = Regions::new(member_bytes);
        Self {
            since: [0; MEMBERS_MAX],
            copy: None,
            labelled: regions.clone(),
            regions,
            labelling: None,
        }
    }

    /// Knowledge about the members, of `member_bytes` each, when a mirror is opened: `found` are its labels before they are written again.
    /// `successor` is the label of a disk that replaces a member.
    pub(super) fn at_opening(
        member_bytes: u64,
        found: &[MemberLabel],
        successor: Option<&MemberLabel>,
    ) -> Self {
        let labels = || found.iter().map(|read| &read.label);
        let newest = labels().map(|label| label.generation).max().unwrap_or(0);
        let mut missed = Self::nothing(member_bytes);
        let is_whole = |label: &Label| label.generation == newest && label.counts(label.index);
        let whole: Vec<&MemberLabel> = found.iter().filter(|read| is_whole(&read.label)).collect();
        let Some(first) = whole.first() else { return missed };
        let is_sure = |read: &&MemberLabel| {
            let MemberLabel { label, is_newest, .. } = read;
            *is_newest && label.in_sync == first.label.in_sync && label.member_bytes == member_bytes
        };
        if !whole.iter().all(is_sure) {
            return missed;
        }
        let since = |read: &MemberLabel| read.noted.as_ref().map(|noted| (noted.since, noted.copy));
        if whole.iter().all(|read| since(read) == since(first)) {
            missed.since = since(first).map_or(missed.since, |(since, _)| since);
            missed.copy = successor.and_then(|successor| resumed(&whole, successor));
            let all = whole.iter().filter_map(|read| read.noted.as_ref());
            all.for_each(|noted| missed.regions.merge(&noted.regions));
        }
        let in_use = whole.iter().any(|read| read.label.in_use);
        let count = usize::from(first.label.count).min(MEMBERS_MAX);
        for index in (0..count).filter(|index| first.label.counts(*index as u16)) {
            // Where the mirror was left in order all of these were alike, and flushed. Else nobody knows.
            let is_here = whole.iter().any(|read| usize::from(read.label.index) == index);
            missed.since[index] = if is_here || in_use { 0 } else { newest };
        }
        for MemberLabel { label, noted, .. } in found.iter().filter(|read| !is_whole(&read.label)) {
            let own = noted.as_ref().map_or(0, |noted| noted.own_since);
            let own = if label.counts(label.index) { label.generation } else { own };
            // It was not copied to by others meanwhile.
            let knows_all = whole.iter().all(|read| label.counts(read.label.index));
            let since = &mut missed.since[usize::from(label.index).min(MEMBERS_MAX - 1)];
            if *since != own || !knows_all {
                *since = 0;
            }
        }
        missed.tidy();
        // The labels that are written before the mirror is used say so.
        missed.labelled = missed.regions.clone();
        missed
    }

    /// The bytes of the slot for a label; of the disk that replaces a member if it `is_successor`.
    pub(super) fn slot(&self, label: &Label, is_successor: bool) -> Vec<u8> {
        let (regions, index) = (self.regions.clone(), usize::from(label.index));
        let copy = self.copy.unwrap_or(0);
        let noted = if label.counts(label.index) {
            Noted { own_since: 0, copy, since: self.since, regions }
        } else {
            let own_since = self.since.get(index).copied().unwrap_or(0);
            let (regions, since) = (Regions::new(label.member_bytes), [0; MEMBERS_MAX]);
            let (own_since, copy) = if is_successor { (0, copy) } else { (own_since, 0) };
            Noted { own_since, copy, since, regions }
        };
        noted.encode(label)
    }

    /// A copy with this number begins, to a disk that has nothing. It is not covered while any member is: the regions of both are the same.
    pub(super) fn begin_copy(&mut self, number: u32, member_bytes: u64) {
        if !self.is_kept() {
            self.copy = Some(number);
            self.regions.add(&(0..member_bytes));
            // The labels that are written before the mirror is used say so.
            self.labelled = self.regions.clone();
        }
    }

    /// Whether the disk that replaces a member lacks set regions at most.
    pub(super) fn covers_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The disk that replaces a member has everything, or gets nothing more.
    pub(super) fn end_copy(&mut self) {
        self.copy = None;
        self.tidy();
    }

    /// Clears the regions that were copied and flushed, all but `regions`, where only the disk that replaces a member is covered.
    pub(super) fn keep_only(&mut self, regions: &Regions) {
        if self.covers_copy() && self.since.iter().all(|since| *since == 0) {
            self.regions.intersect(regions);
        }
    }

    /// Whether any member is covered.
    pub(super) fn is_kept(&self) -> bool {
        self.covers_copy() || self.since.iter().any(|since| *since != 0)
    }

    /// Whether what the member with this number missed lies in the regions.
    pub(super) fn covers(&self, index: u16) -> bool {
        self.since.get(usize::from(index)).is_some_and(|since| *since != 0)
    }

    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// A member that had everything, as its label of this generation says, gets nothing more. Others may have all but `regions` of
    /// what it has, or it of what they have.
    pub(super) fn left(&mut self, index: u16, generation: u64, regions: &Regions) {
        if let Some(since) = self.since.get_mut(usize::from(index)) {
            *since = generation;
        }
        self.regions.merge(regions);
    }

    /// What a member missed is known no more, or it missed nothing.
    pub(super) fn forget(&mut self, index: u16) {
        if let Some(since) = self.since.get_mut(usize::from(index)) {
            *since = 0;
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        if !self.is_kept() {
            self.regions.clear();
            self.labelled.clear();
            self.labelling = None;
        }
    }

    /// These bytes are going to change.
    pub(super) fn add(&mut self, bytes: &Range<u64>) {
        if self.is_kept() {
            self.regions.add(bytes);
        }
    }

    /// Whether the labels say of these bytes all that they must before the bytes change.
    pub(super) fn tells(&self, bytes: &Range<u64>) -> bool {
        !self.is_kept() || self.labelled.has_all(bytes)
    }

    /// Whether the labels say of everything.
    pub(super) fn is_labelled(&self) -> bool {
        !self.is_kept() || self.labelled == self.regions
    }

    /// Labels are written that say all that is known now.
    pub(super) fn begin_telling(&mut self) {
        // Labels must not name regions any more that were cleared since the last ones.
        self.labelled.intersect(&self.regions);
        self.labelling = Some(self.regions.clone());
    }

    /// They were written, on all members that count or not.
    pub(super) fn end_telling(&mut self, are_written: bool) {
        if let Some(labelling) = self.labelling.take().filter(|_| are_written) {
            self.labelled = labelling;
        }
    }
}

/// Number of the copy to `successor` that goes on, if all of `whole` know what that disk lacks.
fn resumed(whole: &[&MemberLabel], successor: &MemberLabel) -> Option<u32> {
    let MemberLabel { label: new, noted, .. } = successor;
    let number = noted.as_ref().map(|noted| noted.copy).filter(|number| *number != 0)?;
    let is_known = |read: &&MemberLabel| {
        // Another one may have been copied from since.
        let is_known = read.label.index == new.index || new.counts(read.label.index);
        is_known && read.noted.as_ref().is_some_and(|noted| noted.copy == number)
    };
    (!new.counts(new.index) && whole.iter().all(is_known)).then_some(number)
}

/// What was changed and is not known to be durable on every member. Two sets are enough: of flushes that overlap one counts.
#[derive(Debug)]
pub(super) struct Unflushed {
    /// Changed since the flush that counts was asked for.
    fresh: Regions,
    /// Changed before that, and its number.
    asked: Option<(u64, Regions)>,
    /// Something was under way and is not known any more.
    is_unknown: bool,
}

impl Unflushed {
    pub(super) fn nothing(member_bytes: u64) -> Self {
        Self { fresh: Regions::new(member_bytes), asked: None, is_unknown: false }
    }

    /// A change of these bytes is over, and not durable by itself.
    pub(super) fn changed(&mut self, bytes: &Range<u64>) {
        self.fresh.add(bytes);
    }

    /// A flush is given to every member that gets changes.
    pub(super) fn asked(&mut self, id: u64) {
        if self.asked.is_none() {
            let regions = self.fresh.clone();
            self.fresh.clear();
            self.asked = Some((id, regions));
        }
    }

    /// It was answered, by all of them well or not.
    pub(super) fn answered(&mut self, id: u64, is_well: bool) {
        if let Some((_, regions)) = self.asked.take_if(|(asked, _)| *asked == id)
            && !is_well
        {
            self.fresh.merge(&regions);
        }
    }

    /// All of it; none if that is not known.
    pub(super) fn all(&self) -> Option<Regions> {
        let mut all = self.fresh.clone();
        if let Some((_, regions)) = &self.asked {
            all.merge(regions);
        }
        (!self.is_unknown).then_some(all)
    }

    /// The members lost their power, and what was under way is nobody's any more.
    pub(super) fn forget(&mut self) {
        self.is_unknown = true;
        self.answered_never();
    }

    fn answered_never(&mut self) {
        if let Some((id, _)) = &self.asked {
            let id = *id;
            self.answered(id, false);
        }
    }
}
