//! Volumes used by the clients that people have: qemu-img, qemu-io, nbdcopy, nbdinfo, libnbd, fio,
//! and the kernel by way of nbdfuse and a loop device. A tool that is missing skips its test, and
//! the test says so.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::nbd::Client;
use common::{Daemon, Scratch, run_json, run_ok, tool, tool_ok, tools};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of files of many sizes, and an ext4 image made of it.
fn ext4_image(scratch: &Scratch, name: &str, size: &str) {
    let folder = scratch.path("content");
    std::fs::create_dir_all(folder.join("deep/er")).unwrap();
    for index in 0..200_u32 {
        let len = (index * index * 37 % 60_000) as usize;
        let bytes: Vec<u8> = (0..len).map(|at| (at as u32 * 31 + index) as u8).collect();
        let place = if index % 3 == 0 { "deep/er" } else { "" };
        std::fs::write(folder.join(place).join(format!("file-{index}")), bytes).unwrap();
    }
    let image = scratch.text(name);
    tool_ok("mkfs.ext4", &["-q", "-d", folder.to_str().unwrap(), &image, size]);
}

fn same(left: &Path, right: &Path, bytes: usize) {
    let (left, right) = (std::fs::read(left).unwrap(), std::fs::read(right).unwrap());
    let differs = left.iter().zip(&right).take(bytes).position(|(left, right)| left != right);
    assert_eq!(differs, None, "first byte that differs");
    assert!(
        left.len() >= bytes && right.len() >= bytes,
        "{} and {} bytes",
        left.len(),
        right.len()
    );
}

fn copied_in_and_out_across_a_kill(preset: &str) {
    if !tools(&["mkfs.ext4", "qemu-img", "nbdcopy", "e2fsck"]) {
        return;
    }
    let scratch = Scratch::new("image");
    let target = "a.img";
    ext4_image(&scratch, "fs.img", "48M");
    let bytes = std::fs::metadata(scratch.path("fs.img")).unwrap().len() as usize;
    run_ok(&scratch, &["create", target, "--size", "128MiB", "--preset", preset]);
    let daemon = Daemon::serve(&scratch, target, &[]);
    // -n: into what is there; qemu-img flushes before it says that it is done.
    tool_ok(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", &scratch.text("fs.img"), &daemon.uri()],
    );
    daemon.kill();
    let daemon = Daemon::serve(&scratch, target, &[]);
    tool_ok("nbdcopy", &[&daemon.uri(), &scratch.text("out.img")]);
    same(&scratch.path("fs.img"), &scratch.path("out.img"), bytes);
    std::fs::File::options()
        .write(true)
        .open(scratch.path("out.img"))
        .unwrap()
        .set_len(bytes as u64)
        .unwrap();
    tool_ok("e2fsck", &["-fn", &scratch.text("out.img")]);
    // The other way round, and after everything went home.
    tool_ok("nbdcopy", &["--flush", &scratch.text("fs.img"), &daemon.uri()]);
    run_ok(&scratch, &["drain", target]);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, target, &[]);
    tool_ok(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "raw", &daemon.uri(), &scratch.text("out.img")],
    );
    same(&scratch.path("fs.img"), &scratch.path("out.img"), bytes);
    daemon.stop_ok();
    run_ok(&scratch, &["check", target]);
}

#[test]
fn an_ext4_image_goes_in_and_out_unchanged_across_a_kill() {
    for preset in ["nolog", "singlelog", "mlb-32", "mlb-256"] {
        copied_in_and_out_across_a_kill(preset);
    }
}

#[test]
fn an_ext4_image_survives_a_kill_on_an_emulated_disk() {
    if !tools(&["mkfs.ext4", "nbdcopy", "e2fsck"]) {
        return;
    }
    let scratch = Scratch::new("model");
    let target = format!("model:st3146855fc,file={}", scratch.text("disk.img"));
    ext4_image(&scratch, "fs.img", "8M");
    run_ok(&scratch, &["create", &target, "--preset", "mlb-32"]);
    let daemon = Daemon::serve(&scratch, &target, &[]);
    tool_ok("nbdcopy", &["--flush", &scratch.text("fs.img"), &daemon.uri()]);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, &target, &[]);
    // Only its start: the disk is as large as the real one, and as slow.
    let mut client = Client::connect(&daemon.socket).unwrap();
    let image = std::fs::read(scratch.path("fs.img")).unwrap();
    for (index, piece) in image.chunks(1 << 20).enumerate() {
        let found = client.read((index as u64) << 20, piece.len() as u32);
        assert!(found == piece, "MiB {index} differs");
    }
    drop(client);
    daemon.stop_ok();
    run_ok(&scratch, &["check", &target]);
}

/// Bytes of the export that `nbdinfo` and `qemu-img map` are told hold something.
fn told_data(daemon: &Daemon) -> [u64; 2] {
    let sum = |text: &str, is_data: fn(&serde_json::Value) -> bool, len: &str| -> u64 {
        let map: serde_json::Value = serde_json::from_str(text).unwrap();
        let extents = map.as_array().unwrap().iter().filter(|extent| is_data(extent));
        extents.map(|extent| extent[len].as_u64().unwrap()).sum()
    };
    let by_nbdinfo = tool_ok("nbdinfo", &["--map", "--json", &daemon.uri()]);
    let by_qemu = tool_ok("qemu-img", &["map", "--output=json", "-f", "raw", &daemon.uri()]);
    [
        sum(&by_nbdinfo, |extent| extent["type"] == 0, "length"),
        sum(&by_qemu, |extent| extent["zero"] == false, "length"),
    ]
}

#[test]
fn of_a_fresh_volume_only_what_was_written_is_copied_also_after_kills_and_restarts() {
    const MIB: usize = 1 << 20;
    if !tools(&["qemu-img", "nbdcopy", "nbdinfo"]) {
        return;
    }
    let scratch = Scratch::new("blank");
    run_ok(&scratch, &["create", "a.img", "--size", "256MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    assert_eq!(told_data(&daemon), [0, 0], "nothing was ever written");
    let mut expected = vec![0; 3 * MIB];
    let mut client = Client::connect(&daemon.socket).unwrap();
    for (index, piece) in expected.chunks_mut(MIB).enumerate() {
        piece.fill(index as u8 + 1);
        client.write((40 * MIB + index * MIB) as u64, piece, false);
    }
    client.write(200 << 20, &[9; 4096], true);
    client.flush();
    drop(client);
    // Three regions, and a block that is logged; ahead of a stream a kill may cost some more.
    let logged_block = 3 * MIB as u64 + 4096;
    assert_eq!(told_data(&daemon), [logged_block; 2]);
    daemon.kill();
    for restart in 0..2 {
        let daemon = Daemon::serve(&scratch, "a.img", &[]);
        let [by_nbdinfo, by_qemu] = told_data(&daemon);
        let written = logged_block..=8 * MIB as u64;
        assert!(written.contains(&by_nbdinfo) && by_nbdinfo == by_qemu, "{by_nbdinfo} {by_qemu}");
        let out = scratch.text("out.img");
        tool_ok("nbdcopy", &[&daemon.uri(), &out]);
        tool_ok("qemu-img", &["convert", "-f", "raw", "-O", "raw", &daemon.uri(), &out]);
        let status = run_json(&scratch, &["status", "a.img"]);
        let read = status["counters"]["read_bytes"].as_u64().unwrap();
        assert!(read <= 17 * MIB as u64, "two copies read {read} bytes of 256 MiB");
        let copy = std::fs::read(&out).unwrap();
        assert!(copy[40 * MIB..43 * MIB] == expected && copy[200 * MIB..][..4096] == [9; 4096]);
        assert_eq!(copy.iter().filter(|byte| **byte != 0).count() as u64, logged_block);
        if restart == 0 {
            daemon.stop_ok();
        } else {
            daemon.kill();
        }
    }
}

#[test]
fn qemu_io_reads_what_it_wrote() {
    if !tools(&["qemu-io"]) {
        return;
    }
    let scratch = Scratch::new("qemuio");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut args = vec!["-f", "raw", "-t", "none"];
    for command in [
        "write -P 1 0 1M",
        "write -f -P 2 4k 4k",
        "write -P 3 65024 1536",
        "writev -P 4 128k 512 4k 8k",
        "write -z 200k 100k",
        "discard 700k 100k",
        "flush",
        "aio_write -P 5 2M 64k",
        "aio_flush",
        "read -P 1 0 4k",
        "read -P 2 4k 4k",
        "read -P 3 65024 1536",
        "read -P 4 128k 12800",
        "read -P 0 200k 100k",
        "read -P 5 2M 64k",
    ] {
        args.extend_from_slice(&["-c", command]);
    }
    let uri = daemon.uri();
    args.push(&uri);
    let told = tool_ok("qemu-io", &args);
    assert!(!told.contains("Pattern verification failed"), "{told}");
    daemon.stop_ok();
    run_ok(&scratch, &["check", "a.img"]);
}

#[test]
fn fio_verifies_what_it_synced() {
    if !tools(&["fio"]) {
        return;
    }
    if !tool("fio", &["--enghelp=nbd"]).status.success() {
        println!("skipped: fio has no nbd engine here");
        return;
    }
    let scratch = Scratch::new("fio");
    run_ok(&scratch, &["create", "a.img", "--size", "96MiB", "--group-size", "16MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &["--watermark", "30"]);
    let uri = format!("--uri={}", daemon.uri());
    for more in [
        ["--bs=4k", "--rw=randwrite"],
        ["--bs=512", "--rw=randwrite"],
        ["--bsrange=4k-256k", "--rw=write"],
    ] {
        let mut args = vec![
            "--name=synced",
            "--ioengine=nbd",
            &uri,
            "--fsync=1",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ];
        args.extend_from_slice(&[
            "--size=48M",
            "--io_size=4M",
            "--iodepth=16",
            "--randseed=7",
            "--output-format=json",
        ]);
        args.extend_from_slice(&more);
        let output = tool("fio", &args);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{more:?}: {output:?}");
        assert!(told.contains("\"error\" : 0"), "{more:?}: {told}");
    }
    let status = run_json(&scratch, &["status", "a.img"]);
    assert!(status["counters"]["logged_bytes"].as_u64().unwrap() > 4 << 20, "{status}");
    daemon.stop_ok();
    run_ok(&scratch, &["check", "a.img"]);
}

#[test]
fn libnbd_sees_what_the_volume_promises() {
    let python = "/usr/bin/python3";
    let has_nbd = Command::new(python).args(["-c", "import nbd"]).output();
    if !tools(&["nbdinfo"]) || !has_nbd.is_ok_and(|output| output.status.success()) {
        println!("skipped: nbdinfo or python3-libnbd is not installed");
        return;
    }
    let scratch = Scratch::new("libnbd");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB", "--label", "mail store"]);
    let daemon = Daemon::serve(&scratch, "a.img", &["--export", "mail"]);
    let info = tool_ok("nbdinfo", &["--json", &daemon.uri().replace(":///", ":///mail")]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    let export = &info["exports"][0];
    assert_eq!(export["export-name"], "mail");
    assert_eq!(export["description"], "mail store");
    for promise in ["can_fua", "can_flush", "can_trim", "can_zero", "can_multi_conn"] {
        assert_eq!(export[promise], true, "{promise}: {export}");
    }
    let script = "import nbd, sys\n\
        h = nbd.NBD(); h.set_export_name('mail'); h.connect_unix(sys.argv[1])\n\
        h.pwrite(b'a' * 4096, 8192, nbd.CMD_FLAG_FUA)\n\
        h.zero(4096, 8192); h.pwrite(b'b' * 512, 8704); h.flush()\n\
        got = h.pread(4096, 8192)\n\
        assert got == b'\\0' * 512 + b'b' * 512 + b'\\0' * 3072, got[:1024]\n\
        h.trim(4096, 8192); h.shutdown()\n";
    let socket = daemon.socket.to_str().unwrap().to_owned();
    tool_ok(python, &["-c", script, &socket]);
    daemon.stop_ok();
}

/// The kernel's way to a volume: nbdfuse shows it as a file, a loop device makes it a disk. Undone
/// from the end whatever happens.
struct KernelDisk {
    fuse: Option<Child>,
    folder: String,
    device: Option<String>,
    mounted: Option<String>,
}

impl KernelDisk {
    fn attach(scratch: &Scratch, daemon: &Daemon) -> Result<Self, String> {
        let folder = scratch.text("fuse");
        std::fs::create_dir_all(&folder).unwrap();
        let fuse = Command::new("nbdfuse")
            .args([&folder, &daemon.uri()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("nbdfuse: {error}"))?;
        let mut disk = Self { fuse: Some(fuse), folder, device: None, mounted: None };
        disk.wait_for_file()?;
        let file = format!("{}/nbd", disk.folder);
        let output = tool("losetup", &["--find", "--show", "--direct-io=on", &file]);
        if !output.status.success() {
            return Err(format!(
                "no loop device: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        disk.device = Some(String::from_utf8(output.stdout).unwrap().trim().to_owned());
        Ok(disk)
    }

    /// FUSE tells nobody when it is ready, so the file is looked for.
    fn wait_for_file(&mut self) -> Result<(), String> {
        let give_up_at = Instant::now() + Duration::from_secs(20);
        while !Path::new(&self.folder).join("nbd").exists() {
            let ended = self.fuse.as_mut().and_then(|fuse| fuse.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > give_up_at {
                return Err("nbdfuse cannot mount here".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn device(&self) -> &str {
        self.device.as_deref().unwrap()
    }

    fn mount(&mut self, folder: &str) -> Result<(), String> {
        std::fs::create_dir_all(folder).unwrap();
        let output = tool("mount", &[self.device(), folder]);
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        self.mounted = Some(folder.to_owned());
        Ok(())
    }

    fn unmount(&mut self) {
        if let Some(folder) = self.mounted.take() {
            tool("umount", &[&folder]);
        }
    }
}

impl Drop for KernelDisk {
    fn drop(&mut self) {
        self.unmount();
        if let Some(device) = self.device.take() {
            tool("losetup", &["--detach", &device]);
        }
        tool("fusermount3", &["-u", "-z", &self.folder]);
        if let Some(mut fuse) = self.fuse.take() {
            let _ = fuse.kill();
            let _ = fuse.wait();
        }
    }
}

#[test]
fn the_kernel_mounts_a_file_system_on_a_volume() {
    if !tools(&["nbdfuse", "losetup", "mkfs.ext4", "mount", "umount", "e2fsck", "fusermount3"]) {
        return;
    }
    let scratch = Scratch::new("kernel");
    run_ok(&scratch, &["create", "a.img", "--size", "128MiB"]);
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut disk = match KernelDisk::attach(&scratch, &daemon) {
        Ok(disk) => disk,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    tool_ok("mkfs.ext4", &["-q", disk.device()]);
    let folder = scratch.text("mnt");
    if let Err(why) = disk.mount(&folder) {
        println!("skipped: the kernel does not mount here: {why}");
        return;
    }
    for index in 0..50_u8 {
        let path = format!("{folder}/file-{index}");
        std::fs::write(&path, vec![index; 1000 * usize::from(index) + 1]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    disk.unmount();
    drop(disk);
    daemon.kill();
    let daemon = Daemon::serve(&scratch, "a.img", &[]);
    let mut disk = KernelDisk::attach(&scratch, &daemon).unwrap();
    tool_ok("e2fsck", &["-fn", disk.device()]);
    disk.mount(&folder).unwrap();
    for index in 0..50_u8 {
        let found = std::fs::read(format!("{folder}/file-{index}")).unwrap();
        assert_eq!(found, vec![index; 1000 * usize::from(index) + 1], "file {index}");
    }
    drop(disk);
    daemon.stop_ok();
}
