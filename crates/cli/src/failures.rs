//! Whether a command's errors are told as JSON: if it was told `--json`, also where the command line cannot be read.
//!
//! A process that has a part in `attach` (`--role`) keeps them as text: whoever started it reads them, and tells them in its own way.

use clap::{ArgMatches, Command, error::ErrorKind};
use nearhead_output as output;
use std::ffi::OsString;
use std::process::ExitCode;

const JSON: &str = "json";
const ROLE: &str = "role";

/// The command, if a line that was not parsed asks for JSON.
pub fn asked_in_words(program: &Command, args: &[OsString]) -> Option<String> {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let own = args.get(1..end).unwrap_or_default();
    let (mut command, mut names) = (program, Vec::new());
    for word in own {
        let Some(found) = command.find_subcommand(word) else { break };
        (command, names) = (found, [names, vec![found.get_name()]].concat());
    }
    let has_json = command.get_arguments().any(|arg| arg.get_id() == JSON);
    let is_role = |text: &str| text == "--role" || text.starts_with("--role=");
    let has_role = own.iter().filter_map(|arg| arg.to_str()).any(is_role);
    let is_asked = has_json && own.iter().any(|arg| arg == "--json");
    (is_asked && !has_role).then(|| names.join(" "))
}

/// The command, if it was told `--json`.
pub fn asked(matches: &ArgMatches) -> Option<String> {
    let (mut deepest, mut names) = (matches, Vec::new());
    while let Some((name, below)) = deepest.subcommand() {
        deepest = below;
        names.push(name);
    }
    let is_asked = deepest.try_get_one::<bool>(JSON).ok().flatten() == Some(&true);
    let has_role = deepest.try_contains_id(ROLE).unwrap_or(false);
    (is_asked && !has_role).then(|| names.join(" "))
}

/// Tells of a command line that cannot be read, or the help that it asks for.
pub fn refused(error: &clap::Error, is_json: bool) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(1);
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_json && !is_help {
        output::fail(&sentence(&error.render().to_string()), code);
    } else {
        // Nobody to tell: nothing to be done about it.
        let _ = error.print();
    }
    ExitCode::from(code)
}

/// What is wrong on one line, without the usage that people are shown below it.
fn sentence(text: &str) -> String {
    let text = text.split_once("\n\nUsage:").map_or(text, |(before, _)| before);
    let text = text.split_once("\n\nFor more information").map_or(text, |(before, _)| before);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_line_asks_for_json_before_and_after_it_was_parsed() {
        for (line, expected) in [
            ("nearhead status a.img --json", Some("status")),
            ("nearhead open a.img --json", Some("serve")),
            ("nearhead disk list --json", Some("disk list")),
            ("nearhead status a.img", None),
            ("nearhead attach --role supervisor a.img --json", None),
            ("nearhead attach --role=worker a.img --json", None),
            ("nearhead attach a.img --json", Some("attach")),
            ("nearhead run -- sh --json", None),
            ("nearhead stop -- --json", None),
        ] {
            let (program, words) = (crate::program(), words(line));
            assert_eq!(asked_in_words(&program, &words).as_deref(), expected, "{line}");
            let matches = program.try_get_matches_from(words).unwrap();
            assert_eq!(asked(&matches).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_asks_for_json_only_of_a_command_that_has_it() {
        let program = crate::program();
        for (line, expected) in [
            ("nearhead status --json --nonsense", Some("status")),
            ("nearhead disk list --json --nonsense", Some("disk list")),
            ("nearhead mkfs --json", Some("mkfs")),
            ("nearhead umount --json --nonsense", Some("umount")),
            ("nearhead run --json --nonsense", None),
            ("nearhead disk --json", None),
            ("nearhead --json status", None),
            ("nearhead nonsense --json", None),
            ("nearhead", None),
            ("", None),
        ] {
            assert!(crate::program().try_get_matches_from(words(line)).is_err(), "{line}");
            assert_eq!(asked_in_words(&program, &words(line)).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_sentence_has_what_is_wrong_and_no_usage() {
        let text = "error: these were not provided:\n  <TARGET>\n\nUsage: nearhead x <TARGET>\n\nFor more information, try '--help'.\n";
        assert_eq!(sentence(text), "these were not provided: <TARGET>");
    }
}
