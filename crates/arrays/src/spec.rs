//! Arrays by a line of text: `raid0:a,b,c,d?chunk=64k` and `mirror:a,b?read=balanced`.
//!
//! | part | meaning | default |
//! |---|---|---|
//! | `raid0:` or `mirror:` | the kind | |
//! | `a,b,...` | two to 32 members: paths, or `model:PROFILE[,option=value...]` | |
//! | `?chunk=SIZE` | of `raid0`: a power of two from `4k` to `16m` | `64k` |
//! | `?read=first` or `balanced` | of `mirror`: who serves reads | `first` |
//! | `?take=N` | of `mirror`: the N-th named member is copied onto all others where the labels make no mirror | |
//! | `?take=N@G` | the same, whatever the labels say, while the newest of them has generation G | |
//! | `?replace=N` | of `mirror`: the last named member replaces the N-th one (`replacement`) | |
//!
//! A member of a `raid0` may be a mirror in brackets, `raid0:[mirror:a,b],[mirror:c,d]`, with options of its own; no other array has arrays as members.
//!
//! Commas separate members, and the options of a model: what follows a `model:` member and is one
//! of a model's options belongs to it. A path that holds a comma cannot be a member by that name. A
//! member of a mirror that is away is called `missing`.
//! This file only reads the text; who opens members decides what a path means.

use super::{Mirror, ReadPolicy, Stripe};
use nearhead_disk::{Disk, DiskError};
use nearhead_models::{MODEL_OPTIONS, MODEL_PREFIX, Model, ModelSpec, SpecError};
use std::fmt;

/// How such a text begins.
pub const ARRAY_PREFIXES: [&str; 2] = ["raid0:", "mirror:"];

/// Chunk of a RAID-0 that names none: 64 KiB, what the example of every manual has.
pub(super) const CHUNK_BYTES_DEFAULT: u64 = 64 << 10;

/// What kind of array, and its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayKind {
    /// RAID-0.
    Stripe {
        /// Length of a chunk.
        chunk_bytes: u64,
    },
    /// The same on every member.
    Mirror {
        /// Who serves reads.
        policy: ReadPolicy,
        /// The owner's decision on whose content counts.
        take: Option<Take>,
        /// Member that the last named one replaces, counted from 1. The last one is no member before that is done.
        replace: Option<u16>,
    },
}

/// Decision that one member of a mirror is copied onto all others. It is carried out once: the labels record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Take {
    /// The member, counted from 1 in the order of the names.
    pub member: u16,
    /// Generation of the newest label that the decision is made for; none if it is for any.
    pub generation: Option<u64>,
}

impl fmt::Display for Take {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            None => write!(formatter, "take={}", self.member),
            Some(generation) => write!(formatter, "take={}@{generation}", self.member),
        }
    }
}

/// An array as described by a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// What kind.
    pub kind: ArrayKind,
    /// Its members in order, each a text of its own.
    pub members: Vec<String>,
}

/// An array of either kind.
pub(crate) enum AnyArray<D> {
    Stripe(Box<Stripe<D>>),
    Mirror(Box<Mirror<D>>),
}

impl<D: Disk + 'static> AnyArray<D> {
    pub(crate) fn boxed(self) -> Box<dyn Disk> {
        match self {
            Self::Stripe(stripe) => stripe,
            Self::Mirror(mirror) => mirror,
        }
    }
}

impl<D: Disk + Send + 'static> AnyArray<D> {
    /// The same for who uses it on several threads, one at a time.
    pub(crate) fn boxed_to_send(self) -> Box<dyn Disk + Send> {
        match self {
            Self::Stripe(stripe) => stripe,
            Self::Mirror(mirror) => mirror,
        }
    }
}

impl ArraySpec {
    /// Whether `text` means an array.
    pub fn is_array(text: &str) -> bool {
        ARRAY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
    }

    /// Reads the text of an array.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let failed = |problem: String| SpecError { problem: format!("array {text:?}: {problem}") };
        let (mut kind, rest) = if let Some(rest) = text.strip_prefix(ARRAY_PREFIXES[0]) {
            (ArrayKind::Stripe { chunk_bytes: CHUNK_BYTES_DEFAULT }, rest)
        } else if let Some(rest) = text.strip_prefix(ARRAY_PREFIXES[1]) {
            (ArrayKind::Mirror { policy: ReadPolicy::First, take: None, replace: None }, rest)
        } else {
            return Err(failed("expected raid0:MEMBER,MEMBER or mirror:MEMBER,MEMBER".to_owned()));
        };
        // Behind the last mirror in brackets, which has options of its own.
        let own = rest.rfind(CLOSING).map_or(0, |at| at + CLOSING.len_utf8());
        let options_at = rest[own..].rfind('?').map(|at| own + at);
        let (list, options) = options_at.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
        for option in options.split('&').filter(|option| !option.is_empty()) {
            set(&mut kind, option).map_err(failed)?;
        }
        let members = split_members(list);
        let may_nest = matches!(kind, ArrayKind::Stripe { .. });
        let is_refused = |member: &&String| {
            Self::is_array(member) && !(may_nest && member.starts_with(ARRAY_PREFIXES[1]))
        };
        if let Some(nested) = members.iter().find(is_refused) {
            return Err(failed(format!(
                "{nested:?} is an array: only a raid0 has arrays as members, and only mirrors, each in brackets \
                 (raid0:[mirror:A,B],[mirror:C,D])"
            )));
        }
        for nested in members.iter().filter(|member| Self::is_array(member)) {
            Self::parse(nested)?;
        }
        if members.iter().any(String::is_empty)
            || !(2..=super::MEMBERS_MAX).contains(&members.len())
        {
            return Err(failed(format!(
                "expected 2 to {} members with a comma between them, found {}",
                super::MEMBERS_MAX,
                members.iter().filter(|member| !member.is_empty()).count()
            )));
        }
        super::replacement::refuse_wrong(&kind, &members).map_err(failed)?;
        let named = |member: &String| !ModelSpec::is_model(member) || member.contains(",file=");
        for (index, member) in members.iter().enumerate() {
            let away = matches!(kind, ArrayKind::Mirror { .. }) && member == super::MISSING;
            if named(member) && !away && members[..index].contains(member) {
                return Err(failed(format!(
                    "{member:?} is named twice: every member is a disk of its own"
                )));
            }
        }
        Ok(Self { kind, members })
    }

    /// The kind and what decides where bytes lie, in a few words: `raid0 of 4, 64 KiB chunks`.
    pub fn shape(&self) -> String {
        let count = self.count();
        match self.kind {
            ArrayKind::Stripe { chunk_bytes } => {
                format!("raid0 of {count}, {} KiB chunks", chunk_bytes >> 10)
            }
            ArrayKind::Mirror { .. } => format!("mirror of {count}"),
        }
    }

    /// Makes the array of `disks`, one per member and in their order.
    pub fn build<D: Disk + 'static>(&self, disks: Vec<D>) -> Result<Box<dyn Disk>, DiskError> {
        self.build_any(disks).map(AnyArray::boxed)
    }

    /// The same, of a kind that is known when it runs.
    pub(crate) fn build_any<D: Disk>(&self, disks: Vec<D>) -> Result<AnyArray<D>, DiskError> {
        self.refuse_replacement()?;
        Ok(match self.kind {
            ArrayKind::Stripe { chunk_bytes } => {
                AnyArray::Stripe(Box::new(Stripe::new(disks, chunk_bytes)?))
            }
            ArrayKind::Mirror { policy, .. } => {
                AnyArray::Mirror(Box::new(Mirror::new(disks, policy)?))
            }
        })
    }

    /// As [`Self::build`], of modelled disks.
    pub fn build_model<M: Model + 'static>(
        &self,
        disks: Vec<M>,
    ) -> Result<Box<dyn Model>, DiskError> {
        self.refuse_replacement()?;
        Ok(match self.kind {
            ArrayKind::Stripe { chunk_bytes } => Box::new(Stripe::new(disks, chunk_bytes)?),
            ArrayKind::Mirror { policy, .. } => Box::new(Mirror::new(disks, policy)?),
        })
    }

    /// What a user should know whose disks have these sizes, if they differ.
    pub fn size_note(&self, capacities: &[u64]) -> Option<String> {
        let smallest = capacities.iter().min()?;
        let larger: Vec<String> = self
            .members
            .iter()
            .zip(capacities)
            .filter(|(_, bytes)| *bytes > smallest)
            .map(|(member, bytes)| format!("{} bytes of {member}", bytes - smallest))
            .collect();
        (!larger.is_empty()).then(|| {
            format!(
                "the members have different sizes: {smallest} bytes of each are used, {} are not",
                larger.join(" and ")
            )
        })
    }
}

fn set(kind: &mut ArrayKind, option: &str) -> Result<(), String> {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    match (kind, key) {
        (ArrayKind::Stripe { chunk_bytes }, "chunk") => {
            let found = size(value)
                .filter(|bytes| bytes.is_power_of_two() && (4 << 10..=16 << 20).contains(bytes));
            *chunk_bytes = found.ok_or_else(|| {
                format!("expected chunk= a power of two from 4k to 16m, found {value:?}")
            })?;
        }
        (ArrayKind::Mirror { take, .. }, "take") => {
            let wrong = || {
                format!(
                    "expected take= the number of a member from 1, or such a number, @ and the generation of the newest label, \
                     found {value:?}"
                )
            };
            let (number, at) = value.split_once('@').map_or((value, None), |(n, at)| (n, Some(at)));
            let member = number.parse().ok().filter(|number| (1..=32).contains(number));
            let generation = at.map(|at| at.parse().map_err(|_| wrong())).transpose()?;
            *take = Some(Take { member: member.ok_or_else(wrong)?, generation });
        }
        (ArrayKind::Mirror { replace, .. }, "replace") => {
            let number = value.parse().ok().filter(|number| (1..=32).contains(number));
            *replace = Some(number.ok_or_else(|| {
                format!("expected replace= the number of a member from 1, found {value:?}")
            })?);
        }
        (ArrayKind::Mirror { policy, .. }, "read") => {
            *policy = match value {
                "first" => ReadPolicy::First,
                "balanced" => ReadPolicy::Balanced,
                _ => return Err(format!("expected read=first|balanced, found {value:?}")),
            };
        }
        (ArrayKind::Stripe { .. }, _) => {
            return Err(format!("unknown option {key:?}, expected ?chunk=SIZE"));
        }
        (ArrayKind::Mirror { .. }, _) => {
            return Err(format!(
                "unknown option {key:?}, expected ?read=first|balanced, take=N or replace=N"
            ));
        }
    }
    Ok(())
}

/// A size in bytes: a number, or one with `k` or `m` (powers of 1024).
fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// What stands around a mirror that is a member.
const OPENING: &str = "[mirror:";
const CLOSING: char = ']';

/// How a mirror is written where it is a member of an array.
pub fn as_member(text: &str) -> String {
    if ArraySpec::is_array(text) { format!("[{text}{CLOSING}") } else { text.to_owned() }
}

/// The members of a list; a model takes its own options along, and a mirror in brackets is one of them.
pub fn split_members(list: &str) -> Vec<String> {
    let mut members: Vec<String> = Vec::new();
    let mut nested: Option<String> = None;
    for piece in list.split(',') {
        if let Some(mut open) = nested.take() {
            open.push(',');
            open.push_str(piece);
            match open.strip_suffix(CLOSING) {
                Some(whole) => members.push(whole.to_owned()),
                None => nested = Some(open),
            }
            continue;
        }
        if piece.starts_with(OPENING) {
            let open = &piece[1..];
            match open.strip_suffix(CLOSING) {
                Some(whole) => members.push(whole.to_owned()),
                None => nested = Some(open.to_owned()),
            }
            continue;
        }
        let key = piece.split_once('=').map(|(key, _)| key);
        let is_option = key.is_some_and(|key| MODEL_OPTIONS.contains(&key));
        match members.last_mut() {
            Some(model) if is_option && model.starts_with(MODEL_PREFIX) => {
                model.push(',');
                model.push_str(piece);
            }
            _ => members.push(piece.to_owned()),
        }
    }
    // Nobody closed it: it is no mirror, and no file by that name either.
    members.extend(nested.map(|open| format!("[{open}")));
    members
}

/// Makes the modelled disk, or the array of such, that `text` describes.
pub fn model_from_text(text: &str) -> Result<Box<dyn Model>, SpecError> {
    let failed = |error: DiskError| SpecError { problem: format!("{text}: {error}") };
    let one = |text: &str| ModelSpec::parse(text)?.build_any().map_err(failed);
    if !ArraySpec::is_array(text) {
        return one(text);
    }
    let spec = ArraySpec::parse(text)?;
    // A mirror among the members has no arrays among its own.
    let disks: Result<Vec<_>, _> =
        spec.members.iter().map(|member| model_from_text(member)).collect();
    spec.build_model(disks?).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_options_and_the_options_of_models_are_told_apart() {
        let spec = ArraySpec::parse(
            "raid0:/dev/sda,model:st3146855fc,content=none,cache=off,/tmp/b=c.img?chunk=128k",
        )
        .unwrap();
        assert_eq!(spec.kind, ArrayKind::Stripe { chunk_bytes: 128 << 10 });
        let expected = ["/dev/sda", "model:st3146855fc,content=none,cache=off", "/tmp/b=c.img"];
        assert_eq!(spec.members, expected);
        let spec = ArraySpec::parse("mirror:a,b?read=balanced").unwrap();
        let kind = ArrayKind::Mirror { policy: ReadPolicy::Balanced, take: None, replace: None };
        assert_eq!(spec.kind, kind);
        let spec = ArraySpec::parse("raid0:model:x,model:x").unwrap();
        assert_eq!(spec.kind, ArrayKind::Stripe { chunk_bytes: 64 << 10 });
    }

    #[test]
    fn mistakes_are_named_with_what_was_expected() {
        let cases = [
            ("raid0:a", "expected 2 to 32 members with a comma between them, found 1"),
            ("raid0:a,,b", "found 2"),
            ("raid0:", "found 0"),
            ("mirror:a,a", "\"a\" is named twice"),
            ("mirror:model:x,file=/i,model:x,file=/i", "is named twice"),
            ("raid0:a,b?chunk=48k", "power of two from 4k to 16m, found \"48k\""),
            ("raid0:a,b?chunk=2k", "power of two from 4k to 16m"),
            ("raid0:a,b?chunk=32m", "power of two from 4k to 16m"),
            ("raid0:a,b?chunk=99999999999999999999k", "power of two"),
            ("raid0:a,b?read=first", "unknown option \"read\", expected ?chunk=SIZE"),
            ("mirror:a,b?read=both", "expected read=first|balanced, found \"both\""),
            ("mirror:a,mirror:b", "only a raid0 has arrays as members"),
            ("mirror:[mirror:a,b],c", "only a raid0 has arrays as members"),
            ("raid0:raid0:a,b", "only a raid0 has arrays as members, and only mirrors"),
            ("raid0:[mirror:a],b", "expected 2 to 32 members with a comma between them, found 1"),
            ("raid0:[mirror:a,a],b", "\"a\" is named twice"),
            ("raid0:[mirror:a,b],c?read=first", "unknown option \"read\""),
            ("raid5:a,b", "expected raid0:MEMBER,MEMBER or mirror:MEMBER,MEMBER"),
        ];
        for (text, expected) in cases {
            let error = ArraySpec::parse(text).unwrap_err().to_string();
            // Of a mirror among the members the mirror is named.
            let named = text.strip_prefix("raid0:[").and_then(|rest| rest.split(']').next());
            let is_named = error.contains(text) || named.is_some_and(|named| error.contains(named));
            assert!(error.contains(expected) && is_named, "{text}: {error}");
        }
    }

    #[test]
    fn every_option_is_read_as_it_may_be_written_and_the_shape_is_told_in_a_few_words() {
        for (text, shape) in [
            ("raid0:a,b,c?chunk=65536", "raid0 of 3, 64 KiB chunks"),
            ("raid0:a,b?chunk=65536B", "raid0 of 2, 64 KiB chunks"),
            ("raid0:a,b?chunk=4KiB", "raid0 of 2, 4 KiB chunks"),
            ("raid0:a,b?chunk=16m", "raid0 of 2, 16384 KiB chunks"),
            ("mirror:a,b?read=first&take=2", "mirror of 2"),
        ] {
            assert_eq!(ArraySpec::parse(text).map(|spec| spec.shape()), Ok(shape.to_owned()));
        }
        let spec = ArraySpec::parse("mirror:a,b?read=first&take=2").unwrap();
        assert_eq!(
            spec.kind,
            ArrayKind::Mirror {
                policy: ReadPolicy::First,
                take: Some(Take { member: 2, generation: None }),
                replace: None,
            }
        );
    }

    #[test]
    fn a_stripe_may_have_mirrors_in_brackets_as_members_with_options_of_their_own() {
        for (text, members, chunk_kib) in [
            ("raid0:[mirror:a,b],[mirror:c,d]", vec!["mirror:a,b", "mirror:c,d"], 64),
            (
                "raid0:[mirror:a,b?read=balanced],c?chunk=8k",
                vec!["mirror:a,b?read=balanced", "c"],
                8,
            ),
            (
                "raid0:x,[mirror:model:y,file=z,a?take=1]",
                vec!["x", "mirror:model:y,file=z,a?take=1"],
                64,
            ),
            ("raid0:[a],b", vec!["[a]", "b"], 64),
        ] {
            let spec = ArraySpec::parse(text).unwrap();
            assert_eq!(
                (spec.members, spec.kind),
                (
                    members.iter().map(|one| (*one).to_owned()).collect(),
                    ArrayKind::Stripe { chunk_bytes: chunk_kib << 10 }
                ),
                "{text}"
            );
        }
        let open = split_members("[mirror:a,b");
        assert_eq!(open, ["[mirror:a,b"], "a name like any other");
        assert_eq!((as_member("mirror:a,b"), as_member("a")), ("[mirror:a,b]".into(), "a".into()));
        let nested =
            model_from_text("raid0:[mirror:model:st3146855fc,model:st3146855fc],model:st3146855fc")
                .unwrap();
        assert_eq!(nested.properties().striping.map(nearhead_disk::Striping::members), Some(2));
    }

    #[test]
    fn different_sizes_are_told() {
        let spec = ArraySpec::parse("raid0:a,b,c").unwrap();
        assert_eq!(spec.size_note(&[5, 5, 5]), None);
        let note = spec.size_note(&[7, 5, 6]).unwrap();
        assert!(note.contains("5 bytes of each are used, 2 bytes of a and 1 bytes of c"), "{note}");
    }

    #[test]
    fn an_array_of_modelled_disks_is_made_from_a_text() {
        let array = model_from_text("raid0:st8000as0002,model:st3146855fc?chunk=1m").unwrap();
        let smallest = ModelSpec::parse("st3146855fc").unwrap().capacity_bytes().unwrap();
        assert_eq!(array.properties().capacity_bytes, smallest / (1 << 20) * (2 << 20));
        let one = model_from_text("model:st3146855fc,content=none").unwrap();
        assert_eq!(one.properties().capacity_bytes, smallest);
    }
}
