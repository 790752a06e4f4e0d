//! Permits for checkpoints that can wait, kept in ZooKeeper: of the volumes that name the same path, as many may copy
//! home at once as there are permits, so that replicas of each other never do it together.
//!
//! [`Lease`] is what a daemon holds. It has a thread of its own, the only one that talks to ZooKeeper; the daemon's
//! thread tells it whether the volume wants a permit and learns whether it has one, under a lock that nobody holds while
//! waiting. What it keeps true:
//!
//! - a permit counts only while a server has answered recently enough that the session cannot have expired: when the
//!   ensemble is away, or this process was stopped for a while, the permit is gone before anybody else can have it;
//! - a permit is given back only after the daemon said that it no longer wants it, and was told in the same call that
//!   it no longer has it;
//! - whatever happens to the ensemble, nobody waits for it: no permit is the answer.
//!
//! It must never be needed for what has to happen: a full log is emptied without a permit.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod permits;
mod session;
mod shared;

pub use shared::{Phase, View};

use shared::Shared;
use std::sync::Arc;
use std::time::Duration;

/// Asked of the ensemble, which may answer with another bound: after so long without a sign of life a permit is
/// somebody else's. Long enough for a pause of a busy server, short enough that nobody misses a window.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// A stop waits so long at most for the permit to be given back; a session that is not closed expires.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What a lease is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// `HOST:PORT[,HOST:PORT...]`.
    pub servers: String,
    /// Path under which permits are kept; made if it is missing.
    pub path: String,
    /// How many there are, at least 1.
    pub permits: u32,
    /// Who asks, for people who look at ZooKeeper.
    pub holder: String,
    /// See [`SESSION_TIMEOUT`].
    pub session_timeout: Duration,
    /// As whom; the znodes are then theirs alone. Without it, they are anybody's.
    pub identity: Option<Identity>,
}

/// Who asks, as ZooKeeper's `addauth` takes it: all volumes with the same path are the same one.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    scheme: String,
    credentials: String,
}

impl Identity {
    /// Reads `SCHEME CREDENTIALS`, such as `digest user:password`.
    ///
    /// # Errors
    /// What is wrong with it, without what it says: it is a secret.
    pub fn parse(line: &str) -> Result<Self, String> {
        let wrong = |found: &str| {
            format!("expected SCHEME CREDENTIALS, such as `digest user:password`, found {found}")
        };
        let (scheme, credentials) =
            line.trim().split_once(' ').ok_or_else(|| wrong("one word or none"))?;
        let credentials = credentials.trim();
        if scheme == "digest" && !credentials.contains(':') {
            return Err(wrong("no `:` between user and password"));
        }
        Ok(Self { scheme: scheme.to_owned(), credentials: credentials.to_owned() })
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Identity({} ...)", self.scheme)
    }
}

/// A volume's part in taking turns.
#[derive(Debug)]
pub struct Lease {
    shared: Arc<Shared>,
}

impl Lease {
    /// Begins to look for the ensemble. `tell` is given a line when it is away and when it is back, on the lease's thread.
    pub fn start(config: Config, tell: impl FnMut(&str) + Send + 'static) -> std::io::Result<Self> {
        let (shared, changes) = Shared::new();
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new().name("permits".to_owned()).spawn(move || {
            session::run(&config, &theirs, &changes, tell);
            theirs.end();
        })?;
        Ok(Self { shared })
    }

    /// Says whether a permit is wanted and tells whether there is one now. Ask often (several times a second): a permit
    /// that was lost is known only from this. Never waits.
    pub fn exchange(&self, wants: bool) -> bool {
        self.shared.exchange(wants)
    }

    /// How it stands, for people.
    pub fn view(&self) -> View {
        self.shared.view()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.stop(STOP_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_scheme_and_a_secret_that_no_message_shows() {
        let identity = Identity::parse("digest  nearhead:s3cret \n").unwrap();
        assert_eq!((&*identity.scheme, &*identity.credentials), ("digest", "nearhead:s3cret"));
        assert!(!format!("{identity:?}").contains("s3cret"));
        for (wrong, why) in
            [("", "one word or none"), ("s3cret", "one word or none"), ("digest s3cret", "no `:`")]
        {
            let error = Identity::parse(wrong).unwrap_err();
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
        }
    }
}
