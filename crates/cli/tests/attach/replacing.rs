//! Members of mirrors replaced under an attached volume, through the ends of its worker and its supervisor.

use super::common::attached::{Attached, BLOCK, block_of, can_attach};
use super::common::{Scratch, ask, run, run_fails, run_json, run_ok};
use nearhead_disk::BufferMut;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const MEMBER_BYTES: u64 = 128 << 20;
/// Bytes of a member's label.
pub(crate) const LABEL_BYTES: u64 = 8 << 10;
/// Longest time that a copy may take: it goes on at 10 MiB/s while it is written to.
const COPY_MAX: Duration = Duration::from_secs(120);

pub(crate) fn sparse(scratch: &Scratch, name: &str, bytes: u64) -> String {
    File::create(scratch.path(name)).unwrap().set_len(bytes).unwrap();
    scratch.text(name)
}

/// The worker's answer to a command.
fn ask_worker(attached: &Attached<'_>, command: &str) -> serde_json::Value {
    ask(attached.facts()["control"].as_str().unwrap(), command)
}

/// Waits until the copy is under way, and stops the worker there.
fn stopped_while_copying(attached: &Attached<'_>) -> Pid {
    let worker = attached.last_worker();
    loop {
        let found = ask_worker(attached, "replaced");
        let left = found["ok"]["under_way"]["progress"]["left_bytes"].as_u64();
        if left.is_some_and(|left| left < MEMBER_BYTES - LABEL_BYTES) {
            kill_process(worker, Signal::STOP).unwrap();
            return worker;
        }
        assert!(!found["ok"]["under_way"].is_null(), "{found}");
    }
}

/// Waits until at most `left` bytes are to be copied, and kills the worker there.
fn killed_at(attached: &Attached<'_>, left: u64) {
    let worker = attached.last_worker();
    loop {
        let found = ask_worker(attached, "replaced");
        let found = found["ok"]["under_way"]["progress"]["left_bytes"].as_u64();
        if found.is_some_and(|found| found <= left) {
            let metrics = ask_worker(attached, "metrics").to_string();
            assert!(metrics.contains("nearhead_mirror_replacing_left_bytes"), "{metrics}");
            return kill_process(worker, Signal::KILL).unwrap();
        }
    }
}

/// Bytes that the next worker has still to copy when it begins.
fn left_at_next_start(attached: &Attached<'_>) -> u64 {
    attached.answering_worker();
    loop {
        let found = ask_worker(attached, "replaced");
        let progress = &found["ok"]["under_way"]["progress"];
        if let Some(left) = progress["left_bytes"].as_u64() {
            return left;
        }
    }
}

/// Lets writers end, also where a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes block after block until `stop`, and keeps the last values in `model`. A failed pass is repeated with the device opened again:
/// its users get errors once both processes are gone.
fn write_on(attached: &Attached<'_>, model: &mut [u8], stop: &AtomicBool) {
    let mut value = model[0];
    while !stop.load(Ordering::Relaxed) {
        value = value.wrapping_add(1);
        let pass = |model: &mut [u8]| -> io::Result<()> {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
            let device = options.open(attached.device())?;
            for (number, known) in model.iter_mut().enumerate() {
                let mut data = BufferMut::zeroed(BLOCK);
                data.fill(value);
                device.write_all_at(&data, (number * BLOCK) as u64)?;
                *known = value;
            }
            device.sync_all()
        };
        while pass(model).is_err() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Calls `act` while blocks are written, and waits until the target is named as `after`.
fn copied_while_written(
    attached: &Attached<'_>,
    after: &str,
    model: &mut [u8],
    act: impl FnOnce(),
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| write_on(attached, model, &stop));
        act();
        let begun = Instant::now();
        loop {
            let output = run(attached.scratch, &["status", &attached.name, "--json"]);
            let found = super::common::json::parse(&output.stdout).unwrap_or_default();
            if found["target"] == after {
                break;
            }
            assert!(begun.elapsed() < COPY_MAX, "{found}");
        }
    });
    let device = attached.open();
    for (number, value) in model.iter().enumerate() {
        assert!(block_of(&device, number) == vec![*value; BLOCK], "block {number}");
    }
}

#[test]
fn a_replacement_goes_on_after_workers_are_killed() {
    let scratch = Scratch::new("attach-replace");
    if !can_attach() {
        return;
    }
    let [a, b, n] = ["a.img", "b.img", "n.img"].map(|name| sparse(&scratch, name, MEMBER_BYTES));
    let pair = |second: &str| format!("mirror:{a},{second}");
    run_ok(&scratch, &["create", &pair(&b), "--group-size", "8MiB"]);
    let name = format!("t{}-replace", std::process::id());
    let attached = Attached { scratch: &scratch, name, target: pair(&b) };
    let file = scratch.path("v.toml");
    std::fs::write(&file, format!("# ours\ntarget = {:?}\n", pair(&b))).unwrap();
    run_ok(&scratch, &["attach", "--as", &attached.name, "--config", "v.toml"]);

    let refused = |old: &str, new: &str, parts: &[&str]| {
        run_fails(&scratch, &["replace", &attached.name, old, new], parts);
    };
    let small = sparse(&scratch, "small.img", MEMBER_BYTES / 2);
    let used = sparse(&scratch, "used.img", MEMBER_BYTES);
    File::options().write(true).open(&used).unwrap().write_all_at(b"\x53\xef", 1024 + 56).unwrap();
    refused(&n, &n, &["expected a member of a mirror to replace", &a, &b]);
    refused(&b, &small, &["small.img", "choose a larger one"]);
    refused(&b, &used, &["used.img", "--force"]);
    refused(&b, &a, &["a.img", "one of its devices"]);
    std::fs::hard_link(&a, scratch.path("link.img")).unwrap();
    refused(&b, &scratch.text("link.img"), &["to be the same one"]);
    refused(&b, &scratch.text("none.img"), &["none.img"]);
    run_fails(
        &scratch,
        &["replace", "nothing-here", &b, &n],
        &["expected a volume that is served"],
    );

    // A worker is killed during the copy, and then both processes; what was replaced is good for a successor again.
    let mut model = vec![0; 64];
    for (old, new, kills_both) in [(&b, &n, false), (&n, &b, true)] {
        let message = run_json(&scratch, &["replace", &attached.name, old, new, "--no-wait"]);
        assert_eq!((&message["done"], message["new"].as_str().unwrap()), (&false.into(), &**new));
        copied_while_written(&attached, &pair(new), &mut model, || {
            let again =
                serde_json::json!({ "old": a, "old_path": a, "new": small, "force": false });
            let again = ask_worker(&attached, &format!("replace {again}"));
            assert!(
                again["error"].as_str().unwrap().contains("wait until that is done"),
                "{again}"
            );
            let worker = stopped_while_copying(&attached);
            let named = std::fs::read_to_string(&file).unwrap();
            assert!(named.contains("?replace=2"), "it is under way: {named}");
            if kills_both {
                kill_process(attached.supervisor(), Signal::KILL).unwrap();
            }
            kill_process(worker, Signal::KILL).unwrap();
            if kills_both {
                while !run(&scratch, &["attach", &attached.name]).status.success() {}
            }
        });
        let named = std::fs::read_to_string(&file).unwrap();
        assert_eq!(named, format!("# ours\ntarget = {:?}\n", pair(new)));
        // One that was not asked answers as well, and what is left waits for nothing.
        attached.answering_worker();
        attached.detach(&[]);
        let content = |name: &str| {
            let mut bytes = std::fs::read(name).unwrap();
            bytes.truncate((MEMBER_BYTES - LABEL_BYTES) as usize);
            bytes
        };
        assert!(content(&a) == content(new), "the new member is alike");
        let stale = format!("mirror:missing,{old}");
        run_fails(&scratch, &["check", &stale], &["expected a member that has everything"]);
        run_ok(&scratch, &["check", &format!("mirror:missing,{new}")]);
        let by_file = ["attach", "--as", &attached.name, "--config", "v.toml"];
        run_ok(&scratch, &by_file);
        let device = attached.open();
        for (number, value) in model.iter().enumerate() {
            assert!(block_of(&device, number) == vec![*value; BLOCK], "block {number}");
        }
    }
    // The command that waits, for a member that is away.
    attached.detach(&[]);
    let alone = Attached {
        target: format!("mirror:{a},missing"),
        name: attached.name.clone(),
        scratch: &scratch,
    };
    alone.attach(&[]);
    let message = run_ok(&scratch, &["replace", &alone.name, "missing", &n]);
    assert!(message.contains("has replaced missing"), "{message}");
    let device = alone.open();
    assert!(block_of(&device, 3) == vec![model[3]; BLOCK]);
    drop(device);
    alone.detach(&[]);
    run_ok(&scratch, &["check", &pair(&n)]);
}

/// Notes of the progress are 8 MiB apart on members of 128 MiB.
#[test]
fn a_killed_worker_costs_a_replacement_what_was_not_noted() {
    let scratch = Scratch::new("attach-resume");
    if !can_attach() {
        return;
    }
    let [a, b, n] = ["a.img", "b.img", "n.img"].map(|name| sparse(&scratch, name, MEMBER_BYTES));
    let target = format!("mirror:{a},{b}");
    run_ok(&scratch, &["create", &target, "--group-size", "8MiB"]);
    let name = format!("t{}-resume", std::process::id());
    let attached = Attached { scratch: &scratch, name, target };
    attached.attach(&[]);
    run_json(&scratch, &["replace", &attached.name, &b, &n, "--no-wait"]);
    let mut model = vec![0; 64];
    copied_while_written(&attached, &format!("mirror:{a},{n}"), &mut model, || {
        for left_mib in [88, 48] {
            killed_at(&attached, left_mib << 20);
            let left = left_at_next_start(&attached);
            assert!(left < (left_mib + 24) << 20, "{left} of {left_mib} MiB are left");
        }
    });
    attached.detach(&[]);
    let content = |name: &str| {
        let mut bytes = std::fs::read(name).unwrap();
        bytes.truncate((MEMBER_BYTES - LABEL_BYTES) as usize);
        bytes
    };
    assert!(content(&a) == content(&n), "the new member is alike");
    run_ok(&scratch, &["check", &format!("mirror:missing,{n}")]);
}
