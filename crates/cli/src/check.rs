//! `nearhead check`: reads everything that has a checksum and names what does not match.
//!
//! The volume is opened for reading only. Exit code 1 when something is damaged.

use crate::report::VolumeFacts;
use crate::target::{Access, DiskArgs, Target, device_flags};
use crate::units::ByteSize;
use nearhead_output::{counted, note, quoted, say, say_json};
use nearhead_volume::check::{CheckFinding, CheckReport, check};
use serde::Serialize;
use std::time::{Duration, Instant};

const TELL_EVERY: Duration = Duration::from_secs(1);

/// Arguments of `nearhead check`.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Also say which command repairs what was found
    #[arg(long)]
    pub repair_hint: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    target: &'a str,
    volume: VolumeFacts,
    /// Whether it can be opened as it is.
    opens: bool,
    /// Pieces in the map.
    map_entries: u64,
    /// Logged chunks that were read and compared.
    chunks: u64,
    chunk_bytes: u64,
    damage_count: usize,
    /// All findings; more than are listed if there were too many.
    findings_total: u64,
    findings: Vec<Finding<'a>>,
}

#[derive(Debug, Serialize)]
struct Finding<'a> {
    is_damage: bool,
    place: &'a str,
    device_offset: Option<u64>,
    client_offset: Option<u64>,
    len_bytes: Option<u64>,
    problem: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<String>,
}

/// Runs the command.
pub fn run(args: &CheckArgs) -> Result<(), String> {
    let target = Target::open(&args.target, Access::Read, &args.disk)?;
    let lone_member = target.lone_member.clone();
    let (begun, mut told) = (Instant::now(), Instant::now());
    let found = check(target.lanes, target.start, &mut |progress| {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let left = progress.entries.saturating_sub(progress.entries_done);
            let spent = begun.elapsed().as_secs_f64();
            let eta = spent / progress.entries_done.max(1) as f64 * left as f64;
            note(&format!(
                "check: {} of {} pieces, about {eta:.0} s left",
                progress.entries_done, progress.entries
            ));
        }
    })
    .map_err(|error| Target::problem(&args.target, lone_member.as_ref(), &error))?;
    if let Some(member) = lone_member {
        note(&member.told);
    }
    if args.json {
        say_json(&report(args, &found))?;
    } else {
        tell(args, &found);
    }
    match found.damage_count() {
        0 => Ok(()),
        count => Err(format!("check {}: {count} damaged, nothing was changed", args.target)),
    }
}

fn report<'a>(args: &'a CheckArgs, found: &'a CheckReport) -> Report<'a> {
    Report {
        target: &args.target,
        volume: VolumeFacts::of(&found.superblock),
        opens: found.opens,
        map_entries: found.entries,
        chunks: found.chunks,
        chunk_bytes: found.chunk_bytes,
        damage_count: found.damage_count(),
        findings_total: found.findings_total,
        findings: found
            .findings
            .iter()
            .map(|finding| Finding {
                is_damage: finding.is_damage,
                place: &finding.place,
                device_offset: finding.device_offset,
                client_offset: finding.client_offset,
                len_bytes: finding.len_bytes,
                problem: &finding.problem,
                repair: args.repair_hint.then(|| repair_of(args, found, finding)),
            })
            .collect(),
    }
}

fn tell(args: &CheckArgs, found: &CheckReport) {
    for finding in &found.findings {
        let kind = if finding.is_damage { "damage" } else { "note" };
        let device = finding
            .device_offset
            .map_or(String::new(), |offset| format!(" at device byte {offset}"));
        let client = match (finding.client_offset, finding.len_bytes) {
            (Some(offset), Some(len)) => format!(" for {len} client bytes at {offset}"),
            _ => String::new(),
        };
        say(&format!("{kind}: {}{device}{client}: {}", finding.place, finding.problem));
        if args.repair_hint {
            say(&format!("        {}", repair_of(args, found, finding)));
        }
    }
    say(&format!(
        "checked {}: superblock copies, snapshots, logs and {} logged chunks ({}); {} \
         (blocks at home have no checksum)",
        args.target,
        found.chunks,
        ByteSize(found.chunk_bytes),
        counted(found.findings_total, "finding"),
    ));
}

fn repair_of(args: &CheckArgs, found: &CheckReport, finding: &CheckFinding) -> String {
    let target = format!("{}{}", quoted(&args.target), device_flags(&args.disk));
    match finding.place.as_str() {
        place if place.starts_with("superblock") => {
            format!("to write it again from a sound copy: nearhead repair {target}")
        }
        place if place.starts_with("snapshot") && found.sound_snapshots > 0 => {
            format!("to write it again from the map: nearhead repair {target}")
        }
        place if place.starts_with("snapshot") || found.sound_snapshots == 0 => format!(
            "no snapshot is sound; to see what the logs still know, changing nothing: nearhead repair {target} \
             --dry-run (or restore a backup of the metadata: nearhead restore-metadata {target} FILE)"
        ),
        "logged block" => {
            let log = finding.device_offset.map(|offset| found.superblock.layout.group_of(offset));
            format!(
                "write these client bytes again, or give them up: nearhead forget-log {target} {}",
                log.unwrap_or(0)
            )
        }
        "lost block" => "write these client bytes again, from a backup".to_owned(),
        _ if found.opens => format!(
            "write the client bytes that are named again, from a backup; to write the map without them: nearhead \
             repair {target}"
        ),
        _ => format!(
            "to see what would be lost, changing nothing: nearhead repair {target} --dry-run; to go on without it: \
             nearhead repair {target} --accept-loss"
        ),
    }
}
