//! The files under a served volume: whether they still have a name, and room to grow.
//!
//! A file that is deleted while it is open goes on working and is gone when the last process closes it.
//! Nothing fails then, so this is what notices. The descriptors here read and write nothing.

use crate::target::{backing_paths, space_notes};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::PathBuf;

/// The files, held since the volume was opened.
#[derive(Debug, Default)]
pub(super) struct Backing {
    target: String,
    files: Vec<(PathBuf, OwnedFd)>,
}

impl Backing {
    /// Those of `target`.
    pub(super) fn of(target: &str) -> Result<Self, String> {
        let hold = |path: PathBuf| {
            let held =
                rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
            Some((path, held))
        };
        Ok(Self {
            target: target.to_owned(),
            files: backing_paths(target)?.into_iter().filter_map(hold).collect(),
        })
    }

    /// Which of them may take more space than there is now.
    pub(super) fn without_space(&self) -> Vec<String> {
        space_notes(&self.target)
    }

    /// What to say if one of them was deleted. The same trouble gives the same text.
    pub(super) fn deleted(&self) -> Option<String> {
        let is_gone =
            |file: &OwnedFd| rustix::fs::fstat(file).is_ok_and(|found| found.st_nlink == 0);
        let (path, file) = self.files.iter().find(|(_, file)| is_gone(file))?;
        let (path, pid, fd) = (path.display(), std::process::id(), file.as_raw_fd());
        Some(format!(
            "{path} was deleted while it is served, and all that is in it goes when process {pid} ends; \
             to keep it, stop the clients, then: cp --sparse=always /proc/{pid}/fd/{fd} COPY"
        ))
    }
}
