//! Leases against a real ZooKeeper server: one permit is never held twice, a killed holder is followed by the next,
//! and a server that is away means that there is no permit, for nobody longer than it is away.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_coordinate::{Config, Identity, Lease, Phase};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Folder, Server, await_that};

type Lines = Arc<Mutex<Vec<String>>>;

fn lease(servers: &str, permits: u32) -> (Lease, Lines) {
    lease_of(servers, permits, None)
}

fn lease_of(servers: &str, permits: u32, identity: Option<&str>) -> (Lease, Lines) {
    let lines = Lines::default();
    let told = Arc::clone(&lines);
    let config = Config {
        servers: servers.to_owned(),
        path: "/nearhead/test".to_owned(),
        permits,
        holder: "a test".to_owned(),
        session_timeout: Duration::from_secs(2),
        identity: identity.map(|line| Identity::parse(line).unwrap()),
    };
    let tell = move |line: &str| told.lock().unwrap().push(line.to_owned());
    (Lease::start(config, tell).unwrap(), lines)
}

#[test]
fn one_permit_is_never_held_twice_and_everybody_gets_a_turn() {
    let folder = Folder::new("turns");
    let Some(server) = Server::start(&folder.0) else { return };
    for permits in [1, 2] {
        let leases: Vec<Lease> = (0..3).map(|_| lease(&server.address(), permits).0).collect();
        let mut turns = [0; 3];
        // How much longer each keeps its permit, or rests.
        let mut keeps = [0; 3];
        let mut most = 0;
        await_that("three turns for each", || {
            let mut held = 0;
            for (who, lease) in leases.iter().enumerate() {
                let rests = keeps[who] < 0;
                let has = lease.exchange(!rests);
                held += u32::from(has);
                if has && keeps[who] == 0 {
                    turns[who] += 1;
                    keeps[who] = 20;
                } else if keeps[who] == 1 || (keeps[who] > 0 && !has) {
                    // Its pass ends here; a permit is not kept by resting.
                    keeps[who] = -5;
                } else if keeps[who] != 0 {
                    keeps[who] -= i32::signum(keeps[who]);
                }
            }
            most = most.max(held);
            assert!(held <= permits, "{held} hold {permits} permits: {turns:?}");
            turns.iter().all(|&turns| turns >= 3)
        });
        assert_eq!(most, permits, "as many as may do hold one at once");
        let lost: u64 = leases.iter().map(|lease| lease.view().lost).sum();
        println!("{permits} permits: turns {turns:?}, {lost} lost on the way");
    }
}

#[test]
fn a_holder_that_is_killed_is_followed_by_the_next() {
    let folder = Folder::new("killed");
    let Some(server) = Server::start(&folder.0) else { return };
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_holds_a_permit_until_it_is_killed", "--nocapture"])
        .env("NEARHEAD_TEST_SERVERS", server.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("it holds")), "it ended without a permit");
    let (next, _) = lease(&server.address(), 1);
    await_that("a place in the queue", || {
        assert!(!next.exchange(true), "the holder lives");
        next.view().phase == Phase::Waiting && next.view().ahead == 1
    });
    holder.kill().unwrap();
    holder.wait().unwrap();
    await_that("the permit of the dead", || next.exchange(true));
}

/// Not a test of its own: what the one before kills.
#[test]
fn a_process_that_holds_a_permit_until_it_is_killed() {
    let Ok(servers) = std::env::var("NEARHEAD_TEST_SERVERS") else { return };
    let (lease, _) = lease(&servers, 1);
    await_that("a permit", || lease.exchange(true));
    println!("it holds");
    await_that("a kill", || {
        lease.exchange(true);
        false
    });
}

#[test]
fn with_an_identity_only_its_holders_take_part() {
    let folder = Folder::new("identity");
    let Some(server) = Server::start(&folder.0) else { return };
    let own = Some("digest nearhead:s3cret");
    let (one, _) = lease_of(&server.address(), 1, own);
    await_that("the first permit", || one.exchange(true));
    let (other, _) = lease_of(&server.address(), 1, own);
    await_that("the other one to wait", || {
        assert!(!other.exchange(true), "there is one permit");
        other.view().phase == Phase::Waiting && other.view().ahead == 1
    });
    for stranger in [None, Some("digest nearhead:guessed")] {
        let (lease, lines) = lease_of(&server.address(), 1, stranger);
        await_that("a stranger to be refused", || {
            assert!(!lease.exchange(true), "{stranger:?} has no part in this");
            lease.view().phase == Phase::Unreachable
        });
        let lines = lines.lock().unwrap();
        assert!(lines[0].contains("auth") && !lines[0].contains("guessed"), "{lines:?}");
    }
    one.exchange(false);
    await_that("the second permit", || other.exchange(true));
}

#[test]
fn when_the_server_goes_so_does_the_permit_and_both_come_back() {
    let folder = Folder::new("away");
    let Some(mut server) = Server::start(&folder.0) else { return };
    let (lease, lines) = lease(&server.address(), 1);
    await_that("a permit", || lease.exchange(true));
    server.kill();
    await_that("the permit to be gone", || !lease.exchange(true));
    await_that("the server to be missed", || lease.view().phase == Phase::Unreachable);
    assert!(lease.view().lost >= 1);
    server.restart();
    await_that("a permit again", || lease.exchange(true));
    // On a busy machine a session may be lost more than once; each time is told once, and so is its end.
    let lines = lines.lock().unwrap();
    assert!(lines.len() >= 2 && lines.len().is_multiple_of(2), "{lines:?}");
    for told in lines.chunks(2) {
        assert!(
            told[0].contains(&server.address()) && told[0].contains("trying again"),
            "{lines:?}"
        );
        assert!(told[1].contains("answers again"), "{lines:?}");
    }
}

#[test]
fn without_any_server_there_is_no_permit_and_a_stop_does_not_hang() {
    // Nobody listens there: the port is taken and given back.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (lease, lines) = lease(&address, 1);
    await_that("the server to be missed", || {
        assert!(!lease.exchange(true));
        lease.view().phase == Phase::Unreachable
    });
    assert!(lease.view().problem.is_some());
    drop(lease);
    assert_eq!(lines.lock().unwrap().len(), 1);
}
