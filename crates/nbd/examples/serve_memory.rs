//! Serves zeros in memory: `serve_memory SOCKET SIZE_MIB`, for comparisons with other servers.
//!
//! `activated` in place of the socket: the parent process hands one over.

#[path = "../tests/support/memory_disk.rs"]
mod memory_disk;

use nearhead_nbd::{Clock, Server};
use nearhead_volume::BareDisk;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, size_mib] = &arguments[..] else {
        return Err("usage: serve_memory SOCKET SIZE_MIB".into());
    };
    let size_mib: u64 = size_mib.parse()?;
    let mut service = BareDisk::new(memory_disk::MemoryDisk::new(size_mib << 20));
    let builder = Server::builder();
    let builder = if socket == "activated" {
        builder.listen_activated()?
    } else {
        builder.listen_unix(socket)?
    };
    let server = builder.notices(|notice| eprintln!("{notice}")).build()?;
    let report = server.run(&mut service, &Clock::start())?;
    println!("{report:?}");
    Ok(())
}
