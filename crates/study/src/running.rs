//! A described workload at work: the generator of `sim` that it is, and what that counted.

use crate::experiment::StudyError;
use crate::load::Load;
use crate::outcome::{ClassOutcome, LoadOutcome};
use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_service::ServiceInfo;
use nearhead_sim::replay::{Durability, Makeup, Player, ReplayOptions, Tempo};
use nearhead_sim::trace::TraceReader;
use nearhead_sim::workload::{Bulk, DurablePoints, RandomMix, Tally, Workload};
use serde_json::{Value, json};

/// A workload at work.
pub(crate) enum Running {
    Replay(Box<Player<TraceReader>>, Replayed),
    Points(Box<DurablePoints>),
    Bulk(Box<Bulk>),
    Random(Box<RandomMix>),
}

/// What is told of a trace beside what its player counted.
pub(crate) struct Replayed {
    name: String,
    form: &'static str,
}

impl Running {
    /// `load` on what `info` tells of. Of a trace, `durable_writes` says whether every write is durable when it is answered, `makeup` what is in it.
    pub(crate) fn start(
        load: &Load,
        info: &ServiceInfo,
        durable_writes: bool,
        makeup: Option<&Makeup>,
    ) -> Result<Self, StudyError> {
        Ok(match load {
            Load::Points(load) => Self::Points(Box::new(DurablePoints::new(load.on(info)?))),
            Load::Bulk(load) => Self::Bulk(Box::new(Bulk::new(load.on(info)?))),
            Load::Random(load) => Self::Random(Box::new(RandomMix::new(load.on(info)?))),
            Load::Replay(load) => {
                load.check()?;
                let options = load.requests.measured(load.options.clone());
                let options = options.map_err(StudyError::told)?.for_service(info);
                let trace = load.requests.read(options).map_err(StudyError::told)?;
                let replayed =
                    Replayed { name: trace.name().to_owned(), form: trace.format().name() };
                let suggested = if trace.format().is_closed_loop() {
                    Tempo::ClosedLoop
                } else {
                    Tempo::OpenLoop
                };
                let options = ReplayOptions {
                    tempo: load.tempo,
                    outstanding_max: load.outstanding_max,
                    durable_writes,
                    durability: makeup.map_or(Durability::EveryWrite, |makeup| makeup.durability),
                    ..ReplayOptions::default()
                };
                let tempo = load.tempo.unwrap_or(suggested);
                let player =
                    Player::new(trace, tempo, options, Nanos::ZERO, info.request_bytes_max);
                Self::Replay(Box::new(player), replayed)
            }
        })
    }

    pub(crate) fn workload(&mut self) -> &mut dyn Workload {
        match self {
            Self::Replay(player, _) => &mut **player,
            Self::Points(points) => &mut **points,
            Self::Bulk(bulk) => &mut **bulk,
            Self::Random(mix) => &mut **mix,
        }
    }

    /// Why a trace ended early, if it did.
    pub(crate) fn take_error(&mut self) -> Option<StudyError> {
        match self {
            Self::Replay(player, _) => player.take_trace_error().map(StudyError::told),
            Self::Points(_) | Self::Bulk(_) | Self::Random(_) => None,
        }
    }

    /// What it counted until `now`.
    pub(crate) fn outcome(&self, kind: &'static str, now: Nanos) -> LoadOutcome {
        let (classes, facts) = match self {
            Self::Replay(player, replayed) => replay_outcome(player, replayed, now),
            Self::Points(points) => {
                let (tally, summary) = (points.tally(), points.summary(now));
                let facts = json!({
                    "late": summary.late,
                    "lag_max_ms": summary.lag_max_ms,
                    "unfinished_ms": summary.unfinished_ms,
                });
                (vec![of_tally("points", &tally.points)], facts)
            }
            Self::Bulk(bulk) => (vec![of_tally("bulk", bulk.tally())], json!({})),
            Self::Random(mix) => {
                (vec![of_tally("reads", mix.reads()), of_tally("writes", mix.writes())], json!({}))
            }
        };
        LoadOutcome { kind, classes, facts }
    }
}

fn of_tally(name: &'static str, tally: &Tally) -> ClassOutcome {
    ClassOutcome {
        name,
        requests: tally.requests,
        bytes: tally.bytes,
        failed: tally.failed,
        first_failure: tally.first_failure.clone(),
        latency_ns: tally.latency.clone(),
    }
}

/// Classes of a trace: reads and writes, both small and large, and durable points.
fn replay_outcome(
    player: &Player<TraceReader>,
    replayed: &Replayed,
    now: Nanos,
) -> (Vec<ClassOutcome>, Value) {
    let results = player.results(now);
    let class = |name, latency: &Histogram, bytes| ClassOutcome {
        name,
        requests: latency.count(),
        bytes,
        failed: 0,
        first_failure: None,
        latency_ns: latency.clone(),
    };
    let both = |name, write| {
        let ((small, small_bytes), (large, large_bytes)) =
            (player.kind(write, false), player.kind(write, true));
        let mut latency = small.clone();
        latency.merge(large);
        class(name, &latency, small_bytes.saturating_add(large_bytes))
    };
    let one = |name, write, large| {
        let (latency, bytes) = player.kind(write, large);
        class(name, latency, bytes)
    };
    let mut all = class("all", &player.latencies(), results.all.bytes);
    (all.failed, all.first_failure) = (results.failed, results.first_failure.clone());
    let classes = vec![
        all,
        both("reads", false),
        both("writes", true),
        one("small_reads", false, false),
        one("large_reads", false, true),
        one("small_writes", true, false),
        one("large_writes", true, true),
        class("points", player.points(), 0),
    ];
    let facts = json!({
        "trace": replayed.name,
        "format": replayed.form,
        "closed_loop": results.closed_loop,
        "requests": results.requests,
        "small_bytes_max": results.small_bytes_max,
        "delayed_requests": results.delayed_requests,
        "lag_max_ms": results.lag_max_ms,
        "lag_at_end_ms": results.lag_at_end_ms,
        "trace_s": results.trace_s,
        "kept_up": results.kept_up(),
        "demerit_pct": results.demerit_pct,
        "waited_s": player.waited().as_secs_f64(),
    });
    (classes, facts)
}
