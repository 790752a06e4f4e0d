//! Files, folders and block devices as candidates. They are looked at (`stat`), never opened.

use clap_complete::PathCompleter;
use clap_complete::engine::{CompletionCandidate, ValueCompleter};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

fn of_type(current: &str, is_wanted: fn(FileType) -> bool) -> Vec<CompletionCandidate> {
    let is_it =
        move |path: &Path| std::fs::metadata(path).is_ok_and(|found| is_wanted(found.file_type()));
    PathCompleter::any().filter(is_it).complete(OsStr::new(current))
}

/// What a volume may lie on, and the folders on the way there.
pub(super) fn disks(current: &str) -> Vec<CompletionCandidate> {
    of_type(current, |found| found.is_file() || found.is_block_device())
}

/// Block devices.
pub(super) fn devices(current: &str) -> Vec<CompletionCandidate> {
    of_type(current, |found| found.is_block_device())
}

/// Sockets.
pub(super) fn sockets(current: &str) -> Vec<CompletionCandidate> {
    of_type(current, |found| found.is_socket())
}

/// Folders.
pub(super) fn folders(current: &str) -> Vec<CompletionCandidate> {
    PathCompleter::dir().complete(OsStr::new(current))
}

/// Anything.
pub(super) fn any(current: &str) -> Vec<CompletionCandidate> {
    PathCompleter::any().complete(OsStr::new(current))
}

/// Profiles of drives, and the folders on the way there.
pub(super) fn profiles(current: &str) -> Vec<CompletionCandidate> {
    let is_profile = |path: &Path| path.extension().is_some_and(|end| end == "toml");
    PathCompleter::any().filter(is_profile).complete(OsStr::new(current))
}

/// Programs that are found by their names.
pub(super) fn programs(current: &str) -> Vec<CompletionCandidate> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |entry: &DirEntry| {
        let found = std::fs::metadata(entry.path());
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let mut names = BTreeSet::new();
    for folder in std::env::split_paths(&folders) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let programs = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.starts_with(current))
                && is_program(entry)
        });
        names.extend(programs.map(|entry| entry.file_name()));
    }
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The same, and programs by their paths.
pub(super) fn programs_or_paths(current: &str) -> Vec<CompletionCandidate> {
    if current.contains('/') { any(current) } else { programs(current) }
}
