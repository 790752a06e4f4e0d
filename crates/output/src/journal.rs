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
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Lines begin with the time from now on: what they go to, a file, adds none.
static HAS_TIMES: AtomicBool = AtomicBool::new(false);

/// Lets every later line that is not for a journal begin with the time, in UTC.
pub fn tell_times() {
    HAS_TIMES.store(true, Ordering::Relaxed);
}

/// The text of a line of a log, without time and the program's name.
pub fn without_time(line: &str) -> &str {
    let text =
        line.split_once(' ').filter(|(time, _)| is_time(time)).map_or(line, |(_, text)| text);
    text.strip_prefix("nearhead: ").unwrap_or(text)
}

fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00.000Z";
    let is_alike = |(found, wanted): (char, char)| {
        if wanted == '0' { found.is_ascii_digit() } else { found == wanted }
    };
    text.len() == shape.len() && text.chars().zip(shape.chars()).all(is_alike)
}

/// The time after so many milliseconds since 1970, in UTC.
fn time(unix_ms: u64) -> String {
    let (days, ms) = ((unix_ms / 86_400_000) as i64, unix_ms % 86_400_000);
    // Howard Hinnant, "chrono-compatible low-level date algorithms": years that begin in March, in eras of 400.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!(
        "{:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z",
        year + era * 400 + next,
        ms % 1000
    )
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time(since.as_millis() as u64)
}

fn print(priority: Priority, line: &str) {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    let is_journal = *IS_JOURNAL.get_or_init(|| {
        std::env::var("JOURNAL_STREAM").is_ok_and(|told| Some(told) == stderr_identity())
    });
    // Nobody to tell: nothing to be done about it.
    let formed = formed(priority, line, is_journal);
    let has_time = HAS_TIMES.load(Ordering::Relaxed) && !is_journal;
    let formed = if has_time { format!("{} {formed}", now()) } else { formed };
    let _ = io::stderr().lock().write_all(formed.as_bytes());
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

    #[test]
    fn a_line_of_a_log_has_a_time_that_can_be_taken_off() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_764_361_496_789, "2025-11-28T20:24:56.789Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(unix_ms), expected);
            assert_eq!(without_time(&format!("{expected} nearhead: a b")), "a b");
        }
        assert_eq!(without_time("nearhead: a b"), "a b");
        assert_eq!(without_time("thread 'x' panicked"), "thread 'x' panicked");
    }
}
