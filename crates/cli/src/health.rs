//! Whether a volume is well, and what its disk did wrong, as `nearhead status` and metrics tell it.

use crate::units::ByteSize;
use nearhead_disk::Nanos;
use nearhead_engine::{DiskErrorCounts, DiskErrorReport, Status, disk_error_name};
use nearhead_output::counted;
use nearhead_volume::LossReport;
use serde::{Deserialize, Serialize};

/// Whether all is well, in one word, and if not why.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Health {
    /// `well`, `degraded` (it works, but somebody must look) or `failed` (no change is accepted).
    pub state: String,
    /// Why, one line each.
    pub reasons: Vec<String>,
}

/// What the disk did wrong since the volume was opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskErrors {
    /// Commands that failed.
    pub total: u64,
    /// The same by what they were for and how they failed, but for zeros.
    pub counts: Vec<DiskErrorCount>,
    /// The last of them.
    pub last: Option<LastDiskError>,
    /// Commands that the disk does not answer now.
    pub stalled: Option<Stalled>,
    /// How often that began.
    pub stalls: u64,
    /// For how long there has been no space under the image, in seconds, if there is none.
    pub no_space_s: Option<f64>,
}

/// How many commands failed in one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiskErrorCount {
    /// `read`, `home-write`, `log-write`, `map-write`, `flush` or `trim`.
    pub work: String,
    /// `io`, `no-space`, `gone`, `invalid` or `read-only`.
    pub kind: String,
    /// Commands.
    pub count: u64,
}

/// Writes that the disk lost after it had answered them, since the daemon was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Losses {
    /// How often, and so how often the volume was opened again for it.
    pub count: u64,
    /// Whether it is being opened again now.
    pub is_reopening: bool,
    /// How long ago the last time was, in seconds, if there was one.
    pub last_age_s: Option<f64>,
    /// What the disk said then.
    pub last_problem: Option<String>,
}

/// The last command that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LastDiskError {
    /// What it was for.
    pub work: String,
    /// How it failed.
    pub kind: String,
    /// Position of the data device that failed, if it was one.
    #[serde(default)]
    pub data_device: Option<u8>,
    /// First byte of that device; none for a flush.
    pub device_offset: Option<u64>,
    /// Bytes.
    pub len_bytes: u64,
    /// How long ago, in seconds.
    pub age_s: f64,
    /// In words.
    pub problem: String,
}

/// Commands without an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stalled {
    /// How many.
    pub commands: u32,
    /// What the oldest is for.
    pub work: String,
    /// How long it has waited, in seconds.
    pub for_s: f64,
}

impl Health {
    /// Whether nobody needs to look.
    pub fn is_well(&self) -> bool {
        self.state == "well"
    }

    /// Of a volume with this status and these errors, on a disk that may have trouble of its own.
    pub fn of(
        status: &Status,
        errors: &DiskErrors,
        disk_trouble: Option<&str>,
        losses: Option<&Losses>,
    ) -> Self {
        let failure = status.failure.as_ref().map(|why| format!("no change is accepted: {why}"));
        let mut reasons: Vec<String> = failure.into_iter().collect();
        if !status.damage.is_empty() {
            reasons.push(format!("{} of damage", counted(status.damage.len() as u64, "finding")));
        }
        reasons.extend(disk_trouble.map(str::to_owned));
        reasons.extend(losses.and_then(Losses::in_words));
        if let Some(stalled) = &errors.stalled {
            reasons.push(format!(
                "the disk has not answered {} commands for {:.0} s",
                stalled.commands, stalled.for_s
            ));
        }
        if let Some(seconds) = errors.no_space_s {
            reasons
                .push(format!("no space under the image for {seconds:.0} s: writes wait or fail"));
        }
        if errors.total > 0 {
            reasons.push(format!("disk errors since it was opened: {}", errors.in_words()));
        }
        let state = match (&status.failure, reasons.is_empty()) {
            (Some(_), _) => "failed",
            (None, true) => "well",
            (None, false) => "degraded",
        };
        Self { state: state.to_owned(), reasons }
    }

    /// In one word, as a number for metrics: 0 well, 1 degraded, 2 failed.
    pub fn level(&self) -> u64 {
        match self.state.as_str() {
            "well" => 0,
            "failed" => 2,
            _ => 1,
        }
    }
}

impl Losses {
    /// Those of a served volume, at the time `now` of its clock.
    pub fn of(report: &LossReport, is_reopening: bool, now: Nanos) -> Self {
        let last = report.last.as_ref();
        Self {
            count: report.count,
            is_reopening,
            last_age_s: last.map(|(_, at)| now.since(*at).as_secs_f64()),
            last_problem: last.map(|(why, _)| why.clone()),
        }
    }

    /// Why somebody must look, if so.
    fn in_words(&self) -> Option<String> {
        let age_s = self.last_age_s?;
        let now = if self.is_reopening { ", and is being opened again now" } else { "" };
        let times = counted(self.count, "time");
        Some(format!("the disk lost writes {times}, the last {age_s:.0} s ago{now}"))
    }
}

impl DiskErrors {
    /// Those in `status`, at the time `now` of the volume's clock.
    pub fn of(status: &Status, now: Nanos) -> Self {
        let since = |at: Nanos| now.since(at).as_secs_f64();
        Self {
            stalled: status.stall.map(|stall| Stalled {
                commands: stall.commands,
                work: stall.work.name().to_owned(),
                for_s: since(stall.since),
            }),
            stalls: status.stalls,
            no_space_s: status.shortage.map(|shortage| since(shortage.since)),
            ..Self::counted(&status.disk_errors, status.last_disk_error.as_ref(), now)
        }
    }

    /// Commands that failed, and the last of them.
    pub fn counted(counts: &DiskErrorCounts, last: Option<&DiskErrorReport>, now: Nanos) -> Self {
        let nonzero = counts.iter().filter(|(_, _, count)| *count > 0);
        Self {
            total: counts.total(),
            counts: nonzero
                .map(|(work, kind, count)| DiskErrorCount {
                    work: work.name().to_owned(),
                    kind: disk_error_name(kind).to_owned(),
                    count,
                })
                .collect(),
            last: last.map(|last| LastDiskError {
                work: last.work.name().to_owned(),
                kind: disk_error_name(last.kind).to_owned(),
                data_device: last.lane.data_position(),
                device_offset: last.offset,
                len_bytes: last.len,
                age_s: now.since(last.at).as_secs_f64(),
                problem: last.to_string(),
            }),
            ..Self::default()
        }
    }

    /// How many of what, in one line.
    fn in_words(&self) -> String {
        let each = |one: &DiskErrorCount| format!("{} {} ({})", one.count, one.work, one.kind);
        self.counts.iter().map(each).collect::<Vec<_>>().join(", ")
    }

    /// The last one for people.
    pub fn last_in_words(&self) -> Option<String> {
        let last = self.last.as_ref()?;
        Some(format!("{:.0} s ago: {}", last.age_s, last.problem))
    }
}

/// Which writes are logged, for people.
pub fn threshold_in_words(logged_write_bytes_max: u32) -> String {
    match logged_write_bytes_max {
        0 => "no writes".to_owned(),
        u32::MAX => "all writes".to_owned(),
        bytes => format!("writes up to {}", ByteSize(u64::from(bytes))),
    }
}
