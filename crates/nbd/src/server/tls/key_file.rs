//! A file of users and the keys that they share with the server: lines `USER:HEXKEY`, as the psktool of GnuTLS
//! writes them (GnuTLS manual, "PSK authentication"). A user that begins with `#` is written in hexadecimal.
//!
//! The keys never leave this file but into a handshake: no message has a part of one, nor of a line that
//! could be one, and nothing here can be printed with `{:?}`.

use super::super::ServerError;
use super::problem;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Largest file that is read: many thousand users.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest name of a user, in bytes: what every OpenSSL takes.
const USER_BYTES_MAX: usize = 128;
/// Shortest key, in bytes: with fewer bits whoever saw a handshake could try them all (RFC 9257, section 6).
const KEY_BYTES_MIN: usize = 16;
/// Longest key, in bytes: what every OpenSSL takes.
const KEY_BYTES_MAX: usize = 256;
/// Permissions that let everybody on the machine have the keys, or put others there.
const MODE_OF_OTHERS: u32 = 0o006;

/// Users and their keys.
#[derive(Default)]
pub(super) struct KeyFile {
    keys: HashMap<Vec<u8>, Vec<u8>>,
}

impl KeyFile {
    /// Reads `path`. Refuses a file that everybody can read or write.
    pub(super) fn load(path: &Path) -> Result<Self, ServerError> {
        let failed = |error: std::io::Error| {
            problem(path, format!("expected a file of users and keys: {error}"))
        };
        let file = File::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        let mode = facts.permissions().mode() & 0o7777;
        if mode & MODE_OF_OTHERS != 0 {
            let found = format!(
                "expected keys that only their owner or group can read, found mode {mode:04o}; take them from \
                 all others: chmod o= {}",
                path.display()
            );
            return Err(problem(path, found));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let found = format!("expected at most {FILE_BYTES_MAX} bytes of keys, found more");
            return Err(problem(path, found));
        }
        Self::parse(&bytes).map_err(|found| problem(path, found))
    }

    /// Understands a file's content; the error says in which line what is wrong, and never shows a key.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut lines: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut file = Self::default();
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if line.is_empty() {
                continue;
            }
            let in_line = |found: String| format!("line {number}: {found}");
            let (user, key) = parse_line(line).map_err(in_line)?;
            if let Some(first) = lines.insert(user.clone(), number) {
                let user = shown(&user);
                return Err(in_line(format!(
                    "expected every user once, found {user} again, who is in line {first} already; leave one out"
                )));
            }
            file.keys.insert(user, key);
        }
        if file.keys.is_empty() {
            return Err("expected a line USER:HEXKEY for each user, found none; make one with: psktool -u USER -p \
                        FILE"
                .to_owned());
        }
        Ok(file)
    }

    /// The key of `user`.
    #[cfg(feature = "psk")]
    pub(super) fn key_of(&self, user: &[u8]) -> Option<&[u8]> {
        self.keys.get(user).map(Vec::as_slice)
    }
}

/// A user's name for people: bytes that others chose.
pub(super) fn shown(user: &[u8]) -> String {
    let most = user.len().min(USER_BYTES_MAX);
    format!("{:?}", String::from_utf8_lossy(&user[..most]))
}

fn parse_line(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        // What there is may be a key.
        return Err("expected USER:HEXKEY, found no colon".to_owned());
    };
    let (name, key) = (&line[..colon], &line[colon + 1..]);
    let user = match name {
        [b'#', digits @ ..] if !digits.is_empty() => from_hex(digits)
            .map_err(|found| format!("expected a user in hexadecimal after #, found {found}"))?,
        name => name.to_vec(),
    };
    if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains(&0) {
        let found = if user.contains(&0) {
            "one with a zero byte".to_owned()
        } else {
            format!("{} bytes", user.len())
        };
        return Err(format!(
            "expected a user's name of 1 to {USER_BYTES_MAX} bytes, found {found}"
        ));
    }
    let of_user = |found: &str| {
        format!("user {}: expected a key in hexadecimal, found {found}", shown(&user))
    };
    let key = from_hex(key).map_err(|found| of_user(&found))?;
    if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(format!(
            "user {}: expected a key of {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes, found {}; psktool makes 32",
            shown(&user),
            key.len()
        ));
    }
    Ok((user, key))
}

/// Bytes of pairs of digits; the error says where they are none, and not what is there instead.
fn from_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let value = |at: usize| {
        let digit = char::from(digits[at]).to_digit(16);
        digit
            .map(|digit| digit as u8)
            .ok_or_else(|| format!("something else at its character {}", at + 1))
    };
    let all: Vec<u8> = (0..digits.len()).map(value).collect::<Result<_, _>>()?;
    if !all.len().is_multiple_of(2) {
        return Err(format!("an odd number of digits, {}", all.len()));
    }
    Ok(all.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "00112233445566778899aabbccddeeff";

    fn problem_of(text: &str) -> String {
        KeyFile::parse(text.as_bytes()).err().unwrap()
    }

    #[test]
    fn lines_of_psktool_are_understood() {
        let text = format!(
            "alice:{KEY}\n\nbob smith:{}\n#c3a9:{KEY}\n#:{KEY}",
            KEY.to_uppercase().repeat(2)
        );
        let file = KeyFile::parse(text.as_bytes()).unwrap();
        assert_eq!(file.keys.len(), 4);
        let key = |user: &[u8]| file.keys.get(user).unwrap();
        assert_eq!(key(b"alice")[..3], [0, 0x11, 0x22]);
        assert_eq!(key(b"bob smith").len(), 32);
        assert_eq!(key("\u{e9}".as_bytes()), key(b"alice"));
        assert_eq!(key(b"#"), key(b"alice"));
    }

    #[test]
    fn a_bad_line_is_told_by_its_number_and_never_shows_a_key() {
        let long = format!("{}:{KEY}", "u".repeat(129));
        let much = format!("u:{}", KEY.repeat(17));
        for (line, expected) in [
            (KEY, "line 2: expected USER:HEXKEY, found no colon"),
            ("bob:", "line 2: user \"bob\": expected a key of 16 to 256 bytes, found 0"),
            (&format!(":{KEY}"), "name of 1 to 128 bytes, found 0 bytes"),
            (&long, "name of 1 to 128 bytes, found 129 bytes"),
            ("a\0b:00", "one with a zero byte"),
            ("#0:00", "expected a user in hexadecimal after #, found an odd number of digits, 1"),
            (&format!("bob:{}", &KEY[..31]), "found an odd number of digits, 31"),
            (&format!("bob:{}", &KEY[..30]), "expected a key of 16 to 256 bytes, found 15"),
            (&much, "expected a key of 16 to 256 bytes, found 272"),
            (&format!("bob:{KEY}x"), "found something else at its character 33"),
            (&format!("bob:{KEY}\r"), "found something else at its character 33"),
            (&format!("bob: {KEY}"), "found something else at its character 1"),
            (&format!("a:{KEY}"), "found \"a\" again, who is in line 1 already"),
        ] {
            let error = problem_of(&format!("a:{KEY}\n{line}\n"));
            assert!(
                error.starts_with("line 2: ") && error.contains(expected),
                "{expected}: {error}"
            );
            assert!(!error.contains(&KEY[2..10]) && !error.contains('\n'), "{error}");
        }
        for empty in ["", "\n\n"] {
            assert!(problem_of(empty).contains("psktool"), "{}", problem_of(empty));
        }
    }

    #[test]
    fn names_keys_and_files_are_as_long_as_they_may_be_and_no_longer() {
        let user = |len| format!("{}:{KEY}", "u".repeat(len));
        let key = |bytes| format!("u:{}", "5a".repeat(bytes));
        for (line, is_right) in [
            (user(USER_BYTES_MAX), true),
            (user(USER_BYTES_MAX + 1), false),
            (key(KEY_BYTES_MIN), true),
            (key(KEY_BYTES_MIN - 1), false),
            (key(KEY_BYTES_MAX), true),
            (key(KEY_BYTES_MAX + 1), false),
        ] {
            assert_eq!(KeyFile::parse(line.as_bytes()).is_ok(), is_right, "{line:.40}");
        }
        let name = format!("nearhead-nbd-{}-keys", std::process::id());
        let path = std::env::temp_dir().join(name);
        let line = format!("u:{KEY}\n");
        for (more, is_right) in [(0, true), (1, false), (100_000, false)] {
            // Empty lines count.
            let len = FILE_BYTES_MAX as usize + more;
            std::fs::write(&path, line.clone() + &"\n".repeat(len - line.len())).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&path, mode).unwrap();
            let found = KeyFile::load(&path);
            assert_eq!(found.is_ok(), is_right, "{len} bytes");
            let words = found.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(words.contains("found more"), !is_right, "{words}");
        }
        std::fs::remove_file(path).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_understood_or_refused_in_one_line(bytes in ".{0,40}(:[0-9a-fA-F]{0,40})?(\n.{0,9}:.{0,40})*") {
            if let Err(error) = KeyFile::parse(bytes.as_bytes()) {
                assert!(!error.contains('\n') && error.contains("expected") && error.contains("found"), "{error}");
            }
        }
    }
}
