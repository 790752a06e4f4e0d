//! Line coverage of the crates whose every line matters, and the promise that it stays high.
//!
//! The compiler counts (`-C instrument-coverage`), the tests of SAFETY.md and some lives of the swarm run,
//! and the tools of LLVM tell which lines never ran. Lines of tests are not counted: a test that runs says
//! nothing about what it tests. Nothing is installed; what is missing is named with the command that gets it.

mod lcov;

use lcov::Lines;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Crates whose coverage is promised (docs/testing.md), and how much of it in percent.
const CRATES: [&str; 3] = ["format", "engine", "nbd"];
const PERCENT_MIN: f64 = 95.0;

/// Packages whose tests count.
const PACKAGES: [&str; 6] = [
    "nearhead-format",
    "nearhead-engine",
    "nearhead-nbd",
    "nearhead-volume",
    "nearhead-hostile",
    "nearhead-swarm",
];

/// Lives of the swarm that count.
const SEEDS: &str = "0..300";

/// One in so many of the three-step workloads of the exhaustive test: counters make it slow.
const EXHAUSTIVE_STRIDE: &str = "499";

/// Files shown for each crate, the least covered first.
const FILES_SHOWN: usize = 6;

/// Measures and prints; true if every crate reaches what is promised.
pub(crate) fn run(root: &Path) -> bool {
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(missing) => {
            println!("coverage: {missing}");
            return false;
        }
    };
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let measurement = Measurement { root, target: target.join("coverage") };
    // Counts of an earlier build would be taken for this one's.
    let _ = std::fs::remove_dir_all(measurement.profiles());
    let Some(objects) = measurement.build() else { return false };
    if !measurement.run_tests() {
        println!("coverage: a test failed; mend it first");
        return false;
    }
    match measurement.export(&tools, &objects) {
        Ok(text) => report(&lcov::read(&text, root)),
        Err(error) => {
            println!("coverage: {error}");
            false
        }
    }
}

/// What reads the counters: LLVM's own tools, of the version the compiler was built with.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    fn find() -> Result<Self, String> {
        let version = output(Command::new("rustc").arg("-vV"))?;
        let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name));
        let host = field("host: ").unwrap_or_default();
        let major = field("LLVM version: ").and_then(|v| v.split('.').next()).unwrap_or_default();
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let component = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin");
        let find = |name: &str| {
            let beside = component.join(name);
            if beside.exists() {
                return Some(beside);
            }
            let versioned = PathBuf::from(format!("{name}-{major}"));
            output(Command::new(&versioned).arg("--version")).ok().map(|_| versioned)
        };
        match (find("llvm-profdata"), find("llvm-cov")) {
            (Some(profdata), Some(cov)) => Ok(Self { profdata, cov }),
            _ => Err(format!(
                "llvm-profdata and llvm-cov of LLVM {major} are missing; get them with: \
                 rustup component add llvm-tools (or: apt-get install llvm-{major})"
            )),
        }
    }
}

struct Measurement<'a> {
    root: &'a Path,
    /// A directory of its own: the flag would otherwise build everything again, twice.
    target: PathBuf,
}

impl Measurement<'_> {
    fn profiles(&self) -> PathBuf {
        self.target.join("profiles")
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.root).stdin(Stdio::null());
        command.env("CARGO_TARGET_DIR", &self.target).env("RUSTFLAGS", "-C instrument-coverage");
        // One file for each program, whose counts are added up.
        command.env("LLVM_PROFILE_FILE", self.profiles().join("%m.profraw"));
        command.env("EXHAUSTIVE_STRIDE", EXHAUSTIVE_STRIDE);
        command
    }

    fn tests(&self, more: &[&str]) -> Command {
        let mut arguments = vec!["test", "--lib", "--bins", "--tests"];
        for package in PACKAGES {
            arguments.extend(["--package", package]);
        }
        arguments.extend(more);
        self.cargo(&arguments)
    }

    /// Builds every program that will run; their paths, or nothing if it fails.
    fn build(&self) -> Option<Vec<PathBuf>> {
        let mut command = self.tests(&["--no-run", "--message-format", "json-render-diagnostics"]);
        let messages =
            output(command.stderr(Stdio::inherit())).map_err(|e| println!("{e}")).ok()?;
        let objects = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message["executable"].as_str().map(PathBuf::from)
        });
        Some(objects.collect())
    }

    fn run_tests(&self) -> bool {
        let simulator = ["run", "--package", "nearhead-swarm", "--bin", "nearhead-sim", "--"];
        let mut simulate = self.cargo(&simulator);
        simulate.args(["--seeds", SEEDS]);
        [self.tests(&[]), simulate]
            .into_iter()
            .all(|mut command| command.status().is_ok_and(|status| status.success()))
    }

    /// Which line of the crates in question ran how often, as lcov writes it.
    fn export(&self, tools: &Tools, objects: &[PathBuf]) -> Result<String, String> {
        let merged = self.target.join("all.profdata");
        let profiles = std::fs::read_dir(self.profiles()).map_err(|error| error.to_string())?;
        let profiles = profiles.flatten().map(|entry| entry.path());
        let mut merge = Command::new(&tools.profdata);
        output(merge.args(["merge", "--sparse", "-o"]).arg(&merged).args(profiles))?;
        let mut export = Command::new(&tools.cov);
        export.args(["export", "--format=lcov", "--instr-profile"]).arg(&merged);
        // The first program stands alone: without it a directory of sources would be taken for one.
        for (number, object) in objects.iter().enumerate() {
            if number > 0 {
                export.arg("--object");
            }
            export.arg(object);
        }
        export.args(CRATES.map(|name| self.root.join("crates").join(name).join("src")));
        output(&mut export)
    }
}

/// Runs a program; what it printed, or what it complained about.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let found = command.output().map_err(|error| format!("{name} cannot be run: {error}"))?;
    if found.status.success() {
        return Ok(String::from_utf8_lossy(&found.stdout).into_owned());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&found.stderr)))
}

/// Prints each crate with its least covered files; true if all reach the promise.
fn report(files: &[(String, Lines)]) -> bool {
    let mut kept = true;
    for name in CRATES {
        let directory = format!("crates/{name}/src/");
        let mut files: Vec<_> =
            files.iter().filter(|(file, _)| file.starts_with(&directory)).collect();
        let (ran, all) = files
            .iter()
            .fold((0, 0), |(ran, all), (_, lines)| (ran + lines.ran, all + lines.all()));
        let percent = percent(ran, all);
        let verdict = if percent >= PERCENT_MIN { "ok" } else { "TOO LOW" };
        kept &= percent >= PERCENT_MIN;
        println!("{name}: {percent:.2} % of {all} lines, {PERCENT_MIN} % promised: {verdict}");
        files.sort_by(|(_, a), (_, b)| {
            percent_of(a).total_cmp(&percent_of(b)).then(b.all().cmp(&a.all()))
        });
        for (file, lines) in files.into_iter().take(FILES_SHOWN) {
            println!("  {:>6.2} %  {file}: never ran {}", percent_of(lines), lines.never_ran());
        }
    }
    kept
}

fn percent_of(lines: &Lines) -> f64 {
    percent(lines.ran, lines.all())
}

fn percent(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}
