//! The `nearhead` program: one sub-command per file, nothing decided here.

mod bench;
mod demo;
mod replay;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser, Debug)]
#[command(name = "nearhead", version, about = "Small durable writes stay fast, bulk I/O keeps the disk's bandwidth")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show what Nearhead does, on an emulated disk
    Demo(demo::DemoArgs),
    /// Measure every number the project claims
    Bench(bench::BenchArgs),
    /// Replay a block trace on a disk model in virtual time
    Replay(replay::ReplayArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Replay(args) => replay::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("nearhead: {problem}");
            ExitCode::FAILURE
        }
    }
}
