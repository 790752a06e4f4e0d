//! Which control sockets there are on this machine.
//!
//! Every folder is looked at up to a bound, and that one holds more is told to whoever asked: nobody may take the first of them for all.
//! Nothing is changed, and nobody is asked anything.

use super::{SYSTEM_DIRECTORY, directories, is_private, names, own_directory};
use std::path::{Path, PathBuf};

/// Most folders below the system's that are searched for a socket: one for each unit.
const FOLDERS_MAX: usize = 1024;
/// Most sockets of one folder that are looked at.
const SOCKETS_MAX: usize = 1024;

/// Where a daemon's socket may be: those directories, and the ones of the service manager's units.
pub fn folders() -> Searched {
    let mut all = directories();
    // Somebody else's answers would be taken for a daemon's.
    all.retain(|directory| *directory != own_directory() || is_private(directory));
    let system = Path::new(SYSTEM_DIRECTORY);
    let (units, has_more) = first_in(system, FOLDERS_MAX, Path::is_dir);
    all.extend(units);
    Searched { paths: all, cut_short: has_more.then(|| system.to_owned()).into_iter().collect() }
}

/// Control sockets of all daemons on this machine that can be found from here, whether anybody answers or not, each once: links lead to
/// where one really is.
pub fn sockets() -> Searched {
    let Searched { paths: folders, mut cut_short } = self::folders();
    let mut paths = Vec::new();
    for folder in folders {
        let is_socket = |path: &Path| path.extension().is_some_and(|end| end == "control");
        let (found, has_more) = first_in(&folder, SOCKETS_MAX, is_socket);
        // One that leads nowhere is told under its own name.
        paths.extend(found.into_iter().map(|path| path.canonicalize().unwrap_or(path)));
        cut_short.extend(has_more.then_some(folder));
    }
    for all in [&mut paths, &mut cut_short] {
        all.sort();
        all.dedup();
    }
    Searched { paths, cut_short }
}

/// What was found where daemons put their sockets.
#[derive(Debug, Default)]
pub struct Searched {
    /// Folders or sockets.
    pub paths: Vec<PathBuf>,
    /// Folders that hold more than was looked at.
    pub cut_short: Vec<PathBuf>,
}

impl Searched {
    /// That there may be more, in words, if so.
    pub fn told_if_cut_short(&self) -> Option<String> {
        let folders: Vec<String> =
            self.cut_short.iter().map(|folder| folder.display().to_string()).collect();
        (!folders.is_empty()).then(|| {
            format!(
                "{}: expected at most {SOCKETS_MAX} control sockets and {FOLDERS_MAX} folders with such, found more and looked at the first alone: \
                 name a volume to ask about it, and remove sockets that nobody answers on",
                folders.join(", ")
            )
        })
    }
}

/// The first `count_max` of what a folder holds that `is_wanted`, and whether it holds more.
fn first_in(
    folder: &Path,
    count_max: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> (Vec<PathBuf>, bool) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut wanted = entries.map(|entry| entry.path()).filter(|path| is_wanted(path));
    let first = wanted.by_ref().take(count_max).collect();
    (first, wanted.next().is_some())
}

/// Sockets in `folders` that are those of whoever serves `target`, as it is spelled and from here; whether anybody answers or not.
pub fn sockets_of(target: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let names = names(target).unwrap_or_default();
    let paths = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}
