//! What the papers report and the project aims at, read from `data/papers.toml`.
//!
//! The file is part of the program, so the figures need nothing beside it; a test holds it against
//! the shared targets where those are at hand.

use crate::report::Value;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The embedded numbers.
pub(crate) static PAPERS: LazyLock<Papers> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/papers.toml")).expect("embedded; a test reads it")
});

/// All of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Papers {
    contention: Vec<Contention>,
    pub(crate) stores: Stores,
    pub(crate) mixes: Mixes,
    pub(crate) hours: Hours,
    pub(crate) table2: Table2,
    pub(crate) gecko: Gecko,
    pub(crate) trail: Trail,
    pub(crate) okeanos: Okeanos,
}

/// Okeanos' figures, by mode: what streams of 1 kbit/s write to the journal at most (4a), how many times as fast as ordered journaling a
/// checkpoint is (5c), and Postmark's transactions a second at most (5a).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Okeanos {
    pub(crate) journal_mb_s: BTreeMap<String, f64>,
    pub(crate) checkpoint_factor: BTreeMap<String, f64>,
    pub(crate) postmark_tps: BTreeMap<String, f64>,
    /// How much shorter a recovery is with wasteless than with data journaling, in some cases.
    pub(crate) recovery_cut_pct: f64,
}

/// A point of Manylogs' figures 2 and 3.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Contention {
    figure: String,
    mode: String,
    writes_per_s: u32,
    pub(crate) bandwidth_pct: Option<f64>,
    pub(crate) sync_ms: Option<f64>,
    pub(crate) goal_bandwidth_pct: Option<f64>,
    pub(crate) goal_sync_ms: Option<f64>,
}

/// Smallest, largest and mean of several experiments.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) average: f64,
}

impl Spread {
    /// Of `values`; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { min, max, average: values.iter().sum::<f64>() / count })
    }

    /// In the papers' way: "1.2 to 2.8 (1.9)".
    pub(crate) fn shown(self) -> Value {
        let shown = crate::report::shown;
        let (min, max, average) = (shown(self.min), shown(self.max), shown(self.average));
        Value::Words(format!("{min} to {max} ({average})"))
    }
}

/// From, to.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Between {
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl From<Between> for Value {
    fn from(between: Between) -> Self {
        Self::Range(between.min, between.max)
    }
}

/// Manylogs' figure 5: bandwidth in % of the disk alone, by stores and time between flushes.
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stores {
    pub(crate) one_33ms_pct: f64,
    pub(crate) one_1ms_pct: f64,
    pub(crate) goal_four_1ms_pct: f64,
}

/// Manylogs' figure 6 and what goes with it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mixes {
    pub(crate) mlb256_speedup: Spread,
    pub(crate) mlsmr_speedup: Spread,
    pub(crate) swaps_mlb256: [u32; 5],
    pub(crate) swaps_mlsmr: [u32; 5],
    pub(crate) goal_speedup: f64,
    pub(crate) goal_smr_speedup: f64,
}

/// Manylogs' figures 7 and 8 and the sizes of its section VI.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hours {
    pub(crate) checkpoint_s: Between,
    pub(crate) overwrite_pct: Between,
    pub(crate) mapping_table_bytes: Between,
    pub(crate) smr_checkpoint_factor: f64,
}

/// Manylogs' table II.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table2 {
    pub(crate) ordered_bandwidth: Spread,
    pub(crate) ordered_latency: Spread,
    pub(crate) adaptive_bandwidth: Spread,
    pub(crate) adaptive_latency: Spread,
    pub(crate) goal_ordered_bandwidth: f64,
    pub(crate) goal_ordered_latency: f64,
}

/// Gecko's figures 2, 3, 5 and 6.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gecko {
    pub(crate) sequential_drop_pct_min: f64,
    pub(crate) random_writer_collapse_factor: f64,
    pub(crate) lfs_before_mb_s: f64,
    pub(crate) lfs_during_mb_s: f64,
    pub(crate) tail_before_mb_s: f64,
    pub(crate) tail_app_mb_s: f64,
    pub(crate) body_mb_s: f64,
    pub(crate) drives_off: f64,
    /// Of the reads of a tail, those that a cache absorbs (section 4), and the sizes of both.
    pub(crate) tail_cache_hit_pct: f64,
    pub(crate) cache_gb: f64,
    pub(crate) cache_tail_gb: f64,
}

/// Trail's figure 3.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trail {
    pub(crate) sync_write_ms_4k: f64,
    pub(crate) mean_rotational_ms: f64,
    pub(crate) speedup_max: f64,
    pub(crate) recovery_locate_ms: f64,
    pub(crate) recovery_writeback_factor: f64,
    /// Elapsed time of 32 writes of a sector, in ms: 1, 2, 4, 8, 16 and 32 of them in a batch.
    pub(crate) batch_elapsed_ms: [f64; 6],
    pub(crate) tpcc: Tpcc,
    /// Of 10,000 transactions, with log buffers of 4, 100, 400, 800 and 1,200 KB.
    pub(crate) group_commits: [f64; 5],
    /// With 4, 8 and 12 transactions under way.
    pub(crate) track_utilization_pct: [f64; 3],
}

impl Trail {
    /// Log bytes of a transaction, as the group commits of 100 KB tell.
    pub(crate) fn log_bytes(&self) -> f64 {
        self.group_commits[1] * 102_400.0 / 10_000.0
    }
}

/// Trail's table 2: transactions a minute, mean response, and how long log writes were under way for 5,000 transactions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tpcc {
    pub(crate) trail_tpmc: f64,
    pub(crate) ext2_tpmc: f64,
    pub(crate) ext2_group_commit_tpmc: f64,
    pub(crate) trail_resp_s: f64,
    pub(crate) ext2_resp_s: f64,
    pub(crate) group_commit_resp_s: f64,
    pub(crate) trail_log_io_s: f64,
    pub(crate) ext2_log_io_s: f64,
    pub(crate) group_commit_log_io_s: f64,
}

impl Papers {
    /// What is reported of `mode` at `writes_per_s` in `figure`; nothing where the text is silent.
    pub(crate) fn contention(&self, figure: &str, mode: &str, writes_per_s: u32) -> Contention {
        let found = self.contention.iter().find(|point| {
            point.figure == figure && point.mode == mode && point.writes_per_s == writes_per_s
        });
        found.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_embedded_numbers_can_be_read_and_found() {
        assert_eq!(PAPERS.contention("fig2a", "ordered", 40).sync_ms, Some(209.0));
        assert_eq!(PAPERS.contention("fig2a", "ordered", 80).sync_ms, None);
    }

    #[test]
    fn the_embedded_numbers_are_those_of_the_shared_targets() {
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared");
        let shared = std::env::var_os("NEARHEAD_SHARED").map_or(beside.into(), PathBuf::from);
        let Ok(text) = std::fs::read_to_string(shared.join("papers/targets.toml")) else {
            println!("skipped: no targets.toml in $NEARHEAD_SHARED or ../shared");
            return;
        };
        let targets: toml::Table = toml::from_str(&text).unwrap();
        let number = |path: &[&str]| {
            let first = &targets[path[0]];
            let value = path[1..].iter().fold(first, |value, key| &value[*key]);
            value.as_float().or(value.as_integer().map(|whole| whole as f64)).unwrap()
        };
        for (mode, bandwidth, sync) in [
            ("ordered", "ordered_bandwidth_pct", "ordered_sync_ms"),
            ("adaptive", "adaptive_bandwidth_pct", "adaptive_sync_ms"),
            ("manylogs", "manylogs_bandwidth_pct", "manylogs_sync_ms"),
        ] {
            for (rate, key) in [(40, "iops40"), (320, "iops320")] {
                let ours = PAPERS.contention("fig2a", mode, rate);
                assert_eq!(
                    ours.bandwidth_pct,
                    Some(number(&["manylogs", "fig2a", bandwidth, key]))
                );
                assert_eq!(ours.sync_ms, Some(number(&["manylogs", "fig2a", sync, key])));
            }
        }
        let trail = &PAPERS.trail;
        for (ours, key) in [
            (trail.speedup_max, "speedup_max"),
            (trail.sync_write_ms_4k, "sync_write_ms_4k"),
            (trail.mean_rotational_ms, "mean_rotational_ms"),
            (trail.recovery_locate_ms, "recovery_locate_ms"),
            (trail.recovery_writeback_factor, "recovery_writeback_factor_q256"),
        ] {
            assert!((ours - number(&["trail", key])).abs() < 1e-9, "{key}");
        }
        let tpcc = &trail.tpcc;
        for (ours, path) in [
            (tpcc.trail_tpmc, &["trail", "tpcc", "trail_tpmc"][..]),
            (tpcc.ext2_tpmc, &["trail", "tpcc", "ext2_tpmc"]),
            (tpcc.ext2_group_commit_tpmc, &["trail", "tpcc", "ext2_group_commit_tpmc"]),
            (tpcc.trail_resp_s, &["trail", "tpcc", "trail_resp_s"]),
            (tpcc.ext2_resp_s, &["trail", "tpcc", "ext2_resp_s"]),
            (tpcc.trail_log_io_s, &["trail", "tpcc", "trail_log_io_s"]),
            (tpcc.ext2_log_io_s, &["trail", "tpcc", "ext2_log_io_s"]),
            (trail.group_commits[0], &["trail", "group_commits_10000_txn", "kb4"]),
            (trail.group_commits[1], &["trail", "group_commits_10000_txn", "kb100"]),
            (trail.group_commits[2], &["trail", "group_commits_10000_txn", "kb400"]),
            (trail.group_commits[3], &["trail", "group_commits_10000_txn", "kb800"]),
            (trail.group_commits[4], &["trail", "group_commits_10000_txn", "kb1200"]),
            (trail.track_utilization_pct[0], &["trail", "track_utilization_pct", "conc4"]),
            (trail.track_utilization_pct[1], &["trail", "track_utilization_pct", "conc8"]),
            (trail.track_utilization_pct[2], &["trail", "track_utilization_pct", "conc12"]),
        ] {
            assert!((ours - number(path)).abs() < 1e-9, "{path:?}");
        }
        let postmark_tps = PAPERS.okeanos.postmark_tps["wasteless"];
        assert!((postmark_tps - number(&["okeanos", "postmark_tps_wasteless"])).abs() < 1e-9);
        let recovery_cut_pct = PAPERS.okeanos.recovery_cut_pct;
        assert!((recovery_cut_pct - number(&["okeanos", "recovery_time_cut_pct"])).abs() < 1e-9);
        let gecko = &PAPERS.gecko;
        for (ours, path) in [
            (gecko.lfs_before_mb_s, &["gecko", "lfs_mb_s", "before_gc"][..]),
            (gecko.lfs_during_mb_s, &["gecko", "lfs_mb_s", "during_gc"]),
            (gecko.tail_before_mb_s, &["gecko", "move_to_tail_mb_s", "before_gc"]),
            (gecko.tail_app_mb_s, &["gecko", "move_to_tail_mb_s", "app"]),
            (gecko.body_mb_s, &["gecko", "compact_in_body_mb_s"]),
            (gecko.tail_cache_hit_pct, &["gecko", "tail_cache_hit_pct", "hit"]),
            (gecko.cache_gb, &["gecko", "tail_cache_hit_pct", "cache_gb"]),
            (gecko.cache_tail_gb, &["gecko", "tail_cache_hit_pct", "tail_gb"]),
        ] {
            assert!((ours - number(path)).abs() < 1e-9, "{path:?}");
        }
        let goal = number(&["manylogs", "fig6", "goal_vs_nologging_speedup", "average"]);
        assert!((PAPERS.mixes.goal_speedup - goal).abs() < 1e-9);
        let most = number(&["manylogs", "fig7_fig8", "checkpoint_s_per_hour_of_trace", "max"]);
        assert!((PAPERS.hours.checkpoint_s.max - most).abs() < 1e-9);
    }
}
