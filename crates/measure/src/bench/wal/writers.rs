//! What makes durable writes in the benches: the log in each of its modes, and what programs do
//! without it.

use nearhead_disk::BufferMut;
use nearhead_uring::{Access, DurableFile};
use nearhead_wal::process::{HelperOptions, Transport};
use nearhead_wal::writer::Mode;
use nearhead_wal::{Histogram, Log, OpenOptions};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a durable write: the paper's (section 4.1), and a block.
pub(super) const RECORD_BYTES: usize = 4096;
/// What is written before a file is measured; writes go round in it.
const WRITTEN_BYTES: u64 = 16 << 20;
const ZERO_PIECE_BYTES: usize = 1 << 20;
/// The log gives up what is older than so many records, in steps of as many.
const KEPT_RECORDS: u64 = 4000;
/// The same of a small log, and its segments: they hold few batches, and the disk sees the same blocks again soon.
const SMALL_KEPT_RECORDS: u64 = 600;
const SMALL_SEGMENT_BYTES: u32 = 5 << 19;
/// The least block: a sector.
const FINE_BLOCK_BYTES: u32 = 512;
/// Most time that a log is given to make its next segment ready before it is measured.
const READY_MAX: Duration = Duration::from_secs(5);

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// `O_DIRECT` with `RWF_DSYNC` over extents that were written before: the floor of any log.
    Bare,
    /// Write and fdatasync at the end of a growing file, as most programs do.
    Growing,
    /// The log, in this mode.
    Log(Mode),
    /// The log in mode `caller` with blocks of 512 bytes: a record of 4 KiB and its header are nine of them, and not
    /// two of 4096. For drives that write less than 4 KiB without endangering what is beside it (docs/wal.md).
    FineLog,
    /// The log in mode `process`, whose helper is told over the socket and not through a ring.
    LogBySocket,
    /// The log in mode `caller`, in small segments that are given up soon, as some of the others do.
    SmallLog,
}

/// The modes of the log that are measured, by name. A new mode is one more line.
pub(super) const MODES: [(&str, Mode); 4] = [
    ("caller", Mode::Caller),
    ("request", Mode::Request),
    ("thread", Mode::Thread),
    ("process", Mode::Process),
];

impl Who {
    /// For tables and names of rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Growing => "growing",
            Self::FineLog => "caller_512",
            Self::LogBySocket => "process_socket",
            Self::SmallLog => "caller, small",
            Self::Log(mode) => {
                MODES.iter().find(|(_, known)| *known == mode).map_or("log", |(name, _)| name)
            }
        }
    }
}

/// This very program as the helper process.
fn own_helper() -> std::io::Result<HelperOptions> {
    let program = std::env::current_exe()?;
    let arguments = vec!["wal".into(), "helper".into()];
    Ok(HelperOptions { program, arguments, ..HelperOptions::default() })
}

/// One that is open. Any number of threads may append.
pub(super) enum Writer {
    Bare { file: DurableFile, data: BufferMut, next: AtomicU64 },
    Growing { file: Mutex<File>, data: Vec<u8> },
    Log { log: Arc<Log>, record: Vec<u8>, kept_records: u64, choice: String },
}

impl Writer {
    /// Makes its files in `folder`, where there are none of it, ready to be measured.
    pub(super) fn open(who: Who, folder: &Path) -> Result<Self, String> {
        let path = folder.join(format!("wal-{}", who.name()));
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match who {
            Who::Bare => {
                let file = DurableFile::open(&path, Access::Create, true);
                let file = file.map_err(|error| failed(&error))?;
                write_all_of(&file).map_err(|error| failed(&error))?;
                let data = BufferMut::zeroed(RECORD_BYTES);
                Ok(Self::Bare { file, data, next: AtomicU64::new(0) })
            }
            Who::Growing => {
                let file = File::create_new(&path).map_err(|error| failed(&error))?;
                Ok(Self::Growing { file: Mutex::new(file), data: vec![0x5a; RECORD_BYTES] })
            }
            Who::Log(_) | Who::FineLog | Who::LogBySocket | Who::SmallLog => {
                let mut options = OpenOptions::default();
                let mut helper = own_helper().map_err(|error| failed(&error))?;
                let mut kept_records = KEPT_RECORDS;
                match who {
                    Who::Log(mode) => options.mode = mode,
                    Who::FineLog => {
                        options.mode = Mode::Caller;
                        options.log.geometry.block_bytes = FINE_BLOCK_BYTES;
                    }
                    Who::LogBySocket => {
                        options.mode = Mode::Process;
                        helper.transport = Transport::Socket;
                    }
                    _ => {
                        options.mode = Mode::Caller;
                        options.log.geometry.segment_bytes = SMALL_SEGMENT_BYTES;
                        kept_records = SMALL_KEPT_RECORDS;
                    }
                }
                let opened = options.open_through(&path, &helper, |_, _| {});
                let opened = opened.map_err(|error| failed(&error))?;
                let log = Arc::new(opened.log);
                let record = vec![0x5a; RECORD_BYTES];
                log.append_durable(&record).map_err(|error| failed(&error))?;
                wait_until_ready(&log);
                Ok(Self::Log { log, record, kept_records, choice: opened.choice.to_string() })
            }
        }
    }

    /// What the log says about who writes and what would be better.
    pub(super) fn choice(&self) -> Option<&str> {
        match self {
            Self::Log { choice, .. } => Some(choice),
            Self::Bare { .. } | Self::Growing { .. } => None,
        }
    }

    /// The log's own latencies, to pace bulk by; `None` without a log.
    pub(super) fn latency_source(&self) -> Option<impl FnMut() -> Histogram + Send + 'static> {
        match self {
            Self::Log { log, .. } => {
                let log = Arc::clone(log);
                Some(move || log.take_latency_window())
            }
            Self::Bare { .. } | Self::Growing { .. } => None,
        }
    }

    /// Writes [`RECORD_BYTES`], which are durable when it returns.
    pub(super) fn append(&self) -> Result<(), String> {
        match self {
            Self::Bare { file, data, next } => {
                let offset = next.fetch_add(RECORD_BYTES as u64, Ordering::Relaxed);
                let written = file.write_durable_at(data, offset % WRITTEN_BYTES);
                written.map_err(|error| format!("{}: {error}", file.name()))
            }
            Self::Growing { file, data } => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                let written = file.write_all(data).and_then(|()| file.sync_data());
                written.map_err(|error| format!("growing file: {error}"))
            }
            Self::Log { log, record, kept_records, .. } => {
                let lsn = log.append_durable(record).map_err(|error| error.to_string())?;
                if lsn.0.is_multiple_of(*kept_records) && lsn.0 > *kept_records {
                    let old = nearhead_wal::Lsn(lsn.0 - kept_records);
                    log.truncate_prefix(old).map_err(|error| error.to_string())?;
                }
                Ok(())
            }
        }
    }
}

fn write_all_of(file: &DurableFile) -> std::io::Result<()> {
    let zeros = BufferMut::zeroed(ZERO_PIECE_BYTES);
    for offset in (0..WRITTEN_BYTES).step_by(ZERO_PIECE_BYTES) {
        file.write_at(&zeros, offset)?;
    }
    file.sync()
}

/// A log that has just begun zeroes its next segment; that belongs to no measurement.
fn wait_until_ready(log: &Log) {
    let deadline = Instant::now() + READY_MAX;
    while log.segments() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
}
