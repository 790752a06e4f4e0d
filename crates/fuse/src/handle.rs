//! A way to a mounted file system beside the kernel's, for other threads of the process that serves it: they may ask for its end, carry out
//! requests of their own, and have it look up from its work. Nothing of it waits for the kernel.

use crate::answers::Waiting;
use crate::queue::{Asked, Queue};
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
    queue: Option<Arc<Queue>>,
    is_to_stop: bool,
}

impl Handle {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is to be unmounted once nobody uses it, with everything durable. It may be asked for before it is mounted.
    pub fn stop(&self) {
        let mut state = self.locked();
        state.is_to_stop = true;
        if let Some(queue) = &state.queue {
            queue.stop();
        }
    }

    /// The thread that carries out comes to the end of its turn soon, also if nobody asks it for anything.
    pub fn rouse(&self) {
        if let Some(queue) = &self.locked().queue {
            queue.rouse();
        }
    }

    /// Asks for an operation, as the system's administrator; the answer comes out of what is returned, or its other end is gone once
    /// nothing is mounted any more.
    pub fn ask(&self, operation: FsOperation) -> Receiver<Result<Answer, FsError>> {
        let (sender, receiver) = channel();
        if let Some(queue) = &self.locked().queue {
            let caller = Caller { uid: 0, gid: 0, now: crate::clock() };
            let request = FsRequest { id: 0, caller, operation };
            queue.put(Asked { request, waiting: Waiting::Inside(sender) });
        }
        receiver
    }

    pub(crate) fn attach(&self, queue: &Arc<Queue>) {
        let mut state = self.locked();
        state.queue = Some(Arc::clone(queue));
        if state.is_to_stop {
            queue.stop();
        }
    }

    /// Nobody carries anything out any more.
    pub(crate) fn detach(&self) {
        let queue = self.locked().queue.take();
        // With those who wait in it.
        drop(queue.map(|queue| queue.take()));
    }
}
