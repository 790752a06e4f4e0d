//! Chains of which a device fails, or is not there: what it holds reads as errors and never as something older, everything else goes on, and
//! once it is back all is as it was.

#![allow(clippy::unwrap_used)]

mod failing_link;

use failing_link::{Fault, Link};
use nearhead_disk::{AbsentDisk, BufferMut, Disk, Nanos, Payload, Properties, SECTOR_BYTES};
use nearhead_engine::{Config, LinkRole};
use nearhead_format::Place;
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const LINK_BYTES: [u64; 3] = [64 * MIB, 20 * MIB, 22 * MIB];

/// A chain, what its clients know, and the time.
struct Chain {
    volume: Volume<Box<dyn Disk>>,
    faults: Vec<Rc<Cell<Fault>>>,
    now: Nanos,
    /// What each block was written with last.
    newest: BTreeMap<u64, u8>,
    seed: u64,
    /// A link that is not there, and which.
    away: Option<(usize, Box<dyn Disk>)>,
}

impl Chain {
    /// One of three links, of which each holds something that counts and the tail is on `tail`.
    fn written(tail: usize) -> Self {
        let mut chain = Self::empty();
        while !chain.is_spread_with_its_tail_on(tail) {
            chain.write_some(16);
        }
        chain
    }

    /// One whose tail just came to `tail` for the first time: all of its logs are free.
    fn new_on(tail: usize) -> Self {
        let mut chain = Self::empty();
        while chain.role(tail) != LinkRole::Tail {
            chain.write_some(16);
        }
        chain
    }

    fn empty() -> Self {
        let disk = |bytes| {
            let properties = Properties { volatile_cache: true, ..plain_properties(bytes, 512) };
            CrashDisk::with_image(properties, MemoryStore::new())
        };
        let links: Vec<Link> = LINK_BYTES.map(disk).into_iter().map(Link::of).collect();
        let faults = links.iter().map(|link| Rc::clone(&link.fault)).collect();
        let mut links = links.into_iter().map(|link| Box::new(link) as Box<dyn Disk>);
        let first = links.next().unwrap();
        let mut lanes = Lanes::from(first).with_data(links.collect()).unwrap();
        let preset = NamedPreset::by_name("gecko").unwrap();
        let options = CreateOptions { log_bytes: Some(MIB), ..CreateOptions::new([7; 16], preset) };
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
        let (volume, now) = opened(lanes, Nanos::ZERO, false).unwrap();
        Self { volume, faults, now, newest: BTreeMap::new(), seed: 1, away: None }
    }

    fn is_spread_with_its_tail_on(&self, tail: usize) -> bool {
        let links = self.volume.status().links;
        links.iter().all(|link| link.needed_bytes > MIB) && links[tail].role == LinkRole::Tail
    }

    fn send(&mut self, operation: Operation) {
        self.volume.submit(Request { id: RequestId(1), operation }, self.now);
    }

    /// Time passes, 10 ms at once at most, until it is so.
    fn drive_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            self.volume.drive(self.now);
            if is_so(self) {
                return;
            }
            let later = self.now + Nanos::from_millis(10);
            self.now = self.volume.wake_at().map_or(later, |at| at.max(self.now).min(later));
        }
        panic!("it is never so; {:?}", self.volume.status());
    }

    /// Number of the newest snapshot.
    fn number(&self) -> u64 {
        self.volume.status().snapshot_number
    }

    fn snapshot(&mut self) {
        let number = self.number();
        self.volume.start_snapshot(self.now);
        self.drive_until(|chain| chain.number() > number);
    }

    fn ask(&mut self, operation: Operation) -> Reply {
        self.send(operation);
        loop {
            self.volume.drive(self.now);
            if let Some(reply) = self.volume.poll_reply() {
                return reply;
            }
            self.now = self.volume.wake_at().expect("nobody waits for ever").max(self.now);
        }
    }

    /// Writes so many blocks anywhere, each durable and each answered well.
    fn write_some(&mut self, count: u64) {
        for _ in 0..count {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (self.seed >> 33) % (self.volume.info().size_bytes / BLOCK);
            self.write(block, (self.seed >> 56) as u8 | 1);
        }
    }

    /// Writes until the tail came by a link that fails, or something else was asked of it.
    fn write_until_noticed(&mut self, link: usize) {
        for _ in 0..200 {
            if !matches!(self.role(link), LinkRole::Tail | LinkRole::Body) {
                return;
            }
            self.write_some(100);
        }
    }

    fn write(&mut self, block: u64, fill: u8) {
        self.ask(durable_write(block, fill)).result.unwrap();
        self.newest.insert(block, fill);
    }

    fn read(&mut self, block: u64) -> Result<u8, (ErrorKind, String)> {
        let operation = Operation::Read { offset: block * BLOCK, len: BLOCK as u32 };
        let parts = self.ask(operation).result.map_err(|error| (error.kind, error.detail))?;
        let bytes = nearhead_disk::bytes_of(&parts);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "of one write");
        Ok(bytes[0])
    }

    /// Which link has each block, as the map says.
    fn links_of(&self) -> BTreeMap<u64, usize> {
        let layout = &self.volume.superblock().layout;
        let of = |byte: u64| layout.data_devices().position(|link| link.contains(&byte));
        let entries = self.volume.engine().map().iter();
        let places = entries.filter_map(|entry| match entry.place {
            Place::Log { chunk_sector, .. } => Some((entry.home_sector / 8, chunk_sector)),
            _ => None,
        });
        places.map(|(block, at)| (block, of(at * SECTOR_BYTES).map_or(0, |at| at + 1))).collect()
    }

    /// Reads everything: what lies on `lost` is an error, or the newest if it may be, and all else the newest.
    fn expect_all_but(&mut self, lost: Option<usize>, may_be_read: bool) {
        let (mut refused, links) = (0, self.links_of());
        for (block, fill) in self.newest.clone() {
            let is_there = lost.is_none() || links.get(&block).copied() != lost;
            match self.read(block) {
                Err((kind, told)) if !is_there && !may_be_read => {
                    assert_eq!(kind, ErrorKind::Io, "{told}");
                    refused += 1;
                }
                found => assert_eq!(found, Ok(fill), "block {block} on {:?}", links.get(&block)),
            }
        }
        assert_eq!(refused > 0, lost.is_some() && !may_be_read, "{refused} blocks were refused");
    }

    /// Stops it in order, or not, and opens it again without one of its links, or with all.
    fn reopened(self, without: Option<usize>, in_order: bool) -> Result<Self, String> {
        self.reopened_as(without, in_order, false)
    }

    fn reopened_as(
        mut self,
        without: Option<usize>,
        in_order: bool,
        accept_loss: bool,
    ) -> Result<Self, String> {
        if in_order {
            self.volume.begin_shutdown(self.now);
        }
        while in_order && !self.volume.is_shut_down() || !self.volume.is_quiet() {
            self.volume.drive(self.now);
            self.now = self.volume.wake_at().map_or(self.now, |at| at.max(self.now));
        }
        let (first, _, mut data) = self.volume.into_lanes().into_all();
        if let Some((link, disk)) = self.away.take() {
            data[link - 1] = disk;
        }
        if let Some(link) = without {
            let absent = Box::new(AbsentDisk::new("missing")) as Box<dyn Disk>;
            self.away = Some((link, std::mem::replace(&mut data[link - 1], absent)));
        }
        let lanes = Lanes::from(first).with_data(data).unwrap();
        let (volume, now) = opened(lanes, self.now, accept_loss)?;
        Ok(Self { volume, now, ..self })
    }

    fn role(&self, link: usize) -> LinkRole {
        self.volume.status().links[link].role
    }
}

fn durable_write(block: u64, fill: u8) -> Operation {
    let data = Payload::Bytes(BufferMut::copy_of(&[fill; BLOCK as usize]).freeze());
    Operation::Write { offset: block * BLOCK, data, fua: true }
}

fn opened(
    lanes: Lanes<Box<dyn Disk>>,
    now: Nanos,
    accept_loss: bool,
) -> Result<(Volume<Box<dyn Disk>>, Nanos), String> {
    let configure = |_: &_, config: &mut Config| config.accept_loss = accept_loss;
    let (mut volume, now) =
        Volume::open_in_virtual_time(lanes, now, configure).map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    Ok((volume, now))
}

#[test]
fn a_link_that_fails_costs_what_it_holds_and_nothing_else_until_it_is_back() {
    for fault in [Fault::Gone, Fault::Dead, Fault::TakesNothing, Fault::CacheLost] {
        for (link, tail) in [(1, 1), (1, 2), (2, 2), (2, 0)] {
            println!("{fault:?} of link {link} with the tail on {tail}");
            let mut chain = Chain::written(tail);
            chain.faults[link].set(fault);
            let can_be_read = matches!(fault, Fault::TakesNothing | Fault::CacheLost);
            // The tail comes by again wherever it is, and what is written is there whatever happens to whom.
            chain.write_some(500);
            chain.write_until_noticed(link);
            let status = chain.volume.status();
            assert_eq!(status.failure, None);
            let is_lost = chain.role(link) == LinkRole::Lost;
            let is_closed = chain.role(link) == LinkRole::Closed;
            // A body that cannot even be read may be nobody's concern.
            assert!(is_lost || is_closed || fault == Fault::Dead, "{:?}", status.links);
            let says = format!("link {link}");
            let is_told = status.damage.iter().any(|damage| damage.text.starts_with(&says));
            assert_eq!(is_told, is_lost || is_closed, "{:?}", status.damage);
            chain.expect_all_but(Some(link), can_be_read && !is_lost);
            assert!(chain.ask(Operation::Flush).result.is_ok());
            // What is written again can be read again.
            let links = chain.links_of();
            let lost: Vec<u64> =
                links.iter().filter(|(_, on)| **on == link).map(|(block, _)| *block).collect();
            for block in lost.iter().take(50) {
                chain.write(*block, 77);
                assert_eq!(chain.read(*block), Ok(77));
            }
            // Nothing changes when it is opened without, after a kill too: no recovery needs a link that was given up as the tail.
            let was_killed = tail == link;
            let mut chain = chain.reopened(Some(link), !was_killed).unwrap();
            assert_eq!(chain.role(link), LinkRole::Lost);
            chain.expect_all_but(Some(link), false);
            chain.write_some(300);
            // Mended, it has what it had.
            chain.faults[link].set(Fault::None);
            let mut chain = chain.reopened(None, false).unwrap();
            assert!(chain.volume.status().damage.is_empty(), "{:?}", chain.volume.status().damage);
            chain.expect_all_but(None, false);
            chain.write_some(3000);
            chain.expect_all_but(None, false);
        }
    }
}

#[test]
fn a_record_that_a_closed_link_takes_after_all_is_answered_only_once_a_start_finds_it() {
    for tail in [1, 2] {
        let mut chain = Chain::new_on(tail);
        // No log of another link is claimed.
        chain.snapshot();
        let number = chain.number();
        chain.faults[tail].set(Fault::TakesNothing);
        let (block, fill) = (3, 99);
        chain.send(durable_write(block, fill));
        // Those that were claimed did not take it; the one that this snapshot claims will not, either, and the link is closed.
        chain.drive_until(|chain| chain.number() > number);
        chain.faults[0].set(Fault::Answers(0));
        chain.drive_until(|chain| chain.role(tail) == LinkRole::Closed);
        // While the snapshot that claims logs elsewhere is being written, the link takes what is sent there.
        chain.faults[tail].set(Fault::None);
        let soon = chain.now + Nanos::from_secs(1);
        chain.drive_until(|chain| chain.now >= soon);
        let (mut is_answered, number) = (false, chain.number());
        for _ in 0..100 {
            if is_answered && chain.number() > number {
                break;
            }
            chain.faults[0].set(Fault::Answers(1));
            let soon = chain.now + Nanos::from_millis(100);
            chain.drive_until(|chain| chain.now >= soon);
            is_answered |= chain.volume.poll_reply().is_some();
        }
        assert!(is_answered, "{:?}", chain.volume.status());
        chain.newest.insert(block, fill);
        // A later snapshot would have it in any case.
        chain.faults[0].set(Fault::TakesNothing);
        chain.drive_until(|chain| chain.volume.is_quiet());
        chain.faults[0].set(Fault::None);
        let mut chain = chain.reopened(None, false).unwrap();
        chain.expect_all_but(None, false);
    }
}

#[test]
fn a_chain_stopped_in_order_opens_without_a_link_of_its_body() {
    for (without, tail) in [(1, 2), (2, 1), (1, 0)] {
        let chain = Chain::written(tail);
        let mut chain = chain.reopened(Some(without), true).unwrap();
        chain.expect_all_but(Some(without), false);
        chain.write_some(500);
        chain.expect_all_but(Some(without), false);
        let mut chain = chain.reopened(None, true).unwrap();
        chain.expect_all_but(None, false);
    }
}

#[test]
fn without_a_link_that_may_have_the_newest_records_nothing_is_served() {
    for in_order in [true, false] {
        let chain = Chain::written(1);
        let told = chain.reopened(Some(1), in_order).err().unwrap();
        assert!(told.contains("it may hold writes newer than everything else"), "{told}");
    }
}

#[test]
fn what_is_written_after_the_loss_of_the_newest_records_was_accepted_stays_though_they_come_back() {
    let mut chain = Chain::written(1);
    // Records that no snapshot includes.
    chain.write_some(20);
    let lost = chain.volume.status().record_sequence;
    let mut chain = chain.reopened_as(Some(1), false, true).unwrap();
    chain.newest.clear();
    // None of them is ever newer than what follows.
    let first = chain.volume.status().record_sequence;
    assert!(first > lost, "{first} is not above record {lost}, which is on the link that is away");
    let mut chain = chain.reopened(Some(1), true).unwrap();
    chain.write_some(10);
    let mut chain = chain.reopened(None, false).unwrap();
    chain.expect_all_but(None, false);
    for _ in 0..300 {
        chain.write_some(10);
        chain = chain.reopened(None, false).unwrap();
    }
    chain.expect_all_but(None, false);
}
