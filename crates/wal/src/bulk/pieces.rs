//! Threads that carry out the pieces of one bulk stream, each through the gate.
//!
//! As many threads as pieces can ever be in flight, in the last class of best effort; a piece is a
//! blocking transfer of at most 64 KiB. Where the page cache is in the way, a written piece is made
//! durable at once: what lies in the cache is in flight too, and a gate that does not see it bounds
//! nothing.
//!
//! On ext4 pieces exclude each other where a file has no room yet: a thread's write of such blocks locks the inode until it
//! is on the disk (Linux 6.18), so that of several pieces in flight one is at the device, and nothing between two of them. So
//! [`super::BulkWriter`] allocates ahead, and two threads keep the device busy
//! (docs/wal-performance.md).

use super::PIECE_BYTES;
use super::gate::Gate;
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::from_io;
use nearhead_disk::BufferMut;
use nearhead_uring::{DurableFile, IoPriority, set_thread_priority};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What a piece does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read,
    Write,
}

/// A transfer.
pub(super) struct Piece {
    pub(super) action: Action,
    pub(super) offset: u64,
    pub(super) bytes: BufferMut,
    pub(super) len: usize,
}

/// A piece that came back, with how much was transferred.
pub(super) type Done = (Piece, Result<usize>);

/// The threads, the way to them and back.
pub(super) struct Pieces {
    file: Arc<DurableFile>,
    gate: Arc<Gate>,
    jobs: Option<Sender<Piece>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    outstanding: usize,
    spare: Vec<BufferMut>,
}

impl Pieces {
    pub(super) fn start(file: DurableFile, gate: Arc<Gate>) -> Result<Self> {
        let file = Arc::new(file);
        let (jobs, incoming) = channel::<Piece>();
        let incoming = Arc::new(Mutex::new(incoming));
        let (outgoing, done) = channel::<Done>();
        let mut threads = Vec::new();
        for _ in 0..gate.pieces_max() {
            let (file, gate) = (Arc::clone(&file), Arc::clone(&gate));
            let (incoming, outgoing) = (Arc::clone(&incoming), outgoing.clone());
            let body = move || carry_out(&file, &gate, &incoming, &outgoing);
            let started = std::thread::Builder::new().name("nearhead-bulk".to_owned()).spawn(body);
            threads.push(started.map_err(|error| from_io("start a thread for", &"bulk", &error))?);
        }
        let jobs = Some(jobs);
        Ok(Self { file, gate, jobs, done, threads, outstanding: 0, spare: Vec::new() })
    }

    pub(super) fn file(&self) -> &DurableFile {
        &self.file
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Memory for a piece, of one that came back if possible.
    pub(super) fn memory(&mut self) -> BufferMut {
        self.spare.pop().unwrap_or_else(|| BufferMut::zeroed(PIECE_BYTES))
    }

    /// Takes memory back.
    pub(super) fn recycle(&mut self, memory: BufferMut) {
        self.spare.push(memory);
    }

    /// Starts a piece as soon as the gate permits.
    pub(super) fn submit(&mut self, piece: Piece) -> Result<()> {
        self.gate.enter();
        self.hand_over(piece)
    }

    /// Starts a read if the gate permits it now.
    pub(super) fn try_read(&mut self, offset: u64, len: usize) -> Result<bool> {
        if !self.gate.try_enter() {
            return Ok(false);
        }
        let bytes = self.memory();
        self.hand_over(Piece { action: Action::Read, offset, bytes, len })?;
        Ok(true)
    }

    fn hand_over(&mut self, piece: Piece) -> Result<()> {
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(piece).is_ok());
        if !sent {
            self.gate.leave(0);
            return Err(gone());
        }
        self.outstanding += 1;
        Ok(())
    }

    /// The next piece that came back; waits for one if `may_wait`.
    pub(super) fn next_done(&mut self, may_wait: bool) -> Result<Option<Done>> {
        if self.outstanding == 0 {
            return Ok(None);
        }
        let done = if may_wait {
            Some(self.done.recv().map_err(|_| gone())?)
        } else {
            self.done.try_recv().ok()
        };
        self.outstanding -= usize::from(done.is_some());
        Ok(done)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by itself.
            let _ = thread.join();
        }
    }
}

#[cold]
fn gone() -> WalError {
    WalError::new(WalErrorKind::Io, "the threads of a bulk stream ended before it did")
}

fn carry_out(
    file: &DurableFile,
    gate: &Gate,
    incoming: &Mutex<Receiver<Piece>>,
    outgoing: &Sender<Done>,
) {
    // A hint: without it bulk is only less polite.
    let _ = set_thread_priority(IoPriority::BEST_EFFORT_LAST);
    loop {
        let next = incoming.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut piece) = next else { return };
        let outcome = match piece.action {
            Action::Read => file.read_at(&mut piece.bytes, piece.offset),
            Action::Write if file.is_direct() => {
                file.write_at(&piece.bytes[..piece.len], piece.offset).map(|()| piece.len)
            }
            Action::Write => {
                file.write_durable_at(&piece.bytes[..piece.len], piece.offset).map(|()| piece.len)
            }
        };
        gate.leave(piece.len);
        let action = if piece.action == Action::Read { "read" } else { "write" };
        let outcome = outcome.map_err(|error| from_io(action, &file.name(), &error));
        if outgoing.send((piece, outcome)).is_err() {
            return;
        }
    }
}
