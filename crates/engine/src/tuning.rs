//! What of a configuration may change while a volume is open: when cleaning and snapshots are due, how much waits in memory, who gives way.
//!
//! No law depends on any of it: each is looked at anew whenever something is decided. What lies on the disk, and what was sized at the start,
//! stays as it was.

use crate::admission::Admission;
use crate::cleaner::Cleaning;
use crate::config::Config;
use nearhead_disk::Nanos;

/// A change of an open volume's configuration.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// When blocks go home and logs elsewhere; its bounds, its memory and whether it is coordinated stay.
    pub cleaning: Cleaning,
    /// [`Config::snapshot_period`].
    pub snapshot_period: Nanos,
    /// [`Config::stage_bytes_max`], if that is more than it was.
    pub stage_bytes_max: usize,
    /// Another policy for who goes first, which knows nothing yet; none if that stays.
    pub admission: Option<Box<dyn Admission>>,
}

impl Tuning {
    /// What `config` says of these, but for who goes first.
    pub fn of(config: &Config) -> Self {
        Self {
            cleaning: config.cleaning.clone(),
            snapshot_period: config.snapshot_period,
            stage_bytes_max: config.stage_bytes_max,
            admission: None,
        }
    }

    /// Puts it over a configuration.
    pub fn put_over(&self, config: &mut Config) {
        let Cleaning { period, idle_after, window, watermark_pct, .. } = self.cleaning;
        let Cleaning { swap_above_pct, swap_idle_after, .. } = self.cleaning;
        let kept = config.cleaning.clone();
        config.cleaning = Cleaning {
            period,
            idle_after,
            window,
            watermark_pct,
            swap_above_pct,
            swap_idle_after,
            ..kept
        };
        config.snapshot_period = self.snapshot_period;
        // Never less: a request was let in by what there was, and may wait for that much.
        config.stage_bytes_max = config.stage_bytes_max.max(self.stage_bytes_max);
        if let Some(admission) = &self.admission {
            config.admission = admission.boxed();
        }
    }
}
