//! The exchange with the host in detail: when the arm moves, when data cross the interface.
//!
//! A read goes out while it comes in from the medium, as far as the interface keeps up; a write must
//! be in the drive's memory sector by sector before it passes under the head, or waits for another
//! revolution. Used only where a profile states the times of its `[command.exchange]`.

use super::queue::{MediaOperation, Pending};
use super::{Arrival, FinishAction, HddModel, Job, Work};
use crate::mechanics::{Motion, Pass};
use crate::profile::Profile;
use nearhead_disk::Nanos;

/// The times, ready for use; pairs are `[after a read, after a write]`.
pub(super) struct Exchange {
    read_seek: [Nanos; 2],
    read_hit: [Nanos; 2],
    read_reconnect: Nanos,
    read_enough: f64,
    read_keeps_interface: bool,
    read_end: Nanos,
    write_seek: [Nanos; 2],
    write_data: [Nanos; 2],
    write_seek_least: Nanos,
    write_end: Nanos,
    cached_write_data: [Nanos; 2],
    cached_write_end: Nanos,
    read_ahead_end: Nanos,
    /// Time of a sector over the interface, in ns.
    read_sector_ns: f64,
    write_sector_ns: f64,
    sector_bytes: u64,
    /// When the arm may move for the latest cached write.
    cached_seek_at: Nanos,
    /// Pieces of the transfer under way; kept to save its allocation.
    passes: Vec<Pass>,
}

impl Exchange {
    pub(super) fn new(profile: &Profile) -> Option<Self> {
        let spec = profile.command.exchange?;
        let ms = Nanos::from_millis_f64;
        let rate = profile.interface.megabytes_per_s;
        let write_rate = profile.interface.write_megabytes_per_s.unwrap_or(rate);
        let sector_ns = |rate: f64| f64::from(profile.sector_bytes) * 1e3 / rate;
        Some(Self {
            read_seek: spec.read_seek_ms.map(ms),
            read_hit: spec.read_hit_ms.map(ms),
            read_reconnect: ms(spec.read_reconnect_ms),
            read_enough: spec.read_enough,
            read_keeps_interface: spec.read_keeps_interface,
            read_end: ms(spec.read_end_ms),
            write_seek: spec.write_seek_ms.map(ms),
            write_data: spec.write_data_ms.map(ms),
            write_seek_least: ms(spec.write_seek_least_ms),
            write_end: ms(spec.write_end_ms),
            cached_write_data: spec.cached_write_data_ms.map(ms),
            cached_write_end: ms(spec.cached_write_end_ms),
            read_ahead_end: ms(spec.read_ahead_end_ms),
            read_sector_ns: sector_ns(rate),
            write_sector_ns: sector_ns(write_rate),
            sector_bytes: u64::from(profile.sector_bytes),
            cached_seek_at: Nanos::ZERO,
            passes: Vec::new(),
        })
    }

    /// From when a write is on the medium until the host is told.
    pub(super) fn write_end(&self) -> Nanos {
        self.write_end
    }

    fn read_time(&self, sectors: u64) -> Nanos {
        Nanos((sectors as f64 * self.read_sector_ns) as u64)
    }

    /// When the last of `sectors` has crossed the interface, `held` of which the memory had at
    /// `from` and the rest of which come in with `passes`.
    fn read_out(&self, passes: &[Pass], from: Nanos, held: u64, sectors: u64) -> Nanos {
        let last_at = when_read(passes, sectors - held);
        let keeps_up =
            passes.iter().all(|pass| self.read_sector_ns * pass.sectors as f64 <= pass.ns as f64);
        let enough = ((sectors as f64 * self.read_enough) as u64).clamp(1, sectors);
        let seamless = self.read_reconnect == Nanos::ZERO;
        if seamless && keeps_up && enough == 1 && held == 0 {
            return last_at.max(from) + self.read_time(1);
        }
        let (mut at, mut out) = (from, 0);
        if held == 0 {
            at = from.max(when_read(passes, enough)) + self.read_reconnect;
        }
        while out < sectors {
            let there = held + count_read(passes, at);
            if there > out {
                at += self.read_time(there.min(sectors) - out);
                out = there.min(sectors);
            } else if self.read_keeps_interface {
                at = at.max(when_read(passes, out + 1 - held));
            } else {
                let wanted = (out + enough).min(sectors);
                at = at.max(when_read(passes, wanted - held)) + self.read_reconnect;
            }
        }
        at
    }
}

/// Sectors that have passed by `at`.
fn count_read(passes: &[Pass], at: Nanos) -> u64 {
    let mut count = 0;
    for pass in passes {
        if pass.starts_at >= at {
            break;
        }
        let time = at.since(pass.starts_at).0;
        if time < pass.ns {
            return count + time * pass.sectors / pass.ns;
        }
        count += pass.sectors;
    }
    count
}

/// When `sectors` have passed.
fn when_read(passes: &[Pass], sectors: u64) -> Nanos {
    let mut left = sectors;
    let mut at = Nanos::ZERO;
    for pass in passes {
        let here = left.min(pass.sectors);
        at = pass.starts_at + Nanos((here * pass.ns).div_ceil(pass.sectors));
        left -= here;
        if left == 0 {
            break;
        }
    }
    at
}

/// Data coming in for a write: sector `n` is there `n + 1` sector times after `from`.
struct Supply {
    from: Nanos,
    sector_ns: f64,
    /// Sectors written so far.
    written: u64,
    period_ns: u64,
}

impl Supply {
    fn ready_ns(&self, sector: u64) -> f64 {
        self.from.0 as f64 + (sector + 1) as f64 * self.sector_ns
    }

    /// How long a piece takes, waiting for another revolution where its data are late.
    fn pass(&mut self, pass: Pass) -> u64 {
        let under_head = pass.ns as f64 / pass.sectors as f64;
        let (mut at, mut left) = (pass.starts_at.0 as f64, pass.sectors);
        while left > 0 {
            let spare = at - self.ready_ns(self.written);
            let done = if spare < 0.0 {
                0
            } else if self.sector_ns <= under_head {
                left
            } else {
                // The head gains on the data with every sector.
                (1 + (spare / (self.sector_ns - under_head)) as u64).min(left)
            };
            at += done as f64 * under_head;
            self.written += done;
            left -= done;
            if left > 0 {
                let late = (self.ready_ns(self.written) - at).max(1.0);
                at += (late / self.period_ns as f64).ceil() * self.period_ns as f64;
            }
        }
        (at - pass.starts_at.0 as f64).round() as u64
    }
}

impl HddModel {
    fn after(&self) -> usize {
        usize::from(self.last_was_write)
    }

    pub(super) fn exchange_read(&mut self, arrival: Arrival, lbn: u64, sectors: u64) {
        let hit = self.read_hits(lbn, lbn + sectors);
        let joins = self.profile.cache.joins_read_ahead;
        let after = self.after();
        let joined = !hit && self.caches_reads && self.segments.continued_by(lbn, joins).is_some();
        let Some(exchange) = &self.exchange else { return };
        let hit_at = self.time + exchange.read_hit[after];
        if hit {
            let out = hit_at.max(self.bus_free_at) + exchange.read_time(sectors);
            let end = out + exchange.read_end;
            self.bus_free_at = out;
            self.stats.served.read_hits += 1;
            self.finish_at(end, arrival.ticket, FinishAction::Read { lbn, sectors });
            return;
        }
        let seek_at = self.time + exchange.read_seek[after];
        if joined {
            // The head may be reading ahead towards it: nothing is to be waited for.
            let ready = if matches!(self.work, Work::Stream(_)) { self.time } else { seek_at };
            self.push(arrival, (lbn, sectors), MediaOperation::Read, ready, hit_at);
        } else {
            let seek_at = seek_at + self.stop_reading_ahead();
            self.push(arrival, (lbn, sectors), MediaOperation::Read, seek_at, seek_at);
        }
    }

    /// When the arm may move for a write that arrives now, and when its data begin to come in.
    pub(super) fn exchange_write(&mut self, bytes: u64, with_data: bool) -> (Nanos, Nanos) {
        let looked_at = self.time + self.stop_reading_ahead();
        let after = self.after();
        let Some(exchange) = &self.exchange else { return (self.time, Nanos::ZERO) };
        let seek_at = looked_at + exchange.write_seek[after];
        if !with_data {
            return (seek_at, Nanos::ZERO);
        }
        let from = (looked_at + exchange.write_data[after]).max(self.bus_free_at);
        let sectors = bytes / exchange.sector_bytes;
        self.bus_free_at = from + Nanos((sectors as f64 * exchange.write_sector_ns) as u64);
        (seek_at, from)
    }

    /// When the data of a write into the cache that arrives now begin to come in.
    pub(super) fn cached_write_data_from(&mut self) -> Nanos {
        if self.exchange.is_none() {
            return self.time + self.cached_overhead();
        }
        let time = self.time + self.stop_reading_ahead();
        let after = self.after();
        let Some(exchange) = &mut self.exchange else { return time };
        let from = time + exchange.cached_write_data[after];
        exchange.cached_seek_at = from;
        from
    }

    /// Takes the interface for a write into the cache; says when the host is told.
    pub(super) fn use_write_bus(&mut self, from: Nanos, bytes: u64) -> Nanos {
        let Some(exchange) = &self.exchange else { return self.use_bus(from, bytes) };
        let sectors = (bytes / exchange.sector_bytes) as f64;
        let crossing = Nanos((sectors * exchange.write_sector_ns) as u64);
        self.bus_free_at = self.bus_free_at.max(from) + crossing;
        self.bus_free_at + exchange.cached_write_end
    }

    /// From when on the arm can be on its way with what the cache holds.
    pub(super) fn destage_from(&self) -> Nanos {
        match &self.exchange {
            // It starts while the data are still coming in.
            Some(exchange) if !matches!(self.work, Work::Stream(_)) => {
                exchange.cached_seek_at.max(self.arm_rests_since)
            }
            _ => self.arm_free_at(),
        }
    }

    /// Remembers what was written, for reads.
    pub(super) fn keep_written(&mut self, lbn: u64, end: u64) {
        if self.written.capacity() > 0 {
            self.written.forget(lbn, end);
            let index = self.written.begin(lbn);
            self.written.grow(index, end);
        }
    }

    /// Another command takes the arm: the head stops where it is. Says how much later the command is looked at.
    fn stop_reading_ahead(&mut self) -> Nanos {
        self.read_ahead_until_now();
        let Work::Stream(stream) = &self.work else { return Nanos::ZERO };
        let is_under_way = !stream.is_over();
        self.arm_rests_since = stream.settled_at.min(self.time.max(stream.settled_at));
        self.work = Work::Idle;
        match &self.exchange {
            Some(exchange) if is_under_way => exchange.read_ahead_end,
            _ => Nanos::ZERO,
        }
    }

    /// What [`super::HddModel::occupy`] does with the arm, data and interface included.
    pub(super) fn exchange_motion(
        &mut self,
        from: Nanos,
        lbn: u64,
        sectors: u64,
        job: &mut Job,
    ) -> Motion {
        let turning_ns = self.turning_to_read_ns(!matches!(job, Job::Read { .. }));
        let Some(exchange) = &mut self.exchange else {
            return self.mechanics.transfer(self.arm, from, lbn, sectors, false);
        };
        let extent = (lbn, sectors);
        match job {
            Job::Read { pending, out_at, segment } => {
                let mut passes = std::mem::take(&mut exchange.passes);
                passes.clear();
                let collect = |pass: Pass| {
                    passes.push(pass);
                    pass.ns
                };
                let motion = self
                    .mechanics
                    .transfer_with(self.arm, from, extent, false, turning_ns, collect);
                let held = pending.sectors - sectors;
                let data_from = pending.data_from.max(self.bus_free_at);
                let out = exchange.read_out(&passes, data_from, held, pending.sectors);
                // Read from its middle on, all of it is there only when the head comes round.
                let out = out.max(motion.ends_at);
                self.bus_free_at = out;
                *out_at = Some(out + exchange.read_end);
                if self.profile.cache.keeps_passing_sectors && held == 0 && passes.len() == 1 {
                    let track = self.mechanics.geometry().locate(lbn);
                    let period = self.mechanics.spindle().period().0;
                    let gone_by = motion.rotation_ns * u64::from(track.sectors_per_track) / period;
                    let start = lbn - gone_by.min(lbn - track.first_lbn);
                    self.segments.begin_earlier(*segment, start);
                }
                exchange.passes = passes;
                motion
            }
            Job::Write(Pending { data_from, operation: MediaOperation::Write { .. }, .. }) => {
                let mut supply = Supply {
                    from: *data_from,
                    sector_ns: exchange.write_sector_ns,
                    written: 0,
                    period_ns: self.mechanics.spindle().period().0,
                };
                let least = exchange.write_seek_least.0;
                self.mechanics
                    .transfer_with(self.arm, from, extent, true, least, |pass| supply.pass(pass))
            }
            Job::Write(_) | Job::Destage(_) => {
                self.mechanics.transfer(self.arm, from, lbn, sectors, true)
            }
        }
    }
}
