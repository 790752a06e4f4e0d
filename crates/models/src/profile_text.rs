//! Reading a profile's text, of whatever kind of disk: by the name of one that is built in, or
//! from a file.
//!
//! One place decides how a name differs from a path and what an error looks like: it names the
//! profile as the user did, and what is wrong in it, with line and key where the text does not
//! parse or holds a key that means nothing. What the numbers must fulfil is the matter of each kind.

use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// Profiles that are built in: name and text.
pub(crate) type Embedded = [(&'static str, &'static str)];

/// A profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The profile's name or path.
    pub profile: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "disk profile {}: {}", self.profile, self.problem)
    }
}

impl std::error::Error for ProfileError {}

impl ProfileError {
    pub(crate) fn new(profile: &str, problem: impl Into<String>) -> Self {
        Self { profile: profile.to_owned(), problem: problem.into() }
    }
}

/// Names of the profiles in a table.
pub(crate) fn names(table: &'static Embedded) -> impl Iterator<Item = &'static str> {
    table.iter().map(|(name, _)| *name)
}

/// Text of the built-in profile `name`; the error lists those of all `tables`.
pub(crate) fn named(
    name: &str,
    tables: &[&'static Embedded],
) -> Result<&'static str, ProfileError> {
    let all = || tables.iter().flat_map(|table| table.iter());
    let found = all().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| {
        let known: Vec<_> = all().map(|(known, _)| *known).collect();
        ProfileError::new(name, format!("not known; expected one of {}", known.join(", ")))
    })
}

/// Text of the built-in profile, or of the file at a path that ends in `.toml`.
pub(crate) fn find(
    name_or_path: &str,
    tables: &[&'static Embedded],
) -> Result<Cow<'static, str>, ProfileError> {
    let path = Path::new(name_or_path);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return std::fs::read_to_string(path).map(Cow::Owned).map_err(|error| {
            ProfileError::new(name_or_path, format!("cannot read the file: {error}"))
        });
    }
    named(name_or_path, tables).map(Cow::Borrowed).map_err(|error| {
        let problem = format!("{} or the path of a .toml file", error.problem);
        ProfileError { problem, ..error }
    })
}

/// The values in `text`, a profile called `source` in errors; keys that mean nothing are refused if
/// `T` denies them.
pub(crate) fn from_toml<T: DeserializeOwned>(source: &str, text: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|error| ProfileError::new(source, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &Embedded = &[("one", "a = 1"), ("two", "b = 2")];

    #[test]
    fn a_name_is_looked_up_and_a_path_is_read() {
        assert_eq!(find("two", &[TABLE]).unwrap(), "b = 2");
        let error = find("three", &[TABLE, TABLE]).unwrap_err().to_string();
        assert!(
            error.contains("profile three: not known; expected one of one, two, one"),
            "{error}"
        );
        assert!(error.ends_with("or the path of a .toml file"), "{error}");
        let error = find("/no/such/two.toml", &[TABLE]).unwrap_err().to_string();
        assert!(error.contains("/no/such/two.toml: cannot read the file"), "{error}");
    }

    #[test]
    fn a_text_that_does_not_parse_is_told_with_its_line() {
        let error = from_toml::<toml::Table>("mine", "a = 1\nb = = 2").unwrap_err().to_string();
        assert!(error.contains("profile mine: ") && error.contains("line 2"), "{error}");
    }
}
