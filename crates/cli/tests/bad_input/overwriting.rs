//! What is there is named and kept: by `mkfs`, by the files of emulated disks, and when `create` is interrupted.

use crate::common::nbd::Client;
use crate::common::{Daemon, Scratch, nearhead, run_fails, run_ok};

#[test]
fn mkfs_refuses_whatever_is_on_the_volume_and_names_it() {
    let scratch = Scratch::new("mkfs-over");
    let size: u64 = 900 << 20;
    run_ok(&scratch, &["create", "disk.img", "--size", "1G"]);
    let mut before: Option<(u64, Vec<u8>, &str)> = None;
    for (offset, bytes, name) in [
        (0, &b"XFSB"[..], "XFS file system"),
        (65_536 + 64, b"_BHRfS_M", "btrfs file system"),
        (0, b"bluestore block device\n", "Ceph BlueStore device"),
        (size - 8192, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0], "Linux RAID 1.0 member"),
        (777, b"a letter", "data of an unknown kind"),
    ] {
        let daemon = Daemon::serve(&scratch, "disk.img", &[]);
        let mut client = Client::connect(&daemon.socket).unwrap();
        if let Some((block, content, name)) = before {
            assert!(client.read(block, 4096) == content, "{name}: it is as it was");
            client.write(block, &[0; 4096], true);
        }
        let block = offset / 4096 * 4096;
        let at = (offset - block) as usize;
        let mut content = vec![0; 4096];
        content[at..at + bytes.len()].copy_from_slice(bytes);
        client.write(block, &content, true);
        drop(client);
        daemon.stop_ok();
        run_fails(&scratch, &["mkfs", "disk.img"], &["expected an empty volume", name, "--force"]);
        before = Some((block, content, name));
    }
}

#[test]
fn a_file_of_another_is_never_made_the_content_of_a_model() {
    let scratch = Scratch::new("model-file");
    std::fs::write(scratch.path("letter"), b"dear all").unwrap();
    for args in [
        &["create", "model:st41601n,file=letter"][..],
        &["disk", "serve", "model:st41601n,file=letter", "--socket", "s"],
        &["create", "raid0:model:st41601n,file=new,model:st41601n,file=letter"],
    ] {
        run_fails(&scratch, args, &["letter", "8 bytes with data"]);
        assert_eq!(std::fs::read(scratch.path("letter")).unwrap(), b"dear all");
    }
    assert!(!scratch.path("new").exists(), "nothing half-made is left");
    run_fails(
        &scratch,
        &["create", "model:st41601n"],
        &["expected file=PATH", "--create-if-missing"],
    );
}

/// Wherever it is interrupted: what is left is whole, or is named.
#[test]
fn an_interrupted_create_leaves_nothing_without_a_word() {
    use rustix::process::Signal;
    let scratch = Scratch::new("create-broken-off");
    let image = scratch.path("disk.img");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let args = ["create", "disk.img", "--size", "256M", "--preallocate"];
        let mut create = nearhead(&scratch, &args);
        create.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = create.spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        while !image.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let _ = rustix::process::kill_process(pid, signal);
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        if image.exists() {
            let is_told = output.status.success() || told.contains("disk.img is");
            assert!(is_told, "{signal:?}: {:?} {told}", output.status);
            std::fs::remove_file(&image).unwrap();
        } else {
            assert!(
                told.contains("interrupted: removed"),
                "{signal:?}: {:?} {told}",
                output.status
            );
        }
    }
}
