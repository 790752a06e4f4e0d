//! Building test programs of a copy, and what cargo says about it.

use super::Program;
use crate::sandbox::Sandbox;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

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

/// Builds the tests of these programs.
pub(super) fn build(sandbox: &Sandbox, programs: &[Program]) -> Result<Built, String> {
    let mut command = sandbox.cargo();
    command.args(["test", "--no-run", "--quiet", "--message-format", "json"]);
    let packages: BTreeSet<&str> = programs.iter().map(|program| program.package).collect();
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let targets: BTreeSet<Option<&str>> = programs.iter().map(|program| program.target).collect();
    for target in targets {
        match target {
            None => command.arg("--lib"),
            Some(name) => command.args(["--test", name]),
        };
    }
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
