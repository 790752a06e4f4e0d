//! `nearhead umount`: unmounts a file system of Nearhead's and waits until everything is durable.

use super::mounts;
use std::path::PathBuf;

/// What `nearhead umount` is told.
#[derive(clap::Args, Debug)]
pub struct UmountArgs {
    /// The folder where it is mounted
    pub folder: PathBuf,
}

/// Runs the command.
pub fn run(args: &UmountArgs) -> Result<(), String> {
    let place = args.folder.display();
    let source = nearhead_fuse::mounted_source(&args.folder)
        .map_err(|error| format!("umount {place}: {error}"))?;
    if source.is_none() {
        return Err(format!("umount {place}: expected a mounted file system, found none"));
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
