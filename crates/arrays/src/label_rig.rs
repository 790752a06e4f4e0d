//! What the tests of labelled arrays stand on: disks that lose their power, refuse changes or choose
//! the worst order, blocks that say their version, and a mirror in virtual time.

use super::open::prepare;
use super::plan::Plan;
use super::*;
use nearhead_disk::{BufferMut, CommandId, Payload};
use nearhead_models::{CrashDisk, InstantDisk, MemoryStore, plain_properties};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) const BLOCK: u64 = 4096;
pub(super) const BLOCKS: u64 = 40;

/// The label of a member, of three, that has everything.
pub(super) const WHOLE: Label = Label {
    array_id: [1; 16],
    sequence: 5,
    generation: 3,
    member_bytes: 1 << 20,
    chunk_bytes: 0,
    synced_bytes: 1 << 20,
    count: 3,
    index: 0,
    in_sync: 0b111,
    in_use: false,
    whole_runs: None,
    taken: 0,
};

/// A disk with a volatile cache that can be made to refuse every change, or every read, and to say that it is gone.
pub(super) struct Shaky {
    pub(super) disk: CrashDisk,
    pub(super) broken: Rc<Cell<bool>>,
    pub(super) unreadable: Rc<Cell<bool>>,
    pub(super) gone: Rc<Cell<bool>>,
}

impl Shaky {
    pub(super) fn new(blocks: u64, latency_us: u64) -> Self {
        let properties = Properties {
            volatile_cache: true,
            transfer_bytes_max: 16 << 10,
            ..plain_properties(blocks * BLOCK + LABEL_BYTES, 512)
        };
        let disk = CrashDisk::with_image(properties, MemoryStore::new());
        Self {
            disk: disk.with_latency(Nanos::from_micros(latency_us)),
            broken: Rc::default(),
            unreadable: Rc::default(),
            gone: Rc::default(),
        }
    }
}

impl Disk for Shaky {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, mut submission: Submission, now: Nanos) {
        let is_read = matches!(submission.command, Command::Read { .. });
        let refuses = if is_read { &self.unreadable } else { &self.broken };
        if refuses.get() {
            // Past the end: the disk itself answers with an error.
            submission.command = Command::Read { offset: 1 << 60, len: 512 };
        }
        self.disk.submit(submission, now);
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let mut done = self.disk.poll(now)?;
        if let Err(error) = &mut done.result
            && self.gone.get()
        {
            error.kind = DiskErrorKind::Gone;
        }
        Some(done)
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

pub(super) fn run_one<D: Disk>(disk: &mut D, command: Command) -> Result<Payload, DiskError> {
    let ticket = Ticket::new(CommandId(0));
    disk.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
    loop {
        let at = disk.wake_at().expect("a command is outstanding");
        if let Some(done) = disk.poll(at) {
            return done.result;
        }
    }
}

pub(super) fn block(version: u32) -> Payload {
    let bytes = version.to_le_bytes().repeat(BLOCK as usize / 4);
    Payload::Bytes(BufferMut::copy_of(&bytes).freeze())
}

pub(super) fn version(bytes: &[u8]) -> u32 {
    let first = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    // Sectors may be of different writes; a block counts as the oldest of them.
    let words =
        bytes.chunks_exact(512).map(|sector| u32::from_le_bytes(sector[..4].try_into().unwrap()));
    words.min().unwrap_or(first)
}

pub(super) fn make(id: u8) -> Purpose {
    Purpose::Make { array_id: [id; 16], anew: false, whole_runs: None }
}

pub(super) fn opened<D: Disk>(
    text: &str,
    disks: &mut [Option<D>],
    purpose: Purpose,
) -> Result<Mirror<D>, String> {
    let spec = ArraySpec::parse(text).unwrap();
    let plan = prepare(&spec, disks, purpose, &mut run_one).map_err(|error| error.detail)?;
    let Plan { members, unsure, missed, newcomer, .. } = plan.ok_or("no labels")?;
    let newcomer = members.iter().position(|(place, _)| Some(*place) == newcomer);
    let labels = members.iter().map(|(_, label)| *label).collect();
    let taken = members.iter().map(|(place, _)| disks[*place].take().unwrap()).collect();
    let mirror = Mirror::labelled(taken, ReadPolicy::First, labels, (unsure, missed));
    Ok(mirror.map_err(|error| error.detail)?.replacing(newcomer))
}

pub(super) fn reopened<D: Disk>(text: &str, disks: &mut [Option<D>]) -> Result<Mirror<D>, String> {
    opened(text, disks, Purpose::Use)
}

pub(super) fn made(latencies_us: [u64; 2]) -> Mirror<Shaky> {
    let mut disks = latencies_us.map(|latency| Some(Shaky::new(BLOCKS, latency)));
    opened("mirror:a,b", &mut disks, make(7)).unwrap()
}

/// A mirror in virtual time.
pub(super) struct Run<D: Disk> {
    pub(super) mirror: Mirror<D>,
    pub(super) now: Nanos,
}

impl<D: Disk> Run<D> {
    pub(super) fn send(&mut self, id: u64, command: Command) {
        let ticket = Ticket::new(CommandId(id));
        let class = Class::Foreground;
        self.mirror.submit(Submission { ticket, class, command }, self.now);
    }

    /// Does what happens until `until`; gives the answers.
    pub(super) fn until(&mut self, until: Nanos) -> Vec<Completion> {
        let mut done = Vec::new();
        loop {
            while let Some(completion) = self.mirror.poll(self.now) {
                done.push(completion);
            }
            match self.mirror.wake_at().map(|at| at.max(self.now)).filter(|at| *at <= until) {
                Some(at) => self.now = at,
                None => break,
            }
        }
        self.now = until;
        done
    }

    pub(super) fn wait(&mut self, command: Command) -> Result<Payload, DiskError> {
        self.send(u64::MAX, command);
        loop {
            if let Some(done) = self.mirror.poll(self.now) {
                if done.id.0 == u64::MAX {
                    return done.result;
                }
                continue;
            }
            self.now = self.mirror.wake_at().unwrap().max(self.now);
        }
    }

    pub(super) fn write(&mut self, at: u64, version: u32) {
        let parts = vec![block(version)];
        self.wait(Command::Write { offset: at * BLOCK, parts, durable: true }).unwrap();
    }

    pub(super) fn read(&mut self, at: u64) -> u32 {
        let command = Command::Read { offset: at * BLOCK, len: BLOCK as u32 };
        let payload = self.wait(command).unwrap();
        let mut bytes = vec![0; payload.len()];
        payload.copy_to(&mut bytes);
        version(&bytes)
    }

    pub(super) fn disks(self) -> Vec<Option<D>> {
        self.mirror.into_disks().into_iter().map(Some).collect()
    }
}

/// The power goes; the members as it left them.
pub(super) fn cut(run: Run<Shaky>, random: &mut SplitMix) -> Vec<Option<Shaky>> {
    let mut disks = run.disks();
    disks.iter_mut().flatten().for_each(|shaky| shaky.disk.power_cut(random));
    disks
}

/// What each member itself holds.
pub(super) fn held(disks: &mut [Option<Shaky>]) -> Vec<Vec<u32>> {
    disks.iter_mut().flatten().map(content).collect()
}

pub(super) fn change(at: u64, version: u32) -> Command {
    Command::Write { offset: at * BLOCK, parts: vec![block(version)], durable: false }
}

pub(super) fn start<D: Disk>(mirror: Mirror<D>) -> Run<D> {
    Run { mirror, now: Nanos::ZERO }
}

/// What a member itself holds.
pub(super) fn content<D: Disk>(disk: &mut D) -> Vec<u32> {
    let mut read = |at: u64| {
        let payload = run_one(disk, Command::Read { offset: at * BLOCK, len: BLOCK as u32 });
        let mut bytes = vec![0; BLOCK as usize];
        payload.unwrap().copy_to(&mut bytes);
        version(&bytes)
    };
    (0..BLOCKS).map(&mut read).collect()
}

/// A disk that reads what was written when a read came, and writes when a write is over: as bad an
/// order as a disk may choose.
pub(super) struct Late {
    pub(super) disk: InstantDisk,
    read_us: u64,
    write_us: u64,
    pending: BTreeMap<(Nanos, u64), Result<Submission, Completion>>,
    order: u64,
}

impl Late {
    pub(super) fn new(read_us: u64, write_us: u64) -> Self {
        let properties = Properties {
            transfer_bytes_max: 16 << 10,
            ..plain_properties(BLOCKS * BLOCK + LABEL_BYTES, 512)
        };
        let disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO);
        Self { disk, read_us, write_us, pending: BTreeMap::new(), order: 0 }
    }
}

impl Disk for Late {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.order += 1;
        let (took_us, what) = if matches!(submission.command, Command::Read { .. }) {
            self.disk.submit(submission, now);
            (self.read_us, Err(self.disk.poll(now).unwrap()))
        } else {
            (self.write_us, Ok(submission))
        };
        self.pending.insert((now + Nanos::from_micros(took_us), self.order), what);
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let entry = self.pending.first_entry().filter(|entry| entry.key().0 <= now)?;
        match entry.remove() {
            Err(completion) => Some(completion),
            Ok(submission) => {
                self.disk.submit(submission, now);
                self.disk.poll(now)
            }
        }
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        while let Some((_, what)) = self.pending.pop_first() {
            if let Ok(submission) = what {
                submission.ticket.abandon();
            }
        }
    }
}
