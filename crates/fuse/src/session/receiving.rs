//! Threads that receive the kernel's requests, each with memory for the longest.
//!
//! A message without a whole header cannot be answered: it is counted, left, and reported at the end. Any other reaches [`Takes`] once, with
//! the duty to answer.

use super::negotiation::MESSAGE_BYTES_MAX;
use super::{Received, Reply, Session};
use crate::protocol::{Request, decode};
use std::io;
use std::sync::Arc;

/// Receiver of requests. It is called by several threads.
pub(crate) trait Takes: Send + Sync + 'static {
    fn take(&self, request: Request<'_>, reply: Reply);
}

/// Receives requests by `threads` threads until the folder is unmounted.
pub(crate) fn receive_all(
    session: &Arc<Session>,
    to: &Arc<impl Takes>,
    threads: usize,
) -> io::Result<()> {
    let mut running = Vec::with_capacity(threads);
    for number in 0..threads {
        let (session, to) = (Arc::clone(session), Arc::clone(to));
        let thread = std::thread::Builder::new().name(format!("fuse-{number}"));
        running.push(thread.spawn(move || receive(&session, &*to))?);
    }
    let mut result = Ok(());
    for thread in running {
        let ended = thread.join();
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a receiving thread panicked")));
        result = result.and(ended);
    }
    result
}

fn receive(session: &Arc<Session>, to: &impl Takes) -> io::Result<()> {
    // Memory that is there before a request is: the kernel fails a request with EIO if it cannot copy it into a process that was killed
    // while it waits for a page. Zeros would get their pages later.
    let mut bytes = vec![1; MESSAGE_BYTES_MAX];
    let mut dropped = 0_u64;
    while let Received::Message(len) = session.receive(&mut bytes)? {
        let Some(request) = bytes.get(..len).and_then(decode) else {
            dropped += 1;
            continue;
        };
        let reply = Reply::to(session, request.header.unique);
        to.take(request, reply);
    }
    if dropped > 0 {
        let detail = format!("{dropped} messages of the kernel were shorter than their header");
        return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
    }
    Ok(())
}
