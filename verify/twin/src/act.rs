//! Acts: what a script does to both sides, and the faults that it does to the subject.
//!
//! An act has a text of one line, which `--script FILE` reads and a failing run prints. An act names
//! everything that it needs, so that a script stays the same when others are removed from it.

use std::fmt;
use std::str::FromStr;

/// How bytes reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `O_DIRECT`: the device itself answers.
    Direct,
    /// The page cache answers; a flush brings it to the device.
    Buffered,
}

/// One operation on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is done.
    pub what: What,
    /// First byte.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Operation of a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Writes the content that this number names.
    Write(Way, u64),
    /// Reads, and the bytes are compared.
    Read(Way),
    /// `BLKZEROOUT`.
    Zero,
    /// `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    Punch,
    /// `BLKDISCARD`.
    Discard,
    /// `fsync`; its range has no meaning.
    Flush,
}

/// Processes of an attached volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The process that serves the volume.
    Worker,
    /// The process that holds the connection to the kernel.
    Supervisor,
    /// The supervisor first, then the worker.
    Both,
}

/// Program that an upgrade names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// A copy of the program itself.
    Good,
    /// A program that ends at once.
    Ends,
    /// A file that is no program.
    NoProgram,
}

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// One operation.
    One(Part),
    /// Several at once, each on a thread; with a kill after they began.
    Together(Vec<Part>, Option<Who>),
    /// Another process reads the whole device.
    Observe,
    /// Detaches in order and attaches again.
    Reattach,
    /// Kills with nothing outstanding.
    Kill(Who),
    /// Kills both and then detaches before attaching again.
    KillBothThenDetach,
    /// Upgrades the attached volume.
    Upgrade(Binary),
    /// Kills the worker while the image is at another path.
    ImageAway,
    /// Kills the worker while another volume is at the image's path.
    ImageSwapped,
    /// Makes the device larger by this many bytes.
    Grow(u64),
    /// The medium loses its power and what was not flushed, with this seed.
    PowerCut(u64),
    /// Detaches, checks, repairs and attaches.
    Repair,
    /// Makes a file system, uses, trims and checks it, and discards the device.
    FileSystem(FileSystem),
    /// Makes swap space, switches it on and off.
    Swap,
}

const WHATS: [(&str, What); 7] = [
    ("read-direct", What::Read(Way::Direct)),
    ("read-buffered", What::Read(Way::Buffered)),
    ("zero", What::Zero),
    ("punch", What::Punch),
    ("discard", What::Discard),
    ("flush", What::Flush),
    // Last: never printed, as a write carries its number.
    ("write-none", What::Write(Way::Direct, 0)),
];

impl Who {
    /// Every value with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("worker", Self::Worker), ("supervisor", Self::Supervisor), ("both", Self::Both)];
}

impl Binary {
    const ALL: [(&'static str, Self); 3] =
        [("good", Self::Good), ("ends", Self::Ends), ("no-program", Self::NoProgram)];
}

impl FileSystem {
    /// Every value with its word.
    pub const ALL: [(&'static str, Self); 3] =
        [("ext4", Self::Ext4), ("xfs", Self::Xfs), ("btrfs", Self::Btrfs)];
}

/// The word of `value` in `table`.
pub fn word_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, own)| own == value).map_or("?", |(word, _)| word)
}

fn value_of<T: Copy>(table: &[(&'static str, T)], word: &str) -> Result<T, String> {
    let found = table.iter().find(|(own, _)| *own == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<_> = table.iter().map(|(word, _)| *word).collect();
        format!("expected one of {}, found {word:?}", words.join(", "))
    })
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Write(Way::Direct, number) => write!(f, "write-direct#{number}")?,
            What::Write(Way::Buffered, number) => write!(f, "write-buffered#{number}")?,
            other => f.write_str(word_of(&WHATS, &other))?,
        }
        write!(f, "@{}+{}", self.at, self.len)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected OPERATION[#NUMBER]@OFFSET+LENGTH, found {text:?}");
        let (what, range) = text.split_once('@').ok_or_else(wrong)?;
        let (at, len) = range.split_once('+').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let what = match what.split_once('#') {
            Some(("write-direct", count)) => What::Write(Way::Direct, number(count)?),
            Some(("write-buffered", count)) => What::Write(Way::Buffered, number(count)?),
            Some(_) => return Err(wrong()),
            None => value_of(&WHATS[..WHATS.len() - 1], what)?,
        };
        Ok(Self { what, at: number(at)?, len: number(len)? })
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(part) => part.fmt(f),
            Self::Together(parts, kill) => {
                f.write_str("together")?;
                if let Some(who) = kill {
                    write!(f, " kill={}", word_of(&Who::ALL, who))?;
                }
                parts.iter().try_for_each(|part| write!(f, " {part}"))
            }
            Self::Observe => f.write_str("observe"),
            Self::Reattach => f.write_str("reattach"),
            Self::Kill(who) => write!(f, "kill {}", word_of(&Who::ALL, who)),
            Self::KillBothThenDetach => f.write_str("kill-both-then-detach"),
            Self::Upgrade(binary) => write!(f, "upgrade {}", word_of(&Binary::ALL, binary)),
            Self::ImageAway => f.write_str("image-away"),
            Self::ImageSwapped => f.write_str("image-swapped"),
            Self::Grow(bytes) => write!(f, "grow {bytes}"),
            Self::PowerCut(seed) => write!(f, "power-cut {seed}"),
            Self::Repair => f.write_str("repair"),
            Self::FileSystem(kind) => {
                write!(f, "file-system {}", word_of(&FileSystem::ALL, kind))
            }
            Self::Swap => f.write_str("swap"),
        }
    }
}

impl FromStr for Act {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number =
            || rest.parse().map_err(|_| format!("{word}: expected a number, found {rest:?}"));
        Ok(match word {
            "together" => {
                let mut words = rest.split_whitespace().peekable();
                let kill = words.peek().and_then(|word| word.strip_prefix("kill="));
                let kill = kill.map(|who| value_of(&Who::ALL, who)).transpose()?;
                let parts = words.skip(usize::from(kill.is_some()));
                Self::Together(parts.map(str::parse).collect::<Result<_, _>>()?, kill)
            }
            "observe" => Self::Observe,
            "reattach" => Self::Reattach,
            "kill" => Self::Kill(value_of(&Who::ALL, rest)?),
            "kill-both-then-detach" => Self::KillBothThenDetach,
            "upgrade" => Self::Upgrade(value_of(&Binary::ALL, rest)?),
            "image-away" => Self::ImageAway,
            "image-swapped" => Self::ImageSwapped,
            "grow" => Self::Grow(number()?),
            "power-cut" => Self::PowerCut(number()?),
            "repair" => Self::Repair,
            "file-system" => Self::FileSystem(value_of(&FileSystem::ALL, rest)?),
            "swap" => Self::Swap,
            _ => Self::One(line.parse()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_reads_what_it_prints() {
        for line in [
            "write-direct#7@4096+8192",
            "read-buffered@1+2",
            "flush@0+0",
            "together write-direct#1@0+4096 discard@4096+512",
            "together kill=both write-buffered#1@0+4096",
            "kill supervisor",
            "kill-both-then-detach",
            "upgrade no-program",
            "power-cut 9",
            "grow 4096",
            "file-system xfs",
            "swap",
        ] {
            assert_eq!(line.parse::<Act>().unwrap().to_string(), line);
        }
        for line in ["", "write-direct@0+1", "write-none@0+1", "kill nobody", "grow x", "read@1"] {
            assert!(line.parse::<Act>().is_err(), "{line}");
        }
    }
}
