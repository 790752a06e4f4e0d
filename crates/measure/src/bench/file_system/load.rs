//! What is asked of a file system: the same of both.

use super::super::row::Target;
use nearhead_basics::Random;
use rustix::fs::Advice;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 4096;
const LARGE_BYTES: usize = 1 << 20;
/// Of each client of small writes.
const FILE_BYTES: u64 = 8 << 20;
/// Of the one that is written and read in order.
const LONG_BYTES: u64 = 512 << 20;

/// What a client does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Writes a page of its file anywhere and makes it durable.
    Durable,
    /// Writes a file in order, at its end durably.
    Write,
    /// Reads it in order, of which the kernel has nothing.
    Read,
}

/// A load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    /// Of the row.
    pub(super) row: &'static str,
    /// Of ours alone.
    pub(super) target: Target,
    kind: Kind,
    clients: usize,
}

const fn small(name: &'static str, row: &'static str, clients: usize, target: Target) -> Load {
    Load { name, row, target, kind: Kind::Durable, clients }
}

pub(super) const LOADS: [Load; 5] = [
    small("4 KiB write and fdatasync, 1 client", "sync_1", 1, Target::AtLeast(10_000.0)),
    small("the same, 4 clients", "sync_4", 4, Target::Informative),
    small("the same, 16 clients", "sync_16", 16, Target::Informative),
    Load {
        name: "1 MiB writes in order, fsync at the end",
        row: "write_1m",
        target: Target::AtLeast(1000.0),
        kind: Kind::Write,
        clients: 1,
    },
    Load {
        name: "1 MiB reads in order",
        row: "read_1m",
        target: Target::AtLeast(1000.0),
        kind: Kind::Read,
        clients: 1,
    },
];

impl Load {
    pub(super) fn unit(&self) -> &'static str {
        if self.kind == Kind::Durable { "per_s" } else { "mb_per_s" }
    }

    /// Runs it in `folder`, the small ones for `span`: in [`Load::unit`].
    pub(super) fn run(&self, folder: &Path, span: Duration) -> io::Result<f64> {
        match self.kind {
            Kind::Durable => self.durable(folder, span),
            Kind::Write => write_in_order(folder),
            Kind::Read => read_in_order(folder),
        }
    }

    fn durable(&self, folder: &Path, span: Duration) -> io::Result<f64> {
        let files: io::Result<Vec<File>> = (0..self.clients).map(|at| full(folder, at)).collect();
        let (files, ready) = (files?, Barrier::new(self.clients));
        std::thread::scope(|scope| {
            let start = |(file, seed)| {
                let ready = &ready;
                scope.spawn(move || {
                    ready.wait();
                    let began = Instant::now();
                    write_and_sync(file, seed, span).map(|count| (count, began.elapsed()))
                })
            };
            let clients: Vec<_> = files.iter().zip(1_u64..).map(start).collect();
            let mut rate = 0.0;
            for client in clients {
                let ended = client.join().map_err(|_| io::Error::other("a client panicked"))?;
                let (count, took) = ended?;
                rate += count as f64 / took.as_secs_f64();
            }
            Ok(rate)
        })
    }
}

/// A file of which every byte was written.
fn full(folder: &Path, number: usize) -> io::Result<File> {
    let path = folder.join(format!("client-{number}"));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if file.metadata()?.len() < FILE_BYTES {
        for at in (0..FILE_BYTES).step_by(LARGE_BYTES) {
            file.write_all_at(&vec![0x3c; LARGE_BYTES], at)?;
        }
        file.sync_all()?;
    }
    Ok(file)
}

fn write_and_sync(file: &File, seed: u64, span: Duration) -> io::Result<u64> {
    let (mut random, bytes) = (Random::new(seed), [seed as u8; PAGE_BYTES]);
    let until = Instant::now() + span;
    let mut count = 0;
    while Instant::now() < until {
        let page = random.below(FILE_BYTES / PAGE_BYTES as u64);
        file.write_all_at(&bytes, page * PAGE_BYTES as u64)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(count)
}

fn write_in_order(folder: &Path) -> io::Result<f64> {
    let (path, bytes) = (folder.join("long"), vec![0xa5; LARGE_BYTES]);
    // What was there is gone, and its blocks are free again, before the time begins.
    let file = File::create(path)?;
    file.sync_all()?;
    let began = Instant::now();
    for at in (0..LONG_BYTES).step_by(LARGE_BYTES) {
        file.write_all_at(&bytes, at)?;
    }
    file.sync_all()?;
    Ok(mb_per_s(began))
}

fn read_in_order(folder: &Path) -> io::Result<f64> {
    let (file, mut bytes) = (File::open(folder.join("long"))?, vec![0; LARGE_BYTES]);
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    let began = Instant::now();
    for at in (0..LONG_BYTES).step_by(LARGE_BYTES) {
        file.read_exact_at(&mut bytes, at)?;
    }
    Ok(mb_per_s(began))
}

fn mb_per_s(began: Instant) -> f64 {
    LONG_BYTES as f64 / 1e6 / began.elapsed().as_secs_f64()
}
