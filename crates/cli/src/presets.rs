//! `--preset` wherever it is a flag: help, man pages and completions list the presets there are, from the
//! same table that decides which names are taken.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use nearhead_volume::PRESETS;
use std::ffi::OsStr;

/// Commands with that flag.
const COMMANDS: [&str; 5] = ["attach", "create", "serve", "replay", "repair"];

/// The program's commands, with the presets listed where one can be named.
pub fn listed_in(command: Command) -> Command {
    COMMANDS.into_iter().fold(command, |command, name| {
        let with_presets = |arg: Arg| arg.value_parser(PresetParser);
        command.mut_subcommand(name, |found| found.mut_arg("preset", with_presets))
    })
}

/// Takes any text: a name that there is not is refused where the table is looked up.
#[derive(Clone, Copy, Debug)]
struct PresetParser;

impl TypedValueParser for PresetParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |preset: &nearhead_volume::NamedPreset| {
            PossibleValue::new(preset.name).help(preset.summary)
        };
        Some(Box::new(PRESETS.iter().map(value)))
    }
}
