//! What lives met: how many, how long, which crashes, which faults.

use nearhead_models::faults::FaultCounts;
use std::fmt;

/// Sums over lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lives that ended well.
    pub lives: u64,
    /// Requests sent.
    pub requests: u64,
    /// Of those, ones that had to be refused.
    pub hostile: u64,
    /// Commands given to the disk.
    pub commands: u64,
    /// Power cuts, those during recovery included.
    pub cuts: u64,
    /// Of those, during a recovery.
    pub cuts_in_recovery: u64,
    /// Cuts beside a life, which went on.
    pub ghosts: u64,
    /// Kills.
    pub kills: u64,
    /// Clean stops.
    pub stops: u64,
    /// Times a volume had grown.
    pub grown: u64,
    /// Times a fault kept a volume from opening until it was mended.
    pub openings_failed: u64,
    /// Damage found as it must be: sectors that read as EIO, volumes that refused to open.
    pub damage_found: u64,
    /// Checks against the oracle: sectors read.
    pub sectors_checked: u64,
    /// Records, swaps, checkpointed bytes and snapshots, so that one sees that everything ran.
    pub records: u64,
    /// Logs moved.
    pub swaps: u64,
    /// Logs compacted within their device.
    pub compactions: u64,
    /// Bytes that cleaning brought home.
    pub checkpointed_bytes: u64,
    /// Bytes of those that were still in memory.
    pub remembered_bytes: u64,
    /// Small writes that found every log full and went home.
    pub spills: u64,
    /// Logged copies that in-place writes made stale.
    pub invalidated: u64,
    /// Snapshots of maps.
    pub snapshots: u64,
    /// Lives on an array.
    pub arrays: u64,
    /// Lives on chains.
    pub chains: u64,
    /// Lives with a map device.
    pub map_devices: u64,
    /// Mirrors whose members were compared at the end.
    pub mirrors_alike: u64,
    /// Openings of mirrors without one of their members.
    pub absences: u64,
    /// Faults, by kind.
    pub faults: FaultCounts,
    /// A number that any difference in what happened changes.
    pub digest: u64,
}

impl Tally {
    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.lives += other.lives;
        self.requests += other.requests;
        self.hostile += other.hostile;
        self.commands += other.commands;
        self.cuts += other.cuts;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.kills += other.kills;
        self.stops += other.stops;
        self.grown += other.grown;
        self.openings_failed += other.openings_failed;
        self.damage_found += other.damage_found;
        self.sectors_checked += other.sectors_checked;
        self.ghosts += other.ghosts;
        self.records += other.records;
        self.swaps += other.swaps;
        self.compactions += other.compactions;
        self.checkpointed_bytes += other.checkpointed_bytes;
        self.remembered_bytes += other.remembered_bytes;
        self.snapshots += other.snapshots;
        self.spills += other.spills;
        self.invalidated += other.invalidated;
        self.arrays += other.arrays;
        self.chains += other.chains;
        self.map_devices += other.map_devices;
        self.mirrors_alike += other.mirrors_alike;
        self.absences += other.absences;
        self.faults.add(&other.faults);
        self.digest ^= other.digest;
    }

    /// Mixes something that happened into the digest.
    pub(crate) fn mix(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{} lives ({} on arrays, {} on chains, {} with a map device): {} requests ({} hostile), {} disk commands, {} sectors checked",
            self.lives,
            self.arrays,
            self.chains,
            self.map_devices,
            self.requests,
            self.hostile,
            self.commands,
            self.sectors_checked
        )?;
        writeln!(
            formatter,
            "crash points: {} power cuts ({} during recovery), {} beside a life that went on, {} kills; {} clean stops, \
             {} grown",
            self.cuts, self.cuts_in_recovery, self.ghosts, self.kills, self.stops, self.grown
        )?;
        writeln!(
            formatter,
            "engine: {} records, {} snapshots, {} swaps, {} compactions, {} spills, {} entries invalidated, {} MiB checkpointed \
             ({} from memory)",
            self.records,
            self.snapshots,
            self.swaps,
            self.compactions,
            self.spills,
            self.invalidated,
            self.checkpointed_bytes >> 20,
            self.remembered_bytes >> 20
        )?;
        writeln!(
            formatter,
            "found: {} pieces of damage, {} openings that a fault kept back; {} mirrors compared at the end, {} openings without a member",
            self.damage_found, self.openings_failed, self.mirrors_alike, self.absences
        )?;
        write!(formatter, "faults: {}", self.faults)
    }
}
