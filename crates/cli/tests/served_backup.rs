//! `backup-metadata` of a volume that is served: taken while clients write, it brings back everything that was
//! acknowledged before and after.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::blocks::{content, serve, zero, zero_slots, zero_superblocks};
use common::nbd::Client;
use common::{Daemon, Scratch, run_fails, run_json, run_ok};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Blocks that are written over and over while the backup is taken.
const HOT: u64 = 50;

#[test]
fn a_backup_taken_while_clients_write_brings_back_everything_acknowledged() {
    let scratch = Scratch::new("served-backup");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB", "--group-size", "16MiB"]);
    let daemon = serve(&scratch);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut last = vec![0; HOT as usize];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::connect(&daemon.socket).unwrap();
            let mut last = vec![0; HOT as usize];
            for number in 1.. {
                let block = number * 7 % HOT;
                client.write(block * 8192, &content(number), true);
                last[block as usize] = number;
                done.store(number, Ordering::SeqCst);
                // As many as the logs hold: none of their records is overwritten.
                if stop.load(Ordering::SeqCst) || number == 400 {
                    return last;
                }
            }
            unreachable!("numbers do not end")
        });
        let wait_for = |number| {
            while done.load(Ordering::SeqCst) < number && !writer.is_finished() {
                std::thread::yield_now();
            }
        };
        wait_for(20);
        let report = run_json(&scratch, &["backup-metadata", "a.img", "m.bak"]);
        assert_eq!(report["while_served"], true, "{report}");
        assert!(report["snapshot_number"].as_u64() > Some(0), "one of now: {report}");
        wait_for(done.load(Ordering::SeqCst) + 20);
        stop.store(true, Ordering::SeqCst);
        last = writer.join().unwrap();
    });
    daemon.kill();

    // Afterwards nothing is left but the backup and the logs.
    zero_slots(&scratch);
    zero_superblocks(&scratch);
    run_ok(&scratch, &["restore-metadata", "a.img", "m.bak"]);
    let daemon = serve(&scratch);
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (block, number) in (0..).zip(last).filter(|(_, number)| *number > 0) {
        assert_eq!(client.read(block * 8192, 4096), content(number), "block {block}");
    }
    drop(client);
    daemon.stop_ok();
}

#[test]
fn a_volume_that_is_served_read_only_gives_the_snapshot_that_is_there() {
    let scratch = Scratch::new("served-backup-ro");
    common::blocks::volume(&scratch, true);
    let daemon = Daemon::serve(&scratch, "a.img", &["--read-only"]);
    let before = common::blocks::image(&scratch);
    let served = run_json(&scratch, &["backup-metadata", "a.img", "served.bak"]);
    assert_eq!(common::blocks::image(&scratch), before, "nothing is written");
    daemon.stop_ok();
    let at_rest = run_json(&scratch, &["backup-metadata", "a.img", "rest.bak"]);
    assert_eq!(served["snapshot_number"], at_rest["snapshot_number"]);
    assert_eq!((&served["while_served"], &at_rest["while_served"]), (&true.into(), &false.into()));
}

#[test]
fn a_backup_is_never_written_over_a_file_and_leaves_none_behind_that_is_no_backup() {
    let scratch = Scratch::new("backup-file");
    common::blocks::volume(&scratch, true);
    std::fs::write(scratch.path("m.bak"), "mine").unwrap();
    run_fails(&scratch, &["backup-metadata", "a.img", "m.bak"], &["m.bak", "choose another name"]);
    assert_eq!(std::fs::read(scratch.path("m.bak")).unwrap(), b"mine");
    let emulated = "model:st3146855fc,file=disk.img";
    run_ok(&scratch, &["create", emulated, "--group-size", "1GiB"]);
    let daemon = Daemon::serve(&scratch, emulated, &[]);
    run_fails(&scratch, &["backup-metadata", emulated, "e.bak"], &["emulated", "stop the daemon"]);
    assert!(!scratch.path("e.bak").exists());
    daemon.stop_ok();
    run_ok(&scratch, &["backup-metadata", emulated, "e.bak"]);
    zero(&scratch, 0, 4096);
}
