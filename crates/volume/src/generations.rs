//! Generations of the devices of a volume: read, compared, and raised, so that an older copy of a device is never served.
//!
//! Every device has the number of the last opening with a change, or orderly stop after it, that it took part in
//! ([`nearhead_format::generation`]). What stays true:
//!
//! - no write of a client is accepted before every device that is there has the generation of this opening, which begins with the
//!   first change (`raising`);
//! - the volume's own device is written first and last: while a raise is under way it says which generation each of the others had
//!   and which one it gets. A power cut between any two of these writes leaves a volume that opens;
//! - a device that was away has the generation at which it left, and the others remember that: it may come back, and an older copy of
//!   it may not.
//!
//! A volume on one device has a generation too, for those who keep something for it elsewhere; nothing is compared there. A device for
//! the read cache has none, as all that it holds is forgotten at each start. This must never write to a volume that is only looked at.

mod raising;

pub(crate) use raising::Raising;

use crate::create::write_superblocks;
use crate::data_devices;
use crate::map_device;
use crate::open::OpenError;
use crate::sync_io::SyncIo;
use crate::without_log;
use nearhead_disk::{At, BufferMut, Command, Disk, DiskError, Lane, Payload};
use nearhead_format::generation::{
    DEVICES_MAX, GENERATION_BYTES, GENERATION_OFFSETS, MAP_DEVICE_NUMBER, has_room,
};
use nearhead_format::superblock::FEATURE_GENERATIONS;
use nearhead_format::{DeviceGeneration, MapDevice, Superblock, VolumeId};
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Number of the volume's own device.
const OWN: usize = 0;

/// Which generations of each device belong to a generation of the volume.
type Belonging = [RangeInclusive<u64>; DEVICES_MAX];

/// A device that is there.
#[derive(Clone, Debug)]
struct Member {
    number: usize,
    lane: Lane,
    name: String,
    /// Its generation; 0 if it has none.
    generation: u64,
    sequence: u64,
    /// Header of the map device, and the unit in which it is written; none for other devices.
    header: Option<(MapDevice, usize)>,
}

/// The generations of the devices that are there.
#[derive(Clone, Debug)]
pub(crate) struct Generations {
    volume_id: VolumeId,
    members: Vec<Member>,
    /// Label of the volume's own device, which describes all of them; none if it has none.
    own: Option<DeviceGeneration>,
}

/// Why the generations are raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The volume is changed for the first time since it was opened.
    Opened,
    /// It was stopped in order; `drained` if nothing was left in its logs.
    Stopped { drained: bool },
}

impl Generations {
    /// Reads those of all devices at hand, which are joined.
    pub(crate) fn read(io: &mut SyncIo<'_>, superblock: &Superblock) -> Self {
        let volume_id = superblock.volume_id;
        let (mut members, mut own) = (Vec::new(), None);
        if !has_room(&superblock.layout) {
            return Self { volume_id, members, own };
        }
        let data = 0..superblock.layout.data_parts.bytes().len() as u8;
        let lanes = std::iter::once(Lane::MAIN).chain(data.map(Lane::data));
        for (number, lane) in lanes.enumerate() {
            if io.lane(lane).is_none_or(Disk::is_absent) {
                continue;
            }
            let found = read_block(io, lane, number, &volume_id);
            members.push(Member {
                number,
                lane,
                name: name_of(io, lane),
                generation: found.as_ref().map_or(0, |found| found.generation),
                sequence: found.as_ref().map_or(0, |found| found.sequence),
                header: None,
            });
            own = own.or(found.filter(|_| number == OWN));
        }
        members.extend(map_member(io, superblock));
        Self { volume_id, members, own }
    }

    /// Whether the volume lies on several devices.
    pub(crate) fn are_several(&self) -> bool {
        self.members.len() > 1
    }

    /// The newest generation of a device that is there.
    pub(crate) fn newest(&self) -> u64 {
        self.members.iter().map(|member| member.generation).max().unwrap_or(0)
    }

    /// Refuses a device that is older than the others say it should be.
    pub(crate) fn check(&self, superblock: &Superblock) -> Result<(), String> {
        if !superblock.has_several_devices() {
            return Ok(());
        }
        let own_name = self.members.first().map_or("", |own| own.name.as_str());
        let newest = self.newest();
        let own = match &self.own {
            // A power cut during the first raise of a volume without generations leaves this state.
            _ if !superblock.has_generations() && newest <= 1 => return Ok(()),
            Some(own) if own.generation == newest && superblock.has_generations() => own,
            own => {
                let newer = self.members.iter().find(|member| member.generation == newest);
                return Err(stale(
                    ("the volume's own device", own_name),
                    (&(newest..=newest), newer.map_or("", |newer| newer.name.as_str())),
                    own.as_ref().map_or(0, |own| own.generation),
                    "",
                ));
            }
        };
        let is_stale =
            |member: &&Member| !own.belonging[member.number].contains(&member.generation);
        let Some(member) = self.members.iter().skip(1).find(is_stale) else { return Ok(()) };
        let (called, instead) = match member.lane.data_position() {
            None => ("the map device".to_owned(), ""),
            Some(position) => {
                let has_map = position == 0
                    && superblock.map_device_id.is_none()
                    && !superblock.layout.is_chain();
                let instead = ", or name it `missing` to go on without what it holds";
                let instead = if has_map { "" } else { instead };
                (data_devices::called(superblock, position.into()), instead)
            }
        };
        let expected = (&own.belonging[member.number], own_name);
        Err(stale((&called, &member.name), expected, member.generation, instead))
    }

    /// The writes that raise all of them by one.
    pub(crate) fn raise(&self, cause: Cause) -> Raise {
        let generation = self.newest() + 1;
        // Generations of a device that is not there stay as they are known.
        let known = self.own.as_ref().map(|own| own.belonging.clone());
        let mut settled = known.unwrap_or_else(|| std::array::from_fn(|_| 0..=0));
        let mut begun = settled.clone();
        for member in &self.members {
            settled[member.number] = generation..=generation;
            begun[member.number] = member.generation..=generation;
        }
        begun[OWN] = generation..=generation;
        settled[OWN] = generation..=generation;
        let raised = Self {
            members: self
                .members
                .iter()
                .map(|member| Member {
                    generation,
                    sequence: member.sequence + 2,
                    ..member.clone()
                })
                .collect(),
            ..self.clone()
        };
        let steps = [Step::Begin, Step::Others(0), Step::Others(1), Step::Settle];
        let steps = if self.are_several() { &steps[..] } else { &steps[3..] };
        Raise { generation, cause, begun, settled, raised, steps: steps.iter().copied().collect() }
    }
}

/// A part of a raise: writes in any order, all of which are durable before the next part begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The volume's own device says what begins.
    Begin,
    /// The others get the generation; a map device one of its copies at a time.
    Others(usize),
    /// The volume's own device says that they have it.
    Settle,
}

/// A durable write of a raise.
#[derive(Clone, Debug)]
pub(crate) struct LabelWrite {
    number: usize,
    pub(crate) at: At,
    bytes: Vec<u8>,
}

impl LabelWrite {
    pub(crate) fn command(&self) -> Command {
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&self.bytes).freeze())];
        Command::Write { offset: self.at.offset, parts, durable: true }
    }
}

/// A raise of all generations, step by step.
#[derive(Clone, Debug)]
pub(crate) struct Raise {
    generation: u64,
    cause: Cause,
    /// Generations that belong together during the raise, and after it.
    begun: Belonging,
    settled: Belonging,
    raised: Generations,
    steps: VecDeque<Step>,
}

impl Raise {
    /// The next writes, once those before them are durable; none when it is done.
    pub(crate) fn next_writes(&mut self) -> Option<Vec<LabelWrite>> {
        loop {
            let step = self.steps.pop_front()?;
            let writes = match step {
                Step::Begin => self.of_own(&self.begun, 1),
                Step::Settle => self.of_own(&self.settled, 2),
                Step::Others(copy) => {
                    let others = self.raised.members.iter().filter(|member| member.number != OWN);
                    others.flat_map(|member| self.of_other(member, copy)).collect()
                }
            };
            if !writes.is_empty() {
                return Some(writes);
            }
        }
    }

    /// A write failed. Only the volume's own device must take its own.
    pub(crate) fn failed(&mut self, write: &LabelWrite, error: DiskError) -> Result<(), DiskError> {
        if write.number == OWN {
            return Err(error);
        }
        // The write may have reached the device.
        let begun = self.begun[write.number].clone();
        let members = &mut self.raised.members;
        if let Some(member) = members.iter_mut().find(|member| member.number == write.number) {
            member.generation = *begun.start();
        }
        self.settled[write.number] = begun;
        Ok(())
    }

    /// The generations as they are once all is written.
    pub(crate) fn done(mut self) -> Generations {
        self.raised.own = self.block(OWN, &self.settled, 2);
        self.raised
    }

    fn of_own(&self, belonging: &Belonging, sequence: u64) -> Vec<LabelWrite> {
        let block = self.block(OWN, belonging, sequence);
        block.map_or_else(Vec::new, |block| at_both_places(OWN, Lane::MAIN, &block))
    }

    fn of_other(&self, member: &Member, copy: usize) -> Vec<LabelWrite> {
        let Some((header, unit)) = &member.header else {
            let block = self.block(member.number, &self.settled, 2).filter(|_| copy == 0);
            return block
                .map_or_else(Vec::new, |block| at_both_places(member.number, member.lane, &block));
        };
        let bytes = MapDevice { generation: self.generation, ..*header }.encode();
        // The second copy first: the first one is where a header without a generation begins.
        let from = nearhead_format::map_device::MAP_DEVICE_COPIES[1 - copy] / unit * unit;
        let at = At { lane: member.lane, offset: from as u64 };
        vec![LabelWrite { number: member.number, at, bytes: bytes[from..from + unit].to_vec() }]
    }

    /// Label of a device; none if it is not there. `sequence` counts from what it had.
    fn block(
        &self,
        number: usize,
        belonging: &Belonging,
        sequence: u64,
    ) -> Option<DeviceGeneration> {
        let member = self.raised.members.iter().find(|member| member.number == number)?;
        Some(DeviceGeneration {
            volume_id: self.raised.volume_id,
            sequence: member.sequence - 2 + sequence,
            generation: self.generation,
            device: number as u32,
            stopped_in_order: matches!(self.cause, Cause::Stopped { .. }),
            drained: self.cause == Cause::Stopped { drained: true },
            belonging: belonging.clone(),
        })
    }

    /// Carries it out; says what the devices have then.
    pub(crate) fn run(mut self, io: &mut SyncIo<'_>) -> Result<Generations, OpenError> {
        while let Some(writes) = self.next_writes() {
            for write in writes {
                if let Err(error) = io.run_on(write.at.lane, write.command()) {
                    self.failed(&write, error)?;
                }
            }
        }
        Ok(self.done())
    }
}

fn at_both_places(number: usize, lane: Lane, block: &DeviceGeneration) -> Vec<LabelWrite> {
    let bytes = block.encode().to_vec();
    let at = GENERATION_OFFSETS.map(|offset| At { lane, offset });
    at.into_iter().map(|at| LabelWrite { number, at, bytes: bytes.clone() }).collect()
}

/// The newer sound copy of a device's block, if one is the volume's and the device's.
fn read_block(
    io: &mut SyncIo<'_>,
    lane: Lane,
    number: usize,
    volume_id: &VolumeId,
) -> Option<DeviceGeneration> {
    let found = GENERATION_OFFSETS.into_iter().filter_map(|offset| {
        let bytes = io.read(At { lane, offset }, GENERATION_BYTES).ok()?;
        DeviceGeneration::decode(&bytes).ok()
    });
    let found: Vec<_> = found.collect();
    let is_its_own =
        |block: &DeviceGeneration| block.volume_id == *volume_id && block.device as usize == number;
    found.into_iter().filter(is_its_own).max_by_key(|block| block.sequence)
}

/// The map device, if it is there and the volume's: which it is, is checked elsewhere.
fn map_member(io: &mut SyncIo<'_>, superblock: &Superblock) -> Option<Member> {
    let id = superblock.map_device_id?;
    let properties = io.lane(map_device::LANE)?.properties();
    let (name, bytes) = (properties.name.clone(), properties.capacity_bytes);
    let unit = (properties.sector_bytes as usize).clamp(512, 4096);
    let block = map_device::read_header(io).ok()?;
    let header = MapDevice::decode(&block, bytes).ok()?;
    let is_its_own = header.map_device_id == id && header.volume_id == superblock.volume_id;
    is_its_own.then_some(Member {
        number: MAP_DEVICE_NUMBER,
        lane: map_device::LANE,
        name,
        generation: header.generation,
        sequence: 0,
        header: Some((header, unit)),
    })
}

fn name_of(io: &SyncIo<'_>, lane: Lane) -> String {
    io.lane(lane).map(|disk| disk.properties().name.clone()).unwrap_or_default()
}

fn stale(
    (called, name): (&str, &str),
    (expected, by): (&RangeInclusive<u64>, &str),
    found: u64,
    instead: &str,
) -> String {
    let found = if found == 0 { "none".to_owned() } else { found.to_string() };
    let expected = if expected.start() == expected.end() {
        expected.end().to_string()
    } else {
        format!("{} to {}", expected.start(), expected.end())
    };
    format!(
        "{called}, {name}: expected generation {expected}, as {by} has it, found {found}: it is an older copy, or the volume was used \
         without it; attach the newest copy of this device, or copies of all devices that were made at one time while the volume was \
         stopped{instead}"
    )
}

/// Prepares a volume that is going to be written: one on several devices without generations gets them, and the other devices get
/// a copy of the superblock.
pub(crate) fn prepare_to_write(
    io: &mut SyncIo<'_>,
    superblock: &mut Superblock,
    found: Generations,
) -> Result<Generations, OpenError> {
    if !superblock.has_several_devices() || !has_room(&superblock.layout) {
        return Ok(found);
    }
    let devices = 0..superblock.layout.data_parts.bytes().len();
    io.join(&superblock.layout, &devices.collect::<Vec<_>>());
    let mut generations = found;
    if !superblock.has_generations() {
        generations = generations.raise(Cause::Opened).run(io)?;
        superblock.feature_ro_compat |= FEATURE_GENERATIONS;
        superblock.generation += 1;
        write_superblocks(io, superblock)?;
    }
    without_log::keep_superblock(io, superblock);
    Ok(generations)
}

/// Gives the devices of a volume that is made, or found again without a record of its generations, a common one.
pub(crate) fn begin(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<(), DiskError> {
    if !superblock.has_several_devices() {
        return Ok(());
    }
    let found = Generations::read(io, superblock);
    found.raise(Cause::Opened).run(io).map(drop).map_err(|error| match error {
        OpenError::Disk(error) => error,
        other => DiskError { kind: nearhead_disk::DiskErrorKind::Io, detail: other.to_string() },
    })
}

/// Identity and generation of the volume on these devices: raised by one before the first change of each opening and, on several
/// devices, at the orderly stop after it. 0 if no program that counts has changed it. Changes nothing.
///
/// # Errors
/// The volume cannot be opened.
pub fn generation(io: &mut SyncIo<'_>) -> Result<(VolumeId, u64), OpenError> {
    let superblock = crate::open::find_superblock(io)?.superblock;
    let found = Generations::read(io, &superblock);
    Ok((superblock.volume_id, found.newest()))
}
