//! `nearhead trace` on real devices of this machine, and `replay` of what it recorded.
//!
//! The kernel's tracing is mounted in a folder of the test's own, so the machine is left as it was.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Scratch, nearhead, run, run_fails, run_json, run_ok, tool, tool_ok, tools};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

/// What is to be undone, the last thing first.
#[derive(Default)]
struct Undo(Vec<(&'static str, Vec<String>)>);

impl Undo {
    fn later(&mut self, name: &'static str, args: &[&str]) {
        self.0.push((name, args.iter().map(|arg| (*arg).to_owned()).collect()));
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for (name, args) in self.0.drain(..).rev() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            tool(name, &args);
        }
    }
}

/// A disk with an ext4 in its first partition, and the kernel's tracing.
struct Machine {
    disk: String,
    partition: String,
    folder: PathBuf,
    tracefs: String,
    _undo: Undo,
}

/// Sectors of the partition, and where it begins.
const PARTITION: (u64, u64) = (2048, 200_000);

impl Machine {
    /// `None` where this machine does not allow it; says why.
    fn new(scratch: &Scratch) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: tracing needs root");
            return None;
        }
        if !tools(&["losetup", "addpart", "mkfs.ext4"]) {
            return None;
        }
        let mut undo = Undo::default();
        let [image, tracefs, folder] = ["disk.img", "tracefs", "folder"].map(|it| scratch.text(it));
        fs::create_dir(&tracefs).unwrap();
        fs::create_dir(&folder).unwrap();
        if !tool("mount", &["-t", "tracefs", "tracefs", &tracefs]).status.success() {
            println!("skipped: the kernel's tracing cannot be mounted here");
            return None;
        }
        undo.later("umount", &[&tracefs]);
        File::create(&image).unwrap().set_len(128 << 20).unwrap();
        let found = tool("losetup", &["--direct-io=on", "-f", "--show", &image]);
        if !found.status.success() {
            println!("skipped: no loop device here");
            return None;
        }
        let disk = String::from_utf8(found.stdout).unwrap().trim().to_owned();
        undo.later("losetup", &["-d", &disk]);
        let (first, sectors) = (PARTITION.0.to_string(), PARTITION.1.to_string());
        if !tool("addpart", &[&disk, "1", &first, &sectors]).status.success() {
            println!("skipped: a loop device takes no partition here");
            return None;
        }
        undo.later("delpart", &[&disk, "1"]);
        let partition = format!("{disk}p1");
        tool_ok("mkfs.ext4", &["-q", &partition]);
        if !tool("mount", &[&partition, &folder]).status.success() {
            println!("skipped: the kernel's ext4 cannot be mounted here");
            return None;
        }
        undo.later("umount", &["-l", &folder]);
        Some(Self { disk, partition, folder: folder.into(), tracefs, _undo: undo })
    }

    /// Whether the kernel's tracing has an instance of the process with this number.
    fn has_instance_of(&self, process: u32) -> bool {
        Path::new(&self.tracefs).join(format!("instances/nearhead-{process}")).exists()
    }

    /// Five files made durable, one after the other, and eight megabytes past the page cache.
    fn work(&self) {
        for number in 0..5 {
            let mut file = File::create(self.folder.join(format!("small-{number}"))).unwrap();
            file.write_all(&[7; 4096]).unwrap();
            file.sync_all().unwrap();
        }
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let path = self.folder.join("large");
        let mut large = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .custom_flags(direct)
            .open(path)
            .unwrap();
        let bytes = vec![3_u8; (1 << 20) + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        for _ in 0..8 {
            large.write_all(&bytes[start..start + (1 << 20)]).unwrap();
        }
    }
}

/// A trace being taken.
struct Tracing {
    child: Child,
    told: BufReader<ChildStderr>,
}

impl Tracing {
    /// Begins, and waits until it says so.
    fn of(scratch: &Scratch, machine: &Machine, subject: &str, more: &[&str]) -> Self {
        let args = [&["trace", subject, "--tracefs", &machine.tracefs, "--json"], more].concat();
        let mut command = nearhead(scratch, &args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("recording what goes to") {
            line.clear();
            assert!(
                told.read_line(&mut line).unwrap() > 0,
                "trace {subject} ended before it began"
            );
        }
        Self { child, told }
    }

    /// Ends it as Ctrl-C does; its report. Nothing of it stays in the kernel.
    fn end(mut self, machine: &Machine) -> Value {
        assert!(machine.has_instance_of(self.child.id()));
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut report = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        let mut told = String::new();
        self.told.read_to_string(&mut told).unwrap();
        assert!(self.child.wait().unwrap().success(), "{told}");
        assert!(!machine.has_instance_of(self.child.id()));
        common::json::parse(&report).unwrap()
    }
}

#[test]
fn what_goes_to_a_partition_is_recorded_and_replayed() {
    let scratch = Scratch::new("trace");
    let Some(machine) = Machine::new(&scratch) else { return };
    let tracing = Tracing::of(&scratch, &machine, &machine.partition, &["--out", "a.trace"]);
    machine.work();
    let report = tracing.end(&machine);
    assert_eq!(report["lost_events"], 0, "{report}");
    assert!(report["durable_requests"].as_u64().unwrap() >= 5, "{report}");
    let text = fs::read_to_string(scratch.path("a.trace")).unwrap();
    let name = machine.partition.trim_start_matches("/dev/");
    assert!(text.contains(&format!(" {name}: ")), "{text}");
    assert!(text.contains("2048 of the whole device") && text.contains("0 events lost"), "{text}");
    // Each sector counts from the partition's beginning.
    let ends = text.lines().filter_map(|line| line.split_once(" + ")).map(|(before, after)| {
        let number = |text: &str| text.parse::<u64>().unwrap();
        number(before.rsplit_once(' ').unwrap().1) + number(after.split_once(' ').unwrap().0)
    });
    assert!(ends.max().unwrap() <= PARTITION.1, "{text}");

    let replayed = run_json(&scratch, &["replay", "a.trace", "--strict"]);
    let help = &replayed["will_it_help"];
    assert_eq!(help["durability"], "asked", "{help}");
    assert!(help["bare_disk"]["durable_points"]["count"].as_u64().unwrap() >= 5, "{help}");
    assert!(help["recorded"]["durable_points"]["mean_ms"].as_f64().unwrap() > 0.0, "{help}");
    let written = replayed["outcomes"][0]["large_writes"]["bytes"].as_u64().unwrap();
    assert!(written >= 8 << 20, "{replayed}");
    assert!(help["rests_on"].to_string().contains(name), "{help}");
}

#[test]
fn a_whole_disk_is_recorded_with_its_partitions_and_into_a_compressed_file_of_its_name() {
    let scratch = Scratch::new("trace-disk");
    let Some(machine) = Machine::new(&scratch) else { return };
    let tracing = Tracing::of(&scratch, &machine, &machine.disk, &[]);
    machine.work();
    let report = tracing.end(&machine);
    let name = format!("{}.trace.zst", machine.disk.trim_start_matches("/dev/"));
    assert_eq!(report["file"], name.as_str());
    let bytes = fs::read(scratch.path(&name)).unwrap();
    assert_eq!(report["file_bytes"], bytes.len());
    let told = run_ok(&scratch, &["replay", &name, "--report", "answer.html"]);
    assert!(told.contains("This rests on:") && told.contains("answer.html"), "{told}");
    assert!(fs::read_to_string(scratch.path("answer.html")).unwrap().contains("<svg"));
    // It is never written over.
    let again = ["trace", &machine.disk, "--tracefs", &machine.tracefs, "--for", "1s"];
    run_fails(&scratch, &again, &[&name, "--out"]);
}

#[test]
fn of_a_process_the_devices_under_its_files_are_recorded_and_what_it_asked_for_is_marked() {
    let scratch = Scratch::new("trace-process");
    let Some(machine) = Machine::new(&scratch) else { return };
    let script = "exec 3>held; echo ready; read go; dd if=/dev/zero of=own bs=4k count=4 oflag=direct 2>/dev/null; echo done; read end";
    let mut process = Command::new("sh")
        .args(["-c", script])
        .current_dir(&machine.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let tracing = Tracing::of(&scratch, &machine, &process.id().to_string(), &["--out", "p.trace"]);
    machine.work();
    process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "done");
    let report = tracing.end(&machine);
    drop(process.stdin.take());
    process.wait().unwrap();
    // The four writes are its child's; the others are ours.
    let marked = report["marked_requests"].as_u64().unwrap();
    assert!(marked >= 4 && marked < report["requests"].as_u64().unwrap(), "{report}");
    let text = fs::read_to_string(scratch.path("p.trace")).unwrap();
    assert_eq!(text.lines().filter(|line| line.ends_with("] *")).count() as u64, marked, "{text}");
    assert!(text.contains("(sh): a star behind a line"), "{text}");
}

#[test]
fn a_trace_that_is_killed_leaves_a_file_that_is_read_and_an_instance_that_the_next_takes_away() {
    let scratch = Scratch::new("trace-killed");
    let Some(machine) = Machine::new(&scratch) else { return };
    let mut tracing = Tracing::of(&scratch, &machine, &machine.disk, &["--out", "a.trace.zst"]);
    tracing.child.kill().unwrap();
    tracing.child.wait().unwrap();
    let killed = tracing.child.id();
    Tracing::of(&scratch, &machine, &machine.disk, &["--out", "b.trace.zst"]).end(&machine);
    assert!(!machine.has_instance_of(killed));
}

#[test]
fn mistakes_in_a_trace_are_named() {
    let scratch = Scratch::new("trace-mistakes");
    let own = std::process::id().to_string();
    for (args, parts) in [
        (vec!["trace", "/dev/no-such-disk"], vec!["expected a block device", "lsblk"]),
        (vec!["trace", "/dev/null"], vec!["expected a block device", "found something else"]),
        (vec!["trace", "4194999"], vec!["expected a running process"]),
        (vec!["trace", "/dev/null", "--for", "0"], vec!["--for above 0"]),
    ] {
        run_fails(&scratch, &args, &parts);
    }
    let output = run(&scratch, &["trace", &own, "--for", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("30s, 500ms, 10m"), "{output:?}");
    // A process that has files on memory and pipes alone.
    let Ok(mut process) = Command::new("cat")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
    else {
        return println!("skipped: no cat here");
    };
    let number = process.id().to_string();
    run_fails(&scratch, &["trace", &number], &["expected files open on a block device"]);
    drop(process.stdin.take());
    process.wait().unwrap();
}

#[test]
fn tracing_that_is_not_there_says_how_it_gets_there() {
    let scratch = Scratch::new("trace-without");
    let Some(device) = fs::read_dir("/sys/block").ok().and_then(|mut entries| entries.next())
    else {
        return println!("skipped: no block device here");
    };
    let device = Path::new("/dev").join(device.unwrap().file_name());
    if !device.exists() {
        return println!("skipped: the block device has no node here");
    }
    let device = device.to_str().unwrap();
    let nowhere = scratch.text("");
    run_fails(&scratch, &["trace", device, "--tracefs", &nowhere], &["no folder `instances`"]);
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0, "no file is left of nothing");
}
