//! Clients that write, read, trim and flush at once, and the oracle that they share.
//!
//! The oracle is the swarm's: it knows what was sent and what was answered. Each client has windows of
//! its own, because nothing orders two writes to one place from two connections; but the windows lie
//! side by side and share home blocks, and a flush of one client covers what was answered to all.

use crate::common::nbd::{Client, Kind};
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Payload};
use nearhead_swarm::content::{SECTOR, sector_content, versions};
use nearhead_swarm::oracle::{Oracle, Write};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Clients at once.
pub(crate) const CLIENTS: u64 = 3;
/// Places of the volume with a window of each client.
const PLACES: u64 = 4;
/// Sectors of a window: odd, so that windows share home blocks, and more than the largest logged write.
const WINDOW_SECTORS: u64 = 643;
/// No request may take longer than this, whatever happened to the disk.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Requests that one client has under way, at most.
const BATCH_MAX: u64 = 12;

/// What clients and the test share.
pub(crate) struct Shared {
    oracle: Mutex<Oracle>,
    next_id: AtomicU64,
    size_sectors: u64,
    every_reply_is_durable: bool,
    /// Clients finish what they have under way and leave.
    pub(crate) stop: AtomicBool,
    /// The disk was switched off, or a stop was asked for: errors are no surprise.
    pub(crate) may_fail: AtomicBool,
}

/// How the end of a connection came.
enum Trouble {
    /// The daemon is gone.
    Gone,
    /// A law was broken.
    Broken(String),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
            return Self::Broken(format!("no answer within {ANSWER_WAIT_MAX:?}"));
        }
        Self::Gone
    }
}

impl Shared {
    pub(crate) fn new(size_bytes: u64, every_reply_is_durable: bool) -> Self {
        Self {
            oracle: Mutex::new(Oracle::default()),
            next_id: AtomicU64::new(1),
            size_sectors: size_bytes / SECTOR,
            every_reply_is_durable,
            stop: AtomicBool::new(false),
            may_fail: AtomicBool::new(false),
        }
    }

    /// First sector of the windows at a place.
    fn place(&self, place: u64) -> u64 {
        let all = CLIENTS * WINDOW_SECTORS;
        // The last one ends where the volume ends.
        (self.size_sectors - all) / (PLACES - 1) * place
    }

    /// Reads everything that clients may have written and takes it as the truth if it may be.
    pub(crate) fn check(&self, socket: &Path) -> Result<(), String> {
        let mut client = Client::connect(socket).map_err(|error| format!("connect: {error}"))?;
        let mut read = BTreeMap::new();
        for window in 0..PLACES * CLIENTS {
            let start = self.place(window / CLIENTS) + window % CLIENTS * WINDOW_SECTORS;
            let bytes = client
                .try_read(start * SECTOR, (WINDOW_SECTORS * SECTOR) as u32)
                .map_err(|error| format!("read of sectors from {start}: NBD error {error}"))?;
            read.extend((start..).zip(values(start, &bytes)?));
        }
        self.oracle.lock().unwrap().adopt(&read)
    }

    /// The daemon stopped and said that everything is durable.
    pub(crate) fn stopped(&self) {
        self.oracle.lock().unwrap().stopped();
    }

    /// One client: works until it is stopped or the daemon is gone.
    pub(crate) fn work(&self, socket: &Path, client: u64, seed: u64) -> Result<(), String> {
        match self.work_on(socket, client, &mut SplitMix::new(seed)) {
            Ok(()) | Err(Trouble::Gone) => Ok(()),
            Err(Trouble::Broken(what)) => Err(format!("client {client}: {what}")),
        }
    }

    fn work_on(&self, socket: &Path, own: u64, random: &mut SplitMix) -> Result<(), Trouble> {
        let mut client = Client::connect(socket)?;
        client.answer_within(ANSWER_WAIT_MAX)?;
        while !self.stop.load(Ordering::Relaxed) {
            let mut sent = 0;
            for _ in 0..=random.below(BATCH_MAX) {
                self.change(&mut client, own, random)?;
                sent += 1;
            }
            if random.below(4) == 0 {
                let id = self.new_id();
                self.oracle.lock().unwrap().flush_sent(id);
                client.send(id, Kind::Flush, false, 0, 0, &[])?;
                sent += 1;
            }
            for _ in 0..sent {
                let (id, error) = client.reply()?;
                self.oracle.lock().unwrap().replied(id, error == 0);
                self.excuse(id, error)?;
            }
            if random.below(3) == 0 {
                self.read(&mut client, own, random)?;
            }
        }
        Ok(())
    }

    fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn excuse(&self, id: u64, error: u32) -> Result<(), Trouble> {
        if error != 0 && !self.may_fail.load(Ordering::SeqCst) {
            return Err(Trouble::Broken(format!("request {id} failed with NBD error {error}")));
        }
        Ok(())
    }

    /// A range inside one of the client's windows, as sectors.
    fn range(&self, own: u64, random: &mut SplitMix) -> (u64, u64) {
        let base = self.place(random.below(PLACES)) + own * WINDOW_SECTORS;
        let count = match random.below(12) {
            0 => WINDOW_SECTORS,
            1 => 64 + random.below(WINDOW_SECTORS - 64),
            2..=4 => 1 + random.below(7),
            _ => 8 * (1 + random.below(4)),
        };
        let start = base + random.below(WINDOW_SECTORS - count + 1);
        if count.is_multiple_of(8) && count < 64 {
            return (start.next_multiple_of(8).min(base + WINDOW_SECTORS - count), count);
        }
        (start, count)
    }

    fn change(&self, client: &mut Client, own: u64, random: &mut SplitMix) -> Result<(), Trouble> {
        let ((start, count), fua) = (self.range(own, random), random.below(4) == 0);
        let kind = match random.below(12) {
            0 => Kind::WriteZeroes,
            1 => Kind::Trim,
            _ => Kind::Write,
        };
        let id = self.new_id();
        let write = Write {
            ranges: vec![(start, count)],
            value: if kind == Kind::Write { id } else { 0 },
            atomic: false,
            optional: kind == Kind::Trim,
            durable_on_reply: fua || self.every_reply_is_durable,
        };
        let mut data = Vec::new();
        if kind == Kind::Write {
            data = (start..start + count).flat_map(|sector| sector_content(sector, id)).collect();
        }
        self.oracle.lock().unwrap().sent(id, write);
        client.send(id, kind, fua, start * SECTOR, (count * SECTOR) as u32, &data)?;
        Ok(())
    }

    fn read(&self, client: &mut Client, own: u64, random: &mut SplitMix) -> Result<(), Trouble> {
        let (start, count) = self.range(own, random);
        let id = self.new_id();
        let expected = self.oracle.lock().unwrap().read_sent(start, count);
        let len = (count * SECTOR) as u32;
        client.send(id, Kind::Read, false, start * SECTOR, len, &[])?;
        let (_, error) = client.reply()?;
        if error != 0 {
            return self.excuse(id, error);
        }
        let bytes = client.data(len as usize)?;
        let found = values(start, &bytes).map_err(Trouble::Broken)?;
        let oracle = self.oracle.lock().unwrap();
        oracle.check_read(id, &expected, &found).map_err(Trouble::Broken)
    }
}

fn values(start: u64, bytes: &[u8]) -> Result<Vec<u64>, String> {
    versions(start, &[Payload::Bytes(BufferMut::copy_of(bytes).freeze())])
}
