//! What an operator does with a mounted file system: looks at it, has it empty its logs, and stops it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::mounts::{assert_clean, can_mount, mount, unmount, volume};
use common::{Scratch, run_fails, run_json, run_ok};
use std::fs::File;
use std::io::Write;

#[test]
fn a_mounted_volume_is_asked_by_its_target_or_its_folder() {
    let scratch = Scratch::new("fs-control");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let place = folder.to_str().unwrap();
    let daemon = mount(&scratch, &image, &folder, &[]);
    let mut small = File::create(folder.join("small")).unwrap();
    small.write_all(&[1; 5000]).unwrap();
    small.sync_all().unwrap();
    let mut large = File::create(folder.join("large")).unwrap();
    large.write_all(&vec![2; 3 << 20]).unwrap();
    large.sync_all().unwrap();
    large.write_all(&[3; 100]).unwrap();
    for target in [&image, place] {
        let told = run_json(&scratch, &["status", target]);
        let files = &told["file_system"];
        assert_eq!(told["health"]["state"], "well", "{told}");
        assert_eq!((&files["mode"], &files["folder"]), (&"manylogs".into(), &place.into()));
        assert_eq!(files["dirty_bytes"], 4096, "the last page: {files}");
        assert!(files["commits"].as_u64().unwrap() >= 2, "{files}");
        assert!(files["record_bytes"].as_u64().unwrap() >= 8192, "{files}");
        assert_eq!(files["in_place_bytes"], 3 << 20, "{files}");
        assert!(files["files_held"].as_u64().unwrap() >= 2, "{files}");
    }
    let words = run_ok(&scratch, &["status", place]);
    assert!(words.contains(&format!("at {place} (manylogs)")), "{words}");
    let told = run_json(&scratch, &["status", place]);
    assert!(told["state"]["map_entries"].as_u64().unwrap() > 0, "a log has something: {told}");
    run_ok(&scratch, &["checkpoint", place]);
    run_ok(&scratch, &["hint", &image, "--offset", "0", "--len", "4096", "--kind", "normal"]);
    let beyond = ["hint", &image, "--offset", "1T", "--len", "4096", "--kind", "normal"];
    run_fails(&scratch, &beyond, &["hint"]);
    drop(small);
    drop(large);
    let told = run_ok(&scratch, &["drain", place, "--stop"]);
    assert!(told.contains("the daemon is stopping"), "{told}");
    let (status, _, problems) = daemon.into_daemon().wait();
    assert!(status.success(), "{status}: {problems}");
    assert_clean(&scratch, &image);
    let told = run_json(&scratch, &["status", &image]);
    assert_eq!(
        (&told["state"]["phase"], &told["file_system"]),
        (&"at rest".into(), &None::<()>.into())
    );
}

#[test]
fn metrics_of_a_mount_are_those_of_a_volume_and_its_own() {
    let scratch = Scratch::new("fs-metrics");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let socket = scratch.text("named.control");
    let daemon = mount(&scratch, &image, &folder, &["--control", &socket]);
    std::fs::write(folder.join("a"), "written").unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let mut ask = |command: &str| {
        writeln!(stream, "{command}").unwrap();
        let mut line = String::new();
        let mut reader = std::io::BufReader::new(&stream);
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    assert_eq!(ask("sync")["ok"], "done");
    let text = ask("metrics")["ok"].as_str().unwrap().to_owned();
    for line in ["nearhead_serving 1", "nearhead_fs_commits_total 1", "nearhead_fs_dirty_bytes 0"] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(ask("nosuch")["error"].as_str().unwrap().contains("expected one of status"));
    drop(stream);
    unmount(&scratch, &folder, daemon);
    assert!(!std::path::Path::new(&socket).exists());
}
