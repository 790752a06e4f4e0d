//! An emulated disk that the kernel takes for a real one, with ext4 on it.
//!
//! `nearhead disk serve --file` serves the disk model as one file; `losetup --direct-io=on` makes a
//! block device of the file, which has the kernel's I/O schedulers before it; ext4 lies on that. Every test makes all of it
//! anew, so none meets the caches or the schedulers' memory of another. Each layer is verified
//! before it is used: that the loop bypasses the page cache, that the scheduler is the one asked
//! for, that the mount is there. Whatever happens, all of it is taken down again.

use super::cleanup::{Cleanup, Step, unmount};
use super::commands::{command, exists, run};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

/// The model of the disk.
pub(super) const MODEL: &str = "model:sata-ssd-240gb";
/// How much of it the file system takes: it is made in no time and holds every test.
const FILE_SYSTEM: &str = "8G";
/// For programs that should take some milliseconds.
const LIMIT: Duration = Duration::from_secs(60);
const PROGRAMS: [(&str, &str); 4] =
    [("losetup", "mount"), ("mkfs.ext4", "e2fsprogs"), ("mount", "mount"), ("umount", "mount")];

/// What keeps such a disk from being made here, in one line.
pub(super) fn missing() -> Option<String> {
    if let Some((program, package)) = PROGRAMS.iter().find(|(program, _)| !exists(program)) {
        return Some(format!("{program} is missing; on Debian: apt-get install {package}"));
    }
    if !rustix::process::geteuid().is_root() {
        return Some("setting up a loop device and mounting need root".to_owned());
    }
    let device = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|it| !Path::new(it).exists());
    device.map(|device| format!("{device} is missing; the kernel has no such driver here"))
}

/// A mounted emulated disk.
pub(super) struct Stack {
    cleanup: Cleanup,
    depth: usize,
    mount: PathBuf,
}

impl Stack {
    /// Builds it in `folder`, with `scheduler` before the disk.
    pub(super) fn build(cleanup: &Cleanup, folder: &Path, scheduler: &str) -> Result<Self, String> {
        let (fuse, mount) = (folder.join("disk"), folder.join("mount"));
        for folder in [&fuse, &mount] {
            fs::create_dir_all(folder).map_err(|error| told("make", folder, &error))?;
        }
        let stack = Self { cleanup: cleanup.clone(), depth: cleanup.depth(), mount };
        let file = stack.serve_disk(&fuse)?;
        let device = stack.file_as_device(&file, scheduler)?;
        stack.make_file_system(&device)?;
        Ok(stack)
    }

    /// Where its file system is.
    pub(super) fn path(&self) -> &Path {
        &self.mount
    }

    /// In a process of its own: one that waits for a disk that it serves itself could not be ended.
    fn serve_disk(&self, folder: &Path) -> Result<PathBuf, String> {
        let nearhead = std::env::current_exe().map_err(|error| told("find", folder, &error))?;
        let mut serve = command(&nearhead.to_string_lossy());
        serve.args(["disk", "serve", MODEL, "--file"]).arg(folder).stdout(Stdio::piped());
        let mut stdout = None;
        self.cleanup.perform(|| {
            let child = serve.spawn();
            let mut child = child.map_err(|error| format!("cannot serve {MODEL}: {error}"))?;
            stdout = child.stdout.take();
            Ok(Step::Program(child))
        })?;
        self.cleanup.perform(|| Ok(Step::Mount(folder.to_owned())))?;
        let file = folder.join(nearhead_one_file::NAME);
        // It says so once it can be used; without a word it has ended, and said why.
        if stdout.as_mut().is_some_and(speaks) && is_mounted(folder) {
            return Ok(file);
        }
        Err(format!(
            "expected {} to be served within {LIMIT:?}, found that it is not",
            file.display()
        ))
    }

    fn file_as_device(&self, file: &Path, scheduler: &str) -> Result<PathBuf, String> {
        let mut losetup = command("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(file);
        let mut device = PathBuf::new();
        self.cleanup.perform(|| {
            device.push(run(losetup, LIMIT)?.stdout.trim());
            Ok(Step::Loop(device.clone()))
        })?;
        let name = device.file_name().map(|name| name.to_string_lossy().into_owned());
        let facts = Path::new("/sys/block").join(name.unwrap_or_default());
        let dio = read(&facts.join("loop/dio"))?;
        if dio.trim() != "1" {
            return Err(format!(
                "{}: expected a loop that bypasses the page cache, found one that does not",
                device.display()
            ));
        }
        // A loop tells the kernel of a volatile cache, whatever is behind it, so every durable write is followed by a
        // flush, which the file answers at once. `queue/write_cache` could be set, but that outlives the loop: whoever
        // gets the device next would have no flushes.
        choose(&facts.join("queue/scheduler"), scheduler, &format!("[{scheduler}]"))?;
        Ok(device)
    }

    fn make_file_system(&self, device: &Path) -> Result<(), String> {
        let mut mkfs = command("mkfs.ext4");
        // Nothing is left to be written later in the background.
        mkfs.args(["-q", "-F", "-b", "4096", "-E"]);
        mkfs.arg("lazy_itable_init=1,lazy_journal_init=1,nodiscard").arg(device).arg(FILE_SYSTEM);
        run(mkfs, LIMIT)?;
        let mut mount = command("mount");
        mount.args(["-t", "ext4", "-o", "noatime,noinit_itable"]).arg(device).arg(&self.mount);
        self.cleanup.perform(|| run(mount, LIMIT).map(|_| Step::Mount(self.mount.clone())))?;
        if is_mounted(&self.mount) {
            return Ok(());
        }
        Err(format!("expected a file system at {}, found none", self.mount.display()))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.cleanup.undo_to(self.depth);
    }
}

/// Takes down what a run that was killed left in `folder`.
pub(super) fn clear_leftovers(folder: &Path) {
    let Ok(folder) = folder.canonicalize() else { return };
    let (disk, mount) = (folder.join("disk"), folder.join("mount"));
    if is_mounted(&mount) {
        // If that fails the run that begins says where.
        let _ = unmount(&mount);
    }
    for device in loops_over(&folder) {
        let mut detach = command("losetup");
        detach.arg("--detach").arg(device);
        let _ = run(detach, LIMIT);
    }
    if is_mounted(&disk) {
        let _ = unmount(&disk);
    }
}

/// Loop devices whose file is in `folder`.
fn loops_over(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let is_ours = |name: &std::ffi::OsString| {
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        fs::read_to_string(backing).is_ok_and(|file| Path::new(file.trim()).starts_with(folder))
    };
    names.filter(is_ours).map(|name| Path::new("/dev").join(name)).collect()
}

/// Whether a program says anything, in time.
fn speaks(stdout: &mut ChildStdout) -> bool {
    let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    let mut watched = [PollFd::new(&*stdout, PollFlags::IN)];
    rustix::event::poll(&mut watched, Some(&limit)).is_ok_and(|ready| ready > 0)
        && stdout.read(&mut [0]).is_ok_and(|bytes| bytes > 0)
}

fn is_mounted(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    is_among(&mounts, &path)
}

/// Whether the kernel's list of mounts has one at `path`.
fn is_among(mounts: &str, path: &Path) -> bool {
    // The kernel writes what would end a field in octal.
    let escaped = path.to_string_lossy().replace('\\', "\\134").replace(' ', "\\040");
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(&escaped))
}

/// Sets a property of a device; it must read as `expected` then.
fn choose(property: &Path, value: &str, expected: &str) -> Result<(), String> {
    fs::write(property, value).map_err(|error| told("set", property, &error))?;
    let found = read(property)?;
    if found.contains(expected) {
        return Ok(());
    }
    Err(format!("{}: expected {expected}, found {}", property.display(), found.trim()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| told("read", path, &error))
}

fn told(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_arrays::model_from_text;

    #[test]
    fn a_mount_is_found_by_its_whole_path_also_with_spaces() {
        let mounts =
            "/dev/loop0 /a/mount ext4 rw 0 0\nnbdfuse /a/with\\040space/disk fuse rw 0 0\n";
        assert!(is_among(mounts, Path::new("/a/mount")));
        assert!(is_among(mounts, Path::new("/a/with space/disk")));
        for other in ["/a", "/a/mount/inner", "/dev/loop0", "/a/moun"] {
            assert!(!is_among(mounts, Path::new(other)), "{other}");
        }
    }

    #[test]
    fn the_disk_of_the_bench_is_one_that_can_be_built() {
        assert!(model_from_text(MODEL).is_ok());
    }
}
