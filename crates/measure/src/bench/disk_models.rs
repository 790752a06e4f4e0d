//! The disk models against drives that were measured, and how fast they simulate.
//!
//! The drives are in `../shared/disks` (or under `NEARHEAD_SHARED`): parameter packages, measured
//! traces, and DiskSim's prediction of each request, which is compared in the same way and printed
//! beside ours. What is fitted is fitted to the first half of a trace; rows of such a drive are about
//! the second half only. docs/reproduction.md says what was fitted to what.

use super::Effort;
use super::machine::{processor_time, resident_bytes};
use super::row::{Row, Target, median};
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_models::measured::{Comparison, MeasuredRequest};
use nearhead_models::{HddOptions, ModelSpec, Profile};
use nearhead_profiles::fit::{FitOptions, fit};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{Player, ReplayOptions, Tempo};
use nearhead_sim::trace::{TraceError, TraceRequest};
use nearhead_study::dataless::{self, Answers};
use nearhead_study::measured::{
    Fit, compare_some, find_profile, model, read_predictions, read_trace,
};
use nearhead_volume::NamedPreset;
use std::path::{Path, PathBuf};

/// What a row says about a comparison.
#[derive(Clone, Copy)]
enum Figure {
    /// Size of the error of the mean, in percent.
    MeanError,
    /// In percent of the measured mean.
    Demerit,
    /// Percent of the requests.
    Within300Us,
    Within500Us,
}

impl Figure {
    fn of(self, comparison: &Comparison) -> f64 {
        match self {
            Self::MeanError => comparison.mean_error_percent.abs(),
            Self::Demerit => comparison.demerit_percent,
            Self::Within300Us => 100.0 * comparison.within_300_us,
            Self::Within500Us => 100.0 * comparison.within_500_us,
        }
    }
}

/// Which requests a row is about.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    All,
    Reads,
    /// Those on cylinders below this one.
    Below(u32),
}

/// A drive, its files, and what must hold.
struct Drive {
    package: &'static str,
    trace: &'static str,
    predictions: &'static str,
    /// Fits overheads; angles too.
    fit: (bool, bool),
    /// The drive's caches were off when it was measured.
    caches_off: bool,
    rows: &'static [(&'static str, Which, Figure, Target)],
}

use Figure::{Demerit, MeanError, Within300Us, Within500Us};
use Target::{AtLeast, AtMost};

/// Cylinders of the Cheetah 15K.5 on which the angles of its layout are as extracted.
const EXTRACTED_BELOW: u32 = 18_000;

const DRIVES: [Drive; 9] = [
    Drive {
        package: "disksim-valid/hp_c2247a",
        trace: "disksim-valid/hp_c2247a.trace.zst",
        predictions: "hp_c2247a",
        fit: (false, false),
        caches_off: false,
        rows: &[
            ("model_hp_c2247a_mean_error_percent", Which::All, MeanError, AtMost(1.0)),
            ("model_hp_c2247a_demerit_percent", Which::All, Demerit, AtMost(1.5)),
            ("model_hp_c2247a_within_500us_percent", Which::All, Within500Us, AtLeast(90.0)),
        ],
    },
    Drive {
        package: "disksim-valid/st41601n",
        trace: "disksim-valid/st41601n.trace.zst",
        predictions: "st41601n",
        fit: (false, false),
        caches_off: false,
        rows: &[
            ("model_st41601n_mean_error_percent", Which::All, MeanError, AtMost(1.0)),
            ("model_st41601n_demerit_percent", Which::All, Demerit, AtMost(1.5)),
            ("model_st41601n_within_500us_percent", Which::All, Within500Us, AtLeast(90.0)),
        ],
    },
    Drive {
        package: "disksim-valid/cheetah9LP",
        trace: "disksim-valid/cheetah9LP.trace.zst",
        predictions: "cheetah9LP",
        fit: (false, false),
        caches_off: false,
        rows: &[("model_cheetah9lp_reads_demerit_percent", Which::Reads, Demerit, AtMost(2.5))],
    },
    Drive {
        package: "disksim-valid/ibm18es",
        trace: "disksim-valid/ibm18es.trace.zst",
        predictions: "ibm18es",
        fit: (false, false),
        caches_off: false,
        rows: &[("model_ibm18es_reads_demerit_percent", Which::Reads, Demerit, AtMost(2.5))],
    },
    Drive {
        package: "disksim-valid/atlas10k",
        trace: "disksim-valid/atlas10k.trace.zst",
        predictions: "atlas10k",
        fit: (false, false),
        caches_off: false,
        rows: &[("model_atlas10k_demerit_percent", Which::All, Demerit, AtMost(5.0))],
    },
    Drive {
        package: "disksim-valid/atlas_III",
        trace: "disksim-valid/atlas_III.trace.zst",
        predictions: "atlas_III",
        fit: (true, false),
        caches_off: false,
        rows: &[("model_atlas_iii_demerit_percent", Which::All, Demerit, AtMost(5.0))],
    },
    Drive {
        package: "disksim-valid/barracuda",
        trace: "disksim-valid/barracuda.trace.zst",
        predictions: "barracuda",
        fit: (true, false),
        caches_off: false,
        rows: &[("model_barracuda_demerit_percent", Which::All, Demerit, AtMost(5.0))],
    },
    Drive {
        package: "disksim-valid/cheetah4LP",
        trace: "disksim-valid/cheetah4LP.trace.zst",
        predictions: "cheetah4LP",
        fit: (true, false),
        caches_off: false,
        rows: &[("model_cheetah4lp_demerit_percent", Which::All, Demerit, AtMost(5.0))],
    },
    Drive {
        package: "st3146855fc/Seagate-Cheetah15k5",
        trace: "st3146855fc/random.trace.zst",
        predictions: "cheetah15k5",
        fit: (true, true),
        caches_off: true,
        rows: &[
            ("model_st3146855fc_mean_error_percent", Which::All, MeanError, AtMost(2.0)),
            ("model_st3146855fc_demerit_percent", Which::All, Demerit, AtMost(4.5)),
            (
                "model_st3146855fc_outer_within_300us_percent",
                Which::Below(EXTRACTED_BELOW),
                Within300Us,
                AtLeast(85.0),
            ),
        ],
    },
];

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let root = std::env::var_os("NEARHEAD_SHARED")
        .map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
    let disks = root.join("disks");
    let mut rows = Vec::new();
    for drive in &DRIVES {
        let trace = disks.join(drive.trace);
        if effort.quick && drive.fit.0 {
            let why = "fits take seconds: leave out --quick";
            rows.extend(drive.rows.iter().map(|row| Row::skipped(row.0, row.3, why)));
        } else if trace.exists() {
            rows.extend(compare(&disks, drive)?);
        } else {
            let why = format!("no {} (NEARHEAD_SHARED names the folder)", trace.display());
            rows.extend(drive.rows.iter().map(|row| Row::skipped(row.0, row.3, &why)));
        }
    }
    rows.extend(speed(effort)?);
    Ok(rows)
}

fn compare(disks: &Path, drive: &Drive) -> Result<Vec<Row>, String> {
    let package = disks.join(drive.package);
    let (mut profile, _) = find_profile(&package.to_string_lossy())?;
    let trace = disks.join(drive.trace);
    let requests = read_trace(&trace, profile.capacity_bytes(), profile.sector_bytes, Fit::Error)?;
    let off = drive.caches_off.then_some(false);
    let setup = HddOptions { write_cache: off, read_cache: off, ..HddOptions::default() };
    let (overheads, angles) = drive.fit;
    let is_fitted = overheads || angles;
    let mut how = "nothing fitted".to_owned();
    if is_fitted {
        let fitted = fit(
            &profile,
            &requests,
            FitOptions { angles, overheads, setup, ..FitOptions::default() },
        )?;
        let constants = fitted.constants.len();
        how = format!("{constants} constants fitted to the first half, this is the second");
        profile = fitted.profile;
    }
    let modelled = model(&profile, &requests, setup)?;
    let table = disks.join(format!("disksim-predictions/{}.csv.zst", drive.predictions));
    let theirs = if table.exists() { read_predictions(&table, &requests)? } else { Vec::new() };
    let from = if is_fitted { requests.len() / 2 } else { 0 };
    let rows = drive.rows.iter().map(|&(name, which, figure, target)| {
        let some = |times: &[f64]| select(&profile, &requests[..times.len()], times, which, from);
        let ours = some(&modelled)?;
        let disksim = some(&theirs)?;
        let beside = if disksim.requests == 0 {
            "DiskSim: not known".to_owned()
        } else {
            let of = if disksim.requests == ours.requests {
                String::new()
            } else {
                format!(" of its first {}", disksim.requests)
            };
            format!("DiskSim {:.2}{of}", figure.of(&disksim))
        };
        let detail = format!("{beside}; {} requests, {how}", ours.requests);
        Ok(Row::new(name, target, figure.of(&ours), detail))
    });
    rows.collect()
}

fn select(
    profile: &Profile,
    requests: &[MeasuredRequest],
    times: &[f64],
    which: Which,
    from: usize,
) -> Result<Comparison, String> {
    let geometry = profile.geometry().map_err(|error| error.to_string())?;
    Ok(compare_some(requests, times, |index, request| {
        index >= from
            && match which {
                Which::All => true,
                Which::Reads => !request.write,
                Which::Below(limit) => geometry.locate(request.lbn).cylinder < limit,
            }
    }))
}

/// The disk that the simulator's speed is measured on.
const SPEED_DISK: &str = "st3146855fc,content=none";
/// Blocks that requests go to, spread evenly over the disk: as with a real working set, most writes
/// replace what is in a log already, and the map stays small.
const WORKING_SET_BLOCKS: u64 = 1 << 18;
/// Time between requests: the disk keeps up, as in most hours of a trace.
const SPACING: Nanos = Nanos::from_millis(10);

fn speed(effort: Effort) -> Result<Vec<Row>, String> {
    let (rounds, requests) = (effort.pick(3, 1), effort.pick(2_000_000, 50_000));
    let mut rows = Vec::new();
    for (name, preset, least) in [
        ("simulate_nolog_requests_per_s", "nolog", 1e6),
        ("simulate_mlb_requests_per_s", "mlb", 5e5),
    ] {
        let rates: Result<Vec<f64>, String> =
            (0..rounds).map(|_| simulate(preset, requests).map(|(rate, _)| rate)).collect();
        let detail = format!(
            "per second of processor time, random 4 KiB, half writes, {requests} requests to \
             {WORKING_SET_BLOCKS} blocks all over {SPEED_DISK}, median of {rounds}"
        );
        rows.push(Row::new(name, AtLeast(least), median(&rates?), detail));
    }
    // The same length again and twice as long: what it takes must not grow with the trace.
    let (_, short) = simulate("nolog", requests)?;
    let (_, long) = simulate("nolog", 2 * requests)?;
    let growth = long.saturating_sub(short) as f64 / requests as f64;
    let detail = format!("growth of the resident memory from {requests} requests to twice as many");
    rows.push(Row::new("simulate_bytes_per_request", AtMost(1.0), growth, detail));
    Ok(rows)
}

/// Requests a second of processor time, and the resident memory at the end.
fn simulate(preset: &str, requests: u64) -> Result<(f64, u64), String> {
    let spec = ModelSpec::parse(SPEED_DISK).map_err(|error| error.to_string())?;
    let disk = spec.build().map_err(|error| error.to_string())?;
    let preset = NamedPreset::by_name(preset).map_err(|error| error.to_string())?;
    let mut volume = dataless::volume(disk, preset, Answers::Durable)?;
    let info = volume.info();
    let spread = info.size_bytes / 4096 / WORKING_SET_BLOCKS * 4096;
    let mut random = Random::new(5);
    let made_up = (0..requests).map(|number| -> Result<TraceRequest, TraceError> {
        Ok(TraceRequest {
            at: Nanos(SPACING.0 * number),
            offset_bytes: random.below(WORKING_SET_BLOCKS) * spread,
            len_bytes: 4096,
            write: random.below(2) == 0,
            ..TraceRequest::default()
        })
    });
    let options = ReplayOptions { durable_writes: true, ..ReplayOptions::default() };
    let mut player = Player::new(made_up, Tempo::OpenLoop, options, Nanos::ZERO, 1 << 20);
    let started = processor_time();
    VirtualTime::default()
        .run(&mut volume, &mut [&mut player], Nanos::MAX)
        .map_err(|error| error.to_string())?;
    let taken = processor_time().saturating_sub(started).as_secs_f64();
    Ok((requests as f64 / taken.max(1e-9), resident_bytes()))
}
