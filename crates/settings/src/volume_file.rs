//! What is wrong with a volume file, on one line: where, what stands there, expected and found.
//!
//! The parser shows the line with a mark below it, and names types as programs do. Errors here go to logs and
//! terminals, one line each, and to people.

use toml::de::Error;

/// Types as the parser names them, and as people do.
const TYPES: [(&str, &str); 6] = [
    ("expected u8", "expected a whole number"),
    ("expected u32", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected usize", "expected a whole number from 0 on"),
    ("expected a boolean", "expected true or false"),
    ("expected a sequence", "expected a list such as [\"a\", \"b\"]"),
];

/// The error of a file with this text.
pub(crate) fn in_words(text: &str, error: &Error) -> String {
    let mut message = error.message().trim().replace('\n', ", ");
    for (from, to) in TYPES {
        message = message.replace(from, to);
    }
    let Some(start) = error.span().map(|span| span.start.min(text.len())) else { return message };
    let before = String::from_utf8_lossy(&text.as_bytes()[..start]);
    let line = before.matches('\n').count();
    let source = text.lines().nth(line).unwrap_or("").trim();
    format!("line {}, `{source}`: {message}", line + 1)
}

#[cfg(test)]
mod tests {
    use crate::ServeArgs;

    #[test]
    fn a_mistake_is_told_on_one_line_in_plain_words() {
        for (text, expected) in [
            (
                "target = \"a\"\nwatermark = \"70\"\n",
                "line 2, `watermark = \"70\"`: invalid type: string \"70\", expected a whole number",
            ),
            (
                "read_only = \"yes\"",
                "line 1, `read_only = \"yes\"`: invalid type: string \"yes\", expected true or false",
            ),
            (
                "export = \"x\"",
                "line 1, `export = \"x\"`: invalid type: string \"x\", expected a list such as [\"a\", \"b\"]",
            ),
        ] {
            assert_eq!(ServeArgs::from_text(text).unwrap_err(), expected);
        }
        for text in
            ["targett = 1", "ack = \"durable", "[x]", "connections_max = -1", "\u{1b}", "a = ["]
        {
            let error = ServeArgs::from_text(text).unwrap_err();
            assert!(error.starts_with("line 1, `") && !error.contains('\n'), "{text:?}: {error:?}");
        }
    }
}
