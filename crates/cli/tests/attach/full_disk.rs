//! An attached volume whose image lies on a file system without space.

use super::common::attached::{Attached, can_attach};
use super::common::{Scratch, run, run_ok, tool};
use nearhead_disk::BufferMut;
use std::os::unix::fs::FileExt;

/// A file system in memory, unmounted when dropped.
struct Memory(String);

impl Drop for Memory {
    fn drop(&mut self) {
        tool("umount", &["--lazy", &self.0]);
    }
}

/// Each worker waits ten seconds for space before it gives up, and a second one gets the chance that the first had.
#[test]
fn a_detach_without_space_names_the_reason_while_it_waits() {
    let scratch = Scratch::new("attach-full");
    if !can_attach() {
        return;
    }
    let folder = scratch.text("memory");
    std::fs::create_dir(&folder).unwrap();
    if !tool("mount", &["-t", "tmpfs", "-o", "size=16m", "none", &folder]).status.success() {
        println!("skipped: tmpfs cannot be mounted");
        return;
    }
    let _memory = Memory(folder);
    run_ok(&scratch, &["create", "memory/a.img", "--size", "256MiB"]);
    let name = format!("t{}-full", std::process::id());
    let attached = Attached { scratch: &scratch, name, target: scratch.text("memory/a.img") };
    attached.attach(&[]);
    let mut piece = BufferMut::zeroed(1 << 20);
    piece.fill(7);
    let device = attached.open();
    let is_refused = |number: u64| device.write_all_at(&piece, number << 20).is_err();
    assert!((0..32).any(is_refused), "32 MiB fit into 16");
    // Answered, and not on the disk.
    let _ = device.write_all_at(&piece[..4096], 200 << 20);
    drop(device);
    let output = run(&scratch, &["detach", &attached.name]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("no space under the image"), "{words}");
    let is_well = output.status.success();
    assert_ne!(is_well, words.contains("without space for what is not durable yet"), "{words}");
}
