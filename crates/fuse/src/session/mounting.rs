//! Mounting a folder: by the kernel itself as root, by `fusermount3` otherwise.
//!
//! The descriptor of `/dev/fuse` that comes of it is the mount: the process that has it serves the folder. `fusermount3` opens it and passes
//! it on over a socket (libfuse's `doc/kernel.txt` and `fusermount.c`).

use super::block_source::{BlockSource, DEVICE_BYTES};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSliceMut};
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
/// Type of the mount in the kernel's table: FUSE, and ours.
const KIND: &str = "fuse.nearhead";
/// The same on a block device.
const BLOCK_KIND: &str = "fuseblk.nearhead";
const HELPER: &str = "fusermount3";
/// Names the descriptor over which the helper passes the one that it opened. It is the helper's standard input.
const HELPER_SOCKET: (&str, &str) = ("_FUSE_COMMFD", "0");

/// Flags that the kernel enforces, named as the options of mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own, as in mount(2)")]
pub struct KernelFlags {
    /// Set-user-id bits and file capabilities have effect; only root may allow it.
    pub suid: bool,
    /// Device nodes have effect; only root may allow it.
    pub dev: bool,
    /// Programs may be executed.
    pub exec: bool,
    /// The kernel follows each write by a sync of the file.
    pub sync: bool,
    /// Changes of names are durable before they are answered. The file system carries this out; the kernel only shows it.
    pub dirsync: bool,
}

impl Default for KernelFlags {
    /// The kernel's defaults: another user's mount can never grant privileges.
    fn default() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self { suid: is_root, dev: is_root, exec: true, sync: false, dirsync: false }
    }
}

impl KernelFlags {
    /// Flags that are set, for mount(2) and by name.
    fn set(self) -> impl Iterator<Item = (MountFlags, &'static str)> {
        let all = [
            (!self.suid, MountFlags::NOSUID, "nosuid"),
            (!self.dev, MountFlags::NODEV, "nodev"),
            (!self.exec, MountFlags::NOEXEC, "noexec"),
            (self.sync, MountFlags::SYNCHRONOUS, "sync"),
            (self.dirsync, MountFlags::DIRSYNC, "dirsync"),
        ];
        all.into_iter().filter(|(is_set, ..)| *is_set).map(|(_, flag, name)| (flag, name))
    }
}

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// The source that `mount` shows.
    pub source: String,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Other users may use it.
    pub for_everybody: bool,
    /// The kernel reports `sync(2)` and `syncfs(2)`. It wants root, Linux 6.18 and a loop device, which `mount` shows as the source.
    pub reports_sync: bool,
    /// Further flags of the mount.
    pub flags: KernelFlags,
}

/// Mounts `folder`.
pub(super) fn mount(folder: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    match by_kernel(folder, options) {
        Err(error)
            if !options.reports_sync
                && error.raw_os_error() == Some(Errno::PERM.raw_os_error()) =>
        {
            by_helper(folder, options)
        }
        other => other,
    }
}

fn by_kernel(folder: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let root_mode = rustix::fs::stat(folder)?.st_mode;
    let device = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    if options.for_everybody {
        data.push_str(",allow_other");
    }
    let set = options.flags.set().map(|(flag, _)| flag);
    let mut flags = set.fold(MountFlags::empty(), |all, flag| all | flag);
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    if options.reports_sync {
        let block = BlockSource::new().map_err(|error| {
            io::Error::new(error.kind(), format!("no block device for `syncfs`: {error}"))
        })?;
        let data = CString::new(format!("{data},blksize={DEVICE_BYTES}"))?;
        rustix::mount::mount(block.path.as_str(), folder, BLOCK_KIND, flags, data.as_c_str())?;
    } else {
        let data = CString::new(data)?;
        rustix::mount::mount(options.source.as_str(), folder, KIND, flags, data.as_c_str())?;
    }
    Ok(device)
}

/// Options in the words of the helper. A comma would begin another option.
fn words(options: &MountOptions) -> String {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut words = vec![format!("fsname={source}"), "subtype=nearhead".to_owned()];
    words.push("default_permissions".to_owned());
    words.extend(options.read_only.then(|| "ro".to_owned()));
    words.extend(options.for_everybody.then(|| "allow_other".to_owned()));
    words.extend(options.flags.set().map(|(_, name)| name.to_owned()));
    words.join(",")
}

fn by_helper(folder: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(HELPER);
    command.arg("-o").arg(words(options)).arg("--").arg(folder);
    command.env(HELPER_SOCKET.0, HELPER_SOCKET.1).stdin(OwnedFd::from(theirs));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| {
        io::Error::new(error.kind(), format!("{HELPER}: {error} (package fuse3)"))
    })?;
    // Its copy of the other end of the socket: without it the end of the helper is noticed.
    drop(command);
    let device = passed(&ours);
    let output = child.wait_with_output()?;
    match device? {
        Some(device) if output.status.success() => Ok(device),
        _ => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// The descriptor that comes over `socket`, if one does.
fn passed(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let received = loop {
        let mut into = [IoSliceMut::new(&mut byte)];
        match rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 || received.flags.contains(ReturnFlags::CTRUNC) {
        return Ok(None);
    }
    let mut messages = ancillary.drain();
    Ok(messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_the_source_begins_no_option() {
        let options = MountOptions {
            source: "mirror:a,allow_other".to_owned(),
            flags: KernelFlags { suid: true, dev: true, exec: false, ..KernelFlags::default() },
            ..MountOptions::default()
        };
        let expected = r"fsname=mirror:a\,allow_other,subtype=nearhead,default_permissions,noexec";
        assert_eq!(words(&options), expected);
    }
}
