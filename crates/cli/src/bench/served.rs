//! A volume in a file, served over NBD, against `nbdkit file` and against the raw file.
//!
//! All images are in the same folder, of the same size, with every byte written beforehand, so that
//! none pays for allocation. The same client drives both servers over Unix sockets; they take turns
//! in rounds. Every write carries FUA: its answer means that it is durable. Random and sequential
//! writes have places of their own. nbdkit reads through the page cache and we do not, so the
//! comparison of reads is only told, not claimed.

use super::Effort;
use super::row::{Row, Target, median};
use crate::demo::client::{Ask, Client};
use crate::demo::dataless::{Answers, create_options};
use crate::demo::server::Served;
use nearhead_disk::BufferMut;
use nearhead_nbd::Limits;
use nearhead_sim::Random;
use nearhead_uring::OpenOptions;
use nearhead_volume::{NamedPreset, SyncIo, Volume, create};
use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;
use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const RATIO: Target = Target::AtLeast(1.0);
const ADDED: Target = Target::AtMost(50.0);
const RATIO_NAMES: [&str; 4] = [
    "vs_nbdkit_4k_fua_qd1_ratio",
    "vs_nbdkit_4k_fua_qd32_ratio",
    "vs_nbdkit_1m_fua_write_ratio",
    "vs_nbdkit_1m_read_ratio",
];
const ADDED_NAME: &str = "added_latency_qd1_fua_p50_us";

/// One way to use a server.
#[derive(Clone, Copy)]
struct Use {
    request_bytes: u32,
    outstanding: u64,
    write: bool,
    sequential: bool,
    name: &'static str,
}

const USES: [Use; 4] = [
    Use {
        request_bytes: 4096,
        outstanding: 1,
        write: true,
        sequential: false,
        name: "4 KiB FUA, 1 outstanding",
    },
    Use {
        request_bytes: 4096,
        outstanding: 32,
        write: true,
        sequential: false,
        name: "4 KiB FUA, 32 outstanding",
    },
    Use {
        request_bytes: 1 << 20,
        outstanding: 4,
        write: true,
        sequential: true,
        name: "1 MiB FUA in sequence, 4 outstanding",
    },
    Use {
        request_bytes: 1 << 20,
        outstanding: 4,
        write: false,
        sequential: true,
        name: "1 MiB reads in sequence, 4 outstanding",
    },
];

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let image_bytes: u64 = effort.pick(4 << 30, 256 << 20);
    let files = Files::make(folder, image_bytes)?;
    let image = files.volume.clone();
    let served =
        Served::start(folder, "bench", Limits::default(), move |start| volume(&image, start))?;
    let nbdkit = Nbdkit::start(&files.plain, &folder.join("nbdkit.sock"));
    let rows = rounds(effort, &served, nbdkit.as_ref().ok(), &files, image_bytes / 8);
    let stopped = served.stop();
    let mut rows = rows?;
    stopped?;
    if let Err(why) = nbdkit {
        rows.extend(RATIO_NAMES.map(|name| Row::skipped(name, RATIO, &why)));
    }
    Ok(rows)
}

fn rounds(
    effort: Effort,
    served: &Served,
    nbdkit: Option<&Nbdkit>,
    files: &Files,
    span_bytes: u64,
) -> Result<Vec<Row>, String> {
    let told = |error: std::io::Error| error.to_string();
    let round = Duration::from_millis(effort.pick(1500, 200));
    let mut ours = Client::connect(served.socket(), PATIENCE).map_err(told)?;
    let mut theirs = match nbdkit {
        Some(nbdkit) => Some(Client::connect(&nbdkit.socket, PATIENCE).map_err(told)?),
        None => None,
    };
    let raw = RawFile::open(&files.raw)?;
    let mut results: [(Vec<f64>, Vec<f64>); 4] = Default::default();
    let mut added = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..effort.pick(7, 1) {
        let mut random = Random::new(number);
        for (usage, (our_rates, their_rates)) in USES.iter().zip(&mut results) {
            our_rates
                .push(run(&mut ours, usage, span_bytes, round, &mut random).map_err(told)?.rate);
            if let Some(theirs) = &mut theirs {
                let outcome = run(theirs, usage, span_bytes, round, &mut random).map_err(told)?;
                their_rates.push(outcome.rate);
            }
        }
        added
            .0
            .push(run(&mut ours, &USES[0], span_bytes, round, &mut random).map_err(told)?.p50_us);
        added.1.push(raw.run(span_bytes, round, &mut random).map_err(told)?);
        if let Some(theirs) = &mut theirs {
            added
                .2
                .push(run(theirs, &USES[0], span_bytes, round, &mut random).map_err(told)?.p50_us);
        }
    }
    let mut rows = Vec::new();
    for (index, (our_rates, their_rates)) in results.iter().enumerate() {
        let (ours, theirs) = (median(our_rates), median(their_rates));
        let usage = USES[index];
        let unit = if usage.sequential { "MB/s" } else { "requests/s" };
        let scale = if usage.sequential { 1e6 } else { f64::from(usage.request_bytes) };
        if !their_rates.is_empty() {
            let detail =
                format!("{}: {:.0} against {:.0} {unit}", usage.name, ours / scale, theirs / scale);
            let target = if usage.write { RATIO } else { Target::Informative };
            rows.push(Row::new(RATIO_NAMES[index], target, ours / theirs, detail));
        }
    }
    let (with, without, theirs) = (median(&added.0), median(&added.1), median(&added.2));
    let detail = format!(
        "p50 {with:.0} us served, {without:.0} us raw O_DIRECT+DSYNC, {theirs:.0} us nbdkit"
    );
    rows.push(Row::new(ADDED_NAME, ADDED, with - without, detail));
    Ok(rows)
}

/// What a run gave.
struct Outcome {
    /// Bytes a second.
    rate: f64,
    p50_us: f64,
}

fn run(
    client: &mut Client,
    usage: &Use,
    span_bytes: u64,
    time: Duration,
    random: &mut Random,
) -> std::io::Result<Outcome> {
    let len = u64::from(usage.request_bytes);
    let data = vec![0x5a; usage.request_bytes as usize];
    let span_bytes = span_bytes.min(client.size_bytes() / 2);
    let places = span_bytes / len;
    let mut issued_at = vec![Instant::now(); usage.outstanding as usize];
    let mut latencies_us = Vec::new();
    let mut next_place = 0;
    let started = Instant::now();
    let mut send = |client: &mut Client, slot: u64, issued_at: &mut [Instant]| {
        let place = if usage.sequential {
            next_place = (next_place + 1) % places;
            next_place
        } else {
            random.below(places)
        };
        let offset = if usage.sequential { span_bytes + place * len } else { place * len };
        issued_at[slot as usize] = Instant::now();
        let read = Ask::Read { offset, len: usage.request_bytes };
        let write = Ask::Write { offset, data: &data, fua: true };
        client.send(slot, if usage.write { write } else { read })
    };
    for slot in 0..usage.outstanding {
        send(client, slot, &mut issued_at)?;
    }
    let mut outstanding = usage.outstanding;
    while outstanding > 0 {
        // Everything that has arrived is answered with new requests together.
        client.wait(None)?;
        while client.has_input() {
            let answer = client.receive()?;
            if answer.error != 0 {
                return Err(std::io::Error::from_raw_os_error(answer.error as i32));
            }
            let slot = answer.handle;
            latencies_us.push(issued_at[slot as usize].elapsed().as_secs_f64() * 1e6);
            if started.elapsed() < time {
                send(client, slot, &mut issued_at)?;
            } else {
                outstanding -= 1;
            }
        }
    }
    let bytes = latencies_us.len() as f64 * len as f64;
    Ok(Outcome { rate: bytes / started.elapsed().as_secs_f64(), p50_us: median(&latencies_us) })
}

/// The volume on the image, created and opened as `create` and `serve` do.
fn volume(image: &Path, start: Instant) -> Result<Volume<nearhead_uring::RealDisk>, String> {
    // Virtual disks often claim to rotate; whoever serves one says so (`serve --rotational`).
    let rotational = Some(seems_to_rotate(image)?);
    let options = OpenOptions { rotational, ..OpenOptions::default() };
    let mut disk = nearhead_uring::open(image, &options).map_err(|error| error.to_string())?;
    let preset = NamedPreset::by_name("mlb").map_err(|error| error.to_string())?;
    let options = create_options(preset, Answers::OnFlush);
    create(&mut SyncIo::in_real_time(&mut disk, start), &options)
        .map_err(|error| error.to_string())?;
    let mut volume = Volume::open(disk, start, |_, _| {}).map_err(|error| error.to_string())?;
    volume.wait_until_open(start).map_err(|error| error.to_string())?;
    Ok(volume)
}

/// Whether random reads take as long as an arm does: over a millisecond in the middle.
fn seems_to_rotate(image: &Path) -> Result<bool, String> {
    const READS: u64 = 64;
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", image.display());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::open(image, flags, Mode::empty()).map_err(|errno| told(&errno))?;
    let size = fs::metadata(image).map_err(|error| told(&error))?.len();
    let mut buffer = BufferMut::zeroed(4096);
    let mut random = Random::new(1);
    let mut times_ms = Vec::new();
    for _ in 0..READS {
        let offset = random.below(size / 4096) * 4096;
        let started = Instant::now();
        rustix::io::pread(&file, &mut *buffer, offset).map_err(|errno| told(&errno))?;
        times_ms.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&times_ms) > 1.0)
}

/// Images of the same size, removed at the end.
struct Files {
    volume: PathBuf,
    plain: PathBuf,
    raw: PathBuf,
}

impl Files {
    fn make(folder: &Path, bytes: u64) -> Result<Self, String> {
        let path = |name: &str| folder.join(name);
        let files =
            Self { volume: path("volume.img"), plain: path("plain.img"), raw: path("raw.img") };
        for path in [&files.volume, &files.plain, &files.raw] {
            write_image(path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in [&self.volume, &self.plain, &self.raw] {
            // Nothing is lost if one stays.
            let _ = fs::remove_file(path);
        }
    }
}

fn write_image(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// The plain file, written as directly as the kernel allows.
struct RawFile {
    file: OwnedFd,
}

impl RawFile {
    fn open(path: &Path) -> Result<Self, String> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| format!("open {} with O_DIRECT: {errno}", path.display()))?;
        Ok(Self { file })
    }

    /// Median latency of durable 4 KiB writes, one at a time, in us.
    fn run(&self, span: u64, time: Duration, random: &mut Random) -> std::io::Result<f64> {
        let data = BufferMut::zeroed(4096).freeze();
        let mut latencies_us = Vec::new();
        let started = Instant::now();
        while started.elapsed() < time {
            let offset = random.below(span / 4096) * 4096;
            let issued = Instant::now();
            let parts = [IoSlice::new(&data)];
            rustix::io::pwritev2(&self.file, &parts, offset, ReadWriteFlags::DSYNC)?;
            latencies_us.push(issued.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&latencies_us))
    }
}

/// A running nbdkit, ended when dropped.
struct Nbdkit {
    socket: PathBuf,
    child: Child,
}

impl Nbdkit {
    /// The error says why it cannot be compared with.
    fn start(image: &Path, socket: &Path) -> Result<Self, String> {
        let _ = fs::remove_file(socket);
        let child = Command::new("nbdkit")
            .args(["--foreground", "--exit-with-parent", "--unix"])
            .args([socket.as_os_str(), "file".as_ref(), image.as_os_str()])
            .stdin(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Ok(Self { socket: socket.to_owned(), child }),
            Err(error) => {
                Err(format!("cannot start nbdkit ({error}); on Debian: apt-get install nbdkit"))
            }
        }
    }
}

impl Drop for Nbdkit {
    fn drop(&mut self) {
        // It only serves this process; there is nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.socket);
    }
}
