//! The real daemon killed with SIGKILL under load, again and again, with a content oracle.
//!
//! The oracle knows for every sector which writes it may hold: the last one that was acknowledged
//! as durable, or any one sent after it. `NEARHEAD_SEED` repeats a run; `NEARHEAD_KILLS` sets how
//! many kills.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::{Client, Kind};
use common::{Daemon, Scratch, run_ok};
use nearhead_basics::SplitMix;
use std::collections::HashMap;

const SECTOR: u64 = 512;
/// The part of the volume that is written, in sectors: small, so that blocks are overwritten often.
const SECTORS: u64 = 24 * 1024;

/// An image; `@` is its path.
const IMAGE: &str = "@";
/// An emulated disk whose write cache is in the daemon's memory: a kill loses it, as a power cut
/// would.
const MODEL: &str = "model:st3146855fc,cache=on,file=@";

/// Writes a sector may hold as `(write, content)`, oldest first; the first is durable. Content 0 is
/// zeros.
#[derive(Clone, Default)]
struct Candidates(Vec<(u64, u64)>);

struct Write {
    sector: u64,
    sectors: u64,
    fua: bool,
    acknowledged: bool,
}

struct Oracle {
    sectors: Vec<Candidates>,
    writes: HashMap<u64, Write>,
    next_id: u64,
    /// The volume promises what FUA does for every write.
    every_reply_is_durable: bool,
}

impl Oracle {
    fn new(every_reply_is_durable: bool) -> Self {
        Self {
            sectors: vec![Candidates(vec![(0, 0)]); SECTORS as usize],
            writes: HashMap::new(),
            next_id: 1,
            every_reply_is_durable,
        }
    }

    fn sent(&mut self, id: u64, content: u64, sector: u64, sectors: u64, fua: bool) {
        for at in sector..sector + sectors {
            self.sectors[at as usize].0.push((id, content));
        }
        let write = Write { sector, sectors, fua, acknowledged: false };
        self.writes.insert(id, write);
    }

    fn is_durable(&mut self, cookie: u64) {
        let Some(write) = self.writes.remove(&cookie) else { return };
        for at in write.sector..write.sector + write.sectors {
            let candidates = &mut self.sectors[at as usize].0;
            // Everything older than a durable write is gone for good.
            if let Some(found) = candidates.iter().position(|(id, _)| *id == cookie) {
                candidates.drain(..found);
            }
        }
    }

    fn acknowledged(&mut self, cookie: u64) {
        let Some(write) = self.writes.get_mut(&cookie) else { return };
        write.acknowledged = true;
        if write.fua || self.every_reply_is_durable {
            self.is_durable(cookie);
        }
    }

    /// A flush sent after these were acknowledged was answered.
    fn flushed(&mut self, covered: Vec<u64>) {
        for cookie in covered {
            self.is_durable(cookie);
        }
    }

    fn acknowledged_writes(&self) -> Vec<u64> {
        // In order, so that the newest of several writes to a sector wins.
        let mut cookies: Vec<u64> =
            self.writes.iter().filter(|(_, write)| write.acknowledged).map(|(id, _)| *id).collect();
        cookies.sort_unstable();
        cookies
    }

    /// Compares what the volume holds after a restart, and takes it as the new truth.
    fn check(&mut self, client: &mut Client, seed: u64, cycle: u32) {
        const STEP: u64 = 2048;
        for start in (0..SECTORS).step_by(STEP as usize) {
            let bytes = client.read(start * SECTOR, (STEP * SECTOR) as u32);
            for (index, bytes) in bytes.chunks_exact(SECTOR as usize).enumerate() {
                let at = start + index as u64;
                let found = content_of(bytes, at);
                let candidates = &mut self.sectors[at as usize].0;
                assert!(
                    found.is_some_and(|found| candidates
                        .iter()
                        .any(|(_, content)| *content == found)),
                    "sector {at} after kill {cycle}: expected one of (write, content) {candidates:?}, found {found:?}; \
                     repeat with NEARHEAD_SEED={seed}"
                );
                *candidates = vec![(0, found.unwrap())];
            }
        }
        self.writes.clear();
    }
}

/// A sector of write `id`: its id and address over and over.
fn sector_of(id: u64, sector: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SECTOR as usize);
    for index in 0..SECTOR / 16 {
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(&(sector << 8 | index).to_le_bytes());
    }
    bytes
}

fn content_of(bytes: &[u8], sector: u64) -> Option<u64> {
    let id = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    if id == 0 {
        return bytes.iter().all(|byte| *byte == 0).then_some(0);
    }
    (bytes == sector_of(id, sector)).then_some(id)
}

/// One batch of writes that do not overlap, sent without waiting.
fn send_batch(
    client: &mut Client,
    oracle: &mut Oracle,
    random: &mut SplitMix,
) -> std::io::Result<usize> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    let mut sent = 0;
    for _ in 0..=random.below(16) {
        let sectors = match random.below(10) {
            0 => 256 + random.below(256),
            1 | 2 => 1 + random.below(7),
            _ => 8 * (1 + random.below(4)),
        };
        let align = if sectors % 8 == 0 { 8 } else { 1 };
        let sector = random.below((SECTORS - sectors) / align) * align;
        if taken.iter().any(|(from, to)| sector < *to && sector + sectors > *from) {
            continue;
        }
        taken.push((sector, sector + sectors));
        let cookie = oracle.next_id;
        oracle.next_id += 1;
        let fua = random.below(4) == 0;
        let len = (sectors * SECTOR) as u32;
        if random.below(12) == 0 {
            oracle.sent(cookie, 0, sector, sectors, fua);
            client.send(cookie, Kind::WriteZeroes, fua, sector * SECTOR, len, &[])?;
        } else {
            oracle.sent(cookie, cookie, sector, sectors, fua);
            let data: Vec<u8> =
                (sector..sector + sectors).flat_map(|at| sector_of(cookie, at)).collect();
            client.send(cookie, Kind::Write, fua, sector * SECTOR, len, &data)?;
        }
        sent += 1;
    }
    Ok(sent)
}

fn take_replies(client: &mut Client, oracle: &mut Oracle, count: usize) -> std::io::Result<()> {
    for _ in 0..count {
        let (cookie, error) = client.reply()?;
        assert_eq!(error, 0, "write {cookie} failed");
        oracle.acknowledged(cookie);
    }
    Ok(())
}

/// Loads the daemon and kills it with a batch under way; what it answered before dying counts.
fn load_and_kill(daemon: Daemon, oracle: &mut Oracle, random: &mut SplitMix) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for _ in 0..20 + random.below(120) {
        let sent = send_batch(&mut client, oracle, random).unwrap();
        take_replies(&mut client, oracle, sent).unwrap();
        if random.below(3) == 0 {
            let covered = oracle.acknowledged_writes();
            client.flush();
            oracle.flushed(covered);
        }
    }
    let sent = send_batch(&mut client, oracle, random).unwrap();
    let some = random.below(sent as u64 + 1) as usize;
    take_replies(&mut client, oracle, some).unwrap();
    daemon.kill();
    // Replies that were on their way are answers too.
    let _ = take_replies(&mut client, oracle, sent - some);
}

fn run_cycles(name: &str, target: &str, create: &[&str], serve: &[&str], kills: u32, seed: u64) {
    println!("{name}: NEARHEAD_SEED={seed}");
    let scratch = Scratch::new(name);
    let target = &target.replace('@', &scratch.text("disk.img"));
    // An emulated disk has the size of its profile.
    let size: &[&str] = if target.starts_with("model:") { &[] } else { &["--size", "96MiB"] };
    let mut args = vec!["create", target];
    args.extend_from_slice(size);
    args.extend_from_slice(create);
    run_ok(&scratch, &args);
    let (mut oracle, mut random) = (Oracle::new(create.contains(&"durable")), SplitMix::new(seed));
    for cycle in 0..kills {
        let daemon = Daemon::serve(&scratch, target, serve);
        oracle.check(&mut Client::connect(&daemon.socket).unwrap(), seed, cycle);
        load_and_kill(daemon, &mut oracle, &mut random);
        // Reading it without the daemon finds nothing wrong either.
        run_ok(&scratch, &["check", target]);
    }
    let daemon = Daemon::serve(&scratch, target, serve);
    oracle.check(&mut Client::connect(&daemon.socket).unwrap(), seed, kills);
    daemon.stop_ok();
}

fn seed() -> u64 {
    let given = std::env::var("NEARHEAD_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()) << 16 | 1)
}

fn kills() -> u32 {
    std::env::var("NEARHEAD_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

#[test]
fn kill_9_under_load_loses_nothing_acknowledged_with_many_logs() {
    let create = ["--preset", "mlb-32", "--group-size", "8MiB", "--log-size", "1MiB"];
    // Cleaning all the time, so that kills hit checkpoints and swaps too.
    let serve = [
        "--watermark",
        "20",
        "--checkpoint-period",
        "1s",
        "--swap-above",
        "30",
        "--swap-idle",
        "1ms",
    ];
    run_cycles("kill-mlb", IMAGE, &create, &serve, kills(), seed());
}

#[test]
fn kill_9_under_load_loses_nothing_acknowledged_with_one_log() {
    let create = ["--preset", "singlelog", "--log-size", "2MiB"];
    run_cycles("kill-single", IMAGE, &create, &["--watermark", "20"], kills() / 2, seed() ^ 0x55);
}

#[test]
fn kill_9_under_load_loses_nothing_acknowledged_when_every_reply_is_durable() {
    let create = ["--preset", "mlb-256", "--ack", "durable"];
    run_cycles("kill-durable", IMAGE, &create, &[], kills() / 2, seed() ^ 0xaa);
}

#[test]
fn kill_9_under_load_loses_nothing_acknowledged_without_logs() {
    run_cycles("kill-nolog", IMAGE, &["--preset", "nolog"], &[], kills() / 2, seed() ^ 0xff);
}

#[test]
fn kill_9_with_a_volatile_write_cache_loses_nothing_acknowledged_as_durable() {
    let create = ["--preset", "mlb-32"];
    let serve = ["--checkpoint-period", "1s", "--swap-above", "1", "--swap-idle", "1ms"];
    run_cycles("kill-cache", MODEL, &create, &serve, kills() / 2, seed() ^ 0x77);
}
