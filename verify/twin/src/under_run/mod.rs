//! Programs plain and under `nearhead run`: each behaves alike, and any death leaves alike files.
//!
//! Oracle is the program as it is. Subject is the same program with its logs routed. Compared are what
//! it prints, how it ends, its files by name, length and content, and what another process reads while
//! it runs ([`acts`]). Databases are killed at random moments and start again plain and under `run`
//! ([`kills`]): each acknowledged change must be there, and the program's own checker decides about the
//! rest. Nothing here reads a log on its own, and no server is reached from outside this machine.

pub mod acts;
pub mod client;
pub mod databases;
pub mod kills;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is.
    Plain,
    /// Under `nearhead run`.
    Run,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program under test.
    pub nearhead: PathBuf,
    /// The library that it puts in front of programs.
    pub library: PathBuf,
    /// Folder for files; a folder of its own is made there.
    pub folder: PathBuf,
}

impl Settings {
    /// Settings for the program `nearhead`, with the library that was built together with it.
    ///
    /// # Errors
    /// Where either is missing.
    pub fn of(nearhead: PathBuf, folder: PathBuf) -> Result<Self, String> {
        let built = nearhead.parent().map(Path::to_owned).unwrap_or_default();
        let names = ["libnearhead_preload.so", "deps/libnearhead_preload.so"];
        let library = names.iter().map(|name| built.join(name)).find(|path| path.is_file());
        let Some(library) = library else {
            return Err(format!("{} has no {} (make libraries)", built.display(), names[0]));
        };
        if !nearhead.is_file() {
            return Err(format!("{} is not built", nearhead.display()));
        }
        Ok(Self { nearhead, library, folder })
    }

    /// A command that starts `program`, whose logs match `pattern`, as `way` says.
    pub fn command(&self, way: Way, pattern: &str, program: impl AsRef<OsStr>) -> Command {
        match way {
            Way::Plain => Command::new(program),
            Way::Run => {
                let mut command = Command::new(&self.nearhead);
                command.env("NEARHEAD_PRELOAD", &self.library);
                command.args(["run", "--wal", pattern, "--"]).arg(program);
                command
            }
        }
    }

    /// A fresh folder, which is removed when the value is dropped.
    ///
    /// # Errors
    /// Errors of making the folder.
    pub fn place(&self, name: &str) -> Result<Place, String> {
        let path = self.folder.join(format!("twin-run-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Place(path))
    }
}

/// A folder of a run.
#[derive(Debug)]
pub struct Place(pub PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
