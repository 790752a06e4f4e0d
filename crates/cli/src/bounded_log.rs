//! Bound of the log of a process in the background: a log that became too long begins again, with its newest lines in a second file.
//!
//! The log is in memory (`/run`), and a worker that fails at every start would fill that within days. Only the process's own log is ever
//! cut, and only while all its writers append: standard error of another kind is left alone. Lines written between reading the newest
//! lines and the cut may be lost. The process must not wait for long, so at most [`KEPT_BYTES`] are read and written.

use nearhead_output::note;
use rustix::fs::{OFlags, fcntl_getfl};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Length beyond which a log is cut, in bytes.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// Newest bytes that are kept, from the beginning of a line.
const KEPT_BYTES: u64 = 1 << 20;
/// Interval between two checks of the length.
pub const CHECK_EVERY: Duration = Duration::from_secs(10);

/// Bounds one log.
#[derive(Debug)]
pub struct BoundedLog {
    log: PathBuf,
    before: PathBuf,
    checked: Instant,
}

impl BoundedLog {
    /// The log at `log`; its newest lines when it is cut go to `before`.
    pub fn new(log: PathBuf, before: PathBuf) -> Self {
        Self { log, before, checked: Instant::now() }
    }

    /// Cuts the log if it is this process's and too long. May be called at any time: it checks every [`CHECK_EVERY`].
    pub fn check(&mut self) {
        if self.checked.elapsed() < CHECK_EVERY {
            return;
        }
        self.checked = Instant::now();
        if let Err(why) = bound(io::stderr(), &self.log, &self.before) {
            note(&why);
        }
    }
}

/// Cuts the file at `log`, if it is what `written` writes to and too long; its newest lines are in `before` then. An error says what could not
/// be done; the log is cut also if only keeping its lines failed.
fn bound(written: impl AsFd, log: &Path, before: &Path) -> Result<(), String> {
    // Without a log at that path there is nothing to do.
    let Ok(file) = OpenOptions::new().read(true).write(true).open(log) else { return Ok(()) };
    let failed = |error: io::Error| format!("{}: cannot be cut: {error}", log.display());
    let len = file.metadata().map_err(failed)?.len();
    if len <= LOG_BYTES_MAX || !is_appended_to(written, &file).map_err(failed)? {
        return Ok(());
    }
    let kept = newest_lines(&file, len).and_then(|lines| std::fs::write(before, lines));
    file.set_len(0).map_err(failed)?;
    kept.map_err(|error| {
        format!(
            "{}: expected to keep the newest lines of the log there, found {error}; they are lost",
            before.display()
        )
    })
}

/// Whether `written` appends to `file`; a writer that does not append goes on behind a hole after a cut.
fn is_appended_to(written: impl AsFd, file: &File) -> io::Result<bool> {
    let written = File::from(written.as_fd().try_clone_to_owned()?);
    let (one, other) = (written.metadata()?, file.metadata()?);
    let is_same = (one.dev(), one.ino()) == (other.dev(), other.ino());
    Ok(is_same && fcntl_getfl(&written)?.contains(OFlags::APPEND))
}

/// The last [`KEPT_BYTES`] of `file` without the piece of a line that they begin with; nothing of a line that is longer.
fn newest_lines(file: &File, len: u64) -> io::Result<Vec<u8>> {
    // The byte before shows whether a line begins there.
    let from = len.saturating_sub(KEPT_BYTES + 1);
    let mut newest = vec![0; usize::try_from(len - from).map_err(io::Error::other)?];
    file.read_exact_at(&mut newest, from)?;
    if from > 0 {
        let end = newest.iter().position(|byte| *byte == b'\n');
        newest.drain(..end.map_or(newest.len(), |end| end + 1));
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = format!("nearhead-attach-log-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn log(&self) -> PathBuf {
            self.0.join("log")
        }

        fn before(&self) -> PathBuf {
            self.0.join("log.before")
        }

        fn appending(&self) -> File {
            OpenOptions::new().read(true).append(true).create(true).open(self.log()).unwrap()
        }

        fn len(&self) -> u64 {
            std::fs::metadata(self.log()).unwrap().len()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Numbered lines of different lengths, at least so many bytes.
    fn write_lines(log: &mut File, next: &mut u64, bytes: u64) {
        let mut text = String::new();
        while (text.len() as u64) < bytes {
            let filling = "x".repeat(usize::try_from(*next % 97).unwrap());
            text.extend(["line ", &next.to_string(), " ", &filling, " end\n"]);
            *next += 1;
        }
        log.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_log_is_bounded_whatever_is_written_and_its_newest_lines_are_whole() {
        let scratch = Scratch::new("bounded");
        let (mut log, mut next) = (scratch.appending(), 0);
        let mut cuts = 0;
        for step in 0..40 {
            write_lines(&mut log, &mut next, 300_000 + step * 1_001);
            let was = scratch.len();
            bound(&log, &scratch.log(), &scratch.before()).unwrap();
            assert!(scratch.len() <= LOG_BYTES_MAX);
            if scratch.len() == was {
                continue;
            }
            cuts += 1;
            assert_eq!(scratch.len(), 0, "who appends goes on at the beginning, not behind a hole");
            let kept = std::fs::read_to_string(scratch.before()).unwrap();
            assert!(kept.len() as u64 <= KEPT_BYTES && kept.len() as u64 > KEPT_BYTES - 200);
            assert!(kept.lines().all(|line| line.starts_with("line ") && line.ends_with(" end")));
            assert!(kept.lines().last().unwrap().starts_with(&format!("line {} ", next - 1)));
        }
        assert!(cuts >= 2, "{cuts}");
    }

    #[test]
    fn a_line_that_begins_where_the_kept_bytes_do_is_kept() {
        let scratch = Scratch::new("exact");
        let mut log = scratch.appending();
        let line = [vec![b'x'; 1023], vec![b'\n']].concat();
        log.write_all(&line.repeat(5 << 10)).unwrap();
        bound(&log, &scratch.log(), &scratch.before()).unwrap();
        assert_eq!(std::fs::read(scratch.before()).unwrap().len() as u64, KEPT_BYTES);
    }

    #[test]
    fn a_line_longer_than_what_is_kept_does_not_keep_the_log_from_being_cut() {
        let scratch = Scratch::new("long");
        let mut log = scratch.appending();
        log.write_all(&vec![b'x'; 5 << 20]).unwrap();
        bound(&log, &scratch.log(), &scratch.before()).unwrap();
        assert_eq!((scratch.len(), std::fs::read(scratch.before()).unwrap().len()), (0, 0));
    }

    #[test]
    fn a_log_is_cut_also_if_its_lines_cannot_be_kept_and_that_is_said() {
        let scratch = Scratch::new("unkept");
        let (mut log, mut next) = (scratch.appending(), 0);
        write_lines(&mut log, &mut next, 5 << 20);
        std::fs::create_dir(scratch.before()).unwrap();
        let why = bound(&log, &scratch.log(), &scratch.before()).unwrap_err();
        assert!(why.contains("log.before") && why.contains("lost"), "{why}");
        assert_eq!(scratch.len(), 0);
    }

    #[test]
    fn a_log_that_is_not_ours_or_not_appended_to_is_left_alone() {
        let scratch = Scratch::new("others");
        let (mut log, mut next) = (scratch.appending(), 0);
        write_lines(&mut log, &mut next, 5 << 20);
        let was = scratch.len();
        let elsewhere = File::create(scratch.0.join("elsewhere")).unwrap();
        let not_appending = OpenOptions::new().write(true).open(scratch.log()).unwrap();
        for written in [&elsewhere, &not_appending] {
            bound(written, &scratch.log(), &scratch.before()).unwrap();
            assert!(scratch.len() == was && !scratch.before().exists());
        }
        bound(&log, &scratch.0.join("none"), &scratch.before()).unwrap();
    }
}
