//! Patterns of file names, as a shell's: `*` and `?` within a name, `**` across directories.
//!
//! A pattern without a slash is compared with the last name of a path, any other with the whole path. No
//! pattern takes longer than its length times the path's.

/// Whether `path` matches `pattern`.
pub fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let text = if pattern.contains(&b'/') { path } else { name };
    // Which beginnings of the text the pattern so far can stand for.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut rest = pattern;
    while let Some((first, after)) = rest.split_first() {
        let (across, used) = match (first, after.first()) {
            (b'*', Some(b'*')) => (true, 2),
            _ => (false, 1),
        };
        let mut next = vec![false; text.len() + 1];
        for (at, from) in reached.iter().enumerate().filter(|(_, from)| **from) {
            match first {
                b'*' => {
                    next[at] = *from;
                    for (step, byte) in text[at..].iter().enumerate() {
                        if *byte == b'/' && !across {
                            break;
                        }
                        next[at + step + 1] = true;
                    }
                }
                b'?' if text.get(at).is_some_and(|byte| *byte != b'/') => next[at + 1] = true,
                byte if text.get(at) == Some(byte) => next[at + 1] = true,
                _ => {}
            }
        }
        (reached, rest) = (next, &rest[used..]);
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_a_shell() {
        let cases = [
            ("log.*", "/data/version-2/log.1a", true),
            ("log.*", "/data/log.d/snapshot", false),
            ("/data/*/log.*", "/data/version-2/log.1a", true),
            ("/data/*/log.*", "/data/a/b/log.1a", false),
            ("/data/**/log.*", "/data/a/b/log.1a", true),
            ("/data/**", "/data/a/b", true),
            ("*.wal", "/x/a.wal", true),
            ("*.wal", "/x/a.wal2", false),
            ("*", "/x/anything", true),
            ("?.wal", "/x/ab.wal", false),
            ("?b.wal", "/x/ab.wal", true),
            ("/x/ab.wal", "/x/ab.wal", true),
            ("/x/ab.wal", "/y/x/ab.wal", false),
            ("", "/x", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), path.as_bytes()), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_of_stars_ends() {
        assert!(!matches(&b"*a".repeat(500), &b"b".repeat(4000)));
    }
}
