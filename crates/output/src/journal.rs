//! Lines on the way (standard error), and how much each matters.
//!
//! Under a service manager whose journal standard error is (`JOURNAL_STREAM`, systemd.exec(5)), a line begins with its priority (sd-daemon(3))
//! and says no name, which the journal adds itself, as it does the time. Anywhere else it begins with the program's name.

use super::plain;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

/// How much a line matters, as syslog(3) counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    /// Nothing more can be changed, or worse.
    Critical = 2,
    Error = 3,
    Warning = 4,
    /// Worth a look.
    Notice = 5,
    /// What happens every day.
    Info = 6,
}

/// Prints a line about how it is going: one line, whatever names of files and texts of clients are in it.
pub fn note(line: &str) {
    print(Priority::Notice, line);
}

/// The same of what happens every day: a client came, a pass ended.
pub fn inform(line: &str) {
    print(Priority::Info, line);
}

/// The same of what somebody should look at soon.
pub fn warn(line: &str) {
    print(Priority::Warning, line);
}

/// The same of what went wrong.
pub fn blame(line: &str) {
    print(Priority::Error, line);
}

/// The same of what somebody must look at now.
pub fn alarm(line: &str) {
    print(Priority::Critical, line);
}

fn print(priority: Priority, line: &str) {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    let is_journal = *IS_JOURNAL.get_or_init(|| {
        std::env::var("JOURNAL_STREAM").is_ok_and(|told| Some(told) == stderr_identity())
    });
    // Nobody to tell: nothing to be done about it.
    let _ = io::stderr().lock().write_all(formed(priority, line, is_journal).as_bytes());
}

fn formed(priority: Priority, line: &str, is_journal: bool) -> String {
    if is_journal {
        format!("<{}>{}\n", priority as u8, plain(line))
    } else {
        format!("nearhead: {}\n", plain(line))
    }
}

/// Device and inode of standard error, as `JOURNAL_STREAM` names them.
fn stderr_identity() -> Option<String> {
    let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let found = file.metadata().ok()?;
    Some(format!("{}:{}", found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_the_journal_has_its_priority_and_one_for_people_the_name() {
        assert_eq!(formed(Priority::Error, "a\nb", true), "<3>a\\nb\n");
        assert_eq!(formed(Priority::Info, "a", true), "<6>a\n");
        assert_eq!(formed(Priority::Critical, "a", false), "nearhead: a\n");
    }
}
