//! One mistake as a patch: what is done wrong, and at which lines of the product the code asks whether it is made.
//!
//! A patch is text for people: a sentence, then for each place the file and its lines, as in a diff without line numbers:
//! ` ` before lines that stay, `-` before lines that go, `+` before lines that come. Lines that stay or go have to stand
//! in the file one after the other, exactly once; how far they are indented does not matter. `is_made()` in lines that
//! come is the question. A line with nothing in it ends a place. Places are found in the product as it is, never in
//! what another patch made of it, so that no order of patches matters.

use crate::tidy::Finding;
use std::ops::Range;

/// What a patch asks; it knows by its own name what for.
pub(super) const QUESTION: &str = "is_made()";

/// A sentence with fewer words says nothing.
const WORDS_MIN: usize = 4;

/// What to do if the lines of a place stand nowhere.
const GONE: &str = "write the lines as they are now; if the mistake cannot be made any more, delete the patch and say why \
                    in docs/planted.md";

/// A mistake.
#[derive(Debug)]
pub(crate) struct Patch {
    /// Path of the patch below the root of the workspace.
    pub(super) path: String,
    /// What the mistake is called: the patch's name without ending.
    pub(crate) name: String,
    /// What is done wrong, in a sentence.
    pub(crate) what: String,
    pub(super) places: Vec<Place>,
}

/// Lines of one file.
#[derive(Debug)]
pub(super) struct Place {
    /// Line of the patch that names the file.
    line: usize,
    pub(super) file: String,
    lines: Vec<(Mark, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    Stays,
    Goes,
    Comes,
}

/// Bytes of a file, and what stands there instead.
#[derive(Debug, PartialEq)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

impl Patch {
    /// Reads the patch at `path`.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".patch");
        let mut numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let first = numbered.by_ref().map(|(_, line)| line.trim());
        let what = first.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let places = Place::parse_all(path, numbered)?;
        let mistake = Self { path: path.to_owned(), name: name.to_owned(), what, places };
        mistake.check()?;
        Ok(mistake)
    }

    /// A patch that cannot be meant is refused.
    fn check(&self) -> Result<(), Finding> {
        let words = self.what.split_whitespace().count();
        if words < WORDS_MIN {
            let advice =
                "say on the first lines what is done wrong, and leave a line empty behind them";
            return Err(wrong(&self.path, 1, "a sentence", &format!("{words} words"), advice));
        }
        if let Some(place) = self.places.iter().find(|place| place.pattern().is_empty()) {
            let advice = "write before or behind the lines that come at least one that stays, with a space before it";
            return Err(wrong(
                &self.path,
                place.line,
                "lines that are in the file",
                "none",
                advice,
            ));
        }
        let mut lines = self.places.iter().flat_map(|place| &place.lines);
        if !lines.any(|(mark, line)| *mark == Mark::Comes && line.contains(QUESTION)) {
            let advice = "write lines with `+` that do the wrong thing only if `is_made()` says so";
            return Err(wrong(&self.path, 1, "the question `is_made()`", "none", advice));
        }
        Ok(())
    }
}

fn wrong(path: &str, line: usize, expected: &str, found: &str, advice: &str) -> Finding {
    Finding {
        file: path.to_owned(),
        line,
        expected: expected.to_owned(),
        found: found.to_owned(),
        advice: advice.to_owned(),
    }
}

impl Place {
    /// Reads the places of the patch at `path` from its lines and their numbers.
    fn parse_all<'a>(
        path: &str,
        lines: impl Iterator<Item = (usize, &'a str)>,
    ) -> Result<Vec<Self>, Finding> {
        let mut places: Vec<Self> = Vec::new();
        let mut is_open = false;
        for (number, line) in lines {
            let mark = match line.chars().next() {
                Some(' ') => Mark::Stays,
                Some('-') => Mark::Goes,
                Some('+') => Mark::Comes,
                start => {
                    is_open = start.is_some();
                    let file = line.trim().to_owned();
                    places.extend(is_open.then_some(Self {
                        line: number,
                        file,
                        lines: Vec::new(),
                    }));
                    continue;
                }
            };
            let Some(place) = places.last_mut().filter(|_| is_open) else {
                let advice = "name the file on a line of its own, without a space before it";
                return Err(wrong(
                    path,
                    number,
                    "the path of a file",
                    &format!("`{line}`"),
                    advice,
                ));
            };
            place.lines.push((mark, line[1..].to_owned()));
        }
        Ok(places)
    }

    /// The lines that have to be in the file.
    fn pattern(&self) -> Vec<&str> {
        let kept = self.lines.iter().filter(|(mark, _)| *mark != Mark::Comes);
        kept.map(|(_, line)| line.trim()).collect()
    }

    /// How often the lines stand in `source`.
    pub(super) fn count_in(&self, source: &str) -> usize {
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        matches(&lines, &self.pattern()).count()
    }

    /// What to change in `source`, with `question` for each question; `file_with` finds another file that has the lines.
    pub(super) fn edits(
        &self,
        path: &str,
        source: &str,
        question: &str,
        file_with: impl Fn(&Self) -> Option<String>,
    ) -> Result<Vec<Edit>, Finding> {
        let lines: Vec<&str> = source.split_inclusive('\n').collect();
        let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let pattern = self.pattern();
        let mut found = matches(&trimmed, &pattern);
        match (found.next(), found.count()) {
            (Some(first), 0) => Ok(self.edits_at(source, &lines, first, question)),
            (Some(_), more) => {
                let advice = "add lines around them until one place alone is meant";
                Err(self.not_once(path, &format!("{} times", more + 1), advice))
            }
            (None, _) => {
                let advice = match file_with(self) {
                    Some(other) => format!("they stand in {other} now: name that file"),
                    None => GONE.to_owned(),
                };
                Err(self.not_once(path, &self.what_is_missing(&trimmed), &advice))
            }
        }
    }

    fn not_once(&self, path: &str, found: &str, advice: &str) -> Finding {
        wrong(path, self.line, &format!("these lines once in {}", self.file), found, advice)
    }

    fn what_is_missing(&self, source: &[&str]) -> String {
        match self.pattern().iter().find(|line| !source.contains(line)) {
            Some(line) => format!("no line `{line}`"),
            None => "each of them, but not one after the other".to_owned(),
        }
    }

    /// What to change if the lines begin with line `first` of the file.
    fn edits_at(&self, source: &str, lines: &[&str], first: usize, question: &str) -> Vec<Edit> {
        let start_of = |line: usize| lines[..line].iter().map(|line| line.len()).sum::<usize>();
        let indented = |line: &str| line.len() - line.trim_start().len();
        let own = self.lines.iter().find(|(mark, _)| *mark != Mark::Comes);
        let own = own.map_or(0, |(_, line)| indented(line));
        let place = indented(lines[first]);
        let moved = |line: &str| {
            let depth = (indented(line) + place).saturating_sub(own);
            format!("{}{}\n", " ".repeat(depth), line.trim_start().replace(QUESTION, question))
        };
        let (mut edits, mut at, mut rest) = (Vec::new(), first, self.lines.as_slice());
        while !rest.is_empty() {
            let stay = rest.iter().take_while(|(mark, _)| *mark == Mark::Stays).count();
            at += stay;
            let changed = rest[stay..].iter().take_while(|(mark, _)| *mark != Mark::Stays).count();
            let (group, others) = rest[stay..].split_at(changed);
            let gone = group.iter().filter(|(mark, _)| *mark == Mark::Goes).count();
            let coming = group.iter().filter(|(mark, _)| *mark == Mark::Comes);
            let text: String = coming.map(|(_, line)| moved(line)).collect();
            let range = start_of(at)..start_of(at + gone);
            edits.extend(smallest(source, range, &text));
            (at, rest) = (at + gone, others);
        }
        edits
    }
}

/// Lines of `source` where `pattern` begins.
fn matches<'a>(source: &'a [&str], pattern: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    let windows = source.windows(pattern.len().max(1)).enumerate();
    windows.filter(move |(_, window)| *window == pattern).map(|(index, _)| index)
}

/// Without what both begin or end with: two patches may change one line, each a part of its own.
fn smallest(source: &str, range: Range<usize>, text: &str) -> Option<Edit> {
    let old = &source[range.clone()];
    let alike = |(a, b): &(char, char)| a == b;
    let bytes = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(alike).map(|(character, _)| character.len_utf8()).sum()
    };
    let head = bytes(&mut old.chars().zip(text.chars()));
    let (old, text) = (&old[head..], &text[head..]);
    let tail = bytes(&mut old.chars().rev().zip(text.chars().rev()));
    let (start, end) = (range.start + head, range.end - tail);
    let text = text[..text.len() - tail].to_owned();
    (start != end || !text.is_empty()).then_some(Edit { range: start..end, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: bool) -> u32 {\n    if a {\n        return 1;\n    }\n    2\n}\n";

    fn parse(places: &str) -> Result<Patch, Finding> {
        Patch::parse("planted/a-name.patch", &format!("what is done is wrong\n\n{places}"))
    }

    /// `SOURCE` with the one place of a patch.
    fn applied(places: &str) -> Result<String, Finding> {
        let patch = parse(places).unwrap();
        let mut text = SOURCE.to_owned();
        for place in patch.places.iter().rev() {
            let edits =
                place.edits(&patch.path, SOURCE, "asked", |_| Some("other.rs".to_owned()))?;
            for edit in edits.into_iter().rev() {
                text.replace_range(edit.range, &edit.text);
            }
        }
        Ok(text)
    }

    #[test]
    fn a_patch_has_its_name_its_sentence_and_its_places() {
        let patch = parse("a.rs\n line\n+is_made()\n\nb.rs\n-line\n").unwrap();
        assert_eq!((patch.name.as_str(), patch.what.as_str()), ("a-name", "what is done is wrong"));
        let places: Vec<_> =
            patch.places.iter().map(|place| (place.line, place.file.as_str())).collect();
        assert_eq!(places, [(3, "a.rs"), (7, "b.rs")]);
    }

    #[test]
    fn lines_come_go_and_take_the_places_of_others_as_deep_as_those_around_them_stand() {
        let inserted = applied("a.rs\n if a {\n+    is_made();\n     return 1;\n").unwrap();
        assert_eq!(inserted, SOURCE.replace("        return", "        asked;\n        return"));
        let replaced = applied("a.rs\n-if a {\n+if a && !is_made() {\n").unwrap();
        assert_eq!(replaced, SOURCE.replace("if a {", "if a && !asked {"));
        let removed =
            applied("a.rs\n-        return 1;\n     }\n\na.rs\n-    2\n+    is_made()\n").unwrap();
        assert_eq!(removed, SOURCE.replace("        return 1;\n", "").replace("2\n", "asked\n"));
        assert_eq!(
            applied("a.rs\n     2\n }\n+is_made\n+is_made()\n").unwrap(),
            format!("{SOURCE}is_made\nasked\n")
        );
    }

    #[test]
    fn only_the_part_of_a_line_that_differs_is_changed() {
        let patch = parse("a.rs\n-if a {\n+if a && !is_made() {\n").unwrap();
        let edits = patch.places[0].edits("p", SOURCE, "asked", |_| None).unwrap();
        let at = SOURCE.find("{\n        return").unwrap();
        assert_eq!(edits, [Edit { range: at..at, text: "&& !asked ".to_owned() }]);
    }

    #[test]
    fn lines_that_are_not_there_once_are_told_with_what_to_do() {
        let failed = |lines: &str| applied(&format!("a.rs\n{lines}+is_made()\n")).unwrap_err();
        let often = failed(" }\n");
        assert_eq!((often.line, often.found.as_str()), (3, "2 times"));
        let missing = failed(" if b {\n");
        assert_eq!(missing.found, "no line `if b {`");
        assert_eq!(missing.advice, "they stand in other.rs now: name that file");
        assert_eq!(
            failed(" return 1;\n if a {\n").found,
            "each of them, but not one after the other"
        );
        assert_eq!(missing.expected, "these lines once in a.rs");
    }

    #[test]
    fn what_is_no_patch_is_refused_at_its_line() {
        for (places, line, found) in [
            (" lost\n+is_made()\n", 3, "` lost`"),
            ("a.rs\n line\n\n+is_made()\n", 6, "`+is_made()`"),
            ("a.rs\n+is_made()\n", 3, "none"),
            ("a.rs\n line\n+wrong()\n", 1, "none"),
        ] {
            let finding = parse(places).unwrap_err();
            assert_eq!((finding.line, finding.found.as_str()), (line, found), "{places}");
        }
        let finding =
            Patch::parse("planted/a.patch", "wrong\n\na.rs\n line\n+is_made()\n").unwrap_err();
        assert_eq!(finding.found, "1 words");
    }
}
