//! How a server is set up: where it listens, what it is called, and its limits.

use super::control::{Context, Control, Handler, LastWords};
use super::error::ServerError;
use super::event_loop::Report;
use super::event_loop::Server;
use super::listener::{Listener, SocketAccess};
use super::shutdown;
use super::tls::TlsKeys;
use crate::protocol::{REQUEST_BYTES_MAX, TlsMode};
use nearhead_disk::Nanos;
use std::net::SocketAddr;
use std::path::Path;

/// The bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients served at once.
    pub connections_max: usize,
    /// Requests of one client at the service.
    pub client_requests_max: usize,
    /// Requests of all clients at the service.
    pub requests_max: usize,
    /// Memory for the requests and replies of one client, in bytes.
    pub client_bytes_max: usize,
    /// Memory for the requests and replies of all clients, in bytes.
    pub bytes_max: usize,
    /// How long a client may hold memory that others wait for without taking or giving a byte.
    pub stall_max: Nanos,
    /// How long a handshake may take, TLS included.
    pub handshake_max: Nanos,
    /// How long a handshake may take while all places are taken: then the oldest one that took longer
    /// makes room for a newcomer.
    pub handshake_yields: Nanos,
    /// How long a graceful stop may take.
    pub shutdown_max: Nanos,
    /// Time before a deadline of the service from which on the loop looks at the clock instead of
    /// sleeping. Sleeping ends late, by 37 us at the median and 62 us at p90 on a virtual machine;
    /// an emulated disk must not. While requests are under way that takes a processor; 0 only ever sleeps.
    pub timer_look: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            client_requests_max: 256,
            requests_max: 8192,
            client_bytes_max: 64 << 20,
            bytes_max: 512 << 20,
            stall_max: Nanos::from_secs(30),
            handshake_max: Nanos::from_secs(10),
            handshake_yields: Nanos::from_secs(1),
            shutdown_max: Nanos::from_secs(30),
            timer_look: Nanos::from_micros(100),
        }
    }
}

/// A tick's period and what it does.
pub(crate) type Tick<'a, S> = (Nanos, Box<dyn FnMut(&mut Context<'_, S>) + 'a>);

/// Sets up a [`Server`].
pub struct ServerBuilder<'a, S: ?Sized> {
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    exports: Vec<String>,
    controls: Vec<Control<'a, S>>,
    last_words: Option<LastWords<'a, S>>,
    tick: Option<Tick<'a, S>>,
    notice: Box<dyn FnMut(&str) + 'a>,
    visit: Box<dyn FnMut(&str) + 'a>,
    limits: Limits,
    tls: Option<(TlsMode, TlsKeys)>,
    whole_blocks: bool,
    is_served_otherwise: bool,
}

impl<S: ?Sized> Default for ServerBuilder<'_, S> {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            addresses: Vec::new(),
            exports: Vec::new(),
            controls: Vec::new(),
            last_words: None,
            tick: None,
            notice: Box::new(|_| {}),
            visit: Box::new(|_| {}),
            limits: Limits::default(),
            tls: None,
            whole_blocks: false,
            is_served_otherwise: false,
        }
    }
}

impl<'a, S: ?Sized> ServerBuilder<'a, S> {
    /// Listens on a Unix socket at `path`. A socket on which nobody answers is replaced.
    pub fn listen_unix(self, path: impl AsRef<Path>) -> Result<Self, ServerError> {
        self.listen_unix_for(path, SocketAccess::default())
    }

    /// Listens on a Unix socket at `path` on which those that `access` names may connect, and nobody
    /// else at any moment.
    pub fn listen_unix_for(
        mut self,
        path: impl AsRef<Path>,
        access: SocketAccess,
    ) -> Result<Self, ServerError> {
        self.listeners.push(Listener::unix(path.as_ref(), access)?);
        Ok(self)
    }

    /// Listens on a TCP address such as `127.0.0.1:10809`; without a port on 10809, which IANA
    /// assigned to NBD.
    pub fn listen_tcp(mut self, address: &str) -> Result<Self, ServerError> {
        for (listener, address) in Listener::tcp(address)? {
            self.listeners.push(listener);
            self.addresses.push(address);
        }
        Ok(self)
    }

    /// Listens on the sockets that the parent process hands over (systemd socket activation).
    pub fn listen_activated(mut self) -> Result<Self, ServerError> {
        self.listeners.extend(Listener::activated()?);
        Ok(self)
    }

    /// Offers the service under `name` too; without any name it is the default export `""`.
    #[must_use]
    pub fn export(mut self, name: impl Into<String>) -> Self {
        self.exports.push(name.into());
        self
    }

    /// Encrypts connections, if the client wants or always.
    #[must_use]
    pub fn tls(mut self, mode: TlsMode, keys: impl Into<TlsKeys>) -> Self {
        self.tls = Some((mode, keys.into()));
        self
    }

    /// Offers the service's own smallest block and takes nothing smaller, instead of putting
    /// requests at any byte together from whole blocks.
    #[must_use]
    pub fn whole_blocks(mut self) -> Self {
        self.whole_blocks = true;
        self
    }

    /// The service has other clients as well: it is driven also if nobody can connect.
    #[must_use]
    pub fn served_otherwise(mut self) -> Self {
        self.is_served_otherwise = true;
        self
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Answers command lines on a Unix socket at `path`: one line in, one line out.
    pub fn control(
        mut self,
        path: impl AsRef<Path>,
        handler: impl FnMut(&str, &mut Context<'_, S>) -> String + 'a,
    ) -> Result<Self, ServerError> {
        let handler: Handler<'a, S> = Box::new(handler);
        let listener = Listener::unix(path.as_ref(), SocketAccess::default())?;
        self.controls.push(Control::new(self.controls.len() as u32, listener, handler));
        Ok(self)
    }

    /// What everybody who is connected to a control socket is told last, when it is known how the server ended.
    #[must_use]
    pub fn last_words(mut self, last_words: impl FnMut(&Report, &S) -> String + 'a) -> Self {
        self.last_words = Some(Box::new(last_words));
        self
    }

    /// Calls `tick` every `period`.
    #[must_use]
    pub fn every(mut self, period: Nanos, tick: impl FnMut(&mut Context<'_, S>) + 'a) -> Self {
        self.tick = Some((period.max(Nanos::from_millis(1)), Box::new(tick)));
        self
    }

    /// Tells `notice` what people may want to know: who was cut off and why.
    #[must_use]
    pub fn notices(mut self, notice: impl FnMut(&str) + 'a) -> Self {
        self.notice = Box::new(notice);
        self
    }

    /// Tells `visit` of each client that comes and goes, in a line.
    #[must_use]
    pub fn visits(mut self, visit: impl FnMut(&str) + 'a) -> Self {
        self.visit = Box::new(visit);
        self
    }

    /// Checks everything and reads the TLS files.
    pub fn build(self) -> Result<Server<'a, S>, ServerError> {
        if self.listeners.is_empty() && !self.is_served_otherwise {
            return Err(ServerError::NothingToListenOn);
        }
        let mut limits = self.limits;
        // A single request of the largest size must fit, with a copy of it.
        limits.bytes_max = limits.bytes_max.max(3 * REQUEST_BYTES_MAX as usize);
        limits.client_requests_max = limits.client_requests_max.max(1);
        limits.requests_max = limits.requests_max.max(1);
        let (tls_mode, tls) = match self.tls {
            Some((TlsMode::Off, _)) | None => (TlsMode::Off, None),
            Some((mode, keys)) => (mode, Some(keys.load()?)),
        };
        let failed = |source| ServerError::EventLoop { step: "socketpair", source };
        let (shutdown_handle, shutdown) = shutdown::pair().map_err(failed)?;
        Ok(Server {
            listeners: self.listeners,
            addresses: self.addresses,
            exports: self.exports,
            controls: self.controls,
            last_words: self.last_words,
            tick: self.tick,
            notice: self.notice,
            visit: self.visit,
            limits,
            tls_mode,
            tls,
            whole_blocks: self.whole_blocks,
            shutdown_handle,
            shutdown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::testing::info;
    use crate::protocol::{ClientCommand, ClientRequest, Export, Handle};
    use crate::server::testing::Recorder;
    use crate::server::tls::TlsFiles;
    use nearhead_disk::Payload;
    use nearhead_service::ServiceInfo;

    /// Listens where nobody else does.
    fn builder(name: &str) -> ServerBuilder<'static, Recorder> {
        let name = format!("nearhead-nbd-{}-{name}", std::process::id());
        Server::builder().listen_unix(std::env::temp_dir().join(name)).unwrap()
    }

    #[test]
    fn a_request_of_the_largest_size_fits_into_the_least_memory_that_there_is() {
        let limits =
            Limits { bytes_max: 0, client_requests_max: 0, requests_max: 0, ..Limits::default() };
        let limits = builder("least").limits(limits).build().unwrap().limits;
        let info = ServiceInfo { request_bytes_max: REQUEST_BYTES_MAX, ..info() };
        let request = ClientRequest {
            handle: Handle { cookie: 1, offset: 1 },
            command: ClientCommand::Write,
            fua: false,
            offset: 1,
            len: u64::from(REQUEST_BYTES_MAX),
            payload: Payload::EMPTY,
        };
        let needed = Export::new(Vec::new(), info).unwrap().at_any_byte().memory_bytes(&request);
        assert!(limits.bytes_max >= needed, "{} of {needed}", limits.bytes_max);
        assert_eq!((limits.client_requests_max, limits.requests_max), (1, 1));
    }

    #[test]
    fn each_word_adds_to_what_was_said_before() {
        let server = builder("words").export("one").export("two").whole_blocks().build().unwrap();
        assert_eq!(server.exports, ["one", "two"]);
        assert!(server.whole_blocks && server.listeners.len() == 1);
        let files = TlsFiles::in_directory(Path::new("/no/such/directory"));
        let error = builder("keys").tls(TlsMode::Required, files).build().err().unwrap();
        assert!(matches!(error, ServerError::Tls { .. }), "{error}");
    }
}
