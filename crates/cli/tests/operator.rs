//! What somebody who runs a volume meets: signals, finding the daemon, what the program says and advises.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, nearhead, run, run_fails, run_json, run_ok, tool, tool_ok, tools};
use nearhead_format::{Label, Superblock};
use rustix::process::Signal;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

fn create(scratch: &Scratch) {
    run_ok(scratch, &["create", "a.img", "--size", "64MiB"]);
}

fn phase(scratch: &Scratch, args: &[&str]) -> String {
    run_json(scratch, args)["state"]["phase"].as_str().unwrap().to_owned()
}

fn told(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_hangup_is_said_and_ends_nothing() {
    let scratch = Scratch::new("hangup");
    create(&scratch);
    let mut daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for signal in [Signal::HUP, Signal::PIPE, Signal::XFSZ] {
        daemon.signal(signal);
        client.write(0, &[1; 4096], true);
    }
    daemon.wait_for_notice("SIGHUP: going on as before");
    client.write(4096, &[2; 4096], true);
    drop(client);
    let socket = daemon.socket.clone();
    daemon.stop_ok();
    assert!(!socket.exists());
}

#[test]
fn sigquit_stops_in_order() {
    let scratch = Scratch::new("quit");
    create(&scratch);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    daemon.signal(Signal::QUIT);
    let socket = daemon.socket.clone();
    let (status, told, problems) = daemon.wait();
    assert!(status.success() && told.contains("everything is durable"), "{told} {problems}");
    assert!(!socket.exists());
}

#[test]
fn a_daemon_serves_on_when_nobody_reads_what_it_says() {
    let scratch = Scratch::new("deaf");
    create(&scratch);
    let socket = scratch.path("nbd.sock");
    let mut child = nearhead(&scratch, &["serve", "a.img", "--socket", "nbd.sock"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut client = loop {
        match Client::connect(&socket) {
            Ok(client) => break client,
            Err(_) => assert_eq!(child.try_wait().unwrap(), None, "the daemon ended"),
        }
    };
    client.write(0, &[1; 4096], true);
    drop(client);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_daemon_is_found_by_every_name_of_its_disk() {
    let scratch = Scratch::new("names");
    create(&scratch);
    std::fs::hard_link(scratch.path("a.img"), scratch.path("hard.img")).unwrap();
    std::os::unix::fs::symlink("a.img", scratch.path("link.img")).unwrap();
    let targets = ["a.img", "./a.img", "hard.img", "link.img"];
    for control in [None, Some("own.sock")] {
        let more: Vec<&str> = control.iter().flat_map(|path| ["--control", path]).collect();
        let daemon = Daemon::serve(&scratch, "a.img", &more);
        for target in targets {
            assert_eq!(phase(&scratch, &["status", target]), "serving", "{target} {control:?}");
        }
        // What a killed one leaves behind is in nobody's way, whichever kind of name comes next.
        daemon.kill();
    }
    Daemon::serve(&scratch, "a.img", &[]).stop_ok();
    let left: Vec<_> = std::fs::read_dir(scratch.path("run")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_daemon_on_a_mirror_is_found_by_each_member() {
    let scratch = Scratch::new("members");
    for name in ["a.img", "b.img"] {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(72 << 20).unwrap();
    }
    run_ok(&scratch, &["create", "mirror:a.img,b.img"]);
    let _daemon = Daemon::serve(&scratch, "mirror:a.img,b.img", &[]);
    for target in ["mirror:a.img,b.img", "mirror:missing,b.img", "b.img"] {
        assert_eq!(phase(&scratch, &["status", target]), "serving", "{target}");
    }
}

#[test]
fn a_daemon_in_a_folder_of_its_own_is_found_as_under_a_unit_of_systemd() {
    let scratch = Scratch::new("unit");
    let folder = format!("/run/nearhead/nh-test-{}", std::process::id());
    if let Err(error) = std::fs::create_dir_all(&folder) {
        println!("skipped: {folder} cannot be made: {error}");
        return;
    }
    create(&scratch);
    std::fs::write(scratch.path("v.toml"), "target = \"a.img\"\nsocket = \"nbd.sock\"\n").unwrap();
    let mut daemon = nearhead(&scratch, &["serve", "--config", "v.toml"])
        .env("RUNTIME_DIRECTORY", &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = std::io::BufReader::new(daemon.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let found = nearhead(&scratch, &["status", "a.img"]).env_remove("RUNTIME_DIRECTORY").output();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let found = found.unwrap();
    assert!(line.contains("serving") && found.status.success(), "{line} {}", told(&found));
    assert!(told(&found).contains("serving"), "{}", told(&found));
}

#[test]
fn a_loop_device_and_its_file_are_one_volume_to_every_command() {
    let scratch = Scratch::new("loops");
    create(&scratch);
    if !tools(&["losetup"]) {
        return;
    }
    let output = tool("losetup", &["--find", "--show", &scratch.text("a.img")]);
    if !output.status.success() {
        println!("skipped: losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
        return;
    }
    let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let daemon = Daemon::serve(&scratch, &device, &[]);
    let by_file = run(&scratch, &["status", "a.img"]);
    let refused = run(&scratch, &["serve", "a.img", "--socket", "other.sock"]);
    let forced = run(&scratch, &["create", "a.img", "--force"]);
    drop(daemon);
    let forced_later = run(&scratch, &["create", "a.img", "--force"]);
    tool_ok("losetup", &["--detach", &device]);
    assert!(told(&by_file).contains("serving"), "{}", told(&by_file));
    for (output, part) in [(refused, "in use"), (forced, "in use"), (forced_later, &*device)] {
        let text = told(&output);
        assert!(output.status.code() == Some(1) && text.contains(part), "{text}");
    }
}

#[test]
fn a_kind_of_target_that_there_is_not_is_no_missing_file() {
    let scratch = Scratch::new("kinds");
    for (args, parts) in [
        (vec!["status", "raid5:a,b"], ["\"raid5\"", "mirror:A,B"]),
        (vec!["create", "raid5:a,b", "--size", "64MiB"], ["\"raid5\"", "./raid5:a,b"]),
        (vec!["serve", "modell:x", "--socket", "s"], ["\"modell\"", "model:PROFILE"]),
        (vec!["check", "raid1:a,b"], ["\"raid1\"", "called mirror"]),
        (vec!["check", "raid0:a.img,modell:x"], ["\"modell\"", "model:PROFILE"]),
    ] {
        std::fs::write(scratch.path("a.img"), vec![0; 1 << 20]).unwrap();
        run_fails(&scratch, &args, &parts);
    }
    assert!(!scratch.path("raid5:a,b").exists());
    run_ok(&scratch, &["create", "./a:b", "--size", "64MiB"]);
    assert_eq!(phase(&scratch, &["status", "a:b"]), "at rest");
}

#[test]
fn a_member_of_a_stripe_by_itself_is_named_as_such() {
    let scratch = Scratch::new("lone");
    for name in ["a.img", "b.img"] {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(64 << 20).unwrap();
    }
    run_ok(&scratch, &["create", "raid0:a.img,b.img"]);
    for command in ["check", "status"] {
        let parts = ["member 1 of 2 of a stripe", "name the array"];
        run_fails(&scratch, &[command, "a.img"], &parts);
        run_fails(&scratch, &[command, "b.img"], &["member 2 of 2 of a stripe", "name the array"]);
    }
}

#[test]
fn create_says_the_whole_command_that_serves() {
    let scratch = Scratch::new("line");
    let said = run_ok(&scratch, &["create", "a.img", "--size", "64MiB", "--map-device", "a.map"]);
    assert!(said.contains("nearhead serve a.img --map-device a.map --socket"), "{said}");
    for name in ["my disk.img", "b.img"] {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(64 << 20).unwrap();
    }
    let said = run_ok(&scratch, &["create", "raid0:my disk.img,b.img?chunk=128k"]);
    assert!(said.contains("serve 'raid0:my disk.img,b.img?chunk=128k' --socket"), "{said}");
}

#[test]
fn a_replay_past_the_end_of_the_disk_says_what_helps() {
    let scratch = Scratch::new("fit");
    let trace = "128166372003061629,src1,0,Write,9999999999999488,4096,100\n";
    std::fs::write(scratch.path("t.csv"), trace.repeat(3)).unwrap();
    let args = ["replay", "t.csv", "--disk", "st3146855fc", "--preset", "nolog"];
    run_fails(&scratch, &args, &["--fit wrap", "--fit scale", "--disk"]);
}

#[test]
fn a_file_deleted_while_served_is_said_and_is_no_orderly_end() {
    let scratch = Scratch::new("deleted");
    create(&scratch);
    let mut daemon = Daemon::serve(&scratch, "a.img", &["--control", "c.sock"]);
    std::fs::remove_file(scratch.path("a.img")).unwrap();
    daemon.wait_for_notice("was deleted while it is served");
    let status = run(&scratch, &["status", "a.img", "--control", "c.sock"]);
    assert!(status.status.code() == Some(2), "{}", told(&status));
    assert!(told(&status).contains("cp --sparse=always /proc/"), "{}", told(&status));
    let (status, told, problems) = daemon.stop();
    assert!(!status.success() && problems.contains("deleted"), "{told} {problems}");
    assert!(!told.contains("everything is durable"), "{told}");
}

/// The next write makes it as long as it was, so what was seen must not be forgotten.
#[test]
fn a_file_cut_short_while_served_is_said_and_is_no_orderly_end() {
    let scratch = Scratch::new("cut-short");
    create(&scratch);
    let mut daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(40 << 20, &[1; 4096], true);
    let image = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    image.set_len(8 << 20).unwrap();
    daemon.wait_for_notice(
        "was cut short while it is served: expected 67108864 bytes, found 8388608",
    );
    client.write(48 << 20, &vec![2; 1 << 20], true);
    let status = run(&scratch, &["status", "a.img"]);
    assert!(status.status.code() == Some(2), "{}", told(&status));
    assert!(told(&status).contains("found 8388608; what was behind is gone"), "{}", told(&status));
    drop(client);
    let (status, told, problems) = daemon.stop();
    assert!(!status.success() && problems.contains("cut short meanwhile"), "{told} {problems}");
    assert!(!told.contains("everything is durable"), "{told}");
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure_and_a_reader_that_leaves_is_none() {
    let scratch = Scratch::new("full");
    create(&scratch);
    for args in [&["status", "a.img"][..], &["check", "a.img", "--json"], &["dump", "a.img"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = nearhead(&scratch, args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(told(&output).contains("standard output: expected to write"), "{}", told(&output));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = nearhead(&scratch, args).stdout(writer).output().unwrap();
        assert!(output.status.success() && told(&output).is_empty(), "{}", told(&output));
    }
}

#[test]
fn only_commands_that_ask_daemons_are_told_to_name_a_control_socket() {
    let scratch = Scratch::new("whose");
    create(&scratch);
    let daemon = Daemon::serve(&scratch, "a.img", &["--control", "c.sock"]);
    // Its links are away, as where another user looks.
    std::fs::rename(scratch.path("run"), scratch.path("elsewhere")).unwrap();
    for command in ["status", "grow"] {
        let words = ["in use by", "name its control socket with --control"];
        run_fails(&scratch, &[command, "a.img"], &words);
    }
    for args in [&["check", "a.img"][..], &["create", "a.img", "--force"]] {
        let said = run_fails(&scratch, args, &["in use by another process", "(nearhead)"]);
        assert!(!said.contains("--control"), "{said}");
    }
    daemon.stop_ok();
}

#[test]
fn a_daemon_for_programs_says_json_alone_and_uris_that_clients_take() {
    let scratch = Scratch::new("for-programs");
    create(&scratch);
    let args = ["serve", "a.img", "--socket", "a b?.sock", "--export", "x y\nz", "--json"];
    let child = nearhead(&scratch, &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next()?.unwrap()).ok();
    let ready = next().unwrap();
    assert_eq!(ready["event"], "serving");
    assert_eq!(ready["uris"][0], "nbd+unix:///x%20y%0Az?socket=a%20b%3F.sock");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let stopped = next().unwrap();
    assert_eq!((&stopped["event"], &stopped["target"]), (&"stopped".into(), &"a.img".into()));
    assert!(next().is_none() && child.wait().unwrap().success());
}

#[test]
fn what_was_served_read_only_is_said_to_be_as_it_was() {
    let scratch = Scratch::new("as-it-was");
    create(&scratch);
    let before = std::fs::read(scratch.path("a.img")).unwrap();
    let (status, told, problems) = Daemon::serve(&scratch, "a.img", &["--read-only"]).stop();
    assert!(status.success() && told.contains("and nothing was changed"), "{told}");
    assert!(
        problems.contains("nothing is written") && !problems.contains("a snapshot"),
        "{problems}"
    );
    assert_eq!(std::fs::read(scratch.path("a.img")).unwrap(), before);
}

#[test]
fn status_tells_a_killed_daemon_from_an_orderly_stop() {
    let scratch = Scratch::new("killed");
    create(&scratch);
    assert_eq!(phase(&scratch, &["status", "a.img"]), "at rest");
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    Client::connect(&daemon.socket).unwrap().write(0, &[7; 4096], true);
    daemon.kill();
    assert_eq!(phase(&scratch, &["status", "a.img"]), "interrupted");
    assert!(run_ok(&scratch, &["status", "a.img"]).contains("recovers 1 records"));
    Daemon::serve(&scratch, "a.img", &[]).stop_ok();
    assert_eq!(phase(&scratch, &["status", "a.img"]), "at rest");
}

#[test]
fn presets_are_shown_as_typed_and_listed_from_one_table() {
    let scratch = Scratch::new("presets");
    for (name, threshold) in [("mlb-256", "256 KiB"), ("mlb", "32 KiB"), ("nolog", "no writes")] {
        let args = ["create", "a.img", "--size", "64MiB", "--preset", name];
        assert!(run_ok(&scratch, &args).contains(&format!("preset {name},")));
        let said = run_ok(&scratch, &["status", "a.img"]);
        assert!(said.contains(&format!(", {name})")) && said.contains(threshold), "{said}");
        std::fs::remove_file(scratch.path("a.img")).unwrap();
    }
    let refusal = run_fails(&scratch, &["create", "x", "--size", "64M", "--preset", "best"], &[]);
    for command in ["create", "serve", "replay", "repair"] {
        let help = run_ok(&scratch, &[command, "--help"]);
        // However it is wrapped.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for preset in nearhead_volume::PRESETS {
            for place in [&help, &refusal] {
                assert!(place.contains(preset.name), "{command}: {} is missing", preset.name);
            }
            assert!(help.contains(preset.summary), "{command}: {} is missing", preset.summary);
        }
    }
}

#[test]
fn a_label_stays_on_its_line_and_changes_no_terminal() {
    let scratch = Scratch::new("labels");
    for label in ["two\nlines", "red \u{1b}[31m", "back\u{202e}wards", "\u{9b}31m"] {
        let args = ["create", "a.img", "--size", "64MiB", "--label", label];
        let message = run_fails(&scratch, &args, &["--label", "control characters"]);
        assert!(
            !message.trim_end().contains(['\n', '\u{1b}', '\u{202e}', '\u{9b}']),
            "{message:?}"
        );
        assert!(!scratch.path("a.img").exists());
    }
    // Volumes made before have what they have.
    create(&scratch);
    let image =
        std::fs::File::options().read(true).write(true).open(scratch.path("a.img")).unwrap();
    let offsets = nearhead_format::layout::superblock_offsets(64 << 20);
    for (copy, offset) in (0..).zip(offsets) {
        let mut bytes = [0; 4096];
        image.read_exact_at(&mut bytes, offset).unwrap();
        let mut superblock = Superblock::decode(&bytes, copy).unwrap();
        superblock.label = Label::new("two\nlines \u{1b}[31m \u{9b}0m").unwrap();
        image.write_all_at(&superblock.encode(copy), offset).unwrap();
    }
    for args in [vec!["status", "a.img"], vec!["dump", "a.img"], vec!["status", "a.img", "--json"]]
    {
        let said = run_ok(&scratch, &args);
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{args:?}: {said:?}");
        assert!(said.lines().any(|line| line.contains("two\\nlines")), "{args:?}: {said:?}");
    }
    let label = run_json(&scratch, &["status", "a.img"])["volume"]["label"].clone();
    assert_eq!(label, "two\nlines \u{1b}[31m \u{9b}0m", "programs get it as it is");
}

#[test]
fn dump_says_when_a_volume_was_made() {
    let scratch = Scratch::new("date");
    create(&scratch);
    let said = run_ok(&scratch, &["dump", "a.img"]);
    let created = said.lines().find_map(|line| line.split_once("created ")).unwrap().1;
    let shape: String = created.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z", "{said}");
}

#[test]
fn errors_use_the_words_of_the_one_who_reads_them() {
    let scratch = Scratch::new("words");
    let inner = ["device_bytes", "group_bytes", "log_bytes", "SUN_LEN", "OtherError", "Some("];
    let long = format!("{}/s", "x".repeat(120));
    create(&scratch);
    for (args, part) in [
        (vec!["create", "b.img", "--size", "1MiB"], "from 64 MiB on"),
        (vec!["create", "b.img", "--size", "64M", "--group-size", "1G"], "--group-size"),
        (vec!["create", "b.img", "--size", "64M", "--log-size", "4k"], "--log-size"),
        (vec!["serve", "a.img", "--socket", &long], "at most 107 bytes"),
        (vec!["serve", "a.img", "--socket", "s", "--control", &long], "--control"),
        (vec!["status", "a.img", "--control", &long], "at most 107 bytes"),
        (vec!["disk", "serve", "model:st3146855fc", "--socket", &long], "at most 107 bytes"),
        (vec!["disk", "import", "no/such/drive"], "folder `valid` of DiskSim"),
        (vec!["serve", "a.img", "--socket", "s", "--snapshot-period", "0"], "more than 0"),
    ] {
        let message = run_fails(&scratch, &args, &[part]);
        let found = inner.iter().find(|word| message.contains(**word));
        assert_eq!(found, None, "{args:?}: {message}");
    }
    let none = run(&scratch, &["serve", "a.img", "--socket", "s", "--connections-max", "0"]);
    assert!(!none.status.success() && told(&none).contains("0 is not in 1.."), "{}", told(&none));
    let none = run(&scratch, &["serve", "a.img", "--socket", "s", "--nice", "-21"]);
    assert!(
        !none.status.success() && told(&none).contains("-21 is not in -20..=19"),
        "{}",
        told(&none)
    );
}

#[test]
fn tcp_without_encryption_is_warned_of_where_others_can_reach_it() {
    let scratch = Scratch::new("tcp");
    create(&scratch);
    for (address, is_warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let daemon = Daemon::spawn(&scratch, &["serve", "a.img", "--tcp", address]);
        let (status, _, problems) = daemon.stop();
        assert!(status.success(), "{problems}");
        assert_eq!(problems.contains("without encryption"), is_warned, "{address}: {problems}");
    }
}

#[test]
fn the_unit_reads_the_volume_file_that_it_shows() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd");
    let unit = std::fs::read_to_string(format!("{folder}/nearhead@.service")).unwrap();
    for line in [
        "ExecStart=/usr/local/bin/nearhead serve --config /etc/nearhead/%i.toml",
        "StateDirectory=nearhead/%i",
        "RuntimeDirectory=nearhead/%i",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line:?} is missing");
    }
    assert!(!unit.contains("EnvironmentFile"));
    let shown: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    let scratch = Scratch::new("unitfile");
    create(&scratch);
    assert!(shown.iter().any(|line| line.starts_with("target = ")), "{shown:?}");
    let text = shown.join("\n").replace("/dev/disk/by-id/ata-EXAMPLE", &scratch.text("a.img"));
    std::fs::write(scratch.path("v.toml"), text).unwrap();
    let daemon = Daemon::spawn(&scratch, &["serve", "--config", "v.toml", "--socket", "nbd.sock"]);
    assert_eq!(phase(&scratch, &["status", "a.img"]), "serving");
    daemon.stop_ok();
}
