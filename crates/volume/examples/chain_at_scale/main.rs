//! A chain of terabytes, in virtual time: written full in order, then written over at random, with so much memory for its map as is said.
//!
//! `cargo run --release -p nearhead-volume --example chain_at_scale -- --gb 1000 --map-memory-mib 1024,256` prints what each part takes:
//! processor and virtual time, resident memory, bytes of the map written and read beside those of clients. Every part is a process of its own on
//! the same files (`--folder`, 20 GB for each TB), so that its memory is its own. Blocks hold what can be computed, and all that are read are
//! compared. `--quick` shows that it runs.

mod clients;
mod content;
mod disks;
mod run;
mod spent;

use clap::Parser;
use disks::Drives;
use nearhead_disk::Nanos;
use run::{Ends, Run};
use std::path::PathBuf;
use std::process::Command;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever went wrong: it is told, and ends the process.
pub(crate) type Problem = Box<dyn std::error::Error>;

const LINKS: usize = 3;
/// For so long nobody asks for anything, to see that it comes to rest.
const REST: Nanos = Nanos::from_secs(3 * 3600);
/// Of a chain's logs clients are promised three quarters; the rest of a drive is for its snapshots and what a log needs for itself.
const DRIVE_BYTES_FOR_100_OF_CLIENTS: u64 = 137;

/// What a chain of terabytes takes
#[derive(clap::Parser, Clone, Debug)]
struct Arguments {
    /// What clients are promised, about, in GB
    #[arg(long, default_value_t = 1000)]
    gb: u64,
    /// Memory for the map, in MiB: the first fills the chain, and each is measured
    #[arg(long, value_delimiter = ',', default_value = "1024,256")]
    map_memory_mib: Vec<u64>,
    /// Written over at random with each of them, in GB
    #[arg(long, default_value_t = 100)]
    over_gb: u64,
    /// Profile of the drives
    #[arg(long, default_value = "exos-x20-20tb")]
    drive: String,
    /// Blocks read at random in each part
    #[arg(long, default_value_t = 2000)]
    reads: u64,
    /// Where the drives' content goes; what is there of an earlier run is written over
    #[arg(long, default_value = "target/chain-at-scale")]
    folder: PathBuf,
    /// A few GB, to see that it runs
    #[arg(long)]
    quick: bool,
    /// One part of it, in this process
    #[arg(long, hide = true)]
    part: Option<Part>,
}

/// What one process does.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Part {
    /// Makes the chain and writes it full, in order.
    Fill,
    /// Writes over it, reads, and is cut off.
    Over,
    /// Opens it after the cut, reads, and ends in order.
    AfterCut,
}

impl Arguments {
    fn drives(&self) -> Drives {
        let bytes = self.gb * 1_000_000_000 / LINKS as u64 * DRIVE_BYTES_FOR_100_OF_CLIENTS / 100;
        let (profile, count) = (self.drive.clone(), LINKS);
        Drives { profile, count, bytes_of_each: bytes.next_multiple_of(1 << 20) }
    }

    fn map_memory_bytes(&self) -> u64 {
        self.map_memory_mib.first().copied().unwrap_or(1024) << 20
    }

    /// Does one part here.
    fn run(&self, part: Part) -> Result<(), Problem> {
        let drives = self.drives();
        let memory = self.map_memory_bytes();
        match part {
            Part::Fill => {
                drives.create(&self.folder)?;
                let mut run = Run::open(&drives, &self.folder, ("first start", memory))?;
                run.write("fill in order", run.blocks())?;
                run.end(Ends::InOrder)
            }
            Part::Over => {
                let name = ("start after an orderly stop", memory);
                let mut run = Run::open(&drives, &self.folder, name)?;
                run.read("read before", self.reads)?;
                run.write("over at random", self.over_gb * 1_000_000_000 / content::BLOCK_BYTES)?;
                run.read("read after", self.reads)?;
                run.snapshot("snapshot")?;
                run.rest("at rest", REST)?;
                run.end(Ends::ByCut)
            }
            Part::AfterCut => {
                let mut run = Run::open(&drives, &self.folder, ("start after a cut", memory))?;
                run.read("read after the cut", self.reads)?;
                run.end(Ends::InOrder)
            }
        }
    }

    /// Does it in another process, and waits.
    fn run_elsewhere(&self, part: Part, map_memory_mib: u64) -> Result<(), Problem> {
        let name = clap::ValueEnum::to_possible_value(&part);
        let name = name.as_ref().map_or("", |name| name.get_name());
        println!("\n{name}, {map_memory_mib} MiB for the map");
        let status = Command::new(std::env::current_exe()?)
            .args(["--part", name, "--drive", &self.drive])
            .args(["--gb", &self.gb.to_string(), "--over-gb", &self.over_gb.to_string()])
            .args(["--map-memory-mib", &map_memory_mib.to_string()])
            .args(["--reads", &self.reads.to_string()])
            .arg("--folder")
            .arg(&self.folder)
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{name}: it ended with {status}").into())
        }
    }

    fn run_all(&self) -> Result<(), Problem> {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        std::fs::create_dir_all(&self.folder)?;
        let memories =
            if self.map_memory_mib.is_empty() { &[1024][..] } else { &self.map_memory_mib };
        self.run_elsewhere(Part::Fill, memories[0])?;
        for memory in memories {
            self.run_elsewhere(Part::Over, *memory)?;
            self.run_elsewhere(Part::AfterCut, *memory)?;
        }
        std::fs::remove_dir_all(&self.folder)?;
        Ok(())
    }
}

fn main() -> Result<(), Problem> {
    let given = Arguments::parse();
    let arguments = if given.quick {
        Arguments { gb: 4, over_gb: 2, reads: 200, map_memory_mib: vec![4, 1], ..given }
    } else {
        given
    };
    match arguments.part {
        Some(part) => arguments.run(part),
        None => arguments.run_all(),
    }
}
