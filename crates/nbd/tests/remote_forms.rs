//! An export as a disk in every form that servers talk: extended headers of our own server, structured replies and
//! simple ones of others, and what each of them knows to be blank.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command as Asked, CommandId, Disk, Nanos, Payload, Run, Submission, Ticket,
};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_nbd::client::{Address, RemoteDisk};
use nearhead_nbd::{Clock, Server};
use nearhead_volume::{BareDisk, SyncIo};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use support::{Directory, tool, write_file};

fn connect(socket: &Path) -> RemoteDisk {
    let text = format!("nbd+unix:///?socket={}", socket.display());
    RemoteDisk::connect(&Address::parse(&text).unwrap()).unwrap()
}

fn write(disk: &mut RemoteDisk, offset: u64, bytes: &[u8]) {
    SyncIo::in_real_time(disk, Instant::now()).write(offset, bytes).unwrap();
}

fn read(disk: &mut RemoteDisk, offset: u64, len: u32) -> Vec<u8> {
    SyncIo::in_real_time(disk, Instant::now())
        .read(offset, u64::from(len) as usize)
        .unwrap()
        .to_vec()
}

fn run(disk: &mut RemoteDisk, command: Asked) {
    SyncIo::in_real_time(disk, Instant::now()).run(command).unwrap();
}

/// The runs of a whole disk: from, to, zero.
fn runs(disk: &dyn Disk) -> Vec<(u64, u64, bool)> {
    let (mut at, end) = (0, disk.properties().capacity_bytes);
    let mut runs: Vec<(u64, u64, bool)> = Vec::new();
    while at < end {
        let Run { len, zero } = disk.run_at(at);
        let next = at.saturating_add(len).min(end);
        match runs.last_mut() {
            Some(last) if last.2 == zero => last.1 = next,
            _ => runs.push((at, next, zero)),
        }
        at = next;
    }
    runs
}

/// Serves a disk of this size while `talk` goes on; what was counted.
fn with_own_server(
    size: u64,
    talk: impl FnOnce(&Path) + std::panic::UnwindSafe,
) -> nearhead_nbd::Statistics {
    let directory = Directory::new();
    let socket = directory.path("socket");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let server = Server::builder().listen_unix(&socket).unwrap().build().unwrap();
            sender.send(server.shutdown_handle()).unwrap();
            let store = Box::new(MemoryStore::new());
            let disk = InstantDisk::new(plain_properties(size, 512), store, Nanos::ZERO);
            server.run(&mut BareDisk::new(disk), &Clock::start()).unwrap()
        });
        let stop = receiver.recv().unwrap();
        let talked = std::panic::catch_unwind(|| talk(&socket));
        stop.request();
        let statistics = thread.join().unwrap().statistics;
        talked.unwrap();
        statistics
    })
}

/// Writes, zeroes and trims at random and reads all of it back: what is called blank is zero, always.
fn behaves_as_a_flat_disk_and_never_calls_blank_what_is_not(
    disk: &mut RemoteDisk,
    seed: u64,
) -> u64 {
    const AREA: u64 = 4 << 20;
    run(disk, Asked::WriteZeroes { offset: 0, len: AREA, durable: false });
    let mut flat = vec![0; AREA as usize];
    let mut random = SplitMix::new(seed);
    let mut below = |most| random.below(most);
    let mut blank = 0;
    for turn in 0..40_u8 {
        let offset = below(AREA / 4096) * 4096;
        let len = (4096 * (1 + below(64))).min(AREA - offset);
        let place = offset as usize..(offset + len) as usize;
        match turn % 4 {
            0 => {
                run(disk, Asked::WriteZeroes { offset, len, durable: turn % 8 == 0 });
                flat[place].fill(0);
            }
            1 => {
                run(disk, Asked::Trim { offset, len });
                // A server may or may not have done it.
                flat[place.clone()].copy_from_slice(&read(disk, offset, len as u32));
            }
            _ => {
                write(disk, offset, &vec![turn + 1; len as usize]);
                flat[place].fill(turn + 1);
            }
        }
        assert!(read(disk, 0, AREA as u32) == flat, "seed {seed}, turn {turn}");
        for (from, to, zero) in runs(disk) {
            let (from, to) = (from.min(AREA) as usize, to.min(AREA) as usize);
            assert!(
                !zero || flat[from..to].iter().all(|byte| *byte == 0),
                "turn {turn}: {from} to {to}"
            );
            blank += if zero { to - from } else { 0 };
        }
    }
    blank as u64
}

#[test]
fn over_extended_headers_one_request_reaches_over_more_than_4_gib_and_all_blanks_are_known() {
    const SIZE: u64 = 16 << 30;
    let statistics = with_own_server(SIZE, |socket| {
        let mut disk = connect(socket);
        assert_eq!(runs(&disk), [(0, SIZE, true)]);
        assert_eq!(disk.run_at(5), Run { len: SIZE - 5, zero: true });
        assert_eq!(disk.run_at(SIZE), Run::UNKNOWN);
        write(&mut disk, 8192, &[7; 8192]);
        write(&mut disk, SIZE - 4096, &[7; 4096]);
        let page = |at: u64, pages: u64| (at, at + pages * 4096, false);
        let expected =
            [(0, 8192, true), page(8192, 2), (16384, SIZE - 4096, true), page(SIZE - 4096, 1)];
        assert_eq!(runs(&disk), expected);
        run(&mut disk, Asked::WriteZeroes { offset: 0, len: SIZE, durable: true });
        assert_eq!(read(&mut disk, 4096, 16384), [0; 16384]);
        write(&mut disk, 4096, &[9; 4096]);
        run(&mut disk, Asked::Trim { offset: 0, len: SIZE });
        let blank = behaves_as_a_flat_disk_and_never_calls_blank_what_is_not(&mut disk, 5);
        assert!(blank > 0);
    });
    assert_eq!((statistics.write_zeroes, statistics.trims), (12, 11));
}

/// A server of somebody else's, which ends with the test.
struct Other {
    child: Child,
    /// Where its socket is.
    _directory: Directory,
}

impl Other {
    /// Starts `command`, which is told its socket, and connects once it listens.
    fn start(
        mut command: Command,
        arguments: impl Fn(&Directory) -> Vec<String>,
    ) -> (Self, RemoteDisk) {
        let directory = Directory::new();
        command.args(arguments(&directory)).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let socket = directory.path("socket");
        while UnixStream::connect(&socket).is_err() {
            std::thread::yield_now();
        }
        let disk = connect(&socket);
        (Self { child, _directory: directory }, disk)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nbdkit_arguments(options: &'static [&'static str]) -> impl Fn(&Directory) -> Vec<String> {
    move |directory| {
        let socket = directory.path("socket").display().to_string();
        let start = ["-f", "-U", &socket].map(str::to_owned);
        start.into_iter().chain(options.iter().map(|option| (*option).to_owned())).collect()
    }
}

#[test]
fn servers_without_extended_headers_tell_of_blanks_in_structured_replies() {
    if let Some(nbdkit) = tool("nbdkit", "nbdkit") {
        // Its memory is a sparse array: what nobody wrote is a hole that reads as zero.
        let (_server, mut disk) = Other::start(nbdkit, nbdkit_arguments(&["memory", "6G"]));
        assert_eq!(runs(&disk), [(0, 6 << 30, true)]);
        write(&mut disk, 1 << 20, &vec![1; 65536]);
        let around = runs(&disk);
        assert!(
            around
                .iter()
                .any(|(from, to, zero)| !zero && *from <= 1 << 20 && *to >= (1 << 20) + 65536)
        );
        assert!(around.iter().any(|(.., zero)| *zero), "{around:?}");
        // Longer than a length of 32 bits says.
        run(&mut disk, Asked::WriteZeroes { offset: 0, len: 6 << 30, durable: true });
        assert_eq!(runs(&disk), [(0, 6 << 30, true)]);
        assert!(behaves_as_a_flat_disk_and_never_calls_blank_what_is_not(&mut disk, 7) > 0);
    }
    if let Some(qemu) = tool("qemu-nbd", "qemu-utils") {
        let (_server, mut disk) = Other::start(qemu, |directory| {
            let (image, socket) = (directory.path("image"), directory.path("socket"));
            write_file(&image, &[]);
            std::fs::File::options().write(true).open(&image).unwrap().set_len(64 << 20).unwrap();
            let options = ["-f", "raw", "--discard=unmap", "--detect-zeroes=off", "-t", "-k"];
            let options = options.iter().map(|option| (*option).to_owned());
            options.chain([&socket, &image].map(|path| path.display().to_string())).collect()
        });
        assert_eq!(runs(&disk), [(0, 64 << 20, true)]);
        assert!(behaves_as_a_flat_disk_and_never_calls_blank_what_is_not(&mut disk, 8) > 0);
    }
}

#[test]
fn of_a_server_with_simple_replies_nothing_is_known_and_everything_else_works() {
    let Some(nbdkit) = tool("nbdkit", "nbdkit") else { return };
    let (_server, mut disk) = Other::start(nbdkit, nbdkit_arguments(&["--no-sr", "memory", "64M"]));
    assert_eq!(disk.run_at(0), Run::UNKNOWN);
    assert_eq!(behaves_as_a_flat_disk_and_never_calls_blank_what_is_not(&mut disk, 9), 0);
}

#[test]
fn while_a_change_is_under_way_nothing_is_called_blank() {
    let server = support::TestServer::start_with(|builder| builder, |bare| bare);
    let mut disk = connect(&server.socket());
    assert_eq!(server.command("hold"), "ok");
    let parts = vec![Payload::Bytes(BufferMut::copy_of(&[1; 512]).freeze())];
    let command = Asked::Write { offset: 0, parts, durable: false };
    let (ticket, class) = (Ticket::new(CommandId(1)), Class::Foreground);
    disk.submit(Submission { ticket, class, command }, Nanos::ZERO);
    disk.kick();
    assert_eq!(disk.run_at(1 << 20), Run::UNKNOWN);
    assert_eq!(server.command("release"), "ok");
}
