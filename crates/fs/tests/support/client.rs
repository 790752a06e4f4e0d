//! Who uses a file system, in virtual time, and waits for each answer.

use super::ram::bytes_of;
use super::{Blocks, Ram, buffer, empty, make};
use nearhead_disk::Nanos;
use nearhead_ext4::{Caller, Ino, Options, ROOT, Timestamp};
use nearhead_fs::{Answer, FsError, FsOperation, FsOptions, FsRequest, Mounted, Phase};
use nearhead_service::Service;

/// Who uses a file system, and waits for each answer.
pub struct Client<S = Ram> {
    pub mounted: Mounted<S>,
    next: u64,
    pub now: Nanos,
    /// Who asks.
    pub uid: u32,
}

pub const SIZE: u64 = 64 << 20;

/// Turns that one request may take, at most.
const TURNS_MAX: u32 = 100_000;

/// A service in virtual time.
pub trait Timed: Service {
    /// When something of it happens next.
    fn next_at(&self) -> Option<Nanos>;

    /// Its largest atomic write.
    fn record_bytes_max(&self) -> u64;
}

impl Timed for Ram {
    fn next_at(&self) -> Option<Nanos> {
        None
    }

    fn record_bytes_max(&self) -> u64 {
        1 << 20
    }
}

impl Client<Ram> {
    /// On an empty file system.
    pub fn fresh(mode: &str) -> Option<Self> {
        Some(Self::of(Ram::of(SIZE, empty(SIZE)?), mode))
    }

    /// Unmounts it; what is on the disk then.
    pub fn unmount(mut self) -> Blocks {
        self.end();
        self.mounted.into_service().durable
    }
}

impl<S: Timed> Client<S> {
    /// Client of a mounted file system whose next request has the number behind `newest`.
    pub fn around(mounted: Mounted<S>, newest: u64, now: Nanos) -> Self {
        Self { mounted, next: newest, now, uid: 0 }
    }

    /// Number of the newest request.
    pub fn newest(&self) -> u64 {
        self.next
    }

    pub fn of(service: S, mode: &str) -> Self {
        Self::at(service, mode, Nanos::ZERO)
    }

    pub fn at(service: S, mode: &str, now: Nanos) -> Self {
        let options = FsOptions {
            has_durable_names: false,
            ext4: Options { read_only: false, cache_blocks_max: 4096, seed: 7 },
            durable: vec![nearhead_fs::DurableName::parse("*.wal").unwrap()],
            mode: nearhead_journal::mode_named(mode).unwrap(),
            small_run_bytes_max: 64 << 10,
            record_bytes_max: service.record_bytes_max(),
            commit_after: nearhead_fs::COMMIT_AFTER,
            mounted_at: Timestamp { seconds: 1_800_000_000, nanoseconds: 0 },
        };
        let mut client = Self { mounted: Mounted::new(service, options), next: 0, now, uid: 0 };
        client.mounted.trim_freed(true);
        client.mounted.keep_access_times(nearhead_fs::AccessTimes::Relative);
        client.drive();
        while !matches!(client.mounted.phase(), Phase::Serving) && client.wait() {}
        assert_eq!(client.mounted.phase(), &Phase::Serving);
        client
    }

    pub fn drive(&mut self) {
        self.mounted.drive(self.now);
    }

    /// Until something happens; false if nothing will.
    pub fn wait(&mut self) -> bool {
        let Some(at) = self.mounted.service().next_at() else { return false };
        self.now = at.max(self.now);
        self.drive();
        true
    }

    pub fn caller(&self) -> Caller {
        let seconds = 1_800_000_000 + (self.now.0 / 1_000_000_000) as i64;
        let nanoseconds = (self.now.0 % 1_000_000_000) as u32;
        Caller { uid: self.uid, gid: 0, now: Timestamp { seconds, nanoseconds } }
    }

    /// Sends it; the answer may come later.
    pub fn send(&mut self, operation: FsOperation) -> u64 {
        self.next += 2;
        self.now = Nanos(self.now.0 + 1_000_000);
        let request = FsRequest { id: self.next, caller: self.caller(), operation };
        self.mounted.submit(request);
        self.drive();
        self.next
    }

    /// The answer, if one comes.
    pub fn try_ask(&mut self, operation: FsOperation) -> Option<Result<Answer, FsError>> {
        let id = self.send(operation);
        for _ in 0..TURNS_MAX {
            while let Some(reply) = self.mounted.poll_reply() {
                if reply.id == id {
                    return Some(reply.result);
                }
            }
            if !self.wait() {
                return None;
            }
        }
        panic!("no answer after {TURNS_MAX} turns");
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

    /// Unmounts it.
    pub fn end(&mut self) {
        self.mounted.begin_shutdown();
        self.drive();
        while !self.mounted.is_shut_down() && self.wait() {}
        assert!(self.mounted.is_shut_down(), "{:?}", self.mounted.phase());
    }
}
