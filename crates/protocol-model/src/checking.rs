//! The model as the checker sees it: actions, properties, and two ways to run it.
//!
//! Breadth first on one thread, so that the first counterexample is a shortest one and the same every
//! time.

use crate::recovery::{Outcome, against, read};
use crate::state::{BLOCKS, DiskState, LOGS, Map, Memory, Snapshot, State, Wrong};
use crate::{Bounds, Mistake, Protocol};
use stateright::{Checker, Model, Property};

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client's small write of a block; `zero` if it is a trim or zeroing, said by the record alone.
    SmallWrite {
        /// Which.
        block: usize,
        /// Without payload.
        zero: bool,
    },
    /// A client's few bytes of a block.
    Bytes(usize),
    /// A client's large write over a block goes on its way, or is logged first as bytes lie over its home.
    LargeWrite(usize),
    /// One that was logged goes on its way.
    LargeWriteGoesOn(usize),
    /// No log has room: a staged block goes on its way home.
    Spill(usize),
    /// A home write of a client is complete, in the device's cache.
    TransferDone(usize),
    /// A device flush is submitted.
    FlushStart,
    /// It is complete.
    FlushDone,
    /// A record goes on its way.
    Commit {
        /// Into this log.
        log: usize,
        /// With all staged blocks; otherwise with what else waits.
        stage: bool,
        /// With claims of all unclaimed logs.
        claim: bool,
    },
    /// A record on its way, counted from the oldest, is durable.
    RecordDone(usize),
    /// A checkpoint of a block begins.
    Checkpoint(usize),
    /// Its next step is complete.
    CheckpointNext,
    /// No log takes its record: snapshots will let the copy go.
    ReleaseBySnapshot,
    /// A block's chunk is read, to be moved to the other log.
    Swap(usize),
    /// A snapshot begins.
    SnapshotBegin,
    /// Its next step is complete.
    SnapshotNext,
    /// The power is cut.
    PowerCut(Outcome),
    /// The process is killed; what was on its way lands in the device's cache or never.
    Kill {
        /// Whether it lands.
        lands: bool,
    },
    /// The volume is opened again.
    Recover,
}

impl Protocol {
    fn step(&self, state: &mut State, action: &Action) -> Option<()> {
        match *action {
            Action::SmallWrite { block, zero } => self.stage(state, block, zero),
            Action::Bytes(block) => self.stage_bytes(state, block),
            Action::LargeWrite(block) => self.start_in_place(state, block),
            Action::LargeWriteGoesOn(block) => self.go_on_in_place(state, block),
            Action::Spill(block) => self.spill(state, block),
            Action::TransferDone(block) => self.finish_in_place(state, block),
            Action::FlushStart => self.start_flush(state),
            Action::FlushDone => self.finish_flush(state),
            Action::Commit { log, stage, claim } => self.commit(state, log, stage, claim),
            Action::RecordDone(index) => self.land(state, index),
            Action::Checkpoint(block) => self.start_checkpoint(state, block),
            Action::CheckpointNext => self.continue_checkpoint(state),
            Action::ReleaseBySnapshot => self.release_by_snapshot(state),
            Action::Swap(block) => self.start_swap(state, block),
            Action::SnapshotBegin => self.begin_snapshot(state),
            Action::SnapshotNext => self.continue_snapshot(state),
            Action::PowerCut(ref kept) => self.cut(state, kept),
            Action::Kill { lands } => self.kill(state, lands),
            Action::Recover => self.recover(state),
        }
    }

    fn after(&self, state: &State, action: &Action) -> Option<State> {
        let mut next = state.clone();
        self.step(&mut next, action)?;
        if let Some(memory) = next.memory.as_mut() {
            memory.settle(&mut next.floor, self);
        }
        if next.memory.as_ref().is_some_and(|memory| !memory.recovering) {
            for block in 0..BLOCKS {
                let wrong = match read(&next, block) {
                    None => Some(Wrong::Overwritten),
                    Some(found) => against(found, next.floor[block]),
                };
                next.wrong = wrong.or(next.wrong);
            }
        }
        Some(next)
    }

    /// What the engine and the disk do by themselves, what frees room last.
    fn own_actions() -> Vec<Action> {
        let mut actions = Vec::new();
        actions.extend((0..8).map(Action::RecordDone));
        actions.extend((0..BLOCKS).map(Action::TransferDone));
        actions.extend((0..BLOCKS).map(Action::LargeWriteGoesOn));
        actions.extend([Action::FlushDone, Action::CheckpointNext, Action::SnapshotNext]);
        actions.push(Action::FlushStart);
        for (stage, claim) in [(true, false), (false, false), (true, true), (false, true)] {
            actions.extend((0..LOGS).map(|log| Action::Commit { log, stage, claim }));
        }
        actions.push(Action::ReleaseBySnapshot);
        actions.extend((0..BLOCKS).map(Action::Spill));
        // Bytes go home with their block only.
        actions.extend((0..BLOCKS).map(Action::Checkpoint));
        actions.push(Action::SnapshotBegin);
        actions
    }

    /// Whether everybody who waits is answered, if from now on the engine only finishes what it has.
    fn can_answer_all(&self, state: &State) -> bool {
        let free = Bounds { records: u8::MAX, snapshots: u8::MAX, ..self.bounds };
        let free = Self { bounds: free, ..*self };
        let mut state = state.clone();
        for _ in 0..STEPS_TO_ANSWER_MAX {
            let Some(memory) = &state.memory else { return true };
            let waits = (0..BLOCKS).any(|block| memory.is_staged(block))
                || memory.behind.iter().any(Option::is_some)
                || memory.transferring.iter().any(Option::is_some)
                || memory.waiting.iter().any(Option::is_some)
                || memory.records.iter().any(|flying| !flying.record.relocation);
            if !waits {
                return true;
            }
            let next = Self::own_actions().iter().find_map(|action| free.after(&state, action));
            let Some(next) = next else { return false };
            state = next;
        }
        false
    }
}

/// Events within which whoever waits is answered, in a volume of this size.
const STEPS_TO_ANSWER_MAX: usize = 60;

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // As `create` leaves it: snapshot 0, the first log claimed.
        let claims = std::array::from_fn(|log| log == 0);
        let (map, positions) = (Map::default(), [0; LOGS]);
        let cells = [None; BLOCKS];
        let created = Snapshot { number: 0, sequence: 0, map, cells, positions, claims };
        let mut memory = Memory::default();
        memory.rings[0].claimed = true;
        vec![State {
            disk: DiskState {
                slots: Default::default(),
                home: Default::default(),
                snapshots: [Some(created), None],
            },
            memory: Some(memory),
            floor: Default::default(),
            sent: [0; BLOCKS],
            sent_before: [0; BLOCKS],
            crashes: 0,
            rotten: false,
            refused: false,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.wrong.is_some() {
            return;
        }
        if state.memory.is_none() {
            actions.push(Action::Recover);
            return;
        }
        for block in 0..usize::from(self.bounds.blocks) {
            actions.push(Action::SmallWrite { block, zero: false });
            if block == 0 {
                actions.push(Action::SmallWrite { block, zero: true });
            }
            actions.push(Action::LargeWrite(block));
            actions.extend(self.bounds.cleaning.then_some(Action::Swap(block)));
            actions.extend(self.bounds.fragments.then_some(Action::Bytes(block)));
        }
        let cleans = self.bounds.cleaning;
        let is_within = |action: &Action| cleans || !matches!(action, Action::Checkpoint(_));
        actions.extend(Self::own_actions().into_iter().filter(is_within));
        if state.crashes < self.bounds.crashes {
            actions.extend(self.outcomes(state).into_iter().map(Action::PowerCut));
            actions.extend([true, false].map(|lands| Action::Kill { lands }));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.after(state, &action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing older comes back", |_, state: &State| {
                state.wrong != Some(Wrong::Older)
            }),
            Property::always("no bytes come over what is newer", |_, state: &State| {
                state.wrong != Some(Wrong::Mixed)
            }),
            Property::always("what a recovery did not find stays gone", |_, state: &State| {
                state.wrong != Some(Wrong::Risen)
            }),
            Property::always("a crash alone is no reason to refuse", |_, state: &State| {
                state.wrong != Some(Wrong::Refused)
            }),
            Property::always("no live slot is overwritten", |_, state: &State| {
                state.wrong != Some(Wrong::Overwritten)
            }),
            Property::always("whoever waits can be answered", |protocol: &Self, state: &State| {
                state.wrong.is_some() || protocol.can_answer_all(state)
            }),
        ]
    }
}

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Different states seen.
    pub states_unique: usize,
    /// Longest of the shortest ways to a state, in events.
    pub depth: usize,
    /// Whether every state within the bounds was seen.
    pub complete: bool,
    /// The law broken first and the events that break it.
    pub counterexample: Option<(&'static str, Vec<Action>)>,
}

/// Tries everything within the bounds, or until `states_max` states were seen.
pub fn explore(protocol: Protocol, states_max: usize) -> Explored {
    let checker = protocol.checker().threads(1).target_state_count(states_max).spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let found = found.map(|(law, path)| (law, path.into_actions()));
    Explored {
        states_unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: checker.state_count() < states_max,
        counterexample: found.min_by_key(|(law, actions)| (actions.len(), *law)),
    }
}

/// The shortest way in which a mistake breaks a law.
pub fn shortest_counterexample(
    bounds: Bounds,
    mistake: Mistake,
    states_max: usize,
) -> Option<(&'static str, Vec<Action>)> {
    let protocol = Protocol { bounds, mistake: Some(mistake) };
    let ends = stateright::HasDiscoveries::AnyFailures;
    let checker = protocol.checker().threads(1).finish_when(ends).target_state_count(states_max);
    let checker = checker.spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    found
        .map(|(law, path)| (law, path.into_actions()))
        .min_by_key(|(law, actions)| (actions.len(), *law))
}
