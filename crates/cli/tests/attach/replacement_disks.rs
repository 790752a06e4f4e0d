//! Disks that replace a member of an attached mirror: a block device, one with a file system, one that fails during the copy.

use super::common::attached::{Attached, block_of, can_attach};
use super::common::{Scratch, run_fails, run_json, run_ok, tool, tool_ok, tools};
use super::replacing::{LABEL_BYTES, MEMBER_BYTES, sparse};
use nearhead_disk::BufferMut;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A loop device of the kernel, detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    fn of(path: &str) -> Self {
        Self(tool_ok("losetup", &["--find", "--show", path]).trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.0]);
    }
}

/// A file system in memory, unmounted when dropped.
struct Memory(String);

impl Drop for Memory {
    fn drop(&mut self) {
        tool("umount", &[&self.0]);
    }
}

/// A mirror of two images, attached, with one block written.
fn attached_pair<'a>(scratch: &'a Scratch, what: &str) -> (Attached<'a>, [String; 2]) {
    let pair = ["a.img", "b.img"].map(|name| sparse(scratch, name, MEMBER_BYTES));
    let target = format!("mirror:{},{}", pair[0], pair[1]);
    run_ok(scratch, &["create", &target, "--group-size", "8MiB"]);
    let name = format!("t{}-{what}", std::process::id());
    let attached = Attached { scratch, name, target };
    attached.attach(&[]);
    (attached, pair)
}

#[test]
fn a_block_device_replaces_a_member_and_is_asked_for_first() {
    let scratch = Scratch::new("attach-replace-device");
    if !can_attach() || !tools(&["mkfs.ext4"]) {
        return;
    }
    let (attached, [a, b]) = attached_pair(&scratch, "replace-device");
    let new = LoopDevice::of(&sparse(&scratch, "n.img", MEMBER_BYTES));
    tool_ok("mkfs.ext4", &["-q", &new.0]);
    let before = std::fs::read(scratch.path("n.img")).unwrap();
    let parts = [new.0.as_str(), "ext4", "--force"];
    run_fails(&scratch, &["replace", &attached.name, &b, &new.0], &parts);
    assert!(before == std::fs::read(scratch.path("n.img")).unwrap(), "it is unchanged");
    let small = LoopDevice::of(&sparse(&scratch, "small.img", MEMBER_BYTES - (1 << 20)));
    let parts = [small.0.as_str(), "choose a larger one"];
    run_fails(&scratch, &["replace", &attached.name, &b, &small.0], &parts);
    let done = run_json(&scratch, &["replace", &attached.name, &b, &new.0, "--force"]);
    assert_eq!(done["done"], true, "{done}");
    // The old one is released while the volume is served: it may be used for anything else.
    run_ok(&scratch, &["create", &b, "--force"]);
    attached.detach(&[]);
    let used = (MEMBER_BYTES - LABEL_BYTES) as usize;
    let (old, new) = (std::fs::read(&a).unwrap(), std::fs::read(scratch.path("n.img")).unwrap());
    assert!(old[..used] == new[..used], "the new member is alike");
}

#[test]
fn a_disk_that_fails_during_the_copy_is_left_out() {
    let scratch = Scratch::new("attach-replace-fails");
    if !can_attach() {
        return;
    }
    let (attached, [_, b]) = attached_pair(&scratch, "replace-fails");
    let folder = scratch.text("memory");
    std::fs::create_dir(&folder).unwrap();
    let output = tool("mount", &["-t", "tmpfs", "-o", "size=24m", "none", &folder]);
    if !output.status.success() {
        println!("skipped: tmpfs cannot be mounted");
        return;
    }
    let _memory = Memory(folder.clone());
    let image = Path::new(&folder).join("n.img");
    std::fs::File::create(&image).unwrap().set_len(MEMBER_BYTES).unwrap();
    // Its file cannot grow beyond 24 MiB, so the kernel answers writes with EIO from there on.
    let new = LoopDevice::of(image.to_str().unwrap());
    let mut data = BufferMut::zeroed(4096);
    data.fill(7);
    attached.open().write_all_at(&data, 8192).unwrap();
    let parts = [new.0.as_str(), "failed and is used no more", "goes on without it"];
    run_fails(&scratch, &["replace", &attached.name, &b, &new.0], &parts);
    let status = run_json(&scratch, &["status", &attached.name]);
    assert_eq!(status["target"], attached.target.as_str());
    assert!(block_of(&attached.open(), 2) == vec![7; 4096]);
    // The old member still counts, and another disk may replace it.
    let good = sparse(&scratch, "good.img", MEMBER_BYTES);
    let done = run_json(&scratch, &["replace", &attached.name, &b, &good]);
    assert_eq!(done["done"], true, "{done}");
    attached.detach(&[]);
}
