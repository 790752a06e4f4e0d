//! Space that is given back: what an attached volume takes of its file system, compared with a kernel loop device over a plain file on
//! which the same acts were done.

use crate::common::attached::{Attached, can_attach};
use crate::common::{Scratch, run_ok, tool, tool_ok, tools};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
/// More than the volume keeps for itself of what a test of this size writes: logs, snapshots and superblocks.
const OWN_BYTES: u64 = 24 * MIB;

/// Bytes that a file takes of its file system.
fn taken(path: &Path) -> u64 {
    // What was written and not given a place yet counts for nothing.
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    file.metadata().unwrap().blocks() * 512
}

/// A loop device over a plain file; gone at the end.
struct Loop(String);

impl Loop {
    fn over(path: &Path) -> Self {
        let path = path.to_str().unwrap();
        Self(tool_ok("losetup", &["--find", "--show", "--direct-io=on", path]).trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = tool("losetup", &["--detach", &self.0]);
    }
}

/// A volume of this preset attached, and a loop device of the same size.
struct Twins<'a> {
    attached: Attached<'a>,
    plain: Loop,
    scratch: &'a Scratch,
}

impl<'a> Twins<'a> {
    fn new(scratch: &'a Scratch, what: &str, preset: &str) -> Self {
        let target = scratch.text("volume.img");
        run_ok(scratch, &["create", &target, "--size", "640M", "--preset", preset]);
        let name = format!("t{}-{what}-{preset}", std::process::id());
        let attached = Attached { scratch, name, target };
        attached.attach(&[]);
        let size = tool_ok("blockdev", &["--getsize64", &attached.device()]);
        let file = std::fs::File::create(scratch.path("plain.img")).unwrap();
        file.set_len(size.trim().parse().unwrap()).unwrap();
        Self { attached, plain: Loop::over(&scratch.path("plain.img")), scratch }
    }

    /// Does the same on both, and compares what they take.
    fn act(&self, what: &str, act: impl Fn(&str)) {
        for device in [&self.attached.device(), &self.plain.0] {
            act(device);
        }
        let volume = taken(&self.scratch.path("volume.img"));
        let plain = taken(&self.scratch.path("plain.img"));
        assert!(
            volume <= plain + OWN_BYTES,
            "{what} on {}: the volume takes {volume} bytes, a plain file {plain}",
            self.attached.name
        );
    }

    fn write_delete_and_trim(&self, device: &str) {
        let folder = self.scratch.path("mounted");
        let _ = std::fs::create_dir(&folder);
        let shown = folder.to_str().unwrap();
        tool_ok("mount", &[device, shown]);
        std::fs::write(folder.join("file"), vec![0x5a; 48 << 20]).unwrap();
        tool_ok("sync", &["--file-system", shown]);
        std::fs::remove_file(folder.join("file")).unwrap();
        // XFS frees blocks of a removed file later, and trims none that its journal still has: mounted again, it has none.
        tool_ok("umount", &[shown]);
        tool_ok("mount", &[device, shown]);
        tool_ok("fstrim", &[shown]);
        tool_ok("umount", &[shown]);
    }
}

fn is_possible() -> bool {
    can_attach() && tools(&["mount", "umount", "fstrim", "blkdiscard", "mkfs.ext4", "sync"])
}

#[test]
fn file_systems_take_no_more_space_than_on_a_loop_device() {
    if !is_possible() {
        return;
    }
    let scratch = Scratch::new("space-fs");
    let twins = Twins::new(&scratch, "fs", "nearhead");
    for (kind, flags) in
        [("ext4", &["-q", "-F"][..]), ("xfs", &["-q", "-f"]), ("btrfs", &["-q", "-f"])]
    {
        let program = format!("mkfs.{kind}");
        if !tools(&[&program]) {
            continue;
        }
        twins.act(&program, |device| drop(tool_ok(&program, &[flags, &[device]].concat())));
        let is_known = std::fs::read_to_string("/proc/filesystems").unwrap().contains(kind);
        if is_known || tool("modprobe", &[kind]).status.success() {
            twins.act(&format!("{kind}: write, delete, fstrim"), |device| {
                twins.write_delete_and_trim(device);
            });
        } else {
            println!("skipped: the kernel has no {kind}");
        }
    }
}

#[test]
fn discards_free_space_and_zeroing_without_unmapping_keeps_it() {
    if !is_possible() {
        return;
    }
    for preset in ["nearhead", "nolog"] {
        let scratch = Scratch::new(&format!("space-{preset}"));
        let twins = Twins::new(&scratch, "space", preset);
        let reads_as = |device: &str, byte: u8, bytes: usize| {
            let read = std::fs::File::open(device).and_then(|mut file| {
                let mut found = vec![!byte; bytes];
                std::io::Read::read_exact(&mut file, &mut found).map(|()| found)
            });
            read.unwrap().iter().all(|found| *found == byte)
        };
        let fill = |device: &str| {
            let source = scratch.path("source");
            std::fs::write(&source, vec![0x5a; 32 << 20]).unwrap();
            let (from, to) = (format!("if={}", source.display()), format!("of={device}"));
            tool_ok("dd", &[&from, &to, "bs=1M", "oflag=direct", "conv=fsync", "status=none"]);
        };
        twins.act("write", fill);
        assert!(taken(&scratch.path("volume.img")) >= 32 * MIB);
        twins.act("discard", |device| drop(tool_ok("blkdiscard", &["-f", device])));
        assert!(taken(&scratch.path("volume.img")) < OWN_BYTES, "{preset}");
        // Answered and not flushed, it outlives the process that served it.
        twins.attached.kill_worker();
        assert!(reads_as(&twins.attached.device(), 0, 32 << 20), "{preset}");
        twins.act("zero", |device| {
            drop(tool_ok("blkdiscard", &["-f", "--zeroout", "--length", "16M", device]));
        });
        assert!(taken(&scratch.path("volume.img")) >= 16 * MIB, "BLKZEROOUT keeps the space");
        assert!(reads_as(&twins.attached.device(), 0, 16 << 20), "{preset}");
    }
}
