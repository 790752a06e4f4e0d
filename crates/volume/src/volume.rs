//! An open volume: an engine on a disk, served.
//!
//! It only carries messages between the two, in both directions, until neither has anything left to
//! do at the present time.

use crate::blanks::{self, Loaded};
use crate::map_device::{self, MapPlace};
use crate::open::{Found, OpenError, find_superblock, preset_of};
use crate::presets::{NamedPreset, Presets};
use crate::sync_io::{self, SyncIo};
use nearhead_disk::{Disk, Nanos, Zones};
use nearhead_engine::{BlanksFound, Config, DiskEvent, Engine, REQUEST_BYTES_MAX, Setup, Status};
use nearhead_format::{Layout, Superblock};
use nearhead_service::{Extent, Reply, Request, Service, ServiceInfo, Wake};
use std::ops::Range;
use std::time::Instant;

/// The bands of the client's address space, if its data is apart from the logs in the bands of a
/// shingled disk.
fn bands_of(layout: &Layout, zones: Option<&Zones>) -> Option<Zones> {
    let data = layout.data_offset..layout.data_offset + layout.client_bytes();
    zones.filter(|_| layout.logs_are_apart()).and_then(|zones| zones.part(data).ok())
}

fn setup<D: Disk>(
    disk: &D,
    (superblock, preset): (&Superblock, &NamedPreset),
    map: Option<MapPlace>,
    blanks: Option<BlanksFound>,
    configure: impl FnOnce(&Superblock, &mut Config),
) -> Setup {
    let mut config = preset.config(superblock, disk.properties(), disk.width());
    configure(superblock, &mut config);
    Setup {
        config,
        layout: map.map_or(superblock.layout, |map| map.apply(superblock.layout)),
        journal: map.map(|map| map.journal),
        blanks,
        volume_id: superblock.volume_id,
        properties: disk.properties().clone(),
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
    fn io(self, disk: &mut dyn Disk) -> SyncIo<'_> {
        match self {
            Self::Real { start } => SyncIo::in_real_time(disk, start),
            Self::Virtual { now } => SyncIo::in_virtual_time(disk, now),
        }
    }
}

/// A volume being served.
pub struct Volume<D: Disk> {
    engine: Engine,
    disk: D,
    superblock: Superblock,
    /// The presets that it may be opened again with.
    presets: Presets,
    /// Copies of the superblock that should be written again, and what is wrong with the blank map.
    findings: Vec<String>,
    /// The engine has ended, and the disk was told.
    has_ended: bool,
}

impl<D: Disk> Volume<D> {
    /// Opens the volume on `disk` in real time; `start` is the instant of `Nanos::ZERO`. Recovery
    /// goes on while requests already come in; [`Volume::wait_until_open`] waits for it.
    pub fn open(
        disk: D,
        start: Instant,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<Self, OpenError> {
        let opened = Self::open_with(Presets::default(), disk, Clock::Real { start }, configure)?;
        Ok(opened.0)
    }

    /// Opens it in virtual time, from `now` on; says what time it is afterwards.
    pub fn open_in_virtual_time(
        disk: D,
        now: Nanos,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        Self::open_with(Presets::default(), disk, Clock::Virtual { now }, configure)
    }

    /// Opens it by either clock, with one of `presets`, to which it keeps when it is opened again. Says what time it is
    /// afterwards.
    pub fn open_with(
        presets: Presets,
        mut disk: D,
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(Self, Nanos), OpenError> {
        let mut io = clock.io(&mut disk).knowing(presets);
        let found = find_superblock(&mut io)?;
        let map = map_device::find(&mut io, &found.superblock)?;
        let blanks = blanks::load(&mut io, &found.superblock);
        let now = io.now();
        let is_empty = false;
        let volume =
            Self::with_superblock(disk, (found, presets), map, blanks, configure, is_empty);
        Ok((volume, now))
    }

    /// The same in real time with this superblock, whatever those on the disk say.
    pub fn open_as(
        mut disk: D,
        start: Instant,
        superblock: Superblock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<Self, OpenError> {
        let mut io = SyncIo::in_real_time(&mut disk, start);
        let presets = io.presets();
        let preset = preset_of(&io, &superblock)?;
        let map = map_device::find(&mut io, &superblock)?;
        let blanks = blanks::load(&mut io, &superblock);
        let found = Found { superblock, preset, to_repair: Vec::new() };
        Ok(Self::with_superblock(disk, (found, presets), map, blanks, configure, false))
    }

    /// A volume just created with `preset`, on a disk that need not keep any content: nothing is read.
    pub fn start_empty(
        disk: D,
        superblock: Superblock,
        preset: NamedPreset,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Self {
        let found = (Found { superblock, preset, to_repair: Vec::new() }, Presets::default());
        Self::with_superblock(disk, found, None, Loaded::default(), configure, true)
    }

    fn with_superblock(
        disk: D,
        (found, presets): (Found, Presets),
        map: Option<MapPlace>,
        blanks: Loaded,
        configure: impl FnOnce(&Superblock, &mut Config),
        empty: bool,
    ) -> Self {
        let Found { superblock, preset, to_repair: mut findings } = found;
        findings.extend(blanks.findings);
        let setup = setup(&disk, (&superblock, &preset), map, blanks.found, configure);
        let engine = if empty { Engine::start_empty(setup) } else { Engine::open(setup) };
        Self { engine, disk, superblock, presets, findings, has_ended: false }
    }

    /// Everybody who waits is told why, and nothing more is begun. Reads go on.
    pub fn give_up(&mut self, reason: &str, now: Nanos) {
        self.engine.give_up(reason, now);
    }

    /// Whether no command is outstanding.
    pub fn is_quiet(&self) -> bool {
        self.engine.is_quiet()
    }

    /// Opens the volume again on its disk, which starts over: as if it had been closed without making anything durable.
    /// Requests that are not answered are forgotten. It must be quiet; after an error all is as before.
    pub fn open_again(
        &mut self,
        clock: Clock,
        configure: impl FnOnce(&Superblock, &mut Config),
    ) -> Result<(), OpenError> {
        self.disk.start_over().map_err(OpenError::Disk)?;
        let mut io = clock.io(&mut self.disk).knowing(self.presets);
        let Found { superblock, preset, to_repair: mut findings } = find_superblock(&mut io)?;
        if superblock.volume_id != self.superblock.volume_id {
            let device = self.disk.properties().name.clone();
            let problem = "expected the volume that was served, found another one".to_owned();
            return Err(OpenError::Recovery { device, problem });
        }
        let map = map_device::find(&mut io, &superblock)?;
        let blanks = blanks::load(&mut io, &superblock);
        findings.extend(blanks.findings);
        let setup = setup(&self.disk, (&superblock, &preset), map, blanks.found, configure);
        self.engine = Engine::open(setup);
        self.superblock = superblock;
        self.findings = findings;
        Ok(())
    }

    /// Waits in real time until recovery is done; an error says why it could not be.
    pub fn wait_until_open(&mut self, start: Instant) -> Result<(), OpenError> {
        while !self.engine.is_open() {
            let now = SyncIo::in_real_time(&mut self.disk, start).now();
            self.drive(now);
            self.tell_events();
            if !self.engine.is_open() {
                let latest = self.engine.next_wake();
                SyncIo::in_real_time(&mut self.disk, start).wait_until(latest)?;
            }
        }
        self.check_open()
    }

    /// The same in virtual time from `now` on; says what time it is afterwards.
    pub fn run_until_open(&mut self, mut now: Nanos) -> Result<Nanos, OpenError> {
        loop {
            self.drive(now);
            self.tell_events();
            if self.engine.is_open() {
                return self.check_open().map(|()| now);
            }
            let latest = self.engine.next_wake();
            let mut io = SyncIo::in_virtual_time(&mut self.disk, now);
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
                device: self.disk.properties().name.clone(),
                problem: problem.to_owned(),
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

    /// The disk underneath.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The disk underneath; commands of the engine may be outstanding on it.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Ends the volume as it is, without making anything durable.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Begins copying everything logged home; durability-only ranges too if `everything`.
    pub fn start_checkpoint(&mut self, everything: bool, now: Nanos) {
        self.engine.start_checkpoint(everything, now);
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
        let properties = self.disk.properties();
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
            while let Some(completion) = self.disk.poll(now) {
                self.engine.handle_completion(completion, now);
            }
            self.engine.advance(now);
            if self.engine.is_stopped() && !self.has_ended {
                self.has_ended = true;
                self.disk.leave();
            }
            let mut submitted = false;
            while let Some(submission) = self.engine.poll_command() {
                self.disk.submit(submission, now);
                submitted = true;
            }
            if !submitted {
                return;
            }
            self.disk.kick();
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.engine.poll_reply()
    }

    /// What the engine puts off by itself can come a little later.
    fn wake(&self) -> Wake<'_> {
        let of_disk = self.disk.wake_at();
        let at = [of_disk, self.engine.next_wake()].into_iter().flatten().min();
        Wake { at, is_precise: of_disk.is_some() && of_disk == at, fd: self.disk.wake_fd() }
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
        self.engine.is_stopped() && self.disk.has_left()
    }
}
