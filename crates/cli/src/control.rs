//! The control socket of a running daemon: where it is, and how to ask it something.
//!
//! One command a line, one JSON object a line in answer: `{"ok": ...}` or `{"error": "..."}`. The
//! path follows from the target, so that `nearhead status TARGET` finds the daemon that serves it.

use crate::target::backing_path;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer may take: commands run between requests, so only a stuck disk delays them.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest part of a file's name that a derived path keeps, in bytes (socket paths end at 107).
const NAME_BYTES_MAX: usize = 32;

/// One answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// What was asked for.
    Ok(T),
    /// Why not.
    Error(String),
}

impl<T: Serialize> Answer<T> {
    /// The answer as a line.
    pub fn line(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|error| format!("{{\"error\":\"internal: {error}\"}}"))
    }
}

/// Where a daemon that serves `target` may have its control socket, the first that can be is best.
pub fn derived_paths(target: &str) -> Result<Vec<PathBuf>, String> {
    let backing = backing_path(target)?.unwrap_or_else(|| PathBuf::from(target));
    let path = std::fs::canonicalize(&backing).unwrap_or(backing);
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = file_name
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    let hash = crc_of(path.as_os_str().as_encoded_bytes());
    let name = format!("{name}-{hash:08x}.control");
    Ok(directories().into_iter().map(|directory| directory.join(&name)).collect())
}

fn crc_of(bytes: &[u8]) -> u32 {
    nearhead_format::crc::crc32c(bytes)
}

/// Directories for sockets, best first: what the service manager gave, the system's for root, the
/// user's own.
fn directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut directories = Vec::new();
    if let Some(given) = variable("RUNTIME_DIRECTORY") {
        directories.push(PathBuf::from(given));
    }
    let system = PathBuf::from("/run/nearhead");
    let user =
        variable("XDG_RUNTIME_DIR").map(|directory| PathBuf::from(directory).join("nearhead"));
    if rustix::process::geteuid().is_root() {
        directories.push(system);
        directories.extend(user);
    } else {
        directories.extend(user);
        directories.push(system);
    }
    directories
}

/// A connection to a daemon.
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// The daemon that serves `target`, if one does; `control` names its socket if given.
    pub fn find(target: &str, control: Option<&Path>) -> Result<Option<Self>, String> {
        if let Some(path) = control {
            return Self::connect(path).map(Some).map_err(|error| {
                format!(
                    "control socket {}: expected a running daemon, found {error}; check the path, \
                     or leave --control out to look at the volume itself",
                    path.display()
                )
            });
        }
        let paths = derived_paths(target)?;
        Ok(paths.iter().find_map(|path| Self::connect(path).ok()))
    }

    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
        Ok(Self { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its answer.
    pub fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Result<T, String> {
        let shown = self.path.display();
        let failed = |problem: &dyn std::fmt::Display| {
            format!("control socket {shown}: `{command}` got no answer: {problem}")
        };
        let mut line = String::new();
        writeln!(self.stream.get_mut(), "{command}").map_err(|error| failed(&error))?;
        let len = self.stream.read_line(&mut line).map_err(|error| failed(&error))?;
        if len == 0 {
            return Err(failed(&"the daemon closed the connection"));
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Ok(answer)) => Ok(answer),
            Ok(Answer::Error(problem)) => Err(problem),
            Err(error) => Err(failed(&format!(
                "expected an answer of this version of the program, found {error}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_always_has_the_same_socket_and_others_have_others() {
        let paths = |target: &str| derived_paths(target).unwrap();
        assert_eq!(paths("/no/such/a.img"), paths("/no/such/a.img"));
        assert_ne!(paths("/no/such/a.img"), paths("/no/other/a.img"));
        assert_eq!(paths("model:st3146855fc,file=/no/such/a.img"), paths("/no/such/a.img"));
        let long = format!("/no/{}", "x/y z".repeat(60));
        assert!(paths(&long).iter().all(|path| path.as_os_str().len() < 108));
    }

    #[test]
    fn an_answer_is_one_line_either_way() {
        assert_eq!(Answer::Ok(7).line(), "{\"ok\":7}");
        assert_eq!(Answer::<u8>::Error("no\nway".into()).line(), "{\"error\":\"no\\nway\"}");
    }
}
