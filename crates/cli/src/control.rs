//! The control socket of a running daemon: where it is, and how to ask it something.
//!
//! One command a line, one JSON object a line in answer: `{"ok": ...}` or `{"error": "..."}`. The
//! name of the socket follows from which file or device the target is, not from how it is spelled, so
//! that `nearhead status TARGET` finds the daemon that serves it: by links, by the name of a member, by
//! the loop device or the file it is attached to, and under a service manager. Names beside the first are
//! links to the socket.

mod search;

pub use search::{Searched, folders, sockets, sockets_of};

use crate::attach::{self, Unserved};
use crate::target::backing_paths;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an answer may take: commands run between requests, so only a stuck disk delays them.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest time to wait for a worker of an attached volume that is being started, and the interval between two attempts to reach it.
const WORKER_WAIT_MAX: Duration = Duration::from_secs(5);
const WORKER_POLL_EVERY: Duration = Duration::from_millis(50);
/// The system's directory for sockets; units of systemd have folders of their own in it.
const SYSTEM_DIRECTORY: &str = "/run/nearhead";
/// Longest part of a file's name that a derived path keeps, in bytes (socket paths end at 107).
const NAME_BYTES_MAX: usize = 32;

/// One answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer<T> {
    /// What was asked for.
    Ok(T),
    /// Why not.
    Error(String),
}

impl<T: Serialize> Answer<T> {
    /// The answer as a line.
    pub fn line(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|error| format!("{{\"error\":\"internal: {error}\"}}"))
    }
}

/// What a daemon tells those who are still connected when it ends well.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    /// What may be relied on.
    pub ended: String,
}

/// Longest path of a socket, in bytes: what `sockaddr_un` holds, and the zero at its end (`unix(7)`).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Names of the control socket of whoever serves `target`, one for each file and device under it. What is no path may be what an attached volume
/// is called.
pub fn names(target: &str) -> Result<Vec<String>, String> {
    if Path::new(target).is_dir() {
        return Ok(name_of_mount(Path::new(target)).into_iter().collect());
    }
    let is_there = Path::new(target).exists();
    if let Some(link) = attach::link_of(target).filter(|_| !is_there) {
        return Ok(vec![name_of(&link)]);
    }
    let mut paths = backing_paths(target)?;
    let beneath: Vec<_> =
        paths.iter().filter_map(|path| nearhead_uring::attached_to(path)).collect();
    paths.extend(beneath);
    if paths.is_empty() {
        paths.push(PathBuf::from(target));
    }
    let mut names: Vec<String> = Vec::new();
    for name in paths.iter().map(|path| name_of(path)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn name_of(path: &Path) -> String {
    let Ok(found) = std::fs::metadata(path) else { return name_of_nothing(path) };
    if found.file_type().is_block_device() {
        let number = found.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        return format!("device-{major}-{minor}.control");
    }
    format!("file-{:x}-{}.control", found.dev(), found.ino())
}

/// The name of the control socket of whoever serves the file system that `folder` lies on.
pub fn name_of_mount(folder: &Path) -> Option<String> {
    Some(name_of_mounted(std::fs::metadata(folder).ok()?.dev()))
}

/// Name of that socket by the device number of the file system.
pub fn name_of_mounted(device: u64) -> String {
    format!("mount-{}-{}.control", rustix::fs::major(device), rustix::fs::minor(device))
}

/// Of a target that is neither: its text, shortened, and what tells it from others.
fn name_of_nothing(path: &Path) -> String {
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name: String = file_name
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
        .take(NAME_BYTES_MAX)
        .collect();
    format!("{name}-{:08x}.control", crc_of(path.as_os_str().as_encoded_bytes()))
}

/// Refuses a path that no socket can have.
pub fn check_socket_path(flag: &str, path: &Path) -> Result<(), String> {
    let len = path.as_os_str().len();
    if len <= SOCKET_PATH_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{flag} {}: expected a path of at most {SOCKET_PATH_BYTES_MAX} bytes, which is what a Unix socket can \
         have, found {len}; choose a shorter one",
        path.display()
    ))
}

/// Links to a control socket under its other names, which go with this.
#[derive(Debug, Default)]
pub struct Links {
    paths: Vec<PathBuf>,
    to: PathBuf,
}

impl Links {
    /// Makes them. Whoever serves a disk has it to itself, so what is there is of somebody who is gone;
    /// but for a socket that answers, which is left.
    pub fn make(paths: impl IntoIterator<Item = PathBuf>, to: &Path) -> Self {
        let to = std::path::absolute(to).unwrap_or_else(|_| to.to_owned());
        let is_made = |path: &PathBuf| {
            remove_old(path);
            std::os::unix::fs::symlink(&to, path).is_ok()
        };
        let paths = paths.into_iter().filter(|path| *path != to).filter(is_made).collect();
        Self { paths, to }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        for path in &self.paths {
            if std::fs::read_link(path).is_ok_and(|to| to == self.to) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Removes a link or a socket that nobody answers on.
pub fn remove_old(path: &Path) {
    let Ok(found) = std::fs::symlink_metadata(path) else { return };
    let is_dead = || {
        UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    if found.is_symlink() || (found.file_type().is_socket() && is_dead()) {
        let _ = std::fs::remove_file(path);
    }
}

fn crc_of(bytes: &[u8]) -> u32 {
    nearhead_format::crc::crc32c(bytes)
}

/// Directories for sockets, best first: what the service manager gave, the system's for root, the user's own. A user
/// who did not log in (`su`, `cron`, a container) has none from the system, and gets one among temporary files.
pub fn directories() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let user_id = rustix::process::geteuid();
    let mut directories = Vec::new();
    if let Some(given) = variable("RUNTIME_DIRECTORY") {
        directories.push(PathBuf::from(given));
    }
    let system = PathBuf::from(SYSTEM_DIRECTORY);
    // The same one, also where the variable did not come along.
    let logged_in = || Some(PathBuf::from(format!("/run/user/{user_id}"))).filter(|it| it.is_dir());
    let user = variable("XDG_RUNTIME_DIR").map(PathBuf::from).or_else(logged_in);
    let user = user.map(|directory| directory.join("nearhead"));
    if user_id.is_root() {
        directories.push(system);
        directories.extend(user);
    } else {
        directories.extend(user);
        directories.push(system);
        directories.push(own_directory());
    }
    directories
}

/// A directory of this user's among temporary files, where anybody may make one by that name.
fn own_directory() -> PathBuf {
    std::env::temp_dir().join(format!("nearhead-{}", rustix::process::geteuid()))
}

/// Whether nobody else can put anything there, or has.
fn is_private(directory: &Path) -> bool {
    let owner = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.uid() == owner && found.mode().is_multiple_of(0o100)
    })
}

/// Makes one of [`directories`] if it is not there; whether a socket can be made in it.
pub fn prepare(directory: &Path) -> bool {
    let own = directory == own_directory();
    let mode = if own { 0o700 } else { 0o755 };
    let is_there = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
    is_there.is_ok()
        && rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
        && (!own || is_private(directory))
}

/// Where the control socket may be, under all its names: directories that can be used, best first.
pub fn places(target: &str) -> Result<Vec<Vec<PathBuf>>, String> {
    let names = names(target)?;
    let places = directories().into_iter().map(|directory| {
        let in_it = |name: &String| directory.join(name);
        names.iter().map(in_it).collect::<Vec<_>>()
    });
    let can_be_used =
        |paths: &Vec<PathBuf>| paths.first().and_then(|path| path.parent()).is_some_and(prepare);
    Ok(places.filter(can_be_used).collect())
}

/// Makes the system's directory if a socket at `path` is to lie in it: at a fresh start nobody has made it yet.
pub fn prepare_for(path: &Path) {
    if path.parent() == Some(Path::new(SYSTEM_DIRECTORY)) {
        prepare(Path::new(SYSTEM_DIRECTORY));
    }
}

/// Why nothing can be made at `path` and what to do, for the end of a message; nothing if that cannot be told.
pub fn why_not_there(path: &Path) -> String {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let shown = folder.display();
    if !folder.is_dir() {
        return format!("; expected a folder {shown}, found none: make it first");
    }
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        return format!("; this user may not make anything in {shown}: choose a folder of its own");
    }
    String::new()
}

/// A connection to a daemon.
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// The daemon that serves `target`, if one does; `control` names its socket if given. An attached volume that no worker serves is an
    /// error, which says what it waits for.
    pub fn find(target: &str, control: Option<&Path>) -> Result<Option<Self>, String> {
        let begun = Instant::now();
        loop {
            if let Some(found) = Self::connected(target, control)? {
                return Ok(Some(found));
            }
            match attach::without_worker(target) {
                None => return Ok(None),
                // The supervisor is starting one.
                Some(Unserved::Starting(_)) if begun.elapsed() < WORKER_WAIT_MAX => {
                    std::thread::sleep(WORKER_POLL_EVERY);
                }
                Some(Unserved::Starting(why) | Unserved::For(why)) => {
                    return Err(format!("{target}: {why}"));
                }
            }
        }
    }

    /// The same where an attached volume without a worker is no error.
    pub fn connected(target: &str, control: Option<&Path>) -> Result<Option<Self>, String> {
        if let Some(path) = control {
            return Self::at(path).map(Some);
        }
        let names = names(target)?;
        let mut paths = folders().paths.into_iter().flat_map(|directory| {
            names.iter().map(move |name| directory.join(name)).collect::<Vec<_>>()
        });
        Ok(paths.find_map(|path| Self::connect(&path).ok()))
    }

    /// The daemon whose socket a user named.
    pub fn at(path: &Path) -> Result<Self, String> {
        check_socket_path("--control", path)?;
        Self::connect(path).map_err(|error| {
            format!(
                "control socket {}: expected a running daemon, found {error}; check the path, \
                 or leave --control out to look at the volume itself",
                path.display()
            )
        })
    }

    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> std::io::Result<Self> {
        Self::connect_for(path, ANSWER_WAIT_MAX)
    }

    /// The same for answers that take so long at most.
    pub fn connect_for(path: &Path, answer_wait_max: Duration) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(answer_wait_max))?;
        stream.set_write_timeout(Some(answer_wait_max))?;
        Ok(Self { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its answer.
    pub fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Result<T, String> {
        writeln!(self.stream.get_mut(), "{command}").map_err(|error| {
            let shown = self.path.display();
            format!("control socket {shown}: `{command}` got no answer: {error}")
        })?;
        self.hear(command)?.ok_or_else(|| {
            let shown = self.path.display();
            format!("control socket {shown}: `{command}` got no answer: the daemon closed the connection")
        })
    }

    /// Reads the next line; none once the daemon has closed the connection.
    pub fn hear<T: DeserializeOwned>(&mut self, command: &str) -> Result<Option<T>, String> {
        let shown = self.path.display();
        let failed = |problem: &dyn std::fmt::Display| {
            format!("control socket {shown}: `{command}` got no answer: {problem}")
        };
        let mut line = String::new();
        let len = match self.stream.read_line(&mut line) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            other => other.map_err(|error| failed(&error))?,
        };
        if len == 0 {
            return Ok(None);
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Ok(answer)) => Ok(Some(answer)),
            Ok(Answer::Error(problem)) => Err(problem),
            Err(error) => Err(failed(&format!(
                "expected an answer of this version of the program, found {error}"
            ))),
        }
    }

    /// Waits until there is something to hear, so long at most; whether there is.
    pub fn has_something_within(&self, span: Duration) -> bool {
        if !self.stream.buffer().is_empty() {
            return true;
        }
        let mut socket = [PollFd::new(self.stream.get_ref(), PollFlags::IN)];
        let span = Timespec::try_from(span).ok();
        // Who is interrupted looks again.
        rustix::event::poll(&mut socket, span.as_ref()).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_one_name_however_it_is_spelled_and_others_have_others() {
        let names = |target: &str| names(target).unwrap();
        let folder = std::env::temp_dir().join(format!("nearhead-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (a, b, link, hard) = (path("a.img"), path("b.img"), path("link"), path("hard"));
        std::fs::write(&a, "").unwrap();
        std::fs::write(&b, "").unwrap();
        std::os::unix::fs::symlink(&a, &link).unwrap();
        std::fs::hard_link(&a, &hard).unwrap();
        let model = format!("model:st3146855fc,file={a}");
        let dotted = a.replace("/a.img", "/./a.img");
        for other in [&link, &hard, &model, &dotted] {
            assert_eq!(names(other), names(&a), "{other}");
        }
        assert_ne!(names(&a), names(&b));
        let both = names(&format!("mirror:{a},{b}"));
        assert_eq!(both, [names(&a), names(&b)].concat(), "a daemon is found by each member");
        std::fs::remove_dir_all(folder).unwrap();

        assert_eq!(names("/no/such/a.img"), names("/no/such/a.img"));
        assert_ne!(names("/no/such/a.img"), names("/no/other/a.img"));
        let long = format!("/no/{}", "x/y z".repeat(60));
        assert!(names(&long).iter().all(|name| name.len() < 64));
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_in_plain_words() {
        let longest = PathBuf::from("x".repeat(107));
        assert_eq!(check_socket_path("--socket", &longest), Ok(()));
        let error = check_socket_path("--socket", &longest.join("y")).unwrap_err();
        assert!(error.contains("at most 107 bytes") && error.contains("found 109"), "{error}");
    }

    #[test]
    fn an_answer_is_one_line_either_way() {
        assert_eq!(Answer::Ok(7).line(), "{\"ok\":7}");
        assert_eq!(Answer::<u8>::Error("no\nway".into()).line(), "{\"error\":\"no\\nway\"}");
    }
}
