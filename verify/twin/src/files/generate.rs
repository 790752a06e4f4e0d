//! A script of acts on files, generated from a seed.
//!
//! Few names and few open files, so that acts meet each other. The same seed gives the same script.

use super::act::FilesAct;
use super::call::Call;
use nearhead_basics::SplitMix;

/// Names of nodes; the folders come first.
const NAMES: [&str; 14] =
    ["d", "e", "d/f", "a", "b", "c", "d/a", "d/b", "e/a", "e/b", "d/f/a", "d/f/b", "d/c", "e/c"];
const USERS: [u32; 8] = [0, 0, 0, 0, 0, 0, 1000, 1001];
const TIMES: [&str; 8] = [
    "now",
    "omit",
    "-1.0",
    "-86400.250000000",
    "1000000000.123456789",
    "4294967296.5",
    "0.999999999",
    "2147483648.1",
];
const OPENS: [&str; 10] = [
    "rdwr,creat",
    "rdwr",
    "rdonly",
    "wronly,append",
    "rdwr,creat,excl",
    "wronly,trunc",
    "wronly,creat,trunc",
    "rdwr,creat,sync",
    "rdwr,dsync",
    "rdonly,noatime",
];
const ATTRIBUTES: [&str; 5] =
    ["user.a", "user.b", "trusted.overlay.opaque", "security.label", "user.long"];
const MODES: [&str; 7] = ["644", "600", "755", "0", "4755", "2775", "1777"];

/// Kinds of acts that a script may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Kills of the worker, and of all processes of a mount.
    Kill,
    /// Power cuts, which take a medium that can lose its power.
    Power,
    /// Times of access, by reads and listings.
    Reads,
    /// Flags of `chattr`.
    Flags,
    /// Mappings.
    Mappings,
    /// Files without a name, and whiteouts.
    Overlay,
    /// Changes of owner that name neither owner nor group.
    EmptyChown,
}

/// Kinds of acts that show a fault today, each with a script that shows it. Scripts leave them out; a row that shows none any
/// more fails its test.
///
/// FUSE sends `chown(path, -1, -1)` as a change of nothing, as it does before some writes, and it moves no time of change.
pub const NOT_YET: [(Kind, &str); 1] = [(Kind::EmptyChown, "fill a 1 10\nchown a - -")];

/// The script of `count` acts that `seed` names, without the kinds in `without`.
pub fn generate(seed: u64, count: usize, without: &[Kind]) -> Vec<FilesAct> {
    let mut draw = Draw { random: SplitMix::new(seed), number: 0 };
    let mut acts: Vec<FilesAct> =
        ["d", "e", "d/f"].map(|path| FilesAct::Call(0, Call::new("mkdir", &[path, "777"]))).into();
    while acts.len() < count {
        let (act, kind) = draw.act();
        let cuts_power = act == FilesAct::Kill && acts.len().is_multiple_of(2);
        if cuts_power && !without.contains(&Kind::Power) {
            acts.push(FilesAct::PowerCut(draw.number));
        } else if kind.is_none_or(|kind| !without.contains(&kind) && !is_not_yet(kind)) {
            acts.push(act);
        }
    }
    acts.push(FilesAct::Look);
    acts
}

fn is_not_yet(kind: Kind) -> bool {
    NOT_YET.iter().any(|row| row.0 == kind)
}

struct Draw {
    random: SplitMix,
    number: u64,
}

impl Draw {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    /// A place or a length, often at a block's edge.
    fn bytes(&mut self) -> String {
        let base = self.pick(&[0, 1, 100, 512, 4096, 5000, 8192, 65536, 200_000]);
        let more = self.pick(&[0, 0, 1, 4095, 4096, 10_000]);
        (base + more).to_string()
    }

    fn act(&mut self) -> (FilesAct, Option<Kind>) {
        match self.random.below(100) {
            0 | 1 => (FilesAct::Look, None),
            2 => (FilesAct::DropCaches, None),
            3 => (FilesAct::Remount, None),
            4 => (FilesAct::Kill, Some(Kind::Kill)),
            5 => (FilesAct::KillWorker, Some(Kind::Kill)),
            _ => {
                let (verb, words, kind) = self.call();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let mut call = Call::new(verb, &words);
                call.uid = self.pick(&USERS);
                let by = usize::from(self.random.below(6) == 0);
                (FilesAct::Call(by, call), kind)
            }
        }
    }

    fn call(&mut self) -> (&'static str, Vec<String>, Option<Kind>) {
        let own = str::to_owned;
        let (path, new) = (own(self.pick(&NAMES)), own(self.pick(&NAMES)));
        let handle = self.random.below(3).to_string();
        let other = self.random.below(3).to_string();
        let (at, len) = (self.bytes(), self.bytes());
        self.number += 1;
        let number = self.number.to_string();
        let mode = own(self.pick(&MODES));
        let name = own(self.pick(&ATTRIBUTES));
        match self.random.below(40) {
            0..4 => ("open", vec![handle, path, own(self.pick(&OPENS)), mode], None),
            4 => ("open", vec![handle, own("d"), own("rdwr,tmpfile"), mode], Some(Kind::Overlay)),
            5 => ("close", vec![handle], None),
            6..9 => ("pwrite", vec![handle, number, at, len], None),
            9 => ("write", vec![handle, number, len], None),
            10 => ("pread", vec![handle, at, len], Some(Kind::Reads)),
            11 => ("ftruncate", vec![handle, len], None),
            12 => {
                let mode = self.pick(&["0", "1", "3", "16", "17"]);
                ("fallocate", vec![handle, own(mode), at, len], None)
            }
            13 => (self.pick(&["fsync", "fdatasync"]), vec![handle], None),
            14 => ("fsync-path", vec![path], None),
            15..18 => ("fill", vec![path, number, len], None),
            18 => ("cat", vec![path], Some(Kind::Reads)),
            19 => ("truncate", vec![path, len], None),
            20 => ("copy-range", vec![handle, at, other, self.bytes(), len], Some(Kind::Reads)),
            21 => ("sendfile", vec![handle, at, other, len], Some(Kind::Reads)),
            22..24 => ("link", vec![path, new], None),
            24 => ("symlink", vec![path, new], None),
            25 => ("unlink", vec![path], None),
            26 => ("mkdir", vec![path, mode], None),
            27 => ("rmdir", vec![path], None),
            28..31 => {
                let flags = self.pick(&["none", "none", "exchange", "noreplace", "both"]);
                ("rename", vec![path, new, own(flags)], None)
            }
            31 => self.rarer(path, new, handle, number, at, len),
            32 => ("mknod", vec![path, own(self.pick(&["fifo", "socket", "char"])), mode], None),
            33 => ("chmod", vec![path, mode], None),
            34 => {
                let ids = ["0", "1000", "1001", "-"];
                let owner = [self.pick(&ids), self.pick(&ids)];
                let kind = (owner == ["-", "-"]).then_some(Kind::EmptyChown);
                ("chown", vec![path, own(owner[0]), own(owner[1])], kind)
            }
            35 | 36 => ("utimes", vec![path, own(self.pick(&TIMES)), own(self.pick(&TIMES))], None),
            37 => {
                let value = own(self.pick(&["x", "*100", "*3000", "*70000"]));
                ("setxattr", vec![path, name, value, own(self.pick(&["0", "0", "1", "2"]))], None)
            }
            38 => (self.pick(&["removexattr", "getxattr"]), vec![path, name], None),
            _ => {
                let flags = self.pick(&["-", "-", "-", "A", "d", "i", "a", "S"]);
                ("setflags", vec![path, own(flags)], Some(Kind::Flags))
            }
        }
    }

    fn rarer(
        &mut self,
        path: String,
        new: String,
        handle: String,
        number: String,
        at: String,
        len: String,
    ) -> (&'static str, Vec<String>, Option<Kind>) {
        let own = str::to_owned;
        match self.random.below(10) {
            0 => ("map-write", vec![path, number, at, len], Some(Kind::Mappings)),
            1 => ("map-read", vec![path, at, len], Some(Kind::Mappings)),
            2 => ("rename", vec![path, new, own("whiteout")], Some(Kind::Overlay)),
            3 => ("link-open", vec![handle, new], Some(Kind::Overlay)),
            4 => ("list", vec![path], Some(Kind::Reads)),
            5 => ("fstat", vec![handle], None),
            6 => ("flock", vec![handle, own(self.pick(&["shared", "exclusive", "none"]))], None),
            7 => ("lock", vec![handle, own(self.pick(&["shared", "exclusive", "none"]))], None),
            8 => ("seek-end", vec![handle, own("0")], None),
            _ => ("access", vec![path, own(self.pick(&["4", "2", "1", "7"]))], None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_script_of_files() {
        let acts = generate(7, 1000, &[]);
        assert_eq!(acts, generate(7, 1000, &[]));
        for act in acts {
            assert_eq!(act.to_string().parse::<FilesAct>().unwrap(), act);
        }
    }
}
