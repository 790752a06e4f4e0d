//! Both sides: the kernel's ext4 on a loop device, and a volume that `nearhead mount` serves.
//!
//! Both file systems have the same size and the same options of `mkfs.ext4`, but for the journal that
//! ext4 needs. Everything is unmounted and ended when dropped.

use crate::file_systems::Mounted;
use crate::kernel_loop::KernelLoop;
use crate::medium::{Medium, MediumKind};
use crate::side::Side;
use crate::tools;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The kernel's ext4. The mount comes first, so that it is dropped first.
#[derive(Debug)]
pub struct Ext4 {
    mounted: Option<Mounted>,
    device: KernelLoop,
    /// Folder where it is mounted.
    pub root: PathBuf,
}

impl Ext4 {
    /// Makes one of `size_bytes` in `folder` and mounts it.
    pub fn new(folder: &Path, size_bytes: u64) -> Result<Self, String> {
        let device = KernelLoop::new(&folder.join("ext4.img"), size_bytes, 512)?;
        let words = ["-q", "-F", "-b", "4096", "-I", "256", "-O", "^dir_index", "-E", "nodiscard"];
        let words = words.map(std::ffi::OsStr::new);
        let path = device.device();
        tools::ok("mkfs.ext4", &[&words[..], &[path.as_os_str()]].concat())?;
        let root = folder.join("ext4");
        std::fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let mut made = Self { mounted: None, device, root };
        made.mount()?;
        Ok(made)
    }

    /// Mounts it.
    pub fn mount(&mut self) -> Result<(), String> {
        self.mounted = Some(Mounted::new(&self.device.device(), &self.root, "rw")?);
        Ok(())
    }

    /// Unmounts it, and makes everything durable first: a copy of the mount in another namespace may keep it alive.
    pub fn unmount(&mut self) -> Result<(), String> {
        let synced = File::open(&self.root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
        synced.map_err(|error| format!("{}: {error}", self.root.display()))?;
        self.mounted.take().map_or(Ok(()), Mounted::unmount)
    }

    /// Mounts a copy of what its device has at this moment, as after a crash, and gives its root to `look`.
    pub fn after_crash<T>(
        &self,
        folder: &Path,
        look: impl FnOnce(&Path) -> T,
    ) -> Result<T, String> {
        let (copy, root) = (folder.join("crashed.img"), folder.join("crashed"));
        let below = self.device.below();
        let file = below.first().ok_or("the oracle has no file")?;
        let args = ["--sparse=always".as_ref(), file.as_os_str(), copy.as_os_str()];
        tools::ok("cp", &args)?;
        let device = KernelLoop::over(&copy, 512)?;
        std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let mounted = Mounted::new(&device.device(), &root, "rw")?;
        let seen = look(&root);
        mounted.unmount()?;
        drop(device);
        std::fs::remove_file(&copy).map_err(|error| format!("{}: {error}", copy.display()))?;
        Ok(seen)
    }
}

/// A mounted volume.
#[derive(Debug)]
pub struct Ours {
    nearhead: PathBuf,
    medium: Medium,
    mode: String,
    daemon: Option<Child>,
    /// Folder where it is mounted.
    pub root: PathBuf,
    /// Bytes of the file system.
    pub size_bytes: u64,
}

impl Ours {
    /// Creates a volume on `medium` in `folder`, makes a file system on it and mounts it in `mode`.
    pub fn new(
        nearhead: &Path,
        folder: &Path,
        image_bytes: u64,
        medium: MediumKind,
        mode: &str,
    ) -> Result<Self, String> {
        let root = folder.join("ours");
        std::fs::create_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let program = nearhead.to_str().ok_or("the program's path is no UTF-8")?;
        let is_file = medium == MediumKind::File;
        let medium = Medium::new(medium, nearhead, folder)?;
        let size = image_bytes.to_string();
        let mut words = vec!["create", &medium.target, "--preset", "mlb", "--fragments", "yes"];
        if is_file {
            words.extend(["--size", &size]);
        } else {
            // The disk is so small that its logs would be too short for a file system.
            words.extend(["--log-size", "4MiB"]);
        }
        tools::ok(program, &words)?;
        let report = tools::ok(program, &["mkfs", &medium.target, "--json"])?;
        let report: Value =
            serde_json::from_str(&report).map_err(|error| format!("mkfs: {error}"))?;
        let size_bytes = report["size_bytes"].as_u64().ok_or("mkfs reports no size")?;
        let (nearhead, mode) = (nearhead.to_owned(), mode.to_owned());
        let mut ours = Self { nearhead, medium, mode, daemon: None, root, size_bytes };
        ours.mount()?;
        Ok(ours)
    }

    /// Mounts it; returns once it can be used.
    pub fn mount(&mut self) -> Result<(), String> {
        let option = format!("mode={}", self.mode);
        let words = ["-o", &option, "--json"].map(std::ffi::OsStr::new);
        let places = ["mount".as_ref(), self.medium.target.as_ref(), self.root.as_os_str()];
        let args = [&places[..], &words].concat();
        let mut command = tools::command(self.nearhead.to_str().unwrap_or_default(), &args);
        // A group of its own: a mount has two processes.
        command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut daemon = command.spawn().map_err(|error| format!("mount: {error}"))?;
        let mut line = String::new();
        let read = daemon.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        self.daemon = Some(daemon);
        match read {
            Some(Ok(_)) if line.contains("\"ready\"") => Ok(()),
            _ => Err(format!("mount {}: expected that it is ready, found {line:?}", self.mode)),
        }
    }

    /// Unmounts it in order.
    pub fn unmount(&mut self) -> Result<(), String> {
        let program = self.nearhead.to_str().unwrap_or_default();
        tools::unmounted(program, &["umount".as_ref(), self.root.as_os_str()])?;
        let ended = self.daemon.take().map(|mut daemon| daemon.wait());
        match ended {
            Some(Ok(status)) if !status.success() => Err(format!("the daemon ended: {status}")),
            _ => Ok(()),
        }
    }

    /// Kills the process that serves the folder. Its supervisor starts another.
    pub fn kill_worker(&self) -> Result<(), String> {
        let supervisor = self.daemon.as_ref().ok_or("the volume is not mounted")?.id();
        let tasks = format!("/proc/{supervisor}/task");
        loop {
            let tasks = std::fs::read_dir(&tasks).map_err(|error| format!("{tasks}: {error}"))?;
            let lists = tasks.flatten().map(|task| task.path().join("children"));
            let lists: Vec<String> =
                lists.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
            let lists = lists.join(" ");
            let workers: Vec<Pid> = lists
                .split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
                .collect();
            for worker in &workers {
                let _ = kill_process(*worker, Signal::KILL);
            }
            if !workers.is_empty() {
                return Ok(());
            }
            // The worker before has just ended, and the next one is not there yet.
            std::thread::yield_now();
        }
    }

    /// Kills all processes of the mount, and takes the dead mount away.
    pub fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = kill_process_group(Pid::from_child(&daemon), Signal::KILL);
            let _ = daemon.wait();
            let _ = tools::run("umount", &["--lazy".as_ref(), self.root.as_os_str()]);
        }
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<(), String> {
        let program = self.nearhead.to_str().unwrap_or_default();
        tools::ok(program, &["sync".as_ref(), self.root.as_os_str()]).map(drop)
    }

    /// Whether the medium can lose its power.
    pub fn can_lose_power(&self) -> bool {
        !self.medium.disks.is_empty()
    }

    /// Cuts the power of the medium, kills the daemon, and gives the medium its power again.
    pub fn cut_power(&mut self, seed: u64) -> Result<(), String> {
        if self.medium.disks.is_empty() {
            return Err("a plain file cannot lose its power; take --medium disk".to_owned());
        }
        self.medium.power_off(seed)?;
        self.kill();
        self.medium.power_on()
    }

    /// Findings of e2fsck on the unmounted volume.
    pub fn check(&self) -> Result<(), String> {
        let program = self.nearhead.to_str().unwrap_or_default();
        tools::ok(program, &["fsck", &self.medium.target]).map(drop)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.kill();
    }
}
