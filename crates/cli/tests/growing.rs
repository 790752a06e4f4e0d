//! A volume that follows a larger disk, with the real program: at rest, served, and attached; and one that gives space back.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;
#[path = "growing/space.rs"]
mod space;

use common::attached::{Attached, BLOCK, block_of, can_attach};
use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok, tool_ok};
use nearhead_disk::BufferMut;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn a_grown_image_keeps_its_content_and_serves_more() {
    for preset in ["mlb", "nolog"] {
        let scratch = Scratch::new("grow");
        run_ok(&scratch, &["create", "a.img", "--size", "128MiB", "--preset", preset]);
        let daemon = Daemon::serve(&scratch, "a.img", &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        let size = client.size_bytes;
        client.write(0, &pattern(1, 4096), true);
        client.write(size - 4096, &pattern(2, 4096), true);
        daemon.stop_ok();
        run_fails(&scratch, &["grow", "a.img"], &["expected a device larger", "134217728"]);
        std::fs::File::options()
            .write(true)
            .open(scratch.path("a.img"))
            .unwrap()
            .set_len(256 << 20)
            .unwrap();
        // Not grown yet, a larger device is the same volume without findings.
        run_ok(&scratch, &["check", "a.img"]);
        let plan = run_json(&scratch, &["grow", "a.img", "--dry-run"]);
        assert_eq!(plan["done"], false);
        let grown = run_json(&scratch, &["grow", "a.img"]);
        assert_eq!(grown["client_bytes_after"], plan["client_bytes_after"]);
        run_ok(&scratch, &["check", "a.img"]);
        let daemon = Daemon::serve(&scratch, "a.img", &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        assert_eq!(Some(client.size_bytes), grown["client_bytes_after"].as_u64());
        assert!(
            client.size_bytes >= size + (100 << 20),
            "{preset}: {} after {size}",
            client.size_bytes
        );
        assert_eq!(client.read(0, 4096), pattern(1, 4096));
        assert_eq!(client.read(size - 4096, 4096), pattern(2, 4096));
        let end = client.size_bytes - 4096;
        for start in (size..client.size_bytes).step_by(1 << 20) {
            let len = (client.size_bytes - start).min(1 << 20) as u32;
            assert!(
                client.read(start, len).iter().all(|byte| *byte == 0),
                "{preset}: new space at {start}"
            );
        }
        client.write(end, &pattern(3, 4096), true);
        assert_eq!(client.read(end, 4096), pattern(3, 4096));
        daemon.stop_ok();
    }
}

#[test]
fn a_served_volume_grows_while_its_clients_wait_and_none_gets_an_error() {
    let scratch = Scratch::new("grow-served");
    run_ok(&scratch, &["create", "a.img", "--size", "128MiB", "--preset", "mlb"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let size = client.size_bytes;
    client.write(size - 4096, &pattern(1, 4096), false);
    run_fails(&scratch, &["grow", "a.img"], &["expected a device larger", "134217728"]);
    let image = std::fs::File::options().write(true).open(scratch.path("a.img")).unwrap();
    image.set_len(256 << 20).unwrap();
    let plan = run_json(&scratch, &["grow", "a.img", "--dry-run"]);
    assert_eq!(plan["done"], false);
    assert_eq!(Client::connect(&daemon.socket).unwrap().size_bytes, size, "nothing was done");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let socket = daemon.socket.clone();
    let writer = std::thread::spawn(move || {
        let mut client = Client::connect(&socket).unwrap();
        let mut writes = 0_u8;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            writes = writes.wrapping_add(1);
            client.write(0, &pattern(writes, 4096), writes.is_multiple_of(8));
        }
        assert_eq!(client.read(0, 4096), pattern(writes, 4096));
    });
    let grown = run_json(&scratch, &["grow", "a.img"]);
    assert_eq!(grown["client_bytes_after"], plan["client_bytes_after"]);
    drop(stop);
    writer.join().expect("no error reaches who writes meanwhile");
    // Who was there knows the size that it was told, and goes on.
    assert_eq!(client.read(size - 4096, 4096), pattern(1, 4096));
    // Who comes is told the new one, a tick of the daemon later at the latest.
    let mut client = loop {
        let client = Client::connect(&daemon.socket).unwrap();
        if client.size_bytes != size {
            break client;
        }
    };
    assert_eq!(Some(client.size_bytes), grown["client_bytes_after"].as_u64());
    let end = client.size_bytes - 4096;
    client.write(end, &pattern(3, 4096), true);
    assert_eq!(client.read(end, 4096), pattern(3, 4096));
    let status = run_json(&scratch, &["status", "a.img"]);
    assert_eq!(status["volume"]["client_bytes"], grown["client_bytes_after"]);
    daemon.stop_ok();
    run_ok(&scratch, &["check", "a.img"]);
}

/// An image that begins at 64 MiB and becomes 4 GiB; what growing reports.
fn grown(scratch: &Scratch, image: &str, more: &[&str]) -> Value {
    let mut args = vec!["create", image, "--size", "64MiB", "--group-size", "2MiB"];
    args.extend_from_slice(more);
    run_ok(scratch, &args);
    let file = std::fs::File::options().write(true).open(scratch.path(image)).unwrap();
    file.set_len(4 << 30).unwrap();
    let grown = run_json(scratch, &["grow", image]);
    run_ok(scratch, &["check", image]);
    grown
}

#[test]
fn a_volume_grows_far_and_with_room_kept_at_creation_its_logs_stay_usable() {
    let scratch = Scratch::new("room");
    let bounded = grown(&scratch, "a.img", &[]);
    let roomy = grown(&scratch, "b.img", &["--grow-to", "4GiB"]);
    assert_eq!(roomy["map_room_pct"], 100, "{roomy}");
    assert!(bounded["map_room_pct"].as_u64().unwrap() < 100, "{bounded}");
    for (image, grown) in [("a.img", bounded), ("b.img", roomy)] {
        let size = grown["client_bytes_after"].as_u64().unwrap();
        assert!(size > 2 << 30, "{grown}");
        let daemon = Daemon::serve(&scratch, image, &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        assert_eq!(client.size_bytes, size);
        client.write(size - 4096, &pattern(1, 4096), true);
        daemon.kill();
        let daemon = Daemon::serve(&scratch, image, &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        assert_eq!(client.read(size - 4096, 4096), pattern(1, 4096));
        daemon.stop_ok();
    }
}

/// What its worker answers on its control socket.
fn ask_worker(attached: &Attached<'_>, command: &str) -> String {
    let facts = Path::new("/run/nearhead/attached").join(&attached.name).join("facts.json");
    let facts: serde_json::Value = serde_json::from_slice(&std::fs::read(facts).unwrap()).unwrap();
    let mut socket = UnixStream::connect(facts["control"].as_str().unwrap()).unwrap();
    writeln!(socket, "{command}").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    line
}

/// Whether the device can be given another size while it is used: the ublk driver before Linux 6.16 cannot.
fn can_resize(attached: &Attached<'_>) -> bool {
    let number = std::fs::canonicalize(attached.device()).unwrap();
    let is_ublk = number.to_string_lossy().contains("ublk");
    if is_ublk {
        println!("skipped: the ublk driver before Linux 6.16 keeps the size of a device");
    }
    !is_ublk
}

#[test]
fn it_grows_while_it_is_used_and_its_device_has_the_new_size() {
    let scratch = Scratch::new("attach-grow");
    if !can_attach() {
        return;
    }
    let attached = Attached::new(&scratch, "grow", &[]);
    if !can_resize(&attached) {
        return;
    }
    let (device, image) = (attached.device(), attached.target.clone());
    let size = || tool_ok("blockdev", &["--getsize64", &device]).trim().parse::<u64>().unwrap();
    let file = attached.open();
    let lengthen =
        |bytes| OpenOptions::new().write(true).open(&image).unwrap().set_len(bytes).unwrap();
    let write = &|number: usize, fill: u8| {
        let mut block = BufferMut::zeroed(BLOCK);
        block.fill(fill);
        file.write_all_at(&block, (number * BLOCK) as u64).unwrap();
    };
    let before = size();
    run_fails(&scratch, &["grow", &attached.name], &["expected a device larger"]);
    lengthen(256 << 20);
    let (stop, stopped) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Somebody uses it all the time; an error would end this.
            let mut newest = 0_u8;
            while stopped.try_recv().is_err_and(|error| error == TryRecvError::Empty) {
                newest = newest.wrapping_add(1);
                write(3, newest);
            }
        });
        let told = run_ok(&scratch, &["grow", &attached.name]);
        assert!(told.contains(&format!("{device} has the size of the volume")), "{told}");
        drop(stop);
    });
    let after = size();
    assert!(after > before + (100 << 20), "{after} after {before}");
    let last = after as usize / BLOCK - 1;
    write(last, 9);
    attached.kill_worker();
    assert_eq!(block_of(&file, last), [9; BLOCK], "another worker has the new size, too");
    // Whoever asked for it ends before the device is told.
    lengthen(384 << 20);
    attached.answering_worker();
    let answer = ask_worker(&attached, "grow");
    assert!(answer.starts_with("{\"ok\""), "{answer}");
    while ask_worker(&attached, "grown").contains("under_way") {}
    assert_eq!(size(), after);
    run_ok(&scratch, &["grow", &attached.name]);
    assert!(size() > after + (100 << 20));
    run_fails(&scratch, &["grow", &attached.name], &["expected a device larger"]);
    drop(file);
    attached.detach(&[]);
    run_ok(&scratch, &["check", &image]);
}

#[test]
fn a_volume_does_not_grow_over_what_others_know() {
    let scratch = Scratch::new("grow-over");
    let image = scratch.text("disk.img");
    run_ok(&scratch, &["create", &image, "--size", "256M"]);
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(640 << 20).unwrap();
    let end = 640 << 20;
    for (offset, bytes, name) in [
        (256 << 20, &b"XFSB"[..], "XFS file system (at byte 268435456)"),
        (end - 512, b"EFI PART", "GPT partition table (copy)"),
    ] {
        file.write_all_at(bytes, offset).unwrap();
        run_fails(&scratch, &["grow", &image], &["expected nothing of others", name]);
        run_fails(&scratch, &["grow", &image, "--dry-run"], &[name]);
        file.write_all_at(&vec![0; bytes.len()], offset).unwrap();
    }
    // Data of an unknown kind is what most devices have there.
    file.write_all_at(&[7; 4096], 300 << 20).unwrap();
    run_ok(&scratch, &["grow", &image]);
}
