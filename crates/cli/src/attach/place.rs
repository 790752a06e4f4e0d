//! Where an attached volume is on this machine: a folder of its own below [`DIRECTORY`], and its link below [`LINKS`].
//!
//! ```text
//! /run/nearhead/attached/NAME/lock        held by the process that supervises, for as long as it lives
//!                             facts.json  facts that other commands need to find, use and detach it
//!                             file/       where the volume is shown as a file, if it is
//!                             identity.json  volume and settings that later workers open (`identity.rs`)
//!                             settings    what `nearhead set` changed, for later workers
//!                             answered    writes that were answered and are not flushed yet (nearhead-handover)
//!                             ended       that the device was taken away, where the kernel does not say so at once
//!                             socket      takes `upgrade`
//!                             log         messages of its processes, unless it runs in the foreground
//!                             log.before  the newest lines of it when it was cut, if it was
//!                             failed      why it did not end well, if it did not
//! /dev/nearhead/NAME                      -> the block device
//! /run/nearhead/devices/DEVICE            -> NAME, for udev (`udev.rs`)
//! ```
//!
//! All of it is gone after a restart of the machine. Writes in `answered` outlive everything else here: only a worker that carries them out
//! and `detach --force` remove them. Nothing here reads `file/`: the process that serves it may be the caller.

use super::identity::Identity;
use super::udev;
use crate::target::backing_path;
use nearhead_settings::ServeArgs;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Attached volumes, a folder each.
const DIRECTORY: &str = "/run/nearhead/attached";
/// Links to their devices.
const LINKS: &str = "/dev/nearhead";
/// Longest name, in bytes: with the rest, a socket's path holds it.
const NAME_BYTES_MAX: usize = 48;

/// The place of one name.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: String,
    folder: PathBuf,
}

/// Facts about an attached volume, for other commands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Facts {
    /// As the user named it.
    pub(super) target: String,
    /// The block device, such as `/dev/loop3`.
    pub(super) device: PathBuf,
    /// The way it was made.
    pub(super) by: String,
    /// The control socket of the daemon.
    pub(super) control: Option<PathBuf>,
    /// Another worker can go on where one was killed.
    #[serde(default)]
    pub(super) outlives_a_kill: bool,
    /// The process that supervises; none of an older program.
    #[serde(default)]
    pub(super) supervisor: Option<u32>,
    /// The process that serves, or served last.
    #[serde(default)]
    pub(super) worker: Option<u32>,
    /// Why no worker serves now, if none does.
    #[serde(default)]
    pub(super) trouble: Option<String>,
}

/// The lock of its supervisor, held for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not used")] File);

/// The link of the attached volume that is called so, if one is.
pub fn link_of(name: &str) -> Option<PathBuf> {
    Place::named(name).ok().map(|place| place.link()).filter(|link| link.exists())
}

impl Place {
    /// The place called `name`.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_word = !name.is_empty() && name.chars().all(is_good) && !name.starts_with('.');
        if !is_word || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "--as {name}: expected up to {NAME_BYTES_MAX} letters, digits and any of ._- (no dot in front), found something else"
            ));
        }
        Ok(Self { name: name.to_owned(), folder: Path::new(DIRECTORY).join(name) })
    }

    /// The place of what `args` name, called as they say or after the device or file.
    pub(super) fn of(args: &ServeArgs, name: Option<&str>) -> Result<Self, String> {
        if let Some(name) = name {
            return Self::named(name);
        }
        let target = args.target()?;
        let path = backing_path(target)?;
        let stem = path.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
        let is_good = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
        let name: String = stem.unwrap_or_default().chars().filter(is_good).collect();
        let name = name.trim_start_matches('.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "attach {target}: expected a name for it, found none that fits; give --as NAME"
            ));
        }
        Self::named(name)
    }

    /// Whether anything is left of it, or is there.
    pub(super) fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// All that are there.
    pub(super) fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut all: Vec<Self> = names.filter_map(|name| Self::named(&name).ok()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The attached volume that `text` means: its name, its link, its device, or the target.
    pub(super) fn find(text: &str) -> Result<(Self, Facts), String> {
        let number = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.rdev(), if found.rdev() == 0 { found.ino() } else { 0 }))
        };
        let (wanted, all) = (number(Path::new(text)), Self::all());
        let is_it = |place: &Self, facts: &Facts| {
            let target = backing_path(&facts.target).ok().flatten();
            place.name == text
                || place.link() == Path::new(text)
                || facts.target == text
                || (wanted.is_some()
                    && [Some(facts.device.clone()), target]
                        .into_iter()
                        .flatten()
                        .any(|path| number(&path) == wanted))
        };
        let found = all.iter().find_map(|place| {
            let facts = place.facts().ok()?;
            is_it(place, &facts).then(|| (place.clone(), facts))
        });
        let known = all.iter().filter(|place| place.facts().is_ok());
        let names: Vec<&str> = known.map(|place| place.name.as_str()).collect();
        let there = if names.is_empty() { "none at all".to_owned() } else { names.join(", ") };
        found.ok_or_else(|| format!("{text}: expected an attached volume, found {there}"))
    }

    /// Makes the folders.
    pub(super) fn prepare(&self) -> Result<(), String> {
        for folder in [&self.folder, &self.shown(), &PathBuf::from(LINKS)] {
            match std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder) {
                Ok(()) => {}
                // The kernel shows no folder for a connection that has ended.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(format!(
                        "attach: cannot make the folder {}: {error}; it takes root",
                        folder.display()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Takes the lock; an error names the volume that has it.
    pub(super) fn lock(&self) -> Result<Lock, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.lock_path().display());
        let file = self.lock_file().map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(Errno::WOULDBLOCK) => Err(format!(
                "attach: expected that nothing is attached as {}, found {}; take another name (--as), or `nearhead detach {}`",
                self.name,
                self.facts().map_or_else(|_| "something".to_owned(), |facts| facts.target),
                self.name
            )),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn lock_file(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.lock_path())
    }

    /// Whether a supervisor has the lock.
    pub(super) fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.lock_path()) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Waits until no supervisor has the lock.
    pub(super) fn wait_until_left(&self) -> io::Result<()> {
        match File::open(self.lock_path()) {
            Ok(file) => Ok(flock(&file, FlockOperation::LockShared)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes its facts.
    pub(super) fn note(&self, facts: &Facts) -> Result<(), String> {
        self.write(&self.facts_path(), facts)
    }

    /// The identity that later workers open.
    pub(super) fn identity_noted(&self) -> Result<Identity, String> {
        Identity::read(&self.identity())
    }

    /// Writes what later workers open.
    pub(super) fn note_identity(&self, identity: &Identity) -> Result<(), String> {
        self.write(&self.identity(), identity)
    }

    fn write(&self, path: &Path, what: &impl Serialize) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = serde_json::to_vec(what).map_err(|error| failed(&error))?;
        let new = self.folder.join("facts.new");
        std::fs::write(&new, text).map_err(|error| failed(&error))?;
        std::fs::rename(&new, path).map_err(|error| failed(&error))
    }

    /// Reads its facts.
    pub(super) fn facts(&self) -> Result<Facts, String> {
        let failed =
            |error: &dyn std::fmt::Display| format!("{}: {error}", self.facts_path().display());
        let text = std::fs::read(self.facts_path()).map_err(|error| failed(&error))?;
        serde_json::from_slice(&text).map_err(|error| failed(&error))
    }

    /// Makes the link to `device`.
    pub(super) fn make_link(&self, device: &Path) -> Result<(), String> {
        let link = self.link();
        let leads_there = || link.canonicalize().is_ok_and(|found| found == device);
        if leads_there() {
            // A rule of udev's was faster.
            return Ok(());
        }
        let _ = std::fs::remove_file(&link);
        match std::os::unix::fs::symlink(device, &link) {
            Err(_) if leads_there() => Ok(()),
            Err(error) => {
                Err(format!("attach: no link can be made at {}: {error}", link.display()))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Takes everything away, but for writes that were answered and not flushed, and what is needed to find them. What is mounted in it
    /// stays.
    pub(super) fn remove(&self) {
        if let Ok(facts) = self.facts() {
            udev::forget(&facts.device, &self.name);
        }
        let _ = std::fs::remove_file(self.link());
        let mut paths = vec![self.ended(), self.socket(), self.log(), self.log_before()];
        paths.extend([self.settings(), self.folder.join("facts.new")]);
        if self.keeps_nothing() {
            paths.extend([self.kept(), self.identity(), self.facts_path()]);
        }
        for path in paths {
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_dir(self.shown());
        let _ = std::fs::remove_file(self.lock_path());
        let _ = std::fs::remove_dir(&self.folder);
    }

    /// Whether no write is kept that was answered and not flushed. A file that cannot be read keeps something.
    pub(super) fn keeps_nothing(&self) -> bool {
        nearhead_handover::kept_writes(&self.kept()).is_ok_and(|kept| kept.is_none())
    }

    /// Removes what an attempt left that never came to a device. Where a device was made, all of it stays.
    pub(super) fn remove_attempt(&self) {
        if self.facts().is_err() && !self.is_held() {
            self.remove();
        }
    }

    /// Throws away the writes that are kept.
    pub(super) fn throw_kept_away(&self) {
        let _ = std::fs::remove_file(self.kept());
    }

    /// Writes how it ended, for `detach`, which waits for that.
    pub(super) fn leave_word(&self, why: &str) {
        let _ = std::fs::create_dir(&self.folder);
        let _ = std::fs::write(self.word(), why);
    }

    /// Why it did not end well, if it did not.
    pub(super) fn take_word(&self) -> Option<String> {
        let word = std::fs::read_to_string(self.word()).ok()?;
        let _ = std::fs::remove_file(self.word());
        let _ = std::fs::remove_dir(&self.folder);
        Some(word)
    }

    fn word(&self) -> PathBuf {
        self.folder.join("failed")
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn facts_path(&self) -> PathBuf {
        self.folder.join("facts.json")
    }

    /// Where the volume is shown as a file.
    pub(super) fn shown(&self) -> PathBuf {
        self.folder.join("file")
    }

    /// File with writes that were answered and not flushed.
    pub(super) fn kept(&self) -> PathBuf {
        self.folder.join("answered")
    }

    /// File with the identity that later workers open.
    pub(super) fn identity(&self) -> PathBuf {
        self.folder.join("identity.json")
    }

    /// File with settings that `nearhead set` changed.
    pub(super) fn settings(&self) -> PathBuf {
        self.folder.join("settings")
    }

    /// Whether the device was taken away, where the kernel does not say so at once.
    pub(super) fn ended(&self) -> PathBuf {
        self.folder.join("ended")
    }

    /// Socket that takes `upgrade`.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Log of its processes.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Its newest lines when it was cut.
    pub(super) fn log_before(&self) -> PathBuf {
        self.folder.join("log.before")
    }

    /// Link to the block device, which users name.
    pub(super) fn link(&self) -> PathBuf {
        Path::new(LINKS).join(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_that_a_path_can_have() {
        for name in ["a", "backups-2", "sdb.1", &"x".repeat(48)] {
            assert_eq!(Place::named(name).unwrap().name, name);
        }
        for name in ["", ".", "..", "a/b", "ä", "a b", &"x".repeat(49)] {
            assert!(Place::named(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn without_a_name_it_is_called_after_its_disk() {
        let place = |target: &str| {
            let args = ServeArgs { target: Some(target.to_owned()), ..ServeArgs::default() };
            Place::of(&args, None).map(|place| place.name)
        };
        assert_eq!(place("/dev/sdb").unwrap(), "sdb");
        assert_eq!(place("mirror:a/left side.img,b/right.img").unwrap(), "leftside");
        assert!(place("model:st3146855fc").unwrap_err().contains("--as NAME"), "it has no file");
    }
}
