//! Workloads of several tenants on one disk: Manylogs' W1 to W5 (table Ib), re-rated.
//!
//! Each tenant has a part of the disk of its own and a trace, the real one where there is one. The
//! requests of all are merged in order of arrival. A mix that would overload the disk is slowed
//! down by one factor for all tenants, so that the bare disk, one request at a time, would be busy
//! for a stated share of the time; the mix is then cut to its length again.

use crate::error::FigureError;
use crate::rig::{self, FigureDisk};
use crate::servers::{Server, Window};
use crate::traces::Traces;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::replay::{Player, ReplayError, ReplayOptions, Tempo};
use nearhead_sim::trace::TraceRequest;

/// A tenant: whose trace, and which part of it.
pub(crate) type Tenant = (&'static str, Window);

/// A workload of several tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// W1 to W5.
    pub name: &'static str,
    /// In the order of their places on the disk.
    pub tenants: &'static [Tenant],
}

use Window::{MostRead, MostWrite, Random};

/// Manylogs, table Ib. W1 has six tenants there, though the text speaks of five.
pub(crate) const MIXES: [Mix; 5] = [
    Mix {
        name: "W1",
        tenants: &[
            ("T7", MostWrite),
            ("T1", MostRead),
            ("T1", MostRead),
            ("T1", MostRead),
            ("T1", MostRead),
            ("T1", MostRead),
        ],
    },
    Mix {
        name: "W2",
        tenants: &[
            ("T1", MostRead),
            ("T7", MostRead),
            ("T8", MostRead),
            ("T9", MostRead),
            ("T10", MostRead),
        ],
    },
    Mix {
        name: "W3",
        tenants: &[
            ("T1", MostRead),
            ("T2", Random),
            ("T3", Random),
            ("T5", Random),
            ("T6", Random),
        ],
    },
    Mix {
        name: "W4",
        tenants: &[
            ("T7", MostWrite),
            ("T3", MostRead),
            ("T4", MostRead),
            ("T5", MostRead),
            ("T6", MostRead),
        ],
    },
    Mix {
        name: "W5",
        tenants: &[
            ("T1", MostRead),
            ("T2", Random),
            ("T4", Random),
            ("T6", Random),
            ("T8", Random),
        ],
    },
];

/// A mix, ready to be replayed.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// W1 to W5.
    pub name: &'static str,
    /// Names of the tenants' traces.
    pub sources: Vec<String>,
    /// In order of arrival.
    pub requests: Vec<TraceRequest>,
    /// By how much times were stretched.
    pub stretch: f64,
}

impl Prepared {
    /// Share of writes among the requests.
    pub(crate) fn write_share(&self) -> f64 {
        let writes = self.requests.iter().filter(|request| request.write).count();
        writes as f64 / self.requests.len().max(1) as f64
    }
}

impl Mix {
    /// Its requests for a volume of `size_bytes`, `length` long, so that the bare `disk` is busy
    /// for `busy_share` of the time at most.
    pub(crate) fn prepare(
        &self,
        traces: &Traces,
        disk: FigureDisk,
        size_bytes: u64,
        length: Nanos,
        busy_share: f64,
    ) -> Result<Prepared, FigureError> {
        let part = size_bytes / self.tenants.len() as u64 / (1 << 20) * (1 << 20);
        let mut sources = Vec::new();
        let mut requests: Vec<TraceRequest> = Vec::new();
        for (index, (id, window)) in self.tenants.iter().enumerate() {
            let seed = seed_of(self.name, index);
            let (name, tenant) = tenant_requests(traces, id, *window, part, length, seed)?;
            let start = index as u64 * part;
            let device = index as u32;
            requests.extend(tenant.into_iter().map(|request| TraceRequest {
                offset_bytes: start + request.offset_bytes,
                device,
                ..request
            }));
            sources.push(name);
        }
        // Stable: requests of the same instant stay in the order of their tenants.
        requests.sort_by_key(|request| request.at);
        let busy = busy_time(disk, &requests, self.name)?.as_secs_f64() / length.as_secs_f64();
        let stretch = (busy / busy_share).max(1.0);
        for request in &mut requests {
            request.at = Nanos((request.at.0 as f64 * stretch) as u64);
        }
        requests.retain(|request| request.at < length);
        Ok(Prepared { name: self.name, sources, requests, stretch })
    }
}

fn seed_of(mix: &str, tenant: usize) -> u64 {
    mix.bytes().fold(tenant as u64 + 1, |seed, byte| seed * 31 + u64::from(byte))
}

/// The requests of one tenant within `part` bytes, and what they are called.
fn tenant_requests(
    traces: &Traces,
    id: &str,
    window: Window,
    part: u64,
    length: Nanos,
    seed: u64,
) -> Result<(String, Vec<TraceRequest>), FigureError> {
    if id == "T8"
        && let Some(real) = traces.dtrs(part)?
    {
        // It is five minutes long: the whole is its most-read and its random window.
        let requests = real.requests.iter().copied().filter(|request| request.at < length);
        return Ok((real.name.clone(), requests.collect()));
    }
    let Some(server) = Server::by_id(id) else {
        let known = || Server::all().iter().map(|server| server.id.as_str()).collect();
        return Err(FigureError::Unknown { found: id.to_owned(), known: known() });
    };
    let generated = server.within(part).requests(window, length, seed);
    Ok((server.label(), generated.collect::<Result<_, _>>()?))
}

/// How long the bare disk takes for `requests`, one at a time.
fn busy_time(
    disk: FigureDisk,
    requests: &[TraceRequest],
    what: &str,
) -> Result<Nanos, FigureError> {
    let mut service = rig::bare(disk);
    let mut time = VirtualTime::default();
    let limit = service.info().request_bytes_max;
    let options = ReplayOptions::default();
    let given = requests.iter().copied().map(Ok);
    let mut player = Player::new(given, Tempo::ClosedLoop, options, Nanos::ZERO, limit);
    time.run(&mut service, &mut [&mut player], Nanos::MAX)
        .map_err(|problem| FigureError::replay(what, ReplayError::Stuck(problem)))?;
    Ok(time.now())
}
