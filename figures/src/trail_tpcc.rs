//! Trail's tables 2 and 3, and how much of a track is used: a database that forces its log, on plain disks and behind a log disk.
//!
//! The database is simulated (`transactions.rs`), its log traffic made from the benchmark's public tables (`log_traffic.rs`). Two numbers are
//! chosen: what a transaction computes, and how many pages it misses, so that on the plain disks without group commit it takes about as long as in the
//! paper. All others follow.

use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::report::{Data, Report, Row};
use crate::rig::{self, FigureDisk, Queue, System};
use crate::tracks;
use crate::transactions::{Outcome, Transactions, TransactionsOptions};
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::Config;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_volume::Volume;

/// The paper's log disk. Of its data disks nothing more is known than that they turn as fast and step 0.3 ms slower; these are of the same kind.
const DISK: &str = "st41601n";
/// One for the database's log file and two for its tables (section 5.2).
const DATA_DISKS: u64 = 3;
/// Of each of the two: together over half a gigabyte at first and soon more than a whole one (section 5.2).
const TABLE_BYTES: u64 = 400 << 20;
const LOG_FILE_BYTES: u64 = 256 << 20;
/// Pages that a transaction misses, each of which takes the place of a changed one.
const MISSES: u32 = 3;
/// "Much smaller than the disk I/O delay" (section 5.2).
const COMPUTE: Nanos = Nanos::from_millis(5);
/// The log buffer of table 2 (section 5.2).
const BUFFER_BYTES: u64 = 50 << 10;
/// Those of table 3.
const BUFFERS_KB: [u64; 5] = [4, 100, 400, 800, 1200];
/// Transactions under way in table 3.
const TERMINALS: u32 = 4;
/// Transactions under way where the use of tracks is told.
const CONCURRENCY: [u32; 3] = [4, 8, 12];
/// Of which table 2 tells.
const TABLE2_TRANSACTIONS: f64 = 5_000.0;
const TABLE3_TRANSACTIONS: f64 = 10_000.0;
/// Before what is measured, so that the drive is known.
const WARM_UP: u64 = 500;
const TIME_MAX: Nanos = Nanos::from_secs(100_000);

/// What the database runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// Its data disks, as they are.
    Plain,
    /// The same behind a log disk.
    Trail,
}

fn as_it_is(_: &mut Config) {}

/// Everything in place, as if there were no log disk.
fn nothing_logged(config: &mut Config) {
    config.logged_write_bytes_max = 0;
}

impl Storage {
    fn volume(self) -> Result<Volume<FigureDisk>, FigureError> {
        let disk = || rig::hard_disk(DISK, Queue::InOrder);
        let data: Result<Vec<_>, _> = (0..DATA_DISKS).map(|_| disk()).collect();
        let configure = if self == Self::Plain { nothing_logged } else { as_it_is };
        let system = System { configure, ..System::of_preset("trail")? };
        rig::volume_behind(disk()?, data?, &system)
    }
}

/// What is run.
#[derive(Clone, Copy, Debug)]
struct Case {
    storage: Storage,
    terminals: u32,
    log_buffer_bytes: Option<u64>,
}

/// What came of so many transactions.
#[derive(Clone, Copy, Debug)]
struct Measured {
    outcome: Outcome,
    elapsed: Nanos,
    /// Bytes of a record on the log disk, on average, with its header.
    record_bytes: f64,
}

impl Measured {
    fn per_minute(&self) -> f64 {
        self.outcome.done as f64 * 60.0 / self.elapsed.as_secs_f64()
    }

    fn response_s(&self) -> f64 {
        self.outcome.responses.as_secs_f64() / self.outcome.done.max(1) as f64
    }

    /// Of so many transactions.
    fn log_time_s(&self, transactions: f64) -> f64 {
        self.outcome.log_time.as_secs_f64() / self.outcome.done.max(1) as f64 * transactions
    }

    fn log_writes(&self, transactions: f64) -> f64 {
        self.outcome.log_writes as f64 / self.outcome.done.max(1) as f64 * transactions
    }
}

fn transact(
    volume: &mut Volume<FigureDisk>,
    time: &mut VirtualTime,
    case: Case,
    (transactions, seed): (u64, u64),
) -> Result<Outcome, FigureError> {
    let what = || format!("trail-tpcc, {case:?}");
    let part = volume.info().size_bytes / DATA_DISKS;
    let options = TransactionsOptions {
        terminals: case.terminals,
        transactions,
        misses: MISSES,
        compute: COMPUTE,
        log_buffer_bytes: case.log_buffer_bytes,
        tables: (1..DATA_DISKS).map(|disk| disk * part..disk * part + TABLE_BYTES).collect(),
        log: 0..LOG_FILE_BYTES,
        seed,
    };
    let mut database = Transactions::new(options, time.now());
    let stuck = |problem| FigureError::Stuck { what: what(), problem };
    time.run(volume, &mut [&mut database], TIME_MAX).map_err(stuck)?;
    if let Some(error) = &database.failure {
        let failure = format!("{error:?}");
        return Err(FigureError::RequestFailed { what: what(), failure });
    }
    Ok(database.outcome())
}

fn measure(case: Case, transactions: u64) -> Result<Measured, FigureError> {
    let mut volume = case.storage.volume()?;
    let mut time = VirtualTime::default();
    transact(&mut volume, &mut time, case, (WARM_UP, 1))?;
    let (from, before) = (time.now(), volume.status().stats);
    let outcome = transact(&mut volume, &mut time, case, (transactions, 2))?;
    let after = volume.status().stats;
    let records = (after.records - before.records).max(1) as f64;
    let record_bytes = (after.record_bytes - before.record_bytes) as f64 / records;
    Ok(Measured { outcome, elapsed: time.now().since(from), record_bytes })
}

/// All that is run: table 2, table 3, and the use of tracks.
fn cases() -> Vec<Case> {
    let case = |storage, terminals, log_buffer_bytes| Case { storage, terminals, log_buffer_bytes };
    let mut cases = vec![
        case(Storage::Trail, 1, None),
        case(Storage::Plain, 1, None),
        case(Storage::Plain, 1, Some(BUFFER_BYTES)),
    ];
    cases.extend(BUFFERS_KB.map(|kb| case(Storage::Plain, TERMINALS, Some(kb << 10))));
    cases.extend(CONCURRENCY.map(|terminals| case(Storage::Trail, terminals, None)));
    cases
}

fn table2(done: &[Measured]) -> Vec<Row> {
    let (paper, plain) = (&PAPERS.trail.tpcc, &done[1]);
    let systems = ["trail", "plain disks", "plain disks, group commit"];
    let told = [
        (paper.trail_tpmc, paper.trail_resp_s, paper.trail_log_io_s),
        (paper.ext2_tpmc, paper.ext2_resp_s, paper.ext2_log_io_s),
        (paper.ext2_group_commit_tpmc, paper.group_commit_resp_s, paper.group_commit_log_io_s),
    ];
    let mut rows = Vec::new();
    for ((system, paper), ours) in systems.into_iter().zip(told).zip(done) {
        let row = |what: &str, unit: &'static str| Row::new(format!("{what}, {system}"), unit);
        let count = TABLE2_TRANSACTIONS;
        rows.extend([
            row("transactions a minute", "tpm")
                .paper(paper.0)
                .baseline(plain.per_minute())
                .ours(ours.per_minute()),
            row("mean response", "s")
                .paper(paper.1)
                .baseline(plain.response_s())
                .ours(ours.response_s()),
            row("log writes under way, of 5,000 transactions", "s")
                .paper(paper.2)
                .baseline(plain.log_time_s(count))
                .ours(ours.log_time_s(count)),
        ]);
    }
    rows
}

fn table3(done: &[Measured]) -> Vec<Row> {
    let papers = PAPERS.trail.group_commits.into_iter();
    let told = BUFFERS_KB.into_iter().zip(papers).zip(done);
    told.map(|((kb, paper), ours)| {
        Row::new(format!("group commits of 10,000 transactions, {kb} KB"), "")
            .paper(paper)
            .ours(ours.log_writes(TABLE3_TRANSACTIONS))
    })
    .collect()
}

/// Mean bytes of a track of the log disk.
fn track_bytes() -> Result<f64, FigureError> {
    let disk = rig::hard_disk(DISK, Queue::InOrder)?;
    let found = tracks::of(&disk)?;
    let zones = found.first().map_or(&[][..], |tracks| tracks.zones());
    let capacity = disk.properties().capacity_bytes;
    let ends = zones.iter().skip(1).map(|zone| zone.first_byte).chain([capacity]);
    let tracks = zones.iter().zip(ends);
    let count: f64 = tracks
        .map(|(zone, end)| end.saturating_sub(zone.first_byte) as f64 / zone.track_bytes as f64)
        .sum();
    Ok(capacity as f64 / count.max(1.0))
}

fn use_of_tracks(done: &[Measured]) -> Result<Vec<Row>, FigureError> {
    let track = track_bytes()?;
    let papers = PAPERS.trail.track_utilization_pct.into_iter();
    let told = CONCURRENCY.into_iter().zip(papers).zip(done);
    let rows = told.map(|((terminals, paper), ours)| {
        let case = format!("of a track that a record takes, {terminals} transactions under way");
        Row::new(case, "%").paper(paper).ours(100.0 * ours.record_bytes / track)
    });
    Ok(rows.collect())
}

fn data(cases: &[Case], done: &[Measured]) -> Data {
    let columns = [
        "storage",
        "terminals",
        "log_buffer_bytes",
        "transactions",
        "per_minute",
        "response_s_mean",
        "log_bytes_per_transaction",
        "log_writes",
        "log_write_ms_mean",
        "record_bytes_mean",
    ];
    let mut data = Data::new("transactions", &columns);
    for (case, found) in cases.iter().zip(done) {
        let Outcome { done, log_bytes, log_writes, log_time, .. } = found.outcome;
        data.push([
            format!("{:?}", case.storage).to_lowercase(),
            case.terminals.to_string(),
            case.log_buffer_bytes.map_or_else(String::new, |bytes| bytes.to_string()),
            done.to_string(),
            format!("{:.1}", found.per_minute()),
            format!("{:.4}", found.response_s()),
            format!("{:.0}", log_bytes as f64 / done.max(1) as f64),
            log_writes.to_string(),
            format!("{:.3}", log_time.as_secs_f64() * 1e3 / log_writes.max(1) as f64),
            format!("{:.0}", found.record_bytes),
        ]);
    }
    data
}

/// The tables.
pub(crate) fn trail_tpcc(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let transactions = lab.effort.pick(10_000, 3_000, 400);
    let cases = cases();
    let step =
        |case: &Case| format!("{:?}, {} at once", case.storage, case.terminals).to_lowercase();
    let steps = cases.iter().map(|case| (step(case), *case)).collect();
    let done = lab.each("trail-tpcc", steps, |_, case| measure(case, transactions))?;
    let bytes = done[0].outcome.log_bytes as f64 / done[0].outcome.done.max(1) as f64;
    let mut rows = vec![
        Row::new("log bytes of a transaction", "bytes").paper(PAPERS.trail.log_bytes()).ours(bytes),
    ];
    rows.extend(table2(&done[..3]));
    rows.extend(table3(&done[3..8]));
    rows.extend(use_of_tracks(&done[8..])?);
    Ok(Report {
        name: "trail-tpcc",
        title: "Trail, tables 2 and 3: the log of a database under TPC-C".to_owned(),
        ran: format!(
            "{transactions} transactions of TPC-C's mix behind {WARM_UP}, by terminals that never pause, on three {DISK}, one with the log file and two with {} MiB \
             of tables each, write caches off: in place ('baseline'; all of table 3), and behind a fourth with preset trail, whose tracks are known. A transaction \
             misses {MISSES} pages of 4 KiB, each a durable write of another page and a read, computes {} ms on the one processor, and forces its log. Table 2: one at a time; \
             group commit with a buffer of {} KiB. Table 3: {TERMINALS} at a time. Counts and times are scaled to the paper's 5,000 and 10,000 transactions.",
            TABLE_BYTES >> 20,
            COMPUTE.as_secs_f64() * 1e3,
            BUFFER_BYTES >> 10
        ),
        differs: vec![
            "No database runs. What it logs is made from TPC-C's public tables and mix; indices, page splits and checkpoints are left out.".to_owned(),
            format!(
                "The paper does not say how many pages a transaction misses. {MISSES} and {} ms are chosen so that one on the plain disks without group commit takes about as \
                 long as there; its table needs such writes, as the log alone explains 2.6 of the 38 ms between its two systems.",
                COMPUTE.as_secs_f64() * 1e3
            ),
            "A group commit is one write here. The paper's take 65 ms each (28.8 s for 440 of 50 KB), about what a dozen blocks take that are written one after the other.".to_owned(),
            "The paper's bytes of a transaction are 448 group commits of 100 KB divided by 10,000.".to_owned(),
            "Its data disks are IDE disks of 10 GB of which little is known; no transaction waits for a lock or is aborted here.".to_owned(),
            "Of a track is told what one record takes, as the paper supposes one record for each track; the preset writes several into one. Records hardly grow with \
             more terminals here: what they wait for most is their pages, one after the other, so their writes seldom meet at the log disk, where the paper's came in bursts."
                .to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data(&cases, &done)],
        drawings: Vec::new(),
    })
}
