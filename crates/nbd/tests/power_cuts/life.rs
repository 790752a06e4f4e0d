//! The life of a server from its start to a power cut, with clients that come and go.

use crate::client::{Client, Form};
use crate::doomed::{Doomed, OnDoomed};
use crate::oracle::{CELL_BYTES, Covered, Oracle, content};
use nearhead_basics::SplitMix;
use nearhead_models::MemoryStore;
use nearhead_nbd::protocol::constants::{command, command_flag, errno};
use nearhead_nbd::{Clock, Context, Server, ShutdownHandle};
use nearhead_service::Service;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

/// Bytes that clients use.
pub(crate) const AREA_BYTES: usize = 256 << 10;
const CELLS: usize = AREA_BYTES / CELL_BYTES;
const SECTOR_CELLS: usize = 512 / CELL_BYTES;
const CLIENTS: usize = 3;
const OUTSTANDING_MAX: usize = 8;
const STEPS: usize = 400;

/// The life is over: the server is gone.
struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// Ends a server at the end of its scope.
struct End(ShutdownHandle);

impl Drop for End {
    fn drop(&mut self) {
        (0..2).for_each(|_| self.0.request());
    }
}

/// What a reply will mean.
enum Meaning {
    Read(Range<usize>),
    Change(Range<usize>, bool),
    Flush(Covered),
    Other,
}

/// One client and what it waits for.
struct Seat {
    client: Client,
    asked: BTreeMap<u64, Meaning>,
}

pub(crate) struct Life {
    random: SplitMix,
    oracle: Oracle,
    directory: PathBuf,
    seats: Vec<Option<Seat>>,
    next: u32,
}

/// Serves what `open` makes and lets clients work until the power fails; what must be there and what is.
pub(crate) fn live<S: Service + OnDoomed>(
    directory: &Path,
    seed: u64,
    is_always_durable: bool,
    open: impl FnOnce(SplitMix, Instant) -> S + Send,
) -> (Oracle, MemoryStore) {
    let mut random = SplitMix::new(seed);
    let fate = SplitMix::new(random.next_u64());
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let server = scope.spawn(move || {
            let start = Instant::now();
            let mut service = open(fate, start);
            let server = Server::builder()
                .listen_unix(directory.join("socket"))
                .and_then(|builder| builder.control(directory.join("control"), on_command))
                .and_then(nearhead_nbd::ServerBuilder::build)
                .unwrap();
            service.doomed().arm(server.shutdown_handle());
            sender.send(server.shutdown_handle()).unwrap();
            server.run(&mut service, &Clock::since(start)).unwrap();
            service.doomed().take_image()
        });
        // Also if a law is broken here.
        let _end = End(receiver.recv().unwrap());
        let mut life = Life {
            random,
            oracle: Oracle::new(CELLS, is_always_durable),
            directory: directory.to_owned(),
            seats: (0..CLIENTS).map(|_| None).collect(),
            next: 1,
        };
        if life.run().is_ok() {
            // Cut wherever it is; the answer need not come.
            let _ = life.command("cut");
        }
        // What was answered before the cut may still be on its way here, and counts.
        while life.receive_rest().is_some() {}
        drop(life.seats);
        (life.oracle, server.join().unwrap())
    })
}

fn on_command<S: Service + OnDoomed>(line: &str, context: &mut Context<'_, S>) -> String {
    let doomed: &mut Doomed = context.service.doomed();
    match line {
        "hold" => doomed.is_held = true,
        "release" => doomed.is_held = false,
        "cut" => doomed.cut(),
        "requests" => return context.statistics.requests().to_string(),
        "open" => return context.statistics.connections_open.to_string(),
        _ => return format!("error: unknown command {line}"),
    }
    "ok".to_owned()
}

impl Life {
    fn run(&mut self) -> Result<(), Over> {
        for _ in 0..STEPS {
            let seat = self.random.below(CLIENTS as u64) as usize;
            if self.seats[seat].is_none() {
                self.connect(seat)?;
            }
            match self.random.below(60) {
                0 => self.leave(seat),
                1 => self.succeed(seat)?,
                2 => self.flush_beside_writes(seat)?,
                3..30 => self.receive(seat)?,
                _ if self.outstanding(seat) < OUTSTANDING_MAX => self.ask(seat)?,
                _ => self.receive(seat)?,
            }
        }
        Ok(())
    }

    fn outstanding(&self, seat: usize) -> usize {
        self.seats[seat].as_ref().map_or(0, |seat| seat.client.outstanding())
    }

    fn connect(&mut self, seat: usize) -> Result<(), Over> {
        let form = [Form::Simple, Form::Structured, Form::Extended][self.random.below(3) as usize];
        let client = Client::connect(&self.directory.join("socket"), form)?;
        self.seats[seat] = Some(Seat { client, asked: BTreeMap::new() });
        Ok(())
    }

    /// Whoever sits there is gone, and will not hear its replies.
    fn leave(&mut self, seat: usize) {
        let Some(Seat { asked, .. }) = self.seats[seat].take() else { return };
        for meaning in asked.into_values() {
            match meaning {
                Meaning::Read(range) => self.oracle.abandoned(range, false),
                Meaning::Change(range, _) => self.oracle.abandoned(range, true),
                Meaning::Flush(_) | Meaning::Other => {}
            }
        }
    }

    /// A client leaves while the disk has its requests, and another one comes at once.
    fn succeed(&mut self, seat: usize) -> Result<(), Over> {
        self.receive_all()?;
        let open = self.seats.iter().flatten().count() as u64;
        self.await_number("open", open)?;
        let before: u64 = self.command("requests")?.parse().map_err(|_| Over)?;
        self.command("hold")?;
        let count = 1 + self.random.below(4);
        (0..count).try_for_each(|_| self.ask(seat))?;
        self.await_number("requests", before + count)?;
        self.leave(seat);
        self.await_number("open", open - 1)?;
        self.connect(seat)?;
        (0..=self.random.below(2)).try_for_each(|_| self.ask(seat))?;
        self.command("release")?;
        while self.outstanding(seat) > 0 {
            self.receive(seat)?;
        }
        Ok(())
    }

    /// A flush that is sent while writes are under way promises nothing of them; the next one does,
    /// also if nothing else was written in between. Every other time that is the end.
    fn flush_beside_writes(&mut self, seat: usize) -> Result<(), Over> {
        self.receive_all()?;
        for _ in 0..=self.random.below(4) {
            self.ask_for(seat, command::WRITE, false)?;
        }
        self.ask_for(seat, command::FLUSH, false)?;
        self.receive_all()?;
        self.ask_for(seat, command::FLUSH, false)?;
        self.receive_all()?;
        if self.random.coin() {
            self.command("cut")?;
            return Err(Over);
        }
        Ok(())
    }

    fn receive_all(&mut self) -> Result<(), Over> {
        for seat in 0..CLIENTS {
            while self.outstanding(seat) > 0 {
                self.receive(seat)?;
            }
        }
        Ok(())
    }

    fn ask(&mut self, seat: usize) -> Result<(), Over> {
        let kind = match self.random.below(20) {
            0..5 => command::READ,
            5..10 => command::WRITE,
            10..14 => command::WRITE_ZEROES,
            14..16 => command::TRIM,
            16..18 => command::FLUSH,
            18 => command::CACHE,
            _ => command::BLOCK_STATUS,
        };
        let fua = self.random.coin();
        self.ask_for(seat, kind, fua)
    }

    fn ask_for(&mut self, seat: usize, kind: u16, fua: bool) -> Result<(), Over> {
        let mut flags = if fua { command_flag::FUA } else { 0 };
        if kind == command::WRITE_ZEROES && self.random.coin() {
            flags |= command_flag::NO_HOLE;
        }
        let (cookie, version) = (u64::from(self.next) << 20 | 0xabc, self.next);
        self.next += 1;
        let mut range = self.range();
        let changes = matches!(kind, command::WRITE | command::WRITE_ZEROES | command::TRIM);
        let (meaning, payload) = match kind {
            command::FLUSH => {
                range = 0..0;
                (Meaning::Flush(self.oracle.flush_sent()), Vec::new())
            }
            command::WRITE => {
                let bytes = range.clone().flat_map(|cell| content(cell, version)).collect();
                (Meaning::Change(range.clone(), fua), bytes)
            }
            command::READ => (Meaning::Read(range.clone()), Vec::new()),
            _ if changes => (Meaning::Change(range.clone(), fua), Vec::new()),
            _ => (Meaning::Other, Vec::new()),
        };
        let Some(Seat { client, asked }) = &mut self.seats[seat] else { return Ok(()) };
        let may_ask = client.has_status() || kind != command::BLOCK_STATUS;
        if !may_ask || (range.is_empty() && kind != command::FLUSH) {
            // Something else instead, so that the number asked is the number wanted.
            return self.ask(seat);
        }
        if changes {
            let version = if kind == command::WRITE { version } else { 0 };
            self.oracle.sent(range.clone(), Some(version));
        } else if kind == command::READ {
            self.oracle.sent(range.clone(), None);
        }
        asked.insert(cookie, meaning);
        let place = ((range.start * CELL_BYTES) as u64, (range.len() * CELL_BYTES) as u64);
        Ok(client.send((kind, flags), cookie, place, &payload)?)
    }

    /// Some cells that no request is about: often a few, often parts of sectors, sometimes so many that
    /// they are no small write any more.
    fn range(&mut self) -> Range<usize> {
        let unit = if self.random.coin() { 1 } else { SECTOR_CELLS };
        let units = if self.random.below(12) == 0 { 400 } else { 1 + self.random.below(20) };
        let start = self.random.below((CELLS / unit) as u64) as usize * unit;
        let end = (start + units as usize * unit).min(CELLS);
        self.oracle.free(start..end)
    }

    /// Takes in the next reply, if one is outstanding.
    fn receive(&mut self, seat: usize) -> Result<(), Over> {
        let Some(Seat { client, asked }) = &mut self.seats[seat] else { return Ok(()) };
        if client.outstanding() == 0 {
            return Ok(());
        }
        let reply = client.reply()?;
        let meaning = asked.remove(&reply.cookie).expect("a reply that was asked for");
        if reply.errno == errno::SHUTDOWN {
            return Err(Over);
        }
        assert_eq!(reply.errno, 0, "request {}", reply.cookie);
        match meaning {
            Meaning::Read(range) => {
                self.oracle.check_read(range.clone(), &reply.data);
                self.oracle.answered(range, false, false);
            }
            Meaning::Change(range, fua) => self.oracle.answered(range, true, fua),
            Meaning::Flush(covered) => self.oracle.flushed(&covered),
            Meaning::Other => {}
        }
        Ok(())
    }

    /// Takes in a reply that came before the end, from anybody.
    fn receive_rest(&mut self) -> Option<()> {
        let seat = (0..CLIENTS).find(|seat| self.outstanding(*seat) > 0)?;
        if self.receive(seat).is_err() {
            self.seats[seat] = None;
        }
        Some(())
    }

    fn command(&self, line: &str) -> Result<String, Over> {
        let mut stream = UnixStream::connect(self.directory.join("control"))?;
        writeln!(stream, "{line}")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        if answer.is_empty() { Err(Over) } else { Ok(answer.trim().to_owned()) }
    }

    fn await_number(&self, name: &str, expected: u64) -> Result<(), Over> {
        while self.command(name)? != expected.to_string() {
            std::thread::yield_now();
        }
        Ok(())
    }
}
