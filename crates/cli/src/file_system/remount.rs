//! `mount -o remount`: a mounted file system becomes read-only, or writable again, or changes how it keeps times and free blocks.
//!
//! The kernel and the daemon both have their part. To read-only the kernel goes first: it refuses while a file is open for writing, so no
//! change is under way when the daemon makes all of them durable. To writable the daemon goes first. Where mode, names of durability-only
//! files and other options of the first mount are given again, as mount(8) does, they stay as they are.

use super::options::Wanted;
use super::{MountArgs, folder};
use crate::control::Client;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_remount};
use std::io::Error;
use std::path::Path;

/// Options that the daemon carries out.
const FOR_DAEMON: [&str; 7] =
    ["ro", "rw", "noatime", "relatime", "strictatime", "discard", "nodiscard"];

/// Runs the command.
pub(super) fn run(args: &MountArgs, wanted: &Wanted) -> Result<(), String> {
    let place = args.folder.display();
    let failed = |why: &str| format!("mount -o remount {place}: {why}");
    let unserved = format!("its daemon has ended; `nearhead umount {place}`, then mount it again");
    let mounted = folder::mounted(&args.folder).map_err(|error| failed(&error.to_string()))?;
    if !mounted.is_some_and(|mount| folder::is_ours(&mount)) {
        return Err(failed("expected a file system of `nearhead mount`, found none"));
    }
    if folder::is_dead(&args.folder) {
        return Err(failed(&unserved));
    }
    let flags = flags(&args.folder, wanted).map_err(|error| failed(&error.to_string()))?;
    let folder = args.folder.to_string_lossy();
    let daemon = Client::find(&folder, args.control.as_deref())?;
    let mut daemon = daemon.ok_or_else(|| failed(&unserved))?;
    let words: Vec<&str> = wanted
        .given
        .iter()
        .map(String::as_str)
        .filter(|given| FOR_DAEMON.contains(given))
        .collect();
    let command = format!("remount {}", words.join(" "));
    let remount = || {
        mount_remount(&args.folder, flags, c"")
            .map_err(|error| failed(&refused(&error.into(), &place.to_string())))
    };
    if flags.contains(MountFlags::RDONLY) {
        remount()?;
        return daemon.ask::<String>(&command).map(drop).map_err(|why| failed(&why));
    }
    daemon.ask::<String>(&command).map_err(|why| failed(&why))?;
    remount()
}

/// Flags of the mount after the change: those that it has, unless an option says otherwise.
fn flags(folder: &Path, wanted: &Wanted) -> Result<MountFlags, Error> {
    let now = statvfs(folder)?.f_flag;
    let is_given =
        |names: &[&str]| wanted.given.iter().any(|given| names.contains(&given.as_str()));
    let mut flags = MountFlags::empty();
    let kernel = &wanted.kernel;
    for (names, is_wanted, shown, flag) in [
        (["ro", "rw"].as_slice(), wanted.read_only, StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (
            &["suid", "nosuid", "user", "users", "owner", "group"],
            !kernel.suid,
            StatVfsMountFlags::NOSUID,
            MountFlags::NOSUID,
        ),
        (
            &["dev", "nodev", "user", "users", "owner", "group"],
            !kernel.dev,
            StatVfsMountFlags::NODEV,
            MountFlags::NODEV,
        ),
        (
            &["exec", "noexec", "user", "users"],
            !kernel.exec,
            StatVfsMountFlags::NOEXEC,
            MountFlags::NOEXEC,
        ),
        (&["sync", "async"], kernel.sync, StatVfsMountFlags::SYNCHRONOUS, MountFlags::SYNCHRONOUS),
    ] {
        let is_set = if is_given(names) { is_wanted } else { now.contains(shown) };
        flags.set(flag, is_set);
    }
    Ok(flags)
}

fn refused(error: &Error, place: &str) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => {
            format!("a file is open for writing; `fuser -vm {place}` shows by which program")
        }
        _ => format!("the kernel refuses: {error}"),
    }
}
