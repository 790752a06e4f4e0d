//! Small writes that are answered once they are durable, in the order in which they were staged.
//!
//! Each waits for a position of the stage. Whoever puts staged blocks somewhere else moves those who wait for them;
//! nobody here knows why.

use crate::stage::StagePosition;
use nearhead_service::RequestId;
use std::collections::VecDeque;
use std::ops::Range;

/// A small write that is answered once it is durable.
#[derive(Clone, Debug)]
pub(crate) struct DurableWaiter {
    /// Stage position before which everything of it stands.
    target: StagePosition,
    id: RequestId,
    /// Home sectors that it changes: the first range, and the others of an atomic write or a trim.
    sectors: Range<u64>,
    more: Vec<Range<u64>>,
    /// Client bytes that it writes.
    written_bytes: u64,
}

impl DurableWaiter {
    pub(crate) fn new(id: RequestId, sectors: Range<u64>, written_bytes: u64) -> Self {
        Self { target: StagePosition::START, id, sectors, more: Vec::new(), written_bytes }
    }

    /// The same write, which changes these sectors, too.
    pub(crate) fn and(self, more: Vec<Range<u64>>) -> Self {
        Self { more, ..self }
    }

    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn touches(&self, sectors: &impl Fn(&Range<u64>) -> bool) -> bool {
        std::iter::once(&self.sectors).chain(&self.more).any(sectors)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Waiters(VecDeque<DurableWaiter>);

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One more, which waits until everything before `target` is durable; nobody here waits for more.
    pub(crate) fn push(&mut self, waiter: DurableWaiter, target: StagePosition) {
        self.0.push_back(DurableWaiter { target, ..waiter });
    }

    /// What stood behind `front` does not become durable there: who waits for any of it waits for `position`.
    pub(super) fn postpone(&mut self, front: StagePosition, position: StagePosition) {
        for waiter in self.0.iter_mut().filter(|waiter| waiter.target > front) {
            waiter.target = position;
        }
    }

    /// Those who waited for what stands before `position`.
    pub(crate) fn take_durable(&mut self, position: StagePosition) -> Vec<DurableWaiter> {
        let done = self.0.iter().take_while(|waiter| waiter.target <= position).count();
        self.0.drain(..done).collect()
    }

    pub(crate) fn take_all(&mut self) -> Vec<DurableWaiter> {
        std::mem::take(&mut self.0).into()
    }

    /// Those who change any range of sectors of which this is said.
    pub(crate) fn take_those_at(
        &mut self,
        sectors: impl Fn(&Range<u64>) -> bool,
    ) -> Vec<DurableWaiter> {
        let all = std::mem::take(&mut self.0);
        let (taken, kept): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|waiter| waiter.touches(&sectors));
        self.0 = kept;
        taken.into()
    }

    /// Whether there are such.
    pub(crate) fn any_at(&self, sectors: impl Fn(&Range<u64>) -> bool) -> bool {
        self.0.iter().any(|waiter| waiter.touches(&sectors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiters {
        let mut waiters = Waiters::default();
        for number in 1..=4 {
            let sectors = 8 * number..8 * number + 1;
            let waiter = DurableWaiter::new(RequestId(number), sectors, 512);
            let more = vec![100 + number..101 + number, 200..201];
            waiters.push(waiter.and(more), at(10 * number));
        }
        waiters
    }

    fn at(blocks: u64) -> StagePosition {
        StagePosition::START.plus(blocks as usize)
    }

    fn ids(waiters: &[DurableWaiter]) -> Vec<u64> {
        waiters.iter().map(|waiter| waiter.id().0).collect()
    }

    #[test]
    fn who_waits_is_let_go_in_order_and_no_earlier_than_all_before_it_is_durable() {
        let mut waiters = waiting();
        assert_eq!(ids(&waiters.take_durable(at(9))), [0; 0]);
        assert_eq!(ids(&waiters.take_durable(at(20))), [1, 2]);
        assert_eq!(ids(&waiters.take_durable(at(100))), [3, 4]);
        assert!(waiters.is_empty());
    }

    #[test]
    fn who_waits_for_what_was_staged_again_waits_for_where_it_stands_now() {
        let mut waiters = waiting();
        waiters.postpone(at(20), at(50));
        assert_eq!(ids(&waiters.take_durable(at(49))), [1, 2]);
        assert_eq!(ids(&waiters.take_durable(at(50))), [3, 4]);
    }

    #[test]
    fn those_who_change_a_sector_are_found_by_any_of_their_ranges() {
        let mut waiters = waiting();
        let holds = |sector: u64| move |range: &Range<u64>| range.contains(&sector);
        assert!(
            waiters.any_at(holds(103)) && waiters.any_at(holds(16)) && !waiters.any_at(holds(17))
        );
        assert_eq!(ids(&waiters.take_those_at(holds(103))), [3]);
        assert!(!waiters.any_at(holds(24)));
        assert_eq!(ids(&waiters.take_all()), [1, 2, 4]);
    }
}
