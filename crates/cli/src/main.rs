//! The `nearhead` program: one sub-command per file, nothing decided here.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(unreachable_pub, reason = "a program exports nothing: pub means used by other modules")]

mod bench;
mod control;
mod create;
mod demo;
mod offline;
mod output;
mod replay;
mod report;
mod serve;
mod status;
mod target;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser, Debug)]
#[command(
    name = "nearhead",
    version,
    about = "Small durable writes stay fast, bulk I/O keeps the disk's bandwidth"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a volume on a device, an image file or an emulated disk
    Create(create::CreateArgs),
    /// Serve a volume over NBD
    #[command(visible_alias = "open")]
    Serve(Box<serve::ServeArgs>),
    /// Show what a volume is doing, served or not
    Status(status::StatusArgs),
    /// Show what Nearhead does, on an emulated disk
    Demo(demo::DemoArgs),
    /// Measure every number the project claims
    Bench(bench::BenchArgs),
    /// Replay a block trace on a disk model in virtual time
    Replay(replay::ReplayArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Create(args) => create::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Replay(args) => replay::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            output::note(&problem);
            ExitCode::FAILURE
        }
    }
}
