//! An open volume: an engine on its disks, served.
//!
//! It only carries messages between them, in both directions, until nobody has anything left to do at the present
//! time.

mod waiting;

use crate::blanks::Loaded;
use crate::data_devices;
use crate::generations::{self, Cause, Generations, Raising};
use crate::grow::{self, GrowError, Growth};
use crate::lanes::Lanes;
use crate::open::{Found, OpenError, find_with_generations, preset_of};
use crate::opening::{Beside, Clock, damage_of, setup};
use crate::presets::{NamedPreset, Presets};
use crate::resting::Resting;
use crate::sync_io::{self, SyncIo};
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::{
    Config, Damage, DiskEvent, Engine, MapPlace, REQUEST_BYTES_MAX, Status, Tuning,
};
use nearhead_format::Superblock;
use nearhead_service::{Extent, Reply, Request, Service, ServiceInfo, Wake};
use std::ops::Range;
use std::time::Instant;

/// A volume being served.
pub struct Volume<D: Disk> {
    engine: Engine,
    lanes: Lanes<D>,
    superblock: Superblock,
    /// The presets that it may be opened again with.
    presets: Presets,
    /// Copies of the superblock that should be written again, and what is wrong with the blank map.
    findings: Vec<Damage>,
    /// Generations of its devices.
    raising: Raising,
    /// Sides of mirrors may rest after so long, and are woken in time.
    resting: Option<(Nanos, Resting)>,
}

impl<D: Disk> Volume<D> {
    /// Opens the volume on a disk, or on a disk and a map device, in real time; `start` is the instant of `Nanos::ZERO`. Recovery
    /// goes on while requests already come in; [`Volume::wait_until_open`] waits for it.
    pub fn open(
        lanes: impl Into<Lanes<D>>,
        start: Instant,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<Self, OpenError> {
        let opened = Self::open_with(Presets::default(), lanes, Clock::Real { start }, configure)?;
        Ok(opened.0)
    }

    /// Opens it in virtual time, from `now` on; says what time it is afterwards.
    pub fn open_in_virtual_time(
        lanes: impl Into<Lanes<D>>,
        now: Nanos,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        Self::open_with(Presets::default(), lanes, Clock::Virtual { now }, configure)
    }

    /// Opens it by either clock, with one of `presets`, to which it keeps when it is opened again. Says what time it is
    /// afterwards.
    pub fn open_with(
        presets: Presets,
        lanes: impl Into<Lanes<D>>,
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        let mut lanes = lanes.into();
        let mut io = clock.io(&mut lanes).knowing(presets);
        let (found, generations) = find_with_generations(&mut io)?;
        let beside = Beside::read(&mut io, &found.superblock)?;
        let (now, order) = (io.now(), io.order());
        lanes.arrange(&order);
        Self::begin(lanes, (found, presets), (beside, generations), clock.at(now), configure)
    }

    /// The same with this superblock, whatever those on the disk say.
    pub fn open_as(
        presets: Presets,
        superblock: Superblock,
        lanes: impl Into<Lanes<D>>,
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        let mut lanes = lanes.into();
        let mut io = clock.io(&mut lanes).knowing(presets);
        let preset = preset_of(&io, &superblock)?;
        data_devices::join(&mut io, &superblock)?;
        let beside = Beside::read(&mut io, &superblock)?;
        let generations = Generations::read(&mut io, &superblock);
        let (now, order) = (io.now(), io.order());
        lanes.arrange(&order);
        let found = (Found { superblock, preset, to_repair: Vec::new() }, presets);
        Self::begin(lanes, found, (beside, generations), clock.at(now), configure)
    }

    /// A volume just created with `preset`, on disks that need not keep any content, data devices by position: nothing is read.
    pub fn start_empty(
        lanes: impl Into<Lanes<D>>,
        superblock: Superblock,
        preset: NamedPreset,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Self {
        let found = (Found { superblock, preset, to_repair: Vec::new() }, Presets::default());
        let map = MapPlace::of_layout(&found.0.superblock.layout);
        let (blanks, tracks, log_device_tracks) = (Loaded::default(), Vec::new(), Vec::new());
        let tracks_are_doubtful = false;
        let beside = Beside { map, blanks, tracks, log_device_tracks, tracks_are_doubtful };
        let lanes = lanes.into();
        let (superblock, presets) = (found.0.superblock, found.1);
        let setup = setup(&lanes, (&superblock, &preset), beside, configure);
        Self::of(lanes, (superblock, presets), Engine::start_empty(setup))
    }

    fn of(lanes: Lanes<D>, (superblock, presets): (Superblock, Presets), engine: Engine) -> Self {
        let (findings, raising) = (Vec::new(), Raising::of(None));
        Self { engine, lanes, superblock, presets, findings, raising, resting: None }
    }

    /// Starts the engine on devices in their order. Their generations are raised before, if the volume may be written.
    fn begin(
        mut lanes: Lanes<D>,
        (found, presets): (Found, Presets),
        (mut beside, generations): (Beside, Generations),
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        let Found { mut superblock, preset, to_repair } = found;
        let findings = damage_of(to_repair, std::mem::take(&mut beside.blanks.findings));
        let setup = setup(&lanes, (&superblock, &preset), beside, configure);
        let mut io = clock.io(&mut lanes).knowing(presets);
        let generations = if setup.config.read_only {
            generations
        } else {
            generations::prepare_to_write(&mut io, &mut superblock, generations)?
        };
        let now = io.now();
        let volume = Self::of(lanes, (superblock, presets), Engine::open(setup));
        let raising = Raising::of(Some(generations));
        Ok((Self { findings, raising, ..volume }, now))
    }

    /// Sides of mirrors that nothing was written to for so long may rest: one side serves all reads then, and the others are woken
    /// before the tail of a chain comes to them. With `None` none rests.
    pub fn let_mirrors_rest(&mut self, after: Option<Nanos>) {
        self.lanes.let_rest(after);
        self.resting = after.map(|after| (after, Resting::default()));
    }

    /// Everybody who waits is told why, and nothing more is begun. Reads go on.
    pub fn give_up(&mut self, reason: &str, now: Nanos) {
        self.engine.give_up(reason, now);
    }

    /// Whether no command is outstanding.
    pub fn is_quiet(&self) -> bool {
        self.engine.is_quiet()
    }

    /// Opens the volume again on its disks, which start over: as if it had been closed without making anything durable.
    /// Requests that are not answered are forgotten. It must be quiet; after an error all is as before.
    pub fn open_again(
        &mut self,
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(), OpenError> {
        self.lanes.start_over().map_err(OpenError::Disk)?;
        let mut io = clock.io(&mut self.lanes).knowing(self.presets);
        let (Found { mut superblock, preset, to_repair }, generations) =
            find_with_generations(&mut io)?;
        if superblock.volume_id != self.superblock.volume_id {
            let device = self.lanes.properties().name.clone();
            let problem = "expected the volume that was served, found another one".to_owned();
            return Err(OpenError::Recovery { device, problem });
        }
        let mut beside = Beside::read(&mut io, &superblock)?;
        let (now, order) = (io.now(), io.order());
        self.lanes.arrange(&order);
        let findings = damage_of(to_repair, std::mem::take(&mut beside.blanks.findings));
        let setup = setup(&self.lanes, (&superblock, &preset), beside, configure);
        let mut io = clock.at(now).io(&mut self.lanes).knowing(self.presets);
        let generations = if setup.config.read_only {
            generations
        } else {
            generations::prepare_to_write(&mut io, &mut superblock, generations)?
        };
        self.engine = Engine::open(setup);
        self.superblock = superblock;
        (self.findings, self.raising) = (findings, Raising::of(Some(generations)));
        self.let_mirrors_rest(self.resting.as_ref().map(|(after, _)| *after));
        Ok(())
    }

    /// Puts other devices in place of its own, which are given back, for [`Volume::open_again`]. The engine has ended.
    pub(crate) fn exchange(&mut self, lanes: impl Into<Lanes<D>>) -> Lanes<D> {
        std::mem::replace(&mut self.lanes, lanes.into())
    }

    /// How it would grow if its own disk had so many bytes. Looks at nothing.
    ///
    /// # Errors
    /// It cannot.
    pub fn growth(&self, device_bytes: u64) -> Result<Growth, GrowError> {
        let device = &self.lanes.properties().name;
        let preset = self.presets.of(&self.superblock).map_err(|error| {
            let (device, problem) = (device.clone(), error.to_string());
            OpenError::Newer { device, problem }
        })?;
        let map_slot_bytes = self.engine.map_slot_bytes();
        grow::growth((&self.superblock, &preset), device_bytes, map_slot_bytes, device)
    }

    /// Waits in virtual time from `now` on until recovery is done; says what time it is afterwards.
    pub fn run_until_open(&mut self, mut now: Nanos) -> Result<Nanos, OpenError> {
        loop {
            self.drive(now);
            self.tell_events();
            if self.engine.is_open() {
                return self.check_open().map(|()| now);
            }
            let latest = self.engine.next_wake();
            let mut io = self.lanes.in_virtual_time(now);
            io.wait_until(latest)?;
            now = io.now();
        }
    }

    /// Nobody asks for them while the volume opens.
    fn tell_events(&mut self) {
        if sync_io::is_heard() {
            while let Some(event) = self.poll_disk_event() {
                sync_io::tell(&event);
            }
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), OpenError> {
        match self.engine.failure() {
            Some(problem) if self.engine.is_stopped() => Err(OpenError::Recovery {
                device: self.lanes.properties().name.clone(),
                problem: problem.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The engine's state.
    pub fn status(&self) -> Status {
        let mut status = self.engine.status();
        status.damage.splice(0..0, self.findings.iter().cloned());
        status
    }

    /// What the disk did wrong since the last call, oldest first: for a log. Call until `None` after each drive, or
    /// now and then.
    pub fn poll_disk_event(&mut self) -> Option<DiskEvent> {
        self.engine.poll_disk_event()
    }

    /// Generation of the volume: raised before the first change of each opening and, on several devices, at the orderly stop after
    /// it. 0 of a volume whose devices were not read.
    pub fn generation(&self) -> u64 {
        self.raising.newest()
    }

    /// Whether the next change raises [`Volume::generation`].
    pub fn may_raise_generation(&self) -> bool {
        self.raising.may_raise()
    }

    /// The engine has ended: the devices are left in order, after their generations were raised if all of the volume is durable.
    fn end(&mut self) {
        if self.raising.has_left() {
            return;
        }
        let is_in_order = self.engine.failure().is_none();
        let drained = self.engine.status().map_entries == 0;
        let cause = is_in_order.then_some(Cause::Stopped { drained });
        self.raising.end(&mut self.lanes, cause);
    }

    /// What the volume was created as.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The engine, for reading its state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The volume's own disk.
    pub fn disk(&self) -> &D {
        self.lanes.main()
    }

    /// Reads and writes of all its devices by the volume's addresses, beside the engine: for whoever looks at a volume that nobody uses.
    pub(crate) fn io(&mut self, start: Instant) -> SyncIo<'_> {
        let Self { lanes, superblock, .. } = self;
        let order: Vec<usize> = (0..lanes.data().len()).collect();
        let mut io = lanes.in_real_time(start);
        io.join(&superblock.layout, &order);
        io
    }

    /// The same; commands of the engine may be outstanding on it.
    pub fn disk_mut(&mut self) -> &mut D {
        self.lanes.main_mut()
    }

    /// All its devices.
    pub fn lanes(&self) -> &Lanes<D> {
        &self.lanes
    }

    /// The same; commands of the engine may be outstanding on them.
    pub fn lanes_mut(&mut self) -> &mut Lanes<D> {
        &mut self.lanes
    }

    /// Ends the volume as it is, without making anything durable, and gives back its devices.
    pub fn into_lanes(self) -> Lanes<D> {
        self.lanes
    }

    /// The same for who knows that it lies on one disk: a map device would be dropped.
    pub fn into_disk(self) -> D {
        self.lanes.into_parts().0
    }

    /// Begins copying everything logged home; durability-only ranges too if `everything`.
    pub fn start_checkpoint(&mut self, everything: bool, now: Nanos) {
        self.engine.start_checkpoint(everything, now);
    }

    /// Changes what may change while it is open ([`Engine::tune`]).
    pub fn tune(&mut self, tuning: Tuning, now: Nanos) {
        self.engine.tune(tuning, now);
    }

    /// Says whether checkpoints that can wait may run now ([`Engine::set_checkpoint_permit`]).
    pub fn set_checkpoint_permit(&mut self, is_held: bool, now: Nanos) {
        self.engine.set_checkpoint_permit(is_held, now);
    }

    /// Takes over a map that was rebuilt ([`Engine::take_rebuilt`]).
    pub fn take_rebuilt(&mut self, given_up: impl IntoIterator<Item = Range<u64>>) {
        self.engine.take_rebuilt(given_up);
    }

    /// Begins writing a snapshot of the map, even if the newest is up to date.
    pub fn start_snapshot(&mut self, now: Nanos) {
        self.engine.start_snapshot(now);
    }
}

impl<D: Disk> Service for Volume<D> {
    fn info(&self) -> ServiceInfo {
        let properties = self.lanes.properties();
        let label = self.superblock.label.as_str();
        let description = if label.is_empty() {
            format!("Nearhead volume on {}", properties.name)
        } else {
            label.to_owned()
        };
        ServiceInfo {
            description,
            size_bytes: self.engine.size_bytes(),
            block_bytes_min: self.engine.block_bytes() as u32,
            block_bytes_preferred: 4096,
            request_bytes_max: REQUEST_BYTES_MAX as u32,
            read_only: self.engine.is_read_only(),
            rotational: properties.rotational,
            fast_zero: properties.fast_zero,
        }
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        self.engine.handle_request(request, now);
    }

    fn drive(&mut self, now: Nanos) {
        let mut refused = Vec::new();
        loop {
            for completion in refused.drain(..) {
                self.engine.handle_completion(completion, now);
            }
            while let Some(completion) = self.lanes.poll(now) {
                if let Some(completion) = self.raising.take_own(completion) {
                    self.engine.handle_completion(completion, now);
                }
            }
            self.engine.advance(now);
            if self.engine.is_stopped() {
                self.end();
            }
            let mut submitted = false;
            while let Some((lane, submission)) = self.engine.poll_command() {
                if let Some(submission) = self.raising.hold(lane, submission) {
                    self.lanes.submit(lane, submission, now);
                }
                submitted = true;
            }
            submitted |= self.raising.go_on(&mut self.lanes, now, &mut refused);
            // Nobody answers what a device was asked that was given up.
            if !submitted && refused.is_empty() && !self.engine.has_refused() {
                break;
            }
            self.lanes.kick();
        }
        if let Some((_, resting)) = &mut self.resting {
            resting.watch(&self.engine, &mut self.lanes, now);
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.engine.poll_reply()
    }

    /// What the engine puts off by itself can come a little later.
    fn wake(&self) -> Wake<'_> {
        let of_disk = self.lanes.wake_at();
        let at = [of_disk, self.engine.next_wake()].into_iter().flatten().min();
        Wake { at, is_precise: of_disk.is_some() && of_disk == at, fd: self.lanes.wake_fd() }
    }

    fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Vec<Extent> {
        let runs = self.engine.allocation(offset, len, runs_max);
        runs.into_iter()
            .map(|run| Extent { len: run.len, hole: run.zero, zero: run.zero })
            .collect()
    }

    /// What its disk loses, it fails of.
    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, now: Nanos) {
        self.engine.begin_shutdown(now);
    }

    fn is_shut_down(&self) -> bool {
        self.engine.is_stopped() && self.raising.has_left() && self.lanes.has_left()
    }
}

#[cfg(test)]
mod tests;
