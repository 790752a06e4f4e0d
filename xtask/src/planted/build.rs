//! Building what looks for the planted mistakes, and finding what was built.

use crate::sandbox::Sandbox;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Packages with the rungs.
const PACKAGES: [&str; 10] = [
    "nearhead-format",
    "nearhead-arrays",
    "nearhead-engine",
    "nearhead-volume",
    "nearhead-fs",
    "nearhead-swarm",
    "nearhead-hostile",
    "nearhead-nbd",
    "nearhead-uring",
    "nearhead-cli",
];

/// The simulator's name as a target.
const SIMULATOR: &str = "nearhead-sim";

/// Where the programs are, by package and target.
pub(super) struct Programs {
    folder: PathBuf,
    paths: BTreeMap<(String, String), PathBuf>,
}

impl Programs {
    /// The test program of this target.
    pub(super) fn test(&self, package: &str, target: &str) -> Option<&Path> {
        self.paths.get(&(package.to_owned(), target.to_owned())).map(PathBuf::as_path)
    }

    /// Where files about a run may be left.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn simulator(&self) -> Option<&Path> {
        self.test("nearhead-swarm", SIMULATOR)
    }
}

/// Builds libraries and these tests of theirs as they are in the copy; none if that fails, which cargo has said why.
pub(super) fn build<'a>(
    sandbox: &Sandbox,
    folder: PathBuf,
    targets: impl Iterator<Item = &'a str>,
) -> Option<Programs> {
    let mut command = sandbox.cargo();
    command.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    // All tests of these packages take several times as long to build. A library is called like its package.
    let libraries: Vec<String> = PACKAGES.iter().map(|package| package.replace('-', "_")).collect();
    let tests: BTreeSet<&str> =
        targets.filter(|target| !libraries.iter().any(|library| library == target)).collect();
    command.arg("--lib").args(tests.into_iter().flat_map(|test| ["--test", test]));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cargo cannot be run: {error}");
            return None;
        }
    };
    let lines = child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
    let paths = lines.map_while(Result::ok).filter_map(|line| program_in(&line)).collect();
    let built = child.wait().is_ok_and(|status| status.success());
    built.then_some(Programs { folder, paths })
}

/// The program that a message of cargo tells of, if it does.
fn program_in(line: &str) -> Option<((String, String), PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let executable = message["executable"].as_str()?;
    let target = &message["target"];
    let is_simulator = target["name"] == SIMULATOR && message["profile"]["test"] == false;
    if message["profile"]["test"] != true && !is_simulator {
        return None;
    }
    // The simulator is also built as a test of itself, under the same name.
    if target["name"] == SIMULATOR && !is_simulator {
        return None;
    }
    let package = PACKAGES.iter().find(|package| {
        let manifest = message["manifest_path"].as_str().unwrap_or_default();
        let folder = package.strip_prefix("nearhead-").unwrap_or(package);
        manifest.ends_with(&format!("crates/{folder}/Cargo.toml"))
    })?;
    let name = target["name"].as_str()?.to_owned();
    Some((((*package).to_owned(), name), PathBuf::from(executable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_found_in_what_cargo_says() {
        let message = |name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/x/crates/swarm/Cargo.toml",
                "target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let found = program_in(&message("nth_failure", true, "\"/x/a\"")).unwrap();
        assert_eq!(found.0, ("nearhead-swarm".to_owned(), "nth_failure".to_owned()));
        assert!(program_in(&message("nearhead-sim", false, "\"/x/sim\"")).is_some());
        assert!(program_in(&message("nearhead-sim", true, "\"/x/sim-test\"")).is_none());
        assert!(program_in(&message("nearhead_swarm", false, "null")).is_none());
        assert!(program_in("warning: no JSON").is_none());
    }
}
