//! A client of a database: it sends a line and waits for the line that acknowledges it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A connection, by a socket or through the database's own client program.
pub struct Client {
    to: Box<dyn Write>,
    from: BufReader<Box<dyn Read>>,
    program: Option<Child>,
}

impl Client {
    /// Starts a client program.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let started =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut program = started.map_err(|error| format!("a client: {error}"))?;
        let (Some(to), Some(from)) = (program.stdin.take(), program.stdout.take()) else {
            return Err("a client without pipes".to_owned());
        };
        Ok(Self { to: Box::new(to), from: BufReader::new(Box::new(from)), program: Some(program) })
    }

    /// Connects to a socket.
    ///
    /// # Errors
    /// Where no server listens.
    pub fn connect(socket: &Path) -> Result<Self, String> {
        let from = UnixStream::connect(socket).map_err(|error| error.to_string())?;
        let to = from.try_clone().map_err(|error| error.to_string())?;
        Ok(Self { to: Box::new(to), from: BufReader::new(Box::new(from)), program: None })
    }

    /// Number of the client program.
    pub fn program(&mut self) -> Option<&mut Child> {
        self.program.as_mut()
    }

    /// Sends a line, without waiting; false if there is no server any more.
    pub fn send(&mut self, line: &str) -> bool {
        self.to.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.to.flush()).is_ok()
    }

    /// Sends a line; returns the next one that comes, or `None` at the end.
    pub fn ask(&mut self, line: &str) -> Option<String> {
        if !self.send(line) {
            return None;
        }
        let mut answer = String::new();
        let read = self.from.read_line(&mut answer).ok()?;
        (read > 0 && answer.ends_with('\n')).then(|| answer.trim_end().to_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(mut program) = self.program.take() {
            // It may have ended with its server.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}
