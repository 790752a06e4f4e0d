//! A volume or bare disk served over NBD on a Unix socket, by a thread of this process.
//!
//! Clients go through the socket like anybody else's; only the process is shared. The thread owns
//! the service, because a service is driven from one thread; stopping it is graceful.

use nearhead_nbd::{Clock, Ending, Limits, Server, ShutdownHandle};
use nearhead_service::Service;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

/// A running server.
pub(crate) struct Served {
    socket: PathBuf,
    stop: ShutdownHandle,
    thread: JoinHandle<Result<(), String>>,
}

impl Served {
    /// Serves what `make` makes, on a socket in `folder`. `make` runs on the server's
    /// thread and is told the instant that the service's clock counts from.
    pub(crate) fn start<S: Service>(
        folder: &Path,
        name: &str,
        limits: Limits,
        make: impl FnOnce(Instant) -> Result<S, String> + Send + 'static,
    ) -> Result<Self, String> {
        let socket = folder.join(format!("{name}.sock"));
        let (tell, told) = mpsc::channel();
        let path = socket.clone();
        let thread = std::thread::Builder::new()
            .name("nbd server".to_owned())
            .spawn(move || {
                // What is measured here is the disk, not who else computes.
                let _ = nearhead_uring::ask_for_short_slices();
                let start = Instant::now();
                let clock = Clock::since(start);
                let mut service = make(start)?;
                let builder = Server::builder().listen_unix(&path);
                let server = builder.and_then(|builder| builder.limits(limits).build());
                let server = server.map_err(|error| error.to_string())?;
                // Nobody left to tell means that the starter is gone, and with it the clients.
                let _ = tell.send(server.shutdown_handle());
                let report = server.run(&mut service, &clock).map_err(|error| error.to_string())?;
                match report.ending {
                    Ending::Graceful => Ok(()),
                    other => Err(format!("server: expected a graceful end, found {other:?}")),
                }
            })
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        match told.recv() {
            Ok(stop) => Ok(Self { socket, stop, thread }),
            Err(_) => Err(match thread.join() {
                Ok(Err(problem)) => problem,
                _ => "the server ended before it began (internal error)".to_owned(),
            }),
        }
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Stops it, waiting until what it holds is durable.
    pub(crate) fn stop(self) -> Result<(), String> {
        self.stop.request();
        self.thread.join().map_err(|_| "the server panicked (internal error)".to_owned())?
    }
}
