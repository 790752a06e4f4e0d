//! The connection to the guardian, which settles what this process leaves when it dies.
//!
//! Made when the program begins, and again in a child of `fork`, so that the guardian knows every
//! process. Descriptors of the library's own are marked: a program that closes all that it does not
//! know must not close them.

use crate::raw;
use crate::settings::settings;
use nearhead_wal::guardian::{Client, Settled, marked, repair};
use std::ffi::CStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// How long an opening waits for a file that another process has open and that has zeros behind its content.
const REPAIR_WAIT: Duration = Duration::from_secs(1);
const REPAIR_PAUSE: Duration = Duration::from_millis(2);

static CLIENT: AtomicPtr<Arc<Client>> = AtomicPtr::new(std::ptr::null_mut());

/// Connects, if the program runs with zeros ahead.
pub(crate) fn begin() {
    let Some(name) = settings().and_then(|settings| settings.guardian.as_deref()) else { return };
    let before = CLIENT.load(Ordering::Acquire);
    // SAFETY: null, or a value that is never freed.
    if let Some(parent) = unsafe { before.as_ref() } {
        // In a child of `fork`: the connection stands for the parent.
        raw::close(parent.descriptor().as_raw_fd());
    }
    let client = match Client::connect(name) {
        Ok(client) => Box::into_raw(Box::new(client)),
        Err(_) => std::ptr::null_mut(),
    };
    CLIENT.store(client, Ordering::Release);
}

/// The connection.
pub(crate) fn client() -> Option<Arc<Client>> {
    // SAFETY: null, or a value that is never freed.
    unsafe { CLIENT.load(Ordering::Acquire).as_ref() }.cloned()
}

/// Cuts zeros off that were left behind the content of the file at `path`, before the program opens it.
pub(crate) fn repair_before_opening(directory: libc::c_int, path: &CStr) {
    let is_relative = path.to_bytes().first() != Some(&b'/');
    if is_relative && directory != libc::AT_FDCWD {
        return;
    }
    let errno = raw::errno();
    if marked(path) {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        repair_at(path);
    }
    raw::fail(errno);
}

fn repair_at(path: &Path) {
    let start = Instant::now();
    loop {
        match repair(path) {
            Ok(Settled::OpenElsewhere) if start.elapsed() < REPAIR_WAIT => {
                std::thread::sleep(REPAIR_PAUSE);
            }
            // The program opens it as it is.
            _ => return,
        }
    }
}
