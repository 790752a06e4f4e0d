//! `nearhead fsck`: looks at the volume and at the file system on it, and changes nothing.
//!
//! The file system is e2fsck's to judge. It reads the volume as one file, as recovery would leave it after a crash now.

use crate::offline;
use crate::target::{Access, DiskArgs, Target};
use nearhead_fuse::{Handle, IMAGE_NAME};
use nearhead_output::{note, say};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;

/// What `nearhead fsck` is told.
#[derive(clap::Args, Debug)]
pub struct FsckArgs {
    /// The volume: block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// Runs the command. The code is e2fsck's: 0 if nothing was found, 4 if something is wrong.
pub fn run(args: &FsckArgs) -> Result<ExitCode, String> {
    let target = Target::open(&args.target, Access::Read, &args.disk)?;
    let offline = offline::serving(target, Access::Read, |_, _| {})?;
    let damage = offline.volume.status().damage;
    for finding in &damage {
        note(&format!("damage: {finding}"));
    }
    let folder = Folder::new()?;
    let (handle, start, path) = (Handle::default(), offline.start, folder.0.clone());
    let (sender, outcome) = mpsc::channel();
    let ending = handle.clone();
    nearhead_fuse::serve_image(
        offline.volume,
        start,
        &folder.0,
        &args.target,
        &handle,
        move || {
            // Beside this thread, which answers what e2fsck reads.
            std::thread::spawn(move || {
                let _ = sender.send(checked(&path.join(IMAGE_NAME)));
                ending.stop();
            });
        },
    )?;
    let code = outcome.recv().map_err(|_| "e2fsck was not run (internal error)".to_owned())??;
    let code = if code == 0 && !damage.is_empty() { 4 } else { code };
    Ok(ExitCode::from(code))
}

fn checked(image: &Path) -> Result<u8, String> {
    let output = super::e2fsprogs("e2fsck").arg("-fn").arg(image).output();
    let output = output.map_err(|error| {
        format!("fsck: expected the program e2fsck (package e2fsprogs), found none: {error}")
    })?;
    say(String::from_utf8_lossy(&output.stdout).trim_end());
    let words = String::from_utf8_lossy(&output.stderr);
    // Its name and version.
    words.lines().filter(|line| !line.starts_with("e2fsck ")).for_each(note);
    Ok(output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// A folder that is there as long as it is needed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("nearhead-fsck-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Still mounted if it could not be unmounted; then it stays.
        let _ = std::fs::remove_dir(&self.0);
    }
}
