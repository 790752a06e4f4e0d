//! Ends and beginnings: power cuts, kills, clean stops, recovery under faults and recovery cut short.
//!
//! After each beginning everything a workload may have touched is read, with the disk in order again, and
//! must be what the oracle allows. A fault may keep a volume from opening, but only as long as it lasts.

use crate::life::{Life, Waiting};
use crate::rig::Array;
use crate::steps::Place;
use nearhead_format::AckMode;
use nearhead_models::faults::{FaultKind, NthFault};
use nearhead_service::{Operation, RequestError, Service};
use nearhead_volume::{Clock, Volume, grow};

/// Events of a recovery before it is cut, at most.
const EVENTS_BEFORE_CUT_MAX: u64 = 24;
/// Commands of growing before it is cut, at most.
const GROW_COMMANDS_MAX: u64 = 20;

/// How a volume ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Cut,
    Kill,
}

/// How a stop went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Everything acknowledged is in the newest snapshot, or home.
    Clean,
    /// The volume had failed, so it stopped as it was.
    Failed,
    /// A command that hangs, or damage, keeps it from ending so.
    Never,
}

impl Life<'_> {
    pub(crate) fn cut(&mut self, again: u64) -> Result<(), String> {
        self.end_and_begin(End::Cut, again)
    }

    /// The moment at which a promise was just made is when a cut shows whether it is kept.
    pub(crate) fn cut_at_ack(&mut self, place: Place, fua: bool) -> Result<(), String> {
        let mut last = self.next_id;
        self.write(place, fua)?;
        if !fua && self.scenario.ack == AckMode::Flush {
            self.wait_for("a write", |life| Ok(!life.waiting.contains_key(&last)))?;
            last = self.next_id;
            self.flush()?;
        }
        self.wait_for("an answer", |life| Ok(!life.waiting.contains_key(&last)))?;
        self.cut(0)
    }

    pub(crate) fn kill(&mut self, again: u64) -> Result<(), String> {
        self.end_and_begin(End::Kill, again)
    }

    /// Stops cleanly, if the disk lets it, and starts again.
    pub(crate) fn stop_and_start(&mut self) -> Result<(), String> {
        if self.stop()? == Stop::Never { self.kill(0) } else { self.begin(0) }
    }

    fn end_and_begin(&mut self, end: End, again: u64) -> Result<(), String> {
        if !self.bury_damage()? {
            return Ok(());
        }
        self.end(end);
        self.begin(again)
    }

    fn end(&mut self, end: End) {
        self.note_volume();
        if let Some(volume) = &self.volume {
            let engine = volume.engine();
            self.number_at_end = engine.snapshot_number();
            if end == End::Cut {
                self.company.borrow_mut().note_cut(engine.activities());
            }
        }
        self.volume = None;
        self.waiting.clear();
        if end == End::Cut {
            self.tally.cuts += 1;
            self.disk.power_cut();
        } else {
            self.tally.kills += 1;
            self.disk.disown();
        }
    }

    /// Asks the volume to stop and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<Stop, String> {
        if !self.bury_damage()? {
            return Ok(Stop::Never);
        }
        let now = self.now;
        self.volume()?.begin_shutdown(now);
        self.send(Operation::Flush, Waiting::TooLate)?;
        let stopped = self.wait_for("a clean stop", |life| Ok(life.volume()?.is_shut_down()))?;
        let failed = self.volume()?.engine().failure().is_some();
        if (failed || !stopped) && self.is_damaged() {
            // It may have hit the last record, and no snapshot or record follows.
            self.over = true;
        }
        if !stopped {
            return Ok(Stop::Never);
        }
        if !self.waiting.is_empty() {
            let ids: Vec<u64> = self.waiting.keys().copied().collect();
            return Err(format!("the volume stopped and never answered {ids:?}"));
        }
        if !failed {
            self.oracle.stopped();
            self.left = Some(self.volume()?.engine().occupancy());
        }
        self.note_volume();
        self.number_at_end = self.volume()?.engine().snapshot_number();
        self.stopped_clean = !failed;
        self.volume = None;
        self.tally.stops += 1;
        // What a clean stop leaves does not need the power to stay on.
        self.disk.power_cut();
        Ok(if failed { Stop::Failed } else { Stop::Clean })
    }

    /// Recovers, cut short `again` times, and checks everything.
    pub(crate) fn begin(&mut self, again: u64) -> Result<(), String> {
        if self.over {
            return Ok(());
        }
        // What would be damaged now may be the newest record, and that looks like the end of what was written.
        self.disk.allow_silent(0);
        for _ in 0..again {
            self.recover_and_cut();
        }
        let under_faults = self.choices.coin();
        if !under_faults {
            self.disarm();
        }
        let before = self.disk.counts().of_commands();
        let mut opened = self.open();
        if opened.is_ok() && self.disk.hung() > 0 {
            opened = Err("a command hangs since the volume was opened".to_owned());
        }
        if let Err(problem) = opened {
            let hit = self.disk.counts().of_commands() > before;
            if hit && under_faults {
                self.tally.openings_failed += 1;
                self.volume = None;
                self.waiting.clear();
                self.disk.power_cut();
                self.disarm();
                if let Err(problem) = self.open() {
                    return self.refused(&problem);
                }
            } else {
                return self.refused(&problem);
            }
        }
        // A record that could not be read is damaged for good: from then on its blocks may read as errors, and never as older ones.
        let hit = self.disk.counts().of_commands() > before;
        self.damaged |= under_faults && hit && !self.volume()?.status().damage.is_empty();
        self.disarm();
        self.check_hints()?;
        self.check_content()?;
        self.faults_at_start = self.disk.counts().of_commands();
        self.arm();
        Ok(())
    }

    /// A fault that was on its way when the disk was put in order may have cost a device: until it is opened again the volume serves
    /// without, and what is there cannot be read.
    pub(crate) fn opens_again(&mut self, error: &RequestError) -> Result<bool, String> {
        // Given up for any other reason it is a mistake.
        let is_of_a_fault = error.detail.contains(nearhead_models::faults::MARK);
        if !is_of_a_fault || self.volume()?.status().stats.devices_given_up == 0 {
            return Ok(false);
        }
        self.volume = None;
        self.waiting.clear();
        self.disk.power_cut();
        self.disarm();
        self.open()?;
        Ok(true)
    }

    /// Hints are what an orderly stop, or a cut, leaves; damage may cost more.
    fn check_hints(&mut self) -> Result<(), String> {
        let found: Vec<_> = self.volume()?.engine().hints().collect();
        let number = self.number_at_end;
        if std::mem::take(&mut self.stopped_clean) && !self.is_damaged() {
            self.hints.check_after_a_stop(&found)?;
        } else if !self.is_damaged() {
            self.hints.check_after_a_cut(&found, number)?;
        }
        self.hints.adopt(&found);
        Ok(())
    }

    /// The volume does not open although the disk is in order: only damage may be why.
    fn refused(&mut self, problem: &str) -> Result<(), String> {
        if !self.is_damaged() {
            return Err(format!("does not open: {problem}"));
        }
        let names = ["expected", "missing"].iter().any(|word| problem.contains(word));
        if !names {
            return Err(format!("a refusal must say what is wrong, found {problem:?}"));
        }
        self.tally.damage_found += 1;
        self.over = true;
        self.waiting.clear();
        Ok(())
    }

    /// Opens the volume; some requests come while recovery is still under way.
    pub(crate) fn open(&mut self) -> Result<(), String> {
        let scenario = self.scenario;
        let disk = self.disk.assemble(Array::AsItIs, self.now);
        let (disk, now) = disk.map_err(|error| error.to_string())?;
        let clock = Clock::Virtual { now };
        let (volume, now) = Volume::open_with(scenario.presets, disk, clock, |_, config| {
            scenario.configure(config);
        })
        .map_err(|error| error.to_string())?;
        self.now = now;
        let volume = self.volume.insert(volume);
        let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
        self.now = now;
        let clean = !self.is_damaged() && self.disk.counts().of_commands() == 0;
        let damage = self.volume()?.status().damage;
        if clean && !damage.is_empty() {
            return Err(format!("a sound disk has no damage, found {damage:?}"));
        }
        self.check_counts()?;
        let found = self.volume()?.engine().occupancy();
        let left = self.left.take().filter(|left| clean && *left != found);
        left.map_or(Ok(()), |left| {
            Err(format!("an orderly stop left {left:?} in use, found {found:?}"))
        })
    }

    /// Begins a recovery and lets the power go in it. Whether it works so far does not matter.
    fn recover_and_cut(&mut self) {
        self.left = None;
        let scenario = self.scenario;
        let opened = self.disk.assemble(Array::AsItIs, self.now).ok().and_then(|(disk, now)| {
            let clock = Clock::Virtual { now };
            let configure = |_: &_, config: &mut _| scenario.configure(config);
            Volume::open_with(scenario.presets, disk, clock, configure).ok()
        });
        if let Some((mut volume, mut now)) = opened {
            for _ in 0..self.choices.below(EVENTS_BEFORE_CUT_MAX) {
                volume.drive(now);
                let Some(wake) = volume.wake_at() else { break };
                now = wake.max(now);
            }
            self.now = now;
        }
        self.tally.cuts += 1;
        self.tally.cuts_in_recovery += 1;
        self.disk.power_cut();
    }

    /// A clean stop, a larger disk, and the volume grown onto it; sometimes the power goes meanwhile.
    pub(crate) fn grow(&mut self) -> Result<(), String> {
        if self.has_grown || self.volume()?.engine().failure().is_some() {
            return Ok(());
        }
        match self.stop()? {
            Stop::Never => return self.kill(0),
            // Only one that was closed in order is grown; the command says so and changes nothing.
            Stop::Failed => return self.begin(0),
            Stop::Clean => {}
        }
        self.has_grown = true;
        self.left = None;
        self.disarm();
        self.disk.enlarge(self.scenario.grown_bytes);
        if self.choices.coin() {
            let nth = 1 + self.choices.below(GROW_COMMANDS_MAX);
            let nth = NthFault { nth, sticky: true, kind: FaultKind::Hang };
            self.disk.fail_only(nth, self.scenario.seed);
        }
        let (mut disk, now) =
            self.disk.assemble(Array::AsItIs, self.now).map_err(|error| error.to_string())?;
        self.now = now;
        let mut io = disk.in_virtual_time(self.now).knowing(self.scenario.presets);
        let grown = grow::plan(&mut io).and_then(|growth| grow::grow(&mut io, &growth));
        self.now = io.now();
        drop(disk);
        let hung = self.disk.hung() > 0;
        self.disarm();
        match grown {
            Ok(()) => self.tally.grown += 1,
            Err(grow::GrowError::Preset { .. } | grow::GrowError::NothingToAdd { .. }) => {}
            Err(_) if hung => {}
            Err(error) if self.is_damaged() => return self.refused(&error.to_string()),
            Err(error) => return Err(format!("growing without a fault failed: {error}")),
        }
        self.tally.cuts += 1;
        self.disk.power_cut();
        self.disk.resume_plan();
        self.begin(0)
    }
}
