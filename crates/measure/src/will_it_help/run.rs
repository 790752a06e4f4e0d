//! One run of a trace on a service: bulk as fast as it gets through, everything else at its recorded times.
//!
//! A trace that does not say how long things took says neither how many of them its sender had under way nor what it waited for: of such a trace bulk comes at
//! its recorded times, too.

use nearhead_basics::Histogram;
use nearhead_disk::Nanos;
use nearhead_service::{Service, ServiceInfo};
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{Makeup, Player, ReplayOptions, Role, Roles, Tempo};
use nearhead_sim::trace::{TraceError, TraceOptions, TraceReader, TraceRequest};
use std::path::Path;

/// A trace, and how it is played.
#[derive(Clone, Debug)]
pub struct Experiment<'a> {
    /// The trace.
    pub trace: &'a Path,
    /// How it is read.
    pub options: TraceOptions,
    /// What is in it.
    pub makeup: &'a Makeup,
    /// Whether every write is durable when it is answered, whatever the trace says.
    pub durable_writes: bool,
}

/// What a service made of it.
#[derive(Clone, Debug)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// Times of the durable points, in nanoseconds.
    pub points: Histogram,
    /// Bytes a second of bulk while any of it was under way; `None` without bulk.
    pub bulk_bytes_per_s: Option<f64>,
    /// Bytes a second of bulk, over seconds.
    pub bulk_over_time: Vec<(f64, f64)>,
    /// How long after the last arrival of what comes at its recorded times the last of it was answered.
    pub late_s: f64,
}

impl Experiment<'_> {
    /// Everything in the trace, on `service`.
    ///
    /// # Errors
    /// Those of reading the trace, and of requests that fail: what failed was not measured.
    pub fn run<S: Service>(&self, name: &str, service: &mut S) -> Result<Side, String> {
        self.play(name, service, true)
    }

    /// The bulk of the trace alone on `service`, in bytes a second; `None` without bulk.
    ///
    /// # Errors
    /// As of [`Experiment::run`].
    pub fn run_bulk_alone<S: Service>(&self, service: &mut S) -> Result<Option<f64>, String> {
        if !self.makeup.has_bulk() {
            return Ok(None);
        }
        Ok(self.play(super::BARE, service, false)?.bulk_bytes_per_s)
    }

    fn play<S: Service>(
        &self,
        name: &str,
        service: &mut S,
        with_others: bool,
    ) -> Result<Side, String> {
        let info = service.info();
        let most = ReplayOptions::default().outstanding_max;
        let recorded = self.makeup.recorded.as_ref();
        let (tempo, outstanding) =
            recorded.map_or((Tempo::OpenLoop, most), |it| (Tempo::Bursts, it.bulk_outstanding));
        let mut bulk = self.player(&info, tempo, outstanding, Role::is_bulk)?;
        let mut others = if with_others {
            Some(self.player(&info, Tempo::Chained, most, |role| !role.is_bulk())?)
        } else {
            None
        };
        let mut time = VirtualTime::starting_at(Nanos::ZERO);
        let ran = match &mut others {
            Some(others) => time.run(service, &mut [&mut bulk, others], Nanos::MAX),
            None => time.run(service, &mut [&mut bulk], Nanos::MAX),
        };
        for player in [Some(&mut bulk), others.as_mut()].into_iter().flatten() {
            if let Some(error) = player.take_trace_error() {
                return Err(error.to_string());
            }
            if let Some(failure) = player.results(time.now()).first_failure {
                return Err(format!("{name}: expected every request to succeed, found: {failure}"));
            }
        }
        ran.map_err(|stuck| format!("{name}: {stuck}"))?;
        let bulk_s = bulk.waited().as_secs_f64();
        let bulk_bytes = bulk.results(time.now()).all.bytes;
        Ok(Side {
            name: name.to_owned(),
            points: others.as_ref().map_or_else(Histogram::new, |others| others.points().clone()),
            bulk_bytes_per_s: (bulk_s > 0.0).then(|| bulk_bytes as f64 / bulk_s),
            bulk_over_time: if bulk_s > 0.0 { bulk.over_time().rates() } else { Vec::new() },
            late_s: others.as_ref().map_or(0.0, |others| others.late().as_secs_f64()),
        })
    }

    /// The requests with a role that `plays` takes.
    fn player(
        &self,
        info: &ServiceInfo,
        tempo: Tempo,
        outstanding_max: u32,
        plays: fn(Role) -> bool,
    ) -> Result<Player<impl Iterator<Item = Result<TraceRequest, TraceError>>>, String> {
        let reader = TraceReader::open(self.trace, self.options.clone().for_service(info))
            .map_err(|error| error.to_string())?;
        let durability = self.makeup.durability;
        let mut roles = Roles::new(durability);
        let requests = reader.filter(move |found| match found {
            Ok(request) => plays(roles.of(request)),
            Err(_) => true,
        });
        let options = ReplayOptions {
            outstanding_max,
            durable_writes: self.durable_writes,
            durability,
            ..ReplayOptions::default()
        };
        Ok(Player::new(requests, tempo, options, Nanos::ZERO, info.request_bytes_max))
    }
}
