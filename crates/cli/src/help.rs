//! Help for people: commands in groups by what one wants, examples for each, and presets in plain words.
//!
//! The same texts go into `--help` and the man pages. A command that is in no group is still shown, among the others.

mod examples;

pub use examples::{Example, FILES, examples_of, exit_status_of};

use clap::{Arg, ArgAction, Command};
use std::fmt::Write as _;

/// Groups of commands, in the order in which somebody new meets them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Make", &["create", "mkfs", "grow", "calibrate"]),
    (
        "Run",
        &[
            "serve",
            "attach",
            "detach",
            "upgrade",
            "mount",
            "umount",
            "sync",
            "set",
            "stop",
            "checkpoint",
            "drain",
            "hint",
            "run",
            "wal",
        ],
    ),
    ("Look", &["status", "check", "dump", "fsck"]),
    ("Mend", &["replace", "repair", "forget-log", "backup-metadata", "restore-metadata"]),
    ("Study", &["disk", "demo", "trace", "replay", "bench", "figures"]),
];
/// Of the others.
const OTHERS: &str = "Other";

/// Which preset is for whom, shorter than docs/create.md.
const PRESETS: &str = "Which preset?
  Take none: `nearhead` is what you want on a disk, a partition or an image.
  It writes small durable writes where the disk's head is, and large ones home at once.
  - A hard disk of its own: run `nearhead calibrate DISK --store` afterwards, then small writes wait for no revolution.
  - Several large drives that are mostly appended to and overwritten: `gecko`, one log over all of them (--chain).
  - A small spare disk in front of large ones: `trail`, every write goes to the small one first (--data-devices).
  - To compare with: `mlb` and `mlb-256` (the log nearest the head), `singlelog` (one log in the middle), `nolog` (no log at all).
  - `mlsmr` and `slsmr` are for shingled disks that tell their zones; today those are emulated ones.";

/// The program's commands, with groups and examples in their help.
pub fn explained(command: Command) -> Command {
    let groups = groups(&command);
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let explain = |command: Command, name: &String| {
        command.mut_subcommand(name, |found| match long_help(name) {
            Some(text) => found.after_long_help(text),
            None => found,
        })
    };
    with_json_told(names.iter().fold(command, explain))
        .help_template(
            "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}\n",
        )
        .after_help(groups)
}

/// Commands that have no `--json`: the words behind `run` are another program's, and `helper` speaks a protocol.
const WITHOUT_JSON: [&str; 2] = ["run", "helper"];

/// Gives every command `--json`, also those below commands, and says of each what it does to errors. A command without a JSON report of its
/// own prints each line of its report as an object.
fn with_json_told(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    let command =
        names.iter().fold(command, |command, name| command.mut_subcommand(name, with_json_told));
    let lacks = command.get_arguments().all(|arg| arg.get_id() != "json");
    let is_left_out = command.has_subcommands() || WITHOUT_JSON.contains(&command.get_name());
    let command = match (lacks, is_left_out) {
        (true, true) => return command,
        (true, false) => command.arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print each line of the report as a JSON object"),
        ),
        (false, _) => command,
    };
    command.mut_arg("json", |arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!("{help}; an error too, as the last line of standard error"))
    })
}

/// All commands by groups, with what each is for.
fn groups(command: &Command) -> String {
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> =
        command.get_subcommands().map(Command::get_name).filter(|name| !is_grouped(name)).collect();
    let width = command.get_subcommands().map(|it| it.get_name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, names) in GROUPS.into_iter().chain([(OTHERS, others.as_slice())]) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<width$}  {about}");
        }
        text.push('\n');
    }
    text.push_str("`nearhead COMMAND --help` has examples of each.\n");
    text
}

fn long_help(name: &str) -> Option<String> {
    let examples = examples_of(name);
    let mut text = String::new();
    if name == "create" {
        let _ = writeln!(text, "{PRESETS}\n");
    }
    if !examples.is_empty() {
        text.push_str("Examples:\n");
        for Example { command, what } in examples {
            let _ = writeln!(text, "  {command}\n      {what}");
        }
    }
    (!text.is_empty()).then(|| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group_has_an_example_and_is_there() {
        let command = crate::Cli::command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        for name in &grouped {
            assert!(command.find_subcommand(name).is_some(), "{name} is no command");
            assert_eq!(grouped.iter().filter(|other| other == &name).count(), 1, "{name}");
        }
        let shown = groups(&command);
        for name in command.get_subcommands().map(Command::get_name) {
            assert!(shown.contains(&format!("\n  {name} ")), "{name} is not shown");
            assert!(!examples_of(name).is_empty(), "{name} has no example");
        }
    }

    /// What an example shows can be typed.
    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        let commands = crate::Cli::command();
        for name in commands.get_subcommands().map(Command::get_name) {
            for Example { command, .. } in examples_of(name) {
                let words = command.split_whitespace().map(std::ffi::OsString::from);
                let words = crate::chain::expanded(words).unwrap();
                let parsed = crate::program().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
                assert!(command.starts_with("nearhead "), "{command}");
            }
        }
    }
}
