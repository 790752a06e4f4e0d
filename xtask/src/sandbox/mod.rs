//! Copies of the workspace below the target directory, in which files are changed and tests are built. The
//! workspace itself is never written.

mod switch;
#[cfg(test)]
mod switch_on;

pub(crate) use switch::Switch;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A copy of the workspace.
pub(crate) struct Sandbox {
    root: PathBuf,
    /// What is built of it. Never that of the workspace: cargo takes a package at the same place of another
    /// copy for the same one.
    target: PathBuf,
}

impl Sandbox {
    /// Brings every file of the workspace that git knows or would take to `root`, but for those in `own`, which
    /// the caller writes; builds go to `target`. What is there already and the same is not touched, so that it
    /// is not built again.
    pub(crate) fn create(
        workspace: &Path,
        root: PathBuf,
        target: PathBuf,
        own: &BTreeSet<String>,
    ) -> Result<Self, String> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(workspace)
            .output()
            .map_err(|error| format!("git cannot be run: {error}"))?;
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = names.split('\0').filter(|name| workspace.join(name).is_file());
        let mut found = false;
        for name in names.filter(|name| !own.contains(*name)) {
            copy_if_other(&workspace.join(name), &root.join(name))
                .map_err(|error| format!("{name}: cannot be copied: {error}"))?;
            found = true;
        }
        if !found {
            return Err(format!("{}: git lists no files there", workspace.display()));
        }
        Ok(Self { root, target })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn read(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// Writes a file, unless it says so already: what does not change is not built again.
    pub(crate) fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        if std::fs::read_to_string(&path).is_ok_and(|now| now == text) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{file}: {error}"))?;
        }
        std::fs::write(path, text).map_err(|error| format!("{file}: {error}"))
    }

    /// Cargo, about to build of the copy, into the directory for that.
    pub(crate) fn cargo(&self) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.env("CARGO_TARGET_DIR", &self.target);
        command.current_dir(&self.root).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

/// Where what is built of the workspace goes.
pub(crate) fn target_folder(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

fn copy_if_other(from: &Path, to: &Path) -> std::io::Result<()> {
    let bytes = std::fs::read(from)?;
    if std::fs::read(to).is_ok_and(|now| now == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::copy(from, to).map(drop)
}
