//! A volume's life with the real program: create, serve, look, bring home, check, stop.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::{Client, Kind};
use common::{Daemon, Scratch, run_fails, run_json, run_ok, tools};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};

const SMALL: [&str; 6] = ["create", "a.img", "--size", "64MiB", "--group-size", "8MiB"];

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn what_was_written_is_there_after_a_stop_and_a_start() {
    let scratch = Scratch::new("life");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(4096, &pattern(1, 4096), true);
    client.write(1 << 20, &pattern(2, 1 << 20), false);
    client.write(513 * 512, &pattern(3, 512), false);
    drop(client);
    daemon.stop_ok();
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    assert_eq!(client.read(4096, 4096), pattern(1, 4096));
    assert_eq!(client.read(1 << 20, 1 << 20), pattern(2, 1 << 20));
    assert_eq!(client.read(513 * 512, 512), pattern(3, 512));
    assert_eq!(client.read(8192, 512), vec![0; 512]);
}

#[test]
fn status_tells_the_same_of_a_served_volume_and_of_one_at_rest() {
    let scratch = Scratch::new("status");
    let created = run_json(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &pattern(1, 8192), true);
    let served = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(served["volume"]["volume_id"], created["volume_id"]);
    assert_eq!(served["state"]["phase"], "serving");
    assert_eq!(served["state"]["map_entries"], 2);
    assert_eq!(served["counters"]["logged_bytes"], 8192);
    assert_eq!(served["served"]["pid"], daemon.pid());
    assert_eq!(served["served"]["latency"]["durable"]["count"], 1);
    assert_eq!(served["served"]["uris"][0], daemon.uri().as_str());
    daemon.stop_ok();
    let at_rest = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(at_rest["state"]["phase"], "at rest");
    assert_eq!(at_rest["volume"], served["volume"]);
    assert_eq!(at_rest["state"]["map_entries"], 2);
    assert_eq!(at_rest["served"], Value::Null);
    let text = run_ok(&scratch, &["status", "a.img"]);
    assert!(text.contains("2 pieces not home yet"), "{text}");
}

#[test]
fn a_drain_brings_everything_home_also_what_is_durability_only() {
    let scratch = Scratch::new("drain");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &["--checkpoint-idle", "0", "--watermark", "0"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let hint = ["hint", "a.img", "--offset", "1MiB", "--len", "64KiB", "--kind", "durability-only"];
    run_ok(&scratch, &hint);
    client.write(0, &pattern(1, 4096), true);
    client.write(1 << 20, &pattern(2, 4096), true);
    let checkpoint = run_json(&scratch, &["checkpoint", "a.img"]);
    assert_eq!(checkpoint["map_entries_left"], 1, "durability-only stays: {checkpoint}");
    let drain = run_json(&scratch, &["drain", "a.img"]);
    assert_eq!(drain["map_entries_left"], 0, "{drain}");
    assert_eq!(drain["everything_is_home"], true);
    let slots = |report: &Value| report["state"]["snapshot_number"].as_u64().unwrap();
    assert!(slots(&run_json(&scratch, &["status", "a.img"])) > 0, "a drain ends with a snapshot");
    assert_eq!(client.read(0, 4096), pattern(1, 4096));
    assert_eq!(client.read(1 << 20, 4096), pattern(2, 4096));
    // The same on a volume at rest.
    client.write(8192, &pattern(3, 4096), true);
    daemon.kill();
    let drain = run_ok(&scratch, &["drain", "a.img"]);
    assert!(drain.contains("safe to stop"), "{drain}");
    let dump = run_json(&scratch, &["dump", "a.img", "--map"]);
    assert_eq!(dump["map"], Value::Array(Vec::new()));
    assert_eq!(dump["hints"][0]["client_offset"], 1 << 20, "a hint outlives a kill");
}

#[test]
fn drain_and_stop_ends_the_daemon() {
    let scratch = Scratch::new("drainstop");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &pattern(1, 4096), false);
    let told = run_ok(&scratch, &["drain", "a.img", "--stop"]);
    assert!(told.contains("stopping"), "{told}");
    let (status, told, problems) = daemon.wait();
    assert!(status.success(), "{told} {problems}");
}

#[test]
fn dump_shows_the_records_of_a_log() {
    let scratch = Scratch::new("dump");
    run_ok(&scratch, &SMALL);
    // Where no head moves, lone writes go home.
    let daemon = Daemon::serve(&scratch, "a.img", &["--rotational", "true"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for index in 0..5_u64 {
        client.write(index * 65536, &pattern(index as u8, 4096), true);
    }
    daemon.stop_ok();
    let mut records = Vec::new();
    let logs = run_json(&scratch, &["dump", "a.img"])["volume"]["groups"].as_u64().unwrap();
    for log in 0..logs {
        let dump = run_json(&scratch, &["dump", "a.img", "--log", &log.to_string()]);
        records.extend(dump["records"].as_array().unwrap().iter().cloned());
    }
    let offsets: Vec<u64> = records
        .iter()
        .flat_map(|record| record["writes"].as_array().unwrap())
        .map(|write| write["client_offset"].as_u64().unwrap())
        .collect();
    for index in 0..5 {
        assert!(offsets.contains(&(index * 65536)), "{offsets:?}");
    }
    let text = run_ok(&scratch, &["dump", "a.img", "--log", "0"]);
    assert!(text.contains("superblock copy 2") && text.contains("snapshot slot 1"), "{text}");
    run_fails(&scratch, &["dump", "a.img", "--log", "999"], &["expected a log from 0 to", "999"]);
}

#[test]
fn a_volume_file_says_what_flags_would() {
    let scratch = Scratch::new("config");
    run_ok(&scratch, &SMALL);
    let socket = scratch.text("nbd.sock");
    let text =
        format!("target = \"a.img\"\nsocket = {socket:?}\nexport = [\"disk\"]\nread_only = true\n");
    std::fs::write(scratch.path("volume.toml"), text).unwrap();
    let daemon = Daemon::spawn(&scratch, &["serve", "--config", "volume.toml"]);
    let status = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(status["served"]["read_only"], true);
    assert!(status["served"]["uris"][0].as_str().unwrap().contains("/disk?socket="), "{status}");
    drop(daemon);
    std::fs::write(scratch.path("volume.toml"), "target = \"a.img\"\nscoket = 1\n").unwrap();
    run_fails(
        &scratch,
        &["serve", "--config", "volume.toml"],
        &["volume.toml", "line 2", "scoket"],
    );
}

#[test]
fn a_second_signal_stops_at_once_and_says_so() {
    let scratch = Scratch::new("signal");
    let target = format!("model:st3146855fc,file={}", scratch.text("disk.img"));
    run_ok(&scratch, &["create", &target]);
    let mut daemon = Daemon::serve(&scratch, &target, &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    // Scattered reads: a second or more of work for a disk with a head.
    for cookie in 0..200_u64 {
        let offset = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (client.size_bytes / 4096) * 4096;
        client.send(cookie, Kind::Read, false, offset, 4096, &[]).unwrap();
    }
    // The first reply proves that the others have arrived or are about to.
    client.reply().unwrap();
    daemon.signal(Signal::TERM);
    daemon.wait_for_notice("a second signal stops at once");
    daemon.signal(Signal::INT);
    let (status, _, problems) = daemon.wait();
    assert_eq!(status.code(), Some(1), "{problems}");
    assert!(
        problems.contains("at once")
            && problems.contains("nothing acknowledged as durable is lost"),
        "{problems}"
    );
}

#[test]
fn a_stop_longer_than_its_bound_is_cut_and_says_so() {
    let scratch = Scratch::new("bound");
    let target = format!("model:st3146855fc,file={}", scratch.text("disk.img"));
    run_ok(&scratch, &["create", &target]);
    let daemon = Daemon::serve(&scratch, &target, &["--shutdown-max", "1ms"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for cookie in 0..200_u64 {
        let offset = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (client.size_bytes / 4096) * 4096;
        client.send(cookie, Kind::Read, false, offset, 4096, &[]).unwrap();
    }
    client.reply().unwrap();
    let (status, _, problems) = daemon.stop();
    assert_eq!(status.code(), Some(1), "{problems}");
    assert!(problems.contains("the bound of a graceful stop"), "{problems}");
    run_ok(&scratch, &["check", &target]);
}

#[test]
fn metrics_are_served_in_the_text_format() {
    let scratch = Scratch::new("metrics");
    run_ok(&scratch, &SMALL);
    // A port that is free now; nobody else on this machine asks for it in between.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let daemon = Daemon::serve(&scratch, "a.img", &["--metrics", &address]);
    Client::connect(&daemon.socket).unwrap().write(0, &pattern(1, 4096), true);
    // Numbers are at most a second old: the text says when they are there.
    let text = loop {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        if text.contains("nearhead_logged_bytes_total{volume=\"a.img\"} 4096") {
            break text;
        }
        std::thread::yield_now();
    };
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    for part in [
        "# TYPE nearhead_log_fill_ratio gauge",
        "# TYPE nearhead_requests_total counter",
        "nearhead_latency_seconds_count{volume=\"a.img\",kind=\"durable\"} 1",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn a_socket_of_the_service_manager_is_served() {
    if !tools(&["python3"]) {
        return;
    }
    let scratch = Scratch::new("activate");
    run_ok(&scratch, &SMALL);
    // sd_listen_fds(3): descriptor 3, LISTEN_FDS and LISTEN_PID of the process itself.
    let script = "import os, socket, sys\n\
        s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(16)\n\
        os.dup2(s.fileno(), 3); os.set_inheritable(3, True)\n\
        os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))\n\
        os.execv(sys.argv[2], sys.argv[2:])\n";
    let socket = scratch.path("nbd.sock");
    let mut child = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&socket)
        .args([env!("CARGO_BIN_EXE_nearhead"), "serve", "a.img"])
        .current_dir(scratch.path(""))
        .env("RUNTIME_DIRECTORY", scratch.path("run"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    // The first byte of the line that says it is ready.
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    Client::connect(&socket).unwrap().write(0, &pattern(1, 4096), true);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_emulated_disk_in_memory_serves_a_volume_that_ends_with_it() {
    let scratch = Scratch::new("memory");
    let daemon = Daemon::serve(&scratch, "model:st3146855fc", &["--create-if-missing"]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &pattern(1, 4096), true);
    assert_eq!(client.read(0, 4096), pattern(1, 4096));
    drop(client);
    daemon.stop_ok();
}

#[test]
fn a_bare_emulated_disk_loses_its_write_cache_in_a_power_cut() {
    let scratch = Scratch::new("bare");
    let disk = format!("model:st3146855fc,file={},cache=on", scratch.text("disk.img"));
    let socket = scratch.text("nbd.sock");
    let control = scratch.path("control.sock");
    let args =
        ["disk", "serve", &disk, "--socket", &socket, "--control", control.to_str().unwrap()];
    let daemon = Daemon::spawn(&scratch, &args);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &pattern(1, 4096), true);
    let ask = |line: &str| -> Value {
        let mut stream = std::os::unix::net::UnixStream::connect(&control).unwrap();
        writeln!(stream, "{line}").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer.lines().count(), 1, "{answer:?}");
        serde_json::from_str(&answer).unwrap()
    };
    assert_eq!(ask("stats")["ok"]["writes"], 1);
    let mut lost = 0;
    for seed in 0..16 {
        client.write(1 << 20, &pattern(2, 4096), true);
        client.write(1 << 20, &pattern(3, 4096), false);
        assert_eq!(ask(&format!("power-cut {seed}"))["ok"]["seed"], seed);
        let found = client.read(1 << 20, 4096);
        lost += u32::from(found != pattern(3, 4096));
        assert_eq!(client.read(0, 4096), pattern(1, 4096), "FUA survives, seed {seed}");
    }
    assert!(lost > 0, "no cut of 16 lost anything of the write cache");
    assert!(ask("nonsense")["error"].as_str().unwrap().contains("power-cut"));
    assert_eq!(ask("quit")["ok"], "stopping");
    let (status, _, problems) = daemon.wait();
    assert!(status.success(), "{problems}");
}

#[test]
fn the_profiles_are_listed_with_their_facts() {
    let scratch = Scratch::new("list");
    let disks = run_json(&scratch, &["disk", "list"]);
    let cheetah =
        disks.as_array().unwrap().iter().find(|disk| disk["name"] == "st3146855fc").unwrap();
    assert!((14_000..16_000).contains(&cheetah["revolutions_per_minute"].as_u64().unwrap()));
    assert!(run_ok(&scratch, &["disk", "list"]).contains("constellation-es3-1tb"));
}

#[test]
fn man_pages_and_completions_are_written_for_every_command() {
    let scratch = Scratch::new("generate");
    run_ok(&scratch, &["generate", "--out", "docs"]);
    for name in [
        "nearhead.1",
        "nearhead-create.1",
        "nearhead-serve.1",
        "nearhead-disk-serve.1",
        "nearhead.bash",
        "_nearhead",
        "nearhead.fish",
    ] {
        assert!(scratch.path("docs").join(name).is_file(), "{name} is missing");
    }
    let help = run_ok(&scratch, &["--help"]);
    // Groups of commands, each line one; only `Options:` come after them.
    let groups = help.split("\nOptions:").next().unwrap();
    let commands: Vec<&str> = groups
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(commands.len() > 25, "{help}");
    for heading in ["Make:", "Run:", "Look:", "Mend:", "Study:"] {
        assert!(help.lines().any(|line| line == heading), "{heading} is missing in {help}");
    }
    for command in commands {
        let page = scratch.path("docs").join(format!("nearhead-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap_or_default();
        for section in [".SH EXAMPLES", ".SH \"EXIT STATUS\"", ".SH FILES", ".SH OPTIONS"] {
            let has_it = page.lines().any(|line| line == section);
            assert!(has_it, "{section} is missing in the page of {command}");
        }
    }
}

#[test]
fn where_no_head_moves_lone_durable_writes_go_home_and_survive_a_kill() {
    for (rotational, goes_home) in [("false", true), ("true", false)] {
        let scratch = Scratch::new("alone");
        run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
        let daemon = Daemon::serve(&scratch, "a.img", &["--rotational", rotational]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        // Nothing of it is blank afterwards.
        client.write(0, &vec![1; 4 << 20], true);
        for number in 0..20_u8 {
            client.write(u64::from(number) * 8192, &[number; 4096], true);
        }
        let counters = &run_json(&scratch, &["status", "a.img"])["counters"];
        let (alone, logged) = (&counters["alone_home"], &counters["logged_bytes"]);
        let expected = if goes_home { (20, 0) } else { (0, 20 * 4096) };
        assert_eq!((alone.as_u64(), logged.as_u64()), (Some(expected.0), Some(expected.1)));
        daemon.kill();
        let daemon = Daemon::serve(&scratch, "a.img", &["--rotational", rotational]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        for number in 0..20_u8 {
            let read = client.read(u64::from(number) * 8192, 4096);
            assert!(read == [number; 4096], "block {number}, --rotational {rotational}");
        }
        daemon.stop_ok();
    }
}
