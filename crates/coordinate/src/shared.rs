//! What the daemon's thread and the lease's thread know of each other.
//!
//! The lock is held for a few instructions by either, never over anything that waits. News for the lease's thread go
//! through a channel of one place: what does not fit is news that it has not looked at yet.

use async_channel::{Receiver, Sender, bounded};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No server has answered yet.
    #[default]
    Connecting,
    /// Connected; nothing wanted.
    Idle,
    /// Wanted, and others are served first.
    Waiting,
    /// A permit is there.
    Holding,
    /// No server answers any more.
    Unreachable,
}

impl Phase {
    /// As `status` names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Holding => "holding",
            Self::Unreachable => "unreachable",
        }
    }
}

/// How a lease stands, for people and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What it is doing.
    pub phase: Phase,
    /// While waiting: how many permits must be given back first.
    pub ahead: u32,
    /// For how long no server has answered, if none does.
    pub unreachable_for: Option<Duration>,
    /// What the last attempt found then.
    pub problem: Option<String>,
    /// Permits got since the start.
    pub granted: u64,
    /// Permits that were gone before they were given back.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct State {
    wants: bool,
    stop: bool,
    ended: bool,
    /// There is a permit, until then.
    permit: Option<Instant>,
    phase: Phase,
    ahead: u32,
    unreachable_since: Option<Instant>,
    problem: Option<String>,
    granted: u64,
    lost: u64,
}

/// The state under its lock.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    ended: Condvar,
    news: Sender<()>,
}

impl Shared {
    /// The state, and what tells of its changes.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (news, changes) = bounded(1);
        let shared = Self { state: Mutex::default(), ended: Condvar::new(), news };
        (Arc::new(shared), changes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No state is left half changed: a panic elsewhere changes nothing about it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_news(&self) {
        // Full means that there are news already.
        let _ = self.news.try_send(());
    }

    pub(crate) fn exchange(&self, wants: bool) -> bool {
        let mut state = self.lock();
        let has_changed = state.wants != wants;
        state.wants = wants;
        if !wants {
            // Gone from here on: only now may it be given back.
            state.permit = None;
        }
        if state.permit.is_some_and(|until| Instant::now() >= until) {
            state.permit = None;
            state.lost += 1;
        }
        let holds = state.permit.is_some();
        drop(state);
        if has_changed {
            self.tell_news();
        }
        holds
    }

    pub(crate) fn view(&self) -> View {
        let state = self.lock();
        let now = Instant::now();
        let phase = match state.phase {
            Phase::Holding if state.permit.is_none_or(|until| now >= until) => Phase::Waiting,
            phase => phase,
        };
        View {
            phase,
            ahead: if phase == Phase::Waiting { state.ahead } else { 0 },
            unreachable_for: state.unreachable_since.map(|since| now.duration_since(since)),
            problem: state.problem.clone(),
            granted: state.granted,
            lost: state.lost,
        }
    }

    /// Asks the lease's thread to end, and waits for it within `max`.
    pub(crate) fn stop(&self, max: Duration) {
        let mut state = self.lock();
        (state.stop, state.wants, state.permit) = (true, false, None);
        self.tell_news();
        let result = self.ended.wait_timeout_while(state, max, |state| !state.ended);
        drop(result.unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.ended.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.lock().wants
    }

    /// A server confirmed the permit, which counts until `until`. It is nobody's if it is no longer wanted.
    pub(crate) fn hold(&self, until: Instant) {
        let mut state = self.lock();
        if !state.wants {
            return;
        }
        let is_new = state.permit.is_none();
        state.granted += u64::from(is_new);
        state.permit = Some(until);
        state.phase = Phase::Holding;
    }

    /// There is no permit: others are first, or nothing is wanted.
    pub(crate) fn stand(&self, phase: Phase, ahead: u32) {
        let mut state = self.lock();
        state.lost += u64::from(state.permit.take().is_some());
        (state.phase, state.ahead) = (phase, ahead);
    }

    /// A server answers. Whether none did before, and a line has said so.
    pub(crate) fn reach(&self) -> bool {
        let mut state = self.lock();
        state.phase = Phase::Idle;
        state.problem = None;
        state.unreachable_since.take().is_some()
    }

    /// The session is lost or there is none. Whether this is news.
    pub(crate) fn lose(&self, problem: String) -> bool {
        let mut state = self.lock();
        state.lost += u64::from(state.permit.take().is_some());
        state.phase = Phase::Unreachable;
        state.problem = Some(problem);
        let is_news = state.unreachable_since.is_none();
        state.unreachable_since.get_or_insert_with(Instant::now);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn a_permit_counts_until_its_time_and_only_while_it_is_wanted() {
        let (shared, _changes) = Shared::new();
        shared.hold(far());
        assert!(!shared.exchange(false), "nobody wants it");
        assert!(!shared.exchange(true), "what came before the wish is no permit");
        shared.hold(far());
        assert!(shared.exchange(true));
        assert_eq!(shared.view().phase, Phase::Holding);
        shared.hold(Instant::now());
        assert_eq!(shared.view().phase, Phase::Waiting, "nobody has confirmed it for too long");
        assert!(!shared.exchange(true));
        assert_eq!((shared.view().granted, shared.view().lost), (1, 1));
    }

    #[test]
    fn a_permit_that_is_given_back_is_gone_before_anybody_else_can_have_it() {
        let (shared, changes) = Shared::new();
        shared.exchange(true);
        changes.try_recv().unwrap();
        shared.hold(far());
        assert!(!shared.exchange(false));
        changes.try_recv().unwrap();
        assert!(!shared.exchange(true), "the next one must be granted anew");
        assert_eq!(shared.view().lost, 0, "nothing was lost");
    }

    #[test]
    fn a_lost_session_takes_the_permit_at_once_and_is_told_once() {
        let (shared, _changes) = Shared::new();
        assert!(!shared.reach(), "nobody was told of anything");
        shared.exchange(true);
        shared.hold(far());
        assert!(shared.lose("gone".to_owned()));
        assert!(!shared.exchange(true));
        assert!(!shared.lose("still gone".to_owned()), "said already");
        let view = shared.view();
        assert_eq!((view.phase, view.lost), (Phase::Unreachable, 1));
        assert!(view.unreachable_for.is_some());
        assert_eq!(view.problem.as_deref(), Some("still gone"));
        assert!(shared.reach());
        assert_eq!(shared.view().unreachable_for, None);
    }
}
