//! The disks of a life as its volume sees them: one, several as an array, with a map device or without.
//!
//! Each is a disk with faults of its own ([`SharedDisk`]); the array and the volume between them are the
//! program's. The power goes for all of them at once.

use crate::scenario::{Arrangement, Scenario};
use crate::shared_disk::SharedDisk;
use nearhead_basics::SplitMix;
use nearhead_disk::{Command, Disk, DiskError, Nanos, Payload, Properties, Striping, WholeRuns};
use nearhead_format::{Layout, MapDevice};

use nearhead_arrays::{
    ArrayKind, ArraySpec, LABEL_BYTES, Label, Purpose, ReadPolicy, label_of, open as open_array,
};
use nearhead_models::faults::{FaultCounts, FaultKind, FaultPlan, NthFault};
use nearhead_volume::{Lanes, SyncIo};
use std::ops::Range;

/// What is done with the array that a volume lies on, if it lies on one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Array {
    /// It is used.
    AsItIs,
    /// It is made.
    New {
        /// Runs of its addresses that each lie on one member.
        whole_runs: Option<WholeRuns>,
    },
}

/// All disks of a volume; who has one of them has them all.
pub(crate) struct Rig {
    arrangement: Arrangement,
    /// What the volume's own addresses lie on.
    members: Vec<SharedDisk>,
    map: Option<SharedDisk>,
    /// The data devices, and which of the volume's addresses are whose once that is known.
    data: Vec<SharedDisk>,
    /// So many of them, the last ones, are for logs of the volume that is made.
    for_logs: usize,
    addresses: Vec<Range<u64>>,
    /// In which order they are named changes each time.
    assembled: usize,
    /// How the volume's addresses go round the members, if they do.
    striping: Option<Striping>,
    /// What may happen to each disk, in the order of `disks`.
    plans: Vec<FaultPlan>,
    nth_is_of_map: bool,
    /// Decides when the member of a mirror that has faults is missing, if it ever is.
    absences: Option<SplitMix>,
    /// How often it was.
    pub(crate) absent: u64,
}

impl Rig {
    /// Disks of zeros, as the scenario wants them.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let properties = &scenario.properties;
        let capacity_bytes = properties.capacity_bytes;
        let count = scenario.arrangement.members();
        let member_bytes = match scenario.arrangement {
            Arrangement::One => capacity_bytes,
            Arrangement::Stripe { chunk_bytes, .. } => {
                let share_bytes = capacity_bytes.div_ceil(count as u64);
                share_bytes.next_multiple_of(chunk_bytes) + LABEL_BYTES
            }
            Arrangement::Mirror { .. } => capacity_bytes + LABEL_BYTES,
        };
        let disk = |name: String, capacity_bytes| {
            let properties = Properties { name, capacity_bytes, ..properties.clone() };
            SharedDisk::new(properties, scenario.latency)
        };
        let members = (0..count)
            .map(|member| {
                let disk = disk(format!("{} disk {member}", properties.name), member_bytes);
                disk.shingled_from(scenario.non_shingled_bytes())
            })
            .collect();
        let data = scenario.data_bytes.iter().chain(&scenario.log_device_bytes).enumerate();
        let data = data.map(|(position, bytes)| {
            let bytes =
                bytes / u64::from(properties.sector_bytes) * u64::from(properties.sector_bytes);
            disk(format!("{} data {position}", properties.name), bytes)
        });
        let data = data.collect();
        let map_name = format!("{} map", properties.name);
        Self {
            arrangement: scenario.arrangement,
            members,
            map: scenario.map_device_bytes.map(|bytes| disk(map_name, bytes)),
            data,
            for_logs: scenario.log_device_bytes.len(),
            addresses: Vec::new(),
            assembled: 0,
            striping: None,
            plans: Vec::new(),
            nth_is_of_map: scenario.nth_is_of_map_device,
            absences: matches!(scenario.arrangement, Arrangement::Mirror { goes_away: true, .. })
                .then(|| SplitMix::new(scenario.seed ^ 0x6973_5f61_7761_7921)),
            absent: 0,
        }
    }

    /// The member that has faults is missing at the next opening, perhaps, if the other has everything: also after a crash while
    /// they were being made alike.
    fn goes_away(
        &mut self,
        run: &mut impl FnMut(&mut SharedDisk, Command) -> Result<Payload, DiskError>,
    ) -> Option<usize> {
        let Arrangement::Mirror { faulty, .. } = self.arrangement else { return None };
        let random = self.absences.as_mut()?;
        if random.below(3) == 0 {
            return None;
        }
        let mut label = |member: usize| label_of(&mut self.members[member], run).ok().flatten();
        let (own, other) = (label(faulty), label(1 - faulty)?);
        let is_newest = own.is_none_or(|own| own.generation <= other.generation);
        (is_newest && other.counts(other.index)).then_some(faulty)
    }

    /// Nobody is missing from the next opening on. Whether anybody ever was.
    pub(crate) fn come_back(&mut self) -> bool {
        self.absences.take().is_some()
    }

    fn disks(&self) -> impl Iterator<Item = &SharedDisk> {
        self.members.iter().chain(&self.map).chain(&self.data)
    }

    /// The disks that a volume is made of, and what time it is then.
    pub(crate) fn assemble(
        &mut self,
        array: Array,
        mut now: Nanos,
    ) -> Result<(Lanes<Box<dyn Disk>>, Nanos), DiskError> {
        let mut run = |disk: &mut SharedDisk, command: Command| {
            let mut io = SyncIo::in_virtual_time(disk, now);
            let result = io.run(command);
            now = io.now();
            result
        };
        let main: Box<dyn Disk> = match self.arrangement {
            Arrangement::One => Box::new(self.members[0].clone()),
            arrangement => {
                let purpose = match array {
                    Array::AsItIs => Purpose::Use,
                    Array::New { whole_runs } => {
                        let array_id = *b"an array of life";
                        Purpose::Make { array_id, anew: true, whole_runs }
                    }
                };
                let mut disks: Vec<_> = self.members.iter().cloned().map(Some).collect();
                let members = self.members.iter().map(|disk| disk.properties().name.clone());
                let spec = ArraySpec { kind: arrangement.kind(), members: members.collect() };
                if purpose == Purpose::Use
                    && let Some(member) = self.goes_away(&mut run)
                {
                    disks[member] = None;
                    self.absent += 1;
                }
                let (disk, _) = open_array(&spec, disks, purpose, &mut run)?;
                self.striping = disk.properties().striping;
                disk
            }
        };
        let lanes = match &self.map {
            None => main.into(),
            Some(map) => Lanes::with_map(main, Box::new(map.clone()))?,
        };
        let mut data: Vec<Box<dyn Disk>> = Vec::new();
        data.extend(self.data.iter().map(|disk| Box::new(disk.clone()) as Box<dyn Disk>));
        // A new volume takes them as they are named, and must know them again in any order.
        let turned = self.assembled % data.len().max(1);
        data.rotate_left(turned);
        self.assembled += usize::from(matches!(array, Array::AsItIs));
        // Of one that was made each says itself what it is for.
        let logs = data.split_off(data.len() - self.for_logs);
        Ok((lanes.with_data(data)?.with_log_devices(logs)?, now))
    }

    /// The power goes and comes back.
    pub(crate) fn power_cut(&mut self) {
        self.disks().for_each(SharedDisk::power_cut);
    }

    /// Other disks, without faults: what a power cut now might leave of these, as `seed` decides.
    pub(crate) fn forked(&self, seed: u64) -> Self {
        let fork = |(number, disk): (u64, &SharedDisk)| disk.forked(seed.wrapping_add(number));
        Self {
            arrangement: self.arrangement,
            members: (0..).zip(&self.members).map(fork).collect(),
            map: self.map.as_ref().map(|map| map.forked(!seed)),
            data: (100..).zip(&self.data).map(fork).collect(),
            for_logs: self.for_logs,
            addresses: self.addresses.clone(),
            assembled: self.assembled,
            striping: self.striping,
            plans: Vec::new(),
            nth_is_of_map: false,
            absences: None,
            absent: 0,
        }
    }

    /// The program that used them is gone.
    pub(crate) fn disown(&mut self) {
        self.disks().for_each(SharedDisk::disown);
    }

    /// The only disk is larger now; nobody may use it meanwhile.
    pub(crate) fn enlarge(&mut self, capacity_bytes: u64) {
        let disk = self.members.remove(0);
        self.members.insert(0, disk.enlarged(capacity_bytes));
    }

    /// Gives each disk its share of `plan`, whose ranges are the volume's own addresses. Of a mirror only
    /// one member fails: more is not survived.
    pub(crate) fn set_plan(&mut self, plan: &FaultPlan, layout: &Layout) {
        self.plans.clear();
        self.addresses = layout.data_devices().collect();
        let own = if self.data.is_empty() { u64::MAX } else { layout.device_bytes };
        for member in 0..self.members.len() {
            let share = |ranges: &[Range<u64>]| {
                let ranges = ranges.iter().map(|range| range.start..range.end.min(own));
                let shares = ranges.map(|range| self.share(member, &range));
                shares.filter(|range| !range.is_empty()).collect()
            };
            let mut of_member = FaultPlan {
                seed: plan.seed ^ member as u64,
                verified: share(&plan.verified),
                damageable: share(&plan.damageable),
                nth: plan.nth.filter(|_| member == 0 && !self.nth_is_of_map),
                ..plan.clone()
            };
            if matches!(self.arrangement, Arrangement::Mirror { faulty, .. } if faulty != member) {
                for kind in FaultKind::ALL.into_iter().filter(|kind| !kind.is_of_a_cut()) {
                    of_member = of_member.without(kind);
                }
            }
            self.plans.push(of_member);
        }
        if self.map.is_some() {
            let slots: Vec<_> = self.slots(layout).into_iter().map(|(_, slot)| slot).collect();
            let (verified, damageable) = (slots.clone(), slots);
            let nth = plan.nth.filter(|_| self.nth_is_of_map);
            let seed = plan.seed ^ 0xff;
            let of_map = FaultPlan { seed, verified, damageable, nth, ..plan.clone() };
            self.plans.push(of_map);
        }
        for (number, addresses) in (0x100..).zip(&self.addresses) {
            let share = |ranges: &[Range<u64>]| {
                let inside = ranges.iter().filter(|range| addresses.contains(&range.start));
                inside
                    .map(|range| range.start - addresses.start..range.end - addresses.start)
                    .collect()
            };
            self.plans.push(FaultPlan {
                seed: plan.seed ^ number,
                verified: share(&plan.verified),
                damageable: share(&plan.damageable),
                nth: None,
                ..plan.clone()
            });
        }
        self.resume_plan();
    }

    /// The disk that has this address of the volume, and which byte of it that is.
    fn disk_at(&self, address: u64) -> (&SharedDisk, u64) {
        let at = self.addresses.iter().position(|addresses| addresses.contains(&address));
        at.map_or((&self.members[0], address), |at| {
            (&self.data[at], address - self.addresses[at].start)
        })
    }

    /// The bytes of a member that hold its share of a range.
    fn share(&self, member: usize, range: &Range<u64>) -> Range<u64> {
        let of = |striping: Striping| striping.run(member as u32, range);
        self.striping.map_or_else(|| range.clone(), of)
    }

    /// Only the n-th command to the first disk fails from now on, until `resume_plan`.
    pub(crate) fn fail_only(&mut self, nth: NthFault, seed: u64) {
        for (number, disk) in self.disks().enumerate() {
            let nth = Some(nth).filter(|_| number == 0);
            disk.faults().set_plan(FaultPlan { nth, ..FaultPlan::none(seed) });
            disk.faults().arm(true);
        }
    }

    /// What `set_plan` said holds again.
    pub(crate) fn resume_plan(&mut self) {
        for (disk, plan) in self.disks().zip(&self.plans) {
            disk.faults().set_plan(plan.clone());
        }
    }

    /// Switches faults on, with at most `silent` of those that nobody is told of; or off.
    pub(crate) fn arm(&mut self, armed: bool, silent: u64) {
        self.disks().for_each(|disk| disk.faults().arm(armed));
        self.allow_silent(silent);
    }

    /// At most so many silent faults from now on: where the snapshots are, if that is a device of their own or of the data.
    pub(crate) fn allow_silent(&mut self, count: u64) {
        let beside = self.map.is_some() || !self.data.is_empty();
        for (number, disk) in self.disks().enumerate() {
            let is_here = !beside || number == self.members.len();
            let of_this = if is_here { count } else { 0 };
            disk.faults().allow_silent(of_this);
        }
    }

    /// Faults of all disks.
    pub(crate) fn counts(&self) -> FaultCounts {
        let mut all = FaultCounts::default();
        self.disks().for_each(|disk| all.add(disk.faults().counts()));
        all
    }

    /// Commands that all disks took.
    pub(crate) fn commands(&self) -> u64 {
        self.disks().map(|disk| disk.faults().commands()).sum()
    }

    /// Commands that will never be answered.
    pub(crate) fn hung(&self) -> usize {
        self.disks().map(|disk| disk.faults().hung()).sum()
    }

    /// When a disk next answers something.
    pub(crate) fn wake_at(&self) -> Option<Nanos> {
        self.disks().filter_map(Disk::wake_at).min()
    }

    /// Whether no fault may show: a member without any has everything, always. But a command that hangs
    /// keeps a mirror waiting.
    pub(crate) fn hides_faults(&self) -> bool {
        let healthy = matches!(self.arrangement, Arrangement::Mirror { faulty: 1, .. });
        healthy && self.map.is_none() && self.data.is_empty() && self.hung() == 0
    }

    /// Turns bits over in the volume's own addresses, of a disk at rest.
    pub(crate) fn rot_in(&mut self, range: Range<u64>) {
        let (disk, start) = self.disk_at(range.start);
        disk.faults().rot_in(start..start + (range.end - range.start));
    }

    /// The slots of the map's snapshots: on the map device or not, and the bytes there.
    fn slots(&self, layout: &Layout) -> Vec<(bool, Range<u64>)> {
        let map = self
            .map
            .as_ref()
            .and_then(|map| MapDevice::plan(map.properties().capacity_bytes, [0; 16], [0; 16]));
        let (offsets, bytes) = map.map_or((layout.slot_offsets, layout.slot_bytes), |map| {
            (map.slot_offsets, map.slot_bytes)
        });
        offsets.map(|start| (map.is_some(), start..start + bytes)).to_vec()
    }

    /// Turns bits over in a sector of a snapshot's slot: its header, near the start of its body, or the
    /// header's copy.
    pub(crate) fn rot_in_slot(&mut self, layout: &Layout, slot: usize, part: usize) {
        let (on_map, slot) = self.slots(layout)[slot].clone();
        let copy = slot.end - nearhead_format::snapshot::SNAPSHOT_HEADER_BYTES;
        let at = [slot.start, slot.start + 4096, slot.start + 8192, copy][part];
        if let Some(map) = self.map.as_ref().filter(|_| on_map) {
            return map.faults().rot_in(at..at + 512);
        }
        self.rot_in(at..at + 512);
    }

    /// Whether a slot's header and its copy are the same: a cut between the two, or an error of the second, leaves a
    /// header that nothing makes up for (SAFETY.md).
    pub(crate) fn header_has_copy(&mut self, layout: &Layout, slot: usize) -> bool {
        let (on_map, slot) = self.slots(layout)[slot].clone();
        let header_bytes = nearhead_format::snapshot::SNAPSHOT_HEADER_BYTES;
        let (own, start) = self.disk_at(slot.start);
        let map = self.map.as_ref().filter(|_| on_map);
        let (mut disk, slot) = match map {
            Some(map) => (map.clone(), slot),
            None => (own.clone(), start..start + (slot.end - slot.start)),
        };
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        let mut read =
            |offset| io.read(offset, header_bytes as usize).ok().map(|bytes| bytes.to_vec());
        let (front, copy) = (read(slot.start), read(slot.end - header_bytes));
        front.is_some() && front == copy
    }

    /// The members of a mirror hold the same if both count and it was left in order; false if one does not, or
    /// there was no time to make them alike.
    pub(crate) fn compare(&mut self) -> Result<bool, String> {
        let mut run = |disk: &mut SharedDisk, command: Command| {
            SyncIo::in_virtual_time(disk, Nanos::ZERO).run(command)
        };
        let mut labels = Vec::new();
        for disk in &mut self.members {
            labels.push(label_of(disk, &mut run).map_err(|error| error.detail)?);
        }
        let Some(labels) = labels.into_iter().collect::<Option<Vec<_>>>() else {
            return Err("a member of the mirror lost its label".to_owned());
        };
        let generation = labels[0].generation;
        let is_whole = |label: &Label| {
            label.counts(label.index) && label.generation == generation && !label.in_use
        };
        if !labels.iter().all(is_whole) {
            return Ok(false);
        }
        let step = 1 << 20;
        for offset in (0..labels[0].member_bytes).step_by(step) {
            let len = (labels[0].member_bytes - offset).min(step as u64) as u32;
            let mut read = |member: usize| {
                let result = run(&mut self.members[member], Command::Read { offset, len });
                let payload = result.map_err(|error| error.detail)?;
                let mut bytes = vec![0; payload.len()];
                payload.copy_to(&mut bytes);
                Ok::<_, String>(bytes)
            };
            let (first, second) = (read(0)?, read(1)?);
            if let Some(at) = first.iter().zip(&second).position(|(one, other)| one != other) {
                let at = offset + at as u64;
                return Err(format!("both members of the mirror count, and differ at byte {at}"));
            }
        }
        Ok(true)
    }
}

impl Arrangement {
    /// How many disks hold the volume's own addresses.
    fn members(self) -> usize {
        match self {
            Self::One => 1,
            Self::Stripe { members, .. } => members,
            Self::Mirror { .. } => 2,
        }
    }

    fn kind(self) -> ArrayKind {
        match self {
            Self::Stripe { chunk_bytes, .. } => ArrayKind::Stripe { chunk_bytes },
            _ => ArrayKind::Mirror { policy: ReadPolicy::First, take: None, replace: None },
        }
    }
}
