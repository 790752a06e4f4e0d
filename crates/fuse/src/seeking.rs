//! Searches for data and holes: the kernel writes out its cache of the file before each.
//!
//! A program that writes through a mapping leaves dirty pages in the kernel's cache, of which the file system knows nothing. Asking the
//! kernel to write them out waits for the answers of this process, so a thread of its own does it: the receiving threads never wait. When
//! the kernel refuses, the search goes on without.

use crate::protocol::answer::invalidate_from;
use crate::serve::{Asked, Takes};
use crate::session::Session;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A search that waits for the kernel to write out a file from `offset` on.
pub(crate) struct Search {
    pub(crate) node: u64,
    pub(crate) offset: u64,
    pub(crate) asked: Asked,
}

/// The thread's queue. The kernel bounds its length; the thread ends with it.
pub(crate) struct Seeking {
    searches: Sender<Search>,
}

impl Seeking {
    pub(crate) fn start(session: &Arc<Session>, to: &Arc<dyn Takes>) -> io::Result<Self> {
        let (searches, received) = channel();
        let (session, to) = (Arc::clone(session), Arc::clone(to));
        let thread = std::thread::Builder::new().name("fuse-seek".to_owned());
        thread.spawn(move || run(&session, &*to, &received))?;
        Ok(Self { searches })
    }

    /// Puts a search in the queue. One that no thread takes any more is answered as it is dropped.
    pub(crate) fn search(&self, search: Search) {
        drop(self.searches.send(search));
    }
}

fn run(session: &Session, to: &dyn Takes, searches: &Receiver<Search>) {
    for Search { node, offset, asked } in searches {
        if let Ok(offset) = i64::try_from(offset) {
            // ENOENT: the kernel caches nothing of it.
            let _ = session.notify(&invalidate_from(node, offset));
        }
        to.ask(asked);
    }
}
