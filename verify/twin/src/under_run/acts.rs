//! Acts on a log file, in C since they are calls of the C library: `acts.c` has them all.
//!
//! Each is carried out plain and under `run`, in a folder of its own. What it prints, how it ends, and
//! every file that it leaves must be alike. While it runs, this process reads the log again and again:
//! what it reads must be a beginning of what the program had written by the end, and nothing else.

use super::{Settings, Way};
use crate::{Step, differs, tools};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const ALIKE: &str = "an act ends alike plain and under run";
const LIVE: &str = "another process reads only what the program wrote";

/// Compiles the acts into `folder`.
///
/// # Errors
/// Without a compiler.
pub fn compile(folder: &Path) -> Result<PathBuf, String> {
    tools::need(&["cc"])?;
    let (source, program) = (folder.join("acts.c"), folder.join("acts"));
    std::fs::write(&source, include_str!("acts.c")).map_err(|error| error.to_string())?;
    let arguments = ["-std=gnu11".as_ref(), "-O1".as_ref(), "-w".as_ref(), "-o".as_ref()];
    tools::ok("cc", &[&arguments[..], &[program.as_os_str(), source.as_os_str()]].concat())?;
    Ok(program)
}

/// Carries out every act both ways; returns how many there were.
///
/// # Errors
/// The first difference.
pub fn run(settings: &Settings) -> Step<usize> {
    let place = settings.place("acts")?;
    let program = compile(&place.0)?;
    let words: [&str; 0] = [];
    let names = tools::ok(&program.display().to_string(), &words)?;
    for name in names.lines() {
        let [plain, found] =
            [Way::Plain, Way::Run].map(|way| seen(settings, way, &program, name, &place.0));
        let (plain, found) = (plain?, found?);
        if plain != found {
            return differs(ALIKE, format!("{name}: expected\n{plain}found\n{found}"));
        }
    }
    live(settings, &program, &place.0)?;
    Ok(names.lines().count())
}

/// Observation of one act.
fn seen(
    settings: &Settings,
    way: Way,
    program: &Path,
    act: &str,
    place: &Path,
) -> Result<String, String> {
    let folder = fresh(place)?;
    let mut command = settings.command(way, "*.wal", program);
    let output = command.arg(&folder).arg(act).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{act}: {error}"))?;
    let mut seen = String::from_utf8_lossy(&output.stdout).into_owned();
    let (code, signal) = (output.status.code(), output.status.signal());
    let _ = writeln!(seen, "code {code:?}, signal {signal:?}");
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    names.sort();
    for path in names {
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        let name = path.file_name().unwrap_or_default().display();
        let sum =
            bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        let _ = writeln!(seen, "{name}: {} bytes, sum {sum:x}", bytes.len());
    }
    Ok(seen)
}

/// An empty folder, of the same name each time: acts print it.
fn fresh(place: &Path) -> Result<PathBuf, String> {
    let folder = place.join("files");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Reads the log of a program that appends, as long as it runs.
fn live(settings: &Settings, program: &Path, place: &Path) -> Step {
    let folder = fresh(place)?;
    let file = folder.join("x.wal");
    let mut command = settings.command(Way::Run, "*.wal", program);
    let mut child =
        command.arg(&folder).arg("append").spawn().map_err(|error| error.to_string())?;
    let mut reads = Vec::new();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        reads.extend(std::fs::read(&file).ok());
        reads.dedup();
    }
    let whole = std::fs::read(&file).map_err(|error| error.to_string())?;
    let wrong = reads.iter().find(|read| !whole.starts_with(read));
    wrong.map_or(Ok(()), |read| differs(LIVE, format!("{} bytes of {}", read.len(), whole.len())))
}
