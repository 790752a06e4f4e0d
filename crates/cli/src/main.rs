//! The `nearhead` program: one sub-command per file, nothing decided here.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(unreachable_pub, reason = "a program exports nothing: pub means used by other modules")]

mod attach;
mod backing;
mod backup;
mod bounded_log;
mod calibrate;
mod chain;
mod check;
mod checkpoint;
mod complete;
mod control;
mod create;
mod disk;
mod dump;
mod failures;
mod figures;
mod file_system;
mod forget_log;
mod generate;
mod grow;
mod health;
mod help;
mod hint;
mod in_background;
mod journal;
mod metrics;
mod offline;
mod over_http;
mod presets;
mod repair;
mod replace;
mod replay;
mod report;
mod run;
mod serve;
mod service_manager;
mod set;
mod status;
mod stop;
mod stopping_signals;
mod target;
mod timed;
mod trace;
mod unfinished;
mod uri;
mod wal;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use nearhead_measure::{bench, demo};
use nearhead_output as output;
use nearhead_settings::units;
use std::process::ExitCode;

/// It was not done; standard error says why.
const EXIT_FAILED: u8 = 1;

/// With glibc's own a chain whose map takes 1 GiB at most took 2.2 GB, as what is freed stays in holes (docs/performance.md); musl's makes fewer
/// small requests a second (docs/install.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What `--version` says, and so what a build lacks; `-V` says the number alone.
const VERSION: &str = if cfg!(feature = "psk") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), ", built without --tls-psk (keys shared beforehand)")
};

#[derive(Parser, Debug)]
#[command(
    name = "nearhead",
    version,
    long_version = VERSION,
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
    /// Make a block device of a volume, served in the background
    Attach(Box<attach::AttachArgs>),
    /// Take such a device away, with everything durable
    Detach(attach::DetachArgs),
    /// Let an attached volume go on with another program
    Upgrade(attach::UpgradeArgs),
    /// Show what a volume is doing, or all that are served here
    Status(status::StatusArgs),
    /// Change settings of a volume while it is served, or list them
    Set(set::SetArgs),
    /// Stop whoever serves a volume, in order, and say how it ended
    Stop(stop::StopArgs),
    /// Bring logged blocks home now
    Checkpoint(checkpoint::CheckpointArgs),
    /// Bring everything home, and say when it is safe to stop
    Drain(checkpoint::CheckpointArgs),
    /// Read everything that has a checksum; changes nothing
    Check(check::CheckArgs),
    /// Show what is on a volume, in readable form
    Dump(dump::DumpArgs),
    /// Write damaged copies again from sound ones, and the map from the logs
    Repair(repair::RepairArgs),
    /// Copy superblock and map to a file
    BackupMetadata(backup::BackupArgs),
    /// Bring superblock and map back from such a file and the logs
    RestoreMetadata(backup::RestoreArgs),
    /// Extend a volume over a device or image that became larger
    Grow(grow::GrowArgs),
    /// Replace a member of a mirror by another disk while the volume is served
    Replace(replace::ReplaceArgs),
    /// Tell what a range is used for
    Hint(hint::HintArgs),
    /// Give up what a damaged log held
    ForgetLog(forget_log::ForgetLogArgs),
    /// Make an empty file system on a volume
    Mkfs(file_system::MkfsArgs),
    /// Mount the file system of a volume at a folder
    Mount(file_system::MountArgs),
    /// Unmount it
    Umount(file_system::UmountArgs),
    /// Make everything durable that was done to a mounted file system
    Sync(file_system::SyncArgs),
    /// Look at a volume and the file system on it; changes nothing
    Fsck(file_system::FsckArgs),
    /// Find out by timing how a disk turns, its zones and its tracks
    Calibrate(calibrate::CalibrateArgs),
    /// Emulated disks by themselves
    #[command(subcommand)]
    Disk(disk::DiskCommand),
    /// Show what Nearhead does, on an emulated disk
    Demo(demo::DemoArgs),
    /// Measure every number the project claims
    Bench(bench::BenchArgs),
    /// Reproduce the papers' figures on disk models in virtual time
    Figures(figures::FiguresArgs),
    /// Record what goes to a block device, for replay
    Trace(trace::TraceArgs),
    /// Replay a block trace on a disk model, and say whether Nearhead would help
    Replay(replay::ReplayArgs),
    /// Run a program as it is, with its logs through the log library
    Run(run::RunArgs),
    /// Write-ahead logs of programs in any language
    #[command(subcommand)]
    Wal(wal::WalCommand),
    /// Write man pages and shell completions
    ///
    /// Completion in bash, zsh and fish is a function that asks the program what can stand where the cursor is. Without the files it is there after `source
    /// <(NEARHEAD_COMPLETE=bash nearhead)`, the same with zsh, and in fish after `NEARHEAD_COMPLETE=fish nearhead | source`.
    Generate(generate::GenerateArgs),
}

fn main() -> ExitCode {
    let args = file_system::as_command(std::env::args_os().collect());
    if let Some(done) = complete::asked(program, &args) {
        return ended(done);
    }
    nearhead_volume::tell_of_waits(|event| output::warn(&event.to_string()));
    let asked = failures::asked_in_words(&program(), &args);
    let is_json = asked.is_some();
    output::tell_failures_as_json(asked);
    let args = match chain::expanded(args.into_iter()) {
        Ok(args) => args,
        Err(problem) => return ended(Err(problem)),
    };
    let parsed = program().try_get_matches_from(args).and_then(|matches| {
        let asked = failures::asked(&matches);
        output::say_lines_as_json(asked.is_some());
        output::tell_failures_as_json(asked);
        Cli::from_arg_matches(&matches)
    });
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return failures::refused(&error, is_json),
    };
    carried_out(cli)
}

fn carried_out(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Status(args) => return ended(status::run(&args)),
        Command::Fsck(args) => return ended(file_system::fsck(&args)),
        Command::Create(args) => create::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Stop(args) => stop::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Attach(args) => attach::attach(&args),
        Command::Detach(args) => attach::detach(&args),
        Command::Upgrade(args) => attach::upgrade(&args),
        Command::Checkpoint(args) => checkpoint::run(&args, false),
        Command::Drain(args) => checkpoint::run(&args, true),
        Command::Check(args) => check::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::BackupMetadata(args) => backup::back_up(&args),
        Command::RestoreMetadata(args) => backup::restore(&args),
        Command::Grow(args) => grow::run(&args),
        Command::Replace(args) => replace::run(&args),
        Command::Hint(args) => hint::run(&args),
        Command::ForgetLog(args) => forget_log::run(&args),
        Command::Mkfs(args) => file_system::mkfs(&args),
        Command::Mount(args) => file_system::mount(&args),
        Command::Umount(args) => file_system::umount(&args),
        Command::Sync(args) => file_system::sync(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Disk(command) => disk::run(&command),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Wal(command) => wal::run(&command),
        Command::Generate(args) => generate::run(&args, program()),
    };
    ended(done.map(|()| ExitCode::SUCCESS))
}

/// The program's commands with all that help says of them.
fn program() -> clap::Command {
    help::explained(presets::listed_in(Cli::command()))
}

fn ended(result: Result<ExitCode, String>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(problem) => {
            output::fail(&problem, EXIT_FAILED);
            ExitCode::from(EXIT_FAILED)
        }
    }
}
