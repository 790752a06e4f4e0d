//! What is asked of a server: the same requests of every one, by the same client.
//!
//! Each load runs for a stated time, and ends with every request answered. A request that fails ends
//! the measurement. Places are random over the same range of every export, or in sequence over it.

use super::super::row::median;
use super::servers::Server;
use crate::demo::client::{Ask, Client};
use nearhead_basics::Random;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SMALL_BYTES: u32 = 4096;
const LARGE_BYTES: u32 = 1 << 20;

/// What requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A durable write each.
    Fua,
    /// As many writes as are outstanding, then a flush, and so on.
    WriteAndFlush,
    Read,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    /// Of the row, without what it is compared with.
    pub(super) row: &'static str,
    pub(super) kind: Kind,
    request_bytes: u32,
    outstanding: u64,
    connections: u64,
    /// Two threads compute beside it.
    beside_loops: bool,
}

const fn small(name: &'static str, row: &'static str, kind: Kind, outstanding: u64) -> Load {
    let (request_bytes, connections) = (SMALL_BYTES, 1);
    Load { name, row, kind, request_bytes, outstanding, connections, beside_loops: false }
}

const fn beside_loops(load: Load) -> Load {
    Load { beside_loops: true, ..load }
}

pub(super) const FUA_1: Load = small("4 KiB FUA, 1 outstanding", "fua_1", Kind::Fua, 1);
const LARGE_READ: Load = Load {
    request_bytes: LARGE_BYTES,
    ..small("1 MiB read, 4 outstanding", "read_1m_4", Kind::Read, 4)
};

pub(super) const LOADS: [Load; 10] = [
    FUA_1,
    small("4 KiB FUA, 32 outstanding", "fua_32", Kind::Fua, 32),
    small("4 KiB write, flush every 16", "flush_16", Kind::WriteAndFlush, 16),
    small("4 KiB read, 1 outstanding", "read_1", Kind::Read, 1),
    small("4 KiB read, 32 outstanding", "read_32", Kind::Read, 32),
    LARGE_READ,
    Load {
        kind: Kind::Fua,
        name: "1 MiB FUA in sequence, 4 outstanding",
        row: "fua_1m_4",
        ..LARGE_READ
    },
    Load { connections: 8, ..small("4 KiB FUA, 8 connections", "fua_8_clients", Kind::Fua, 1) },
    beside_loops(small("4 KiB FUA beside two busy loops", "fua_1_busy", Kind::Fua, 1)),
    beside_loops(small("4 KiB read beside two busy loops", "read_1_busy", Kind::Read, 1)),
];

/// What a load came to.
pub(super) struct Outcome {
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
}

impl Load {
    /// As it is told: requests a second, or 10^6 bytes a second of large ones.
    pub(super) fn shown(&self, requests_per_s: f64) -> f64 {
        if self.request_bytes == LARGE_BYTES {
            requests_per_s * f64::from(LARGE_BYTES) / 1e6
        } else {
            requests_per_s
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.request_bytes == LARGE_BYTES { "MB/s" } else { "requests/s" }
    }

    /// Runs it on `server` for `time`, over the first `span_bytes`.
    pub(super) fn run(
        &self,
        server: &Server,
        span_bytes: u64,
        time: Duration,
        seed: u64,
    ) -> io::Result<Outcome> {
        if self.kind == Kind::Read {
            server.read_image()?;
        }
        let stop = AtomicBool::new(false);
        let loops = if self.beside_loops { 2 } else { 0 };
        std::thread::scope(|scope| {
            for _ in 0..loops {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::black_box(0);
                    }
                });
            }
            let outcome = self.on_connections(server, span_bytes, time, seed);
            stop.store(true, Ordering::Relaxed);
            outcome
        })
    }

    fn on_connections(
        &self,
        server: &Server,
        span_bytes: u64,
        time: Duration,
        seed: u64,
    ) -> io::Result<Outcome> {
        let connect = |_| server.connect();
        let mut clients =
            (0..self.connections).map(connect).collect::<io::Result<Vec<Client>>>()?;
        let started = Instant::now();
        let until = started + time;
        let latencies_us: io::Result<Vec<Vec<f64>>> = std::thread::scope(|scope| {
            let threads = (0..).zip(&mut clients).map(|(number, client)| {
                let random = Random::new(seed * self.connections + number);
                scope.spawn(move || self.on_client(client, 0..span_bytes, until, random))
            });
            let threads: Vec<_> = threads.collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<Vec<f64>>>| {
                thread.join().map_err(|_| io::Error::other("a client panicked (internal error)"))?
            };
            threads.into_iter().map(join).collect()
        });
        let latencies_us = latencies_us?.concat();
        let requests_per_s = latencies_us.len() as f64 / started.elapsed().as_secs_f64();
        Ok(Outcome { requests_per_s, p50_us: median(&latencies_us) })
    }

    /// One client's requests; the time of each, without flushes.
    fn on_client(
        &self,
        client: &mut Client,
        span: Range<u64>,
        until: Instant,
        mut random: Random,
    ) -> io::Result<Vec<f64>> {
        let len = u64::from(self.request_bytes);
        let data = vec![0x5a; self.request_bytes as usize];
        let places = (span.end - span.start) / len;
        let mut in_sequence = random.below(places);
        let mut next = || {
            in_sequence = (in_sequence + 1) % places;
            let is_large = self.request_bytes == LARGE_BYTES;
            span.start + len * if is_large { in_sequence } else { random.below(places) }
        };
        let ask = |offset| match self.kind {
            Kind::Read => Ask::Read { offset, len: self.request_bytes },
            kind => Ask::Write { offset, data: &data, fua: kind == Kind::Fua },
        };
        let mut latencies_us = Vec::new();
        let mut issued_at = vec![Instant::now(); self.outstanding as usize];
        loop {
            for slot in 0..self.outstanding {
                issued_at[slot as usize] = Instant::now();
                client.send(slot, ask(next()))?;
            }
            let mut outstanding = self.outstanding;
            while outstanding > 0 {
                // Everything that has arrived is answered with new requests together.
                client.wait(None)?;
                while client.has_input() {
                    let slot = succeeded(client)?;
                    latencies_us.push(issued_at[slot as usize].elapsed().as_secs_f64() * 1e6);
                    if self.kind != Kind::WriteAndFlush && Instant::now() < until {
                        issued_at[slot as usize] = Instant::now();
                        client.send(slot, ask(next()))?;
                    } else {
                        outstanding -= 1;
                    }
                }
            }
            if self.kind != Kind::WriteAndFlush {
                return Ok(latencies_us);
            }
            client.send(self.outstanding, Ask::Flush)?;
            succeeded(client)?;
            if Instant::now() >= until {
                return Ok(latencies_us);
            }
        }
    }
}

/// Takes an answer; which request it is to.
fn succeeded(client: &mut Client) -> io::Result<u64> {
    let answer = client.receive()?;
    if answer.error == 0 {
        Ok(answer.handle)
    } else {
        Err(io::Error::from_raw_os_error(answer.error as i32))
    }
}

/// Writes every byte of the export, in sequence, so that no server answers from knowing that there is
/// nothing.
pub(super) fn fill_image(server: &Server) -> io::Result<()> {
    let mut client = server.connect()?;
    let data = vec![0xa5; LARGE_BYTES as usize];
    let size = client.size_bytes();
    for offset in (0..size).step_by(LARGE_BYTES as usize) {
        let len = u64::from(LARGE_BYTES).min(size - offset) as usize;
        client.send(0, Ask::Write { offset, data: &data[..len], fua: false })?;
        succeeded(&mut client)?;
    }
    client.send(0, Ask::Flush)?;
    succeeded(&mut client).map(|_| ())
}

/// Writes so many random blocks of the first `span_bytes`, durably: logs are filled by them.
pub(super) fn fill_logs(server: &Server, span_bytes: u64, bytes: u64) -> io::Result<()> {
    const AT_ONCE: u64 = 256;
    let mut client = server.connect()?;
    let mut random = Random::new(7);
    let data = vec![0x3c; SMALL_BYTES as usize];
    for _ in 0..bytes / u64::from(SMALL_BYTES) / AT_ONCE {
        for slot in 0..AT_ONCE {
            let offset = random.below(span_bytes / u64::from(SMALL_BYTES)) * u64::from(SMALL_BYTES);
            client.send(slot, Ask::Write { offset, data: &data, fua: true })?;
        }
        for _ in 0..AT_ONCE {
            succeeded(&mut client)?;
        }
    }
    Ok(())
}
