//! An attached volume, for tests that use it as a block device.

use super::{Scratch, run, run_ok, tools};
use nearhead_disk::BufferMut;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub const BLOCK: usize = 4096;

/// Whether a volume can be attached here; says why not.
pub fn can_attach() -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: attaching takes root");
        return false;
    }
    if let Some(path) =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find(|path| !Path::new(path).exists())
    {
        println!("skipped: attaching takes {path}");
        return false;
    }
    tools(&["losetup", "blockdev"])
}

/// An attached volume; nothing of it is left behind, however a test ends.
pub struct Attached<'a> {
    pub scratch: &'a Scratch,
    pub name: String,
    pub target: String,
}

impl<'a> Attached<'a> {
    pub fn new(scratch: &'a Scratch, what: &str, more: &[&str]) -> Self {
        let target = scratch.text("volume.img");
        run_ok(scratch, &["create", &target, "--size", "128M", "--preset", "mlb"]);
        let attached = Self { scratch, name: format!("t{}-{what}", std::process::id()), target };
        attached.attach(more);
        attached
    }

    pub fn attach(&self, more: &[&str]) {
        let mut args = vec!["attach", &self.target, "--as", &self.name];
        args.extend_from_slice(more);
        let by = std::env::var("NEARHEAD_ATTACH_BY").ok();
        args.extend(by.iter().flat_map(|by| ["--by", by]));
        let told = run_ok(self.scratch, &args);
        assert_eq!(told.trim(), self.device(), "it says which device there is");
    }

    pub fn device(&self) -> String {
        format!("/dev/nearhead/{}", self.name)
    }

    pub fn detach(&self, more: &[&str]) {
        let mut args = vec!["detach", &self.name];
        args.extend_from_slice(more);
        let told = run_ok(self.scratch, &args);
        assert!(told.contains("everything is durable"), "{told}");
        assert!(!Path::new(&self.device()).is_symlink());
        assert!(!Path::new("/run/nearhead/attached").join(&self.name).exists());
    }

    /// The process that serves it; none while there is none.
    pub fn worker(&self) -> Option<u32> {
        let output = run(self.scratch, &["status", &self.target, "--json"]);
        let status: serde_json::Value = super::json::parse(&output.stdout).ok()?;
        u32::try_from(status["served"]["pid"].as_u64()?).ok()
    }

    /// The same, once it answers.
    pub fn answering_worker(&self) -> u32 {
        loop {
            if let Some(pid) = self.worker() {
                return pid;
            }
        }
    }

    /// `kill -9` of whoever serves it at this moment.
    pub fn kill_worker(&self) {
        let pid = Pid::from_raw(self.answering_worker().cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// What its supervisor tells other programs.
    pub fn facts(&self) -> serde_json::Value {
        let place = Path::new("/run/nearhead/attached").join(&self.name);
        serde_json::from_slice(&std::fs::read(place.join("facts.json")).unwrap()).unwrap()
    }

    /// The process that supervises it.
    pub fn supervisor(&self) -> Pid {
        let number = self.facts()["supervisor"].as_i64().unwrap();
        Pid::from_raw(number.try_into().unwrap()).unwrap()
    }

    /// The process that serves it, or served it last, whether it answers or not.
    pub fn last_worker(&self) -> Pid {
        let number = self.facts()["worker"].as_i64().unwrap();
        Pid::from_raw(number.try_into().unwrap()).unwrap()
    }

    /// Waits until no worker can serve it: why.
    pub fn trouble(&self) -> String {
        loop {
            if let Some(why) = self.facts()["trouble"].as_str() {
                return why.to_owned();
            }
            std::thread::yield_now();
        }
    }

    pub fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(self.device()).unwrap()
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if Path::new(&self.device()).is_symlink() {
            let _ = run(self.scratch, &["detach", &self.name, "--unmount", "--force"]);
        }
    }
}

/// The content of one of its blocks.
pub fn block_of(device: &File, number: usize) -> Vec<u8> {
    let mut block = BufferMut::zeroed(BLOCK);
    device.read_exact_at(&mut block, (number * BLOCK) as u64).unwrap();
    block.to_vec()
}
