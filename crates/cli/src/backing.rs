//! Files under a volume that is served or mounted: whether they still have a name and all their bytes, and room to grow.
//!
//! A file that is deleted while it is open goes on working and is gone when the last process closes it. One that is cut short is made
//! longer again by the next write, and reads as zeros where something was. No command fails then, so the daemon checks the files. The
//! descriptors here read and write nothing.

use crate::target::{Beside, DiskArgs, backing_paths, space_notes};
use nearhead_arrays::MISSING;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::cell::Cell;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The files, held since the volume was opened.
#[derive(Debug, Default)]
pub struct Backing {
    /// What was named: the target, and its data devices.
    targets: Vec<String>,
    files: Vec<Held>,
}

/// One of them.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    file: OwnedFd,
    /// Bytes when it was opened; 0 of a device.
    len_bytes: u64,
    /// Fewest bytes it was seen to have, if that was fewer. Kept, as it may be long again a moment later.
    cut_to: Cell<Option<u64>>,
}

impl Held {
    fn of(path: PathBuf) -> Option<Self> {
        let file = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let len_bytes = len_of(&file)?;
        Some(Self { path, file, len_bytes, cut_to: Cell::new(None) })
    }

    fn is_deleted(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|found| found.st_nlink == 0)
    }

    fn cut_to(&self) -> Option<u64> {
        let now = len_of(&self.file).filter(|len| *len < self.len_bytes);
        self.cut_to.set(self.cut_to.get().into_iter().chain(now).min());
        self.cut_to.get()
    }
}

fn len_of(file: &OwnedFd) -> Option<u64> {
    rustix::fs::fstat(file).ok().and_then(|found| u64::try_from(found.st_size).ok())
}

impl Backing {
    /// Those of `target` and of the devices beside it.
    pub fn of(target: &str, args: &DiskArgs) -> Result<Self, String> {
        let mut targets = vec![target.to_owned()];
        targets.extend(Beside::of(args)?.all().filter(|text| *text != MISSING).cloned());
        let paths: Result<Vec<_>, String> =
            targets.iter().map(|target| backing_paths(target)).collect();
        let files = paths?.into_iter().flatten().filter_map(Held::of).collect();
        Ok(Self { targets, files })
    }

    /// They have become larger, and were opened anew.
    pub fn look_anew(&mut self) {
        let paths: Vec<PathBuf> = self.files.drain(..).map(|held| held.path).collect();
        self.files = paths.into_iter().filter_map(Held::of).collect();
    }

    /// Bytes of the file or device that was named, if it is one that is used as it is.
    pub fn device_bytes(&self) -> Option<u64> {
        let mut device = std::fs::File::open(Path::new(self.targets.first()?)).ok()?;
        device.seek(SeekFrom::End(0)).ok()
    }

    /// Which of them may take more space than there is now.
    pub fn without_space(&self) -> Vec<String> {
        self.targets.iter().flat_map(|target| space_notes(target)).collect()
    }

    /// What to say if one of them was deleted or cut short. The same trouble gives the same text.
    pub fn trouble(&self) -> Option<String> {
        let pid = std::process::id();
        if let Some(Held { path, file, .. }) = self.files.iter().find(|held| held.is_deleted()) {
            let (path, fd) = (path.display(), file.as_raw_fd());
            return Some(format!(
                "{path} was deleted while it is served, and all that is in it goes when process {pid} ends; \
                 to keep it, stop the clients, then: cp --sparse=always /proc/{pid}/fd/{fd} COPY"
            ));
        }
        let cut =
            |held: &Held| Some((held.path.display().to_string(), held.len_bytes, held.cut_to()?));
        let (path, expected, found) = self.files.iter().find_map(cut)?;
        Some(format!(
            "{path} was cut short while it is served: expected {expected} bytes, found {found}; what was behind is gone, and \
             reads there fail or give zeros: stop the clients, and restore the image from a backup"
        ))
    }

    /// What an orderly stop cannot promise, if anything.
    pub fn unkept(&self) -> Option<&'static str> {
        if self.files.iter().any(Held::is_deleted) {
            return Some(
                "everything was written, to a file that was deleted meanwhile and is gone now",
            );
        }
        let is_cut = self.files.iter().any(|held| held.cut_to().is_some());
        is_cut.then_some("everything was written, to a file that was cut short meanwhile and lost what was behind")
    }
}
