//! An export used as a disk: what it does, what becomes of it when its server goes, and servers that
//! do not keep to the protocol.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_disk::{Class, CommandId, Submission, Ticket};
use nearhead_disk::{Command, Disk, DiskErrorKind, Nanos, Payload};
use nearhead_nbd::client::{Address, RemoteDisk};
use nearhead_nbd::protocol::constants::{flag, info, option, option_reply};
use nearhead_volume::SyncIo;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Instant;
use support::{Directory, TestServer};

fn connect(socket: &Path) -> Result<RemoteDisk, String> {
    let text = format!("nbd+unix:///?socket={}", socket.display());
    RemoteDisk::connect(&Address::parse(&text)?)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 512) as u8).collect()
}

#[test]
fn what_is_written_is_read_back_also_over_tcp_and_in_large_pieces() {
    let server =
        TestServer::start_with(|builder| builder.listen_tcp("127.0.0.1:0").unwrap(), |bare| bare);
    let tcp = Address::parse(&format!("nbd://{}/", server.addresses[0])).unwrap();
    let mut disk = connect(&server.socket()).unwrap();
    assert_eq!(disk.properties().capacity_bytes, support::DISK_BYTES);
    assert!(disk.properties().volatile_cache && !disk.is_read_only());
    let start = Instant::now();
    let mut io = SyncIo::in_real_time(&mut disk, start);
    // More than a socket takes at once.
    let data = bytes(4 << 20);
    io.write(8192, &data).unwrap();
    io.run(Command::WriteZeroes { offset: 16384, len: 4096, durable: true }).unwrap();
    io.run(Command::Trim { offset: 65536, len: 4096 }).unwrap();
    io.flush().unwrap();
    assert_eq!(server.count("flushes"), 1, "a cache is asked to be flushed");
    let mut other = RemoteDisk::connect(&tcp).unwrap();
    let found = SyncIo::in_real_time(&mut other, start).read(8192, 4 << 20).unwrap();
    assert!(found[..8192] == data[..8192] && found[61440..] == data[61440..]);
    assert!(found[8192..12288] == [0; 4096] && found[57344..61440] == [0; 4096]);
    let error = io.run(Command::Read { offset: support::DISK_BYTES, len: 512 }).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Invalid, "{error}");
}

#[test]
fn a_read_only_export_says_so_and_its_refusal_is_told_apart() {
    let server = TestServer::start_with(|builder| builder, nearhead_volume::BareDisk::read_only);
    let mut disk = connect(&server.socket()).unwrap();
    assert!(disk.is_read_only());
    let error = SyncIo::in_real_time(&mut disk, Instant::now()).write(0, &[1; 512]).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::ReadOnly, "{error}");
}

#[test]
fn a_server_that_goes_takes_the_disk_with_it_and_every_command_is_answered() {
    let server = TestServer::start_with(|builder| builder, |bare| bare);
    let mut disk = connect(&server.socket()).unwrap();
    assert_eq!(server.command("hold"), "ok");
    for id in 0..3 {
        let command = Command::Read { offset: id * 4096, len: 4096 };
        let (ticket, class) = (Ticket::new(CommandId(id)), Class::Foreground);
        disk.submit(Submission { ticket, class, command }, Nanos::ZERO);
    }
    disk.kick();
    assert!(disk.trouble().is_none());
    // Sent by the kick, not only when somebody asks what came of it.
    server.await_count("reads", 3);
    drop(server);
    let start = Instant::now();
    for _ in 0..3 {
        let error = loop {
            if let Some(done) = disk.poll(Nanos::ZERO) {
                break done.result.unwrap_err();
            }
            SyncIo::in_real_time(&mut disk, start).wait().unwrap();
        };
        assert_eq!(error.kind, DiskErrorKind::Gone, "{error}");
    }
    let error = SyncIo::in_real_time(&mut disk, start).flush().unwrap_err();
    assert!(error.detail.contains("connection is lost"), "{error}");
    assert!(disk.trouble().is_some_and(|trouble| trouble.contains("lost")));
    assert!(disk.poll(Nanos::ZERO).is_none());
}

/// A server of the test's own, which talks to one client.
fn serve(talk: impl FnOnce(UnixStream) + Send + 'static) -> (Directory, JoinHandle<()>) {
    let directory = Directory::new();
    let listener = UnixListener::bind(directory.path("socket")).unwrap();
    let thread = std::thread::spawn(move || talk(listener.accept().unwrap().0));
    (directory, thread)
}

fn greeting() -> Vec<u8> {
    b"NBDMAGICIHAVEOPT\0\x03".to_vec()
}

/// A greeting, and a no to extended headers and to structured replies.
fn hello() -> Vec<u8> {
    let no = |number| reply_to(number, option_reply::ERR_UNSUP, &[]);
    [greeting(), no(option::EXTENDED_HEADERS), no(option::STRUCTURED_REPLY)].concat()
}

/// A reply to GO.
fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
    reply_to(option::GO, kind, data)
}

fn reply_to(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn export(size: u64, flags: u16) -> Vec<u8> {
    let data =
        [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
    reply(option_reply::INFO, &data)
}

fn blocks(sizes: [u32; 3]) -> Vec<u8> {
    let sizes = sizes.map(u32::to_be_bytes).concat();
    reply(option_reply::INFO, &[&info::BLOCK_SIZE.to_be_bytes()[..], &sizes].concat())
}

const USUAL: u16 =
    flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;

#[test]
fn a_server_that_does_not_suit_is_refused_with_what_it_lacks() {
    let ack = reply(option_reply::ACK, &[]);
    let mut long = reply(option_reply::ACK, &[]);
    long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    let cases: [(Vec<Vec<u8>>, &str); 13] = [
        (vec![b"SSH-2.0-OpenSSH_9.0 and so on".to_vec()], "expected fixed newstyle"),
        (vec![greeting()[..10].to_vec()], "greeting"),
        (vec![hello()], "reply to GO"),
        (vec![hello(), ack.clone()], "expected a size"),
        (vec![hello(), vec![7; 20]], "expected a reply to GO"),
        (vec![hello(), long], "4294967295 bytes"),
        (vec![hello(), reply(option_reply::ERR_UNKNOWN, b"no disk")], "no such export"),
        (vec![hello(), reply(option_reply::ERR_TLS_REQD, &[])], "TLS"),
        (vec![hello(), reply(option_reply::ERR_UNSUP, &[])], "too old"),
        (vec![hello(), reply(option_reply::INFO, &[0, 0, 1])], "size: expected 8 bytes"),
        (vec![hello(), blocks([3, 4096, 65536])], "block sizes in order"),
        (
            vec![hello(), blocks([65536, 65536, 1 << 20]), export(1 << 30, USUAL), ack.clone()],
            "4096 bytes to 64 KiB",
        ),
        (vec![hello(), export(1 << 30, flag::HAS_FLAGS), ack.clone()], "WRITE_ZEROES"),
    ];
    for (sent, expected) in cases {
        let (directory, thread) = serve(move |mut stream| {
            // The client may be gone before all of it is there.
            let _ = stream.write_all(&sent.concat());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = connect(&directory.path("socket")).err().unwrap();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.contains("nbd+unix:///"), "{error}");
        thread.join().unwrap();
    }
    let no_fua = USUAL & !flag::SEND_FUA;
    let (directory, thread) = serve(move |mut stream| {
        stream.write_all(&[hello(), export(1 << 30, no_fua), ack].concat()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(connect(&directory.path("socket")).err().unwrap().contains("FUA"));
    thread.join().unwrap();
}

/// Leads a client through the handshake to a disk of `size` bytes.
fn welcome(stream: &mut UnixStream, size: u64, flags: u16) {
    let ack = reply(option_reply::ACK, &[]);
    stream.write_all(&[hello(), export(size, flags), ack].concat()).unwrap();
    // Flags, two options without data, and GO with no name and one question.
    stream.read_exact(&mut [0; 4 + 16 + 16 + 16 + 8]).unwrap();
}

fn simple_reply(cookie: &[u8]) -> Vec<u8> {
    [&0x6744_6698_0000_0000_u64.to_be_bytes(), cookie].concat()
}

#[test]
fn a_range_longer_than_a_request_can_say_is_zeroed_piece_by_piece() {
    let (directory, thread) = serve(|mut stream| {
        welcome(&mut stream, 8 << 30, USUAL);
        let mut next = 4096;
        for len in [1_u64 << 30, 1 << 30, 4096] {
            let mut request = [0; 28];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(request[4..8], [0, 1, 0, 6], "FUA and WRITE_ZEROES");
            assert_eq!(request[16..24], u64::to_be_bytes(next));
            assert_eq!(u64::from(u32::from_be_bytes(request[24..].try_into().unwrap())), len);
            stream.write_all(&simple_reply(&request[8..16])).unwrap();
            next += len;
        }
    });
    let mut disk = connect(&directory.path("socket")).unwrap();
    let len = (2 << 30) + 4096;
    let mut io = SyncIo::in_real_time(&mut disk, Instant::now());
    io.run(Command::WriteZeroes { offset: 4096, len, durable: true }).unwrap();
    thread.join().unwrap();
}

#[test]
fn without_a_volatile_cache_nothing_is_asked_for_to_make_writes_durable() {
    let (directory, thread) = serve(|mut stream| {
        welcome(&mut stream, 1 << 30, flag::HAS_FLAGS | flag::SEND_WRITE_ZEROES);
        let mut request = [0; 28 + 512];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request[4..8], [0, 0, 0, 1], "a write without FUA");
        assert_eq!(request[28..], [7; 512]);
        stream.write_all(&simple_reply(&request[8..16])).unwrap();
    });
    let mut disk = connect(&directory.path("socket")).unwrap();
    let mut io = SyncIo::in_real_time(&mut disk, Instant::now());
    io.flush().unwrap();
    let parts = vec![Payload::Bytes(nearhead_disk::BufferMut::copy_of(&[7; 512]).freeze())];
    io.run(Command::Write { offset: 0, parts, durable: true }).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_reply_to_nothing_ends_the_disk() {
    for forged in [simple_reply(&99_u64.to_be_bytes()), vec![1; 16]] {
        let (directory, thread) = serve(move |mut stream| {
            welcome(&mut stream, 1 << 30, USUAL);
            let _ = stream.read_exact(&mut [0; 28]);
            stream.write_all(&forged).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut disk = connect(&directory.path("socket")).unwrap();
        let error = SyncIo::in_real_time(&mut disk, Instant::now()).read(0, 4096).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Gone, "{error}");
        assert!(error.detail.contains("to a request, found"), "{error}");
        drop(disk);
        thread.join().unwrap();
    }
}
