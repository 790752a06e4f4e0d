//! `mount` as mount(8), fstab and systemd use it: options, the background, `remount`, and a daemon that was killed.

use super::common::mounts::{assert_clean, can_mount, mount, unmount, volume};
use super::common::{Scratch, nearhead, run, run_fails, run_json, run_ok, tool};
use rustix::process::{Pid, Signal, getpgid, kill_process_group};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A mount in the background, which does not outlive the test.
struct InBackground {
    scratch: Scratch,
    image: String,
    folder: PathBuf,
}

impl Drop for InBackground {
    fn drop(&mut self) {
        tool("umount", &["-l", self.folder.to_str().unwrap()]);
    }
}

impl InBackground {
    /// A volume that can be mounted here.
    fn new(name: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let scratch = Scratch::new(name);
        let (image, folder) = volume(&scratch, "256M");
        Some(Self { scratch, image, folder })
    }

    /// Runs the program under a name of mount(8)'s.
    fn helper(&self, name: &str, args: &[&str]) -> Output {
        let link = self.scratch.path(name);
        if !link.exists() {
            let program = nearhead(&self.scratch, &[]).get_program().to_owned();
            std::os::unix::fs::symlink(program, &link).unwrap();
        }
        Command::new(link).args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn helper_ok(&self, name: &str, args: &[&str]) {
        let output = self.helper(name, args);
        assert!(output.status.success(), "{name} {args:?}: {output:?}");
    }

    fn mount(&self, options: &str) {
        let place = self.folder.to_str().unwrap();
        self.helper_ok("mount.nearhead", &[&self.image, place, "-n", "-o", options]);
    }

    fn remount(&self, options: &str) -> Output {
        let options = format!("remount,{options}");
        let place = self.folder.to_str().unwrap();
        self.helper("mount.fuse.nearhead", &[&self.image, place, "-o", &options])
    }

    fn umount(&self) {
        let place = self.folder.to_str().unwrap();
        self.helper_ok("umount.fuse.nearhead", &[place]);
        assert_clean(&self.scratch, &self.image);
    }

    /// Kills all processes of the mount, and waits until the kernel knows.
    fn kill(&self) {
        let status = run_json(&self.scratch, &["status", &self.image]);
        let pid = status["served"]["pid"].as_u64().and_then(|pid| i32::try_from(pid).ok());
        let group = getpgid(Pid::from_raw(pid.unwrap())).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
        while rustix::fs::statfs(&self.folder).is_ok() {
            std::thread::yield_now();
        }
    }
}

/// Options of what is mounted at `folder`, as the kernel's table has them.
fn shown(folder: &Path) -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let folder = folder.canonicalize().unwrap();
    let of_it = |line: &&str| line.split(' ').nth(1) == folder.to_str();
    let line = table.lines().find(of_it)?;
    line.split(' ').nth(3).map(str::to_owned)
}

fn has(folder: &Path, option: &str) -> bool {
    shown(folder).unwrap().split(',').any(|shown| shown == option)
}

#[test]
fn a_line_of_fstab_mounts_and_umount_waits() {
    let Some(it) = InBackground::new("mount-fstab") else { return };
    it.mount("rw,nofail,_netdev,x-systemd.automount,noexec,nosuid,nodev,dirsync");
    for option in ["rw", "noexec", "nosuid", "nodev", "dirsync"] {
        assert!(has(&it.folder, option), "{option}: {:?}", shown(&it.folder));
    }
    std::fs::write(it.folder.join("file"), "content").unwrap();
    it.umount();
    assert_eq!(shown(&it.folder), None);
    it.mount("ro");
    assert_eq!(std::fs::read_to_string(it.folder.join("file")).unwrap(), "content");
    it.umount();
}

#[test]
fn remount_to_read_only_makes_everything_durable() {
    let Some(it) = InBackground::new("mount-remount") else { return };
    it.mount("commit=3600");
    let file = it.folder.join("file");
    std::fs::write(&file, "content").unwrap();
    let open = OpenOptions::new().append(true).open(&file).unwrap();
    let refused = it.remount("ro");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("open for writing"), "{refused:?}");
    assert!(!refused.status.success() && has(&it.folder, "rw"));
    drop(open);
    // As mount(8) passes them: with what the kernel's table shows.
    let done = it.remount("ro,relatime,user_id=0,group_id=0,default_permissions,allow_other");
    assert!(done.status.success() && has(&it.folder, "ro"), "{done:?}");
    assert!(File::create(it.folder.join("other")).is_err());
    it.kill();
    let (image, place) = (it.image.as_str(), it.folder.to_str().unwrap());
    run_fails(&it.scratch, &["mount", image, place], &["has ended", "nearhead umount"]);
    run_ok(&it.scratch, &["umount", place]);
    it.mount("ro");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");
    let refused = it.remount("rw");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("from the start"), "{refused:?}");
    it.umount();
}

#[test]
fn remount_to_writable_and_back_keeps_flags() {
    let Some(it) = InBackground::new("mount-flags") else { return };
    it.mount("nosuid");
    for (options, is_writable) in [("ro", false), ("rw,noatime", true), ("ro", false), ("rw", true)]
    {
        let done = it.remount(options);
        assert!(done.status.success(), "{options}: {done:?}");
        assert!(has(&it.folder, "nosuid"), "{options}: {:?}", shown(&it.folder));
        assert_eq!(std::fs::write(it.folder.join("file"), options).is_ok(), is_writable);
    }
    it.umount();
}

/// A later write makes the image longer, and does not bring back what was behind the cut.
#[test]
fn an_image_cut_short_while_mounted_is_reported() {
    let Some(it) = InBackground::new("mount-cut") else { return };
    it.mount("rw");
    std::fs::write(it.folder.join("file"), "content").unwrap();
    OpenOptions::new().write(true).open(&it.image).unwrap().set_len(8 << 20).unwrap();
    let is_reported = || {
        let status = run(&it.scratch, &["status", &it.image]);
        status.status.code() == Some(2)
            && String::from_utf8_lossy(&status.stdout).contains("was cut short")
    };
    while !is_reported() {
        std::thread::yield_now();
    }
    let place = it.folder.to_str().unwrap();
    it.helper_ok("umount.fuse.nearhead", &[place]);
}

#[test]
fn folders_with_files_and_of_the_system_are_refused() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new("mount-folder");
    let (image, folder) = volume(&scratch, "256M");
    std::fs::write(folder.join("hidden"), "").unwrap();
    let place = folder.to_str().unwrap();
    run_fails(&scratch, &["mount", &image, place], &["found hidden", "-o nonempty"]);
    run_fails(&scratch, &["mount", &image, "/etc"], &["which the system needs"]);
    let daemon = mount(&scratch, &image, &folder, &["-o", "nonempty"]);
    assert!(!folder.join("hidden").exists());
    unmount(&scratch, &folder, daemon);
    assert!(folder.join("hidden").exists());
    let output = run(&scratch, &["umount", "/proc"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("kind proc"), "{output:?}");
}

#[test]
fn a_mount_in_the_background_reports_one_object() {
    let Some(it) = InBackground::new("mount-json") else { return };
    let place = it.folder.to_str().unwrap();
    let line = run_json(&it.scratch, &["mount", &it.image, place, "--background"]);
    assert_eq!((line["event"].as_str(), line["folder"].as_str()), (Some("ready"), Some(place)));
    it.umount();
}
