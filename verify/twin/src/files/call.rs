//! System calls of a script, as text.
//!
//! A call is one line: an optional user, a verb and its arguments. The same line is the script, the
//! message to the process that makes the call, and the text of a report. Paths are relative to the
//! root of the file system and hold no space. A call names everything that it needs.

use std::fmt;
use std::str::FromStr;

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// User that makes the call; 0 is root with all its capabilities.
    pub uid: u32,
    /// Verb, from [`VERBS`].
    pub verb: &'static str,
    /// Arguments, as many as [`VERBS`] lists.
    pub arguments: Vec<String>,
}

/// Every verb with its arguments. `path` and `new` are paths, `h` is the number of an open file.
pub const VERBS: [(&str, &str); 49] = [
    ("open", "h path flags mode"),
    ("close", "h"),
    ("read", "h len"),
    ("pread", "h at len"),
    ("write", "h number len"),
    ("pwrite", "h number at len"),
    ("map-write", "path number at len"),
    ("map-read", "path at len"),
    ("truncate", "path len"),
    ("ftruncate", "h len"),
    ("fallocate", "h mode at len"),
    ("seek-data", "h at"),
    ("seek-hole", "h at"),
    ("seek-end", "h at"),
    ("copy-range", "h from other at len"),
    ("sendfile", "h from other len"),
    ("fsync", "h"),
    ("fdatasync", "h"),
    ("fsync-path", "path"),
    ("syncfs", "path"),
    ("fstat", "h"),
    ("fchmod", "h mode"),
    ("fchown", "h uid gid"),
    ("futimes", "h atime mtime"),
    ("fsetxattr", "h name value"),
    ("flock", "h kind"),
    ("lock", "h kind"),
    ("link-open", "h new"),
    ("link", "path new"),
    ("symlink", "text new"),
    ("unlink", "path"),
    ("mkdir", "path mode"),
    ("rmdir", "path"),
    ("rename", "path new flags"),
    ("mknod", "path kind mode"),
    ("chmod", "path mode"),
    ("chown", "path uid gid"),
    ("utimes", "path atime mtime"),
    ("setxattr", "path name value flags"),
    ("getxattr", "path name"),
    ("removexattr", "path name"),
    ("listxattr", "path"),
    ("setflags", "path flags"),
    ("access", "path mode"),
    ("list", "path"),
    ("list-creating", "path count"),
    ("readlink", "path"),
    ("cat", "path"),
    ("fill", "path number len"),
];

impl Call {
    /// A call of root.
    pub fn new(verb: &'static str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        Self { uid: 0, verb, arguments }
    }

    /// Paths that the call names.
    pub fn paths(&self) -> Vec<&str> {
        let shape = VERBS.iter().find(|(verb, _)| *verb == self.verb).map_or("", |row| row.1);
        let named = shape.split(' ').zip(&self.arguments);
        named
            .filter(|(kind, _)| matches!(*kind, "path" | "new"))
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.uid != 0 {
            write!(f, "as {} ", self.uid)?;
        }
        write!(f, "{}", self.verb)?;
        self.arguments.iter().try_for_each(|word| write!(f, " {word}"))
    }
}

impl FromStr for Call {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split(' ').peekable();
        let uid = match words.next_if_eq(&"as").and_then(|_| words.next()) {
            Some(word) => {
                word.parse().map_err(|_| format!("expected a user id, found {word:?}"))?
            }
            None => 0,
        };
        let verb = words.next().unwrap_or_default();
        let Some((verb, shape)) = VERBS.iter().find(|(own, _)| *own == verb) else {
            let verbs: Vec<_> = VERBS.iter().map(|(own, _)| *own).collect();
            return Err(format!("expected one of {}, found {verb:?}", verbs.join(", ")));
        };
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        if arguments.len() != shape.split(' ').count() || arguments.iter().any(String::is_empty) {
            return Err(format!("expected {verb} {shape}, found {line:?}"));
        }
        Ok(Self { uid, verb, arguments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_what_it_prints() {
        for line in ["open 1 d/a rdwr,creat 644", "as 1000 rename a d/b exchange", "close 3"] {
            assert_eq!(line.parse::<Call>().unwrap().to_string(), line);
        }
        let call: Call = "rename a d/b none".parse().unwrap();
        assert_eq!(call.paths(), ["a", "d/b"]);
        for line in ["", "close", "close  1", "burn a", "as x close 1", "rename a b"] {
            assert!(line.parse::<Call>().is_err(), "{line}");
        }
    }
}
