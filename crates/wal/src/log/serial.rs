//! The log with one owner and no threads of its own: append, commit, truncate, read.
//!
//! What holds here holds everywhere: [`super::Log`] only adds waiting. A record is durable once
//! [`SerialLog::commit`] returned after it. One write is under way at a time, so the order of
//! records is the order of durability, which is what lets recovery tell a tear from damage. After
//! an error of a write or sync the log is **stopped**: nothing is retried, because the kernel may
//! have dropped the bytes and told so once; only opening it again tells what is durable.

use super::batch::{Batch, Placer};
use super::control_file::ControlFile;
use super::pool::{Pool, Ready};
use super::reader::Records;
use super::recovery::{Recovered, examine, settle};
use super::{LogOptions, Lsn};
use crate::codec::LogId;
use crate::codec::control::{Control, End};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage};
use nearhead_format::crc::crc32c;
use nearhead_uring::Opener;
use std::sync::Arc;

/// A log open for writing.
pub struct SerialLog {
    pool: Arc<Pool>,
    options: LogOptions,
    batch: Batch,
    placer: Placer,
    active: Option<Ready>,
    durable_next: Lsn,
    stopped: Option<WalError>,
    opener: Opener,
}

/// Reads a log without changing it or keeping anybody out: `replay` gets every record, in order.
///
/// While somebody else writes it, what is just being written may look torn or damaged.
pub fn read_only(storage: &dyn Storage, mut replay: impl FnMut(Lsn, &[u8])) -> Result<Recovered> {
    let control = ControlFile::open(storage, Access::Read)?;
    let examined = examine(storage, Access::Read, control.current(), &mut replay)?;
    Ok(examined.recovered)
}

impl SerialLog {
    /// Makes a log in an empty directory. `log_id` must be one that no other log has.
    pub fn create(storage: &dyn Storage, options: &LogOptions, log_id: LogId) -> Result<()> {
        options.validate()?;
        let control = Control {
            log_id,
            geometry: options.geometry,
            generation: 1,
            first_sequence: 1,
            last_sequence: 0,
            first_lsn: Lsn::FIRST,
            clean_end: None,
        };
        ControlFile::create(storage, &control)
    }

    /// Opens a log for writing; `replay` gets every record, in order, in the one pass there is.
    ///
    /// # Errors
    /// [`WalErrorKind::InUse`] if another writer has it; [`WalErrorKind::Corrupt`] or
    /// [`WalErrorKind::SegmentMissing`] if something durable is gone: nothing has been changed then.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: &LogOptions,
        mut replay: impl FnMut(Lsn, &[u8]),
    ) -> Result<(Self, Recovered)> {
        let control = ControlFile::open(&*storage, Access::Write)?;
        let options = LogOptions { geometry: control.current().geometry, ..*options };
        options.validate()?;
        let current = *control.current();
        let mut examined = examine(&*storage, Access::Write, &current, &mut replay)?;
        let (pool, active) = settle(storage, options, control, &mut examined)?;
        let recovered = examined.recovered;
        let mut batch = Batch::new(
            options.geometry,
            options.batch_buffer_bytes(),
            recovered.next_lsn,
            examined.chain,
        );
        if let (Some(active), Some(end)) = (&active, examined.end) {
            batch.resume(active.seed, end.offset, &examined.tail_block);
        }
        let placer = Placer::new(options.geometry, examined.end.map(|end| end.offset));
        let log = Self {
            pool: Arc::new(pool),
            options,
            batch,
            placer,
            active,
            durable_next: recovered.next_lsn,
            stopped: None,
            opener: Opener::this_process(),
        };
        Ok((log, recovered))
    }

    /// Adds a record. It is durable after the next [`SerialLog::commit`]; a full batch is committed
    /// on the way.
    ///
    /// # Errors
    /// [`WalErrorKind::Full`] and [`WalErrorKind::NoSpace`] take nothing in and may be tried again.
    pub fn append(&mut self, record: &[u8]) -> Result<Lsn> {
        self.options.check_record(record.len())?;
        self.check_running()?;
        if !self.placer.place(record.len() as u32) {
            if !self.pool.has_ready() {
                self.pool.prepare(0)?;
            }
            let Some(ready) = self.pool.take_ready() else {
                return Err(WalError::new(WalErrorKind::Io, "no segment is ready"));
            };
            self.roll(ready)?;
            self.placer.start_segment();
            self.placer.place(record.len() as u32);
        }
        self.stage(record, crc32c(record))
    }

    /// Adds a record for which the caller has found room with a [`Placer`] of its own.
    pub(super) fn stage(&mut self, record: &[u8], crc: u32) -> Result<Lsn> {
        self.check_running()?;
        if !self.batch.has_room_for(record.len() as u32) {
            self.commit()?;
        }
        Ok(self.batch.stage(record, crc))
    }

    /// Goes on in another segment. What is staged is committed first.
    pub(super) fn roll(&mut self, ready: Ready) -> Result<()> {
        self.commit()?;
        self.batch.start_segment(ready.seed);
        self.pool.enter(ready.sequence, self.batch.next_lsn());
        self.active = Some(ready);
        Ok(())
    }

    /// Makes every record so far durable. Returns the number that the next one will have.
    ///
    /// # Errors
    /// After any error the log is stopped: whether the records of this commit are durable is
    /// unknown, those of earlier ones are.
    pub fn commit(&mut self) -> Result<Lsn> {
        self.check_running()?;
        if self.batch.staged() == 0 {
            return Ok(self.durable_next);
        }
        let Some(active) = &self.active else {
            return Err(WalError::new(WalErrorKind::Io, "records are staged without a segment"));
        };
        let (offset, bytes) = self.batch.write();
        if let Err(error) = active.file.write_durable(u64::from(offset), bytes) {
            self.stopped = Some(error.clone());
            return Err(error);
        }
        self.batch.written();
        self.durable_next = self.batch.next_lsn();
        Ok(self.durable_next)
    }

    fn check_running(&self) -> Result<()> {
        if !self.opener.is_this_process() {
            return Err(WalError::inherited());
        }
        self.stopped.as_ref().map_or(Ok(()), |cause| Err(WalError::stopped_by(cause)))
    }

    /// Records and bytes that wait for the next commit.
    pub fn staged(&self) -> (u32, u32) {
        (self.batch.staged(), self.batch.staged_bytes())
    }

    /// The number that the next record will have.
    pub fn next_lsn(&self) -> Lsn {
        self.batch.next_lsn()
    }

    /// The oldest record that may be read.
    pub fn first_lsn(&self) -> Lsn {
        self.pool.first_lsn()
    }

    /// Gives up all records before `lsn`, durably. Their space is used again.
    ///
    /// # Errors
    /// [`WalErrorKind::OutOfRange`] if records that are not durable yet would be among them.
    pub fn truncate_prefix(&mut self, lsn: Lsn) -> Result<()> {
        self.check_running()?;
        check_truncation(lsn, self.durable_next)?;
        self.pool.release_before(lsn)
    }

    /// Reads the durable records from `from` on.
    ///
    /// # Errors
    /// [`WalErrorKind::Truncated`] if that one has been given up.
    pub fn records(&self, from: Lsn) -> Result<Records> {
        Records::new(Arc::clone(&self.pool), self.options, from, self.durable_next)
    }

    /// Makes the next segment ready now rather than when it is needed.
    pub fn prepare(&self) -> Result<()> {
        self.pool.prepare(0)
    }

    /// Commits, and says durably that the log ends here, so that the next opening notices if even
    /// its newest record is gone.
    pub fn close(mut self) -> Result<()> {
        self.close_in_place()
    }

    pub(super) fn close_in_place(&mut self) -> Result<()> {
        self.commit()?;
        let Some(active) = &self.active else { return Ok(()) };
        self.pool.mark_clean(End {
            sequence: active.sequence,
            offset: self.batch.durable_end(),
            lsn: self.batch.next_lsn(),
            chain: self.batch.chain(),
        })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(super) fn placer(&self) -> Placer {
        self.placer
    }

    pub(super) fn options(&self) -> &LogOptions {
        &self.options
    }

    pub(super) fn durable_next(&self) -> Lsn {
        self.durable_next
    }
}

/// Refuses to give up what is not durable yet.
pub(super) fn check_truncation(lsn: Lsn, durable_next: Lsn) -> Result<()> {
    if lsn <= durable_next {
        return Ok(());
    }
    let detail = format!(
        "cannot truncate up to record {lsn}: expected at most {durable_next}, the first that is not durable yet"
    );
    Err(WalError::new(WalErrorKind::OutOfRange, detail))
}
