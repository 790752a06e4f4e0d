//! Whole rounds of the loop: what arrives together is served together.

use super::*;
use crate::protocol::constants::command;
use crate::protocol::testing::request;
use crate::server::testing::{Recorder, hello};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

#[test]
fn a_service_is_driven_for_requests_also_when_something_else_came_in_the_same_round() {
    let path = |name: &str| {
        std::env::temp_dir().join(format!("nearhead-nbd-{}-{name}", std::process::id()))
    };
    let (socket, control) = (path("round"), path("round-control"));
    let (built, is_built) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let (listening, talking) = (socket.clone(), control.clone());
    let thread = std::thread::spawn(move || {
        let server = Server::builder().listen_unix(listening).unwrap();
        let server = server.control(talking, |line, _| line.to_owned()).unwrap().build().unwrap();
        built.send(server.shutdown_handle()).unwrap();
        let mut service = Recorder::new();
        service.answers_when_driven = true;
        may_go.recv().unwrap();
        server.run(&mut service, &Clock::start()).unwrap()
    });
    let stop = is_built.recv().unwrap();
    // All of it is there before the first round: both are taken in by that one, and listened to by the second.
    let mut client = UnixStream::connect(&socket).unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let flush = request(command::FLUSH, 0, 1, 0, 0);
    client.write_all(&[hello(), flush].concat()).unwrap();
    let mut other = UnixStream::connect(&control).unwrap();
    other.write_all(b"hello\n").unwrap();
    go.send(()).unwrap();
    let mut answer = [0; 6];
    other.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello\n");
    // A greeting, a fact, the end of the facts, and the flush's reply.
    let served = client.read_exact(&mut [0; 18 + 32 + 20 + 16]);
    stop.request();
    let report = thread.join().unwrap();
    served.expect("a request that nobody drove");
    assert_eq!((report.ending, report.unanswered), (Ending::Graceful, 0));
}

#[test]
fn clients_are_looked_after_once_in_a_while_and_not_in_every_round() {
    let mut housekeeping = Housekeeping { next: Nanos::from_secs(5) };
    assert!(!housekeeping.is_due(Nanos::from_secs(4)));
    let mut times = 0;
    for milli in 5000..15_000 {
        times += u32::from(housekeeping.is_due(Nanos::from_millis(milli)));
    }
    assert_eq!(u64::from(times), Nanos::from_secs(10).0 / HOUSEKEEPING.0);
}
