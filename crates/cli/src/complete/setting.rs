//! `NAME=VALUE` of `nearhead set`: the names there are, and behind `=` the value that it has, to be changed.

use super::line::Line;
use super::machine::daemon_of;
use super::target::told;
use clap::ArgMatches;
use clap_complete::engine::CompletionCandidate;
use nearhead_settings::{Setting, settings_known};
use std::path::PathBuf;

/// Candidates on a line that begins with `nearhead set TARGET`.
pub(super) fn completed(line: &Line, current: &str) -> Vec<CompletionCandidate> {
    let Some((name, _)) = current.split_once('=') else {
        let names = settings_known();
        return names
            .filter_map(|(name, about)| told(current, &format!("{name}="), about))
            .collect();
    };
    let settings = asked(line).unwrap_or_default();
    let is_it = |setting: &&Setting| setting.name == name;
    let value =
        |setting: &Setting| told(current, &format!("{name}={}", setting.value), &setting.about);
    settings.iter().find(is_it).and_then(value).into_iter().collect()
}

/// What the daemon says that the line names.
fn asked(line: &Line) -> Option<Vec<Setting>> {
    let program = crate::program().ignore_errors(true);
    let matches = program.try_get_matches_from(&line.words).ok()?;
    let (_, matches): (_, &ArgMatches) = matches.subcommand()?;
    let target = matches.try_get_one::<String>("target").ok().flatten()?;
    let control = matches.try_get_one::<PathBuf>("control").ok().flatten();
    daemon_of(target, control.map(PathBuf::as_path))?.ask("set").ok()
}
