//! Hints for a file that lies on the kernel's ext4, on a loop device over an export of the volume.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Daemon, Scratch, run, run_fails, run_json, run_ok, tool, tool_ok, tools};
use std::path::Path;
use std::process::{Child, Command};

/// What is to be undone, the last thing first.
struct Undo(Vec<(&'static str, Vec<String>)>);

impl Drop for Undo {
    fn drop(&mut self) {
        for (name, args) in self.0.drain(..).rev() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            tool(name, &args);
        }
    }
}

/// An export as a file.
struct Exported {
    server: Child,
    disk: String,
}

impl Exported {
    fn at(disk: &str, uri: &str) -> Option<Self> {
        let server = Command::new("nbdfuse").args([disk, uri]).spawn().unwrap();
        let mut exported = Self { server, disk: disk.to_owned() };
        // It is there once the file has a length; the program ends by itself if it cannot be.
        while std::fs::metadata(disk).map_or(0, |found| found.len()) == 0 {
            if exported.server.try_wait().unwrap().is_some() {
                println!("skipped: nbdfuse does not work here");
                return None;
            }
            std::thread::yield_now();
        }
        Some(exported)
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        tool("umount", &[&self.disk]);
        let _ = self.server.wait();
    }
}

#[test]
fn the_ranges_of_a_file_are_found_through_the_file_system_and_the_device() {
    let scratch = Scratch::new("hint-file");
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || !tools(&["nbdfuse", "losetup", "mkfs.ext4"]) {
        println!("skipped: needs root, nbdfuse and losetup");
        return;
    }
    let image = scratch.text("volume.img");
    run_ok(&scratch, &["create", &image, "--size", "256M", "--preset", "mlb"]);
    let daemon = Daemon::serve(&scratch, &image, &[]);
    let (disk, folder) = (scratch.text("disk"), scratch.text("folder"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&disk, "").unwrap();
    let Some(exported) = Exported::at(&disk, &daemon.uri()) else { return };
    let mut undo = Undo(Vec::new());
    let device = tool_ok("losetup", &["--direct-io=on", "-f", "--show", &disk]);
    let device = device.trim().to_owned();
    undo.0.push(("losetup", vec!["-d".to_owned(), device.clone()]));
    tool_ok("mkfs.ext4", &["-q", &device]);
    let mounted = tool("mount", &[&device, &folder]);
    if !mounted.status.success() {
        println!("skipped: the kernel's ext4 cannot be mounted here: {mounted:?}");
        return;
    }
    undo.0.push(("umount", vec![folder.clone()]));
    let path = Path::new(&folder).join("a.wal");
    std::fs::write(&path, vec![7; 3 << 20]).unwrap();
    let file = path.to_str().unwrap();
    let output = run(&scratch, &["hint", &image, "--file", file, "--kind", "durability-only"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.contains("3 MiB in "), "{output:?}");
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains("say so again"), "{warned}");
    // What is written there now goes to logs and stays in them through a checkpoint, and not through a drain.
    let write = |byte: u8| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[byte; 8192], 1 << 20).unwrap();
        file.sync_data().unwrap();
    };
    let entries =
        || run_json(&scratch, &["status", &image])["state"]["map_entries"].as_u64().unwrap();
    run_ok(&scratch, &["drain", &image]);
    write(8);
    run_ok(&scratch, &["checkpoint", &image]);
    assert!(entries() >= 2, "a checkpoint leaves what is hinted");
    run_ok(&scratch, &["hint", &image, "--file", file, "--kind", "normal"]);
    run_ok(&scratch, &["checkpoint", &image]);
    assert_eq!(entries(), 0, "nothing is hinted any more");
    let elsewhere = scratch.text("elsewhere");
    std::fs::write(&elsewhere, "x").unwrap();
    run_fails(
        &scratch,
        &["hint", &image, "--file", &elsewhere, "--kind", "normal"],
        &["hint --file"],
    );
    drop(undo);
    drop(exported);
    daemon.stop_ok();
}
