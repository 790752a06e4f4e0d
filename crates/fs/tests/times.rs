//! Times of files: each is that of the act that POSIX and ext4 let move it, whatever a commit does in between.
//!
//! A small model knows which act moves which time. It is compared live, after everything is durable, after a mount and after a crash.
//! A failing case prints its seed: `NEARHEAD_FS_SEED=N cargo test -p nearhead-fs --test times`.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_ext4::{
    AttributeChange, Attributes, FileKind, Ino, ROOT, Rename, Timestamp, XattrSet,
};
use nearhead_fs::{Answer, DURABILITY_ONLY_FLAG, FsOperation, RoomChange};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use support::{Client, Ram, SIZE, assert_clean, buffer, make, mode_of, pattern};

/// Files of one case, each with a second name now and then.
const FILES: usize = 3;
/// Acts of one case.
const ACTS: u64 = 40;

/// Times of one node: of access, of its content, of the node itself, of its birth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    accessed: Timestamp,
    modified: Timestamp,
    changed: Timestamp,
    created: Timestamp,
}

impl Times {
    fn of(found: &Attributes) -> Self {
        let Attributes { accessed, modified, changed, created, .. } = *found;
        Self { accessed, modified, changed, created }
    }
}

/// A client with the times that its nodes should have.
struct Case {
    client: Client,
    random: Random,
    files: Vec<Ino>,
    names: BTreeMap<String, Ino>,
    times: BTreeMap<Ino, Times>,
    /// The acts until now, with the command that repeats them.
    story: String,
}

impl Case {
    fn new(seed: u64, mode: &str) -> Option<Self> {
        let client = Client::fresh(mode)?;
        let story = format!(
            "mode {mode}: NEARHEAD_FS_SEED={seed} cargo test -p nearhead-fs --test times\n"
        );
        let (names, times) = Default::default();
        let random = Random::new(seed);
        let mut case = Self { client, random, files: Vec::new(), names, times, story };
        let root = case.attributes(ROOT);
        case.times.insert(ROOT, Times::of(&root));
        for number in 0..FILES {
            case.create(&format!("f{number}"));
        }
        Some(case)
    }

    fn attributes(&mut self, ino: Ino) -> Attributes {
        match self.client.ask(FsOperation::Attributes { ino }) {
            Ok(Answer::Node(node)) => node,
            other => panic!("{}: attributes of {ino:?}: {other:?}", self.story),
        }
    }

    /// Asks for an act; gives the time at which it was asked for.
    fn act(&mut self, operation: FsOperation) -> (Timestamp, Answer) {
        writeln!(self.story, "  {operation:.60?}").unwrap();
        let answer = self.client.ask(operation);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", self.story));
        (self.client.caller().now, answer)
    }

    fn note(&mut self, ino: Ino, change: impl FnOnce(&mut Times)) {
        change(self.times.get_mut(&ino).unwrap());
    }

    fn note_directory(&mut self, now: Timestamp) {
        self.note(ROOT, |times| (times.modified, times.changed) = (now, now));
    }

    fn create(&mut self, name: &str) {
        let (now, answer) = self.act(make(ROOT, name, FileKind::Regular));
        let Answer::Node(node) = answer else { panic!("expected a node") };
        let (accessed, modified, changed, created) = (now, now, now, now);
        self.times.insert(node.ino, Times { accessed, modified, changed, created });
        self.files.push(node.ino);
        self.names.insert(name.to_owned(), node.ino);
        self.note_directory(now);
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A moment that ext4 stores: before 1970, before and after 2038.
    fn moment(&mut self) -> Timestamp {
        let seconds = [-2_000_000_000, -1, 0, 1_000_000_000, 0x8000_0000, 0x1_2000_0000];
        let seconds = seconds[self.below(6) as usize] + self.below(1000) as i64;
        Timestamp { seconds, nanoseconds: self.below(1_000_000_000) as u32 }
    }

    fn step(&mut self) {
        let ino = self.files[self.random.below(FILES as u64) as usize];
        match self.below(16) {
            0..=3 => self.write(ino),
            4 | 5 => self.set_times(ino),
            6 => {
                let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
                self.change_node(FsOperation::SetAttributes { ino, change, size: None }, ino);
            }
            7 => {
                let change = AttributeChange { uid: Some(5), ..AttributeChange::default() };
                self.change_node(FsOperation::SetAttributes { ino, change, size: None }, ino);
            }
            8 => self.xattr(ino),
            9 => self.flags(ino),
            10 => self.link_or_unlink(ino),
            11 => self.rename(ino),
            12 => self.cut(ino),
            13 => {
                let change = [RoomChange::Reserve, RoomChange::Punch, RoomChange::ZeroBeyond];
                let change = change[self.below(3) as usize];
                let operation = FsOperation::ChangeRoom { ino, offset: 100, len: 50_000, change };
                self.change_content(operation, ino);
            }
            14 => self.sync(ino),
            _ => self.pass_time(),
        }
    }

    fn change_node(&mut self, operation: FsOperation, ino: Ino) {
        let (now, _) = self.act(operation);
        self.note(ino, |times| times.changed = now);
    }

    fn change_content(&mut self, operation: FsOperation, ino: Ino) {
        let (now, _) = self.act(operation);
        self.note(ino, |times| (times.modified, times.changed) = (now, now));
    }

    fn write(&mut self, ino: Ino) {
        let offset = self.below(300_000);
        let len = [1, 5000, 300_000, 1_200_000][self.below(4) as usize];
        let is_durable = self.below(6) == 0;
        let data = buffer(&pattern(offset, len));
        self.change_content(FsOperation::Write { ino, offset, data, is_durable }, ino);
    }

    fn set_times(&mut self, ino: Ino) {
        let (accessed, modified) = (self.moment(), self.moment());
        let which = self.below(3);
        let accessed = (which != 0).then_some(accessed);
        let modified = (which != 1).then_some(modified);
        let change = AttributeChange { accessed, modified, ..AttributeChange::default() };
        self.change_node(FsOperation::SetAttributes { ino, change, size: None }, ino);
        self.note(ino, |times| {
            times.accessed = accessed.unwrap_or(times.accessed);
            times.modified = modified.unwrap_or(times.modified);
        });
    }

    fn xattr(&mut self, ino: Ino) {
        let (name, value) = (b"user.a".to_vec(), vec![7; self.below(300) as usize]);
        self.change_node(FsOperation::SetXattr { ino, name, value, how: XattrSet::Any }, ino);
        if self.below(2) == 0 {
            let name = b"user.a".to_vec();
            self.change_node(FsOperation::RemoveXattr { ino, name }, ino);
        }
    }

    fn flags(&mut self, ino: Ino) {
        // No dump, then durability-only, which is an attribute.
        for flag in [0x40, DURABILITY_ONLY_FLAG] {
            let flags = [0, flag][self.below(2) as usize];
            self.change_node(FsOperation::SetFlags { ino, flags, mask: flag }, ino);
        }
    }

    fn link_or_unlink(&mut self, ino: Ino) {
        let second = format!("second-{}", ino.0);
        let name = second.clone().into_bytes();
        let operation = if self.names.remove(&second).is_some() {
            FsOperation::Unlink { parent: ROOT, name }
        } else {
            self.names.insert(second, ino);
            FsOperation::Link { ino, parent: ROOT, name }
        };
        let (now, _) = self.act(operation);
        self.note(ino, |times| times.changed = now);
        self.note_directory(now);
    }

    fn rename(&mut self, ino: Ino) {
        let name = self.names.iter().find(|(_, other)| **other == ino).unwrap().0.clone();
        let second = self.names.iter().rfind(|(_, other)| **other == ino).unwrap().0.clone();
        let is_nothing = self.below(2) == 0 && second != name;
        let new_name = if is_nothing { second } else { format!("moved-{}", self.below(1 << 40)) };
        let operation = FsOperation::Rename {
            from: ROOT,
            name: name.clone().into_bytes(),
            to: ROOT,
            new_name: new_name.clone().into_bytes(),
            how: Rename::Replace,
        };
        let (now, _) = self.act(operation);
        // One name of a node over another one of it changes nothing.
        if !is_nothing {
            self.names.remove(&name);
            self.names.insert(new_name, ino);
            self.note(ino, |times| times.changed = now);
            self.note_directory(now);
        }
    }

    fn cut(&mut self, ino: Ino) {
        let size = Some([0, 777, 400_000][self.below(3) as usize]);
        let change = AttributeChange::default();
        self.change_content(FsOperation::SetAttributes { ino, change, size }, ino);
    }

    fn sync(&mut self, ino: Ino) {
        match self.below(4) {
            0 => drop(self.act(FsOperation::SyncAll)),
            which => drop(self.act(FsOperation::Sync { ino, data_only: which == 1 })),
        }
    }

    fn pass_time(&mut self) {
        self.client.now = Nanos(self.client.now.0 + 3_000_000_000);
        self.client.drive();
    }

    fn check(&mut self, when: &str) {
        for (ino, expected) in self.times.clone() {
            let found = Times::of(&self.attributes(ino));
            assert_eq!(found, expected, "{}{when}, inode {}", self.story, ino.0);
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("NEARHEAD_FS_SEED").ok().and_then(|text| text.parse().ok());
    given.map_or(1..29, |seed: u64| seed..seed + 1)
}

#[test]
fn each_time_is_that_of_the_act_that_moves_it() {
    for seed in seeds() {
        let mode = mode_of(seed);
        let Some(mut case) = Case::new(seed, mode) else { return };
        for _ in 0..ACTS {
            case.step();
            case.check("live");
        }
        case.act(FsOperation::SyncAll);
        case.check("after a sync");
        let left = case.client.mounted.service().after_crash(&mut case.random);
        case.client = Client::of(Ram::of(SIZE, left), mode);
        case.check("after a crash");
        let blocks = case.client.unmount();
        assert_clean(SIZE, &blocks, &case.story);
    }
}

#[test]
fn a_set_time_outlives_the_commit_that_grows_the_file() {
    for mode in nearhead_journal::MODES {
        let mode = mode.name();
        let Some(mut case) = Case::new(1, mode) else { return };
        let ino = case.files[0];
        for at in 0..4 {
            let data = buffer(&pattern(at, 1 << 20));
            let write = FsOperation::Write { ino, offset: at << 20, data, is_durable: false };
            case.change_content(write, ino);
        }
        case.set_times(ino);
        case.pass_time();
        case.check("after a commit");
        case.act(FsOperation::Sync { ino, data_only: false });
        let left = case.client.mounted.service().after_crash(&mut case.random);
        case.client = Client::of(Ram::of(SIZE, left), mode);
        let found = Times::of(&case.attributes(ino));
        assert_eq!(found, case.times[&ino], "{mode}");
    }
}
