//! RAID-0: chunks that go round the members.
//!
//! Chunk `i` of the array is chunk `i / n` of member `i mod n`. So any run of the array's bytes is
//! one run on each member it touches, and a command of any size becomes at most one command per
//! member. Nothing is redundant: an error of one member is an error of the array.

use super::members::Members;
use super::{Desk, TRANSFER_BYTES_MAX, common_properties, invalid, named, names};
use crate::model::{Model, Report};
use crate::random::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, Completion, Disk, DiskError, Nanos, Payload, Properties, Submission,
    Ticket,
};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// Smallest and largest chunk: below, one page of a host would be torn apart; above, nothing is
/// gained by striping.
const CHUNK_BYTES: Range<u64> = 4 << 10..(16 << 20) + 1;

/// What a command waits for.
#[derive(Default)]
struct Parts {
    error: Option<DiskError>,
    /// Of a read: where it began, its length, and the bytes of each member.
    read: Option<(u64, usize)>,
    bytes: Vec<Payload>,
}

/// A RAID-0 of disks.
pub struct Stripe<D> {
    members: Members<D>,
    map: ChunkMap,
    properties: Properties,
    desk: Desk<Parts>,
}

/// Which byte is where.
#[derive(Clone, Copy, Debug)]
struct ChunkMap {
    members: u64,
    chunk_bytes: u64,
}

impl ChunkMap {
    /// Bytes of `member` that lie before the array's byte `at`.
    fn before(self, at: u64, member: u64) -> u64 {
        let row_bytes = self.chunk_bytes * self.members;
        let in_row = (at % row_bytes).saturating_sub(member * self.chunk_bytes);
        at / row_bytes * self.chunk_bytes + in_row.min(self.chunk_bytes)
    }

    /// The run on `member` that holds its share of `offset..offset + len`.
    fn run(self, member: u64, offset: u64, len: u64) -> Range<u64> {
        self.before(offset, member)..self.before(offset + len, member)
    }

    /// The pieces of a run, in order: member, and how many bytes.
    fn pieces(self, offset: u64, len: u64) -> impl Iterator<Item = (usize, usize)> {
        let (mut at, end) = (offset, offset + len);
        std::iter::from_fn(move || {
            let step = (self.chunk_bytes - at % self.chunk_bytes).min(end - at);
            let member = (at / self.chunk_bytes % self.members) as usize;
            at += step;
            (step > 0).then_some((member, step as usize))
        })
    }
}

impl<D: Disk> Stripe<D> {
    /// Stripes `disks` in chunks of `chunk_bytes`, using of each as much as the smallest has.
    ///
    /// Fails for fewer than two disks, or a chunk that is no power of two from 4 KiB to 16 MiB or
    /// no whole number of sectors.
    pub fn new(disks: Vec<D>, chunk_bytes: u64) -> Result<Self, DiskError> {
        let name = format!("raid0:{} in chunks of {} KiB", names(&disks), chunk_bytes >> 10);
        if !chunk_bytes.is_power_of_two() || !CHUNK_BYTES.contains(&chunk_bytes) {
            let problem = format!(
                "expected a chunk that is a power of two from 4 KiB to 16 MiB, found {chunk_bytes} bytes"
            );
            return Err(invalid(&name, &problem));
        }
        let common = common_properties(&disks, name)?;
        let count = disks.len() as u64;
        let per_member = common.capacity_bytes - common.capacity_bytes % chunk_bytes;
        if per_member == 0 || !chunk_bytes.is_multiple_of(u64::from(common.physical_sector_bytes)) {
            let problem = format!(
                "the smallest disk has {} bytes in sectors of {}: expected at least one chunk of \
                 {chunk_bytes}, of whole sectors",
                common.capacity_bytes, common.physical_sector_bytes
            );
            return Err(invalid(&common.name, &problem));
        }
        // A run of n times the chunks that a member takes at once gives it no more than that.
        let of_member = u64::from(common.transfer_bytes_max);
        let whole = of_member - of_member % chunk_bytes;
        let transfer = if whole == 0 { of_member } else { whole * count };
        let depths = disks.iter().map(|disk| u32::from(disk.properties().queue_depth_max));
        let depth = depths.sum::<u32>().min(u32::from(u16::MAX)) as u16;
        let properties = Properties {
            capacity_bytes: per_member * count,
            transfer_bytes_max: transfer.min(TRANSFER_BYTES_MAX.max(of_member)) as u32,
            queue_depth_max: depth,
            ..common
        };
        let map = ChunkMap { members: count, chunk_bytes };
        Ok(Self { members: Members::new(disks)?, map, properties, desk: Desk::new() })
    }

    /// The disk number `index`.
    pub fn member(&self, index: usize) -> &D {
        self.members.disk(index)
    }

    fn read(&mut self, ticket: Ticket, class: Class, range: (u64, u32), now: Nanos) {
        let (offset, len) = (range.0, u64::from(range.1));
        let count = self.members.len();
        let parts = Parts {
            read: Some((offset, len as usize)),
            bytes: vec![Payload::EMPTY; count],
            error: None,
        };
        let command = |run: Range<u64>| Command::Read {
            offset: run.start,
            len: (run.end - run.start) as u32,
        };
        self.spread(ticket, class, (offset, len), parts, command, now);
    }

    /// Gives every member its share of a range as one command.
    fn spread(
        &mut self,
        ticket: Ticket,
        class: Class,
        (offset, len): (u64, u64),
        parts: Parts,
        mut command: impl FnMut(Range<u64>) -> Command,
        now: Nanos,
    ) {
        let runs: Vec<_> = (0..self.map.members)
            .map(|member| (member as usize, self.map.run(member, offset, len)))
            .filter(|(_, run)| !run.is_empty())
            .collect();
        let id = self.desk.begin(ticket, runs.len(), parts);
        for (member, run) in runs {
            self.members.submit(member, id, class, command(run), now);
        }
    }

    fn write(
        &mut self,
        ticket: Ticket,
        class: Class,
        (offset, parts, durable): (u64, &[Payload], bool),
        now: Nanos,
    ) {
        let len = nearhead_disk::total_len(parts) as u64;
        let mut shares: Vec<Vec<Payload>> = vec![Vec::new(); self.members.len()];
        let mut source = Cursor { parts, inside: 0 };
        for (member, bytes) in self.map.pieces(offset, len) {
            source.take(bytes, |part| shares[member].push(part));
        }
        let mut shares = shares.into_iter().filter(|share| !share.is_empty());
        let command = |run: Range<u64>| Command::Write {
            offset: run.start,
            parts: shares.next().unwrap_or_default(),
            durable,
        };
        self.spread(ticket, class, (offset, len), Parts::default(), command, now);
    }

    fn flush(&mut self, ticket: Ticket, class: Class, now: Nanos) {
        let count = self.members.len();
        let id = self.desk.begin(ticket, count, Parts::default());
        for member in 0..count {
            self.members.submit(member, id, class, Command::Flush, now);
        }
    }

    fn settle(&mut self, member: usize, done: Completion) {
        let id = done.id.0;
        let Some(running) = self.desk.running.get_mut(&id) else { return };
        running.left -= 1;
        match done.result {
            Ok(bytes) => {
                if let Some(place) = running.parts.bytes.get_mut(member) {
                    *place = bytes;
                }
            }
            Err(error) => {
                let name = &self.members.disk(member).properties().name;
                let error = named(&error, member, self.members.len(), name);
                running.parts.error.get_or_insert(error);
            }
        }
        if running.left == 0 {
            let map = self.map;
            self.desk.finish(id, |parts| parts.result(map));
        }
    }
}

/// Walks over the bytes of several parts.
struct Cursor<'a> {
    parts: &'a [Payload],
    inside: usize,
}

impl Cursor<'_> {
    /// Hands the next `bytes` bytes out, in as many slices as they lie in.
    fn take(&mut self, mut bytes: usize, mut each: impl FnMut(Payload)) {
        while bytes > 0 {
            let Some(part) = self.parts.first() else { return };
            let step = (part.len() - self.inside).min(bytes);
            if step > 0 {
                each(part.slice(self.inside..self.inside + step));
            }
            (self.inside, bytes) = (self.inside + step, bytes - step);
            if self.inside == part.len() {
                (self.parts, self.inside) = (&self.parts[1..], 0);
            }
        }
    }
}

impl Parts {
    fn result(mut self, map: ChunkMap) -> Result<Payload, DiskError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let Some((offset, len)) = self.read else { return Ok(Payload::EMPTY) };
        let mut filled = self.bytes.iter_mut().filter(|bytes| !bytes.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            return Ok(std::mem::replace(only, Payload::EMPTY));
        }
        if self.bytes.iter().any(|bytes| matches!(bytes, Payload::Phantom(_))) {
            return Ok(Payload::Phantom(len));
        }
        let mut whole = BufferMut::zeroed(len);
        let mut taken = vec![0; self.bytes.len()];
        let mut at = 0;
        for (member, bytes) in map.pieces(offset, len as u64) {
            let from: &mut usize = &mut taken[member];
            let piece = self.bytes[member].slice(*from..*from + bytes);
            piece.copy_to(&mut whole[at..at + bytes]);
            (*from, at) = (*from + bytes, at + bytes);
        }
        Ok(Payload::Bytes(whole.freeze()))
    }
}

impl<D: Disk> Disk for Stripe<D> {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.desk.time = self.desk.time.max(now);
        let Submission { ticket, class, command } = submission;
        let Some(ticket) = self.desk.admit(&self.properties, ticket, &command) else { return };
        match command {
            Command::Read { offset, len } => self.read(ticket, class, (offset, len), now),
            Command::Write { offset, parts, durable } => {
                self.write(ticket, class, (offset, &parts, durable), now);
            }
            Command::WriteZeroes { offset, len, durable } => {
                let command = |run: Range<u64>| Command::WriteZeroes {
                    offset: run.start,
                    len: run.end - run.start,
                    durable,
                };
                self.spread(ticket, class, (offset, len), Parts::default(), command, now);
            }
            Command::Trim { offset, len } => {
                let command =
                    |run: Range<u64>| Command::Trim { offset: run.start, len: run.end - run.start };
                self.spread(ticket, class, (offset, len), Parts::default(), command, now);
            }
            Command::Flush => self.flush(ticket, class, now),
        }
    }

    fn kick(&mut self) {
        self.members.kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.desk.time = self.desk.time.max(now);
        while self.desk.done.is_empty() {
            let (member, done) = self.members.poll(now)?;
            self.settle(member, done);
        }
        self.desk.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.desk.wake_at(self.members.wake_at())
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.members.wake_fd()
    }

    fn width(&self) -> u32 {
        self.members.disks().map(Disk::width).sum()
    }

    fn trouble(&self) -> Option<String> {
        self.members.disks().find_map(Disk::trouble)
    }
}

impl<M: Model> Model for Stripe<M> {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        let cuts: Vec<_> =
            self.members.disks_mut().map(|disk| disk.power_cut(now, random)).collect();
        self.members.forget_commands();
        self.desk.abandon();
        self.desk.power_cuts += 1;
        cuts.into_iter().collect()
    }

    fn report(&self) -> Report {
        let members = self.members.disks().map(Model::report).collect();
        Report::Array { members, power_cuts: self.desk.power_cuts }
    }

    fn reset_report(&mut self) {
        self.desk.power_cuts = 0;
        self.members.disks_mut().for_each(Model::reset_report);
    }
}
