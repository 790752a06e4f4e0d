//! What the tests of a mounted file system need: an image, a service in memory that can lose what was not flushed, a client that waits.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part of it")]

use nearhead_basics::Random;
use nearhead_disk::{Buffer, BufferMut, Nanos, Payload};
use nearhead_ext4::{Caller, Ino, NewNode, Options, ROOT, Timestamp};
use nearhead_fs::{Answer, FsError, FsOperation, FsOptions, FsRequest, Mounted, Phase};
use nearhead_service::{
    Extent, Operation, Reply, Request, RequestError, Service, ServiceInfo, Wake,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

pub const BLOCK: usize = 4096;

/// The blocks of a disk that are not zeros.
pub type Blocks = BTreeMap<u64, Vec<u8>>;

/// A change that a crash may take back.
#[derive(Clone, Debug)]
struct Unflushed {
    offset: u64,
    bytes: Vec<u8>,
}

/// A service in memory: what is written in place is lost by a crash until a flush, each block of it or not; what is atomic is not.
pub struct Ram {
    size: u64,
    blocks: Blocks,
    durable: Blocks,
    unflushed: Vec<Unflushed>,
    asked: VecDeque<Request>,
    replies: VecDeque<Reply>,
    is_stopping: bool,
    pub atomic_writes: u64,
    pub atomic_bytes: u64,
    pub in_place_bytes: u64,
    pub flushes: u64,
    /// Ranges that the file system said are for durability only, and that it gave back.
    pub hinted: nearhead_disk::RangeSet,
    pub trimmed: nearhead_disk::RangeSet,
    /// After so many requests that change or flush nothing is answered any more.
    pub requests_left: u64,
    /// An error for all that follows.
    pub is_broken: bool,
}

fn store(blocks: &mut Blocks, mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (block, inside) = (offset / BLOCK as u64, offset as usize % BLOCK);
        let take = (BLOCK - inside).min(bytes.len());
        let entry = blocks.entry(block).or_insert_with(|| vec![0; BLOCK]);
        entry[inside..inside + take].copy_from_slice(&bytes[..take]);
        (offset, bytes) = (offset + take as u64, &bytes[take..]);
    }
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

impl Ram {
    pub fn of(size: u64, blocks: Blocks) -> Self {
        Self {
            size,
            durable: blocks.clone(),
            blocks,
            unflushed: Vec::new(),
            asked: VecDeque::new(),
            replies: VecDeque::new(),
            is_stopping: false,
            atomic_writes: 0,
            atomic_bytes: 0,
            in_place_bytes: 0,
            flushes: 0,
            hinted: nearhead_disk::RangeSet::new(),
            trimmed: nearhead_disk::RangeSet::new(),
            requests_left: u64::MAX,
            is_broken: false,
        }
    }

    /// What a crash leaves: all that is durable, and of the rest, block by block, what chance keeps.
    pub fn after_crash(&self, random: &mut Random) -> Blocks {
        let mut blocks = self.durable.clone();
        for write in &self.unflushed {
            for (at, part) in (0_u64..).zip(write.bytes.chunks(BLOCK)) {
                if random.below(2) == 0 {
                    store(&mut blocks, write.offset + at * BLOCK as u64, part);
                }
            }
        }
        blocks
    }

    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn carry_out(&mut self, operation: Operation) -> Result<Vec<Payload>, RequestError> {
        if self.is_broken {
            let kind = nearhead_service::ErrorKind::Io;
            return Err(RequestError::new(kind, "the disk of this test is broken"));
        }
        match operation {
            Operation::Read { offset, len } => {
                let mut buffer = BufferMut::zeroed(len as usize);
                for (at, part) in (0_u64..).zip(buffer.chunks_mut(BLOCK)) {
                    if let Some(bytes) = self.blocks.get(&(offset / BLOCK as u64 + at)) {
                        part.copy_from_slice(bytes);
                    }
                }
                return Ok(vec![Payload::Bytes(buffer.freeze())]);
            }
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => {
                self.in_place_bytes += data.len() as u64;
                let bytes = bytes_of(&data);
                store(&mut self.blocks, offset, &bytes);
                self.unflushed.push(Unflushed { offset, bytes });
            }
            Operation::WriteAtomic { extents } => {
                self.atomic_writes += 1;
                assert!(extents.len() <= 256, "an atomic write of {} parts", extents.len());
                let mut total = 0;
                for (offset, data) in extents {
                    total += data.len() as u64;
                    let bytes = bytes_of(&data);
                    store(&mut self.blocks, offset, &bytes);
                    store(&mut self.durable, offset, &bytes);
                    // What was written there before cannot come back.
                    let end = offset + bytes.len() as u64;
                    self.unflushed.retain_mut(|write| {
                        let (from, to) = (write.offset, write.offset + write.bytes.len() as u64);
                        if to <= offset || from >= end {
                            return true;
                        }
                        let (start, stop) = (from.max(offset), to.min(end));
                        let inside = (start - offset) as usize..(stop - offset) as usize;
                        let at = (start - from) as usize;
                        write.bytes[at..at + inside.len()].copy_from_slice(&bytes[inside]);
                        true
                    });
                }
                assert!(total <= 1 << 20, "an atomic write of {total} bytes");
                self.atomic_bytes += total;
            }
            Operation::Flush => {
                self.flushes += 1;
                self.unflushed.clear();
                self.durable = self.blocks.clone();
            }
            Operation::Hint { offset, len, hint } => {
                match hint {
                    nearhead_service::Hint::DurabilityOnly => {
                        self.hinted.insert(offset..offset + len)
                    }
                    nearhead_service::Hint::Normal => self.hinted.remove(offset..offset + len),
                };
            }
            Operation::Trim { offset, len, .. } => {
                self.trimmed.insert(offset..offset + len);
            }
            Operation::WriteZeroes { .. } => {}
        }
        Ok(Vec::new())
    }
}

impl Service for Ram {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: "memory".to_owned(),
            size_bytes: self.size,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 1 << 20,
            read_only: false,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, _: Nanos) {
        self.asked.push_back(request);
    }

    fn drive(&mut self, _: Nanos) {
        while let Some(request) = self.asked.pop_front() {
            let is_advice = matches!(request.operation, Operation::Hint { .. });
            if !is_advice && !matches!(request.operation, Operation::Read { .. }) {
                if self.requests_left == 0 {
                    continue;
                }
                self.requests_left -= 1;
            }
            let result = self.carry_out(request.operation);
            self.replies.push_back(Reply { id: request.id, result });
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake { at: None, is_precise: false, fd: None }
    }

    fn block_status(&self, _: u64, len: u64, _: usize) -> Vec<Extent> {
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, _: Nanos) {
        self.is_stopping = true;
    }

    fn is_shut_down(&self) -> bool {
        self.is_stopping
    }
}

/// An empty file system of this size; `None`, with a word why, where no program makes one.
pub fn empty(size: u64) -> Option<Blocks> {
    let path = scratch("empty");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    let features = "^has_journal,^dir_index,^resize_inode,^orphan_file";
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-I", "256", "-O", features])
        .args(["-E", "lazy_itable_init=1,nodiscard"])
        .arg(&path)
        .status();
    let blocks = match made {
        Ok(status) if status.success() => Some(blocks_of(&path)),
        _ => {
            println!("skipped: expected mkfs.ext4 (package e2fsprogs), found none");
            None
        }
    };
    let _ = std::fs::remove_file(path);
    blocks
}

fn blocks_of(path: &PathBuf) -> Blocks {
    let bytes = std::fs::read(path).unwrap();
    let stored = (0..).zip(bytes.chunks(BLOCK)).filter(|(_, part)| part.iter().any(|it| *it != 0));
    stored.map(|(block, part)| (block, part.to_vec())).collect()
}

fn scratch(what: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("nearhead-fs-{what}-{}-{number}", std::process::id()))
}

/// Panics with what e2fsck says, unless it finds nothing.
pub fn assert_clean(size: u64, blocks: &Blocks, told: &str) {
    use std::os::unix::fs::FileExt;
    let path = scratch("fsck");
    let mut file = std::fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    for (block, bytes) in blocks {
        file.write_all_at(bytes, block * BLOCK as u64).unwrap();
    }
    file.flush().unwrap();
    let output = Command::new("e2fsck").arg("-fn").arg(&path).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let kept = std::env::temp_dir().join("nearhead-fs-failed.img");
        let _ = std::fs::copy(&path, &kept);
        panic!("{told}: e2fsck (image kept at {}):\n{words}", kept.display());
    }
    let _ = std::fs::remove_file(path);
}

/// Who uses a file system, and waits for each answer.
pub struct Client {
    pub mounted: Mounted<Ram>,
    next: u64,
    pub now: Nanos,
}

pub const SIZE: u64 = 64 << 20;

impl Client {
    pub fn of(ram: Ram, mode: &str) -> Self {
        let options = FsOptions {
            ext4: Options { read_only: false, cache_blocks_max: 4096, seed: 7 },
            durable: vec![nearhead_fs::DurableName::parse("*.wal").unwrap()],
            mode: nearhead_journal::mode_named(mode).unwrap(),
            mounted_at: Timestamp { seconds: 1_800_000_000, nanoseconds: 0 },
        };
        let mut mounted = Mounted::new(ram, options);
        mounted.drive(Nanos::ZERO);
        assert_eq!(mounted.phase(), &Phase::Serving);
        Self { mounted, next: 0, now: Nanos::ZERO }
    }

    /// On an empty file system.
    pub fn fresh(mode: &str) -> Option<Self> {
        Some(Self::of(Ram::of(SIZE, empty(SIZE)?), mode))
    }

    pub fn caller(&self) -> Caller {
        let seconds = 1_800_000_000 + (self.now.0 / 1_000_000_000) as i64;
        let nanoseconds = (self.now.0 % 1_000_000_000) as u32;
        Caller { uid: 0, gid: 0, now: Timestamp { seconds, nanoseconds } }
    }

    /// Sends it; the answer may come later.
    pub fn send(&mut self, operation: FsOperation) -> u64 {
        self.next += 1;
        self.now = Nanos(self.now.0 + 1_000_000);
        let request = FsRequest { id: self.next, caller: self.caller(), operation };
        self.mounted.submit(request);
        self.mounted.drive(self.now);
        self.next
    }

    /// The answer, if one comes.
    pub fn try_ask(&mut self, operation: FsOperation) -> Option<Result<Answer, FsError>> {
        let id = self.send(operation);
        let mut found = None;
        while let Some(reply) = self.mounted.poll_reply() {
            if reply.id == id {
                found = Some(reply.result);
            }
        }
        found
    }

    pub fn ask(&mut self, operation: FsOperation) -> Result<Answer, FsError> {
        let told = format!("{operation:?}");
        self.try_ask(operation).unwrap_or_else(|| panic!("no answer to {told}"))
    }

    pub fn node(&mut self, operation: FsOperation) -> Ino {
        match self.ask(operation) {
            Ok(Answer::Node(node)) => node.ino,
            other => panic!("expected a node, found {other:?}"),
        }
    }

    pub fn create(&mut self, parent: Ino, name: &str) -> Ino {
        self.node(make(parent, name, nearhead_ext4::FileKind::Regular))
    }

    pub fn directory(&mut self, parent: Ino, name: &str) -> Ino {
        self.node(make(parent, name, nearhead_ext4::FileKind::Directory))
    }

    pub fn find(&mut self, path: &str) -> Option<Ino> {
        let mut at = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let name = name.as_bytes().to_vec();
            match self.ask(FsOperation::Lookup { parent: at, name }) {
                Ok(Answer::Node(node)) => at = node.ino,
                _ => return None,
            }
        }
        Some(at)
    }

    pub fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) {
        let data = buffer(bytes);
        let written = self.ask(FsOperation::Write { ino, offset, data, is_durable: false });
        match written {
            Ok(Answer::Written(len)) => assert_eq!(len as usize, bytes.len()),
            other => panic!("expected a write, found {other:?}"),
        }
    }

    pub fn read(&mut self, ino: Ino, offset: u64, len: u32) -> Vec<u8> {
        match self.ask(FsOperation::Read { ino, offset, len }) {
            Ok(Answer::Bytes(parts)) => parts.iter().flat_map(bytes_of).collect(),
            other => panic!("expected bytes, found {other:?}"),
        }
    }

    pub fn sync(&mut self, ino: Ino) {
        let done = self.ask(FsOperation::Sync { ino, data_only: false });
        assert!(matches!(done, Ok(Answer::Nothing)), "{done:?}");
    }

    pub fn size(&mut self, ino: Ino) -> u64 {
        match self.ask(FsOperation::Attributes { ino }) {
            Ok(Answer::Node(node)) => node.size,
            other => panic!("expected a node, found {other:?}"),
        }
    }

    pub fn cut(&mut self, ino: Ino, size: u64) {
        let change = nearhead_ext4::AttributeChange::default();
        let done = self.ask(FsOperation::SetAttributes { ino, change, size: Some(size) });
        assert!(done.is_ok(), "{done:?}");
    }

    /// Unmounts it; what is on the disk then.
    pub fn unmount(mut self) -> Blocks {
        self.mounted.begin_shutdown();
        self.mounted.drive(self.now);
        assert!(self.mounted.is_shut_down(), "{:?}", self.mounted.phase());
        self.mounted.into_service().durable
    }
}

pub fn make(parent: Ino, name: &str, kind: nearhead_ext4::FileKind) -> FsOperation {
    let mode = if kind == nearhead_ext4::FileKind::Directory { 0o755 } else { 0o644 };
    let new = NewNode { kind, mode, umask: 0, device: 0, target: None };
    FsOperation::Make { parent, name: name.as_bytes().to_vec(), new }
}

pub fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).freeze()
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; len];
    bytes.chunks_mut(8).for_each(|part| {
        let number = random.next_u64().to_le_bytes();
        part.copy_from_slice(&number[..part.len()]);
    });
    bytes
}
