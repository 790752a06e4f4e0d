//! An open volume: an engine on its disks, served.
//!
//! It only carries messages between them, in both directions, until nobody has anything left to do at the present
//! time.

mod waiting;

use crate::blanks::{self, Loaded};
use crate::data_devices;
use crate::grow::{self, GrowError, Growth};
use crate::lanes::Lanes;
use crate::map_device;
use crate::open::{Found, OpenError, find_superblock, preset_of};
use crate::presets::{NamedPreset, Presets};
use crate::resting::Resting;
use crate::sync_io::{self, SyncIo};
use crate::tracks;
use nearhead_disk::{Disk, Nanos, Tracks, Zones};
use nearhead_engine::{
    Config, Damage, DamageKind, DiskEvent, Engine, MapPlace, REQUEST_BYTES_MAX, Setup, Status,
    Tuning,
};
use nearhead_format::{Layout, Superblock};
use nearhead_service::{Extent, Reply, Request, Service, ServiceInfo, Wake};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// The bands of the client's address space, if its data is apart from the logs in the bands of a
/// shingled disk.
fn bands_of(layout: &Layout, zones: Option<&Zones>) -> Option<Zones> {
    let data = layout.data_offset..layout.data_offset + layout.client_bytes();
    let is_shingled = layout.logs_are_apart() && layout.data_parts.is_empty() && !layout.is_chain();
    zones.filter(|_| is_shingled).and_then(|zones| zones.part(data).ok())
}

/// What of a volume was read beside its superblock, before its engine starts.
struct Beside {
    map: MapPlace,
    blanks: Loaded,
    tracks: Vec<Arc<Tracks>>,
    log_device_tracks: Vec<Vec<Arc<Tracks>>>,
}

impl Beside {
    fn read(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<Self, OpenError> {
        let map = map_device::find(io, superblock)?;
        let blanks = blanks::load(io, superblock);
        // Where records stand in their order nobody could follow it far.
        let anywhere = superblock.layout.records_anywhere;
        let tracks = if anywhere { tracks::read(io, superblock) } else { Vec::new() };
        let log_device_tracks = tracks::read_of_log_devices(io, superblock);
        Ok(Self { map, blanks, tracks, log_device_tracks })
    }
}

fn setup<D: Disk>(
    lanes: &Lanes<D>,
    (superblock, preset): (&Superblock, &NamedPreset),
    beside: Beside,
    configure: impl FnOnce(&Superblock, &mut Config),
) -> Setup {
    let disk = lanes.main();
    let mut config = preset.config(superblock, disk.properties());
    config.tracks = beside.tracks;
    config.log_device_tracks = beside.log_device_tracks;
    configure(superblock, &mut config);
    Setup {
        config,
        layout: superblock.layout,
        map: beside.map,
        blanks: beside.blanks.found,
        volume_id: superblock.volume_id,
        properties: disk.properties().clone(),
        data_devices: lanes.data_properties(),
        absent_devices: lanes.absent_data(),
        map_device: lanes.map().map(|map| map.properties().clone()),
        cache_device: lanes.cache().map(|cache| cache.properties().clone()),
        bands: bands_of(&superblock.layout, disk.zones()),
    }
}

/// By which time a volume is opened again.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// That of the machine, counted from `start`.
    Real {
        /// The instant of `Nanos::ZERO`.
        start: Instant,
    },
    /// That of a model, at `now`.
    Virtual {
        /// When.
        now: Nanos,
    },
}

impl Clock {
    fn io<D: Disk>(self, lanes: &mut Lanes<D>) -> SyncIo<'_> {
        match self {
            Self::Real { start } => lanes.in_real_time(start),
            Self::Virtual { now } => lanes.in_virtual_time(now),
        }
    }
}

/// A volume being served.
pub struct Volume<D: Disk> {
    engine: Engine,
    lanes: Lanes<D>,
    superblock: Superblock,
    /// The presets that it may be opened again with.
    presets: Presets,
    /// Copies of the superblock that should be written again, and what is wrong with the blank map.
    findings: Vec<Damage>,
    /// The engine has ended, and the disk was told.
    has_ended: bool,
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
        let found = find_superblock(&mut io)?;
        let beside = Beside::read(&mut io, &found.superblock)?;
        let (now, order) = (io.now(), io.order());
        lanes.arrange(&order);
        Ok((Self::with_superblock(lanes, (found, presets), beside, configure, false), now))
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
        let (now, order) = (io.now(), io.order());
        lanes.arrange(&order);
        let found = (Found { superblock, preset, to_repair: Vec::new() }, presets);
        Ok((Self::with_superblock(lanes, found, beside, configure, false), now))
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
        let beside = Beside { map, blanks, tracks, log_device_tracks };
        Self::with_superblock(lanes.into(), found, beside, configure, true)
    }

    fn with_superblock(
        lanes: Lanes<D>,
        (found, presets): (Found, Presets),
        mut beside: Beside,
        configure: impl FnOnce(&Superblock, &mut Config),
        empty: bool,
    ) -> Self {
        let Found { superblock, preset, to_repair } = found;
        let findings = damage_of(to_repair, std::mem::take(&mut beside.blanks.findings));
        let setup = setup(&lanes, (&superblock, &preset), beside, configure);
        let engine = if empty { Engine::start_empty(setup) } else { Engine::open(setup) };
        Self { engine, lanes, superblock, presets, findings, has_ended: false, resting: None }
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
        let Found { superblock, preset, to_repair } = find_superblock(&mut io)?;
        if superblock.volume_id != self.superblock.volume_id {
            let device = self.lanes.properties().name.clone();
            let problem = "expected the volume that was served, found another one".to_owned();
            return Err(OpenError::Recovery { device, problem });
        }
        let mut beside = Beside::read(&mut io, &superblock)?;
        let order = io.order();
        self.lanes.arrange(&order);
        self.findings = damage_of(to_repair, std::mem::take(&mut beside.blanks.findings));
        let setup = setup(&self.lanes, (&superblock, &preset), beside, configure);
        self.engine = Engine::open(setup);
        self.superblock = superblock;
        self.has_ended = false;
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
        loop {
            while let Some(completion) = self.lanes.poll(now) {
                self.engine.handle_completion(completion, now);
            }
            self.engine.advance(now);
            if self.engine.is_stopped() && !self.has_ended {
                self.has_ended = true;
                self.lanes.leave();
            }
            let mut submitted = false;
            while let Some((lane, submission)) = self.engine.poll_command() {
                self.lanes.submit(lane, submission, now);
                submitted = true;
            }
            // Nobody answers what a device was asked that was given up.
            if !submitted && !self.engine.has_refused() {
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
        self.engine.is_stopped() && self.lanes.has_left()
    }
}

/// What was found before the engine looked: copies of the superblock, and what is wrong with the blank map.
fn damage_of(superblocks: Vec<String>, blanks: Vec<String>) -> Vec<Damage> {
    let superblocks = superblocks.into_iter().map(|text| DamageKind::Superblock.told(text));
    superblocks.chain(blanks.into_iter().map(|text| DamageKind::BlankMap.told(text))).collect()
}

#[cfg(test)]
mod tests;
