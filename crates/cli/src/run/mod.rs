//! `nearhead run`: a program as it is, its log and bulk files through the write-ahead log library.
//!
//! Puts `libnearhead_preload.so` in front of the program's C library and becomes the program. What is
//! routed, and what cannot be, stands in docs/wal.md.

mod guardian;

use nearhead_wal::Awake;
use nearhead_wal::guardian::{Settled, repair};
use nearhead_wal::writer::{Choice, Mode, Permitted, Place};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the library, when it is where nobody looks.
const LIBRARY_VARIABLE: &str = "NEARHEAD_PRELOAD";
const LIBRARY: &str = "libnearhead_preload.so";

/// Programs that are known to skip zeros behind the content of their logs, by the names of their files:
/// those of `RocksDB`, whose reader ends at a header of zeros. A test kills each.
const SKIP_ZEROS: [&str; 2] = ["db_bench", "ldb"];

/// Arguments of `nearhead run`.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// Files that are logs, as a pattern (*, ?, **): a name, or a path; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub wal: Vec<OsString>,
    /// Files that are written in bulk: snapshots, compactions
    #[arg(long, value_name = "PATTERN")]
    pub bulk: Vec<OsString>,
    /// The program was compiled with `O_DUR`: what it opens with it is durability-only on a file system of Nearhead's
    #[arg(long)]
    pub o_dur: bool,
    /// Who makes the durable writes
    #[arg(long, value_enum, default_value_t = ModeArg::Thread)]
    pub mode: ModeArg,
    /// Write zeros ahead of the logs, which is faster, for a program that skips them when it starts again
    #[arg(long)]
    pub ahead: bool,
    /// Cut the zeros off that a power cut left behind the content of a log, and do nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "wal", "bulk", "o_dur", "ahead"])]
    pub repair: Vec<PathBuf>,
    /// Wait for the end of the program with this number: `first` starts the process that does
    #[arg(long, hide = true, requires = "guardian_of")]
    pub guardian: Option<String>,
    /// The program that a guardian waits for
    #[arg(long, hide = true)]
    pub guardian_of: Option<u32>,
    /// Keep processors awake while the program runs: a durable write waits for them to wake up. Costs power; needs root
    #[arg(long)]
    pub awake: bool,
    /// One line on standard error for each file that is routed
    #[arg(long)]
    pub verbose: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["repair", "guardian"], value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Who makes the durable writes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeArg {
    /// A thread of the library, in the real-time I/O class if that is permitted
    Thread,
    /// The thread of the program that syncs
    Caller,
}

/// Runs the command: on success it is the program from here on.
pub fn run(args: &RunArgs) -> Result<(), String> {
    if let (Some(stage), Some(program)) = (&args.guardian, args.guardian_of) {
        return guardian::run(stage, program);
    }
    if !args.repair.is_empty() {
        return args.repair.iter().try_for_each(|path| repair_one(path));
    }
    if args.wal.is_empty() && args.bulk.is_empty() && !args.o_dur {
        return Err(
            "run: expected --wal or --bulk, or --o-dur, found none; without them run the program by \
                    itself"
                .to_owned(),
        );
    }
    let library = library()?;
    let (name, mode) = match args.mode {
        ModeArg::Thread => ("thread", Mode::Thread),
        ModeArg::Caller => ("caller", Mode::Caller),
    };
    let wal = args.wal.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
    let bulk = args.bulk.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
    if args.verbose {
        for pattern in &wal {
            explain(pattern, mode);
        }
    }
    if args.awake {
        let kept = Awake::keep().and_then(Awake::hand_on);
        kept.map_err(|error| {
            format!(
                "run: --awake: cannot keep processors awake: {error}; run as root, or leave it out"
            )
        })?;
    }
    let is_ahead = args.ahead || is_known_to_skip_zeros(&args.command[0]);
    if args.ahead {
        wal.iter().try_for_each(check_ahead)?;
    }
    let guardian = match (is_ahead && !wal.is_empty()).then(guardian::start) {
        Some(Err(error)) if args.ahead => return Err(error),
        Some(Err(error)) => {
            nearhead_output::note(&error);
            String::new()
        }
        Some(Ok(name)) => name,
        None => String::new(),
    };
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let error = Command::new(&args.command[0])
        .args(&args.command[1..])
        .env("LD_PRELOAD", preload)
        .env("NEARHEAD_RUN_WAL", wal.join(std::ffi::OsStr::new(":")))
        .env("NEARHEAD_RUN_BULK", bulk.join(std::ffi::OsStr::new(":")))
        .env("NEARHEAD_RUN_MODE", name)
        .env("NEARHEAD_RUN_AHEAD", guardian)
        .env("NEARHEAD_RUN_VERBOSE", if args.verbose { "1" } else { "0" })
        .exec();
    Err(format!("run: cannot start {}: {error}", args.command[0].display()))
}

/// Whether the program is one that skips zeros behind its logs.
fn is_known_to_skip_zeros(program: &OsString) -> bool {
    let name = Path::new(program).file_name();
    name.is_some_and(|name| SKIP_ZEROS.iter().any(|known| name == *known))
}

/// Refuses a pattern for files with zeros ahead that takes every file of a directory.
fn check_ahead(pattern: &OsString) -> Result<(), String> {
    let bytes = pattern.as_bytes();
    let name = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
    if name.iter().any(|byte| !matches!(byte, b'*' | b'?')) {
        return Ok(());
    }
    Err(format!(
        "run: --ahead: {}: expected a pattern that names logs, found one that takes every file; only a log's reader skips zeros",
        pattern.display()
    ))
}

/// Cuts zeros off that follow the content of a log.
fn repair_one(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match repair(path).map_err(|error| format!("run: --repair: {shown}: {error}"))? {
        Settled::Cut(bytes) => {
            nearhead_output::say(&format!("{shown}: cut to its content, {bytes} bytes"));
        }
        Settled::Unmarked | Settled::Changed => {
            nearhead_output::say(&format!(
                "{shown}: nothing to cut: no zeros of nearhead run follow its content"
            ));
        }
        Settled::OpenElsewhere => {
            return Err(format!(
                "run: --repair: {shown}: a process has it open; end that, or run it under nearhead run, and try again"
            ));
        }
    }
    Ok(())
}

/// The library: named, or beside this program, or where it is installed.
fn library() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().map_err(|error| format!("run: who am I? {error}"))?;
    let beside = own.with_file_name(LIBRARY);
    let installed = own.parent().and_then(Path::parent).map(|prefix| {
        let mut path = prefix.join("lib/nearhead");
        path.push(LIBRARY);
        path
    });
    let candidates = [Some(beside), installed];
    candidates.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "run: expected {LIBRARY} beside {}, or in ../lib/nearhead, found none; build it with \
             `make libraries`, or name it in {LIBRARY_VARIABLE}",
            own.display()
        )
    })
}

/// The pattern as the library compares it: with the real path of its directory. A name stays a name.
fn absolute(pattern: &OsString) -> Result<OsString, String> {
    let bytes = pattern.as_bytes();
    if bytes.is_empty() || bytes.contains(&b':') {
        let shown = pattern.display();
        return Err(format!("run: {shown:?}: expected a pattern without a colon"));
    }
    let special = bytes.iter().position(|byte| matches!(byte, b'*' | b'?')).unwrap_or(bytes.len());
    let Some(slash) = bytes[..special].iter().rposition(|byte| *byte == b'/') else {
        return if bytes.contains(&b'/') {
            Err(format!("run: {}: expected a directory before the first * or ?", pattern.display()))
        } else {
            Ok(pattern.clone())
        };
    };
    let (directory, rest) = bytes.split_at(slash);
    let directory = if directory.is_empty() { b"/" } else { directory };
    let directory = Path::new(std::ffi::OsStr::from_bytes(directory));
    // One that is not there yet will be made where it is named.
    let real = directory.canonicalize().or_else(|_| std::path::absolute(directory));
    let real = real.map_err(|error| format!("run: {}: {error}", directory.display()))?;
    let mut whole = real.into_os_string().into_vec();
    while whole.last() == Some(&b'/') {
        whole.pop();
    }
    whole.extend_from_slice(rest);
    Ok(OsString::from_vec(whole))
}

/// Says who will write there, and what would be better, where that can be known.
fn explain(pattern: &OsString, mode: Mode) {
    let Some(directory) = Path::new(pattern).parent().filter(|directory| directory.is_dir()) else {
        return;
    };
    if let Ok(place) = Place::of(directory) {
        let choice = Choice::make(mode, &place, Permitted::find_out());
        nearhead_output::note(&format!("run: {}: {choice}", directory.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_made_absolute_up_to_their_first_star() {
        let of = |pattern: &str| absolute(&OsString::from(pattern)).map(OsString::into_string);
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let here = here.to_str().unwrap();
        assert_eq!(of("log.*"), Ok(Ok("log.*".to_owned())));
        assert_eq!(of("./log.*"), Ok(Ok(format!("{here}/log.*"))));
        assert_eq!(of("nothing/here/*.wal"), Ok(Ok(format!("{here}/nothing/here/*.wal"))));
        assert_eq!(of("/*/x"), Ok(Ok("/*/x".to_owned())));
        assert!(of("*/x").is_err() && of("a:b").is_err() && of("").is_err());
    }
}
