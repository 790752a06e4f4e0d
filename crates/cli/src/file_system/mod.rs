//! File systems on volumes: `nearhead mkfs`, `mount`, `umount`, `sync`, `fsck`.
//!
//! The format is ext4's, so that e2fsck, debugfs and the kernel can look at what is here; how it is written is Nearhead's.

mod background;
mod control;
mod desk;
mod folder;
mod fsck;
mod helper;
mod mkfs;
mod mount;
mod mounts;
mod opening;
mod options;
mod remount;
mod report;
mod supervisor;
mod sync;
mod umount;

pub use fsck::{FsckArgs, run as fsck};
pub use helper::as_command;
pub use mkfs::{MkfsArgs, run as mkfs};
pub use mount::{MountArgs, run as mount};
pub use options::MOUNT_OPTIONS;
pub use sync::{SyncArgs, run as sync};
pub use umount::{UmountArgs, run as umount};

use std::process::{Command, Stdio};

/// A program of e2fsprogs, which is often where only root looks.
fn e2fsprogs(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}
