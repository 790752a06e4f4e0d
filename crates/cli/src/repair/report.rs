//! What a repair says, for programs and for people: what is wrong, what is done about it, what is doubtful and why.

use super::{DoubtfulArg, RepairArgs};
use nearhead_output::say;
use nearhead_volume::check::Unverified;
use nearhead_volume::repair::{Reason, Weighed};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Ranges listed for people; programs get all of them.
pub const RANGES_SHOWN_MAX: usize = 50;

/// A range of client bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientRange {
    /// First byte.
    pub client_offset: u64,
    /// Number of bytes.
    pub len_bytes: u64,
}

impl From<(u64, u64)> for ClientRange {
    fn from((client_offset, len_bytes): (u64, u64)) -> Self {
        Self { client_offset, len_bytes }
    }
}

/// Client bytes in doubt.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DoubtfulRange {
    client_offset: u64,
    len_bytes: u64,
    /// `damaged`, `lost`, `outrun` or `unvouched`.
    reason: &'static str,
    /// What they read as afterwards: `error` or `newest`.
    reads_as: &'static str,
}

/// Records that are gone.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Gone {
    first_sequence: u64,
    last_sequence: u64,
}

/// A part of a log that cannot be read.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct DeviceRange {
    device_offset: u64,
    len_bytes: u64,
}

/// What is printed.
#[derive(Debug, Default, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a report")]
pub(super) struct Report {
    pub(super) target: String,
    dry_run: bool,
    /// Whether something was changed.
    pub(super) done: bool,
    /// Superblock copies that were written again, or would be, with what was wrong.
    pub(super) superblock_copies_rewritten: Vec<String>,
    /// Snapshot slots without a sound snapshot, with what is wrong.
    pub(super) snapshot_slots: Vec<String>,
    /// Whether no snapshot was sound, and the map was rebuilt from the logs.
    map_rebuilt: bool,
    /// Sound records found by that, and the newest sequence.
    records: u64,
    newest_sequence: u64,
    records_gone: Vec<Gone>,
    /// Why also what is not listed below may be older than it should; nothing if that cannot be.
    rest_is_uncertain: Option<String>,
    /// Client bytes of which it is not certain what they should read as.
    doubtful: Vec<DoubtfulRange>,
    doubtful_bytes: u64,
    /// Client bytes about which the records are in doubt, but log and home hold the same.
    agreeing_bytes: u64,
    unreadable: Vec<DeviceRange>,
    /// Client bytes that read as errors until they are written again, as the map says.
    lost: Vec<ClientRange>,
    /// Client bytes whose newest copy, in a log, cannot be verified: they read as errors until they are written again, and
    /// `forget-log` gives them up.
    unverified: Vec<ClientRange>,
    unverified_logs: BTreeSet<u32>,
    /// What recovery found.
    pub(super) damage: Vec<String>,
    /// Snapshots written.
    pub(super) snapshots_written: u64,
    /// What `--accept-loss` would accept; nothing if nothing is given up.
    pub(super) consent: Option<String>,
    #[serde(skip)]
    keeps_newest: bool,
}

impl Report {
    pub(super) fn new(args: &RepairArgs, superblock_copies_rewritten: Vec<String>) -> Self {
        Self {
            target: args.target.clone(),
            dry_run: args.dry_run,
            done: !args.dry_run && !superblock_copies_rewritten.is_empty(),
            superblock_copies_rewritten,
            keeps_newest: args.doubtful == DoubtfulArg::Newest,
            ..Self::default()
        }
    }

    /// Whether the snapshots should be written anew.
    pub(super) fn has_findings(&self) -> bool {
        !self.snapshot_slots.is_empty() || !self.damage.is_empty()
    }

    fn is_sound(&self) -> bool {
        let is_changed = !self.superblock_copies_rewritten.is_empty() || self.map_rebuilt;
        !is_changed && !self.has_findings() && self.consent.is_none() && !self.has_losses()
    }

    /// Whether client bytes read as errors that no repair can bring back.
    fn has_losses(&self) -> bool {
        !self.lost.is_empty() || !self.unverified.is_empty()
    }

    /// Client bytes that read as errors when the repair is done, for an error; nothing if there are none.
    pub(super) fn remaining_losses(&self) -> Option<String> {
        let ranges = || self.lost.iter().chain(&self.unverified);
        let bytes: u64 = ranges().map(|range| range.len_bytes).sum();
        self.has_losses().then(|| {
            format!(
                "{bytes} client bytes in {} ranges, listed above, cannot be read",
                ranges().count()
            )
        })
    }

    /// Recovery refuses the volume for `problem`, unless the owner accepts a loss that nothing lists.
    pub(super) fn note_consent(&mut self, problem: String) {
        self.rest_is_uncertain = Some(
            "nothing says what the records named under `recovery` wrote: these client bytes read as what was there \
             before. Everything else that can be read is kept"
                .to_owned(),
        );
        self.consent = Some(problem);
    }

    pub(super) fn add_unverified(&mut self, copy: &Unverified) {
        self.unverified_logs.insert(copy.log_index);
        let range = (copy.client_offset, copy.len_bytes);
        match self.unverified.last_mut() {
            Some(last) if last.client_offset + last.len_bytes == range.0 => {
                last.len_bytes += range.1;
            }
            _ => self.unverified.push(range.into()),
        }
    }

    pub(super) fn add_lost(&mut self, client_offset: u64, len_bytes: u64) {
        match self.lost.last_mut() {
            Some(last) if last.client_offset + last.len_bytes == client_offset => {
                last.len_bytes += len_bytes;
            }
            _ => self.lost.push(ClientRange { client_offset, len_bytes }),
        }
    }

    pub(super) fn take_rebuilt(&mut self, weighed: &Weighed) {
        let found = &weighed.found;
        self.map_rebuilt = true;
        self.records = found.records;
        self.newest_sequence = found.newest_sequence;
        let gone = found.gone.iter().copied();
        self.records_gone = gone
            .map(|(first_sequence, last_sequence)| Gone { first_sequence, last_sequence })
            .collect();
        let unreadable = found.unreadable.iter();
        self.unreadable = unreadable
            .map(|range| DeviceRange {
                device_offset: range.start,
                len_bytes: range.end - range.start,
            })
            .collect();
        self.agreeing_bytes = weighed.agreeing_bytes;
        for range in &weighed.doubtful {
            let is_served = self.keeps_newest && range.reason.has_copy();
            self.doubtful_bytes += range.len_bytes;
            self.doubtful.push(DoubtfulRange {
                client_offset: range.client_offset,
                len_bytes: range.len_bytes,
                reason: range.reason.name(),
                reads_as: if is_served { "newest" } else { "error" },
            });
        }
        self.rest_is_uncertain = found.is_rest_unknown.then(|| {
            let records: u64 = found.gone.iter().map(|(first, last)| last - first + 1).sum();
            let unreadable = if found.unreadable.is_empty() {
                String::new()
            } else {
                ", and parts of the logs cannot be read".to_owned()
            };
            format!(
                "{records} of {} records are not in the logs any more (as is usual once space is used again, or by \
                 damage){unreadable}. What the newest of them said and only the lost snapshots still knew, zeros \
                 written or blocks whose record is gone, now reads as what the disk holds in its place",
                found.newest_sequence
            )
        });
        if !weighed.is_certain() {
            let doubtful = weighed.doubtful.len();
            let rest =
                if found.is_rest_unknown { "; and what is not listed is not certain" } else { "" };
            self.consent = Some(format!(
                "no snapshot of the map is sound; the logs give the map again, but {} client bytes in {doubtful} \
                 ranges are doubtful{rest}",
                self.doubtful_bytes
            ));
        }
    }
}

/// The error of who was not told `--accept-loss`; `again` is the command that accepts it.
pub(super) fn needs_consent(args: &RepairArgs, why: &str, again: &str) -> String {
    let list = if args.json { "" } else { " (--json lists all of it)" };
    format!("repair {}: {why}{list}; to accept that: {again}", args.target)
}

/// Says it to people.
pub(super) fn tell(report: &Report) {
    let is_plan = !report.done;
    for copy in &report.superblock_copies_rewritten {
        say(&format!(
            "{}: {copy}",
            if report.dry_run { "would write again" } else { "written again" }
        ));
    }
    for slot in &report.snapshot_slots {
        say(&format!("{}: {slot}", if is_plan { "would write again" } else { "written again" }));
    }
    if report.map_rebuilt {
        tell_rebuilt(report, is_plan);
    }
    for finding in &report.damage {
        say(&format!("recovery: {finding}"));
    }
    if let Some(why) = &report.rest_is_uncertain {
        say(&format!("not certain even where nothing is listed: {why}"));
    }
    tell_ranges("lost", &report.lost);
    tell_ranges("not verified", &report.unverified);
    if !report.unverified.is_empty() {
        let logs: Vec<String> = report.unverified_logs.iter().map(u32::to_string).collect();
        say(&format!(
            "what is not verified reads as errors until it is written again; `nearhead forget-log {} LOG` gives it \
             up, of log {}",
            report.target,
            logs.join(", ")
        ));
    }
    say(&format!("{} {}", report.target, outcome(report)));
}

fn outcome(report: &Report) -> &'static str {
    if report.is_sound() {
        "is sound: nothing was to be done, and nothing was changed"
    } else if report.dry_run {
        "was looked at: nothing was changed"
    } else if report.snapshots_written > 0 {
        "is repaired: both snapshots are written again"
    } else if report.consent.is_some() {
        "is not repaired yet"
    } else if !report.done && report.has_losses() {
        "has lost blocks, listed above: nothing else was to be done, and nothing was changed"
    } else {
        "is repaired"
    }
}

fn tell_rebuilt(report: &Report, is_plan: bool) {
    say(&format!(
        "{} the map from {} records in the logs, the newest of them {}",
        if is_plan { "would rebuild" } else { "rebuilt" },
        report.records,
        report.newest_sequence
    ));
    let mut ranges: BTreeMap<&str, Vec<ClientRange>> = BTreeMap::new();
    for range in &report.doubtful {
        let (client_offset, len_bytes) = (range.client_offset, range.len_bytes);
        ranges.entry(range.reason).or_default().push(ClientRange { client_offset, len_bytes });
    }
    for reason in Reason::ALL {
        let Some(ranges) = ranges.get(reason.name()) else { continue };
        let bytes: u64 = ranges.iter().map(|range| range.len_bytes).sum();
        let is_served = report.keeps_newest && reason.has_copy();
        let reads = if is_served { "read as the newest copy found" } else { "read as errors" };
        let explain = reason.explain();
        say(&format!("doubtful, {reads} from then on: {bytes} client bytes; {explain}"));
        tell_ranges("doubtful", ranges);
    }
    say("hints (nearhead hint) were in the snapshots alone and are gone: give them again");
}

/// Lists ranges for people.
pub fn tell_ranges(what: &str, ranges: &[ClientRange]) {
    for range in ranges.iter().take(RANGES_SHOWN_MAX) {
        say(&format!("{what}: {} client bytes at {}", range.len_bytes, range.client_offset));
    }
    if ranges.len() > RANGES_SHOWN_MAX {
        say(&format!(
            "{what}: {} more ranges, listed with --json",
            ranges.len() - RANGES_SHOWN_MAX
        ));
    }
}
