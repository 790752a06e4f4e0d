//! The mode `process`: durable writes through a helper process, which is watched.
//!
//! The log or stream stays where it is; only the write itself goes to the helper, through the very
//! open file of the program (`SCM_RIGHTS`). So the helper also holds the lock that keeps other
//! writers out, for as long as it may write: a program that is killed leaves no write behind that
//! could land on what the next one wrote.
//!
//! A helper that died or hangs is killed and waited for, and then another one writes *all* bytes of what was
//! under way again: never a sync alone, never while the old one may be writing. If it cannot be ended, or
//! the option says so, the write fails and with it the log.

use super::client::{Helper, HelperOptions, OnDeath};
use super::frame::HANDLES_MAX;
use super::message::Request;
use crate::error::{Result, WalError, WalErrorKind};
use crate::writer::DurableWriter;
use nearhead_uring::{DurableFile, Opener};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes through a helper.
pub struct ProcessWriter {
    options: HelperOptions,
    state: Mutex<State>,
    opener: Opener,
}

struct State {
    helper: Option<Helper>,
    restarts_left: u32,
    /// Files that the helper shares, by the program's descriptor.
    shared: BTreeMap<RawFd, Shared>,
    /// Why nothing is written any more.
    failed: Option<WalError>,
}

struct Shared {
    handle: u32,
    /// To share it again with the next helper. The lock is the file's, so this holds it too.
    file: OwnedFd,
}

impl ProcessWriter {
    /// Starts the helper.
    ///
    /// # Errors
    /// As [`Helper::start`].
    pub fn start(options: HelperOptions) -> Result<Self> {
        let helper = Some(Helper::start(&options)?);
        let restarts_left = match options.on_death {
            OnDeath::Restart(most) => most,
            OnDeath::Fail => 0,
        };
        let state = State { helper, restarts_left, shared: BTreeMap::new(), failed: None };
        Ok(Self { options, state: Mutex::new(state), opener: Opener::this_process() })
    }

    /// The process that writes now.
    pub fn helper_pid(&self) -> Option<u32> {
        self.state().helper.as_ref().map(|helper| helper.hello().pid)
    }

    /// Which way it is told what to write, in words; nothing if there is none.
    pub fn told(&self) -> Option<String> {
        self.state().helper.as_ref().map(Helper::told)
    }

    /// How many more helpers may be started.
    pub fn restarts_left(&self) -> u32 {
        self.state().restarts_left
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves at worst a helper that was not asked: the next answer would show it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the helper, and again with the next one if it is gone.
    fn with_helper(&self, action: impl Fn(&mut State) -> Result<()>) -> io::Result<()> {
        if !self.opener.is_this_process() {
            return Err(to_io(&WalError::inherited()));
        }
        let mut state = self.state();
        loop {
            if let Some(cause) = &state.failed {
                return Err(to_io(cause));
            }
            match action(&mut state) {
                Ok(()) => return Ok(()),
                // Its own errors are those of the disk.
                Err(error) if error.kind != WalErrorKind::Stopped => return Err(to_io(&error)),
                Err(error) => {
                    if let Err(error) = state.replace_helper(&self.options, &error) {
                        state.failed = Some(error);
                    }
                }
            }
        }
    }
}

impl DurableWriter for ProcessWriter {
    fn write_durable(&self, file: &DurableFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with_helper(|state| {
            let handle = state.share(file.as_fd())?;
            for (index, piece) in bytes.chunks(Helper::WRITE_BYTES_MAX).enumerate() {
                let at = offset + (index * Helper::WRITE_BYTES_MAX) as u64;
                state.helper()?.write_at(handle, at, piece)?;
            }
            Ok(())
        })
    }

    fn hold(&self, file: &DurableFile) -> io::Result<()> {
        self.with_helper(|state| state.share(file.as_fd()).map(drop))
    }

    fn forget(&self, file: &DurableFile) {
        if !self.opener.is_this_process() {
            return;
        }
        let mut state = self.state();
        let Some(shared) = state.shared.remove(&file.as_fd().as_raw_fd()) else { return };
        // One that is gone holds nothing; one that is restarted is not told of this file.
        if let Ok(helper) = state.helper() {
            let _ = helper.ask(shared.handle, &Request::Close, None);
        }
    }
}

impl State {
    fn helper(&mut self) -> Result<&mut Helper> {
        self.helper.as_mut().ok_or_else(|| WalError::new(WalErrorKind::Stopped, "no helper"))
    }

    /// Sees to it that the helper has the file. Returns its handle.
    fn share(&mut self, file: BorrowedFd<'_>) -> Result<u32> {
        let number = file.as_raw_fd();
        if let Some(shared) = self.shared.get(&number) {
            return Ok(shared.handle);
        }
        let is_free = |handle: &u32| self.shared.values().all(|shared| shared.handle != *handle);
        let Some(handle) = (0..HANDLES_MAX).find(is_free) else {
            let detail = format!(
                "expected at most {HANDLES_MAX} files through one helper; start another one"
            );
            return Err(WalError::new(WalErrorKind::OutOfRange, detail));
        };
        let own = file.try_clone_to_owned();
        let own = own.map_err(|error| WalError::new(WalErrorKind::Io, error.to_string()))?;
        self.helper()?.ask(handle, &Request::OpenFile, Some(file))?;
        self.shared.insert(number, Shared { handle, file: own });
        Ok(handle)
    }

    /// Ends the helper that is gone or hangs, and starts another one with the same files.
    fn replace_helper(&mut self, options: &HelperOptions, cause: &WalError) -> Result<()> {
        let failed = |what: &str| {
            let detail =
                format!("{}; {what}; open the log again to learn what is durable", cause.detail);
            WalError::new(WalErrorKind::Io, detail)
        };
        if let Some(old) = self.helper.take() {
            old.end_for_good().map_err(|error| failed(&error.detail))?;
        }
        if self.restarts_left == 0 {
            return Err(failed("no other helper may be started"));
        }
        self.restarts_left -= 1;
        let mut helper = Helper::start(options).map_err(|error| failed(&error.detail))?;
        for shared in self.shared.values() {
            let outcome = helper.ask(shared.handle, &Request::OpenFile, Some(shared.file.as_fd()));
            outcome.map_err(|error| failed(&error.detail))?;
        }
        self.helper = Some(helper);
        Ok(())
    }
}

fn to_io(error: &WalError) -> io::Error {
    let kind = match error.kind {
        WalErrorKind::NoSpace => io::ErrorKind::StorageFull,
        WalErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
        WalErrorKind::Permission => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.detail.clone())
}
