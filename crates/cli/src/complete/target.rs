//! Targets as candidates: what is served here, what could be, and how emulated disks and arrays are written.
//!
//! Each command is offered what it can be used on: nothing that a daemon has to one that wants the disk for itself, and nothing else to one that
//! asks a daemon.

use super::line::Line;
use super::machine::{Machine, Volume};
use super::path;
use crate::attach::all_attached;
use clap_complete::engine::CompletionCandidate;
use nearhead_arrays::{ARRAY_PREFIXES, MISSING};
use nearhead_models::{Drive, MODEL_OPTIONS, MODEL_PREFIX, model_option_values};
use std::cell::LazyCell;

type Candidates = Vec<CompletionCandidate>;

/// An export at a Unix socket, up to the socket.
const EXPORT_AT_SOCKET: &str = "nbd+unix:///?socket=";
/// How targets begin that are no paths.
const KINDS: [(&str, &str); 5] = [
    (MODEL_PREFIX, "an emulated disk"),
    (ARRAY_PREFIXES[0], "disks striped"),
    (ARRAY_PREFIXES[1], "disks with the same on each"),
    ("nbd://", "an export at a TCP address"),
    (EXPORT_AT_SOCKET, "an export at a Unix socket"),
];

/// Completes a path.
type Paths<'a> = &'a dyn Fn(&str) -> Candidates;

/// Of a command that wants the disk for itself: what nobody serves.
pub(super) fn free(current: &str) -> Candidates {
    with_free_paths(|paths| written(current, paths))
}

/// Several such, with commas between them.
pub(super) fn several_free(current: &str) -> Candidates {
    with_free_paths(|paths| {
        if is_array(current) { written(current, paths) } else { members(current, "", paths) }
    })
}

/// Such a path alone.
pub(super) fn free_path(current: &str) -> Candidates {
    with_free_paths(|paths| paths(current))
}

/// Of a command that asks a daemon or does it itself: what is served, and everything else.
pub(super) fn any(current: &str) -> Candidates {
    let mut all = of_volumes(current, &Machine::look().volumes);
    let others = written(current, &path::disks);
    let others = others.into_iter().filter(|one| !is_there(&all, one)).collect::<Vec<_>>();
    all.extend(others);
    all
}

/// The same, and attached volumes by their names.
pub(super) fn any_or_attached(current: &str) -> Candidates {
    let mut all = attached(current);
    all.extend(any(current));
    all
}

/// Of a command that asks a daemon: what is served or mounted.
pub(super) fn served(current: &str) -> Candidates {
    let machine = Machine::look();
    served_of(current, &machine, &machine.volumes)
}

/// The same without what `stop` refuses.
pub(super) fn stoppable(current: &str) -> Candidates {
    let machine = Machine::look();
    served_of(current, &machine, &machine.unattached())
}

/// Folders where volumes are mounted.
pub(super) fn mounted(current: &str) -> Candidates {
    let mut all = Candidates::new();
    for Volume { folder, about, .. } in Machine::look().volumes {
        all.extend(folder.and_then(|folder| told(current, &folder, &about)));
    }
    if all.is_empty() && !current.is_empty() { path::folders(current) } else { all }
}

/// Attached volumes: their names; their devices to who types a path.
pub(super) fn attached(current: &str) -> Candidates {
    let mut all = Candidates::new();
    for volume in all_attached() {
        let devices = volume.devices();
        let devices = devices.iter().filter(|_| !current.is_empty()).filter_map(|it| it.to_str());
        let names = std::iter::once(volume.name()).chain(devices);
        all.extend(names.filter_map(|name| told(current, name, volume.target())));
    }
    all
}

/// Modelled disks that keep nothing, by their profiles alone.
pub(super) fn model(current: &str) -> Candidates {
    let no_paths = |_: &str| Candidates::new();
    let is_target = is_array(current) || current.starts_with(MODEL_PREFIX);
    let all = if is_target { written(current, &no_paths) } else { profile(current, &no_paths) };
    let keeps = |one: &CompletionCandidate| one.get_value().as_encoded_bytes().ends_with(b"file=");
    all.into_iter().filter(|one| !keeps(one)).collect()
}

/// A target that is an emulated disk, or an array of such.
pub(super) fn model_target(current: &str) -> Candidates {
    let no_paths = |_: &str| Candidates::new();
    if is_array(current) || current.starts_with(MODEL_PREFIX) {
        return written(current, &path::disks);
    }
    let kinds = written(current, &no_paths).into_iter();
    kinds.filter(|kind| !kind.get_value().as_encoded_bytes().starts_with(b"nbd")).collect()
}

/// A program and its arguments.
pub(super) fn program(line: &Line, current: &str) -> Candidates {
    let is_first = line.words.iter().rev().nth(1).is_some_and(|before| before == "--");
    if !is_first || current.contains('/') {
        return path::any(current);
    }
    path::programs(current)
}

fn with_free_paths(completed: impl Fn(Paths<'_>) -> Candidates) -> Candidates {
    // Nobody is asked where no path is completed.
    let machine = LazyCell::new(Machine::look);
    let is_free = |candidate: &CompletionCandidate| {
        let path = candidate.get_value().to_str();
        path.is_some_and(|path| path.ends_with('/') || !machine.serves(path))
    };
    completed(&|current| path::disks(current).into_iter().filter(is_free).collect())
}

fn served_of(current: &str, machine: &Machine, volumes: &[Volume]) -> Candidates {
    let all = of_volumes(current, volumes);
    if !all.is_empty() || current.is_empty() {
        return all;
    }
    // By another name of its disk.
    let is_wanted = |candidate: &CompletionCandidate| {
        let path = candidate.get_value().to_str();
        path.is_some_and(|path| path.ends_with('/') || machine.serves(path))
    };
    path::disks(current).into_iter().filter(is_wanted).collect()
}

fn of_volumes(current: &str, volumes: &[Volume]) -> Candidates {
    let mut all = Candidates::new();
    for Volume { target, folder, about, .. } in volumes {
        let names = [target, folder].into_iter().flatten();
        let found = names.filter_map(|name| told(current, name, about)).collect::<Vec<_>>();
        all.extend(found);
    }
    all
}

fn is_there(all: &[CompletionCandidate], one: &CompletionCandidate) -> bool {
    all.iter().any(|other| other.get_value() == one.get_value())
}

/// A candidate, if it goes on from what was typed.
pub(super) fn told(current: &str, value: &str, about: &str) -> Option<CompletionCandidate> {
    value
        .starts_with(current)
        .then(|| CompletionCandidate::new(value).help(Some(about.to_owned().into())))
}

fn prefixed(prefix: &str, all: Candidates) -> Candidates {
    all.into_iter().map(|candidate| candidate.add_prefix(prefix)).collect()
}

fn is_array(text: &str) -> bool {
    ARRAY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// A target of whatever kind.
fn written(current: &str, paths: Paths<'_>) -> Candidates {
    for kind in ARRAY_PREFIXES {
        if let Some(list) = current.strip_prefix(kind) {
            return prefixed(kind, members(list, kind, paths));
        }
    }
    if let Some(text) = current.strip_prefix(MODEL_PREFIX) {
        return prefixed(MODEL_PREFIX, profile(text, paths));
    }
    if let Some(socket) = current.strip_prefix(EXPORT_AT_SOCKET) {
        return prefixed(EXPORT_AT_SOCKET, path::sockets(socket));
    }
    let mut all = paths(current);
    all.extend(KINDS.iter().filter_map(|(kind, about)| told(current, kind, about)));
    all
}

/// The members of an array of `kind`, or of a list with commas if that is empty.
fn members(list: &str, kind: &str, paths: Paths<'_>) -> Candidates {
    let behind_bracket = list.rfind('[').map(|at| at + 1);
    if let Some((done, open)) = behind_bracket.map(|at| list.split_at(at))
        && !open.contains(']')
    {
        let nested = if is_array(open) { written(open, paths) } else { Candidates::new() };
        return prefixed(done, nested);
    }
    let begin = list.rfind(',').map_or(0, |at| at + 1);
    let (done, piece) = list.split_at(begin);
    let options = open_model(done).map(|said| option(piece, said, paths));
    if options.is_some() && is_option(piece) {
        return prefixed(done, options.unwrap_or_default());
    }
    let mut all = options.unwrap_or_default();
    all.extend(member(piece, kind, paths));
    prefixed(done, all)
}

/// One member alone.
fn member(piece: &str, kind: &str, paths: Paths<'_>) -> Candidates {
    if let Some(text) = piece.strip_prefix(MODEL_PREFIX) {
        return prefixed(MODEL_PREFIX, profile(text, paths));
    }
    let [stripes, mirror] = ARRAY_PREFIXES;
    let mut all = paths(piece);
    all.extend(told(piece, MODEL_PREFIX, KINDS[0].1));
    if kind == stripes {
        all.extend(told(piece, &format!("[{mirror}"), "a mirror as a member"));
    } else {
        all.extend(told(piece, MISSING, "one that is away"));
    }
    all
}

/// Whether a piece between commas belongs to the model before it.
fn is_option(piece: &str) -> bool {
    piece.split_once('=').is_some_and(|(key, _)| MODEL_OPTIONS.contains(&key))
}

/// What was said of the last member so far, if it is a model; `done` ends with a comma.
fn open_model(done: &str) -> Option<&str> {
    let mut begin = 0;
    let mut at = 0;
    for piece in done.strip_suffix(',')?.split(',') {
        if !is_option(piece) {
            begin = at;
        }
        at += piece.len() + 1;
    }
    done[begin..].starts_with(MODEL_PREFIX).then_some(&done[begin..])
}

/// A profile's name or path, and options behind it.
fn profile(text: &str, paths: Paths<'_>) -> Candidates {
    if let Some(last) = text.rfind(',') {
        let (done, piece) = text.split_at(last + 1);
        return prefixed(done, option(piece, done, paths));
    }
    let known = Drive::known_names().filter_map(|name| {
        let about = Drive::named(name).map(|drive| drive.description().to_owned());
        told(text, name, &about.unwrap_or_default())
    });
    let mut all: Candidates = known.collect();
    if text.contains('/') || (all.is_empty() && !text.is_empty()) {
        all.extend(path::profiles(text));
    }
    all
}

/// An option of a model of which `done` was said.
fn option(piece: &str, done: &str, paths: Paths<'_>) -> Candidates {
    if let Some((key, value)) = piece.split_once('=') {
        let key_and = &piece[..=key.len()];
        if key == "file" {
            return prefixed(key_and, paths(value));
        }
        let values = model_option_values(key).iter().filter(|it| it.starts_with(value));
        return values.map(|value| format!("{key_and}{value}").into()).collect();
    }
    let keys = MODEL_OPTIONS.iter().map(|key| format!("{key}="));
    keys.filter(|key| key.starts_with(piece) && !done.contains(&format!(",{key}")))
        .map(CompletionCandidate::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With two files, `a.img` and `b.img`.
    fn values(current: &str) -> Vec<String> {
        let paths = |current: &str| {
            let files = ["a.img", "b.img"].into_iter().filter(|it| it.starts_with(current));
            files.map(CompletionCandidate::from).collect()
        };
        let all = written(current, &paths).into_iter();
        all.map(|it| it.get_value().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn arrays_and_models_are_completed_member_by_member_and_option_by_option() {
        for (current, expected) in [
            ("a", &["a.img"][..]),
            ("m", &["model:", "mirror:"]),
            ("nbd+", &["nbd+unix:///?socket="]),
            ("mirror:a", &["mirror:a.img"]),
            ("mirror:a.img,mis", &["mirror:a.img,missing"]),
            ("mirror:a.img,b", &["mirror:a.img,b.img"]),
            ("raid0:[mir", &[]),
            ("raid0:[", &[]),
            ("raid0:[mirror:a.img,b", &["raid0:[mirror:a.img,b.img"]),
            ("raid0:[mirror:a.img,b.img],a", &["raid0:[mirror:a.img,b.img],a.img"]),
            ("model:constellation-es3-1t", &["model:constellation-es3-1tb"]),
            ("model:x,ca", &["model:x,cache="]),
            ("model:x,cache=", &["model:x,cache=on", "model:x,cache=off"]),
            ("model:x,cache=on,ca", &[]),
            ("model:x,file=b", &["model:x,file=b.img"]),
            ("raid0:model:x,cache=on,nc", &["raid0:model:x,cache=on,ncq="]),
            ("raid0:model:x,ncq=s", &["raid0:model:x,ncq=sptf"]),
            ("raid0:model:x,a", &["raid0:model:x,a.img"]),
            ("raid0:model:x,a.img,nc", &[]),
        ] {
            assert_eq!(values(current), expected, "{current}");
        }
        let all = values("");
        assert_eq!(all[..2], ["a.img", "b.img"]);
        assert!(KINDS.iter().all(|(kind, _)| all.iter().any(|one| one == kind)), "{all:?}");
        let disks = values("model:");
        assert!(disks.contains(&"model:st3146855fc".to_owned()), "{disks:?}");
    }
}
