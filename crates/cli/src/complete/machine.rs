//! What is served, mounted and attached on this machine, as far as this user may ask and in the time that somebody waits for a key.
//!
//! Daemons are asked what `nearhead status` asks them, all at once. Who does not answer in time is left out. A name is only told if it leads to
//! the volume from the folder where the user is: a daemon may have been started in another one.

use crate::attach::{AttachedVolume, all_attached};
use crate::control::{Client, folders, sockets, sockets_of};
use crate::units::ByteSize;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// What all daemons together are given to answer.
const ANSWERS_WAIT_MAX: Duration = Duration::from_millis(500);
/// Most daemons that are asked.
const ASKED_MAX: usize = 1024;
/// Most that are asked at once.
const ASKED_AT_ONCE: usize = 64;

/// A volume that somebody serves or has mounted.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// A name of it that holds here, if its daemon's does.
    pub(super) target: Option<String>,
    /// Where it is mounted, if it is.
    pub(super) folder: Option<String>,
    /// A few words for people.
    pub(super) about: String,
    control: PathBuf,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) volumes: Vec<Volume>,
    /// Of daemons that may live.
    sockets: BTreeSet<PathBuf>,
    folders: Vec<PathBuf>,
}

/// What is read of the answer to `status`.
#[derive(Deserialize)]
struct Seen {
    target: String,
    volume: SeenVolume,
    health: SeenHealth,
    file_system: Option<IgnoredAny>,
    served: Option<SeenServed>,
}

#[derive(Deserialize)]
struct SeenVolume {
    preset: String,
    client_bytes: u64,
}

#[derive(Deserialize)]
struct SeenHealth {
    state: String,
}

#[derive(Deserialize)]
struct SeenServed {
    pid: u32,
    uris: Vec<String>,
}

/// What came of asking one.
enum Found {
    Volume(Volume),
    /// Nobody is there any more.
    Nobody(PathBuf),
    /// Somebody who is no volume, or may not be asked.
    Other,
}

impl Machine {
    /// Looks around.
    pub(super) fn look() -> Self {
        let mut paths = sockets().paths;
        paths.truncate(ASKED_MAX);
        let mut machine = Self {
            volumes: Vec::new(),
            sockets: paths.iter().cloned().collect(),
            folders: folders().paths,
        };
        let until = Instant::now() + ANSWERS_WAIT_MAX;
        let answers = ask_all(paths, &machine.folders);
        // Whoever has not answered by then is left to the end of the process.
        while let Ok(found) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            match found {
                Found::Volume(volume) => machine.volumes.push(volume),
                Found::Nobody(path) => {
                    machine.sockets.remove(&path);
                }
                Found::Other => {}
            }
        }
        machine.volumes.sort_by(|one, other| one.control.cmp(&other.control));
        machine
    }

    /// Whether a daemon has the file or device at `path`.
    pub(super) fn serves(&self, path: &str) -> bool {
        !self.sockets.is_empty()
            && sockets_of(path, &self.folders).iter().any(|socket| self.sockets.contains(socket))
    }

    /// Those that are no block devices of the kernel.
    pub(super) fn unattached(&self) -> Vec<Volume> {
        let attached: Vec<PathBuf> =
            all_attached().iter().filter_map(AttachedVolume::control).collect();
        let is_attached = |volume: &Volume| {
            let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|it| it == volume.control);
            attached.iter().any(is_it)
        };
        self.volumes.iter().filter(|volume| !is_attached(volume)).cloned().collect()
    }
}

fn ask_all(paths: Vec<PathBuf>, folders: &[PathBuf]) -> mpsc::Receiver<Found> {
    let (sender, receiver) = mpsc::channel();
    let count = paths.len().min(ASKED_AT_ONCE);
    let paths = Arc::new(Mutex::new(paths));
    for _ in 0..count {
        let (paths, folders, sender) = (Arc::clone(&paths), folders.to_vec(), sender.clone());
        std::thread::spawn(move || {
            let next = || paths.lock().ok()?.pop();
            while let Some(path) = next() {
                if sender.send(ask(path, &folders)).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

fn ask(control: PathBuf, folders: &[PathBuf]) -> Found {
    let mut client = match Client::connect_for(&control, ANSWERS_WAIT_MAX) {
        Ok(client) => client,
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            return Found::Nobody(control);
        }
        Err(_) => return Found::Other,
    };
    let Ok(seen) = client.ask::<Seen>("status") else { return Found::Other };
    let served = seen.served.as_ref();
    let folder = seen.file_system.and_then(|_| served?.uris.first().cloned());
    let leads_there = |name: &String| sockets_of(name, folders).contains(&control);
    let elsewhere = || {
        let own = std::fs::read_link(format!("/proc/{}/cwd", served?.pid)).ok()?;
        Some(own.join(&seen.target).to_str()?.to_owned())
    };
    let target = Some(seen.target.clone()).filter(leads_there);
    Found::Volume(Volume {
        target: target.or_else(|| elsewhere().filter(leads_there)),
        folder: folder.filter(leads_there),
        about: format!(
            "{}, {}, {}",
            seen.volume.preset,
            ByteSize(seen.volume.client_bytes),
            seen.health.state
        ),
        control,
    })
}

/// A connection to whoever serves `target`, for what can be answered at once.
pub(super) fn daemon_of(target: &str, control: Option<&Path>) -> Option<Client> {
    let connected = |path: &Path| Client::connect_for(path, ANSWERS_WAIT_MAX).ok();
    match control {
        Some(path) => connected(path),
        None => sockets_of(target, &folders().paths).iter().find_map(|path| connected(path)),
    }
}
