//! What of a Rust source is code, and the paths that code names.
//!
//! Rules about code must not trip over comments and strings (a rule's own message would break the
//! rule), so those are blanked out; positions and line numbers stay as they are. This is a lexer
//! for exactly that purpose, not a parser: what does not compile may be misjudged.

use std::iter::Peekable;
use std::str::Chars;

/// The source with comments, strings and character literals turned into spaces; lines are kept.
pub(crate) fn code_only(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < characters.len() {
        let len = blank_len(&characters, at).min(characters.len() - at);
        if len == 0 {
            code.push(characters[at]);
            at += 1;
        } else {
            let blanked = &characters[at..at + len];
            code.extend(blanked.iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at += len;
        }
    }
    code
}

/// Number of characters from `at` on that belong to one comment or literal; 0 if it is code.
fn blank_len(source: &[char], at: usize) -> usize {
    let rest = &source[at..];
    match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_len(rest),
        ['"', ..] => quoted_len(rest, '"'),
        ['\'', '\\', ..] => quoted_len(rest, '\''),
        ['\'', _, '\'', ..] => 3,
        ['r', '"' | '#', ..] if at == 0 || !may_end_identifier(source[..at].last()) => {
            raw_string_len(rest)
        }
        _ => 0,
    }
}

/// `b` and `c` before an `r` are prefixes of a raw string, not the end of a name.
fn may_end_identifier(previous: Option<&char>) -> bool {
    previous.is_some_and(|&c| (c.is_alphanumeric() || c == '_') && c != 'b' && c != 'c')
}

/// Block comments nest.
fn block_comment_len(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a literal that ends at the next `quote` without a backslash before it.
fn quoted_len(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Length of `r"..."` or `r#"..."#`; 0 for a raw identifier.
fn raw_string_len(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let body = 2 + hashes;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |position| body + position + end.len())
}

/// Lines (counted from 1) of `code` where `word` stands on its own.
pub(crate) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(of_word) && !line[at + word.len()..].starts_with(of_word)
        })
    };
    code.lines().enumerate().filter(|(_, line)| stands_alone(line)).map(|(i, _)| i + 1).collect()
}

/// Every path below `root` (such as `std`) that `code` names, with its line; groups are spread
/// out: `use std::{fs, time::Instant}` names `std::fs` and `std::time::Instant`.
pub(crate) fn paths_below(code: &str, root: &str) -> Vec<(usize, String)> {
    let start = format!("{root}::");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(&start) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let mut rest = code[at + start.len()..].chars().peekable();
        let mut names = Vec::new();
        spread(&mut rest, root, &mut names);
        paths.extend(names.into_iter().map(|name| (line, name)));
    }
    paths
}

/// Reads one use-tree and adds each path in it to `paths`.
fn spread(rest: &mut Peekable<Chars<'_>>, prefix: &str, paths: &mut Vec<String>) {
    skip_space(rest);
    if rest.next_if_eq(&'{').is_some() {
        while rest.peek().is_some_and(|&c| c != '}') {
            spread(rest, prefix, paths);
            // Whatever follows the tree (`as name`, a comma) up to the next one.
            while rest.next_if(|&c| c != ',' && c != '}' && c != '{').is_some() {}
            rest.next_if(|&c| c == ',' || c == '{');
        }
        rest.next();
        return;
    }
    let mut name = String::new();
    while let Some(c) = rest.next_if(|&c| c.is_alphanumeric() || c == '_' || c == '*') {
        name.push(c);
    }
    let path = format!("{prefix}::{name}");
    let mut ahead = rest.clone();
    if ahead.next() == Some(':') && ahead.next() == Some(':') {
        *rest = ahead;
        spread(rest, &path, paths);
    } else if !name.is_empty() {
        paths.push(path);
    }
}

fn skip_space(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| c.is_whitespace()).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let source = concat!(
            "let a = \"unsafe // \\\" \"; // unsafe\n",
            "/* unsafe /* nested */ unsafe */ b('\\'', '\"', 'x');\n",
            "let c = r#\"unsafe \" unsafe\"#; let d = br\"unsafe\";\n",
        );
        let code = code_only(source);
        assert!(!code.contains("unsafe"), "{code}");
        assert!(code.contains("let a =") && code.contains("b(") && code.contains("let d ="));
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.chars().count(), source.chars().count());
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        let code = code_only("fn f<'a>(r#type: &'a str) -> &'a str { unsafe { g(r#type) } }");
        assert!(code.contains("unsafe { g(r#type) }"), "{code}");
    }

    #[test]
    fn a_word_inside_a_longer_name_does_not_count() {
        assert_eq!(lines_with_word("unsafe_code\nan unsafe block\nnot_unsafe", "unsafe"), [2]);
    }

    #[test]
    fn use_groups_are_spread_out() {
        let code = "use std::{\n  fs as files, time::{Duration, Instant}, io};\nmy_std::fs::x; std::net::bind()";
        let paths = paths_below(code, "std");
        let names: Vec<&str> = paths.iter().map(|(_, name)| name.as_str()).collect();
        let expected =
            ["std::fs", "std::time::Duration", "std::time::Instant", "std::io", "std::net::bind"];
        assert_eq!(names, expected);
        assert_eq!(paths[4].0, 3);
    }

    #[test]
    fn an_unfinished_source_ends_the_reading() {
        for source in ["\"", "'\\", "/*", "r#\"", "use std::{", "use std::{fs, ", "std::"] {
            let _ = paths_below(&code_only(source), "std");
        }
    }
}
