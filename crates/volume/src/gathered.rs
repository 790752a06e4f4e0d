//! A shingled disk with all that is not shingled at its beginning.
//!
//! The layout of a volume on a shingled disk wants its logs and snapshots in one range of addresses
//! that comes first (docs/format.md, section 1). Most such disks have it so. One with a
//! non-shingled *surface* (Manylogs section III-I.3) has a non-shingled range at every cylinder
//! instead; this layer shows its ranges one after the other, and then its bands, both in the order
//! of their addresses, so that a place in the one part is at the same radius as the same place in
//! the other.
//!
//! What stays true: every address shown is one address of the disk below and none is shown twice;
//! blocks of 4 KiB that do not lie in a band are whole blocks below; a command that lies in several
//! ranges is answered once, when all its parts are, with the worst of their results; and the disk
//! below never has more commands than it takes.

use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Desk, Disk, DiskError, DiskErrorKind, Nanos,
    Payload, Properties, Region, RegionKind, Submission, Ticket, Zones,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Non-shingled ranges are used from and to multiples of this: the largest block of a log.
const ALIGN_BYTES: u64 = 4096;
/// Parts of commands are numbered from here on; who is above numbers from 0.
const FIRST_PART: u64 = 1 << 63;

/// Bytes that lie together here and below.
#[derive(Clone, Copy, Debug)]
struct Run {
    shown: u64,
    below: u64,
    len: u64,
}

/// A shingled disk, rearranged.
pub struct GatheredDisk<D> {
    disk: D,
    properties: Properties,
    zones: Zones,
    runs: Vec<Run>,
    /// Commands in several parts, with the bytes of each part of a read; and those refused here.
    desk: Desk<Vec<Payload>>,
    /// By its number below: which command a part belongs to, and which of its parts it is.
    parts: BTreeMap<u64, (u64, usize)>,
    parts_numbered: u64,
    /// Commands that the disk below has.
    outstanding: usize,
    /// What it has no room for, in order; bounded by its queue and the runs of a command.
    waiting: Waiting,
}

impl<D: Disk> GatheredDisk<D> {
    /// Whether a disk has non-shingled ranges between its bands.
    pub fn is_needed(disk: &D) -> bool {
        let spread = |zones: &Zones| {
            let start = zones.non_shingled_start_bytes();
            zones.non_shingled().any(|range| range.start >= start)
        };
        disk.zones().is_some_and(spread)
    }

    /// Rearranges `disk`. Fails if it does not tell its zones or nothing of it is not shingled.
    pub fn new(disk: D) -> Result<Self, DiskError> {
        let failed = |problem: &str| DiskError {
            kind: DiskErrorKind::Invalid,
            detail: format!("{}: {problem}", disk.properties().name),
        };
        let told =
            disk.zones().ok_or_else(|| failed("expected a shingled disk that tells its zones"))?;
        let (runs, regions) = arrange(told);
        let capacity_bytes = runs.last().map_or(0, |run| run.shown + run.len);
        let zones =
            Zones::new(regions, capacity_bytes).map_err(|error| failed(&error.to_string()))?;
        if zones.non_shingled_start_bytes() == 0 {
            return Err(failed("expected a part that is not shingled, found only bands"));
        }
        let properties = Properties { capacity_bytes, ..disk.properties().clone() };
        Ok(Self {
            disk,
            properties,
            zones,
            runs,
            desk: Desk::new(),
            parts: BTreeMap::new(),
            parts_numbered: 0,
            outstanding: 0,
            waiting: Waiting::default(),
        })
    }

    /// The disk below.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The disk below, given back.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Where the parts of a range are below: first byte and length of each.
    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.runs.partition_point(|run| run.shown + run.len <= range.start);
        self.runs[first..].iter().map_while(move |run| {
            let (start, end) = (range.start.max(run.shown), range.end.min(run.shown + run.len));
            (start < end).then(|| (run.below + (start - run.shown), end - start))
        })
    }

    fn pass(&mut self, submission: Submission, now: Nanos) {
        if self.outstanding < usize::from(self.properties.queue_depth_max) {
            self.outstanding += 1;
            self.disk.submit(submission, now);
        } else {
            self.waiting.0.push_back(submission);
        }
    }

    fn split(&mut self, ticket: Ticket, class: Class, commands: Vec<Command>, now: Nanos) {
        let bytes = vec![Payload::EMPTY; commands.len()];
        let id = self.desk.book(ticket, commands.len(), bytes);
        for (index, command) in commands.into_iter().enumerate() {
            let part = FIRST_PART + self.parts_numbered;
            self.parts_numbered += 1;
            self.parts.insert(part, (id, index));
            let ticket = Ticket::new(CommandId(part));
            self.pass(Submission { ticket, class, command }, now);
        }
    }

    /// A command below is done: the answer to one above, unless it is a part of one.
    fn settle(&mut self, done: Completion) -> Option<Completion> {
        let Some((id, index)) = self.parts.remove(&done.id.0) else { return Some(done) };
        let error = match done.result {
            Ok(bytes) => {
                if let Some(part) =
                    self.desk.get_mut(id).and_then(|booked| booked.kind.get_mut(index))
                {
                    *part = bytes;
                }
                None
            }
            Err(error) => Some(error),
        };
        if self.desk.part_done(id, error) {
            self.desk.finish(id, |bytes| Ok(joined(&bytes)));
        }
        self.desk.fetch()
    }
}

/// The runs of the rearranged disk, and its regions.
fn arrange(told: &Zones) -> (Vec<Run>, Vec<Region>) {
    let (mut runs, mut regions) = (Vec::new(), Vec::new());
    let mut shown = 0;
    let mut add = |below: u64, len: u64| {
        runs.push(Run { shown, below, len });
        shown += len;
        shown - len
    };
    let mut free_bytes = 0;
    for range in told.non_shingled() {
        let start = range.start.next_multiple_of(ALIGN_BYTES);
        let end = range.end / ALIGN_BYTES * ALIGN_BYTES;
        if start < end {
            add(start, end - start);
            free_bytes += end - start;
        }
    }
    if free_bytes > 0 {
        regions.push(Region { offset: 0, len: free_bytes, kind: RegionKind::NonShingled });
    }
    for region in told.regions().iter().filter(|region| region.kind != RegionKind::NonShingled) {
        let offset = add(region.offset, region.len);
        regions.push(Region { offset, ..*region });
    }
    (runs, regions)
}

/// The parts of `payload`, one for each of the given lengths.
fn cut(payload: &[Payload], lens: impl Iterator<Item = u64>) -> Vec<Vec<Payload>> {
    let mut rest = payload.iter();
    let mut current = Payload::EMPTY;
    lens.map(|len| {
        let mut left = len as usize;
        let mut taken = Vec::new();
        while left > 0 {
            if current.is_empty() {
                let Some(next) = rest.next() else { break };
                current = next.clone();
                continue;
            }
            let step = current.len().min(left);
            taken.push(current.slice(0..step));
            current = current.slice(step..current.len());
            left -= step;
        }
        taken
    })
    .collect()
}

fn joined(parts: &[Payload]) -> Payload {
    let len = nearhead_disk::total_len(parts);
    if parts.iter().any(|part| matches!(part, Payload::Phantom(_))) {
        return Payload::Phantom(len);
    }
    if parts.iter().all(|part| matches!(part, Payload::Zeros(_))) {
        return Payload::Zeros(len);
    }
    let mut whole = BufferMut::zeroed(len);
    nearhead_disk::copy_parts(parts, &mut whole);
    Payload::Bytes(whole.freeze())
}

/// What a command covers; none for a flush.
fn range_of(command: &Command) -> Option<Range<u64>> {
    let (offset, len) = match command {
        Command::Read { offset, len } => (*offset, u64::from(*len)),
        Command::Write { offset, parts, .. } => (*offset, nearhead_disk::total_len(parts) as u64),
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => (*offset, *len),
        Command::Flush => return None,
    };
    Some(offset..offset.saturating_add(len))
}

/// The command for each piece of it.
fn cut_command(command: &Command, pieces: &[(u64, u64)]) -> Vec<Command> {
    let mut content = match command {
        Command::Write { parts, .. } => cut(parts, pieces.iter().map(|piece| piece.1)),
        _ => Vec::new(),
    }
    .into_iter();
    let each = |&(offset, len): &(u64, u64)| match *command {
        Command::Read { .. } => Command::Read { offset, len: len as u32 },
        Command::Write { durable, .. } => {
            Command::Write { offset, parts: content.next().unwrap_or_default(), durable }
        }
        Command::WriteZeroes { durable, .. } => Command::WriteZeroes { offset, len, durable },
        Command::Trim { .. } => Command::Trim { offset, len },
        Command::Flush => Command::Flush,
    };
    pieces.iter().map(each).collect()
}

impl<D: Disk> Disk for GatheredDisk<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> nearhead_disk::Run {
        let Some((below, len)) = self.pieces(offset..self.properties.capacity_bytes).next() else {
            return nearhead_disk::Run::UNKNOWN;
        };
        let run = self.disk.run_at(below);
        nearhead_disk::Run { len: run.len.min(len), zero: run.zero }
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let Submission { ticket, class, command } = submission;
        let Some(range) = range_of(&command) else {
            return self.pass(Submission { ticket, class, command }, now);
        };
        let pieces: Vec<_> = self.pieces(range.clone()).collect();
        let found: u64 = pieces.iter().map(|piece| piece.1).sum();
        if found != range.end - range.start || pieces.is_empty() {
            let Properties { name, capacity_bytes, .. } = &self.properties;
            let detail = format!(
                "{name}: bytes {} to {}: expected some before byte {capacity_bytes}, the end",
                range.start, range.end
            );
            let error = DiskError { kind: DiskErrorKind::Invalid, detail };
            return self.desk.answer(ticket, Err(error));
        }
        let mut commands = cut_command(&command, &pieces);
        match commands.pop() {
            Some(command) if commands.is_empty() => {
                self.pass(Submission { ticket, class, command }, now);
            }
            last => {
                commands.extend(last);
                self.split(ticket, class, commands, now);
            }
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if let Some(refused) = self.desk.fetch() {
            return Some(refused);
        }
        loop {
            let done = self.disk.poll(now)?;
            self.outstanding -= 1;
            if let Some(next) = self.waiting.0.pop_front() {
                self.pass(next, now);
                self.disk.kick();
            }
            if let Some(done) = self.settle(done) {
                return Some(done);
            }
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.desk.wake_at(Nanos::ZERO, self.disk.wake_at())
    }

    fn zones(&self) -> Option<&Zones> {
        Some(&self.zones)
    }
}

/// Commands that were never passed on; they are never answered.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Submission>);

impl Drop for Waiting {
    fn drop(&mut self) {
        for submission in self.0.drain(..) {
            submission.ticket.abandon();
        }
    }
}
