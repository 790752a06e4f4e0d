//! Extended headers over a socket: commands about more than 4 GiB at once, at any byte.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "the client is that of the power cuts, which use all of it")]

#[path = "power_cuts/client.rs"]
mod client;

use client::{Client, Form};
use nearhead_disk::Nanos;
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_nbd::protocol::constants::{command, command_flag, errno};
use nearhead_nbd::{Clock, Server};
use nearhead_volume::BareDisk;

const SIZE: u64 = 8 << 30;

#[test]
fn one_command_reaches_over_more_than_4_gib() {
    let folder = std::env::temp_dir().join(format!("nearhead-extended-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let builder = Server::builder().listen_unix(&socket).unwrap();
            let server = builder.build().unwrap();
            sender.send(server.shutdown_handle()).unwrap();
            let store = Box::new(MemoryStore::new());
            let disk = InstantDisk::new(plain_properties(SIZE, 512), store, Nanos::ZERO);
            server.run(&mut BareDisk::new(disk), &Clock::start()).unwrap()
        });
        let stop = receiver.recv().unwrap();
        let talked = std::panic::catch_unwind(|| talk(&socket));
        stop.request();
        let report = thread.join().unwrap();
        talked.unwrap();
        assert_eq!((report.statistics.write_zeroes, report.statistics.trims), (2, 1));
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

fn talk(socket: &std::path::Path) {
    let mut client = Client::connect(socket, Form::Extended).unwrap();
    let mut cookie = 0;
    let mut ask = |kind: u16, flags: u16, place: (u64, u64), payload: &[u8]| {
        cookie += 1;
        client.send((kind, flags), cookie, place, payload).unwrap();
        let reply = client.reply().unwrap();
        assert_eq!(reply.cookie, cookie);
        (reply.errno, reply.data)
    };
    assert_eq!(ask(command::WRITE, 0, (SIZE - 600, 600), &[7; 600]).0, 0);
    assert_eq!(ask(command::WRITE, 0, (0, 600), &[7; 600]).0, 0);
    let most = (100, SIZE - 200);
    assert_eq!(ask(command::WRITE_ZEROES, command_flag::FUA, most, &[]).0, 0);
    let expected = [&[7; 100][..], &[0; 500]].concat();
    assert_eq!(ask(command::READ, 0, (0, 600), &[]), (0, expected.clone()));
    let reversed: Vec<u8> = expected.into_iter().rev().collect();
    assert_eq!(ask(command::READ, 0, (SIZE - 600, 600), &[]), (0, reversed));
    assert_eq!(ask(command::TRIM, 0, (0, SIZE), &[]).0, 0);
    let (failed, status) = ask(command::BLOCK_STATUS, 0, (0, SIZE), &[]);
    assert_eq!((failed, &status[..4]), (0, &[0, 0, 0, 1][..]));
    let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let runs: Vec<u64> = status[8..].chunks_exact(16).map(|run| word(&run[..8])).collect();
    assert_eq!(runs.iter().sum::<u64>(), SIZE, "all of it is told: {runs:?}");
    assert!(runs.iter().any(|run| *run > 4 << 30), "in runs of more than 4 GiB: {runs:?}");
    assert_eq!(ask(command::WRITE_ZEROES, 0, (0, SIZE), &[]).0, 0);
    assert_eq!(ask(command::CACHE, 0, (0, SIZE), &[]).0, 0);
    // A payload where there is none is dropped, and the next request is understood.
    let counted = command_flag::PAYLOAD_LEN;
    assert_eq!(ask(command::TRIM, counted, (0, 100), &[1; 100]).0, errno::INVAL);
    assert_eq!(ask(command::WRITE_ZEROES, 0, (1, SIZE), &[]).0, errno::NOSPC);
    assert_eq!(ask(command::READ, 0, (0, SIZE), &[]).0, errno::INVAL);
    assert_eq!(ask(command::FLUSH, 0, (0, 0), &[]).0, 0);
}
