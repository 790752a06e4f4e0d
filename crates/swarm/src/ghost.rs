//! Power cuts that do not end the life: what a cut now would leave is opened beside it, and must be right.
//!
//! A real cut takes a life back to rest, so deep states are seldom met by one. Here the disks are forked with
//! whatever a cut may leave of them, a second volume recovers from that, everything is read and held against a
//! copy of the oracle, and the life goes on as if nothing had been. Three laws more can be asked so:
//!
//! - what the running engine may overwrite now, no recovery of now needs (law 2, before anybody overwrites it);
//! - a recovery of now finds no logged copy that the running engine does not know of (nobody would take it back);
//! - one damage of those that SAFETY.md calls survived, done to what the cut left, costs nothing.
//!
//! Nothing here draws from the life's own chance: a life is the same with ghosts and without.

use crate::content::versions;
use crate::life::Life;
use crate::rig::{Array, Rig};
use crate::scenario::Scenario;
use crate::steps::{WINDOW_SECTORS, WINDOWS};
use nearhead_basics::SplitMix;
use nearhead_disk::RangeSet;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::DamageKind;
use nearhead_engine::{Activities, Activity, Engine, Space};
use nearhead_models::faults::FaultBudget;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{Clock, Volume};
use std::collections::BTreeMap;
use std::ops::Range;

/// Ghosts in a life that nobody steers: at the first so many sets of activities that it meets, spread out.
const GHOSTS_MAX: u32 = 12;
/// Ghosts in one of the many lives in which command n fails.
const GHOSTS_OF_NTH_MAX: u32 = 3;
/// Disk commands between two of them, at least.
const COMMANDS_BETWEEN: u64 = 15;

/// Pairs of activities that a life is watched for, at most.
pub(crate) const WATCHED_MAX: usize = 6;

/// When a life is looked at from beside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    left: u32,
    /// What is worth a look whenever it is met.
    watched: Vec<Activities>,
    /// Disk commands when the last one was.
    last_at: u64,
    done: u64,
}

impl Ghosts {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let watched = scenario.watched.clone();
        let left = match scenario.faults.nth {
            // Its neighbours look, too.
            Some(_) => GHOSTS_OF_NTH_MAX,
            None if watched.is_empty() => GHOSTS_MAX,
            None => 4 * GHOSTS_MAX,
        };
        Self { left, watched, last_at: 0, done: 0 }
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}

/// What the running engine says of itself.
struct Beside {
    /// Number of the newest committed snapshot.
    number: u64,
    /// What it may overwrite.
    open: Space,
    /// Sectors of which it knows logged copies.
    known: Option<RangeSet>,
}

impl Beside {
    /// One that has failed overwrites nothing any more, and takes nothing back. One whose record is on its way to a
    /// second log overwrites nothing of the first one before it is durable, though that log does not know of it.
    fn of(engine: &Engine) -> Self {
        let works =
            engine.failure().is_none() && !engine.activities().has(Activity::RecordElsewhere);
        Self {
            number: engine.snapshot_number(),
            open: if works { engine.open_space() } else { Space::new() },
            known: works.then(|| engine.known_homes()),
        }
    }
}

/// Which damage is done to what the cut left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    /// The header, or its copy, of the newest committed snapshot, or of the older one, which may be being replaced.
    Header {
        newest: bool,
        copy: bool,
    },
    Superblock {
        copy: usize,
    },
}

impl Life<'_> {
    /// Notes what is under way, and looks from beside if that is worth it.
    pub(crate) fn observe(&mut self) -> Result<(), String> {
        let activities = self.volume()?.engine().activities();
        let is_new = self.company.borrow_mut().note(activities);
        let commands = self.disk.commands();
        let ghosts = &self.ghosts;
        let is_watched = ghosts.watched.iter().any(|watched| activities.has_all(*watched))
            && commands > ghosts.last_at;
        let is_spread = commands >= ghosts.last_at + COMMANDS_BETWEEN;
        let is_worth = is_watched || is_new && is_spread;
        if ghosts.left == 0 || !is_worth || !self.can_be_forked() {
            return Ok(());
        }
        if !is_watched && !self.company.borrow().is_new_at_cuts(activities) {
            return Ok(());
        }
        self.ghosts.left -= 1;
        self.ghosts.last_at = commands;
        self.ghosts.done += 1;
        self.company.borrow_mut().note_cut(activities);
        let names: Vec<&str> = activities.iter().map(Activity::name).collect();
        let seed = self.scenario.seed ^ commands.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.cut_beside(seed)
            .map_err(|what| format!("a cut beside the life, during {}: {what}", names.join(", ")))
    }

    /// Damage that the life itself has is not survived together with another one.
    fn can_be_forked(&mut self) -> bool {
        self.scenario.budget == FaultBudget::Survive && !self.is_damaged()
    }

    fn cut_beside(&mut self, seed: u64) -> Result<(), String> {
        let mut random = SplitMix::new(seed);
        let mut rig = self.disk.forked(random.next_u64());
        let superblock = self.volume()?.superblock().clone();
        let beside = Beside::of(self.volume()?.engine());
        let number = beside.number;
        let has_logs = superblock.layout.log_count() > 0;
        let one = self.scenario.arrangement == crate::scenario::Arrangement::One;
        // Of a growth that was cut perhaps one copy tells, and nothing makes up for that one (SAFETY.md).
        let findings = self.volume()?.status().damage;
        let whole = findings.iter().all(|finding| finding.kind != DamageKind::Superblock);
        let damage = match random.below(8) {
            0 | 1 if one && has_logs => {
                Damage::Header { newest: random.coin(), copy: random.coin() }
            }
            2 if one && whole => Damage::Superblock { copy: random.below(3) as usize },
            _ => Damage::None,
        };
        let slot_of = |newest: bool| ((number + u64::from(!newest)) % 2) as usize;
        let damage = match damage {
            Damage::Header { newest, .. }
                if !rig.header_has_copy(&superblock.layout, slot_of(newest)) =>
            {
                Damage::None
            }
            damage => damage,
        };
        match damage {
            Damage::None => {}
            Damage::Header { newest, copy } => {
                rig.rot_in_slot(&superblock.layout, slot_of(newest), if copy { 3 } else { 0 });
            }
            Damage::Superblock { copy } => {
                let offset = superblock.layout.superblock_offsets()[copy];
                rig.rot_in(offset..offset + 512);
            }
        }
        let told = |what: String| format!("{damage:?}: {what}");
        let ghost = self.open_beside(&mut rig).map_err(told)?;
        self.check_beside(ghost, &beside).map_err(told)
    }

    fn open_beside(&self, rig: &mut Rig) -> Result<(Volume<Box<dyn Disk>>, Nanos), String> {
        let scenario = self.scenario;
        let (disk, now) =
            rig.assemble(Array::AsItIs, self.now).map_err(|error| error.to_string())?;
        let clock = Clock::Virtual { now };
        let (mut volume, now) = Volume::open_with(scenario.presets, disk, clock, |_, config| {
            scenario.configure(config);
        })
        .map_err(|error| error.to_string())?;
        let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
        Ok((volume, now))
    }

    fn check_beside(
        &mut self,
        (mut volume, mut now): (Volume<Box<dyn Disk>>, Nanos),
        beside: &Beside,
    ) -> Result<(), String> {
        let (open, number) = (&beside.open, beside.number);
        for (lane, needed) in volume.engine().needed_space() {
            let Some(open) = open.get(&lane) else { continue };
            if let Some(range) = needed.iter().find(|range| open.overlaps(range.clone())) {
                let meets = |open: &Range<u64>| open.start < range.end && range.start < open.end;
                let (open, status) = (open.iter().find(meets), volume.status());
                return Err(format!(
                    "bytes {range:?} of {lane:?} are needed, and of them {open:?} may be overwritten now; {status:?}"
                ));
            }
        }
        if let Some(known) = &beside.known
            && let Some(range) = volume
                .engine()
                .mapped_homes()
                .iter()
                .find(|range| !known.contains_range(range.clone()))
        {
            return Err(format!(
                "sectors {range:?} come from a log, and the running volume knows of no copy there; {:?}",
                volume.status()
            ));
        }
        let hints: Vec<_> = volume.engine().hints().collect();
        self.hints.check_after_a_cut(&hints, number)?;
        let mut content = BTreeMap::new();
        for base in self.bases {
            let id = RequestId(u64::MAX - base);
            let (offset, len) = (base * 512, (WINDOW_SECTORS * 512) as u32);
            volume.submit(Request { id, operation: Operation::Read { offset, len } }, now);
            let parts = loop {
                volume.drive(now);
                if let Some(reply) = volume.poll_reply() {
                    break reply.result.map_err(|error| error.to_string())?;
                }
                now = volume.wake_at().ok_or("a read is never answered")?.max(now);
            };
            let found = versions(base, &parts)?;
            let known = |(sector, value): &(u64, u64)| *value != 0 || self.oracle.knows(*sector);
            content.extend((base..).zip(found).filter(known));
        }
        debug_assert!(content.len() as u64 <= WINDOWS * WINDOW_SECTORS);
        self.oracle.check_restart(&content)
    }
}
