//! Small changes to codecs, map, recovery, volume, arrays, NBD and devices, one at a time: which of them does no test notice?
//!
//! cargo-mutants lists the changes. All of a part are built into one copy of the tree, each behind a question
//! that the running program answers from a variable ([`switch`]), and the part's tests run once for each: that
//! tries hundreds in the time in which one at a time would try a few. Of the tests only those run that come upon the change
//! ([`meetings`]). What cannot be built in so (constants,
//! `const` functions, removed fields, what does not compile there) is tried alone, in a second copy. Every
//! change that no test notices has to be on the list of those that are equal to the original ([`verdicts`]),
//! or the run fails.
//!
//! The workspace itself is never written, and no change leaves the target directory.

mod alone;
mod build;
mod list;
mod meetings;
mod sites;
mod switch;
mod together;
mod trial;
mod verdicts;

use crate::sandbox::target_folder;
use clap::builder::PossibleValuesParser;
use list::Mutant;
use std::collections::BTreeSet;
use std::path::Path;
use verdicts::{Report, Verdict};

/// A test program and which of its tests are asked; all of them if none is named.
#[derive(Clone, Copy, Debug)]
struct Program {
    package: &'static str,
    /// The integration test of that name, or the library's own tests.
    target: Option<&'static str>,
    tests: &'static [&'static str],
}

impl Program {
    /// The package's folder below `crates`.
    fn folder(&self) -> &'static str {
        self.package.strip_prefix("nearhead-").unwrap_or(self.package)
    }

    fn target_name(&self) -> String {
        self.target.map_or_else(|| self.package.replace('-', "_"), str::to_owned)
    }
}

const fn program(package: &'static str, target: Option<&'static str>) -> Program {
    Program { package, target, tests: &[] }
}

/// What is changed, and which tests are asked, quick ones first.
struct Part {
    name: &'static str,
    files: &'static str,
    /// The package whose files these are: its own program comes first.
    programs: &'static [Program],
}

const ENGINE: Program = program("nearhead-engine", None);
/// The slowest test of the map, which is asked only if the others notice nothing.
const INVENTED: &str = "the_map_agrees_with_a_map_of_single_sectors";
const LAWS: Program = program("nearhead-volume", Some("laws"));

const PARTS: [Part; 7] = [
    Part {
        name: "codec",
        files: "crates/format/src/**",
        programs: &[program("nearhead-format", None), program("nearhead-format", Some("messages"))],
    },
    Part {
        name: "map",
        files: "crates/engine/src/state/map/**",
        programs: &[
            Program { tests: &["map::", "--skip", INVENTED], ..ENGINE },
            Program { tests: &[INVENTED], ..ENGINE },
            program("nearhead-engine", Some("map_at_scale")),
        ],
    },
    Part {
        name: "recovery",
        files: "crates/engine/src/recovery/**",
        programs: &[
            Program { tests: &["recovery::"], ..ENGINE },
            Program {
                tests: &["recovery", "torn_twin", "stale_superblock", "failed_volume"],
                ..LAWS
            },
            program("nearhead-volume", Some("large_records")),
            program("nearhead-volume", Some("large_snapshot")),
            program("nearhead-volume", Some("map_device")),
            program("nearhead-volume", Some("backups")),
            // The maps that are rebuilt from logs alone, gaps, and headers that stand in one place only.
            Program {
                tests: &["rebuild", "only_log", "lone_header", "lost_record", "unreadable"],
                ..LAWS
            },
            Program { tests: &["state_machine"], ..LAWS },
        ],
    },
    Part {
        name: "volume",
        files: "crates/volume/src/**",
        programs: &[
            program("nearhead-volume", None),
            program("nearhead-volume", Some("offline")),
            program("nearhead-volume", Some("coordinated")),
            program("nearhead-volume", Some("near_head")),
            program("nearhead-volume", Some("lost_superblock")),
            program("nearhead-volume", Some("large_snapshot")),
            program("nearhead-volume", Some("gathered")),
            program("nearhead-volume", Some("map_device")),
            program("nearhead-volume", Some("lost_writes")),
            program("nearhead-volume", Some("backups")),
            program("nearhead-volume", Some("blank_map")),
            program("nearhead-volume", Some("foreign_preset")),
            // What the commands of an operator say and do is asked of them.
            program("nearhead-cli", Some("users")),
            program("nearhead-cli", Some("damage")),
            program("nearhead-cli", Some("rebuild")),
            program("nearhead-cli", Some("lifecycle")),
            program("nearhead-cli", Some("operator")),
            program("nearhead-cli", Some("served_backup")),
            program("nearhead-cli", Some("exports")),
            program("nearhead-cli", Some("array_targets")),
            // A minute each.
            program("nearhead-volume", Some("shingled")),
            Program { tests: &["offline_commands", "recovery_table", "after_recovery"], ..LAWS },
            Program { tests: &["stale_superblock", "rebuild", "blank_map", "older_slot"], ..LAWS },
        ],
    },
    Part {
        name: "arrays",
        files: "crates/arrays/src/**",
        programs: &[program("nearhead-arrays", None)],
    },
    Part {
        name: "nbd",
        files: "crates/nbd/src/**",
        programs: &[
            program("nearhead-nbd", None),
            program("nearhead-nbd", Some("extended_headers")),
            program("nearhead-nbd", Some("remote_disk")),
            program("nearhead-nbd", Some("server_life")),
            program("nearhead-nbd", Some("clients_misbehave")),
            program("nearhead-nbd", Some("remote_chunks")),
            program("nearhead-nbd", Some("remote_forms")),
        ],
    },
    Part {
        name: "uring",
        files: "crates/uring/src/**",
        programs: &[
            program("nearhead-uring", None),
            program("nearhead-uring", Some("fallback")),
            program("nearhead-uring", Some("block_device")),
            program("nearhead-uring", Some("commands")),
            program("nearhead-uring", Some("exclusive")),
            program("nearhead-uring", Some("same_bytes")),
            program("nearhead-uring", Some("losing_disk")),
            program("nearhead-uring", Some("durable_file")),
            // Files for write-ahead logs are opened by those alone.
            program("nearhead-wal", None),
            program("nearhead-volume", Some("lost_writes")),
            program("nearhead-uring", Some("random")),
        ],
    },
];

/// Which changes.
#[derive(clap::Args)]
pub(crate) struct MutantsArgs {
    /// What is changed
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    part: String,
    /// Only changes whose description matches
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Only what one build tries: the others take a build each
    #[arg(long)]
    together: bool,
}

/// What can be named: each part, or all of them.
fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|part| part.name).chain(["all"])
}

/// Tries the changes of a part; true if every one that no test notices is known to be equal.
pub(crate) fn run(workspace: &Path, arguments: &MutantsArgs) -> bool {
    let MutantsArgs { part, only, together } = arguments;
    let parts = PARTS.iter().filter(|each| part == "all" || each.name == part.as_str());
    let mut reports = Vec::new();
    for part in parts {
        match try_part(workspace, part, only.as_deref(), *together) {
            Ok(report) => reports.push(report),
            Err(problem) => {
                eprintln!("xtask mutants: {}: {problem}", part.name);
                return false;
            }
        }
    }
    println!("{}", verdicts::table(&reports));
    for report in &reports {
        print!("{}", report.findings());
    }
    reports.iter().all(Report::is_closed)
}

fn try_part(
    workspace: &Path,
    part: &Part,
    only: Option<&str>,
    together: bool,
) -> Result<Report, String> {
    let mutants = list::list(workspace, part.files, None)?;
    let chosen = match only {
        Some(_) => list::list(workspace, part.files, only)?,
        None => mutants.clone(),
    };
    let chosen: BTreeSet<String> = chosen.into_iter().map(|mutant| mutant.name).collect();
    println!("{}: {} changes of {}", part.name, chosen.len(), mutants.len());
    // Built code is shared by the parts, copies of the tree are not.
    let folder = target_folder(workspace).join("mutants").join(part.name);
    let (mut results, left) = together::try_all(workspace, &folder, part, &mutants, &chosen)?;
    println!("{}: {} changes alone", part.name, left.len());
    if together {
        results.extend(left.into_iter().map(|mutant| (mutant, Verdict::NotTried)));
    } else {
        results.extend(alone::try_all(workspace, &folder, part, &left)?);
    }
    results.sort_by_key(|(mutant, _)| mutant.id);
    let report = Report::new(part.name, results, only.is_none() && !together);
    let path = folder.join("verdicts.txt");
    std::fs::write(&path, report.lines())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}: every verdict is in {}", part.name, path.display());
    Ok(report)
}

/// A change and what became of it.
type Tried = (Mutant, Verdict);
