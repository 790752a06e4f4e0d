//! Metrics that only a daemon has: clients, what they ask and how long it takes, permits.

use super::exposition::{Buckets, Exposition, Kind};
use crate::report::{SIZE_STEPS, Served};
use crate::serve::Coordination;

/// Ends of the buckets of times, in nanoseconds: from a page in memory to a disk that hangs.
const TIME_ENDS_NS: [u64; 22] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
    100_000_000_000,
];

/// All of them.
pub(super) fn render(all: &mut Exposition, served: &Served) {
    all.one(
        "disk_trouble",
        Kind::Gauge,
        "1 while a member of a mirror is missing, old or unsure",
        u64::from(served.disk_trouble.is_some()),
    );
    all.one(
        "lost_writes_total",
        Kind::Counter,
        "How often the disk lost writes and the volume was opened again",
        served.losses.count,
    );
    served.coordination.iter().for_each(|turns| coordination(all, turns));
    let clients = &served.clients;
    all.one("connections_open", Kind::Gauge, "Clients connected", clients.connections_open);
    for (name, help, value) in [
        ("connections_total", "Clients served", clients.connections_accepted),
        (
            "connections_stalled_total",
            "Clients cut off because they made no progress",
            clients.connections_stalled,
        ),
        ("flushes_total", "Flushes that clients asked for", served.requests.flushes),
        ("trims_total", "Trims and writes of zeros that they asked for", served.requests.trims),
    ] {
        all.one(name, Kind::Counter, help, value);
    }
    sizes(all, served);
    let mut family = all.family(
        "latency_seconds",
        Kind::Histogram,
        "From the whole request to its reply; durable are writes answered once durable, and flushes",
    );
    let buckets = Buckets { ends: &TIME_ENDS_NS, divisor: 1e9 };
    for (kind, latency) in served.latency.kinds() {
        family.histogram(&[("kind", kind)], &latency.times_ns, &buckets);
    }
}

fn sizes(all: &mut Exposition, served: &Served) {
    let mut family = all.family("request_size_bytes", Kind::Histogram, "Sizes of requests");
    let buckets = Buckets { ends: &SIZE_STEPS, divisor: 1.0 };
    family.histogram(&[("kind", "read")], &served.requests.read_bytes, &buckets);
    family.histogram(&[("kind", "write")], &served.requests.written_bytes, &buckets);
}

fn coordination(all: &mut Exposition, turns: &Coordination) {
    let (wanted, held) = (u64::from(turns.wants_permit), u64::from(turns.state == "holding"));
    let away = turns.unreachable_s.map_or(0, |seconds| (seconds as u64).max(1));
    for (name, kind, help, value) in [
        (
            "checkpoint_permit_wanted",
            Kind::Gauge,
            "1 while a checkpoint waits for or runs on a permit",
            wanted,
        ),
        ("checkpoint_permit_held", Kind::Gauge, "1 while there is a permit", held),
        (
            "coordination_unreachable_seconds",
            Kind::Gauge,
            "How long no server of permits has answered",
            away,
        ),
        ("checkpoint_permits_total", Kind::Counter, "Permits got", turns.permits_granted),
        ("checkpoint_permits_lost_total", Kind::Counter, "Permits gone early", turns.permits_lost),
    ] {
        all.one(name, kind, help, value);
    }
}
