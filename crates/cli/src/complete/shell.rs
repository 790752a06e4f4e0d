//! The three shells: the function that each is given, what it says of the line, and how candidates are written for it.

use super::VARIABLE;
use super::line::Line;
use clap_complete::engine::CompletionCandidate;
use nearhead_output::plain;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A shell that completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// By its name or path, as `$SHELL` has it.
    pub fn named(name: &OsStr) -> Option<Self> {
        let name = Path::new(name).file_name()?;
        Self::ALL.into_iter().find(|shell| name == shell.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// What the file with its function is called, as the shell looks for it.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Bash => "nearhead.bash",
            Self::Zsh => "_nearhead",
            Self::Fish => "nearhead.fish",
        }
    }

    /// The function, which asks the program called `program`.
    pub fn function(self, program: &str) -> String {
        let text = match self {
            Self::Bash => include_str!("nearhead.bash"),
            Self::Zsh => include_str!("nearhead.zsh"),
            Self::Fish => include_str!("nearhead.fish"),
        };
        text.replace("VARIABLE", VARIABLE).replace("PROGRAM", &quoted(program))
    }

    /// The line up to the cursor: bash leaves it in its variables, the others name the words.
    pub(super) fn line(self, words: Vec<OsString>) -> Option<Line> {
        let words: Vec<String> =
            words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
        match self {
            Self::Bash => {
                let value = |name| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
                let text = value("COMP_LINE")?;
                let point = value("COMP_POINT")?.parse().ok()?;
                Some(Line::of_bash(&text, point, &value("COMP_WORDBREAKS")?))
            }
            Self::Zsh => Some(Line::of_words(words)).filter(|line| !line.words.is_empty()),
            // The last word is as it was typed.
            Self::Fish => {
                let (last, before) = words.split_last()?;
                let typed = Line::of_bash(last, last.len(), "").current().to_owned();
                Some(Line::of_words([before, &[typed]].concat()))
            }
        }
    }

    /// Candidates, one a line; behind a tab what each is, where the shell shows that.
    pub(super) fn shown(self, line: &Line, candidates: &[CompletionCandidate]) -> String {
        let mut text = String::new();
        for candidate in candidates {
            let Some(value) = candidate.get_value().to_str() else { continue };
            if self == Self::Bash {
                let Some(typed) = line.typed(value) else { continue };
                text.push_str(&typed);
            } else {
                text.push_str(value);
                let about = candidate.get_help().map(ToString::to_string).unwrap_or_default();
                let about = about.lines().next().unwrap_or_default();
                text.push('\t');
                text.push_str(&plain(about));
            }
            text.push('\n');
        }
        text
    }
}

/// A program's name as a word of any of the shells.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./+".contains(c);
    if name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}
