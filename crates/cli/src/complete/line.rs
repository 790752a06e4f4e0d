//! The command line up to the cursor, as words, and how a candidate for the last one is typed.
//!
//! bash hands a line over as it was typed, and wants back what comes behind the last of `COMP_WORDBREAKS` (`:` and `=` among them) or the quote
//! that is open, quoted for that place. zsh and fish do both by themselves.

/// The words up to the cursor; the last one is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Without quotes.
    pub(super) words: Vec<String>,
    /// How much of the last one the shell keeps, in bytes.
    kept: usize,
    /// The quote that is open there.
    quote: Option<char>,
}

/// What a shell takes as it is.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || !c.is_ascii() || "_@%+=:,./-".contains(c)
}

/// What a backslash is put before in double quotes.
fn is_special_in_quotes(c: char) -> bool {
    "\"\\$`".contains(c)
}

impl Line {
    /// Of words that a shell took apart.
    pub(super) fn of_words(words: Vec<String>) -> Self {
        Self { words, ..Self::default() }
    }

    /// Of the text that bash has in `COMP_LINE`, up to byte `point`.
    pub(super) fn of_bash(text: &str, point: usize, breaks: &str) -> Self {
        let mut end = point.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut words = Vec::new();
        // None between two words; a quote with nothing in it is one.
        let mut word: Option<String> = None;
        let (mut behind_break, mut behind_quote, mut quote) = (0, 0, None);
        let mut chars = text[..end].chars();
        while let Some(c) = chars.next() {
            if quote.is_none() && c.is_ascii_whitespace() {
                words.extend(word.take());
                behind_break = 0;
                continue;
            }
            let word = word.get_or_insert_default();
            match (quote, c) {
                (None, '\\') => word.extend(chars.next()),
                (None, '\'' | '"') => (quote, behind_quote) = (Some(c), word.len()),
                (None, c) => {
                    word.push(c);
                    if breaks.contains(c) {
                        behind_break = word.len();
                    }
                }
                (Some(open), c) if c == open => quote = None,
                (Some('"'), '\\') => {
                    let next = chars.next();
                    let is_escaped = next.is_some_and(is_special_in_quotes);
                    word.extend((!is_escaped).then_some('\\'));
                    word.extend(next);
                }
                (Some(_), c) => word.push(c),
            }
        }
        words.push(word.unwrap_or_default());
        let kept = if quote.is_some() { behind_quote } else { behind_break };
        Self { words, kept, quote }
    }

    /// The word that is being typed.
    pub(super) fn current(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }

    /// What bash is to put there for `candidate`; none if it does not go on from what was typed.
    pub(super) fn typed(&self, candidate: &str) -> Option<String> {
        let rest = candidate.strip_prefix(self.current().get(..self.kept)?)?;
        let escaped = |wants: fn(char) -> bool| {
            let one = |c| [wants(c).then_some('\\'), Some(c)];
            rest.chars().flat_map(one).flatten().collect::<String>()
        };
        Some(match self.quote {
            Some('\'') => rest.replace('\'', "'\\''"),
            Some(_) => escaped(is_special_in_quotes),
            None => {
                let is_home = self.kept == 0 && self.current().starts_with('~');
                let text = escaped(|c| !is_plain(c));
                if is_home { text.replacen("\\~", "~", 1) } else { text }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What bash has by itself.
    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn line(text: &str) -> Line {
        Line::of_bash(text, text.len(), BREAKS)
    }

    #[test]
    fn words_are_those_of_the_shell_and_the_last_one_ends_at_the_cursor() {
        for (text, expected) in [
            ("", vec![""]),
            ("nearhead", vec!["nearhead"]),
            ("nearhead  status ", vec!["nearhead", "status", ""]),
            ("nearhead status model:exos,file=a", vec!["nearhead", "status", "model:exos,file=a"]),
            ("n a\\ b 'c d' \"e'f\" ''x\"\" ''", vec!["n", "a b", "c d", "e'f", "x", ""]),
            ("n \"a\\\"\\x", vec!["n", "a\"\\x"]),
            ("n 'a b", vec!["n", "a b"]),
            ("n a\\", vec!["n", "a"]),
        ] {
            assert_eq!(line(text).words, expected, "{text}");
        }
        assert_eq!(Line::of_bash("n status vol.img", 8, BREAKS).words, ["n", "status"]);
        // bash counts bytes, whoever changed the line perhaps characters.
        assert_eq!(Line::of_bash("n \u{e4}b", 3, BREAKS).words, ["n", ""]);
        assert_eq!(Line::of_bash("n a", 900, BREAKS).words, ["n", "a"]);
    }

    #[test]
    fn what_bash_is_given_goes_on_where_it_replaces_and_is_quoted_as_it_is_there() {
        for (text, candidate, expected) in [
            ("n mod", "model:", Some("model:")),
            ("n model:ex", "model:exos", Some("exos")),
            ("n model:exos,file=a", "model:exos,file=a b", Some("a\\ b")),
            ("n --preset=ml", "--preset=mlb", Some("mlb")),
            ("n nbd+unix:///?so", "nbd+unix:///?socket=", Some("///\\?socket=")),
            ("n model\\:ex", "model:exos", Some("model:exos")),
            ("n 'mirror:a", "mirror:a'b", Some("mirror:a'\\''b")),
            ("n \"a", "a b$c", Some("a b\\$c")),
            ("n a:\"b c\"d", "a:b cde", Some("b\\ cde")),
            ("n a\"b:c", "ab:c d", Some("b:c d")),
            ("n ~/a", "~/a~b", Some("~/a\\~b")),
            ("n a", "\u{e4}*", Some("\u{e4}\\*")),
            ("n a:b", "c", None),
        ] {
            assert_eq!(line(text).typed(candidate).as_deref(), expected, "{text}");
        }
    }
}
