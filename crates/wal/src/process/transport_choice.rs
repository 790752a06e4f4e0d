//! Which way a program and its helper exchange frames: what is wished for, and what it came to.
//!
//! The ring costs fewer system calls; the socket alone works everywhere. A wish that names one gets it
//! or an error, never the other.

use crate::error::{Result, WalError, WalErrorKind};

/// Names the way, when the options leave it open.
const TRANSPORT_VARIABLE: &str = "NEARHEAD_WAL_TRANSPORT";

/// The way that is wished for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// What `NEARHEAD_WAL_TRANSPORT` names (`auto`, `ring`, `socket`); `auto` is the ring where there
    /// are memory files, else the socket.
    #[default]
    Automatic,
    /// Rings in shared memory, or an error.
    Ring,
    /// The socket alone.
    Socket,
}

/// The way that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Ring,
    Socket { instead: Option<String> },
}

impl Transport {
    /// What is wished for, with the environment asked.
    ///
    /// # Errors
    /// [`WalErrorKind::OutOfRange`] if it names no way.
    pub(super) fn resolved(self) -> Result<Self> {
        match (self, std::env::var_os(TRANSPORT_VARIABLE)) {
            (Self::Automatic, Some(named)) => Self::named(&named.to_string_lossy()),
            _ => Ok(self),
        }
    }

    fn named(name: &str) -> Result<Self> {
        match name {
            "" | "auto" => Ok(Self::Automatic),
            "ring" => Ok(Self::Ring),
            "socket" => Ok(Self::Socket),
            _ => {
                let detail = format!(
                    "{TRANSPORT_VARIABLE}: expected auto, ring or socket, found {name:?}; correct or unset it"
                );
                Err(WalError::new(WalErrorKind::OutOfRange, detail))
            }
        }
    }
}

impl Taken {
    /// As the line about the writer says it.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Ring => "told through a ring in shared memory".to_owned(),
            Self::Socket { instead: None } => "told through a socket".to_owned(),
            Self::Socket { instead: Some(why) } => {
                format!("told through a socket, as there is no ring: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_none_is_refused_by_its_name() {
        assert_eq!(Transport::named("ring"), Ok(Transport::Ring));
        assert_eq!(Transport::named("socket"), Ok(Transport::Socket));
        assert_eq!(Transport::named("auto"), Ok(Transport::Automatic));
        let error = Transport::named("rings").unwrap_err();
        assert!(error.detail.contains("\"rings\"") && error.detail.contains("socket"), "{error}");
    }
}
