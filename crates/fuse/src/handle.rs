//! A way to a mounted file system beside the kernel's, for other threads of the process that serves it: they may ask for its end, carry out
//! requests of their own, and have it look up from its work. Nothing of it waits for the kernel.

use crate::answers::Waiting;
use crate::bell::Bell;
use crate::serve::{Asked, Takes};
use nearhead_ext4::Caller;
use nearhead_fs::{Answer, FsError, FsOperation, FsRequest};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The way; its copies lead to the same.
#[derive(Clone, Default)]
pub struct Handle {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    way: Option<Way>,
    is_to_stop: bool,
}

/// What it leads to.
#[derive(Clone)]
struct Way {
    bell: Arc<Bell>,
    takes: Arc<dyn Takes>,
}

impl Handle {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is to be unmounted once nobody uses it, with everything durable. It may be asked for before it is mounted.
    pub fn stop(&self) {
        let mut state = self.locked();
        state.is_to_stop = true;
        if let Some(way) = &state.way {
            way.bell.stop();
        }
    }

    /// The thread that takes turns by itself comes to the end of its turn soon, also if nobody asks it for anything.
    pub fn rouse(&self) {
        if let Some(way) = &self.locked().way {
            way.bell.ring();
        }
    }

    /// Asks for an operation, as the system's administrator; the answer comes out of what is returned, or its other end is gone once
    /// nothing is mounted any more.
    pub fn ask(&self, operation: FsOperation) -> Receiver<Result<Answer, FsError>> {
        let (sender, receiver) = channel();
        // Not under the lock: it may be carried out here.
        let way = self.locked().way.clone();
        if let Some(way) = way {
            let caller = Caller { uid: 0, gid: 0, now: crate::clock() };
            let request = FsRequest { id: 0, caller, operation };
            way.takes.ask(Asked { request, waiting: Waiting::Inside(sender) });
        }
        receiver
    }

    pub(crate) fn attach(&self, bell: &Arc<Bell>, takes: Arc<dyn Takes>) {
        let mut state = self.locked();
        state.way = Some(Way { bell: Arc::clone(bell), takes });
        if state.is_to_stop {
            bell.stop();
        }
    }

    /// Nobody carries anything out any more.
    pub(crate) fn detach(&self) {
        let way = self.locked().way.take();
        // With those who wait for what is still in the queue, once the kernel's threads let go of it as well.
        drop(way);
    }
}
