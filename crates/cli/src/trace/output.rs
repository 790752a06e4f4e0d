//! The file that a trace goes to: text, in frames of zstd if its name ends so, each whole.
//!
//! What is in the file can always be read to its end: a frame that could not be written whole (a full disk) is cut off again. Memory is one
//! frame; what is waited for longest goes to the file after some seconds, so a kill costs no more than these.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Text of a frame.
const FRAME_BYTES: usize = 1 << 20;
/// Text waits no longer for more.
const FRAME_AGE_MAX: Duration = Duration::from_secs(10);
const COMPRESSED: &str = "zst";
/// A compromise of zstd's own between time and size.
const LEVEL: i32 = 3;

/// A trace file being written.
pub(super) struct Output {
    path: PathBuf,
    file: File,
    is_compressed: bool,
    text: String,
    since: Instant,
    /// Bytes of whole frames in the file.
    pub(super) bytes: u64,
}

impl Output {
    /// A new file at `path`: one that is there stays as it is.
    pub(super) fn create(path: &Path) -> Result<Self, String> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let file = made.map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::AlreadyExists {
                "; name another one with --out"
            } else {
                ""
            };
            format!("trace --out {}: {error}{hint}", path.display())
        })?;
        let is_compressed = path.extension().is_some_and(|extension| extension == COMPRESSED);
        let (text, since, path) = (String::new(), Instant::now(), path.to_owned());
        Ok(Self { path, file, is_compressed, text, since, bytes: 0 })
    }

    /// Where further lines are appended.
    pub(super) fn text(&mut self) -> &mut String {
        &mut self.text
    }

    /// Writes what is due to be written.
    pub(super) fn write_due(&mut self) -> Result<(), String> {
        if self.text.len() >= FRAME_BYTES || self.since.elapsed() >= FRAME_AGE_MAX {
            self.write()?;
        }
        Ok(())
    }

    /// Writes all of it.
    pub(super) fn write(&mut self) -> Result<(), String> {
        self.since = Instant::now();
        if self.text.is_empty() {
            return Ok(());
        }
        let written = if self.is_compressed {
            zstd::bulk::compress(self.text.as_bytes(), LEVEL).and_then(|frame| {
                self.file.write_all(&frame)?;
                Ok(frame.len())
            })
        } else {
            self.file.write_all(self.text.as_bytes()).map(|()| self.text.len())
        };
        self.text.clear();
        match written {
            Ok(len) => {
                self.bytes += len as u64;
                Ok(())
            }
            Err(error) => {
                // Half a frame cannot be read; if it stays, reading ends there with an error that says so.
                let _ = self.file.set_len(self.bytes);
                Err(format!(
                    "trace: cannot write on to {}: {error}; the {} bytes before that are there and can be replayed",
                    self.path.display(),
                    self.bytes
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_plain_or_compressed() {
        let folder = std::env::temp_dir().join(format!("nearhead-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["a.trace", "a.trace.zst"] {
            let path = folder.join(name);
            let mut output = Output::create(&path).unwrap();
            for number in 0..3 {
                output.text().extend(["line ", &number.to_string(), "\n"]);
                output.write().unwrap();
            }
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(output.bytes, bytes.len() as u64);
            let text = nearhead_sim::trace::text(name, bytes).unwrap();
            assert_eq!(text, "line 0\nline 1\nline 2\n", "{name}");
            let again = Output::create(&path).err().unwrap();
            assert!(again.contains("--out"), "{again}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_ends_the_file_at_its_last_whole_frame() {
        let full = Path::new("/dev/full");
        if !full.exists() {
            return println!("skipped: no /dev/full here");
        }
        let file = OpenOptions::new().write(true).open(full).unwrap();
        let mut output = Output {
            path: full.to_owned(),
            file,
            is_compressed: true,
            text: "line\n".to_owned(),
            since: Instant::now(),
            bytes: 77,
        };
        let problem = output.write().unwrap_err();
        assert!(problem.contains("No space left") && problem.contains("77 bytes"), "{problem}");
        assert!(output.write().is_ok(), "nothing is left to write");
    }
}
