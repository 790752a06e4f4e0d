//! The presets that whoever opens a volume knows: found by name, by number, and for a volume.
//!
//! The one gate between a number in a superblock and policies: a number that nobody here knows, or one whose preset has other
//! logs than the volume, is no copy of a superblock to anybody. Nothing may ask a preset's name to decide what to do.

use super::{NamedPreset, PRESETS};
use nearhead_format::{FieldError, LayoutKind, Superblock, SuperblockError};
use std::fmt;

/// Those of the program, and those that a program brings besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presets {
    others: &'static [NamedPreset],
}

impl Presets {
    /// The program's, and `others`. A name or a number that the program's table has means what it means there.
    pub fn with(others: &'static [NamedPreset]) -> Self {
        Self { others }
    }

    /// All of them, the program's first.
    pub fn iter(&self) -> impl Iterator<Item = &'static NamedPreset> + use<> {
        PRESETS.iter().chain(self.others)
    }

    /// The preset called `name`.
    pub fn by_name(&self, name: &str) -> Result<NamedPreset, UnknownPreset> {
        let known = self.iter().find(|preset| preset.name == name);
        known.copied().ok_or_else(|| UnknownPreset {
            name: name.to_owned(),
            names: self.iter().map(|preset| preset.name).collect(),
        })
    }

    /// The preset that a volume was created with; of several names with its number the first.
    ///
    /// # Errors
    /// If nobody knows it, or it has other logs than the volume.
    pub fn of(&self, superblock: &Superblock) -> Result<NamedPreset, SuperblockError> {
        let (found, layout) = (superblock.preset, &superblock.layout);
        let Some(named) = self.iter().find(|named| named.number == found) else {
            return Err(SuperblockError::Preset { expected: self.numbers(), found });
        };
        if named.layout.fits(layout) {
            return Ok(*named);
        }
        let apart = if layout.logs_are_apart() { " apart" } else { "" };
        let found = format!("{} with {} logs{apart}", named.name, layout.log_count());
        let expected = "one that fits the layout's logs".to_owned();
        Err(FieldError { name: "preset", expected, found }.into())
    }

    /// Reads copy `copy` of a superblock, trusting nothing.
    pub fn decode(&self, bytes: &[u8], copy: u32) -> Result<Superblock, SuperblockError> {
        let superblock = Superblock::decode(bytes, copy)?;
        self.of(&superblock).map(|_| superblock)
    }

    /// The preset of a volume as it was typed, or could have been; with another threshold the first name of its number.
    pub fn name_of(&self, superblock: &Superblock) -> String {
        let logged = superblock.logged_write_bytes_max;
        let numbered = || self.iter().filter(|named| named.number == superblock.preset);
        let exact = numbered().find(|named| named.logged_write_bytes_max == logged);
        let named = exact.or_else(|| numbered().next());
        named.map_or_else(|| superblock.preset.to_string(), |named| named.name.to_owned())
    }

    /// One preset for each kind of layout, the likeliest first; those for shingled disks only on one. Of several with one kind
    /// the first: what is on a disk does not tell them apart.
    pub(crate) fn one_of_each_layout(&self, is_shingled: bool) -> Vec<NamedPreset> {
        // Nor is a layout whose data is on other devices found out from the one that has the logs.
        const LIKELIEST_FIRST: [LayoutKind; 6] = [
            // Whoever reads logs whole finds also what stands in order, and not the other way round.
            LayoutKind::ManyLogsAnywhere,
            LayoutKind::ManyLogs,
            LayoutKind::OneLog,
            LayoutKind::NoLogs,
            LayoutKind::ManyLogsApart,
            LayoutKind::OneLogApart,
        ];
        let kinds = LIKELIEST_FIRST.iter().filter(|kind| is_shingled || !kind.is_for_shingled());
        kinds.filter_map(|kind| self.iter().find(|named| named.layout == *kind).copied()).collect()
    }

    /// The presets with these kinds of layout, in this order, by the first name of each number, with `last_word` before
    /// the last: `mlb or nolog`.
    pub(crate) fn names_with(&self, kinds: &[LayoutKind], last_word: &str) -> String {
        let mut numbers = Vec::new();
        let firsts: Vec<&NamedPreset> = self
            .iter()
            .filter(|named| {
                let is_first = !numbers.contains(&named.number);
                numbers.push(named.number);
                is_first
            })
            .collect();
        let with = |kind: &LayoutKind| {
            let kind = *kind;
            firsts.iter().filter(move |named| named.layout == kind)
        };
        let names: Vec<&str> = kinds.iter().flat_map(with).map(|named| named.name).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} {last_word} {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// The numbers that are known: `0 to 4`, or `0 to 4, 900`.
    fn numbers(&self) -> String {
        let mut numbers: Vec<u16> = self.iter().map(|named| named.number.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let runs = numbers.chunk_by(|before, after| before + 1 == *after);
        let words = runs.filter_map(|run| match (run.first()?, run.last()?) {
            (only, last) if only == last => Some(only.to_string()),
            (first, last) => Some(format!("{first} to {last}")),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPreset {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub names: Vec<&'static str>,
}

impl fmt::Display for UnknownPreset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "preset: expected one of {}, found {:?}",
            self.names.join(", "),
            self.name
        )
    }
}

impl std::error::Error for UnknownPreset {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateOptions, describe};
    use nearhead_format::PresetNumber;
    use nearhead_models::plain_properties;

    static MINE: [NamedPreset; 2] = [
        NamedPreset { name: "mine", number: PresetNumber(900), ..PRESETS[0] },
        NamedPreset { name: "again", number: PresetNumber(0), ..PRESETS[1] },
    ];

    fn superblock(named: NamedPreset) -> Superblock {
        let options = CreateOptions::new([7; 16], named);
        describe(&plain_properties(1 << 30, 512), None, &options).unwrap()
    }

    #[test]
    fn one_of_each_layout_is_every_kind_once() {
        let names =
            |named: Vec<NamedPreset>| named.iter().map(|named| named.name).collect::<Vec<_>>();
        assert_eq!(
            names(Presets::default().one_of_each_layout(false)),
            ["nearhead", "mlb", "singlelog", "nolog"]
        );
        let all = ["nearhead", "mlb", "singlelog", "nolog", "mlsmr", "slsmr"];
        assert_eq!(names(Presets::default().one_of_each_layout(true)), all);
    }

    #[test]
    fn presets_of_a_kind_are_listed_by_one_name_each() {
        assert_eq!(Presets::default().names_with(&[LayoutKind::ManyLogs], "or"), "mlb");
        assert_eq!(
            Presets::default().names_with(&[LayoutKind::ManyLogs, LayoutKind::NoLogs], "or"),
            "mlb or nolog"
        );
        assert_eq!(
            Presets::default().names_with(&LayoutKind::ALL, "and"),
            "nolog, singlelog, mlb, nearhead, slsmr, mlsmr, trail and gecko"
        );
        assert_eq!(Presets::default().names_with(&[], "or"), "");
    }

    #[test]
    fn a_number_that_nobody_knows_is_refused_with_those_that_are_known() {
        let foreign = Superblock { preset: PresetNumber(900), ..superblock(PRESETS[0]) };
        let refused = |presets: Presets| presets.of(&foreign).unwrap_err().to_string();
        assert_eq!(
            refused(Presets::default()),
            "superblock preset: expected 0 to 7, found 900; use a version of the program that knows it"
        );
        let foreign = Superblock { preset: PresetNumber(8), ..foreign.clone() };
        let refused = Presets::with(&MINE).of(&foreign).unwrap_err().to_string();
        assert!(refused.contains("expected 0 to 7, 900, found 8;"), "{refused}");
    }

    #[test]
    fn a_preset_whose_logs_are_not_those_of_the_volume_is_refused() {
        let wrong = |made: &str, said: u16| {
            let made = superblock(NamedPreset::by_name(made).unwrap());
            let said = Superblock { preset: PresetNumber(said), ..made };
            Presets::default().decode(&said.encode(0), 0).unwrap_err().to_string()
        };
        let expected = "superblock preset: expected one that fits the layout's logs, found";
        assert_eq!(wrong("mlb", 0), format!("{expected} nolog with 10 logs"));
        assert_eq!(wrong("nolog", 2), format!("{expected} mlb with 0 logs"));
        assert_eq!(wrong("singlelog", 4), format!("{expected} mlsmr with 1 logs"));
    }

    #[test]
    fn a_name_or_a_number_of_the_program_stays_what_it_is_beside_others() {
        let presets = Presets::with(&MINE);
        assert_eq!(presets.by_name("mine").map(|named| named.number), Ok(PresetNumber(900)));
        assert_eq!(presets.of(&superblock(PRESETS[0])), Ok(PRESETS[0]), "not the other one with 0");
        let unknown = presets.by_name("no such").unwrap_err().to_string();
        assert!(unknown.ends_with("trail, gecko, mine, again, found \"no such\""), "{unknown}");
        assert!(NamedPreset::by_name("mine").is_err());
    }

    #[test]
    fn a_volume_is_called_what_was_typed_if_anything_says_so() {
        let mlb_256 = superblock(NamedPreset::by_name("mlb-256").unwrap());
        let name = |superblock: &Superblock| Presets::default().name_of(superblock);
        assert_eq!(name(&mlb_256), "mlb-256");
        assert_eq!(name(&Superblock { logged_write_bytes_max: 4096, ..mlb_256.clone() }), "mlb");
        assert_eq!(name(&Superblock { preset: PresetNumber(900), ..mlb_256 }), "900");
    }
}
