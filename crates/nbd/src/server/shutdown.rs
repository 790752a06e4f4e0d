//! How the owner asks the server to stop, from another thread or a signal handler.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Asks a server to stop. Clones ask the same server.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    sender: Arc<UnixStream>,
}

/// The server's end.
#[derive(Debug)]
pub(crate) struct ShutdownReceiver {
    receiver: UnixStream,
}

pub(crate) fn pair() -> io::Result<(ShutdownHandle, ShutdownReceiver)> {
    let (sender, receiver) = UnixStream::pair()?;
    sender.set_nonblocking(true)?;
    receiver.set_nonblocking(true)?;
    Ok((ShutdownHandle { sender: Arc::new(sender) }, ShutdownReceiver { receiver }))
}

impl ShutdownHandle {
    /// Asks once more: the first time for a graceful stop, the second time for an immediate one.
    pub fn request(&self) {
        // A full pipe holds more requests than anybody can mean.
        let _ = (&*self.sender).write(&[1]);
    }

    /// A descriptor each byte written to which is one request: for signal handlers that can only
    /// write to a pipe.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.sender.try_clone()?.into())
    }
}

impl ShutdownReceiver {
    /// How often a stop was asked for since the last call.
    pub(crate) fn requests(&self) -> usize {
        let mut bytes = [0; 16];
        rustix::io::read(&self.receiver, &mut bytes).unwrap_or(0)
    }
}

impl AsFd for ShutdownReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
