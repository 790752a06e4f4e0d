//! RAID-0: chunks that go round the members.
//!
//! Chunk `i` of the array is chunk `i / n` of member `i mod n`. So any run of the array's bytes is
//! one run on each member it touches, and a command of any size becomes at most one command per
//! member. Nothing is redundant: an error of one member is an error of the array.

use super::{Arrangement, Array, Core, TRANSFER_BYTES_MAX, common_properties, invalid, names};
use nearhead_disk::{
    BufferMut, Class, Command, Completion, Disk, DiskError, Payload, Properties, Run, Ticket,
};
use std::ops::Range;

/// Smallest and largest chunk: below, one page of a host would be torn apart; above, nothing is
/// gained by striping.
const CHUNK_BYTES: Range<u64> = 4 << 10..(16 << 20) + 1;

/// What a command waits for.
#[derive(Default)]
pub struct Parts {
    /// Of a read: where it began, its length, and the bytes of each member.
    read: Option<(u64, usize)>,
    bytes: Vec<Payload>,
}

/// A RAID-0 of disks.
pub type Stripe<D> = Array<D, ChunkMap>;

/// Which byte is where.
#[derive(Clone, Copy, Debug)]
pub struct ChunkMap {
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

    /// Where in the array byte `at` of `member` is.
    fn place(self, member: u64, at: u64) -> u64 {
        let row = (at / self.chunk_bytes).saturating_mul(self.chunk_bytes * self.members);
        row.saturating_add(member * self.chunk_bytes + at % self.chunk_bytes)
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

/// The bytes of `member` that hold its share of `range` of a stripe of `members` in chunks of `chunk_bytes`.
pub fn member_run(members: u64, chunk_bytes: u64, member: u64, range: &Range<u64>) -> Range<u64> {
    ChunkMap { members, chunk_bytes }.run(member, range.start, range.end - range.start)
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
        Self::of_parts(disks, chunk_bytes, u64::MAX, name)
    }

    /// Stripes disks whose labels were read, using `member_bytes` of each.
    pub(super) fn labelled(
        disks: Vec<D>,
        chunk_bytes: u64,
        member_bytes: u64,
    ) -> Result<Self, DiskError> {
        let name = format!("raid0:{} in chunks of {} KiB", names(&disks), chunk_bytes >> 10);
        Self::of_parts(disks, chunk_bytes, member_bytes, name)
    }

    fn of_parts(
        disks: Vec<D>,
        chunk_bytes: u64,
        member_bytes: u64,
        name: String,
    ) -> Result<Self, DiskError> {
        let common = common_properties(&disks, 2, name)?;
        let count = disks.len() as u64;
        let usable = common.capacity_bytes.min(member_bytes);
        let per_member = usable - usable % chunk_bytes;
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
            width: disks.iter().map(|disk| disk.properties().width).sum(),
            ..common
        };
        Self::arranged(disks, properties, ChunkMap { members: count, chunk_bytes })
    }
}

/// A command for a run of a member.
type OfRun<'a> = &'a mut dyn FnMut(Range<u64>) -> Command;

impl ChunkMap {
    /// Gives every member its share of a range as one command.
    fn spread<D: Disk>(
        self,
        core: &mut Core<D, Parts>,
        (ticket, class): (Ticket, Class),
        (offset, len): (u64, u64),
        parts: Parts,
        command: OfRun<'_>,
    ) {
        let runs: Vec<_> = (0..self.members)
            .map(|member| (member as usize, self.run(member, offset, len)))
            .filter(|(_, run)| !run.is_empty())
            .collect();
        let id = core.desk.book(ticket, runs.len(), parts);
        for (member, run) in runs {
            core.members.submit(member, id, class, command(run), core.now);
        }
    }

    /// What of a write each member gets, one after the other.
    fn shares(self, offset: u64, parts: &[Payload]) -> Vec<Vec<Payload>> {
        let len = nearhead_disk::total_len(parts) as u64;
        let mut shares: Vec<Vec<Payload>> = vec![Vec::new(); self.members as usize];
        let mut source = Cursor { parts, inside: 0 };
        for (member, bytes) in self.pieces(offset, len) {
            source.take(bytes, |part| shares[member].push(part));
        }
        shares
    }
}

impl Arrangement for ChunkMap {
    type Parts = Parts;

    fn submit<D: Disk>(
        &mut self,
        core: &mut Core<D, Parts>,
        ticket: Ticket,
        class: Class,
        command: Command,
    ) {
        let from = (ticket, class);
        let none = Parts::default();
        match command {
            Command::Read { offset, len } => {
                let bytes = vec![Payload::EMPTY; core.members.len()];
                let parts = Parts { read: Some((offset, len as usize)), bytes };
                self.spread(core, from, (offset, u64::from(len)), parts, &mut |run| {
                    Command::Read { offset: run.start, len: (run.end - run.start) as u32 }
                });
            }
            Command::Write { offset, parts, durable } => {
                let len = nearhead_disk::total_len(&parts) as u64;
                let shares = self.shares(offset, &parts);
                let mut shares = shares.into_iter().filter(|share| !share.is_empty());
                self.spread(core, from, (offset, len), none, &mut |run| {
                    let parts = shares.next().unwrap_or_default();
                    Command::Write { offset: run.start, parts, durable }
                });
            }
            Command::WriteZeroes { offset, len, durable } => {
                self.spread(core, from, (offset, len), none, &mut |run| {
                    let len = run.end - run.start;
                    Command::WriteZeroes { offset: run.start, len, durable }
                });
            }
            Command::Trim { offset, len } => {
                self.spread(core, from, (offset, len), none, &mut |run| Command::Trim {
                    offset: run.start,
                    len: run.end - run.start,
                });
            }
            Command::Flush => {
                let members = core.members.len();
                let id = core.desk.book(from.0, members, none);
                for member in 0..members {
                    core.members.submit(member, id, class, Command::Flush, core.now);
                }
            }
        }
    }

    fn settle<D: Disk>(&mut self, core: &mut Core<D, Parts>, member: usize, done: Completion) {
        let id = done.id.0;
        let error = match done.result {
            Ok(bytes) => {
                let parts = core.desk.get_mut(id).map(|command| &mut command.kind);
                if let Some(place) = parts.and_then(|parts| parts.bytes.get_mut(member)) {
                    *place = bytes;
                }
                None
            }
            Err(error) => Some(core.name_error(member, &error)),
        };
        if core.desk.part_done(id, error) {
            core.desk.finish(id, |parts| Ok(parts.join(*self)));
        }
    }

    /// As far as what every member says of its next bytes is of one kind: each says nothing of the others' chunks.
    fn run_at<D: Disk>(&self, core: &Core<D, Parts>, offset: u64) -> Run {
        let owner = offset / self.chunk_bytes % self.members;
        let of_member = |member: u64| {
            let from = self.before(offset, member);
            (from, core.members.disk(member as usize).run_at(from))
        };
        let zero = of_member(owner).1.zero;
        let ends = (0..self.members).map(|member| match of_member(member) {
            (from, run) if run.zero == zero => {
                self.place(member, from.saturating_add(run.len.max(1)))
            }
            (from, _) => self.place(member, from),
        });
        // None ends before the byte itself: its owner says something of that, and all others of later ones.
        let end = ends.min().unwrap_or(offset);
        Run { len: end.saturating_sub(offset).max(1), zero }
    }

    fn trouble<D: Disk>(&self, _: &Core<D, Parts>) -> Option<String> {
        None
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
    /// Puts together what was read; every part of it was.
    fn join(mut self, map: ChunkMap) -> Payload {
        let Some((offset, len)) = self.read else { return Payload::EMPTY };
        let mut filled = self.bytes.iter_mut().filter(|bytes| !bytes.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next()) {
            return std::mem::replace(only, Payload::EMPTY);
        }
        if self.bytes.iter().any(|bytes| matches!(bytes, Payload::Phantom(_))) {
            return Payload::Phantom(len);
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
        Payload::Bytes(whole.freeze())
    }
}
