//! What may be set while a volume is served: the settings with names, what they are now, and what follows from another value.
//!
//! Names and values are those of flags and volume files, read by the same code. A value that is refused changes nothing, also where others of
//! the same command were good.

use crate::serve::ServeArgs;
use crate::units::{ByteSize, Span, Window};
use nearhead_disk::Nanos;
use nearhead_engine::{Config, Tuning};
use nearhead_format::Superblock;
use serde::{Deserialize, Serialize};

/// Names, whether the value is a plain number, and what each is.
const SETTINGS: [(&str, bool, &str); 11] = [
    (
        "durable_p99",
        false,
        "bulk gives way until 99 of 100 durable writes take no longer; 0 no target",
    ),
    (
        "bulk_share",
        true,
        "percent of the disk's time that bulk keeps while there is any; 0 no share",
    ),
    (
        "checkpoint_idle",
        false,
        "bring blocks home once nobody asked for anything for so long; 0 never",
    ),
    ("checkpoint_period", false, "bring them home this often; 0 never"),
    ("checkpoint_window", false, "bring them home in this part of the day, HH:MM-HH:MM"),
    ("watermark", true, "bring them home when the logs are so full, in percent; 0 never"),
    (
        "swap_above",
        true,
        "move a log's content to a cold log when it is so full, in percent; 0 never",
    ),
    ("swap_idle", false, "do so only after this long without a request"),
    ("snapshot_period", false, "write a snapshot of the map at least this often"),
    (
        "stage_size",
        false,
        "memory for small writes that wait to be logged; only more, while it is served",
    ),
    (
        "rest_mirrors",
        false,
        "let sides of mirrors rest that nothing was written to for so long; 0 none",
    ),
];

/// What ends a window: files and flags leave it out instead.
const NO_WINDOW: &str = "checkpoint_window=none";

/// The names of all settings, and what each is.
pub fn settings_known() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.into_iter().map(|(name, _, about)| (name, about))
}

/// A setting as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As in a volume file.
    pub name: String,
    /// As it could be typed.
    pub value: String,
    /// What it is.
    pub about: String,
}

/// What came of setting one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// As in a volume file.
    pub name: String,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// What follows for an open volume.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// What changed, in the order in which it was asked for.
    pub changes: Vec<Change>,
    /// For the engine.
    pub tuning: Tuning,
    /// After how long sides of mirrors rest from now on, if any.
    pub rest_mirrors: Option<Nanos>,
}

/// The settings of an open volume.
#[derive(Debug)]
pub struct Tuner {
    args: ServeArgs,
    superblock: Superblock,
    preset: String,
    /// What the volume does without a word.
    base: Config,
    /// What it does now.
    config: Config,
}

impl Tuner {
    /// Of a volume whose preset is called `preset`, that does what `base` says and what `args` put over it.
    pub fn new(
        args: &ServeArgs,
        superblock: &Superblock,
        preset: &str,
        base: Config,
    ) -> Result<Self, String> {
        // Files that are read at the start alone.
        let args = ServeArgs { calibration: Vec::new(), ..args.clone() };
        let mut config = base.clone();
        args.configure(superblock, preset, &mut config)?;
        let (superblock, preset) = (superblock.clone(), preset.to_owned());
        Ok(Self { args, superblock, preset, base, config })
    }

    /// All settings.
    pub fn settings(&self) -> Vec<Setting> {
        let setting = |(name, _, about): (&str, bool, &str)| Setting {
            name: name.to_owned(),
            value: value_of(&self.config, &self.args, name),
            about: about.to_owned(),
        };
        SETTINGS.map(setting).into()
    }

    /// Sets what `words` say, each `name=value`: all of them or none.
    pub fn set(&mut self, words: &[&str]) -> Result<Tuned, String> {
        let mut names = Vec::new();
        let mut args = self.args.clone();
        for word in words {
            if *word == NO_WINDOW {
                args.checkpoint_window = None;
                names.push("checkpoint_window");
                continue;
            }
            let (name, asked) = parsed(word)?;
            args = asked.completed_by(args);
            names.push(name);
        }
        let mut config = self.base.clone();
        args.configure(&self.superblock, &self.preset, &mut config)?;
        if config.stage_bytes_max < self.config.stage_bytes_max {
            return Err(format!(
                "set: stage_size: expected {} or more, as requests may wait for what there is, found {}; less takes a stop and a start",
                value_of(&self.config, &self.args, "stage_size"),
                value_of(&config, &args, "stage_size")
            ));
        }
        let changes = names.iter().map(|name| Change {
            name: (*name).to_owned(),
            before: value_of(&self.config, &self.args, name),
            after: value_of(&config, &args, name),
        });
        let changes = changes.collect();
        let shares = |name: &&str| matches!(*name, "durable_p99" | "bulk_share");
        let admission = names.iter().any(shares).then(|| config.admission.boxed());
        let tuning = Tuning { admission, ..Tuning::of(&config) };
        let rest_mirrors = rest_after(&args);
        (self.args, self.config) = (args, config);
        Ok(Tuned { changes, tuning, rest_mirrors })
    }

    /// Puts what was set over a configuration: of the same volume, opened again.
    pub fn configure_again(&self, config: &mut Config) {
        let admission = Some(self.config.admission.boxed());
        Tuning { admission, ..Tuning::of(&self.config) }.put_over(config);
    }
}

fn rest_after(args: &ServeArgs) -> Option<Nanos> {
    args.rest_mirrors.map(|Span(after)| after).filter(|after| *after > Nanos::ZERO)
}

/// What one word asks for.
fn parsed(word: &str) -> Result<(&'static str, ServeArgs), String> {
    let (name, value) = word.split_once('=').ok_or_else(|| {
        format!("set: expected NAME=VALUE, such as durable_p99=10ms, found {word:?}")
    })?;
    let name = name.trim_start_matches("--").replace('-', "_");
    let known = SETTINGS.iter().find(|(known, ..)| *known == name);
    let Some((name, is_number, _)) = known else {
        let names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "set: expected one of {}, found {name:?}; anything else takes a stop and a start",
            names.join(", ")
        ));
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-');
    if value.is_empty() || !value.chars().all(is_plain) {
        return Err(format!(
            "set: {name}: expected a value such as 10ms, 64MiB or 70, found {value:?}"
        ));
    }
    let quote = if *is_number { "" } else { "\"" };
    let text = format!("{name} = {quote}{value}{quote}");
    let asked = ServeArgs::from_text(&text).map_err(|problem| format!("set: {problem}"))?;
    Ok((name, asked))
}

/// The value of a setting, as it could be typed.
fn value_of(config: &Config, args: &ServeArgs, name: &str) -> String {
    let cleaning = &config.cleaning;
    let percent = |percent: Option<u8>| percent.unwrap_or(0).to_string();
    let span = |span: Option<Nanos>| Span(span.unwrap_or(Nanos::ZERO)).typed();
    match name {
        "durable_p99" => span(config.admission.target().map(|target| target.p99)),
        "bulk_share" => percent(config.admission.bulk_share_pct()),
        "checkpoint_idle" => span(cleaning.idle_after),
        "checkpoint_period" => span(cleaning.period),
        "checkpoint_window" => cleaning.window.map_or_else(
            || "none".to_owned(),
            |(start_s, end_s)| Window { start_s, end_s }.typed(),
        ),
        "watermark" => percent(cleaning.watermark_pct),
        "swap_above" => percent(cleaning.swap_above_pct),
        "swap_idle" => span(Some(cleaning.swap_idle_after)),
        "snapshot_period" => span(Some(config.snapshot_period)),
        "stage_size" => ByteSize(config.stage_bytes_max as u64).typed(),
        _ => span(rest_after(args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Properties;
    use nearhead_format::{AckMode, Label, Layout, LayoutOptions};
    use nearhead_volume::NamedPreset;

    fn tuner(args: &ServeArgs) -> Tuner {
        let preset = NamedPreset::by_name("nearhead").unwrap();
        let superblock = Superblock {
            volume_id: [1; 16],
            generation: 1,
            created_unix_s: 0,
            layout: Layout::plan(1 << 30, &LayoutOptions::new(preset.layout)).unwrap(),
            preset: preset.number,
            ack: AckMode::Flush,
            logged_write_bytes_max: 0,
            feature_incompat: 0,
            feature_ro_compat: 0,
            label: Label::default(),
            map_device_id: None,
        };
        let base = preset.config(&superblock, &Properties::plain("disk", 1 << 30, 512));
        Tuner::new(args, &superblock, "nearhead", base).unwrap()
    }

    fn value(tuner: &Tuner, name: &str) -> String {
        tuner.settings().into_iter().find(|setting| setting.name == name).unwrap().value
    }

    #[test]
    fn a_value_that_is_shown_can_be_set_and_changes_nothing() {
        let args = ServeArgs {
            durable_p99: Some(Span(Nanos::from_millis(15))),
            checkpoint_window: Some(Window { start_s: 79_200, end_s: 21_600 }),
            ..ServeArgs::default()
        };
        let mut tuner = tuner(&args);
        let before = tuner.settings();
        assert_eq!(value(&tuner, "durable_p99"), "15ms");
        let words: Vec<String> = before
            .iter()
            // Only one of the two may be asked for.
            .filter(|setting| setting.name != "bulk_share")
            .map(|setting| format!("{}={}", setting.name, setting.value))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let told = tuner.set(&words).unwrap();
        assert_eq!(tuner.config.cleaning.window, Some((79_200, 21_600)));
        assert!(told.changes.iter().all(|change| change.before == change.after), "{told:?}");
        assert_eq!(tuner.settings(), before);
        let changes = tuner.set(&["checkpoint_window=none"]).unwrap().changes;
        assert_eq!(
            (changes[0].before.as_str(), changes[0].after.as_str()),
            ("22:00-06:00", "none")
        );
        assert_eq!(tuner.config.cleaning.window, None);
    }

    #[test]
    fn a_change_is_told_with_what_it_was_and_reaches_the_engine() {
        let mut tuner = tuner(&ServeArgs::default());
        let told = tuner.set(&["--checkpoint-idle=90s", "watermark=0", "rest_mirrors=1h"]).unwrap();
        let names =
            |change: &Change| (change.name.clone(), change.before.clone(), change.after.clone());
        let expected = [
            ("checkpoint_idle", "30s", "90s"),
            ("watermark", "70", "0"),
            ("rest_mirrors", "0", "1h"),
        ];
        let expected = expected
            .map(|(name, before, after)| (name.to_owned(), before.to_owned(), after.to_owned()));
        assert_eq!(told.changes.iter().map(names).collect::<Vec<_>>(), expected);
        assert_eq!(told.rest_mirrors, Some(Nanos::from_secs(3600)));
        assert!(told.tuning.admission.is_none(), "who goes first was not asked for");
        let mut config = tuner.base.clone();
        told.tuning.put_over(&mut config);
        assert_eq!(config.cleaning.idle_after, Some(Nanos::from_secs(90)));
        assert_eq!(config.cleaning.watermark_pct, None);
        // Memory that a request was let in by stays.
        let before = config.stage_bytes_max;
        for (asked, expected) in [(before / 2, before), (before * 2, before * 2)] {
            Tuning { stage_bytes_max: asked, ..Tuning::of(&config) }.put_over(&mut config);
            assert_eq!(config.stage_bytes_max, expected);
        }
        // What stays is as it was, also in a volume that is opened again.
        let mut again = tuner.base.clone();
        tuner.configure_again(&mut again);
        assert_eq!(again.cleaning, config.cleaning);
        assert!(tuner.set(&["durable_p99=10ms"]).unwrap().tuning.admission.is_some());
    }

    #[test]
    fn what_is_refused_changes_nothing_and_is_told_with_what_may_be_set() {
        let mut tuner = tuner(&ServeArgs::default());
        let before = tuner.settings();
        for (words, parts) in [
            (
                vec!["threshold=64k"],
                ["expected one of durable_p99, bulk_share", "takes a stop and a start"],
            ),
            (vec!["watermark"], ["expected NAME=VALUE", "durable_p99=10ms"]),
            (vec!["watermark=101"], ["0 to 100", "101"]),
            (vec!["watermark=x"], ["watermark", "x"]),
            (
                vec!["checkpoint_idle=10s", "snapshot_period=0"],
                ["--snapshot-period", "more than 0"],
            ),
            (vec!["stage_size=1"], ["--stage-size", "found 1"]),
            (vec!["stage_size=8MiB"], ["expected 16MiB or more", "found 8MiB"]),
            (vec!["durable_p99=10ms", "bulk_share=50"], ["--bulk-share", "found both"]),
            (vec!["checkpoint_idle=1s\"\nack=\"flush"], ["expected a value", "checkpoint_idle"]),
        ] {
            let problem = tuner.set(&words).unwrap_err();
            for part in parts {
                assert!(problem.contains(part), "{words:?}: {part:?} is missing in {problem}");
            }
            assert!(!problem.contains('\n'), "{problem}");
            assert_eq!(tuner.settings(), before, "{words:?}");
        }
    }
}
