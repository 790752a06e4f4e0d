//! The Python package over this library: its own tests and the check of its types, in the environment that `scripts/install-python-tests` made, or with
//! whatever `python3` has.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter of the environment for tests, or the system's.
fn interpreter() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python-venv/bin/python");
    if ours.exists() { ours } else { PathBuf::from("python3") }
}

fn has(module: &str) -> bool {
    let import = format!("import {module}");
    let tried = Command::new(interpreter()).args(["-c", &import]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// The package as it is installed, with the library that was just built.
fn package() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-study");
    let package = place.join("nearhead");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&package).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/nearhead");
    copy_sources(&sources, &package);
    let library = std::env::current_exe().unwrap().with_file_name("libnearhead_python.so");
    fs::copy(library, package.join("_native.abi3.so")).unwrap();
    place
}

fn copy_sources(from: &Path, to: &Path) {
    for source in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (source.path(), to.join(source.file_name()));
        if source.file_type().unwrap().is_file() {
            fs::copy(from, to).unwrap();
        } else if source.file_name() != "__pycache__" {
            fs::create_dir_all(&to).unwrap();
            copy_sources(&from, &to);
        }
    }
}

#[test]
fn the_tests_of_the_package_pass() {
    if !has("pytest") {
        println!("skipped: there is no python3 with pytest; scripts/install-python-tests gets it");
        return;
    }
    let frames = ["numpy", "pandas", "polars", "pyarrow"];
    let clusters = ["cloudpickle", "distributed", "ray", "tqdm"];
    let notebooks = ["matplotlib", "plotly", "nbformat", "nbclient", "ipykernel", "griffe"];
    for module in frames.into_iter().chain(clusters).chain(notebooks).chain(["simpy"]) {
        if !has(module) {
            println!(
                "skipped: there is no {module} for tests in Python; scripts/install-python-tests gets it"
            );
        }
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(interpreter())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])
        .current_dir(tests)
        .env("PYTHONPATH", package())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
}

#[test]
fn the_types_of_the_package_are_consistent() {
    if !has("mypy") {
        println!("skipped: there is no python3 with mypy; scripts/install-python-tests gets it");
        return;
    }
    let output = Command::new(interpreter())
        .args(["-m", "mypy", "--strict", "--config-file", "pyproject.toml"])
        .arg("--cache-dir=/dev/null")
        .arg("python/nearhead")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
