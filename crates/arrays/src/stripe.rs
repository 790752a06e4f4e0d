//! RAID-0: chunks that go round the members.
//!
//! Any run of the array's bytes is one run on each member it touches ([`Striping`]), so a command of any size becomes at most one
//! command for each member. Nothing is redundant: an error of one member is an error of the array.

use super::{Arrangement, Array, Core, TRANSFER_BYTES_MAX, common_properties, invalid, names};
use nearhead_disk::{
    BufferMut, Class, Command, Completion, Disk, DiskError, PartDone, Payload, Properties, Run,
    Striping, Ticket, WholeRuns,
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
pub type Stripe<D> = Array<D, Striping>;

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
        Self::of_parts(disks, (chunk_bytes, None), u64::MAX, name)
    }

    /// The same, with runs of addresses that each lie on one member.
    ///
    /// Fails as above, and where such a run does not begin and end with chunks.
    pub fn with_whole_runs(
        disks: Vec<D>,
        chunk_bytes: u64,
        runs: WholeRuns,
    ) -> Result<Self, DiskError> {
        let name = format!("raid0:{} in chunks of {} KiB", names(&disks), chunk_bytes >> 10);
        Self::of_parts(disks, (chunk_bytes, Some(runs)), u64::MAX, name)
    }

    /// Stripes disks whose labels were read, using `member_bytes` of each.
    pub(super) fn labelled(
        disks: Vec<D>,
        shape: (u64, Option<WholeRuns>),
        member_bytes: u64,
    ) -> Result<Self, DiskError> {
        let name = format!("raid0:{} in chunks of {} KiB", names(&disks), shape.0 >> 10);
        Self::of_parts(disks, shape, member_bytes, name)
    }

    fn of_parts(
        disks: Vec<D>,
        (chunk_bytes, runs): (u64, Option<WholeRuns>),
        member_bytes: u64,
        name: String,
    ) -> Result<Self, DiskError> {
        let common = common_properties(&disks, 2, name)?;
        let usable = common.capacity_bytes.min(member_bytes);
        let plain = Striping::new(disks.len() as u32, chunk_bytes);
        let Some(plain) = plain.filter(|_| {
            usable >= chunk_bytes
                && chunk_bytes.is_multiple_of(u64::from(common.physical_sector_bytes))
        }) else {
            let problem = format!(
                "the smallest disk has {} bytes in sectors of {}: expected at least one chunk of \
                 {chunk_bytes}, of whole sectors",
                common.capacity_bytes, common.physical_sector_bytes
            );
            return Err(invalid(&common.name, &problem));
        };
        let with_runs = runs.map_or(Some(plain), |runs| plain.with_whole_runs(runs));
        let Some(striping) = with_runs else {
            let problem = format!(
                "expected runs on one member that begin and end with chunks of {chunk_bytes} bytes, found {runs:?}"
            );
            return Err(invalid(&common.name, &problem));
        };
        let depths = disks.iter().map(|disk| u32::from(disk.properties().queue_depth_max));
        let properties = Properties {
            capacity_bytes: striping.capacity(usable),
            transfer_bytes_max: transfer_bytes_max(striping, common.transfer_bytes_max),
            queue_depth_max: depths.sum::<u32>().min(u32::from(u16::MAX)) as u16,
            width: disks.iter().map(|disk| disk.properties().width).sum(),
            striping: Some(striping),
            ..common
        };
        Self::arranged(disks, properties, striping)
    }
}

/// A run of n times the chunks that a member takes at once gives it no more than that, unless all of it may lie on one.
fn transfer_bytes_max(striping: Striping, of_member: u32) -> u32 {
    let (chunk_bytes, member) = (striping.chunk_bytes(), u64::from(of_member));
    let chunked = member - member % chunk_bytes;
    if chunked == 0 || striping.whole_runs().is_some() {
        return of_member;
    }
    (chunked * u64::from(striping.members())).min(TRANSFER_BYTES_MAX.max(member)) as u32
}

/// A command for a run of a member.
type OfRun<'a> = &'a mut dyn FnMut(usize, Range<u64>) -> Command;

/// Gives every member its share of a range as one command.
fn spread<D: Disk>(
    striping: Striping,
    core: &mut Core<D, Parts>,
    (ticket, class): (Ticket, Class),
    bytes: Range<u64>,
    parts: Parts,
    command: OfRun<'_>,
) {
    let runs = || striping.runs(bytes.clone());
    let id = core.desk.book(ticket, runs().count(), parts);
    for (member, run) in runs() {
        core.members.submit(member as usize, id, class, command(member as usize, run), core.now);
    }
}

/// What of a write each member gets, one after the other.
fn shares(striping: Striping, offset: u64, parts: &[Payload]) -> Vec<Vec<Payload>> {
    let len = nearhead_disk::total_len(parts) as u64;
    let mut shares: Vec<Vec<Payload>> = vec![Vec::new(); striping.members() as usize];
    let mut source = Cursor { parts, inside: 0 };
    for (member, bytes) in striping.pieces(offset, len) {
        source.take(bytes, |part| shares[member as usize].push(part));
    }
    shares
}

impl Arrangement for Striping {
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
                spread(*self, core, from, offset..offset + u64::from(len), parts, &mut |_, run| {
                    Command::Read { offset: run.start, len: (run.end - run.start) as u32 }
                });
            }
            Command::Write { offset, parts, durable } => {
                let len = nearhead_disk::total_len(&parts) as u64;
                let mut shares = shares(*self, offset, &parts);
                spread(*self, core, from, offset..offset + len, none, &mut |member, run| {
                    let parts = std::mem::take(&mut shares[member]);
                    Command::Write { offset: run.start, parts, durable }
                });
            }
            Command::WriteZeroes { offset, len, durable } => {
                spread(*self, core, from, offset..offset + len, none, &mut |_, run| {
                    let len = run.end - run.start;
                    Command::WriteZeroes { offset: run.start, len, durable }
                });
            }
            Command::Trim { offset, len } => {
                spread(*self, core, from, offset..offset + len, none, &mut |_, run| {
                    Command::Trim { offset: run.start, len: run.end - run.start }
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

    /// Members that are mirrors put down that they are alike.
    fn leave<D: Disk>(&mut self, core: &mut Core<D, Parts>) {
        core.members.disks_mut().for_each(Disk::leave);
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
        let part = PartDone { member: member as u32, at: core.now };
        if core.desk.member_done(id, part, error) {
            core.desk.finish(id, |parts| Ok(parts.join(*self)));
        }
    }

    /// As far as what every member says of its next bytes is of one kind: each says nothing of the others' chunks.
    fn run_at<D: Disk>(&self, core: &Core<D, Parts>, offset: u64) -> Run {
        let of_member = |member: u32| {
            let from = self.before(offset, member);
            (from, core.members.disk(member as usize).run_at(from))
        };
        let zero = of_member(self.member_of(offset)).1.zero;
        let ends = (0..self.members()).map(|member| match of_member(member) {
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
    fn join(mut self, striping: Striping) -> Payload {
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
        for (member, bytes) in striping.pieces(offset, len as u64) {
            let from: &mut usize = &mut taken[member as usize];
            let piece = self.bytes[member as usize].slice(*from..*from + bytes);
            piece.copy_to(&mut whole[at..at + bytes]);
            (*from, at) = (*from + bytes, at + bytes);
        }
        Payload::Bytes(whole.freeze())
    }
}
