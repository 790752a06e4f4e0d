//! `nearhead disk serve --file`: a bare emulated disk as one file in a folder, for `losetup`.
//!
//! It ends when somebody unmounts the folder, or by a signal once nobody uses the file any more. A
//! second signal ends it at once: whoever uses the file gets EIO, as from a disk pulled out.

use super::serve::{DiskServeArgs, announce};
use super::told::Told;
use nearhead_disk::{Disk, Nanos};
use nearhead_one_file::{Mounted, Options, unmount};
use nearhead_output::{note, say};
use nearhead_service::Service;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// On a virtual machine an alarm takes 40 us to set and rings 37 us late at the median, 62 at p90. Looking for longer takes
/// the processor from those who use the disk.
const TIMER_LOOK: Nanos = Nanos::from_micros(100);

/// Serves `disk` in `folder` until it is unmounted.
pub(super) fn run(args: &DiskServeArgs, disk: Told, folder: &Path) -> Result<(), String> {
    let options = Options {
        volatile_cache: disk.bare().disk().properties().volatile_cache,
        timer_look: if args.sleep { Nanos::ZERO } else { TIMER_LOOK },
    };
    let size_bytes = disk.info().size_bytes;
    let failure = disk.failure();
    let mounted = Mounted::new(disk, Instant::now(), folder, options)?;
    // Not before: a signal must never unmount what somebody else mounted there.
    unmount_on_signals(folder)?;
    announce(args, size_bytes, &[mounted.path().display().to_string()])?;
    mounted.wait()?;
    say(&failure.ending(&args.disk)?);
    Ok(())
}

fn unmount_on_signals(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
    let (mut receiver, sender) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let sender = sender.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, sender).map_err(failed)?;
    }
    let folder: PathBuf = folder.to_owned();
    let body = move || {
        let mut byte = [0];
        while receiver.read_exact(&mut byte).is_ok() {
            let Err(error) = unmount(&folder) else { return };
            note(&format!(
                "disk serve: cannot unmount {}: {error}; expected that nobody uses it: unmount what lies on it, \
                 losetup --detach its loop device, then ask again. Another signal now ends it at once",
                folder.display()
            ));
            if receiver.read_exact(&mut byte).is_ok() && unmount(&folder).is_err() {
                std::process::exit(1);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(failed)?;
    Ok(())
}
