//! `nearhead umount`: unmounts a file system of Nearhead's and waits until everything is durable.
//!
//! A mount whose daemon has ended is only removed: everything that was durable is there at the next mount.

use super::{folder, mounts};
use rustix::mount::UnmountFlags;
use std::path::PathBuf;

/// Arguments of `nearhead umount`.
#[derive(clap::Args, Debug)]
pub struct UmountArgs {
    /// The folder where it is mounted
    pub folder: PathBuf,
    /// Remove it from the tree of folders now; it ends once no program uses it
    #[arg(short = 'l', long)]
    pub lazy: bool,
}

/// Runs the command.
pub fn run(args: &UmountArgs) -> Result<(), String> {
    let place = args.folder.display();
    let mounted =
        folder::mounted(&args.folder).map_err(|error| format!("umount {place}: {error}"))?;
    match mounted {
        None => return Err(format!("umount {place}: expected a mounted file system, found none")),
        Some(mount) if !folder::is_ours(&mount) => {
            return Err(format!(
                "umount {place}: expected a file system of `nearhead mount`, found one of kind {}; `umount {place}` unmounts it",
                mount.kind
            ));
        }
        Some(_) => {}
    }
    if args.lazy {
        return rustix::mount::unmount(&args.folder, UnmountFlags::DETACH)
            .map_err(|error| format!("umount {place}: {error}"));
    }
    let served = mounts::find(&args.folder);
    nearhead_fuse::unmount(&args.folder).map_err(|error| {
        format!("umount {place}: {error}; `fuser -vm {place}` shows who uses it")
    })?;
    match served {
        Some(file) => mounts::wait_for(&file).map_err(|error| {
            format!("umount {place}: it is unmounted; cannot wait for its daemon: {error}")
        }),
        None => Ok(()),
    }
}
