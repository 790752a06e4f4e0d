//! Texts of an array before, while and after one of its members is replaced.
//!
//! While a member is replaced the text names its successor behind the members: `mirror:A,OLD,NEW?replace=2`. Any start with that text goes on
//! with the replacement, or finds by the labels that it is complete. A text without the successor, or with it in the place of the old member,
//! is as good: the labels say which member has everything.
//!
//! Nothing here opens a disk.

use super::spec::{ArrayKind, ArraySpec, as_member};
use super::{DiskError, MISSING, ReadPolicy};

/// Chunk that a text need not name.
const CHUNK_BYTES_DEFAULT: u64 = super::spec::CHUNK_BYTES_DEFAULT;

/// A member of a target, its successor, and the target by the stages of its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// As the target names it.
    pub old: String,
    /// Disk that replaces it.
    pub new: String,
    /// The mirror, while the member is replaced.
    pub mirror: String,
    /// The target without the successor.
    pub before: String,
    /// The same where the old member is used no more.
    pub without_old: String,
    /// The target while the member is replaced.
    pub during: String,
    /// The target with the successor in the place of the member.
    pub after: String,
}

impl Replacement {
    /// The replacement of the member of `target` that `is_old` means by `new`.
    ///
    /// # Errors
    /// No mirror in `target` has that member, or one of its members is being replaced already.
    pub fn begin(target: &str, new: &str, is_old: impl Fn(&str) -> bool) -> Result<Self, String> {
        let spec = ArraySpec::parse(target).map_err(|error| error.to_string())?;
        if let Some(under_way) = Self::of(target) {
            return Err(under_way.refusal());
        }
        if let Some(odd) = new.chars().find(|c| ",?&[]".contains(*c)) {
            return Err(format!(
                "expected a path without any of `,?&[]`, as targets name members by it, found {odd:?} in {new}; give the device another name by a \
                 link"
            ));
        }
        let members = mirror_members(target);
        let wanted = |(mirror, number): (&ArraySpec, usize)| {
            let ArrayKind::Mirror { policy, .. } = mirror.kind else { return None };
            let mut members = mirror.members.clone();
            members.push(new.to_owned());
            let replace = u16::try_from(number + 1).ok();
            Some(ArraySpec { kind: ArrayKind::Mirror { policy, take: None, replace }, members })
        };
        let place_in = |mirror: &ArraySpec| mirror.members.iter().position(|member| is_old(member));
        let during = match spec.kind {
            ArrayKind::Mirror { .. } => {
                place_in(&spec).and_then(|number| wanted((&spec, number))).map(|spec| spec.text())
            }
            ArrayKind::Stripe { .. } => {
                let mut found = None;
                let mut members = spec.members.clone();
                for member in members.iter_mut().filter(|member| ArraySpec::is_array(member)) {
                    let Ok(mirror) = ArraySpec::parse(member) else { continue };
                    if let Some(number) = place_in(&mirror).filter(|_| found.is_none()) {
                        found = wanted((&mirror, number));
                        *member = found.as_ref().map_or_else(String::new, ArraySpec::text);
                    }
                }
                found.map(|_| ArraySpec { members, ..spec.clone() }.text())
            }
        };
        let list = if members.is_empty() { "none".to_owned() } else { members.join(", ") };
        let during =
            during.ok_or_else(|| format!("expected a member of a mirror, one of {list}"))?;
        // As every later start reads it.
        Self::of(&during).ok_or_else(|| format!("{during:?} cannot be read (internal error)"))
    }

    /// Message that refuses another replacement while this one is under way.
    pub fn refusal(&self) -> String {
        format!(
            "expected that no member is being replaced, found that {} replaces {}; wait until that is done (`nearhead status`)",
            self.new, self.old
        )
    }

    /// The replacement that is under way in `target`, if one is.
    pub fn of(target: &str) -> Option<Self> {
        let spec = ArraySpec::is_array(target).then(|| ArraySpec::parse(target).ok())??;
        if let Some((old, new)) = spec.replaced() {
            let stage = |member: &str| {
                let mut members = spec.members.clone();
                members.pop();
                member.clone_into(members.get_mut(old)?);
                let ArrayKind::Mirror { policy, .. } = spec.kind else { return None };
                let kind = ArrayKind::Mirror { policy, take: None, replace: None };
                Some(ArraySpec { kind, members }.text())
            };
            let (old, new) = (spec.members.get(old)?.clone(), spec.members.get(new)?.clone());
            return Some(Self {
                mirror: target.to_owned(),
                before: stage(&old)?,
                without_old: stage(MISSING)?,
                during: target.to_owned(),
                after: stage(&new)?,
                old,
                new,
            });
        }
        let mut nested = spec.members.iter().enumerate();
        let (place, inner) = nested.find_map(|(place, member)| Some((place, Self::of(member)?)))?;
        let with = |member: &String| {
            let mut members = spec.members.clone();
            member.clone_into(&mut members[place]);
            ArraySpec { members, ..spec.clone() }.text()
        };
        Some(Self {
            before: with(&inner.before),
            without_old: with(&inner.without_old),
            during: with(&inner.during),
            after: with(&inner.after),
            ..inner
        })
    }
}

/// Members of all mirrors that `target` consists of.
pub fn mirror_members(target: &str) -> Vec<String> {
    let Ok(spec) = ArraySpec::parse(target) else { return Vec::new() };
    match spec.kind {
        ArrayKind::Mirror { .. } => spec.members,
        ArrayKind::Stripe { .. } => {
            spec.members.iter().flat_map(|member| mirror_members(member)).collect()
        }
    }
}

impl ArraySpec {
    /// Members of the array; one that replaces another is none yet.
    pub fn count(&self) -> usize {
        self.members.len() - usize::from(self.replaced().is_some())
    }

    /// Places of a member that is being replaced and of the one that replaces it.
    pub fn replaced(&self) -> Option<(usize, usize)> {
        let ArrayKind::Mirror { replace: Some(number), .. } = self.kind else { return None };
        Some((usize::from(number).checked_sub(1)?, self.members.len().checked_sub(1)?))
    }

    /// The text that describes it.
    pub fn text(&self) -> String {
        let members: Vec<String> = self.members.iter().map(|member| as_member(member)).collect();
        let (prefix, options) = match self.kind {
            ArrayKind::Stripe { chunk_bytes: CHUNK_BYTES_DEFAULT } => ("raid0", Vec::new()),
            ArrayKind::Stripe { chunk_bytes } => {
                ("raid0", vec![format!("chunk={}k", chunk_bytes >> 10)])
            }
            ArrayKind::Mirror { policy, take, replace } => {
                let read = (policy == ReadPolicy::Balanced).then(|| "read=balanced".to_owned());
                let take = take.map(|take| take.to_string());
                let replace = replace.map(|number| format!("replace={number}"));
                ("mirror", read.into_iter().chain(take).chain(replace).collect())
            }
        };
        let options =
            if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
        format!("{prefix}:{}{options}", members.join(","))
    }

    /// Refuses to replace a member where no label says which one counts.
    pub(crate) fn refuse_replacement(&self) -> Result<(), DiskError> {
        if self.replaced().is_none() {
            return Ok(());
        }
        let problem = "expected members with labels, found none: a member of such a mirror is replaced while nothing serves it, by a copy of \
                       the other one";
        Err(super::invalid(&self.shape(), problem))
    }
}

/// A member that is replaced is one of at least two, and its successor is named and comes last.
pub(crate) fn refuse_wrong(kind: &ArrayKind, members: &[String]) -> Result<(), String> {
    let ArrayKind::Mirror { take, replace: Some(number), .. } = kind else { return Ok(()) };
    let (number, count) = (usize::from(*number), members.len().saturating_sub(1));
    if take.is_some() {
        return Err("expected ?take= or ?replace=, found both".to_owned());
    }
    if count < 2 || number > count || members[count] == MISSING {
        return Err(format!(
            "?replace={number}: expected at least two members, one of which is replaced, and behind them the disk that replaces it, found {}",
            members.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(target: &str, old: &str) -> Result<Replacement, String> {
        Replacement::begin(target, "/n", |member| member == old)
    }

    #[test]
    fn a_target_is_named_by_every_stage_of_a_replacement() {
        let cases = [
            (
                "mirror:/a,/b",
                "/b",
                ["mirror:/a,missing", "mirror:/a,/b,/n?replace=2", "mirror:/a,/n"],
            ),
            (
                "mirror:/a,missing?read=balanced",
                "missing",
                [
                    "mirror:/a,missing?read=balanced",
                    "mirror:/a,missing,/n?read=balanced&replace=2",
                    "mirror:/a,/n?read=balanced",
                ],
            ),
            (
                "raid0:[mirror:/a,/b],[mirror:/c,/d?read=balanced],/e?chunk=128k",
                "/c",
                [
                    "raid0:[mirror:/a,/b],[mirror:missing,/d?read=balanced],/e?chunk=128k",
                    "raid0:[mirror:/a,/b],[mirror:/c,/d,/n?read=balanced&replace=1],/e?chunk=128k",
                    "raid0:[mirror:/a,/b],[mirror:/n,/d?read=balanced],/e?chunk=128k",
                ],
            ),
        ];
        for (target, old, [without_old, during, after]) in cases {
            let found = begun(target, old).unwrap();
            assert_eq!((&*found.old, &*found.new, &*found.before), (old, "/n", target));
            let texts = [&*found.without_old, &*found.during, &*found.after];
            assert_eq!(texts, [without_old, during, after]);
            assert_eq!(Replacement::of(during).as_ref(), Some(&found));
            assert_eq!(Replacement::of(target), None);
            let again = begun(during, "/a").unwrap_err();
            assert!(again.contains(&format!("/n replaces {old}")), "{again}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_refused_with_the_members() {
        let refused = begun("raid0:[mirror:/a,/b],/c", "/c").unwrap_err();
        assert!(refused.contains("one of /a, /b"), "{refused}");
        let refused = begun("raid0:/a,/c", "/c").unwrap_err();
        assert!(refused.contains("one of none"), "{refused}");
        let odd = Replacement::begin("mirror:/a,/b", "/n,m", |_| true).unwrap_err();
        assert!(odd.contains("found ','"), "{odd}");
        for text in [
            "mirror:/a,/n?replace=1",
            "mirror:/a,/b,/n?replace=3",
            "mirror:/a,/b,/n?replace=0",
            "mirror:/a,/b,missing?replace=1",
            "mirror:/a,/b,/n?replace=1&take=1",
            "raid0:/a,/b,/n?replace=1",
        ] {
            assert!(ArraySpec::parse(text).is_err(), "{text}");
        }
    }
}
