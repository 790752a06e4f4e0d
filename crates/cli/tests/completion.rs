//! Completion: what is proposed where, as a shell is told it. What each shell makes of it is tried in `completion_in_shells.rs`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::attached::{Attached, can_attach};
use common::mounts::{can_mount, mount, unmount, volume};
use common::terminal::TRIES;
use common::{Daemon, Scratch, nearhead, run_json, run_ok, tools};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

const SMALL: [&str; 4] = ["create", "a.img", "--size", "64MiB"];

/// What the program answers a shell that has these words, the last one being typed.
fn asked(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = nearhead(scratch, &["--", "nearhead"]);
    command.args(words).env("NEARHEAD_COMPLETE", "zsh").stdin(Stdio::null());
    command.output().unwrap()
}

/// The candidates.
fn candidates(scratch: &Scratch, words: &[&str]) -> Vec<String> {
    let is_in_time = |output: &Output| output.status.success();
    let mut tries = (0..TRIES).map(|_| asked(scratch, words));
    let output = tries.find(is_in_time).unwrap();
    assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

/// The candidates with one that a daemon is asked for.
fn candidates_with(scratch: &Scratch, words: &[&str], one: &str) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..TRIES {
        all = candidates(scratch, words);
        if has(&all, one) {
            return all;
        }
    }
    panic!("{words:?}: expected {one}, found {all:?}");
}

fn has(all: &[String], one: &str) -> bool {
    all.iter().any(|other| other == one)
}

/// Options that a command's help lists.
fn options_in_help(scratch: &Scratch, command: &[&str]) -> Vec<String> {
    let help = run_ok(scratch, &[command, &["--help"]].concat());
    let named = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let long = line.strip_prefix("--").or_else(|| {
            line.strip_prefix('-').and_then(|line| line.get(1..)?.strip_prefix(", --"))
        })?;
        let end = long.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        Some(format!("--{}", &long[..end.unwrap_or(long.len())]))
    });
    named.collect()
}

#[test]
fn every_command_and_every_option_of_it_that_help_lists_is_proposed() {
    let scratch = Scratch::new("options");
    let commands = candidates(&scratch, &[""]);
    assert!(commands.len() > 30 && has(&commands, "serve"), "{commands:?}");
    for command in commands.iter().filter(|command| *command != "help") {
        let below = candidates(&scratch, &[command, ""]);
        let has_commands = ["disk", "wal"].contains(&command.as_str());
        let mut all = vec![vec![command.as_str()]];
        if has_commands {
            let own = below.iter().filter(|below| *below != "help");
            all.extend(own.map(|below| vec![command.as_str(), below.as_str()]));
        }
        for words in all {
            let proposed = candidates(&scratch, &[&words[..], &["--"]].concat());
            let listed = options_in_help(&scratch, &words);
            assert!(has(&listed, "--help"), "{words:?}: {listed:?}");
            for option in listed {
                assert!(has(&proposed, &option), "{words:?} {option}: {proposed:?}");
            }
        }
    }
    assert_eq!(candidates(&scratch, &["ope"]), ["open"], "another name of serve");
    assert!(has(&candidates(&scratch, &["open", "--sock"]), "--socket"));
}

#[test]
fn enumerations_presets_disks_figures_and_benches_are_proposed_where_they_are_named() {
    let scratch = Scratch::new("names");
    let first_words = |text: String| -> Vec<String> {
        let words = text.lines().filter_map(|line| line.split_whitespace().next());
        words.map(str::to_owned).collect()
    };
    let figures = first_words(run_ok(&scratch, &["figures", "--list"]));
    assert_eq!(candidates(&scratch, &["figures", ""]), figures);
    assert_eq!(candidates(&scratch, &["figures", &figures[0], ""]), figures);
    let mut disks = first_words(run_ok(&scratch, &["disk", "list"]));
    // What one does with them.
    assert_eq!(disks.pop().as_deref(), Some("use"));
    assert_eq!(candidates(&scratch, &["replay", "trace", "--disk", ""]), disks);
    let options = candidates(&scratch, &["replay", "trace", "--disk", "st3146855fc,"]);
    assert!(has(&options, "st3146855fc,cache="), "{options:?}");
    assert!(!has(&options, "st3146855fc,file="), "a replay keeps nothing: {options:?}");
    let as_targets: Vec<String> = disks.iter().map(|disk| format!("model:{disk}")).collect();
    for words in [["create", "model:"], ["disk serve", "model:"], ["serve", "model:"]] {
        let words: Vec<&str> = words.iter().flat_map(|words| words.split(' ')).collect();
        assert_eq!(candidates(&scratch, &words), as_targets, "{words:?}");
    }
    for command in ["create", "serve", "attach", "repair"] {
        let presets = candidates(&scratch, &[command, "--preset", "ml"]);
        assert_eq!(presets, ["mlb", "mlb-32", "mlb-256", "mlsmr"], "{command}");
        let all = candidates(&scratch, &[command, "--preset", ""]);
        for preset in nearhead_volume::PRESETS {
            assert!(has(&all, preset.name), "{command}: {} is missing", preset.name);
        }
    }
    assert_eq!(
        candidates(&scratch, &["replay", "t", "--preset=nolog,ge"]),
        ["--preset=nolog,gecko"]
    );
    assert_eq!(candidates(&scratch, &["bench", "wal-b"]), ["wal-beside"]);
    assert_eq!(candidates(&scratch, &["create", "a", "--ack", "d"]), ["durable"]);
    assert_eq!(candidates(&scratch, &["mount", "-o", "ro,mode=o", "a"]), Vec::<String>::new());
    assert!(candidates(&scratch, &["mount", "-o", "ro,noa"]).contains(&"ro,noatime".to_owned()));
    assert_eq!(candidates(&scratch, &["replay", "t", "--format", "fio"]), ["fio-iolog"]);
    assert!(has(&candidates(&scratch, &["run", "--", "s"]), "sh"), "a program");
}

#[test]
fn what_is_served_is_proposed_to_who_asks_a_daemon_and_not_to_who_wants_the_disk() {
    let scratch = Scratch::new("served");
    run_ok(&scratch, &SMALL);
    std::fs::write(scratch.path("b.img"), "").unwrap();
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    for command in ["status", "checkpoint", "drain", "hint", "grow", "backup-metadata"] {
        let all = candidates_with(&scratch, &[command, ""], "a.img");
        assert!(has(&all, "b.img"), "{command}: {all:?}");
        assert!(has(&all, "model:"), "{command}: {all:?}");
        assert_eq!(all.iter().filter(|one| *one == "a.img").count(), 1, "{command}: {all:?}");
    }
    for command in ["stop", "set"] {
        let all = candidates_with(&scratch, &[command, ""], "a.img");
        assert!(!has(&all, "b.img"), "{command}: {all:?}");
        let by_path = candidates_with(&scratch, &[command, "./"], "./a.img");
        assert!(!has(&by_path, "./b.img"), "{command}: {by_path:?}");
    }
    for command in [
        "create",
        "serve",
        "attach",
        "mkfs",
        "mount",
        "check",
        "dump",
        "repair",
        "fsck",
        "calibrate",
        "forget-log",
        "restore-metadata",
    ] {
        let all = candidates(&scratch, &[command, ""]);
        assert!(!has(&all, "a.img") && has(&all, "b.img"), "{command}: {all:?}");
        assert!(has(&all, "mirror:"), "{command}: {all:?}");
    }
    let file = candidates(&scratch, &["backup-metadata", "b.img", ""]);
    assert!(has(&file, "b.img") && !has(&file, "model:"), "the second is a file: {file:?}");
    let more = candidates(&scratch, &["create", "b.img", "--data-devices", "missing,"]);
    assert!(has(&more, "missing,b.img") && !has(&more, "missing,a.img"), "{more:?}");
    daemon.kill();
    assert!(!has(&candidates(&scratch, &["stop", ""]), "a.img"), "nobody is there");
    assert!(has(&candidates(&scratch, &["serve", ""]), "a.img"), "it can be served again");
}

#[test]
fn a_volume_is_proposed_by_a_name_that_leads_to_it_from_where_the_user_is() {
    let scratch = Scratch::new("elsewhere");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    std::fs::create_dir(scratch.path("folder")).unwrap();
    // Another one by the same name.
    std::fs::write(scratch.path("folder/a.img"), "").unwrap();
    let expected = format!("{}\tnearhead, ", scratch.text("a.img"));
    let is_told = |told: &String| told.lines().any(|line| line.starts_with(&expected));
    let mut tries = (0..TRIES).map(|_| {
        let mut command = nearhead(&scratch, &["--", "nearhead", "stop", ""]);
        command.env("NEARHEAD_COMPLETE", "fish").current_dir(scratch.path("folder"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    });
    let told = tries.find(is_told).unwrap();
    assert!(!told.lines().any(|line| line.starts_with("a.img")), "{told}");
    daemon.stop_ok();
}

#[test]
fn settings_are_proposed_by_name_and_with_the_value_that_they_have() {
    let scratch = Scratch::new("settings");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &["--watermark", "61"]);
    let listed = run_json(&scratch, &["set", "a.img"]);
    let names = listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let expected: Vec<String> = names.map(|name| format!("{name}=")).collect();
    assert_eq!(candidates(&scratch, &["set", "a.img", ""]), expected);
    let words = ["set", "a.img", "bulk_share=0", "watermark="];
    let value = candidates_with(&scratch, &words, "watermark=61");
    assert_eq!(value, ["watermark=61"]);
    assert!(candidates(&scratch, &["set", "b.img", "watermark="]).is_empty(), "nobody serves it");
    daemon.stop_ok();
}

#[test]
fn a_daemon_that_does_not_answer_is_left_out_and_the_others_are_not() {
    let scratch = Scratch::new("hangs");
    run_ok(&scratch, &SMALL);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    // It listens and takes nobody in.
    let silent = UnixListener::bind(scratch.path("run/silent.control")).unwrap();
    candidates_with(&scratch, &["stop", ""], "a.img");
    drop(silent);
    daemon.stop_ok();
}

#[test]
fn attached_volumes_are_proposed_by_name_to_who_takes_them_away_and_not_to_stop() {
    if !can_attach() {
        return;
    }
    let scratch = Scratch::new("names-attached");
    let attached = Attached::new(&scratch, "complete", &[]);
    for command in ["detach", "upgrade", "grow"] {
        let all = candidates(&scratch, &[command, ""]);
        assert!(has(&all, &attached.name), "{command}: {all:?}");
        let devices = candidates(&scratch, &[command, "/dev/nearhead/"]);
        assert!(has(&devices, &attached.device()), "{command}: {devices:?}");
    }
    candidates_with(&scratch, &["status", ""], &attached.target);
    assert!(!has(&candidates(&scratch, &["stop", ""]), &attached.target), "it would be refused");
}

#[test]
fn a_mounted_volume_is_proposed_by_its_folder_to_umount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new("names-mounted");
    let (image, folder) = volume(&scratch, "256M");
    let mounted = mount(&scratch, &image, &folder, &[]);
    let folder_text = folder.to_str().unwrap();
    let all = candidates_with(&scratch, &["umount", ""], folder_text);
    assert!(!has(&all, &image), "{all:?}");
    for command in ["status", "stop", "set"] {
        let all = candidates_with(&scratch, &[command, ""], folder_text);
        assert!(has(&all, &image), "{command}: {all:?}");
    }
    unmount(&scratch, &folder, mounted);
}

#[test]
fn nothing_but_candidates_is_printed_whatever_the_line_and_the_folder_hold() {
    let scratch = Scratch::new("odd");
    std::fs::write(scratch.path("line\nbreak"), "").unwrap();
    std::fs::write(scratch.path("escape\u{1b}[31m"), "").unwrap();
    std::fs::write(scratch.path("plain"), "").unwrap();
    let files = candidates(&scratch, &["check", ""]);
    assert!(has(&files, "plain") && !files.iter().any(|one| one.contains("line")), "{files:?}");
    assert!(!files.iter().any(|one| one.contains(char::is_control)), "{files:?}");
    for words in [
        &["nonsense", ""][..],
        &["status", "--nonsense", ""],
        &["set", "none", "nonsense="],
        &["set", "--control", "plain", "x", "watermark="],
        &["create", "mirror:[[,],"],
        &["create", "raid0:[mirror:a,[b"],
        &["create", "model:,,=,"],
        &["create", "model:none,cache=x,"],
        &["create", "nbd+unix:///?socket=/no/such/"],
        &["status", "\u{e4}\u{1f5b4}", ""],
        &["--", "", ""],
        &["help", "help", "help", ""],
        &["-", "--", "---"],
    ] {
        candidates(&scratch, words);
    }
    let bash = |line: &str, point: &str| {
        let mut command = nearhead(&scratch, &["--"]);
        command.env("NEARHEAD_COMPLETE", "bash").env("COMP_WORDBREAKS", "=:");
        let output = command.env("COMP_LINE", line).env("COMP_POINT", point).output().unwrap();
        assert!(output.stderr.is_empty(), "{line:?} {point:?}: {output:?}");
    };
    for point in ["", "-1", "0", "5", "99999999999999999999", "x"] {
        bash("nearhead st", point);
        bash("\u{e4}'\"\\", point);
    }
}

#[test]
fn a_shell_that_is_not_known_or_a_command_behind_the_variable_is_refused_and_nothing_is_done() {
    let scratch = Scratch::new("refused");
    for (shell, args, expected) in [
        ("tcsh", &[][..], "expected bash, zsh or fish, found tcsh;"),
        ("bash", &SMALL, "expected nothing or -- behind the program's name, found create;"),
    ] {
        let output = nearhead(&scratch, args).env("NEARHEAD_COMPLETE", shell).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    assert!(!scratch.path("a.img").exists());
    let output = nearhead(&scratch, &["presets"]).env("NEARHEAD_COMPLETE", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "empty is unset: {output:?}");
}

#[test]
fn nothing_that_is_proposed_was_opened() {
    if !tools(&["strace"]) {
        return;
    }
    let scratch = Scratch::new("unopened");
    run_ok(&scratch, &SMALL);
    run_ok(&scratch, &["create", "b.img", "--size", "64MiB"]);
    let daemon = Daemon::serve(&scratch, "b.img", &[]);
    let calls = scratch.path("calls");
    for words in [["status", ""], ["create", ""], ["create", "/dev/"], ["create", "mirror:b.img,"]]
    {
        let mut command = Command::new("strace");
        command.args([
            "-f",
            "-e",
            "trace=open,openat,openat2,creat,mknod,unlink,unlinkat,rename",
            "-o",
        ]);
        command.arg(&calls).args([env!("CARGO_BIN_EXE_nearhead"), "--", "nearhead"]).args(words);
        command.env("NEARHEAD_COMPLETE", "zsh").current_dir(scratch.path(""));
        let output = command.env("RUNTIME_DIRECTORY", scratch.path("run")).output().unwrap();
        if !output.status.success() {
            println!("skipped: strace: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        assert!(!output.stdout.is_empty(), "{words:?}");
        let calls = std::fs::read_to_string(&calls).unwrap();
        let is_change = |line: &&str| {
            line.contains("O_WRONLY") || line.contains("O_RDWR") || !line.contains("open")
        };
        let is_ours = |line: &&str| line.contains(".img\"") || line.contains("\"/dev/");
        let opened = calls
            .lines()
            .filter(|line| line.contains('('))
            .filter(|line| is_change(line) || (is_ours(line) && !line.contains("O_DIRECTORY")));
        assert_eq!(opened.collect::<Vec<_>>(), Vec::<&str>::new(), "{words:?}");
    }
    daemon.stop_ok();
}
