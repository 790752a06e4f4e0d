//! Completion in bash, zsh and fish: what may stand where the cursor is.
//!
//! The function that `nearhead generate` writes for a shell runs the program with [`VARIABLE`] set, and gets candidates, one a line. Commands,
//! options and enumerations are those of the parser (`clap_complete`); what else a value may be is said in `arguments.rs`.
//!
//! Whoever presses a key waits, and has asked for nothing: no device is opened, nothing is changed, daemons are asked only what they serve, and
//! after [`WAIT_MAX`] there are no candidates, whatever hangs. Nothing but candidates is printed, as all of it would stand in the user's line.

mod arguments;
mod line;
mod machine;
mod path;
mod setting;
mod shell;
mod target;

use clap::Command;
use clap_complete::engine::CompletionCandidate;
use line::Line;
use nearhead_output::plain;
pub use shell::Shell;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Asks for completion, in the shell that it names.
pub const VARIABLE: &str = "NEARHEAD_COMPLETE";
/// How long candidates may take.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What came of it, if completion was asked for: with nothing behind the program's name a shell's function is printed, with `--` and words
/// candidates for the last word.
pub fn asked(program: fn() -> Command, args: &[OsString]) -> Option<Result<ExitCode, String>> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
    let Some(shell) = Shell::named(&named) else {
        return Some(Err(format!(
            "{VARIABLE}: expected bash, zsh or fish, found {}; unset it unless a shell asks for candidates",
            named.display()
        )));
    };
    let (own, words) = args.split_at(args.len().min(1));
    match words {
        [] => {
            let own = own.first().map(|name| name.to_string_lossy().into_owned());
            print(&shell.function(&called_from_anywhere(own.as_deref())));
            Some(Ok(ExitCode::SUCCESS))
        }
        [mark, words @ ..] if mark == "--" => Some(Ok(answer(program, shell, words.to_vec()))),
        [other, ..] => Some(Err(format!(
            "{VARIABLE} is {}, which is for completion alone: expected nothing or -- behind the program's name, found {}; unset it",
            named.display(),
            other.display()
        ))),
    }
}

/// A program's name that means the same in whichever folder the shell is.
fn called_from_anywhere(name: Option<&str>) -> String {
    let name = name.filter(|name| !name.is_empty()).unwrap_or("nearhead");
    if !name.contains('/') {
        return name.to_owned();
    }
    std::path::absolute(name)
        .map_or_else(|_| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

fn answer(program: fn() -> Command, shell: Shell, words: Vec<OsString>) -> ExitCode {
    let (sender, receiver) = mpsc::channel();
    // What hangs ends with the process.
    std::thread::spawn(move || sender.send(candidates(program, shell, words)));
    match receiver.recv_timeout(WAIT_MAX) {
        Ok(text) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn print(text: &str) {
    // A shell that does not listen wants none.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn candidates(program: fn() -> Command, shell: Shell, words: Vec<OsString>) -> String {
    let Some(line) = shell.line(words) else { return String::new() };
    let mut command = arguments::offered(program(), &line);
    let words = line.words.iter().map(OsString::from).collect();
    let current = line.words.len().saturating_sub(1);
    let folder = std::env::current_dir().ok();
    let found = clap_complete::engine::complete(&mut command, words, current, folder.as_deref());
    shell.shown(&line, &wanted(&line, found.unwrap_or_default()))
}

/// Those that can be typed; and options only to who began one, or where nothing else can stand.
fn wanted(line: &Line, all: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let is_option = |candidate: &CompletionCandidate| {
        candidate.get_value().to_str().is_some_and(|value| value.starts_with('-'))
    };
    let can_be_typed = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_str();
        value.is_some_and(|value| !value.is_empty() && plain(value) == value)
    };
    let all = all.into_iter().map(|candidate| by_own_name(line, candidate));
    let mut all: Vec<_> = all.filter(can_be_typed).collect();
    if line.current().is_empty() && all.iter().any(|candidate| !is_option(candidate)) {
        all.retain(|candidate| !is_option(candidate));
    }
    all
}

/// A command by its own name rather than another one that it has, where both go on from what was typed: of a command one name alone is left.
fn by_own_name(line: &Line, candidate: CompletionCandidate) -> CompletionCandidate {
    let name = candidate.get_id().and_then(|id| id.strip_prefix("command::"));
    match name.filter(|name| name.starts_with(line.current())) {
        Some(name) => CompletionCandidate::new(name).help(candidate.get_help().cloned()),
        None => candidate,
    }
}
