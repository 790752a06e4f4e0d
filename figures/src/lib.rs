//! The papers' figures and tables, reproduced on disk models in virtual time.
//!
//! One module per figure or table of a paper; each returns a [`Report`]: a comparison (**paper |
//! goal | baseline | ours | physical limit**), the data behind it, charts, and words about what was
//! run and what differs from the paper. Three things hold:
//!
//! - every number under *baseline* and *ours* is computed in the run that shows it;
//! - no model is changed to make a figure come out; what does not come out is said with its reason;
//! - the same effort and traces give the same numbers on every machine.
//!
//! What cannot be run says so ([`Value::NotRun`]); it is never filled in.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ablation;
pub mod chart;
mod charted;
mod contention;
mod double_writer;
mod error;
mod fig2;
mod fig2_drives;
mod fig3;
mod fig6;
mod fig7;
mod files;
mod gecko2;
mod gecko_cache;
mod gecko_cleaning;
mod gecko_contention;
mod gecko_mirrors;
mod gecko_power;
mod gecko_stripe;
mod hours;
mod in_log_order;
mod innodb_log;
mod journal;
mod lab;
mod layout;
mod log_limit;
mod log_traffic;
mod metered;
mod mix;
mod mlfs;
mod mlfs_mixes;
mod okeanos;
mod output;
mod paced;
mod page;
mod paper;
mod recent_reader;
mod replayed;
mod report;
mod rig;
mod servers;
mod smr;
mod sources;
mod spent;
mod swaps;
mod sweep;
mod sync_writer;
mod table2;
mod tail_reads;
mod target;
mod traces;
mod tracks;
mod trail3;
mod trail_batch;
mod trail_disk;
mod trail_log_disks;
mod trail_recovery;
mod trail_tpcc;
mod trail_writes;
mod transactions;

pub use error::FigureError;
pub use lab::{Effort, Lab, Progress, Silent};
pub use output::{prepare, table, write};
pub use page::{escaped, head};
pub use report::{Data, Drawing, Report, Row, Value};
pub use traces::{Fit, Traces};

/// A figure or table that can be asked for.
#[derive(Clone, Copy)]
pub struct Figure {
    /// As users name it.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Makes it.
    pub run: fn(&mut Lab<'_>) -> Result<Report, FigureError>,
}

/// Every figure there is, in the order of a results chapter.
pub const FIGURES: &[Figure] = &[
    Figure { name: "fig2a", summary: "Manylogs 2a: big reads beside syncs", run: fig2::fig2a },
    Figure {
        name: "fig2a-1m",
        summary: "the same as 2a with reads of 1 MiB",
        run: fig2::fig2a_large,
    },
    Figure {
        name: "fig2a-drives",
        summary: "the same on other drives, with 1 to 8 reads outstanding",
        run: fig2_drives::fig2a_drives,
    },
    Figure { name: "fig2b", summary: "Manylogs 2b: big writes beside syncs", run: fig2::fig2b },
    Figure { name: "fig3a", summary: "Manylogs 3a: the same as 2a on RAID-0", run: fig3::fig3a },
    Figure { name: "fig3b", summary: "Manylogs 3b: the same as 2b on RAID-0", run: fig3::fig3b },
    Figure { name: "fig2a-fs", summary: "2a over the real file system", run: mlfs::fig2a },
    Figure { name: "fig2b-fs", summary: "2b over the real file system", run: mlfs::fig2b },
    Figure { name: "fig3a-fs", summary: "3a over the real file system", run: mlfs::fig3a },
    Figure { name: "fig3b-fs", summary: "3b over the real file system", run: mlfs::fig3b },
    Figure { name: "fig4a", summary: "Manylogs 4a: beside fileserver", run: mlfs_mixes::fig4a },
    Figure { name: "fig4b", summary: "Manylogs 4b: beside varmail", run: mlfs_mixes::fig4b },
    Figure { name: "fig5", summary: "Manylogs 5: beside commit logs", run: mlfs_mixes::fig5 },
    Figure { name: "fig6a", summary: "Manylogs 6a: latencies in W1", run: fig6::fig6a },
    Figure { name: "fig6b", summary: "Manylogs 6b: MLB-256 over no logging", run: fig6::fig6b },
    Figure { name: "fig6c", summary: "Manylogs 6c: MLSMR over SLSMR", run: smr::fig6c },
    Figure { name: "swaps", summary: "Manylogs V-B: log swaps in W1 to W5", run: swaps::swaps },
    Figure { name: "table2", summary: "Manylogs table II: all speed-ups", run: table2::table2 },
    Figure { name: "fig7a", summary: "Manylogs 7a: one checkpoint an hour", run: fig7::fig7a },
    Figure { name: "fig7b", summary: "Manylogs 7b: what waiting saves it", run: fig7::fig7b },
    Figure { name: "fig8", summary: "Manylogs 8: the checkpoint on SMR", run: smr::fig8 },
    Figure { name: "mapping", summary: "Manylogs VI: size of the map", run: fig7::mapping },
    Figure { name: "sweep", summary: "Manylogs VI: parameters, and load", run: sweep::sweep },
    Figure {
        name: "ablation",
        summary: "nearhead, each of its answers left out",
        run: ablation::ablation,
    },
    Figure {
        name: "layout",
        summary: "how much log nearhead should have, in how large groups",
        run: layout::layout,
    },
    Figure {
        name: "target",
        summary: "a target for durable writes, and what it costs",
        run: target::target,
    },
    Figure {
        name: "trail3",
        summary: "Trail 3: synchronous writes, with no disk for the log",
        run: trail3::trail3,
    },
    Figure {
        name: "trail3-log-disk",
        summary: "Trail 3: synchronous writes, with a disk for the log",
        run: trail_disk::trail_disk,
    },
    Figure {
        name: "trail-log-disks",
        summary: "Trail: clustered synchronous writes with one, two and three log disks",
        run: trail_log_disks::trail_log_disks,
    },
    Figure {
        name: "trail1",
        summary: "Trail, table 1: writes in batches on a log disk",
        run: trail_batch::trail1,
    },
    Figure {
        name: "trail4",
        summary: "Trail 4: recovery with a disk for the log",
        run: trail_recovery::trail4,
    },
    Figure {
        name: "trail-tpcc",
        summary: "Trail, tables 2 and 3: a database's log under TPC-C",
        run: trail_tpcc::trail_tpcc,
    },
    Figure {
        name: "okeanos1",
        summary: "Okeanos 1: what goes to the journal",
        run: okeanos::okeanos1,
    },
    Figure {
        name: "okeanos4",
        summary: "Okeanos 4a to c: streams of synchronous writes",
        run: okeanos::okeanos4,
    },
    Figure {
        name: "okeanos5a",
        summary: "Okeanos 5a: small files as Postmark uses them, synchronous",
        run: okeanos::okeanos5a,
    },
    Figure {
        name: "okeanos5b",
        summary: "Okeanos 5b: logs of databases under TPC-C, replayed",
        run: okeanos::okeanos5b,
    },
    Figure {
        name: "okeanos5",
        summary: "Okeanos 5c, 5d: a parallel checkpoint",
        run: okeanos::okeanos5,
    },
    Figure {
        name: "okeanos-recovery",
        summary: "Okeanos, section 6: recovery after a crash",
        run: okeanos::okeanos_recovery,
    },
    Figure { name: "gecko2", summary: "Gecko 2: collapse of a RAID-0", run: gecko2::gecko2 },
    Figure {
        name: "gecko-contention",
        summary: "Gecko 2 with a log over the array, and a chain of its drives",
        run: gecko_contention::gecko_contention,
    },
    Figure {
        name: "gecko-cleaning",
        summary: "Gecko 3, 5, 6: random writes while a log or a chain is cleaned",
        run: gecko_cleaning::gecko_cleaning,
    },
    Figure {
        name: "gecko-mirrors",
        summary: "Gecko 4: reads of the body while it is cleaned, on mirrored pairs",
        run: gecko_mirrors::gecko_mirrors,
    },
    Figure {
        name: "gecko-power",
        summary: "Gecko 4: drives of a chain of mirrored pairs that sleep",
        run: gecko_power::gecko_power,
    },
    Figure {
        name: "gecko-stripe",
        summary: "Gecko 4: a chain of striped links",
        run: gecko_stripe::gecko_stripe,
    },
    Figure {
        name: "gecko-cache",
        summary: "Gecko 4: a read cache for the tail of a chain",
        run: gecko_cache::gecko_cache,
    },
];

/// The figures called `names`, in the order of [`FIGURES`]; all of them if there are no names.
pub fn choose(names: &[String]) -> Result<Vec<Figure>, FigureError> {
    let known = || FIGURES.iter().map(|figure| figure.name);
    if let Some(found) = names.iter().find(|name| !known().any(|known| known == *name)) {
        return Err(FigureError::Unknown { found: found.clone(), known: known().collect() });
    }
    let wanted = |figure: &&Figure| names.is_empty() || names.iter().any(|n| n == figure.name);
    Ok(FIGURES.iter().filter(wanted).copied().collect())
}
