//! A file system whose process ends at any request shows the same through the next process: names, contents, times, attributes, files
//! without a name, and the answers that did not arrive.
//!
//! Each life is lived twice: one process to the end, and one that is killed again and again. A kill loses of the volume all that was not
//! flushed, which is more than the end of a process takes. A life is repeated by its seed:
//! `NEARHEAD_FS_SEED=N cargo test -p nearhead-fs --test survival`; `NEARHEAD_FS_LIVES=N` tries more.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_disk::{Nanos, Payload};
use nearhead_ext4::{
    AttributeChange, FileKind, Ino, NewNode, Options, ROOT, Rename, Timestamp, XattrSet,
};
use nearhead_fs::{
    Answer, Batch, FsError, FsOperation, FsOptions, FsRequest, Mounted, Phase, RoomChange,
    SurvivalLog, Survived, replay,
};
use nearhead_service::{Operation, Request, RequestId, Service};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use support::seen::{same, see, tree_of};
use support::{Blocks, Client, Ram, SIZE, buffer, empty, make, mode_of, pattern};

const NAMES: u64 = 5;
const FILE_BYTES_MAX: u64 = 700_000;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl SurvivalLog for Log {
    fn append(&mut self, batch: &Batch) -> Result<(), String> {
        self.0.lock().unwrap().push_back(batch.parts().collect::<Vec<_>>().concat());
        Ok(())
    }

    fn drop_oldest(&mut self, batches: usize) {
        self.0.lock().unwrap().drain(..batches);
    }

    fn give_up(&mut self, why: &str) {
        panic!("{why}");
    }
}

impl Log {
    fn survived(&self) -> Survived {
        let mut survived = Survived::default();
        for batch in self.0.lock().unwrap().iter() {
            survived.add(batch).unwrap();
        }
        survived
    }

    fn bytes(&self) -> usize {
        self.0.lock().unwrap().iter().map(Vec::len).sum()
    }
}

fn options(mode: &str) -> FsOptions {
    FsOptions {
        has_durable_names: false,
        ext4: Options { read_only: false, cache_blocks_max: 4096, seed: 7 },
        durable: Vec::new(),
        mode: nearhead_journal::mode_named(mode).unwrap(),
        small_run_bytes_max: 64 << 10,
        record_bytes_max: 1 << 20,
        commit_after: nearhead_fs::COMMIT_AFTER,
        mounted_at: Timestamp { seconds: 1_800_000_000, nanoseconds: 0 },
    }
}

fn ask(ram: &mut Ram, operation: Operation) -> Result<Vec<Payload>, String> {
    ram.submit(Request { id: RequestId(1), operation }, Nanos::ZERO);
    ram.drive(Nanos::ZERO);
    ram.poll_reply().unwrap().result.map_err(|error| error.detail)
}

/// The next process over what the one before left.
fn next_process(blocks: Blocks, mut log: Log, mode: &str, next: u64, now: Nanos) -> Client {
    let mut ram = Ram::of(SIZE, blocks);
    let mut survived = log.survived();
    let at = options(mode).mounted_at;
    replay(&mut survived, SIZE, at, &mut log, &mut |operation| ask(&mut ram, operation)).unwrap();
    let mounted = Mounted::surviving(ram, options(mode), Box::new(log), survived);
    let mut client = Client::around(mounted, next, now);
    client.drive();
    assert_eq!(client.mounted.phase(), &Phase::Serving);
    client
}

/// A node that is held, in both worlds.
#[derive(Clone, Copy, Debug)]
struct Held {
    plain: Ino,
    killed: Ino,
    kind: FileKind,
}

struct Life {
    plain: Client,
    killed: Client,
    log: Log,
    random: Random,
    held: Vec<Held>,
    mode: &'static str,
    context: String,
    kills: u32,
}

impl Life {
    fn of(seed: u64) -> Option<Self> {
        let mode = mode_of(seed);
        let (log, blocks) = (Log::default(), empty(SIZE)?);
        let plain = Client::of(Ram::of(SIZE, blocks.clone()), mode);
        let killed = next_process(blocks, log.clone(), mode, 0, plain.now);
        let context = format!(
            "mode {mode}: NEARHEAD_FS_SEED={seed} cargo test -p nearhead-fs --test survival"
        );
        let random = Random::new(seed);
        Some(Self { plain, killed, log, random, held: Vec::new(), mode, context, kills: 0 })
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Sends a request in both worlds. Kills the process that does not answer, and asks the next one again.
    fn both(
        &mut self,
        operation: FsOperation,
        killed: FsOperation,
    ) -> (Result<Answer, FsError>, Result<Answer, FsError>) {
        self.killed.now = self.plain.now;
        let context = format!("{operation:?}");
        let plain = self.plain.ask(operation);
        let id = self.killed.send(killed.clone());
        let request = FsRequest { id, caller: self.killed.caller(), operation: killed };
        let found = self.reply_to(id).unwrap_or_else(|| {
            self.kill();
            self.ask_again(request)
        });
        let errno =
            |result: &Result<Answer, FsError>| result.as_ref().err().map(|error| error.errno);
        assert_eq!(
            errno(&plain),
            errno(&found),
            "{}: {context}: {plain:?} {found:?}",
            self.context
        );
        (plain, found)
    }

    /// Sends a request in both worlds that makes no node.
    fn act(&mut self, operation: FsOperation, killed: FsOperation) {
        drop(self.both(operation, killed));
    }

    fn reply_to(&mut self, id: u64) -> Option<Result<Answer, FsError>> {
        while let Some(reply) = self.killed.mounted.poll_reply() {
            if reply.id == id {
                // An answer that arrives is not kept; some arrive late.
                if self.random.below(4) > 0 {
                    self.killed.mounted.note_answered(&[id]);
                }
                return Some(reply.result);
            }
        }
        None
    }

    fn ask_again(&mut self, request: FsRequest) -> Result<Answer, FsError> {
        let id = request.id;
        self.killed.mounted.submit(request);
        self.killed.drive();
        self.reply_to(id).unwrap_or_else(|| panic!("{}: no answer after a kill", self.context))
    }

    fn kill(&mut self) {
        self.kills += 1;
        let blocks = self.killed.mounted.service().after_crash(&mut self.random);
        let (next, now) = (self.killed.newest(), self.killed.now);
        self.killed = next_process(blocks, self.log.clone(), self.mode, next, now);
    }

    fn any_held(&mut self, kind: Option<FileKind>) -> Option<Held> {
        let fits = |held: &&Held| kind.is_none_or(|kind| held.kind == kind);
        let all: Vec<Held> = self.held.iter().filter(fits).copied().collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len() as u64) as usize])
    }

    fn any_folder(&mut self) -> Held {
        let root = Held { plain: ROOT, killed: ROOT, kind: FileKind::Directory };
        if self.below(2) == 0 {
            return root;
        }
        self.any_held(Some(FileKind::Directory)).unwrap_or(root)
    }

    fn any_name(&mut self) -> Vec<u8> {
        format!("n{}", self.below(NAMES)).into_bytes()
    }

    /// The node of an answer is held.
    fn hold(&mut self, answers: &(Result<Answer, FsError>, Result<Answer, FsError>)) {
        if let (Ok(Answer::Node(plain)), Ok(Answer::Node(killed))) = answers {
            let kind = plain.kind;
            self.held.push(Held { plain: plain.ino, killed: killed.ino, kind });
        }
    }

    fn step(&mut self) {
        if self.below(7) == 0 {
            self.killed.mounted.service_mut().requests_left = self.random.below(6);
        }
        let hangs = self.below(5) == 0;
        self.killed.mounted.service_mut().holds_bulk = hangs;
        match self.below(24) {
            0..=3 => self.make(),
            4..=8 => self.write(),
            9 => self.cut(),
            10 | 11 => self.rename(),
            12 | 13 => self.unlink(),
            14 => self.change_room(),
            15 => self.set_xattr(),
            16 => self.set_attributes(),
            17 => self.look_up(),
            18 => self.make_nameless(),
            19 => self.link(),
            20 => self.forget(),
            21 => self.sync(),
            22 => self.pass_time(),
            _ => self.kill(),
        }
    }

    fn make(&mut self) {
        let (folder, name) = (self.any_folder(), self.any_name());
        let kind = match self.below(6) {
            0 => FileKind::Directory,
            1 => FileKind::Symlink,
            _ => FileKind::Regular,
        };
        let target = (kind == FileKind::Symlink).then(|| pattern(3, 90));
        let target = target.map(|bytes| bytes.iter().map(|byte| byte % 25 + 97).collect());
        let new = NewNode { kind, mode: 0o755, umask: 0, device: 0, target };
        let of = |parent| FsOperation::Make { parent, name: name.clone(), new: new.clone() };
        let answers = self.both(of(folder.plain), of(folder.killed));
        self.hold(&answers);
    }

    fn make_nameless(&mut self) {
        let folder = self.any_folder();
        let FsOperation::Make { new, .. } = make(ROOT, "x", FileKind::Regular) else { return };
        let of = |parent| FsOperation::MakeNameless { parent, new: new.clone() };
        let answers = self.both(of(folder.plain), of(folder.killed));
        self.hold(&answers);
    }

    fn look_up(&mut self) {
        let (folder, name) = (self.any_folder(), self.any_name());
        let of = |parent| FsOperation::Lookup { parent, name: name.clone() };
        let answers = self.both(of(folder.plain), of(folder.killed));
        self.hold(&answers);
    }

    fn link(&mut self) {
        let Some(file) = self.any_held(Some(FileKind::Regular)) else { return };
        let (folder, name) = (self.any_folder(), self.any_name());
        let of = |ino, parent| FsOperation::Link { ino, parent, name: name.clone() };
        let answers = self.both(of(file.plain, folder.plain), of(file.killed, folder.killed));
        self.hold(&answers);
    }

    fn write(&mut self) {
        let Some(file) = self.any_held(Some(FileKind::Regular)) else { return };
        let len = match self.below(4) {
            0 => 1 + self.below(100),
            1 => 1 + self.below(9000),
            2 => 4096,
            _ => 1 + self.below(300_000),
        };
        let offset = match self.below(3) {
            0 => 0,
            1 => self.below(20_000),
            _ => self.below(FILE_BYTES_MAX - len) / 4096 * 4096,
        };
        let data = buffer(&pattern(self.random.next_u64(), len as usize));
        let is_durable = self.below(6) == 0;
        let of = |ino| FsOperation::Write { ino, offset, data: data.clone(), is_durable };
        self.act(of(file.plain), of(file.killed));
    }

    fn cut(&mut self) {
        let Some(file) = self.any_held(Some(FileKind::Regular)) else { return };
        let size = if self.below(3) == 0 { 0 } else { self.below(FILE_BYTES_MAX) };
        let change = AttributeChange::default();
        let of = |ino| FsOperation::SetAttributes { ino, change, size: Some(size) };
        self.act(of(file.plain), of(file.killed));
    }

    fn set_attributes(&mut self) {
        let Some(node) = self.any_held(None) else { return };
        let at = Timestamp { seconds: self.below(1 << 33) as i64 - (1 << 30), nanoseconds: 7 };
        let modified = (self.below(2) == 0).then_some(at);
        let mode = (self.below(2) == 0).then_some(0o700 | self.below(64) as u16);
        let change = AttributeChange { modified, mode, ..AttributeChange::default() };
        let of = |ino| FsOperation::SetAttributes { ino, change, size: None };
        self.act(of(node.plain), of(node.killed));
    }

    fn change_room(&mut self) {
        let Some(file) = self.any_held(Some(FileKind::Regular)) else { return };
        let kinds = [RoomChange::Reserve, RoomChange::Punch, RoomChange::Zero];
        let change = kinds[self.below(3) as usize];
        let (offset, len) = (self.below(FILE_BYTES_MAX), 1 + self.below(100_000));
        let of = |ino| FsOperation::ChangeRoom { ino, offset, len, change };
        self.act(of(file.plain), of(file.killed));
    }

    fn set_xattr(&mut self) {
        let Some(node) = self.any_held(Some(FileKind::Regular)) else { return };
        let name = format!("user.x{}", self.below(3)).into_bytes();
        let value = pattern(self.random.next_u64(), 1 + self.below(900) as usize);
        let how = XattrSet::Any;
        let of = |ino| {
            let (name, value) = (name.clone(), value.clone());
            FsOperation::SetXattr { ino, name, value, how }
        };
        self.act(of(node.plain), of(node.killed));
    }

    fn rename(&mut self) {
        let (from, to) = (self.any_folder(), self.any_folder());
        let (name, new_name) = (self.any_name(), self.any_name());
        let how = if self.below(4) == 0 { Rename::Exchange } else { Rename::Replace };
        let of = |from, to| {
            let (name, new_name) = (name.clone(), new_name.clone());
            FsOperation::Rename { from, name, to, new_name, how }
        };
        self.act(of(from.plain, to.plain), of(from.killed, to.killed));
    }

    fn unlink(&mut self) {
        let (folder, name) = (self.any_folder(), self.any_name());
        let is_directory = self.below(4) == 0;
        let of = |parent| {
            let name = name.clone();
            if is_directory {
                FsOperation::RemoveDirectory { parent, name }
            } else {
                FsOperation::Unlink { parent, name }
            }
        };
        self.act(of(folder.plain), of(folder.killed));
    }

    fn forget(&mut self) {
        if self.held.len() < 8 {
            return;
        }
        let which = self.below(self.held.len() as u64) as usize;
        let held = self.held.swap_remove(which);
        self.act(
            FsOperation::Forget { ino: held.plain, count: 1 },
            FsOperation::Forget { ino: held.killed, count: 1 },
        );
    }

    /// Every inode without a name is freed with its last reference in both worlds.
    fn forget_all(&mut self) {
        while let Some(held) = self.held.pop() {
            self.act(
                FsOperation::Forget { ino: held.plain, count: 1 },
                FsOperation::Forget { ino: held.killed, count: 1 },
            );
        }
        self.kill();
        let free = |client: &mut Client| match client.ask(FsOperation::Statistics) {
            Ok(Answer::Statistics(found)) => found.free_inodes,
            other => panic!("{other:?}"),
        };
        assert_eq!(free(&mut self.plain), free(&mut self.killed), "{}: free inodes", self.context);
    }

    fn sync(&mut self) {
        if self.below(3) == 0 {
            self.act(FsOperation::SyncAll, FsOperation::SyncAll);
            return;
        }
        let Some(node) = self.any_held(Some(FileKind::Regular)) else { return };
        let of = |ino| FsOperation::Sync { ino, data_only: false };
        self.act(of(node.plain), of(node.killed));
    }

    fn pass_time(&mut self) {
        let later = Nanos(self.plain.now.0 + self.random.below(2_000_000_000));
        for client in [&mut self.plain, &mut self.killed] {
            client.now = later;
            client.drive();
        }
    }

    /// Compares all that an observer sees.
    fn compare(&mut self) {
        // One that hangs shows nothing: another process does.
        self.kill();
        let plain = tree_of(&mut self.plain);
        let killed = tree_of(&mut self.killed);
        same(&plain, &killed, &self.context);
        for held in self.held.clone() {
            let (one, other) =
                (see(&mut self.plain, held.plain), see(&mut self.killed, held.killed));
            let name = format!("held {} and {}", held.plain.0, held.killed.0);
            same(
                &BTreeMap::from([(name.clone(), one)]),
                &BTreeMap::from([(name, other)]),
                &self.context,
            );
        }
    }
}

fn number_of(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_killed_process_shows_the_same_through_the_next() {
    let seeds = match number_of("NEARHEAD_FS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number_of("NEARHEAD_FS_LIVES").unwrap_or(40),
    };
    let mut kills = 0;
    for seed in seeds {
        let Some(mut life) = Life::of(seed) else { return };
        for step in 0..120 {
            life.step();
            if step % 20 == 19 {
                life.compare();
            }
        }
        life.forget_all();
        assert!(life.log.bytes() < 64 << 20, "{}: {} bytes", life.context, life.log.bytes());
        kills += life.kills;
    }
    assert!(kills > 10, "{kills} kills");
}
