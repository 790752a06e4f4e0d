//! File systems on volumes: `nearhead mkfs`, `mount`, `umount`, `fsck`.
//!
//! The format is ext4's, so that e2fsck, debugfs and the kernel can look at what is here; how it is written is Nearhead's.

mod fsck;
mod mkfs;
mod mount;
mod umount;

pub use fsck::{FsckArgs, run as fsck};
pub use mkfs::{MkfsArgs, run as mkfs};
pub use mount::{MountArgs, run as mount};
pub use umount::{UmountArgs, run as umount};
