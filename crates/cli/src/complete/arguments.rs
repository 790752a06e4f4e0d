//! What the value of each argument may be, where the parser cannot know: one table for all commands.
//!
//! Paths of a file (`PathBuf`) and enumerations need no row. A test wants every other argument to be here or among those that are anybody's guess.

use super::line::Line;
use super::{path, setting, target};
use crate::file_system::MOUNT_OPTIONS;
use clap::Command;
use clap_complete::ArgValueCompleter;
use clap_complete::engine::CompletionCandidate;
use nearhead_figures::FIGURES;
use nearhead_journal::MODES;
use nearhead_measure::bench;
use nearhead_sim::trace::Format;
use std::ffi::OsStr;
use target::told;

/// Completes a value.
type By = fn(&str) -> Vec<CompletionCandidate>;
/// The same where the words before it count.
type ByLine = fn(&Line, &str) -> Vec<CompletionCandidate>;

#[derive(Clone, Copy)]
enum Values {
    By(By),
    ByLine(ByLine),
}

use Values::{By as Of, ByLine as OfLine};

/// Of every command that has such an argument.
const EVERYWHERE: &[(&str, Values)] = &[
    ("chain", Of(target::several_free)),
    ("data_devices", Of(target::several_free)),
    ("log_devices", Of(target::several_free)),
    ("map_device", Of(target::free_path)),
    ("read_cache_device", Of(target::free_path)),
];

/// Of one command alone: its name, its argument.
const ALONE: &[(&str, &str, Values)] = &[
    ("attach", "file", Of(path::folders)),
    ("attach", "mount", Of(path::folders)),
    ("attach", "target", Of(target::free)),
    ("backup-metadata", "target", Of(target::any)),
    ("bench", "names", Of(benches)),
    ("bench", "only", Of(benches)),
    ("bench", "out", Of(path::folders)),
    ("calibrate", "target", Of(target::free)),
    ("check", "target", Of(target::free)),
    ("checkpoint", "target", Of(target::any)),
    ("create", "log_device", Of(target::free)),
    ("create", "target", Of(target::free)),
    ("demo", "out", Of(path::folders)),
    ("detach", "what", Of(target::attached)),
    ("disk serve", "disk", Of(target::model_target)),
    ("disk serve", "file", Of(path::folders)),
    ("disk validate", "plot", Of(path::any)),
    ("disk validate", "profile", Of(target::model)),
    ("drain", "target", Of(target::any)),
    ("dump", "target", Of(target::free)),
    ("figures", "names", Of(figures)),
    ("figures", "out", Of(path::folders)),
    ("figures", "traces", Of(path::folders)),
    ("forget-log", "target", Of(target::free)),
    ("fsck", "target", Of(target::free)),
    ("generate", "out", Of(path::folders)),
    ("grow", "target", Of(target::any_or_attached)),
    ("hint", "target", Of(target::any)),
    ("mkfs", "target", Of(target::free)),
    ("mount", "folder", Of(path::folders)),
    ("mount", "options", Of(mount_options)),
    ("mount", "target", Of(target::free)),
    ("repair", "target", Of(target::free)),
    ("replace", "new", Of(path::any)),
    ("replace", "old", Of(path::any)),
    ("replace", "target", Of(target::any_or_attached)),
    ("replay", "disk", Of(target::model)),
    ("replay", "format", Of(trace_formats)),
    ("restore-metadata", "target", Of(target::free)),
    ("run", "command", OfLine(target::program)),
    ("serve", "file", Of(path::folders)),
    ("serve", "rest_command", Of(path::programs_or_paths)),
    ("attach", "rest_command", Of(path::programs_or_paths)),
    ("serve", "target", Of(target::free)),
    ("set", "settings", OfLine(setting::completed)),
    ("set", "target", Of(target::served)),
    ("status", "target", Of(target::any)),
    ("stop", "target", Of(target::stoppable)),
    ("sync", "target", Of(target::served)),
    ("trace", "subject", Of(path::devices)),
    ("trace", "tracefs", Of(path::folders)),
    ("umount", "folder", Of(target::mounted)),
    ("upgrade", "what", Of(target::attached)),
    ("wal advise", "subject", Of(path::folders)),
];

/// The program's commands with what their values may be, for a line up to the cursor.
pub(super) fn offered(program: Command, line: &Line) -> Command {
    let mut program = program;
    for name in names_below(&program) {
        program = program.mut_subcommand(&name, |command| with_values(command, &name, line));
    }
    program
}

fn names_below(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|below| below.get_name().to_owned()).collect()
}

fn with_values(command: Command, name: &str, line: &Line) -> Command {
    let mut command = command;
    for below in names_below(&command) {
        let full = format!("{name} {below}");
        command = command.mut_subcommand(below, |command| with_values(command, &full, line));
    }
    // One by one would change the order of those that are known by their places.
    command.mut_args(|arg| match values_of(name, arg.get_id().as_str()) {
        Some(values) => arg.add(completer(values, line)),
        None => arg,
    })
}

fn values_of(command: &str, id: &str) -> Option<Values> {
    let alone = ALONE.iter().find(|(of, arg, _)| *of == command && *arg == id);
    let everywhere = || EVERYWHERE.iter().find(|(arg, _)| *arg == id);
    alone.map(|(.., values)| *values).or_else(|| everywhere().map(|(_, values)| *values))
}

fn completer(values: Values, line: &Line) -> ArgValueCompleter {
    let line = line.clone();
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some(current) = current.to_str() else { return Vec::new() };
        match values {
            Of(by) => by(current),
            OfLine(by) => by(&line, current),
        }
    })
}

fn figures(current: &str) -> Vec<CompletionCandidate> {
    FIGURES.iter().filter_map(|figure| told(current, figure.name, figure.summary)).collect()
}

fn benches(current: &str) -> Vec<CompletionCandidate> {
    bench::names().filter_map(|name| told(current, name, "")).collect()
}

fn trace_formats(current: &str) -> Vec<CompletionCandidate> {
    Format::ALL.iter().filter_map(|format| told(current, format.name(), "")).collect()
}

fn mount_options(current: &str) -> Vec<CompletionCandidate> {
    let mut all: Vec<_> = MOUNT_OPTIONS.iter().filter_map(|word| told(current, word, "")).collect();
    all.extend(told(current, "durable=", "names of files whose writes are durable"));
    let modes = MODES.iter().map(|mode| (format!("mode={}", mode.name()), mode.about()));
    all.extend(modes.filter_map(|(word, about)| told(current, &word, about)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ValueHint};

    /// Sizes, times, numbers, addresses and names that nobody can know beforehand.
    #[rustfmt::skip]
    const GUESSES: [&str; 55] = [
        "below_cylinder", "bulk", "bulk_share", "bytes_per_inode", "checkpoint_coordinate", "checkpoint_idle",
        "checkpoint_memory", "checkpoint_period", "checkpoint_permits", "checkpoint_window", "connections_max", "data_size",
        "device", "durable_p99", "export", "group_size", "grow_to", "grown_from",
        "guardian", "guardian_of", "http", "label", "len", "limit", "loads", "log",
        "log_size", "map_memory", "metrics", "name", "nice", "offset",
        "read_cache", "rest_mirrors", "scratch", "scratch_at", "seconds", "seed",
        "shutdown_max", "size", "snapshot_period", "socket_group", "socket_mode", "span",
        "stage_size", "swap_above", "swap_idle", "tcp", "threshold", "time_max",
        "time_scale", "timeout", "wal", "watch", "watermark",
    ];

    fn arguments(command: &Command, name: &str, all: &mut Vec<(String, Arg)>) {
        for below in command.get_subcommands() {
            let name = format!("{name} {}", below.get_name());
            arguments(below, name.trim_start(), all);
        }
        all.extend(command.get_arguments().map(|arg| (name.to_owned(), arg.clone())));
    }

    #[test]
    fn of_every_value_it_is_known_what_it_may_be_or_that_nobody_knows() {
        let mut program = crate::program();
        program.build();
        let mut all = Vec::new();
        arguments(&program, "", &mut all);
        let takes_value = |arg: &Arg| arg.get_num_args().is_some_and(|count| count.takes_values());
        let mut guessed = Vec::new();
        for (name, arg) in
            all.iter().filter(|(name, arg)| takes_value(arg) && !name.starts_with("help"))
        {
            let id = arg.get_id().as_str();
            let is_path = arg.get_value_hint() == ValueHint::AnyPath;
            let is_listed = !arg.get_possible_values().is_empty();
            if values_of(name, id).is_none() && !is_path && !is_listed {
                guessed.push(id.to_owned());
            }
        }
        guessed.sort();
        guessed.dedup();
        assert_eq!(guessed, GUESSES);
    }

    #[test]
    fn every_row_is_of_an_argument_that_there_is() {
        let mut all = Vec::new();
        arguments(&crate::program(), "", &mut all);
        let is_there = |command: Option<&str>, id: &str| {
            all.iter().any(|(name, arg)| command.is_none_or(|it| it == name) && arg.get_id() == id)
        };
        for (command, id, _) in ALONE {
            assert!(is_there(Some(command), id), "{command}: {id}");
        }
        for (id, _) in EVERYWHERE {
            assert!(is_there(None, id), "{id}");
        }
    }
}
