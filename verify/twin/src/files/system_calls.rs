//! Users and open files of the process that makes the calls.
//!
//! A user is that of the thread for the length of one call: it has no groups and no capabilities. An
//! open file has a small number, which the script chose. Results are words, so that those of both sides
//! can be compared; an error is its number and the kernel's text for it.

use super::call::Call;
use super::perform::perform;
use rustix::fs::Mode;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The root of a side and its open files.
#[derive(Debug)]
pub struct Caller {
    root: PathBuf,
    /// Open files by their numbers.
    pub files: BTreeMap<u64, File>,
}

/// Arguments of one call, parsed as they are asked for.
#[derive(Debug)]
pub struct Arguments<'a>(&'a Call);

impl Arguments<'_> {
    /// The word at `index`.
    pub fn word(&self, index: usize) -> &str {
        self.0.arguments.get(index).map_or("", String::as_str)
    }

    /// The number at `index`.
    pub fn number(&self, index: usize) -> io::Result<u64> {
        self.word(index).parse().map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    /// Mode bits at `index`, in octal.
    pub fn mode(&self, index: usize) -> Mode {
        Mode::from_raw_mode(u32::from_str_radix(self.word(index), 8).unwrap_or(0))
    }
}

impl Caller {
    /// Calls on the file system that is mounted at `root`.
    pub fn new(root: &Path) -> Self {
        // Modes are those that calls name.
        rustix::process::umask(Mode::empty());
        Self { root: root.to_owned(), files: BTreeMap::new() }
    }

    /// The path that a call means.
    pub fn path(&self, word: &str) -> PathBuf {
        if word == "." { self.root.clone() } else { self.root.join(word) }
    }

    /// The open file that the argument at `index` means.
    pub fn file(&self, arguments: &Arguments<'_>, index: usize) -> io::Result<&File> {
        let file = self.files.get(&arguments.number(index)?);
        file.ok_or_else(|| io::Error::from_raw_os_error(rustix::io::Errno::BADF.raw_os_error()))
    }

    /// Makes `call`; its result in words.
    pub fn make(&mut self, call: &Call) -> String {
        let is_root = call.uid == 0;
        if !is_root && let Err(error) = become_user(call.uid) {
            return format!("cannot become user {}: {error}", call.uid);
        }
        let done = perform(self, call.verb, &Arguments(call));
        if !is_root && let Err(error) = become_root() {
            return format!("cannot become root: {error}");
        }
        match done {
            Ok(text) if text.is_empty() => "ok".to_owned(),
            Ok(text) => format!("ok {text}"),
            Err(error) => in_words(&error),
        }
    }
}

/// An error as its number and the kernel's text.
pub fn in_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => error.to_string(),
        None => format!("error: {error}"),
    }
}

fn become_user(uid: u32) -> rustix::io::Result<()> {
    set_thread_groups(&[])?;
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    set_thread_res_gid(group, group, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, user, Uid::ROOT)
}

fn become_root() -> rustix::io::Result<()> {
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_groups(&[Gid::ROOT])
}
