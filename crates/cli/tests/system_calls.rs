//! What a request costs in system calls, counted by `strace`.
//!
//! On a machine with more to do than processors, each wait and each wake-up may take a tick of the
//! scheduler, so their number is what a busy machine shows of a server. Waits that a timer ends count by themselves, since
//! there are more of them the slower the tracer makes everything.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_ok, tools};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const REQUESTS: u64 = 500;
/// One to take the request in, one for the disk, one to answer.
const CALLS_PER_REQUEST_MAX: u64 = 3;
/// Through the page cache it is two for the disk: a copy, and a sync that may serve others as well.
const CALLS_PER_CACHED_WRITE_MAX: u64 = 4;
/// One for the request, one for what the disk did, and as many again for timers on a machine with much to do.
const WAITS_PER_REQUEST_MAX: u64 = 4;
/// The daemon's own work, four times a second.
const OTHERS_MAX: u64 = REQUESTS / 5;

/// What the serving thread calls while `work` goes on, by name; `None` where it cannot be traced.
fn counted(
    scratch: &Scratch,
    daemon: &Daemon,
    work: impl FnOnce(),
) -> Option<BTreeMap<String, u64>> {
    let counts = scratch.text("counts");
    let mut strace = Command::new("strace")
        .args(["-c", "-o", &counts, "-p", &daemon.pid().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(strace.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    if !line.contains("attached") {
        strace.wait().unwrap();
        println!("skipped: strace: {line}");
        return None;
    }
    work();
    let pid = rustix::process::Pid::from_child(&strace);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    strace.wait().unwrap();
    let counts = std::fs::read_to_string(counts).unwrap();
    let rows = counts.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls = words.get(3)?.parse().ok()?;
        (words.len() >= 5 && words[words.len() - 1] != "total")
            .then(|| (words[words.len() - 1].to_owned(), calls))
    });
    Some(rows.collect())
}

fn check(counts: &BTreeMap<String, u64>, calls_max: u64, what: &str) {
    let total: u64 = counts.values().sum();
    assert!(total >= REQUESTS, "{what}: the tracer saw nothing: {counts:?}");
    assert_eq!(counts.get("sched_yield"), None, "{what}: the processor is given away: {counts:?}");
    let waits = counts.get("epoll_pwait2").copied().unwrap_or(0);
    let most = REQUESTS * calls_max + OTHERS_MAX;
    let calls = total - waits;
    assert!(calls <= most, "{what}: expected at most {most} calls, found {calls}: {counts:?}");
    let most = REQUESTS * WAITS_PER_REQUEST_MAX;
    assert!(waits <= most, "{what}: expected at most {most} waits, found {waits}: {counts:?}");
}

#[test]
fn a_durable_write_to_a_plain_volume_takes_three_system_calls_or_four_beside_its_waits_and_never_yields()
 {
    if !tools(&["strace"]) {
        return;
    }
    let (direct, cached) = (CALLS_PER_REQUEST_MAX, CALLS_PER_CACHED_WRITE_MAX);
    for (rotational, page_cache, calls_max) in
        [("false", "true", cached), ("false", "false", direct), ("true", "false", direct)]
    {
        let page_cache = format!("--page-cache={page_cache}");
        let scratch = Scratch::new("calls");
        let image = scratch.text("disk.img");
        run_ok(&scratch, &["create", &image, "--size", "1GiB"]);
        let options = [
            "--rotational",
            rotational,
            &page_cache,
            "--checkpoint-idle",
            "0",
            "--swap-above",
            "0",
        ];
        let daemon = Daemon::serve(&scratch, &image, &options);
        let mut client = Client::connect(&daemon.socket).unwrap();
        let data = [7; 4096];
        client.write(0, &data, true);
        let writes = || (0..REQUESTS).for_each(|n| client.write(n * 4096, &data, true));
        let Some(counts) = counted(&scratch, &daemon, writes) else { return };
        check(&counts, calls_max, &format!("durable writes, {options:?}"));
        let reads = || (0..REQUESTS).for_each(|n| drop(client.read(n * 65_536, 4096)));
        let Some(counts) = counted(&scratch, &daemon, reads) else { return };
        check(&counts, direct, &format!("reads, {options:?}"));
        drop(client);
        daemon.stop_ok();
    }
}
