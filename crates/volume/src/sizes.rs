//! Sizes that cannot be laid out, in the words of whoever creates a volume.
//!
//! The format speaks of fields and kinds of layout; who typed a command knows flags and presets. Here the one becomes the
//! other, with the presets that there are, and nothing is decided: what is refused is refused by [`nearhead_format::Layout::plan`].

use crate::create::CreateOptions;
use crate::presets::Presets;
use nearhead_format::LayoutError;
use nearhead_format::LayoutKind::{self, ManyLogs, ManyLogsApart, NoLogs, OneLog, OneLogApart};
use nearhead_format::layout::{LOG_BYTES_MIN, LayoutField};

/// A size of a layout as whoever creates a volume knows it; docs/format.md has other names for them.
pub(crate) fn in_words(field: LayoutField) -> &'static str {
    match field {
        LayoutField::DeviceBytes => "size of the device or image, in bytes",
        LayoutField::SectorBytes => "sector of the device, in bytes",
        LayoutField::LogBlockBytes => "physical sector of the device, in bytes",
        LayoutField::GroupBytes => "size of a group (--group-size), in bytes",
        LayoutField::LogBytes => "size of each log (--log-size), in bytes",
        LayoutField::GroupCount => "number of groups",
        LayoutField::SlotOffset => "place of the snapshots on the device, in bytes",
        LayoutField::SlotBytes => "size of the snapshots, in bytes",
        LayoutField::GroupsOffset => "place of the groups on the device, in bytes",
        LayoutField::DataOffset => "room on the device for logs and data, in bytes",
        LayoutField::ClientBytes => "size of the volume, in bytes",
        LayoutField::DataParts => {
            "size of a data device (--data-devices), in bytes, or their number"
        }
        LayoutField::Fragments => "fragments, bytes of less than a sector in records (1: yes)",
    }
}

/// `error`, with the preset's name where its kind of layout has not what was asked for, and the names of those that have.
pub(crate) fn by_preset(error: LayoutError, options: &CreateOptions) -> LayoutError {
    let (name, kind) = (options.preset.name, options.preset.layout);
    let (expected, advice) = match error.field {
        LayoutField::GroupBytes
            if !kind.has_groups_of_any_size() && options.group_bytes.is_some() =>
        {
            let expected = format!("none given: the groups of {name} follow from the device");
            (expected, format!("leave the group size out, or {}", choose(&[ManyLogs])))
        }
        LayoutField::LogBytes if !kind.has_logs() => {
            let expected = format!("none given: {name} has no log");
            (expected, format!("leave the log size out, or {}", choose(&[OneLog, ManyLogs])))
        }
        LayoutField::LogBytes if options.log_bytes == Some(0) => {
            let expected = format!("at least {LOG_BYTES_MIN} with the preset {name}");
            (expected, format!("give the logs a size, or {}", choose(&[NoLogs])))
        }
        LayoutField::DataOffset if kind.is_for_shingled() => {
            let advice = format!(
                "the presets {} need a disk that tells where it is shingled (a model like st8000as0002-mlsmr); \
                 use {} on this one",
                names_with(&[OneLogApart, ManyLogsApart], "and"),
                names_with(&[ManyLogs], "or")
            );
            (error.expected, advice)
        }
        LayoutField::Fragments if options.fragments => {
            let expected = format!("none with the preset {name}, which lacks homes or logs");
            (expected, format!("leave them out, or {}", choose(&[OneLog, ManyLogs])))
        }
        _ => return error,
    };
    LayoutError { expected, advice: advice.into(), ..error }
}

fn choose(kinds: &[LayoutKind]) -> String {
    format!("choose the preset {}", names_with(kinds, "or"))
}

/// Of the program's own: who brings others knows their sizes.
fn names_with(kinds: &[LayoutKind], last_word: &str) -> String {
    Presets::default().names_with(kinds, last_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NamedPreset;
    use crate::create::plan;
    use nearhead_format::LayoutOptions;
    use nearhead_models::plain_properties;

    fn refused(preset: &str, change: impl FnOnce(&mut CreateOptions)) -> String {
        let mut options = CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap());
        change(&mut options);
        plan(&plain_properties(1 << 30, 512), None, &options).unwrap_err().to_string()
    }

    #[test]
    fn what_a_preset_has_not_is_told_with_its_name_and_with_those_that_have_it() {
        assert_eq!(
            refused("singlelog", |options| options.group_bytes = Some(1 << 20)),
            "group_bytes: expected none given: the groups of singlelog follow from the device, found 1048576; \
             leave the group size out, or choose the preset mlb"
        );
        assert_eq!(
            refused("nolog", |options| options.log_bytes = Some(1 << 20)),
            "log_bytes: expected none given: nolog has no log, found 1048576; \
             leave the log size out, or choose the preset singlelog or mlb"
        );
        assert_eq!(
            refused("mlb-256", |options| options.log_bytes = Some(0)),
            "log_bytes: expected at least 524288 with the preset mlb-256, found 0; \
             give the logs a size, or choose the preset nolog"
        );
        for preset in ["nolog", "gecko"] {
            let told = refused(preset, |options| options.fragments = true);
            let expected = format!(
                "fragments: expected none with the preset {preset}, which lacks homes or logs, found 1; \
                 leave them out, or choose the preset singlelog or mlb"
            );
            assert_eq!(told, expected);
        }
        let shingled = refused("slsmr", |_| ());
        let end = "found 0; the presets slsmr and mlsmr need a disk that tells where it is shingled \
                   (a model like st8000as0002-mlsmr); use mlb on this one";
        assert!(shingled.ends_with(end), "{shingled}");
    }

    #[test]
    fn a_size_that_is_wrong_in_itself_is_told_as_it_is() {
        let told = refused("mlb", |options| options.log_bytes = Some(4096));
        let kind = LayoutOptions { log_bytes: Some(4096), ..LayoutOptions::new(ManyLogs) };
        assert_eq!(told, nearhead_format::Layout::plan(1 << 30, &kind).unwrap_err().to_string());
    }

    /// What is wrong has nothing to do with the preset, though the preset has that field or has not.
    #[test]
    fn advice_of_a_preset_is_given_only_where_the_preset_is_what_does_not_fit() {
        let at = |preset: &str, field, change: &dyn Fn(&mut CreateOptions)| {
            let mut options = CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap());
            change(&mut options);
            let plain = LayoutError {
                field,
                expected: "something".to_owned(),
                found: 5,
                advice: "do something".into(),
            };
            by_preset(plain.clone(), &options) == plain
        };
        let none = |_: &mut CreateOptions| ();
        let group = |options: &mut CreateOptions| options.group_bytes = Some(1 << 20);
        let zero = |options: &mut CreateOptions| options.log_bytes = Some(0);
        let log = |options: &mut CreateOptions| options.log_bytes = Some(7);
        assert!(at("mlb", LayoutField::GroupBytes, &group), "its groups may have any size");
        assert!(at("singlelog", LayoutField::GroupBytes, &none), "none was given");
        assert!(!at("singlelog", LayoutField::GroupBytes, &group));
        assert!(at("mlb", LayoutField::LogBytes, &none) && at("mlb", LayoutField::LogBytes, &log));
        assert!(
            !at("mlb", LayoutField::LogBytes, &zero) && !at("nolog", LayoutField::LogBytes, &log)
        );
        assert!(at("mlb", LayoutField::DataOffset, &none));
        assert!(!at("mlsmr", LayoutField::DataOffset, &none));
        assert!(at("nolog", LayoutField::ClientBytes, &log));
    }

    #[test]
    fn each_field_has_words_of_its_own_with_its_unit_or_what_it_counts() {
        let fields = LayoutField::ALL;
        let words: std::collections::BTreeSet<_> = fields.into_iter().map(in_words).collect();
        assert_eq!(words.len(), fields.len());
        assert!(
            words.iter().all(|words| words.contains("bytes") || words.starts_with("number of"))
        );
    }
}
