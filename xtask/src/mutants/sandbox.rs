//! Copies of the workspace below the target directory, in which files are changed and tests are built. The
//! workspace itself is never written.

use super::Program;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A copy of the workspace.
pub(super) struct Sandbox {
    root: PathBuf,
    /// What is built of it. Never that of the workspace: cargo takes a package at the same place of another
    /// copy for the same one.
    target: PathBuf,
}

/// What a build said.
pub(super) enum Built {
    /// The test programs, in the order asked for.
    Programs(Vec<PathBuf>),
    /// It does not compile: places of the errors as file and line, and their text.
    Errors(Vec<Fault>),
}

/// An error of the compiler.
pub(super) struct Fault {
    pub(super) places: Vec<(String, usize)>,
    pub(super) text: String,
}

impl Sandbox {
    /// Brings every file of the workspace that git knows or would take to `root`, but for those in `own`, which
    /// the caller writes; builds go to `target`. What is there already and the same is not touched, so that it
    /// is not built again.
    pub(super) fn create(
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

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn read(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(file)).map_err(|error| format!("{file}: {error}"))
    }

    /// Writes a file, unless it says so already: what does not change is not built again.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(file);
        if std::fs::read_to_string(&path).is_ok_and(|now| now == text) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{file}: {error}"))?;
        }
        std::fs::write(path, text).map_err(|error| format!("{file}: {error}"))
    }

    /// Builds the tests of these programs.
    pub(super) fn build(&self, programs: &[Program]) -> Result<Built, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--quiet", "--message-format", "json"]);
        let packages: BTreeSet<&str> = programs.iter().map(|program| program.package).collect();
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        let targets: BTreeSet<Option<&str>> =
            programs.iter().map(|program| program.target).collect();
        for target in targets {
            match target {
                None => command.arg("--lib"),
                Some(name) => command.args(["--test", name]),
            };
        }
        command.env("CARGO_TARGET_DIR", &self.target);
        command.current_dir(&self.root).stdin(Stdio::null());
        command.stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cargo cannot be run: {error}"))?;
        let (mut found, mut faults) = (BTreeMap::new(), Vec::new());
        let lines = child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines());
        for line in lines.map_while(Result::ok) {
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            found.extend(program_in(&message));
            faults.extend(fault_in(&message));
        }
        let succeeded = child.wait().is_ok_and(|status| status.success());
        if !succeeded {
            return Ok(Built::Errors(faults));
        }
        let paths = programs.iter().map(|program| {
            let key = (program.folder().to_owned(), program.target_name());
            let path = found.get(&key).cloned();
            path.ok_or_else(|| format!("cargo built no test program {} of {}", key.1, key.0))
        });
        paths.collect::<Result<_, _>>().map(Built::Programs)
    }
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

/// The test program that a message of cargo tells of, by folder of its package and name.
fn program_in(message: &Value) -> Option<((String, String), PathBuf)> {
    let executable = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.file_name()?.to_str()?.to_owned();
    Some(((folder, message["target"]["name"].as_str()?.to_owned()), PathBuf::from(executable)))
}

fn fault_in(message: &Value) -> Option<Fault> {
    let message = &message["message"];
    let spans = message["spans"].as_array().filter(|_| message["level"] == "error")?;
    let places = spans.iter().filter(|span| span["is_primary"] == true).filter_map(|span| {
        let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
        Some((span["file_name"].as_str()?.to_owned(), line))
    });
    let text = message["rendered"].as_str().unwrap_or_default().to_owned();
    Some(Fault { places: places.collect(), text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_and_errors_are_found_in_what_cargo_says() {
        let artifact = json!({
            "manifest_path": "/x/crates/volume/Cargo.toml", "profile": {"test": true},
            "target": {"name": "laws"}, "executable": "/x/laws-1"
        });
        let key = ("volume".to_owned(), "laws".to_owned());
        assert_eq!(program_in(&artifact), Some((key, PathBuf::from("/x/laws-1"))));
        let span = |primary| json!({"is_primary": primary, "file_name": "a.rs", "line_start": 7});
        let error = |level| json!({"message": {"level": level, "rendered": "no", "spans": [span(true), span(false)]}});
        let fault = fault_in(&error("error")).unwrap();
        assert_eq!((fault.places, fault.text.as_str()), (vec![("a.rs".to_owned(), 7)], "no"));
        assert!(fault_in(&error("warning")).is_none() && fault_in(&artifact).is_none());
    }
}
