//! Why a command failed, the last line of standard error: a sentence for people, or the same in JSON for a program that reads it.
//!
//! Whoever reads the command line says which, before anything can fail for good. A line in JSON has neither the program's name nor a
//! priority in front: it is one object by itself, also under a service manager.

use super::{blame, json_shown};
use serde::Serialize;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

/// The command whose errors are told as JSON, if they are.
static AS_JSON: Mutex<Option<String>> = Mutex::new(None);

#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    command: &'a str,
    exit_code: u8,
}

/// Lets [`fail`] tell of the command of that name as JSON, or of any as text.
pub fn tell_failures_as_json(command: Option<String>) {
    *AS_JSON.lock().unwrap_or_else(PoisonError::into_inner) = command;
}

/// Prints why the program ends with that exit code; ending is the caller's.
pub fn fail(error: &str, exit_code: u8) {
    let command = AS_JSON.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match command.and_then(|command| formed(error, &command, exit_code)) {
        // Nobody to tell: nothing to be done about it.
        Some(line) => drop(io::stderr().lock().write_all(line.as_bytes())),
        None => blame(error),
    }
}

fn formed(error: &str, command: &str, exit_code: u8) -> Option<String> {
    let line = serde_json::to_string(&Failure { error, command, exit_code }).ok()?;
    Some(format!("{}\n", json_shown(&line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_in_json_is_one_line_whatever_is_in_it() {
        let error = "a\nb \"c\" \u{9b}\u{2028}";
        let line = formed(error, "disk list", 1).unwrap();
        assert_eq!(line.lines().count(), 1);
        assert!(!line.trim_end().chars().any(super::super::changes_a_terminal), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected =
            serde_json::json!({ "error": error, "command": "disk list", "exit_code": 1 });
        assert_eq!(read, expected);
    }
}
