//! Serves zeros in memory: `serve_memory SOCKET SIZE_MIB`, for comparisons with other servers.
//!
//! `activated` in place of the socket: the parent process hands one over.

#[path = "../tests/support/memory_disk.rs"]
mod memory_disk;

use clap::Parser;
use nearhead_nbd::{Clock, Server};
use nearhead_volume::BareDisk;
use std::error::Error;

/// Serves zeros in memory
#[derive(clap::Parser)]
struct Arguments {
    /// Path of the socket; `activated`: the parent process hands one over
    socket: String,
    /// Size of the export
    size_mib: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { socket, size_mib } = Arguments::parse();
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
