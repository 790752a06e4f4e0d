//! An interactive shell on a terminal of its own, as somebody uses it who presses keys.

use super::Scratch;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};

/// A running shell; killed when dropped. Its set-up binds [`SHOW`] to a command that prints the line that is being typed between these two marks.
pub struct Terminal {
    child: Child,
    keys: File,
    seen: String,
}

/// How often it is asked again, as who is late is left out: daemons, and candidates altogether, on a machine that has much to do.
pub const TRIES: u32 = 20;

/// The key.
const SHOW: &str = "\u{14}";
/// What stands around the line that is printed.
pub const MARKS: (&str, &str) = ("<<", ">>");

impl Terminal {
    /// Starts `command` in `scratch`, with the program in front of the path.
    pub fn start(scratch: &Scratch, mut command: Command) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let other = File::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap());
        command.current_dir(scratch.path("")).env_clear();
        command.env("PATH", path_with_program()).env("TERM", "dumb").env("LC_ALL", "C.UTF-8");
        command.env("RUNTIME_DIRECTORY", scratch.path("run")).env("HOME", scratch.path(""));
        command.stdin(other.try_clone().unwrap()).stdout(other.try_clone().unwrap()).stderr(other);
        Self { child: command.spawn().unwrap(), keys: keys.into(), seen: String::new() }
    }

    /// What stands in the line after `keys` were pressed in an empty one.
    pub fn line_after(&mut self, keys: &str) -> String {
        // To the end of the line, and away with what is before it.
        let keys = format!("\u{5}\u{15}{keys}{SHOW}");
        self.keys.write_all(keys.as_bytes()).unwrap();
        let begun = self.seen.len();
        loop {
            if let Some(line) = between_marks(&self.seen[begun..]) {
                return line.to_owned();
            }
            let mut bytes = [0; 4096];
            let count = self.keys.read(&mut bytes).unwrap_or_default();
            assert!(count > 0, "the shell ended: {}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn between_marks(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once(MARKS.0)?;
    Some(behind.split_once(MARKS.1)?.0)
}

/// `PATH` with the program under test.
pub fn path_with_program() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_nearhead")).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}
