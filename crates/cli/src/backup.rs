//! `nearhead backup-metadata` and `nearhead restore-metadata`: superblock and map in a file, and back.
//!
//! A backup is small beside the volume and holds no client's data. Of a volume that is served, the daemon writes a new
//! snapshot, and this process reads it beside the daemon: a snapshot is never written again before two newer ones, and
//! one that was torn all the same is found out by its checksum and read anew. A restore is refused for another volume, and where
//! the device's own snapshot is sound; it rebuilds the map from the backup and the logs, and says what would be lost
//! before anything is given up.

use crate::control::{Client, why_not_there};
use crate::repair::{DoubtfulArg, LostArgs, RepairArgs, from_backup};
use crate::report::StatusReport;
use crate::target::{Access, DiskArgs, Target, device_flags};
use nearhead_format::backup::BackupHead;
use nearhead_output::{hex, say, say_json};
use nearhead_volume::Presets;
use nearhead_volume::backup::{Backup, BackupError, Present, look, restore_superblock};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What `nearhead backup-metadata` is told.
#[derive(clap::Args, Debug)]
pub struct BackupArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; may be served, but for
    /// emulated disks
    pub target: String,
    /// The file to make; it must not be there
    pub file: PathBuf,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// What `nearhead restore-metadata` is told.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct RestoreArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; not being served
    pub target: String,
    /// A file that `nearhead backup-metadata` made
    pub file: PathBuf,
    /// Say all that would be done and lost, and change nothing; exit code 1 if something would be lost
    #[arg(long)]
    pub dry_run: bool,
    /// Also over a snapshot that is sound, whose newer changes are given up, and over what another program wrote to the device
    #[arg(long)]
    pub force: bool,
    /// Give up what is listed as doubtful
    #[arg(long)]
    pub accept_loss: bool,
    /// What doubtful bytes read as of which a log has a copy: an error, or that copy
    #[arg(long, value_enum, default_value_t = DoubtfulArg::Error)]
    pub doubtful: DoubtfulArg,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    target: &'a str,
    file: &'a Path,
    file_bytes: u64,
    volume_id: String,
    snapshot_number: u64,
    record_sequence: u64,
    map_entries: u64,
    made_unix_s: u64,
    while_served: bool,
}

/// How often a daemon is asked how far it is, and how long a snapshot may take.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const SNAPSHOT_WAIT_MAX: Duration = Duration::from_secs(600);
/// How often a snapshot may be overwritten while it is read: each time two newer ones were written meanwhile.
const READS_MAX: u32 = 5;
/// What a backup begins with.
const HEAD_BYTES: u64 = 4096;

/// Makes a backup.
pub fn back_up(args: &BackupArgs) -> Result<(), String> {
    let failed =
        |problem: &dyn std::fmt::Display| format!("backup-metadata {}: {problem}", args.target);
    if args.file.symlink_metadata().is_ok() {
        return Err(failed(&format_args!(
            "expected to make the new file {}, found something there; choose another name",
            args.file.display()
        )));
    }
    let daemon = Client::find(&args.target, args.control.as_deref())?;
    let while_served = daemon.is_some();
    let backup = match daemon {
        Some(client) => take_beside(args, client).map_err(|error| failed(&error))?,
        None => take(args, Access::Read)?.map_err(|error| failed(&error))?,
    };
    let bytes = backup.encode();
    write_new(&args.file, &bytes).map_err(|error| {
        failed(&format_args!("expected to make the new file {}: {error}", args.file.display()))
            + &why_not_there(&args.file)
    })?;
    let report = Report {
        target: &args.target,
        file: &args.file,
        file_bytes: bytes.len() as u64,
        volume_id: hex(&backup.head.volume_id),
        snapshot_number: backup.head.snapshot_number,
        record_sequence: backup.snapshot.record_sequence,
        map_entries: backup.snapshot.body.entry_count,
        made_unix_s: backup.head.made_unix_s,
        while_served,
    };
    if args.json {
        return say_json(&report);
    }
    say(&format!(
        "{}: superblock and snapshot {} of volume {} ({} pieces), {} bytes; keep it on another device",
        args.file.display(),
        report.snapshot_number,
        report.volume_id,
        report.map_entries,
        report.file_bytes
    ));
    Ok(())
}

/// Reads superblock and newest snapshot; what could not be opened is the outer error.
fn take(args: &BackupArgs, access: Access) -> Result<Result<Backup, BackupError>, String> {
    let mut target = Target::open(&args.target, access, &args.disk)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Backup::take(&mut target.io(), now.map_or(0, |now| now.as_secs())))
}

/// The same of a volume that a daemon serves, which writes a snapshot of now first.
fn take_beside(args: &BackupArgs, mut client: Client) -> Result<Backup, String> {
    let mut problem = String::new();
    for _ in 0..READS_MAX {
        let number = new_snapshot(&mut client)?;
        match take(args, Access::Beside)? {
            Ok(backup) if backup.head.snapshot_number >= number => return Ok(backup),
            Ok(backup) => {
                let found = backup.head.snapshot_number;
                problem = format!("expected snapshot {number} or a newer one, found {found}");
            }
            Err(error) => problem = error.to_string(),
        }
    }
    Err(format!(
        "{problem}; the daemon wrote newer ones meanwhile, {READS_MAX} times: try again when less is written"
    ))
}

/// Has the daemon write a snapshot, and waits for it; its number, or that of the newest if it may not write.
fn new_snapshot(client: &mut Client) -> Result<u64, String> {
    let before: StatusReport = client.ask("status")?;
    let is_read_only = before.served.as_ref().is_some_and(|served| served.read_only);
    if is_read_only || before.state.failure.is_some() {
        return Ok(before.state.snapshot_number);
    }
    let _: String = client.ask("snapshot")?;
    let begun = Instant::now();
    loop {
        let report: StatusReport = client.ask("status")?;
        if report.state.snapshot_number > before.state.snapshot_number {
            return Ok(report.state.snapshot_number);
        }
        if let Some(failure) = report.state.failure {
            return Err(format!("the volume failed: {failure}"));
        }
        if begun.elapsed() > SNAPSHOT_WAIT_MAX {
            return Err(format!(
                "expected a new snapshot within {} s, found none; see `nearhead status`",
                SNAPSHOT_WAIT_MAX.as_secs()
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // It is ours, and no backup.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Reads a backup, of which the head says how long it must be.
fn read_backup(path: &Path) -> Result<Backup, String> {
    let failed = |problem: &dyn std::fmt::Display| {
        format!("restore-metadata: {}: {problem}", path.display())
    };
    // Looked at before opening: opening a named pipe would wait for its other end.
    let found = std::fs::metadata(path).map_err(|error| failed(&error))?;
    let (is_file, found) = (found.is_file(), found.len());
    if !is_file || found < HEAD_BYTES {
        let what = if is_file { format!("{found} bytes") } else { "no regular file".to_owned() };
        return Err(failed(&format_args!(
            "expected a file of at least {HEAD_BYTES} bytes that `nearhead backup-metadata` made, found {what}"
        )));
    }
    let mut file = File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = vec![0; HEAD_BYTES as usize];
    file.read_exact(&mut bytes).map_err(|error| failed(&error))?;
    let head = BackupHead::decode(&bytes).map_err(|error| failed(&error))?;
    let expected = head.file_bytes().unwrap_or(0);
    if expected != found {
        return Err(failed(&format_args!(
            "expected {expected} bytes, found {found}: it was cut short"
        )));
    }
    file.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    Backup::decode(&bytes, Presets::default()).map_err(|error| failed(&error))
}

/// Restores from a backup.
pub fn restore(args: &RestoreArgs) -> Result<(), String> {
    let failed =
        |problem: &dyn std::fmt::Display| format!("restore-metadata {}: {problem}", args.target);
    let backup = read_backup(&args.file)?;
    let access = if args.dry_run { Access::Read } else { Access::Write };
    let mut target = Target::open(&args.target, access, &args.disk)?;
    let Present { superblock, snapshot_number, foreign } =
        look(&mut target.io(), &backup).map_err(|error| failed(&error))?;
    if let Some(found) = foreign.filter(|_| !args.force) {
        return Err(failed(&format_args!(
            "expected a device on which no other program wrote, found {found}; --force restores the volume over it"
        )));
    }
    let is_bare = superblock.is_none();
    if let Some(number) = snapshot_number.filter(|_| !args.force && !is_bare) {
        return Err(failed(&format_args!(
            "expected a volume without a sound snapshot, found snapshot {number}, which knows all that the backup of \
             snapshot {} does not: nothing is to be restored (--force gives up what only it knows)",
            backup.head.snapshot_number
        )));
    }
    if is_bare && !args.dry_run {
        restore_superblock(&mut target.io(), &backup).map_err(|error| failed(&error))?;
    }
    if is_bare && !args.json {
        let does = if args.dry_run { "would write" } else { "written" };
        say(&format!("{does}: three copies of the superblock, from {}", args.file.display()));
    }
    if let Some(number) = snapshot_number.filter(|_| !args.force) {
        if !args.json {
            say(&format!("snapshot {number} on {} is sound: the map needs no backup", args.target));
        }
        return if args.dry_run { Ok(()) } else { target.leave() };
    }
    let superblock = superblock.unwrap_or_else(|| backup.superblock.clone());
    let again = format!(
        "nearhead restore-metadata {} {}{} --accept-loss",
        args.target,
        args.file.display(),
        device_flags(&args.disk)
    );
    let as_repair = RepairArgs {
        target: args.target.clone(),
        dry_run: args.dry_run,
        accept_loss: args.accept_loss,
        doubtful: args.doubtful,
        new_log: false,
        json: args.json,
        lost: LostArgs::default(),
        disk: args.disk.clone(),
    };
    from_backup(&as_repair, target, &backup, &superblock, &again)
}
