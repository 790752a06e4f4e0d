//! Serves zeros in memory: `serve_memory SOCKET SIZE_MIB`, for comparisons with other servers.
//!
//! `activated` in place of the socket: the parent process hands one over.

#[path = "../tests/support/memory_disk.rs"]
mod memory_disk;

use nearhead_disk::Nanos;
use nearhead_nbd::{Clock, Limits, Server};
use nearhead_volume::BareDisk;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, size_mib, rest @ ..] = &arguments[..] else {
        return Err("usage: serve_memory SOCKET SIZE_MIB [IDLE_LOOK_US]".into());
    };
    let idle_look = rest.first().map_or(Ok(0), |micros| micros.parse())?;
    let size_mib: u64 = size_mib.parse()?;
    let mut service = BareDisk::new(memory_disk::MemoryDisk::new(size_mib << 20));
    let limits = Limits { idle_look: Nanos::from_micros(idle_look), ..Limits::default() };
    let builder = Server::builder();
    let builder = if socket == "activated" {
        builder.listen_activated()?
    } else {
        builder.listen_unix(socket)?
    };
    let server = builder.limits(limits).notices(|notice| eprintln!("{notice}")).build()?;
    let report = server.run(&mut service, &Clock::start())?;
    println!("{report:?}");
    Ok(())
}
