//! What an operator does with a mounted file system: looks at it, has it empty its logs, and stops it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "mounted_tools/options.rs"]
mod options;

use common::mounts::{assert_clean, can_mount, mount, unmount, volume};
use common::{
    Scratch, nearhead, preload_library, run_fails, run_json, run_ok, tool, tool_ok, tools,
};
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::Path;

#[test]
fn a_mounted_volume_is_asked_by_its_target_or_its_folder() {
    let scratch = Scratch::new("fs-control");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let place = folder.to_str().unwrap();
    let daemon = mount(&scratch, &image, &folder, &["-o", "commit=3600"]);
    std::fs::write(folder.join("large"), "old").unwrap();
    let mut small = File::create(folder.join("small")).unwrap();
    small.write_all(&[1; 5000]).unwrap();
    small.sync_all().unwrap();
    // Nothing of a file that was cut to nothing is made durable early until it is closed.
    let mut large = File::create(folder.join("large")).unwrap();
    large.write_all(&vec![2; 3 << 20]).unwrap();
    large.sync_all().unwrap();
    for target in [&image, place] {
        // A child of this process closes its copy of the descriptor, and the page may be durable before the child is answered.
        let mut ask = || {
            large.write_all(&[3; 100]).unwrap();
            run_json(&scratch, &["status", target])
        };
        let is_dirty = |found: &serde_json::Value| found["file_system"]["dirty_bytes"] == 4096;
        let told = (0..20).map(|_| ask()).find(is_dirty);
        let told = told.expect("the last page is dirty while it is new");
        let files = &told["file_system"];
        assert_eq!(told["health"]["state"], "well", "{told}");
        assert_eq!((&files["mode"], &files["folder"]), (&"nearhead".into(), &place.into()));
        assert!(files["commits"].as_u64().unwrap() >= 2, "{files}");
        assert!(files["record_bytes"].as_u64().unwrap() >= 8192, "{files}");
        assert_eq!(files["in_place_bytes"], 3 << 20, "{files}");
        assert!(files["files_held"].as_u64().unwrap() >= 2, "{files}");
    }
    let words = run_ok(&scratch, &["status", place]);
    assert!(words.contains(&format!("at {place} (nearhead)")), "{words}");
    let told = run_json(&scratch, &["status", place]);
    assert!(told["state"]["map_entries"].as_u64().unwrap() > 0, "a log has something: {told}");
    run_ok(&scratch, &["checkpoint", place]);
    run_ok(&scratch, &["drain", place, "--cancel"]);
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
        common::json::parse(&line).unwrap()
    };
    assert_eq!(ask("sync")["ok"], "done");
    let text = ask("metrics")["ok"].as_str().unwrap().to_owned();
    for (name, value) in [("serving", 1), ("fs_commits_total", 1), ("fs_dirty_bytes", 0)] {
        let line = format!("nearhead_{name}{{volume=\"{image}\"}} {value}");
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(ask("nosuch")["error"].as_str().unwrap().contains("expected one of status"));
    drop(stream);
    unmount(&scratch, &folder, daemon);
    assert!(!std::path::Path::new(&socket).exists());
}

/// The letters that `lsattr` shows of a file or folder.
fn letters(path: &Path) -> String {
    let told = tool_ok("lsattr", &["-d", path.to_str().unwrap()]);
    told.split_whitespace().next().unwrap().replace('-', "")
}

fn chattr(change: &str, path: &Path) {
    tool_ok("chattr", &[change, path.to_str().unwrap()]);
}

fn refused<T>(result: std::io::Result<T>) -> bool {
    // EPERM, and not EACCES: by the flags, not by the mode.
    result.err().and_then(|error| error.raw_os_error()) == Some(1)
}

#[test]
fn chattr_and_lsattr_do_what_they_do_on_ext4() {
    let scratch = Scratch::new("fs-flags");
    if !can_mount() || !tools(&["lsattr", "chattr"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &["-o", "commit=3600"]);
    let path = folder.join("file");
    let mut open = File::create(&path).unwrap();
    open.write_all(b"not synced before it is immutable").unwrap();
    assert_eq!(letters(&path), "e");
    chattr("+i", &path);
    assert_eq!(letters(&path), "ie");
    assert!(refused(open.write_all(b"more")), "through a descriptor that was open");
    assert!(refused(open.set_len(3)) && refused(open.set_len(1 << 20)));
    assert!(
        refused(std::fs::remove_file(&path))
            && refused(std::fs::hard_link(&path, folder.join("b")))
    );
    assert!(refused(std::fs::rename(&path, folder.join("b"))));
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    assert!(refused(std::fs::set_permissions(&path, mode.clone())));
    chattr("-i", &path);
    chattr("+a", &path);
    open.rewind().unwrap();
    assert!(refused(open.write_all(b"x")) && refused(open.set_len(1)));
    assert!(refused(std::fs::remove_file(&path)) && refused(std::fs::set_permissions(&path, mode)));
    let mut appending = OpenOptions::new().append(true).open(&path).unwrap();
    appending.write_all(b", and appended").unwrap();
    chattr("-a", &path);
    for flags in ["+d", "+A", "+S", "-S"] {
        chattr(flags, &path);
    }
    assert_eq!(letters(&path), "dAe");
    let told = tool("chattr", &["+c", path.to_str().unwrap()]);
    assert!(!told.status.success(), "nothing compresses: {told:?}");
    let inside = folder.join("inside");
    std::fs::create_dir(&inside).unwrap();
    chattr("+i", &inside);
    assert!(refused(File::create(inside.join("a"))));
    chattr("-i", &inside);
    chattr("+a", &inside);
    std::fs::write(inside.join("a"), "new names are added").unwrap();
    assert!(refused(std::fs::remove_file(inside.join("a"))));
    chattr("-a", &inside);
    chattr("+D", &inside);
    // While a file is cut to nothing and not closed, no commit begins without a request.
    std::fs::write(folder.join("cut"), "old").unwrap();
    let cut = File::create(folder.join("cut")).unwrap();
    run_ok(&scratch, &["sync", &image]);
    let commits = |target: &str| {
        let told = run_json(&scratch, &["status", target]);
        told["file_system"]["commits"].as_u64().unwrap()
    };
    let before = commits(&image);
    std::fs::remove_file(inside.join("a")).unwrap();
    assert_eq!(commits(&image), before + 1, "a name that is gone is durably gone");
    drop((open, appending, cut));
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
    let daemon = mount(&scratch, &image, &folder, &[]);
    assert_eq!((letters(&path), letters(&inside)), ("dAe".to_owned(), "De".to_owned()));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "not synced before it is immutable, and appended");
    unmount(&scratch, &folder, daemon);
}

#[test]
fn chattr_j_is_durability_only_and_is_inherited() {
    let scratch = Scratch::new("fs-durable");
    if !can_mount() || !tools(&["lsattr", "chattr"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let logs = folder.join("logs");
    std::fs::create_dir(&logs).unwrap();
    chattr("+j", &logs);
    let log = logs.join("1");
    let in_place = || {
        let told = run_json(&scratch, &["status", &image]);
        told["file_system"]["in_place_bytes"].as_u64().unwrap()
    };
    let mut file = File::create(&log).unwrap();
    file.write_all(&vec![7; 700_000]).unwrap();
    file.sync_all().unwrap();
    assert_eq!((letters(&log), letters(&logs)), ("je".to_owned(), "je".to_owned()));
    assert_eq!(in_place(), 0, "long writes as well go to records");
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(&log, "user.nearhead.durability", &mut value).unwrap();
    assert_eq!(&value[..len], b"only");
    chattr("-j", &log);
    assert_eq!(letters(&log), "e");
    file.rewind().unwrap();
    file.write_all(&vec![8; 700_000]).unwrap();
    file.sync_all().unwrap();
    assert!(in_place() >= 700_000 - 4096, "as any other file again");
    drop(file);
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn files_that_programs_open_with_o_dur_are_durability_only() {
    let scratch = Scratch::new("fs-o-dur");
    if !can_mount() || !tools(&["lsattr", "cc"]) {
        return;
    }
    let Some(library) = preload_library() else { return };
    let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload");
    let (include, program) = (preload.join("include"), scratch.text("durability"));
    let source = preload.join("tests/programs/durability.c");
    let (include, source) = (include.to_str().unwrap(), source.to_str().unwrap());
    tool_ok("cc", &["-Wall", "-Werror", "-I", include, source, "-o", &program]);
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let mut command = nearhead(&scratch, &["run", "--o-dur", "--", &program]);
    let output = command.arg(&folder).env("NEARHEAD_PRELOAD", library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.lines().all(|line| line.ends_with(" nearhead")), "{told}");
    for (name, expected) in [("open", "je"), ("openat64", "je"), ("again", "je"), ("plain", "e")] {
        assert_eq!(letters(&folder.join(name)), expected, "{name}");
    }
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn what_is_freed_is_told_to_the_volume_and_fstrim_tells_all_that_is_free() {
    let scratch = Scratch::new("fs-trim");
    if !can_mount() || !tools(&["fstrim"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "512M");
    let stored =
        || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&image).unwrap()) * 512;
    let trimmed = || {
        let told = run_json(&scratch, &["status", &image]);
        told["file_system"]["trimmed_bytes"].as_u64().unwrap()
    };
    for (option, is_told) in [("discard", true), ("nodiscard", false)] {
        let daemon = mount(&scratch, &image, &folder, &["-o", option]);
        let path = folder.join("large");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![7; 40 << 20]).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let before = stored();
        std::fs::remove_file(&path).unwrap();
        File::open(&folder).unwrap().sync_all().unwrap();
        // It is told once the commit is durable, beside what others ask; each question gives it time.
        let questions = if is_told { 200 } else { 1 };
        let was_told = (0..questions).any(|_| trimmed() >= 40 << 20);
        assert_eq!(was_told, is_told, "{option}: {}", trimmed());
        std::fs::write(folder.join("small"), vec![9; 100_000]).unwrap();
        unmount(&scratch, &folder, daemon);
        assert_eq!(stored() + (39 << 20) < before, is_told, "{option}: the image is smaller");
        assert_clean(&scratch, &image);
    }
    let daemon = mount(&scratch, &image, &folder, &[]);
    let told = tool_ok("fstrim", &["-v", folder.to_str().unwrap()]);
    assert!(trimmed() > 300 << 20, "{told}");
    assert_eq!(std::fs::read(folder.join("small")).unwrap(), vec![9; 100_000]);
    unmount(&scratch, &folder, daemon);
    assert!(stored() < 40 << 20, "what was not told before is given back now: {}", stored());
    assert_clean(&scratch, &image);
}

#[test]
fn reading_changes_the_time_of_access_as_the_mount_says() {
    let scratch = Scratch::new("fs-atime");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let path = folder.join("file");
    let accessed = || std::fs::metadata(&path).unwrap().accessed().unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for (option, is_kept) in [("noatime", false), ("relatime", true), ("strictatime", true)] {
        let daemon = mount(&scratch, &image, &folder, &["-o", option]);
        std::fs::write(&path, "text").unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_times(std::fs::FileTimes::new().set_accessed(old)).unwrap();
        drop(file);
        unmount(&scratch, &folder, daemon);
        // Nothing is in the kernel's cache now.
        let daemon = mount(&scratch, &image, &folder, &["-o", option]);
        assert_eq!(accessed(), old);
        std::fs::read(&path).unwrap();
        assert_eq!(accessed() > old, is_kept, "{option}");
        unmount(&scratch, &folder, daemon);
        let daemon = mount(&scratch, &image, &folder, &["-o", option]);
        assert_eq!(accessed() > old, is_kept, "{option}: after it was unmounted");
        unmount(&scratch, &folder, daemon);
    }
    assert_clean(&scratch, &image);
}
