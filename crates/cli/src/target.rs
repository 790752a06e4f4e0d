//! What a volume lives on: a block device, an image file, an emulated disk, or an array of such,
//! opened as one type.
//!
//! Opening keeps every other process out, and never changes anything by itself: an image that is
//! missing or too short is an error here, not something to make good quietly.

use crate::attach;
use crate::units::ByteSize;
use nearhead_arrays::ArraySpec;
use nearhead_disk::{Disk, WholeRuns};
use nearhead_models::ModelSpec;
use nearhead_nbd::client::Address;
use nearhead_uring::{Engine, OpenOptions};
use nearhead_volume::{GatheredDisk, Lanes, SyncIo};
use std::path::{Path, PathBuf};
use std::time::Instant;

mod array;
mod cache;
mod data;
mod device_names;
mod remote;
mod successor;
mod without_log;

pub use array::{label as array_label, refuse_if_misnamed};
pub use data::{Beside, flags as device_flags};
pub use device_names::DeviceNames;
pub use nearhead_settings::{DiskArgs, IoEngine, Opener};
pub use successor::{check_successor, label_successor};
pub use without_log::DataDevices;

/// Size of the image made for a map device that does not exist yet: 64 MiB hold the map of a million
/// logged blocks.
const MAP_IMAGE_BYTES: u64 = 64 << 20;

/// What is to be done with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only looked at.
    Read,
    /// The same beside a daemon of ours that has it, and agreed: nobody is kept out, and what is read may be changing.
    Beside,
    /// Changed.
    Write,
    /// Made: a file of an emulated disk may be missing or short.
    Create {
        /// Whatever is there now.
        force: bool,
        /// Of a striped array, runs of its addresses that are each to lie on one member.
        whole_runs: Option<WholeRuns>,
    },
}

impl Access {
    fn creates(self) -> bool {
        matches!(self, Self::Create { .. })
    }

    /// The same for a device beside the one that has the logs.
    fn of_part(self) -> Self {
        match self {
            Self::Create { force, .. } => Self::Create { force, whole_runs: None },
            other => other,
        }
    }

    /// Whether nothing is changed.
    fn only_looks(self) -> bool {
        matches!(self, Self::Read | Self::Beside)
    }
}

/// A member of an array that was named by itself.
#[derive(Clone, Debug)]
pub struct LoneMember {
    /// Which, of what, in words.
    pub told: String,
    /// Whether it holds all bytes of the array.
    pub is_whole: bool,
}

/// An open disk and the instant from which its time counts.
pub struct Target {
    /// As the user named it.
    pub name: String,
    /// The disk, and a map device and data devices if such were named.
    pub lanes: Lanes<Box<dyn Disk + Send>>,
    /// What the user should know about it.
    pub notes: Vec<String>,
    /// Which member of which array it is, if it is one by itself.
    pub lone_member: Option<LoneMember>,
    /// Zero of its clock.
    pub start: Instant,
}

impl Target {
    /// Opens `text` as a device, an image, an emulated disk or an array, and beside it the devices that `args` name.
    pub fn open(text: &str, access: Access, args: &DiskArgs) -> Result<Self, String> {
        Self::open_by(text, access, args, Instant::now())
    }

    /// The same by a clock that began at `start`.
    pub fn open_by(
        text: &str,
        access: Access,
        args: &DiskArgs,
        start: Instant,
    ) -> Result<Self, String> {
        let beside = Beside::of(args)?;
        refuse_unknown_kind(text)?;
        if args.without_log {
            return without_log::open(text, args, start);
        }
        if text == nearhead_arrays::MISSING {
            return Err(format!(
                "open {text}: expected the device with the superblocks, found that it is said to be missing; nothing can be found without \
                 it: name it, or bring its metadata back to another one (`nearhead restore-metadata`); if it was a log device, data devices that \
                 were drained are read without it (--without-log)"
            ));
        }
        data::refuse_one_device_twice(text, args, &beside)?;
        let Opened { disk, mut notes, lone_member } = open_disk(text, access, args, start)?;
        let disk = gathered(disk)?;
        let lanes = match &args.map_device {
            None => disk.into(),
            Some(path) => with_map_device(disk, path, access, args)?,
        };
        let lanes = data::beside(lanes, &beside, &mut notes, |text| {
            open_disk(text, access.of_part(), args, start)
        })?;
        let mut target = Self { name: text.to_owned(), lanes, notes, lone_member, start };
        if access == Access::Write {
            attach::refuse_if_attached(&mut target, &args.opener)?;
        }
        Ok(target)
    }

    /// Why its volume cannot be looked at, in words. What is found on a part of an array says nothing
    /// about the array.
    pub fn problem(
        name: &str,
        lone_member: Option<&LoneMember>,
        error: &dyn std::fmt::Display,
    ) -> String {
        match lone_member {
            None => error.to_string(),
            Some(LoneMember { told, is_whole: true }) => format!("{error} ({told})"),
            Some(LoneMember { told, .. }) => format!(
                "{name}: expected a whole volume, found only a part: {told}; name the array with all its \
                 members, as when the volume was made"
            ),
        }
    }

    /// One command at a time.
    pub fn io(&mut self) -> SyncIo<'_> {
        self.lanes.in_real_time(self.start)
    }

    /// Leaves the disk in order: nothing more will be changed.
    pub fn leave(&mut self) -> Result<(), String> {
        self.io().leave().map_err(|error| format!("{}: {error}", self.name))
    }
}

/// One open disk.
struct Opened {
    disk: Box<dyn Disk + Send>,
    notes: Vec<String>,
    lone_member: Option<LoneMember>,
}

/// Opens what one name means.
fn open_disk(
    text: &str,
    access: Access,
    args: &DiskArgs,
    start: Instant,
) -> Result<Opened, String> {
    refuse_unknown_kind(text)?;
    if ArraySpec::is_array(text) {
        let (disk, notes) = array::open(text, access, args, start)?;
        return Ok(Opened { disk, notes, lone_member: None });
    }
    let (mut disk, mut notes) = if ModelSpec::is_model(text) {
        (open_model(text, access)?, Vec::new())
    } else if Address::is_export(text) {
        remote::open(text, access)?
    } else {
        open_real(Path::new(text), access, args)?
    };
    let lone_member = array::refuse_lone_member(text, &mut disk, access, start)?;
    notes.extend(lone_member.as_ref().map(|member| member.told.clone()));
    Ok(Opened { disk, notes, lone_member })
}

/// Opens a disk that becomes a part of a volume.
pub fn open_alone(
    text: &str,
    access: Access,
    args: &DiskArgs,
    start: Instant,
) -> Result<Box<dyn Disk + Send>, String> {
    Ok(open_disk(text, access, args, start)?.disk)
}

/// Whether `text` means a disk that has its size already and is no file to be made.
pub fn has_its_own_size(text: &str) -> bool {
    ModelSpec::is_model(text) || Address::is_export(text)
}

/// Refuses what looks like a kind of target that there is not, and is no file either.
pub fn refuse_unknown_kind(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("open: expected the name of a device or image, found an empty one".to_owned());
    }
    let is_known =
        ModelSpec::is_model(text) || ArraySpec::is_array(text) || Address::is_export(text);
    let Some((kind, _)) = text.split_once(':').filter(|_| !is_known) else { return Ok(()) };
    let is_word = kind.starts_with(|c: char| c.is_ascii_alphabetic())
        && kind.chars().all(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
    if !is_word || Path::new(text).exists() {
        return Ok(());
    }
    let meant =
        if kind.eq_ignore_ascii_case("raid1") { " (raid1 is called mirror here)" } else { "" };
    Err(format!(
        "open {text}: expected a path, model:PROFILE, raid0:A,B, mirror:A,B, nbd://HOST:PORT or \
         nbd+unix:///?socket=PATH, found {kind:?} before a colon{meant}, and no file by that name; check the \
         spelling, or write ./{text} for a file"
    ))
}

/// The file or device that holds the bytes of `text`, if there is one; of an array, the first.
pub fn backing_path(text: &str) -> Result<Option<PathBuf>, String> {
    Ok(backing_paths(text)?.into_iter().next())
}

/// The files and devices that hold the bytes of `text`: several of an array.
pub fn backing_paths(text: &str) -> Result<Vec<PathBuf>, String> {
    if ArraySpec::is_array(text) {
        let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
        let members = spec.members.iter().filter(|member| *member != nearhead_arrays::MISSING);
        let paths: Result<Vec<_>, _> = members.map(|text| backing_paths(text)).collect();
        return Ok(paths?.into_iter().flatten().collect());
    }
    if Address::is_export(text) {
        return Ok(vec![remote::path(text)?]);
    }
    if !ModelSpec::is_model(text) {
        return Ok(vec![PathBuf::from(text)]);
    }
    let spec = ModelSpec::parse(text).map_err(|error| error.to_string())?;
    Ok(match spec.content {
        nearhead_models::Content::File(path) => vec![path],
        nearhead_models::Content::Memory | nearhead_models::Content::None => Vec::new(),
    })
}

/// A disk whose non-shingled ranges lie between its bands, as volumes want it; any other as it is.
fn gathered(disk: Box<dyn Disk + Send>) -> Result<Box<dyn Disk + Send>, String> {
    if !GatheredDisk::is_needed(&disk) {
        return Ok(disk);
    }
    let gathered = GatheredDisk::new(disk).map_err(|error| error.to_string())?;
    Ok(Box::new(gathered))
}

fn with_map_device(
    disk: Box<dyn Disk + Send>,
    path: &Path,
    access: Access,
    args: &DiskArgs,
) -> Result<Lanes<Box<dyn Disk + Send>>, String> {
    if access.creates() && !path.exists() {
        nearhead_uring::create_image(path, MAP_IMAGE_BYTES).map_err(|error| error.to_string())?;
    }
    let (map, _) = open_real(path, access, args)?;
    Lanes::with_map(disk, map).map_err(|error| error.to_string())
}

/// Which sparse images of `text` may take more space than their file systems have now, one line each. The files of
/// emulated disks are larger than that by nature, and are not told of.
pub fn space_notes(text: &str) -> Vec<String> {
    if ArraySpec::is_array(text) {
        let members = ArraySpec::parse(text).map(|spec| spec.members).unwrap_or_default();
        return members.iter().flat_map(|member| space_notes(member)).collect();
    }
    let images = [PathBuf::from(text)];
    let told = |path: &PathBuf| {
        let (wanted, free) = nearhead_uring::space_missing(path)?;
        Some(format!(
            "{} may grow by {} and its file system has {} free: writes fail when that is used up; free some, or take \
             the space while it is there (`create --preallocate`, `fallocate --length BYTES FILE`)",
            path.display(),
            ByteSize(wanted),
            ByteSize(free),
        ))
    };
    images.iter().filter_map(told).collect()
}

fn open_model(text: &str, access: Access) -> Result<Box<dyn Disk + Send>, String> {
    if access == Access::Beside {
        return Err(format!(
            "open {text}: expected a disk that can be read beside its daemon, found an emulated one, whose file it has to \
             itself; stop the daemon first"
        ));
    }
    let spec = ModelSpec::parse(text).map_err(|error| error.to_string())?;
    if let nearhead_models::Content::File(path) = &spec.content {
        if !access.creates() {
            check_model_file(path, spec.capacity_bytes().map_err(|error| error.to_string())?)?;
        }
        nearhead_uring::refuse_used_file(path).map_err(|error| error.to_string())?;
    }
    let disk = spec.build_any().map_err(|error| format!("open {text}: {error}"))?;
    Ok(Box::new(disk))
}

fn check_model_file(path: &Path, capacity_bytes: u64) -> Result<(), String> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|error| {
        format!(
            "open {shown}: expected the file of an emulated disk, found {error}; \
             check the path, or make one with `nearhead create`"
        )
    })?;
    if found.len() < capacity_bytes {
        return Err(format!(
            "open {shown}: expected {capacity_bytes} bytes, the size of the emulated disk, found \
             {}; the file was cut short or belongs to another profile, restore it first",
            found.len()
        ));
    }
    Ok(())
}

fn open_real(
    path: &Path,
    access: Access,
    args: &DiskArgs,
) -> Result<(Box<dyn Disk + Send>, Vec<String>), String> {
    let options = OpenOptions {
        read_only: access.only_looks(),
        exclusive: access != Access::Beside,
        direct: args.page_cache != Some(true),
        cache_writes: args.page_cache.is_none() && !args.direct_reads && !access.only_looks(),
        // Who only looks wants to see the disk.
        cache_reads: !args.direct_reads && !access.only_looks(),
        rotational: args.rotational,
        // Who only looks has no use for it.
        time_head: !access.only_looks(),
        engine: match args.io {
            IoEngine::Auto => Engine::Automatic,
            IoEngine::Uring => Engine::Uring,
            IoEngine::Threads => Engine::Threads,
        },
        ..OpenOptions::default()
    };
    let disk = nearhead_uring::open(path, &options).map_err(|error| error.to_string())?;
    let notes = disk.notes().to_vec();
    Ok((Box::new(disk), notes))
}
