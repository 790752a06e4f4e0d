//! The file systems compared, each on a new image in memory, mounted by its own program.
//!
//! All images are equally long. Nothing in them is worth saving: programs are ended without ceremony, and a folder is unmounted after its
//! program ended, so that nobody waits for one that is stopped.

use super::super::cleanup::{Cleanup, Step};
use super::super::commands::{command, exists, run};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A file system whose files are memory.
const MEMORY: &str = "/dev/shm";
/// Of the images, what has to be free beside them.
const SPARE_BYTES: u64 = 512 << 20;
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Who is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// `nearhead mount` as it is, on a volume with the preset `mlb`.
    Ours,
    /// `fuse2fs` as it is, on what `mkfs.ext4` makes.
    Fuse2fs,
}

impl Who {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "nearhead",
            Self::Fuse2fs => "fuse2fs",
        }
    }
}

/// One of them, mounted until it is dropped.
pub(super) struct Mount {
    pub(super) who: Who,
    folder: PathBuf,
    image: PathBuf,
    pid: Option<Pid>,
    cleanup: Cleanup,
    depth: usize,
}

impl Mount {
    /// Mounts one below `folder`. The error says why it cannot be compared.
    pub(super) fn new(
        who: Who,
        folder: &Path,
        image_bytes: u64,
        cleanup: &Cleanup,
    ) -> Result<Self, String> {
        check(who, image_bytes)?;
        let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
        let folder = folder.join(format!("file-system-{}", who.name()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let image = Path::new(MEMORY).join(format!(
            "nearhead-bench-{}-{}.img",
            std::process::id(),
            who.name()
        ));
        let (cleanup, depth) = (cleanup.clone(), cleanup.depth());
        let mut mount = Self { who, folder, image, pid: None, cleanup, depth };
        let serving = mount.made(image_bytes)?;
        mount.start(serving)?;
        Ok(mount)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets it run, or stops it where it is.
    pub(super) fn run(&self, runs: bool) {
        let signal = if runs { Signal::CONT } else { Signal::STOP };
        // It can only fail for a program that has ended, which the next request finds out.
        let _ = self.pid.map(|pid| kill_process_group(pid, signal));
    }

    /// Makes an empty file system; the command that mounts it.
    fn made(&self, image_bytes: u64) -> Result<Command, String> {
        let (image, folder) = (&self.image, &self.folder);
        if self.who == Who::Fuse2fs {
            let file = fs::File::create(image).and_then(|file| file.set_len(image_bytes));
            file.map_err(|error| format!("{}: {error}", image.display()))?;
            let mut mkfs = command("mkfs.ext4");
            mkfs.args(["-q", "-F"]).arg(image);
            run(mkfs, LIMIT)?;
            let mut serving = command("fuse2fs");
            serving.arg("-f").arg(image).arg(folder);
            return Ok(serving);
        }
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let program = program.to_string_lossy();
        let mut create = command(&program);
        create.arg("create").arg(image).args(["--preset", "mlb", "--size"]);
        create.arg(image_bytes.to_string());
        run(create, LIMIT)?;
        let mut mkfs = command(&program);
        mkfs.arg("mkfs").arg(image);
        run(mkfs, LIMIT)?;
        let mut serving = command(&program);
        serving.arg("mount").arg(image).arg(folder);
        Ok(serving)
    }

    fn start(&mut self, mut serving: Command) -> Result<(), String> {
        // Undone after the program, which is the newer step.
        self.cleanup.perform(|| Ok(Step::Mount(self.folder.clone())))?;
        let name = self.who.name();
        let mut pid = None;
        self.cleanup.perform(|| {
            // A group of its own: a mount has two processes.
            serving.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            let started = serving.spawn();
            let child = started.map_err(|error| format!("cannot start {name}: {error}"))?;
            pid = Pid::from_raw(child.id() as i32);
            Ok(Step::Program(child))
        })?;
        self.pid = pid;
        let until = Instant::now() + LIMIT;
        while !is_mounted(&self.folder) {
            if Instant::now() > until {
                let place = self.folder.display();
                return Err(format!("{name}: expected a mount at {place} by now, found none"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.cleanup.undo_to(self.depth);
        let _ = fs::remove_file(&self.image);
        let _ = fs::remove_dir(&self.folder);
    }
}

fn check(who: Who, image_bytes: u64) -> Result<(), String> {
    if !Path::new("/dev/fuse").exists() {
        return Err("no /dev/fuse here".to_owned());
    }
    for (program, package) in [("mkfs.ext4", "e2fsprogs"), ("fuse2fs", "fuse2fs")] {
        if (who == Who::Fuse2fs || package == "e2fsprogs") && !exists(program) {
            return Err(format!("no {program}; on Debian: apt-get install {package}"));
        }
    }
    let room = rustix::fs::statvfs(MEMORY).map_err(|error| format!("{MEMORY}: {error}"))?;
    let (free, needed) = (room.f_bavail * room.f_frsize, image_bytes + SPARE_BYTES);
    if free < needed {
        return Err(format!("{MEMORY}: expected {needed} bytes free, found {free}"));
    }
    Ok(())
}

fn is_mounted(folder: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // As the table writes a space.
    let folder = folder.display().to_string().replace(' ', "\\040");
    table.lines().any(|line| line.split(' ').nth(1) == Some(folder.as_str()))
}
