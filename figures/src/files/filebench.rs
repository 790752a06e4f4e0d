//! The `fileserver` and `varmail` mixes of Filebench, as generators: written from what its personalities say of themselves.
//!
//! | | files | mean file | append | threads | a turn of a thread |
//! |---|---|---|---|---|---|
//! | fileserver | 10,000 in folders of 20 | 128 KiB | 16 KiB | 50 | create and write whole; append; read whole; delete; stat |
//! | varmail | 1,000 in one folder | 16 KiB | 16 KiB | 16 | delete; create, append, fsync; read, append, fsync; read |
//!
//! Sizes of files follow a gamma distribution of mean shape 1.5, appends are uniform up to twice their mean. All threads of an instance
//! together are held to a rate of calls (opening and closing count for none). A file that somebody uses is chosen by nobody else.

use super::{Act, Bench, Counted, Image, Script, filler};
use crate::error::FigureError;
use nearhead_basics::Random;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::{FileKind, Ino, NewNode};
use nearhead_fs::{Answer, FsOperation};
use std::cell::RefCell;
use std::rc::Rc;

/// Largest file, in means; and after how many means a file is appended to no more.
const MEANS_MAX: u64 = 8;
/// Mean of an append.
const APPEND_BYTES: u64 = 16 << 10;

/// A personality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Personality {
    /// A server of home directories.
    Fileserver,
    /// A mail server that keeps a mail in a file.
    Varmail,
}

/// One call of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    WriteWhole,
    Append,
    Sync,
    ReadWhole,
    Delete,
    Stat,
}

/// A step; whether the next one goes on with its file; whether its latency is one of those that the paper tells.
type Planned = (Step, bool, bool);

impl Personality {
    /// As it is called in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fileserver => "fileserver",
            Self::Varmail => "varmail",
        }
    }

    fn file_bytes_mean(self) -> u64 {
        match self {
            Self::Fileserver => 128 << 10,
            Self::Varmail => 16 << 10,
        }
    }

    /// Files of an instance, folders for them, threads.
    fn sizes(self) -> (u32, u32, usize) {
        match self {
            Self::Fileserver => (10_000, 500, 50),
            Self::Varmail => (1000, 1, 16),
        }
    }

    /// What a thread does over and over. Latencies are told of writes for the one, of fsyncs for the other (Manylogs V-A.3).
    fn turn(self) -> &'static [Planned] {
        match self {
            Self::Fileserver => &[
                (Step::Create, true, false),
                (Step::WriteWhole, false, true),
                (Step::Append, false, true),
                (Step::ReadWhole, false, false),
                (Step::Delete, false, false),
                (Step::Stat, false, false),
            ],
            Self::Varmail => &[
                (Step::Delete, false, false),
                (Step::Create, true, false),
                (Step::Append, true, false),
                (Step::Sync, false, true),
                (Step::ReadWhole, true, false),
                (Step::Append, true, false),
                (Step::Sync, false, true),
                (Step::ReadWhole, false, false),
            ],
        }
    }
}

/// A file of an instance.
#[derive(Clone, Debug)]
struct Known {
    folder: Ino,
    name: Vec<u8>,
    ino: Ino,
    bytes: u64,
    /// The file system was told to keep it until it is forgotten.
    is_held: bool,
}

/// What the threads of an instance share: the files that nobody uses, and the rate.
pub(crate) struct FileSet {
    what: Personality,
    files: Vec<Known>,
    folders: Vec<Ino>,
    random: Random,
    names: u64,
    next_at: Nanos,
    gap: Nanos,
    data: Buffer,
}

impl FileSet {
    /// The files of instance `number` on an image, one in so many of the personality's; their folders put them all over the disk.
    pub(crate) fn prepare(
        image: &mut Image,
        what: Personality,
        number: u32,
        one_in: u32,
        calls_per_s: f64,
    ) -> Result<Self, FigureError> {
        let (files, folders, _) = what.sizes();
        let (files, folders) = (files / one_in, (folders / one_in).max(1));
        let folders: Vec<Ino> = (0..folders)
            .map(|nth| image.folder(&format!("{}{number}-{nth}", what.name())))
            .collect::<Result<_, _>>()?;
        let mut set = Self {
            what,
            files: Vec::new(),
            folders,
            random: Random::new(u64::from(number) + 100),
            names: 0,
            next_at: Nanos::ZERO,
            gap: Nanos((1e9 / calls_per_s) as u64),
            data: filler((what.file_bytes_mean() * MEANS_MAX) as usize),
        };
        for _ in 0..files {
            let bytes = set.new_bytes();
            let file = set.new_file();
            let ino = image.file(file.folder, &String::from_utf8_lossy(&file.name), bytes)?;
            set.files.push(Known { ino, bytes, ..file });
        }
        Ok(set)
    }

    /// Starts the instance's threads; latencies go to `counted`.
    pub(crate) fn start(mut self, bench: &mut Bench, counted: &Counted) {
        let (turn, threads) = (self.what.turn(), self.what.sizes().2);
        self.next_at = bench.now();
        let shared = Rc::new(RefCell::new(self));
        for _ in 0..threads {
            bench.add(Thread {
                shared: Rc::clone(&shared),
                counted: Rc::clone(counted),
                turn,
                at: 0,
                uses: None,
                to_forget: None,
                issued: Nanos::ZERO,
                state: State::Between,
            });
        }
    }

    fn new_file(&mut self) -> Known {
        self.names += 1;
        let folder = self.folders[self.random.below(self.folders.len() as u64) as usize];
        let name = format!("f{}", self.names).into_bytes();
        Known { folder, name, ino: Ino(0), bytes: 0, is_held: false }
    }

    fn any_file(&mut self) -> Option<Known> {
        let count = self.files.len() as u64;
        (count > 0).then(|| self.files.swap_remove(self.random.below(count) as usize))
    }

    /// Gamma: of shape 1 and of shape 2, one half each.
    fn new_bytes(&mut self) -> u64 {
        let unit = (self.random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        let other = (self.random.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        let second = if self.random.below(2) == 0 { 0.0 } else { -other.ln() };
        let mean = self.what.file_bytes_mean();
        (((second - unit.ln()) / 1.5 * mean as f64) as u64).clamp(512, mean * MEANS_MAX)
    }

    /// When the next call may go.
    fn take_turn(&mut self, now: Nanos) -> Nanos {
        let at = self.next_at.max(now);
        self.next_at = at + self.gap;
        at
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next call has no place in the rate yet.
    Between,
    /// It has.
    Due,
    UnderWay,
    Forgets,
}

struct Thread {
    shared: Rc<RefCell<FileSet>>,
    counted: Counted,
    turn: &'static [Planned],
    at: usize,
    uses: Option<Known>,
    to_forget: Option<Ino>,
    issued: Nanos,
    state: State,
}

impl Thread {
    fn note(&mut self, answer: Option<Answer>, now: Nanos) {
        let (step, goes_on, is_counted) = self.turn[self.at];
        self.at = (self.at + 1) % self.turn.len();
        if is_counted {
            self.counted.borrow_mut().book(&Ok(Vec::new()), 0, self.issued, now);
        }
        let Some(mut file) = self.uses.take() else { return };
        if let Some(Answer::Node(node)) = answer.filter(|_| step == Step::Create) {
            (file.ino, file.is_held) = (node.ino, true);
        }
        if goes_on {
            self.uses = Some(file);
            return;
        }
        self.to_forget = file.is_held.then_some(file.ino);
        file.is_held = false;
        if step != Step::Delete {
            self.shared.borrow_mut().files.push(file);
        }
    }

    /// The next call of the turn; none if no file is free.
    fn call(&mut self) -> Option<FsOperation> {
        let step = self.turn[self.at].0;
        let mut shared = self.shared.borrow_mut();
        let mut file = match self.uses.take() {
            Some(file) => file,
            None if step == Step::Create => shared.new_file(),
            None => shared.any_file()?,
        };
        let longest = shared.what.file_bytes_mean() * MEANS_MAX;
        let operation = match step {
            Step::Create => {
                let kind = FileKind::Regular;
                let new = NewNode { kind, mode: 0o644, umask: 0, device: 0, target: None };
                FsOperation::Make { parent: file.folder, name: file.name.clone(), new }
            }
            Step::WriteWhole => {
                let len = shared.new_bytes();
                let data = shared.data.slice(0..len as usize);
                file.bytes = len;
                FsOperation::Write { ino: file.ino, offset: 0, data, is_durable: false }
            }
            Step::Append => {
                let len = 1 + shared.random.below(2 * APPEND_BYTES - 1);
                let offset = if file.bytes + len > longest { 0 } else { file.bytes };
                file.bytes = file.bytes.max(offset + len);
                let data = shared.data.slice(0..len as usize);
                FsOperation::Write { ino: file.ino, offset, data, is_durable: false }
            }
            Step::Sync => FsOperation::Sync { ino: file.ino, data_only: false },
            Step::ReadWhole => {
                FsOperation::Read { ino: file.ino, offset: 0, len: file.bytes as u32 }
            }
            Step::Delete => FsOperation::Unlink { parent: file.folder, name: file.name.clone() },
            Step::Stat => FsOperation::Attributes { ino: file.ino },
        };
        drop(shared);
        self.uses = Some(file);
        Some(operation)
    }
}

impl Script for Thread {
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act {
        if self.state == State::UnderWay {
            self.note(answer, now);
            self.state = State::Between;
        }
        if let Some(ino) = self.to_forget.take() {
            self.state = State::Forgets;
            return Act::Do(FsOperation::Forget { ino, count: 1 });
        }
        if self.state != State::Due {
            self.state = State::Due;
            let at = self.shared.borrow_mut().take_turn(now);
            if at > now {
                return Act::Wait(at);
            }
        }
        let Some(operation) = self.call() else {
            self.state = State::Between;
            return Act::Wait(now);
        };
        (self.state, self.issued) = (State::UnderWay, now);
        Act::Do(operation)
    }
}
