//! What an attached volume is, kept through the ends of its worker, its supervisor and both, and through programs that cannot work.

use super::common::attached::{Attached, BLOCK, block_of, can_attach};
use super::common::{Scratch, run, run_fails, run_ok, tool_ok, tools};
use nearhead_disk::BufferMut;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Ends a process and waits until it is gone.
fn kill(pid: Pid) {
    let handle = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let mut ended = [PollFd::new(&handle, PollFlags::IN)];
    while poll(&mut ended, None) != Ok(1) {}
}

fn write_block(device: &File, value: u8, number: usize) {
    let mut data = BufferMut::zeroed(BLOCK);
    data.fill(value);
    device.write_all_at(&data, (number * BLOCK) as u64).unwrap();
}

#[test]
fn a_program_that_cannot_work_never_takes_the_device_away() {
    let scratch = Scratch::new("attach-programs");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "programs", &[]);
    let device = attached.open();
    write_block(&device, 5, 0);
    let odd = scratch.text("odd");
    std::fs::write(&odd, "no program").unwrap();
    std::fs::set_permissions(&odd, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Refused before the worker is stopped.
    let passwd = ["upgrade", &attached.name, "--binary", "/etc/passwd"];
    run_fails(&scratch, &passwd, &["expected a program", "may not be executed"]);
    for binary in [&odd, "/bin/false"] {
        let upgrade = ["upgrade", &attached.name, "--binary", binary];
        run_fails(&scratch, &upgrade, &["goes on with the program that it had"]);
        assert!(block_of(&device, 0) == vec![5; BLOCK], "after {binary}");
    }
    // A shell takes the first word for a script, which never gets ready.
    std::fs::write(scratch.path("attach"), "exec sleep 1000").unwrap();
    let hangs = ["upgrade", &attached.name, "--binary", "/bin/sh", "--timeout", "200ms"];
    run_fails(&scratch, &hangs, &["did not get on for 0.2 s"]);
    assert!(block_of(&device, 0) == vec![5; BLOCK]);
    drop(device);
    attached.detach(&[]);
}

#[test]
fn a_worker_that_cannot_be_started_is_started_later() {
    let scratch = Scratch::new("attach-spawn");
    if !can_attach() || !tools(&["prlimit"]) {
        return;
    }
    let attached = Attached::new(&scratch, "spawn", &[]);
    let device = attached.open();
    write_block(&device, 5, 0);
    let supervisor = attached.supervisor().as_raw_nonzero().to_string();
    let limit = |files: &str| {
        tool_ok("prlimit", &["--pid", &supervisor, &format!("--nofile={files}:4096")]);
    };
    // Fewer than it has open.
    limit("3");
    attached.kill_worker();
    let log = Path::new("/run/nearhead/attached").join(&attached.name).join("log");
    while !std::fs::read_to_string(&log).unwrap().contains("no worker serves it") {
        std::thread::yield_now();
    }
    limit("1024");
    assert!(block_of(&device, 0) == vec![5; BLOCK]);
    drop(device);
    attached.detach(&[]);
}

#[test]
fn another_volume_at_the_path_is_refused_until_the_first_is_back() {
    let scratch = Scratch::new("attach-identity");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "identity", &["--create-if-missing", "--size", "64M"]);
    let device = attached.open();
    write_block(&device, 7, 3);
    let (away, target) = (scratch.text("away.img"), attached.target.clone());
    for is_other in [true, false] {
        std::fs::rename(&target, &away).unwrap();
        if is_other {
            run_ok(&scratch, &["create", &target, "--size", "128M", "--preset", "mlb"]);
        }
        let before = std::fs::read(&target).ok();
        kill(attached.last_worker());
        let why = attached.trouble();
        assert!(why.contains("expected the file that this device was attached with"), "{why}");
        let told = run(&scratch, &["status", &attached.name]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.contains(&why) && told.contains("requests wait"), "{told}");
        assert_eq!(std::fs::read(&target).ok(), before, "nothing is written to it, or made");
        std::fs::rename(&away, &target).unwrap();
        assert!(block_of(&device, 3) == vec![7; BLOCK]);
    }
    // The same file with another volume in it.
    drop(device);
    attached.detach(&[]);
    attached.attach(&[]);
    let device = attached.open();
    write_block(&device, 8, 3);
    let worker = Pid::from_raw(attached.answering_worker().cast_signed()).unwrap();
    let supervisor = attached.supervisor();
    kill_process(supervisor, Signal::STOP).unwrap();
    kill(worker);
    let other = scratch.text("other.img");
    run_ok(&scratch, &["create", &other, "--size", "128M", "--preset", "mlb"]);
    let content = std::fs::read(&target).unwrap();
    let inside = |bytes: &[u8]| std::fs::write(&target, bytes).unwrap();
    inside(&std::fs::read(&other).unwrap());
    kill_process(supervisor, Signal::CONT).unwrap();
    let why = attached.trouble();
    assert!(why.contains("expected volume") && why.contains("1 writes of 4096 bytes"), "{why}");
    assert_eq!(std::fs::read(&target).unwrap(), std::fs::read(&other).unwrap());
    inside(&content);
    assert!(block_of(&device, 3) == vec![8; BLOCK]);
    drop(device);
    attached.detach(&[]);
}

#[test]
fn answered_writes_outlive_supervisor_and_worker() {
    let scratch = Scratch::new("attach-both");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "both", &[]);
    for life in 1..=3 {
        let device = attached.open();
        for number in 0..20 {
            write_block(&device, life, number);
        }
        let worker = Pid::from_raw(attached.answering_worker().cast_signed()).unwrap();
        kill(attached.supervisor());
        kill(worker);
        if attached.facts()["by"] == "loop" {
            let used = ["attach", &attached.name];
            run_fails(&scratch, &used, &["expected that nothing uses", "process"]);
        }
        drop(device);
        if life == 1 {
            let parts = ["20 writes of 81920 bytes", "nearhead attach", "--force"];
            run_fails(&scratch, &["detach", &attached.name], &parts);
            let read_only = ["attach", &attached.target, "--as", &attached.name, "--read-only"];
            run_fails(&scratch, &read_only, &["cannot be carried out read-only"]);
            others_leave_kept_writes_alone(&scratch, &attached);
        }
        if life < 3 {
            run_ok(&scratch, &["attach", &attached.name]);
            let device = attached.open();
            for number in 0..20 {
                assert!(block_of(&device, number) == vec![life; BLOCK], "life {life}: {number}");
            }
            drop(device);
        }
    }
    refused_kept_writes_are_never_offered(&scratch, &attached);
    let told = run_ok(&scratch, &["detach", &attached.name, "--force"]);
    assert!(told.contains("thrown away: 20 writes"), "{told}");
    let listed = told.matches("4096 bytes at byte").count();
    assert_eq!(listed, 20, "each of them: {told}");
    attached.attach(&[]);
    attached.detach(&[]);
}

/// No command but those that mend the volume may raise its generation.
fn others_leave_kept_writes_alone(scratch: &Scratch, attached: &Attached<'_>) {
    let (name, target) = (&attached.name, &attached.target);
    let parts = ["20 writes of 81920 bytes", &format!("nearhead attach {name}"), "--force"];
    let other = format!("{name}-other");
    for command in [
        &["serve", target, "--socket", "s"][..],
        &["attach", target, "--as", &other],
        &["grow", target],
        &["mkfs", target, "--force"],
        &["drain", target],
        &["set", name, "watermark=50"],
        &["drain", name],
    ] {
        run_fails(scratch, command, &parts);
    }
    run_ok(scratch, &["repair", target]);
    run_ok(scratch, &["forget-log", target, "0"]);
}

/// Where something else changed the volume, no message says that `attach` carries them out, or that anything is durable.
fn refused_kept_writes_are_never_offered(scratch: &Scratch, attached: &Attached<'_>) {
    let place = Path::new("/run/nearhead/attached").join(&attached.name);
    let (kept, hidden) = (place.join("answered"), place.join("hidden"));
    std::fs::rename(&kept, &hidden).unwrap();
    let hint = ["hint", &attached.target, "--offset", "0", "--len", "4096", "--kind", "normal"];
    run_ok(scratch, &hint);
    run_ok(scratch, &["mkfs", &attached.target, "--force"]);
    std::fs::rename(&hidden, &kept).unwrap();
    let force = format!("nearhead detach {} --force", attached.name);
    let list = run(scratch, &["status"]);
    let listed = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(listed.contains(&force) && list.status.code() == Some(2), "{listed}");
    for command in ["status", "attach", "detach"] {
        let output = run(scratch, &[command, &attached.name]);
        let message = [output.stdout, output.stderr].concat();
        let message = String::from_utf8_lossy(&message).into_owned();
        assert!(
            message.contains("no command can carry them out") && message.contains(&force),
            "{message}"
        );
        assert!(!message.contains(&format!("attach {}` carries", attached.name)), "{message}");
        assert!(!message.contains("is durable") || message.contains("expected that"), "{message}");
    }
}

#[test]
fn a_supervisor_that_was_killed_is_brought_back() {
    let scratch = Scratch::new("attach-back");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "back", &["--watermark", "61"]);
    let device = attached.open();
    write_block(&device, 9, 0);
    run_ok(&scratch, &["set", &attached.name, "checkpoint_idle=7s"]);
    kill(attached.supervisor());
    write_block(&device, 10, 1);
    let told = run(&scratch, &["status", &attached.name]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("nearhead attach {}", attached.name)), "{told}");
    run_ok(&scratch, &["attach", &attached.name]);
    // It supervises: another worker follows, with the same settings.
    attached.kill_worker();
    assert!(block_of(&device, 0) == vec![9; BLOCK]);
    assert!(block_of(&device, 1) == vec![10; BLOCK]);
    attached.answering_worker();
    let settings = run_ok(&scratch, &["set", &attached.name]);
    let value = |name: &str| {
        let line = settings.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((value("watermark"), value("checkpoint_idle")), ("61".to_owned(), "7s".to_owned()));
    drop(device);
    attached.detach(&[]);
}

#[test]
fn an_edited_volume_file_counts_from_the_next_attach_on() {
    let scratch = Scratch::new("attach-file");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "file", &[]);
    attached.detach(&[]);
    let (file, other) = (scratch.path("v.toml"), scratch.text("other.img"));
    run_ok(&scratch, &["create", &other, "--size", "128M", "--preset", "mlb"]);
    let text = |target: &str| format!("# ours\ntarget = {target:?}\nwatermark = 61\n");
    std::fs::write(&file, text(&attached.target)).unwrap();
    let by_file = ["attach", "--as", &attached.name, "--config", "v.toml"];
    run_ok(&scratch, &by_file);
    let device = attached.open();
    write_block(&device, 4, 1);
    run_ok(&scratch, &["set", &attached.name, "checkpoint_idle=7s", "--keep"]);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept, text(&attached.target) + "checkpoint_idle = \"7s\"\n");
    let before = std::fs::read(&other).unwrap();
    for edited in [&text(&other), "no volume file"] {
        std::fs::write(&file, edited).unwrap();
        attached.kill_worker();
        assert!(block_of(&device, 1) == vec![4; BLOCK]);
        assert!(run_ok(&scratch, &["set", &attached.name]).contains("61"));
    }
    assert!(std::fs::read(&other).unwrap() == before, "nothing is written to it");
    drop(device);
    attached.detach(&[]);
}
