//! What `nearhead serve` is told: by flags, by a volume file in TOML, or both (flags win).
//!
//! A volume file has the names of the flags, with underscores:
//!
//! ```toml
//! target = "/dev/disk/by-id/ata-EXAMPLE"
//! socket = "/run/nearhead/disk.sock"
//! ack = "flush"
//! checkpoint_window = "01:00-05:00"
//! ```
//!
//! `checkpoint = { coordinate = "zk://zk-1:2181/nearhead/a", permits = 1 }` is `checkpoint_coordinate` and
//! `checkpoint_permits` in one.

mod memory;

use crate::cache_device::CacheDevice;
use crate::coordinate::{CheckpointTable, PERMITS_MAX, PermitsPlace, checked_permits};
use crate::rest_command::RestCommand;
use crate::sharing::{BULK_SHARE_MAX, Sharing};
use crate::socket::SocketMode;
use crate::units::{ByteSize, Span, Window};
use crate::{AckArg, DiskArgs, IoEngine, Opener, checked_threshold};
use chrono::Timelike;
use nearhead_disk::Nanos;
use nearhead_engine::{Ack, Config};
use nearhead_format::Superblock;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What named the volume before units of systemd read volume files.
const ENVIRONMENT_VARIABLE: &str = "NEARHEAD_VOLUME=";
/// Nice values that Linux has (`setpriority(2)`).
const NICE: std::ops::RangeInclusive<i64> = -20..=19;
/// More memory than any machine has for this.
const CHECKPOINT_MEMORY_MAX: u64 = 1 << 40;

/// What `nearhead serve` is told.
#[derive(clap::Args, Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct ServeArgs {
    /// Block device, image file, model:PROFILE,file=PATH (an emulated disk), or several of them as
    /// raid0:A,B?chunk=64k or mirror:A,B
    pub target: Option<String>,
    /// Read the volume file FILE.toml; its names are those of the flags, with underscores
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Listen on a Unix socket at PATH
    #[arg(long, short, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Permissions of that socket in octal, such as 0660 [default: as the umask says, 0660 with a group]
    #[arg(long, value_name = "MODE")]
    pub socket_mode: Option<SocketMode>,
    /// Group that the socket belongs to, by name or number
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,
    /// Listen on a TCP address such as 127.0.0.1:10809; 10809 is the port if none is given
    #[arg(long, value_name = "ADDRESS")]
    pub tcp: Option<String>,
    /// Show the volume as the file FOLDER/disk as well, of which `losetup --direct-io=on` makes a block device; it ends
    /// when somebody unmounts FOLDER. `nearhead attach` does all of that, and outlives a crash
    #[arg(long, value_name = "FOLDER")]
    pub file: Option<PathBuf>,
    /// Name of the export (may be given several times) [default: the empty name]
    #[arg(long, value_name = "NAME")]
    pub export: Vec<String>,
    /// Refuse every change; the disk is opened read-only
    #[arg(long)]
    pub read_only: bool,
    /// When writes are answered [default: as created]
    #[arg(long, value_enum)]
    pub ack: Option<AckArg>,
    /// Writes up to this size are logged [default: as created]
    #[arg(long, value_name = "BYTES")]
    pub threshold: Option<ByteSize>,
    /// Bring logged blocks home this often
    #[arg(long, value_name = "TIME")]
    pub checkpoint_period: Option<Span>,
    /// Bring them home once nobody asked for anything for this long; 0 never [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub checkpoint_idle: Option<Span>,
    /// Bring them home in this part of the day, in local time: HH:MM-HH:MM
    #[arg(long, value_name = "WINDOW")]
    pub checkpoint_window: Option<Window>,
    /// Let those three wait for a permit kept in ZooKeeper, so that replicas take turns:
    /// zk://HOST:PORT[,HOST:PORT...]/PATH
    #[arg(long, value_name = "ADDRESS")]
    pub checkpoint_coordinate: Option<PermitsPlace>,
    /// How many volumes with that path may have a permit at once; the same for all of them [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(PERMITS_MAX)))]
    pub checkpoint_permits: Option<u32>,
    /// File whose first line says as whom to ask, such as `digest user:password`; the same one for all of them.
    /// Nobody else may then touch their permits
    #[arg(long, value_name = "FILE")]
    pub checkpoint_identity: Option<PathBuf>,
    /// The three of them, as a volume file may have them.
    #[arg(skip)]
    pub checkpoint: Option<CheckpointTable>,
    /// Bring them home when the logs are this full, in percent; 0 never [default: 70]. Of a chain: clean a device when so much of it is in use [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub watermark: Option<u8>,
    /// Keep this much of what is logged in memory, so that bringing it home needs no read of a log; 0 nothing
    /// [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub checkpoint_memory: Option<ByteSize>,
    /// Memory for copies of what lies on the tail of a chain, so that reads leave its arm to the writes; 0 nothing [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub read_cache: Option<ByteSize>,
    /// Flash file or device for such copies; with a colon and a size behind its name the file is made. Nothing on it has to last
    #[arg(long, value_name = "FILE")]
    pub read_cache_device: Option<CacheDevice>,
    /// Memory for the map of a chain; one that may grow larger is paged: what is not asked for stays in its snapshot [default: 1GiB]
    #[arg(long, value_name = "BYTES")]
    pub map_memory: Option<ByteSize>,
    /// Let bulk give way until 99 of 100 durable writes take no longer than this, as far as the disk can; 0 no target
    /// [default: 0]
    #[arg(long, value_name = "TIME")]
    pub durable_p99: Option<Span>,
    /// Keep so much of the disk's time for large reads and writes, in percent, while there are any: durable writes wait for their turn, a
    /// second at most; 0 no share [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=i64::from(BULK_SHARE_MAX)))]
    pub bulk_share: Option<u8>,
    /// Let sides of mirrors rest that nothing was written to for this long: one side serves all reads then, and the drives of the
    /// others may sleep; they are woken before the tail of a chain comes to them. 0 none does [default: 0]
    #[arg(long, value_name = "TIME")]
    pub rest_mirrors: Option<Span>,
    /// Program that is run when a side begins to rest, and when it is woken, with two arguments: `rest` or `wake`, and the device. It may
    /// send the drive to sleep; nothing waits for it, and after half a minute it is killed
    #[arg(long, value_name = "PROGRAM")]
    pub rest_command: Option<RestCommand>,
    /// Move a log's content to a cold log when it is this full, in percent; 0 never [default: 80]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub swap_above: Option<u8>,
    /// Do so only after this long without a request [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub swap_idle: Option<Span>,
    /// Write a snapshot of the map at least this often while something is logged [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub snapshot_period: Option<Span>,
    /// Memory for small writes that wait to be logged [default: 16MiB]
    #[arg(long, value_name = "BYTES")]
    pub stage_size: Option<ByteSize>,
    /// Where the tracks of the disk are, as `nearhead calibrate --out` wrote it; of a striped array one for each member, in their
    /// order [default: as `calibrate --store` kept it in the volume]
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "crate::calibration::one_or_more")]
    pub calibration: Vec<PathBuf>,
    /// Certificate chain of the server, PEM: connections are encrypted
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the server, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authorities of which every client must show a certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_clients: Option<PathBuf>,
    /// Users and keys shared with them beforehand instead of certificates, lines USER:HEXKEY as psktool makes
    /// them (TLS-PSK): connections are encrypted
    #[arg(long, value_name = "FILE")]
    pub tls_psk: Option<PathBuf>,
    /// Let clients choose whether to encrypt
    #[arg(long)]
    pub tls_optional: bool,
    /// Control socket [default: derived from the target, in /run/nearhead or the user's runtime directory]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Serve metrics over HTTP at this address, for example 127.0.0.1:9420
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Serve a page for browsers at this address, for example 127.0.0.1:9421: what the volume does, live, and read-only
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// Most clients at once, at least one [default: 4096]
    #[arg(long, value_name = "NUMBER", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub connections_max: Option<usize>,
    /// Nice value of the serving thread; below 0 takes a privilege [default: -10 if that is allowed and whoever
    /// started it chose none]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(NICE))]
    pub nice: Option<i32>,
    /// How long a graceful stop may take [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub shutdown_max: Option<Span>,
    /// Make the volume if its file does not exist yet (an emulated disk in memory never does)
    #[arg(long)]
    pub create_if_missing: bool,
    /// Preset of a volume made so [default: that of `create`]
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Size of an image made so
    #[arg(long, value_name = "BYTES")]
    pub size: Option<ByteSize>,
    /// Say that it is ready as one line of JSON
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    #[command(flatten)]
    #[serde(skip)]
    /// How the disk is driven.
    pub disk: DiskArgs,
    /// `disk.io`, as a volume file says it, like the five after it: [`Self::from_text`] puts them there.
    #[arg(skip)]
    pub io: Option<IoEngine>,
    /// `disk.page_cache`, as a volume file says it.
    #[arg(skip)]
    pub page_cache: Option<bool>,
    /// `disk.direct_reads`, as a volume file says it.
    #[arg(skip)]
    pub direct_reads: bool,
    /// `disk.rotational`, as a volume file says it.
    #[arg(skip)]
    pub rotational: Option<bool>,
    /// `disk.map_device`, as a volume file says it.
    #[arg(skip)]
    pub map_device: Option<PathBuf>,
    /// `disk.data_devices`, as a volume file says it: one text, or a list.
    #[arg(skip)]
    #[serde(deserialize_with = "crate::disk::one_or_more")]
    pub data_devices: Vec<String>,
    /// `disk.log_devices`, as a volume file says it: one text, or a list.
    #[arg(skip)]
    #[serde(deserialize_with = "crate::disk::one_or_more")]
    pub log_devices: Vec<String>,
}

impl ServeArgs {
    /// The volume to serve.
    pub fn target(&self) -> Result<&str, String> {
        self.target.as_deref().ok_or_else(|| {
            "serve: expected a volume, found neither a TARGET nor `target` in a --config file"
                .to_owned()
        })
    }

    /// These flags, completed by the volume file if there is one.
    pub fn merged_with_file(&self) -> Result<Self, String> {
        let Some(path) = &self.config else { return Ok(self.clone()) };
        Ok(self.completed_by(read_file(path)?))
    }

    /// These flags, and what `file` says where they say nothing.
    #[must_use]
    pub fn completed_by(&self, file: Self) -> Self {
        let mut merged = self.clone();
        macro_rules! complete {
            ($($field:ident),*) => { $(merged.$field = merged.$field.or(file.$field);)* };
        }
        complete!(target, socket, socket_mode, socket_group, tcp, file);
        complete!(ack, threshold, checkpoint_period, checkpoint_idle);
        complete!(
            checkpoint_window,
            checkpoint_memory,
            read_cache,
            read_cache_device,
            map_memory,
            checkpoint_coordinate,
            checkpoint_permits,
            checkpoint_identity,
            watermark,
            durable_p99,
            bulk_share,
            rest_mirrors,
            rest_command,
            swap_above,
            swap_idle,
            snapshot_period,
            stage_size
        );
        complete!(tls_cert, tls_key, tls_clients, tls_psk, control, metrics, http, connections_max);
        complete!(nice, shutdown_max, preset, size);
        merged.read_only |= file.read_only;
        merged.tls_optional |= file.tls_optional;
        merged.create_if_missing |= file.create_if_missing;
        if merged.export.is_empty() {
            merged.export = file.export;
        }
        if merged.calibration.is_empty() {
            merged.calibration = file.calibration;
        }
        let disk = &mut merged.disk;
        if disk.io == IoEngine::Auto {
            disk.io = file.disk.io;
        }
        disk.page_cache = disk.page_cache.or(file.disk.page_cache);
        disk.direct_reads |= file.disk.direct_reads;
        disk.rotational = disk.rotational.or(file.disk.rotational);
        disk.map_device = disk.map_device.take().or(file.disk.map_device);
        if disk.data_devices.is_empty() {
            disk.data_devices = file.disk.data_devices;
        }
        if disk.log_devices.is_empty() {
            disk.log_devices = file.disk.log_devices;
        }
        merged
    }

    /// Reads a volume file's text.
    pub fn from_text(text: &str) -> Result<Self, String> {
        if text.lines().any(|line| line.trim_start().starts_with(ENVIRONMENT_VARIABLE)) {
            return Err(format!(
                "expected settings in TOML, found variables for a shell ({ENVIRONMENT_VARIABLE}), as older \
                 units of systemd read them; write target = \"DISK\" instead, and each option of \
                 NEARHEAD_OPTIONS as a line of its own: --ack flush becomes ack = \"flush\""
            ));
        }
        let mut file: Self =
            toml::from_str(text).map_err(|error| crate::volume_file::in_words(text, &error))?;
        // The same bounds as those of the flags.
        for (name, percent) in [("watermark", file.watermark), ("swap_above", file.swap_above)] {
            if let Some(found) = percent.filter(|percent| *percent > 100) {
                return Err(format!("{name}: expected 0 to 100 percent, found {found}"));
            }
        }
        if let Some(found) = file.bulk_share.filter(|share| *share > BULK_SHARE_MAX) {
            return Err(format!(
                "bulk_share: expected 0 to {BULK_SHARE_MAX} percent, found {found}"
            ));
        }
        if let Some(found) = file.nice.filter(|nice| !NICE.contains(&i64::from(*nice))) {
            return Err(format!("nice: expected -20 to 19, found {found}"));
        }
        if file.connections_max == Some(0) {
            return Err("connections_max: expected at least 1, found 0".to_owned());
        }
        file.disk = DiskArgs {
            io: file.io.take().unwrap_or_default(),
            page_cache: file.page_cache.take(),
            direct_reads: std::mem::take(&mut file.direct_reads),
            rotational: file.rotational.take(),
            map_device: file.map_device.take(),
            chain: Vec::new(),
            data_devices: std::mem::take(&mut file.data_devices),
            log_devices: std::mem::take(&mut file.log_devices),
            without_log: false,
            opener: Opener::default(),
        };
        file.take_table_apart()?;
        if let Some(permits) = file.checkpoint_permits {
            checked_permits(permits)?;
        }
        Ok(file)
    }

    fn take_table_apart(&mut self) -> Result<(), String> {
        let Some(table) = self.checkpoint.take() else { return Ok(()) };
        if self.checkpoint_coordinate.is_some()
            || self.checkpoint_permits.is_some()
            || self.checkpoint_identity.is_some()
        {
            return Err("checkpoint: expected `checkpoint = { coordinate, permits, identity }` or \
                        `checkpoint_coordinate`, `checkpoint_permits` and `checkpoint_identity`, found both; \
                        leave one out"
                .to_owned());
        }
        self.checkpoint_coordinate = Some(table.coordinate);
        self.checkpoint_permits = table.permits;
        self.checkpoint_identity = table.identity;
        Ok(())
    }

    /// Where permits for checkpoints that can wait come from, and how many there are; `None` without coordination.
    pub fn coordination(&self) -> Result<Option<(&PermitsPlace, u32)>, String> {
        match (&self.checkpoint_coordinate, self.checkpoint_permits) {
            (None, None) if self.checkpoint_identity.is_some() => {
                Err("--checkpoint-identity: expected --checkpoint-coordinate ADDRESS with it, found only the identity; \
                     say which ensemble keeps the permits, or leave it out"
                    .to_owned())
            }
            (None, None) => Ok(None),
            (None, Some(permits)) => Err(format!(
                "--checkpoint-permits: expected --checkpoint-coordinate ADDRESS with it, found only {permits} permits; \
                 say which ensemble keeps them, or leave it out"
            )),
            (Some(place), permits) => Ok(Some((place, permits.unwrap_or(1)))),
        }
    }

    /// Puts what was asked for over the defaults of the volume, whose preset is called `preset`.
    pub fn configure(
        &self,
        superblock: &Superblock,
        preset: &str,
        config: &mut Config,
    ) -> Result<(), String> {
        config.read_only |= self.read_only;
        if !self.calibration.is_empty() {
            config.tracks = crate::calibration::read(&self.calibration)?;
        }
        if let Some(ack) = self.ack {
            config.ack = match ack {
                AckArg::Durable => Ack::Durable,
                AckArg::Flush => Ack::Flush,
            };
        }
        if let Some(ByteSize(bytes)) = self.threshold {
            if superblock.layout.log_count() == 0 {
                return Err(format!(
                    "--threshold: expected a volume with logs, found preset {preset}; leave --threshold out"
                ));
            }
            config.logged_write_bytes_max = checked_threshold(bytes)?;
        }
        if let Some(ByteSize(bytes)) = self.stage_size {
            let min = 2 * u64::from(config.record_bytes_max);
            if !(min..=1 << 34).contains(&bytes) {
                return Err(format!("--stage-size: expected {min} bytes to 16 GiB, found {bytes}"));
            }
            config.stage_bytes_max = bytes as usize;
        }
        if let Some(Span(span)) = self.snapshot_period {
            if span == Nanos::ZERO {
                return Err(
                    "--snapshot-period: expected more than 0, found 0; 1s is very often".to_owned()
                );
            }
            config.snapshot_period = span;
        }
        self.configure_read_cache(superblock, preset, config)?;
        self.configure_map_memory(superblock, preset, config)?;
        let positive = |span: Span| Some(span.0).filter(|span| *span > Nanos::ZERO);
        let Self { durable_p99, bulk_share, .. } = *self;
        Sharing { durable_p99, bulk_share }.configure(superblock, config)?;
        let cleaning = &mut config.cleaning;
        if let Some(span) = self.checkpoint_period {
            cleaning.period = positive(span);
        }
        if let Some(span) = self.checkpoint_idle {
            cleaning.idle_after = positive(span);
        }
        if let Some(Window { start_s, end_s }) = self.checkpoint_window {
            cleaning.window = Some((start_s, end_s));
        }
        if let Some(ByteSize(bytes)) = self.checkpoint_memory {
            if bytes > CHECKPOINT_MEMORY_MAX {
                return Err(format!(
                    "--checkpoint-memory: expected at most 1 TiB, found {bytes} bytes; take what the machine can spare, such as 64MiB"
                ));
            }
            cleaning.memory_bytes = bytes;
        }
        cleaning.coordinated = self.coordination()?.is_some();
        if let Some(percent) = self.watermark {
            cleaning.watermark_pct = Some(percent).filter(|percent| *percent > 0);
        }
        if let Some(percent) = self.swap_above {
            cleaning.swap_above_pct = Some(percent).filter(|percent| *percent > 0);
        }
        if let Some(Span(span)) = self.swap_idle {
            cleaning.swap_idle_after = span;
        }
        // The engine's clock began a moment ago: close enough for a part of the day.
        config.second_of_day_at_zero = second_of_day();
        Ok(())
    }
}

/// Seconds since midnight, in local time.
pub fn second_of_day() -> u32 {
    chrono::Local::now().num_seconds_from_midnight()
}

fn read_file(path: &Path) -> Result<ServeArgs, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let older = path.with_extension("conf");
        let advice = if older.is_file() {
            format!(
                "{} is of an older form, which is not read any more: write what it says to {shown}, in TOML",
                older.display()
            )
        } else {
            "check the path".to_owned()
        };
        format!("volume file {shown}: expected a file in TOML, found {error}; {advice}")
    })?;
    ServeArgs::from_text(&text).map_err(|error| format!("volume file {shown}: {error}"))
}

#[cfg(test)]
mod tests;
