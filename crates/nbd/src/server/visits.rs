//! Who came and who left, in a line each: from where, to which export, and what was asked for in between.
//!
//! Of one round of the loop a bounded number is told one by one, and of the rest how many there were: a client that comes and goes in a loop
//! fills no disk with lines faster than the loop turns.

use super::clients::Clients;
use super::connection::Connection;
use nearhead_disk::Nanos;
use rustix::net::{SocketAddrAny, SocketAddrV4, SocketAddrV6, getpeername, sockopt};
use std::os::fd::BorrowedFd;

/// Lines of one round.
const LINES_MAX: usize = 64;

/// What one client asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.read_bytes += more.read_bytes;
        self.written_bytes += more.written_bytes;
    }
}

/// What is to be told.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    lines: Vec<String>,
    more: u64,
}

impl Visits {
    fn tell(&mut self, line: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    /// A client has ended its handshake.
    pub(crate) fn came(&mut self, connection: &Connection) {
        let encrypted = if connection.transport.is_encrypted() { ", encrypted" } else { "" };
        self.tell(format!("client {} came to {}{encrypted}", name(connection), export(connection)));
    }

    /// A client that had is gone.
    pub(crate) fn left(&mut self, connection: &Connection, now: Nanos) {
        let Traffic { requests, read_bytes, written_bytes } = connection.traffic;
        self.tell(format!(
            "client {} left {} after {:.0} s: {requests} requests, {read_bytes} bytes read, {written_bytes} written",
            name(connection),
            export(connection),
            now.since(connection.since).as_secs_f64()
        ));
    }

    fn take(&mut self) -> Vec<String> {
        let more = std::mem::take(&mut self.more);
        let mut lines = std::mem::take(&mut self.lines);
        lines.extend((more > 0).then(|| format!("{more} more clients came or left")));
        lines
    }
}

impl Clients {
    /// Who came and who left since the last call.
    pub(crate) fn take_visits(&mut self) -> Vec<String> {
        self.visits.take()
    }
}

fn name(connection: &Connection) -> String {
    format!("{} ({})", connection.id, connection.peer)
}

fn export(connection: &Connection) -> String {
    match connection.machine.export_name().unwrap_or_default() {
        "" => "the default export".to_owned(),
        name => format!("export {name:?}"),
    }
}

/// Where a client is: its address, or the process at the other end of a Unix socket.
pub(crate) fn peer_of(socket: BorrowedFd<'_>) -> String {
    let address = getpeername(socket).ok().flatten();
    if let Some(address) = address.and_then(address_of) {
        return address;
    }
    sockopt::socket_peercred(socket).map_or_else(
        |_| "a Unix socket".to_owned(),
        |found| format!("process {}, user {}", found.pid.as_raw_nonzero(), found.uid.as_raw()),
    )
}

fn address_of(address: SocketAddrAny) -> Option<String> {
    let v4 = SocketAddrV4::try_from(address.clone()).map(|address| address.to_string());
    let v6 = || SocketAddrV6::try_from(address).map(|address| address.to_string());
    v4.or_else(|_| v6()).ok()
}
