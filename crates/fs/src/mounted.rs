//! A file system over a service: requests in, replies out, and the service driven in between.

use crate::access::AccessTimes;
use crate::core::Core;
use crate::durability::DurableName;
use crate::error::{EBUSY, EROFS, FsError};
use crate::file::File;
use crate::report::FsReport;
use crate::request::{FsReply, FsRequest};
use crate::survival::{SurvivalLog, Survived};
use nearhead_disk::Nanos;
use nearhead_ext4::{Options, Timestamp};
use nearhead_journal::{Mode, Placement};
use nearhead_service::{Service, Wake};

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// Of the metadata.
    pub ext4: Options,
    /// What is made under these names is durability-only.
    pub durable: Vec<DurableName>,
    /// Each change of a directory is durable before it is answered.
    pub has_durable_names: bool,
    /// Which parts of a transaction go where.
    pub mode: &'static dyn Mode,
    /// Longest run of a file that is small, to modes that tell bulk from small writes ([`nearhead_journal::small_run_bytes`]).
    pub small_run_bytes_max: u64,
    /// Largest atomic write of the service.
    pub record_bytes_max: u64,
    /// Longest time from a change to the commit that makes it durable without an `fsync` (`-o commit=`); [`crate::COMMIT_AFTER`] by
    /// default. With an idle disk the commit comes earlier.
    pub commit_after: Nanos,
    /// Now.
    pub mounted_at: Timestamp,
}

/// What a file system is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its first block is being read.
    Opening,
    /// What it needs to begin is being read.
    Mounting,
    /// It carries out requests.
    Serving,
    /// What was written is being made durable; nothing new is taken.
    Closing,
    /// That is done.
    Closed,
    /// It cannot go on; requests are answered with this.
    Failed(FsError),
}

/// A mounted file system.
pub struct Mounted<S> {
    service: S,
    core: Core,
    /// The service was asked to stop.
    is_stopping: bool,
}

impl<S: Service> Mounted<S> {
    /// Of what is on `service`. It is open once [`Mounted::phase`] says so.
    pub fn new(service: S, options: FsOptions) -> Self {
        let mut options = options;
        options.ext4.read_only |= service.info().read_only;
        let mut core = Core::new(service.info(), options);
        core.begin();
        Self { service, core, is_stopping: false }
    }

    /// Mounts with a log that outlives this process: another process that gets the log goes on where this one ended. `survived` is the
    /// state that an ended process left in the log; its blocks were replayed ([`crate::replay`]).
    pub fn surviving(
        service: S,
        options: FsOptions,
        log: Box<dyn SurvivalLog>,
        survived: Survived,
    ) -> Self {
        let mut mounted = Self::new(service, options);
        mounted.core.begin_with(survived, log);
        mounted
    }

    /// Clients have the answers to these requests.
    pub fn note_answered(&mut self, requests: &[u64]) {
        self.core.note_answered(requests);
    }

    /// What it is doing.
    pub fn phase(&self) -> &Phase {
        &self.core.phase
    }

    /// From now on the volume is told of blocks that commits freed, or not (the default).
    pub fn trim_freed(&mut self, trims: bool) {
        self.core.trims_freed = trims;
    }

    /// When reading changes times of access; never, unless something else is said.
    pub fn keep_access_times(&mut self, when: AccessTimes) {
        self.core.access_times = when;
    }

    /// Refuses changes from now on, or accepts them again. An error where something is not durable yet, or where it was mounted
    /// read-only from the start: nothing is changed then.
    pub fn set_read_only(&mut self, read_only: bool) -> Result<(), FsError> {
        self.core.set_read_only(read_only)
    }

    /// How it stands, and what it has done.
    pub fn report(&self) -> FsReport {
        self.core.report()
    }

    /// What it stands on.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// The same, to be changed.
    pub fn service_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// What it stood on.
    pub fn into_service(self) -> S {
        self.service
    }

    /// Takes a request; exactly one reply comes out of [`Mounted::poll_reply`].
    pub fn submit(&mut self, request: FsRequest) {
        self.core.submit(request);
    }

    /// Moves everything on as far as it goes at `now`.
    pub fn drive(&mut self, now: Nanos) {
        self.core.now = now;
        loop {
            self.core.run_all();
            self.core.advance_commit();
            self.core.end_if_done();
            self.core.run_all();
            if self.core.io.has_outgoing() {
                self.core.append_survival();
            }
            while let Some(request) = self.core.io.poll() {
                self.service.submit(request, now);
            }
            if self.core.phase == Phase::Closed && !self.is_stopping {
                self.is_stopping = true;
                self.service.begin_shutdown(now);
            }
            self.service.drive(now);
            let mut has_moved = false;
            while let Some(reply) = self.service.poll_reply() {
                has_moved = true;
                self.core.on_reply(reply);
            }
            if !has_moved && !self.core.has_work() {
                break;
            }
        }
        self.core.append_survival();
    }

    /// The next reply that is ready.
    pub fn poll_reply(&mut self) -> Option<FsReply> {
        self.core.replies.pop_front()
    }

    /// When to call [`Mounted::drive`] again.
    pub fn wake(&self) -> Wake<'_> {
        let mut wake = self.service.wake();
        let own = self.core.next_due_at();
        wake.at = [wake.at, own].into_iter().flatten().min();
        wake
    }

    /// Takes nothing new, makes durable what was written, then stops the service.
    pub fn begin_shutdown(&mut self) {
        self.core.begin_shutdown();
    }

    /// Whether that is done, or never will be.
    pub fn is_shut_down(&self) -> bool {
        match self.core.phase {
            Phase::Closed => self.service.is_shut_down(),
            Phase::Failed(_) => true,
            _ => false,
        }
    }
}

impl FsOptions {
    /// Where data of so many bytes goes: of a run, or of the first update of a block.
    pub(crate) fn goes(&self, bytes: u64) -> Placement {
        self.mode.data(bytes, self.small_run_bytes_max)
    }
}

impl Core {
    /// Whether there is something to do that waits for no answer.
    fn has_work(&self) -> bool {
        !self.runnable.is_empty()
    }

    fn begin_shutdown(&mut self) {
        if matches!(self.phase, Phase::Serving) {
            self.phase = Phase::Closing;
            self.commit.want_all();
        } else if matches!(self.phase, Phase::Opening | Phase::Mounting) {
            self.phase = Phase::Closed;
        }
    }

    fn set_read_only(&mut self, read_only: bool) -> Result<(), FsError> {
        if self.options.ext4.read_only == read_only {
            return Ok(());
        }
        if !read_only && !self.was_writable {
            let detail = "it was mounted read-only from the start: unmount it, and mount it again";
            return Err(FsError::new(EROFS, detail));
        }
        if read_only && self.is_unsaved() {
            return Err(FsError::new(EBUSY, "something is not durable yet"));
        }
        self.options.ext4.read_only = read_only;
        // Times of access that no commit took are those of the last moment.
        self.accessed.clear();
        if let Some(ext4) = &mut self.ext4 {
            ext4.set_read_only(read_only);
        }
        Ok(())
    }

    /// Whether a change is in memory alone. Times of access do not count.
    fn is_unsaved(&self) -> bool {
        let is_unsaved =
            |file: &File| !file.is_gone && (file.has_unsaved_data() || file.has_pending_times());
        !self.commit.is_idle()
            || self.files.values().any(is_unsaved)
            || self.ext4.as_ref().is_some_and(|ext4| ext4.is_changed())
    }

    /// A stop is complete once nothing is unsaved and nothing under way.
    fn end_if_done(&mut self) {
        if self.phase != Phase::Closing || !self.commit.is_idle() || !self.io.is_empty() {
            return;
        }
        if self.is_unsaved() || !self.accessed.is_empty() {
            self.commit.want_all();
            self.advance_commit();
            return;
        }
        if self.jobs.is_empty() {
            self.phase = Phase::Closed;
        }
    }
}
