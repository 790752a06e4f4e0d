//! `nearhead create`: makes a volume on a device, an image file or an emulated disk.
//!
//! What is there is refused unless the user insists; a new image that could not become a volume is
//! removed again.

mod data;

use crate::report::{DeviceReport, preset_name};
use crate::target::{
    Access, Beside, DiskArgs, Target, array_label, device_flags, has_its_own_size,
    refuse_unknown_kind, space_notes,
};
use crate::unfinished::Unfinished;
use crate::units::ByteSize;
use nearhead_arrays::ArraySpec;
use nearhead_format::layout::DEVICE_BYTES_MIN;
use nearhead_format::layout::DataParts;
use nearhead_format::{Label, Superblock};
use nearhead_models::{Content, ModelSpec};
use nearhead_output::{changes_a_terminal, hex, note, plain, quoted, say, say_json};
use nearhead_settings::{AckArg, checked_threshold};
use nearhead_volume::{CreateOptions, DEFAULT_PRESET, NamedPreset, whole_logs};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What `nearhead create` is told.
#[derive(clap::Args, Clone, Debug)]
pub struct CreateArgs {
    /// Block device, image file, model:PROFILE,file=PATH (an emulated disk), or several of them as
    /// raid0:A,B?chunk=64k or mirror:A,B; with --data-devices the log device
    #[arg(required_unless_present = "log_device")]
    pub target: Option<String>,
    /// The same as TARGET, for the log device in front of --data-devices
    #[arg(long, value_name = "DEVICE", conflicts_with = "target")]
    pub log_device: Option<String>,
    /// Make a new sparse image file of this size, and one of each log device that does not exist
    #[arg(long)]
    pub size: Option<ByteSize>,
    /// Make a new sparse image file of this size of each data device that does not exist
    #[arg(long, value_name = "BYTES")]
    pub data_size: Option<ByteSize>,
    /// Take all of the space of a new image from its file system now, so that it cannot run out later
    #[arg(long)]
    pub preallocate: bool,
    /// Which policies
    #[arg(long, help = format!("Which policies [default: {DEFAULT_PRESET}; trail with --data-devices]"))]
    pub preset: Option<String>,
    /// Writes up to this size are logged [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub threshold: Option<ByteSize>,
    /// Size of a group: data with a log in its middle [default: 100 MiB]
    #[arg(long, value_name = "BYTES")]
    pub group_size: Option<ByteSize>,
    /// Size of each log [default: 10 MiB]
    #[arg(long, value_name = "BYTES")]
    pub log_size: Option<ByteSize>,
    /// Keep room so that the volume can grow to a device of this size
    #[arg(long, value_name = "BYTES")]
    pub grow_to: Option<ByteSize>,
    /// Whether a record may bring the new bytes of a sector alone, as the file system's small writes want it; programs before 2026-11 cannot
    /// open such a volume [default: yes with nearhead, else no]
    #[arg(long, value_enum, value_name = "yes|no", hide_possible_values = true)]
    pub fragments: Option<YesOrNo>,
    /// When writes are answered
    #[arg(long, value_enum, default_value_t)]
    pub ack: AckArg,
    /// A name for people, at most 64 bytes
    #[arg(long, default_value = "")]
    pub label: String,
    /// Overwrite whatever is there
    #[arg(long)]
    pub force: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

impl CreateArgs {
    /// What it is made on.
    fn target(&self) -> &str {
        self.target.as_deref().or(self.log_device.as_deref()).unwrap_or_default()
    }
}

/// Whether or not.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum YesOrNo {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// What was made.
#[derive(Debug, Serialize)]
pub struct CreateReport {
    /// As the user named it.
    pub target: String,
    /// Identity of the volume.
    pub volume_id: String,
    /// Policies.
    pub preset: String,
    /// Bytes of the device in use.
    pub device_bytes: u64,
    /// Bytes clients see.
    pub client_bytes: u64,
    /// Number of groups.
    pub groups: u32,
    /// Bytes of a group.
    pub group_bytes: u64,
    /// Bytes of each log.
    pub log_bytes: u64,
    /// Writes up to this size are logged.
    pub logged_write_bytes_max: u32,
    /// Whether records may bring bytes smaller than a sector.
    pub fragments: bool,
    /// The devices that it lies on.
    pub devices: Vec<DeviceReport>,
    /// What was found out about the disk.
    pub disk_notes: Vec<String>,
}

/// Runs the command.
pub fn run(args: &CreateArgs) -> Result<(), String> {
    refuse_unknown_kind(args.target())?;
    refuse_content_in_memory(args.target())?;
    let (mut target, superblock) = create(args)?;
    target.leave()?;
    let report = report(&mut target, &superblock);
    if args.json {
        return say_json(&report);
    }
    for line in &report.disk_notes {
        note(line);
    }
    let has_groups = superblock.layout.data_parts.is_empty() && !superblock.layout.is_chain();
    let logs = if has_groups {
        format!("groups of {} with a log of", ByteSize(report.group_bytes))
    } else {
        "logs of".to_owned()
    };
    say(&format!(
        "created a volume of {} on {}: preset {}, {} {logs} {} each",
        ByteSize(report.client_bytes),
        report.target,
        report.preset,
        report.groups,
        ByteSize(report.log_bytes),
    ));
    for line in DeviceReport::lines(&report.devices) {
        say(&line);
    }
    say(&format!("serve it with: {}", serve_line(args)));
    Ok(())
}

/// The command that serves the volume, as a shell takes it.
fn serve_line(args: &CreateArgs) -> String {
    let disk = &args.disk;
    let mut line = format!("nearhead serve {}{}", quoted(args.target()), device_flags(disk));
    if let Some(page_cache) = disk.page_cache {
        line += if page_cache { " --page-cache" } else { " --page-cache=false" };
    }
    if let Some(rotational) = disk.rotational {
        line += if rotational { " --rotational true" } else { " --rotational false" };
    }
    line + " --socket PATH"
}

/// Refuses a label that would not stay on its line when it is shown.
fn check_label(label: &str) -> Result<(), String> {
    match label.chars().find(|c| changes_a_terminal(*c)) {
        None => Ok(()),
        Some(found) => Err(format!(
            "create: --label: expected a name of one line without control characters, found {found:?} in \"{}\"",
            plain(label)
        )),
    }
}

/// Makes the volume and hands back the open disk.
pub fn create(args: &CreateArgs) -> Result<(Target, Superblock), String> {
    refuse_unknown_kind(args.target())?;
    check_label(&args.label)?;
    let beside = Beside::of(&args.disk)?;
    let preset = data::preset(args, &beside)?;
    let options = options(args, preset)?;
    // The map's image and the files of emulated disks are made when they are opened.
    let mut opened = model_files(args.target(), &beside)?;
    opened.extend(args.disk.map_device.clone());
    opened.retain(|path| path.symlink_metadata().is_err());
    let unfinished = Unfinished::begin("create")?;
    for path in &opened {
        unfinished.add(path);
    }
    let mut images = Vec::new();
    let made = make_images(args, &beside, &unfinished, &mut images)
        .and_then(|()| preallocate(args, &beside, &images))
        .and_then(|()| {
            create_on(args, &options, &[images.clone(), opened.clone()].concat(), &unfinished)
        });
    if made.is_ok() {
        unfinished.finish();
    } else {
        unfinished.failed();
        // What was written to, or another process got first, stays.
        images.iter().chain(&opened).for_each(|path| nearhead_uring::remove_empty_image(path));
    }
    made
}

/// The files in which the emulated disks of the target, and of the devices beside it, keep their content.
fn model_files(target: &str, beside: &Beside) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for text in std::iter::once(target).chain(beside.all().map(String::as_str)) {
        files.extend(files_of_models(text)?);
    }
    Ok(files)
}

fn files_of_models(text: &str) -> Result<Vec<PathBuf>, String> {
    if ArraySpec::is_array(text) {
        let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
        let files: Result<Vec<_>, _> =
            spec.members.iter().map(|text| files_of_models(text)).collect();
        return Ok(files?.concat());
    }
    if !ModelSpec::is_model(text) {
        return Ok(Vec::new());
    }
    match ModelSpec::parse(text).map_err(|error| error.to_string())?.content {
        Content::File(path) => Ok(vec![path]),
        Content::Memory | Content::None => Ok(Vec::new()),
    }
}

/// Refuses an emulated disk whose content would end with this command.
fn refuse_content_in_memory(text: &str) -> Result<(), String> {
    if ArraySpec::is_array(text) {
        let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
        return spec.members.iter().try_for_each(|text| refuse_content_in_memory(text));
    }
    if !ModelSpec::is_model(text) || !files_of_models(text)?.is_empty() {
        return Ok(());
    }
    Err(format!(
        "create {text}: expected file=PATH in the name of the emulated disk, found none: a volume in memory ends with this command; \
         use {text},file=PATH, or `serve {text} --create-if-missing` for a volume that lives as long as its server"
    ))
}

/// Makes the image files that were asked for; `images` tells which.
fn make_images(
    args: &CreateArgs,
    beside: &Beside,
    unfinished: &Unfinished,
    images: &mut Vec<PathBuf>,
) -> Result<(), String> {
    if make_image(args, unfinished)? {
        images.push(PathBuf::from(args.target()));
    }
    data::make_images(args, beside, unfinished, images)
}

/// Takes the images' space if that was asked for; says if it may run out later.
fn preallocate(args: &CreateArgs, beside: &Beside, images: &[PathBuf]) -> Result<(), String> {
    let target = args.target();
    if !args.preallocate {
        let all = std::iter::once(target).chain(beside.all().map(String::as_str));
        all.flat_map(space_notes).for_each(|line| note(&line));
        return Ok(());
    }
    if ArraySpec::is_array(target) || has_its_own_size(target) {
        return Err(format!(
            "create {target}: --preallocate takes the space of one image file; for an array make its members \
             beforehand, for example with `fallocate --length 10G FILE`, and leave --preallocate out"
        ));
    }
    let of_data = images.iter().map(PathBuf::as_path).filter(|path| *path != Path::new(target));
    std::iter::once(Path::new(target)).chain(of_data).try_for_each(|image| {
        nearhead_uring::preallocate_image(image)
            .map_err(|error| format!("create {target}: {error}"))
    })
}

fn create_on(
    args: &CreateArgs,
    options: &CreateOptions,
    images: &[PathBuf],
    unfinished: &Unfinished,
) -> Result<(Target, Superblock), String> {
    let open = |whole_runs| {
        Target::open(args.target(), Access::Create { force: args.force, whole_runs }, &args.disk)
    };
    let mut target = open(None)?;
    unfinished.are_locked();
    // Another may have made a volume of one before it was ours.
    let new = images.iter().filter(|path| nearhead_uring::is_empty_image(path));
    let new: Vec<&PathBuf> = new.collect();
    let properties = target.lanes.properties();
    let mut options = options.clone();
    if args.threshold.is_none() {
        // Whether a head moves is known now.
        options.logged_write_bytes_max = options.preset.logged_by_default(properties);
    }
    // Where the logs will be is known now, too.
    let grow_to_bytes = args.grow_to.map(|size| size.0);
    if let Some(runs) = whole_logs(properties, &options, grow_to_bytes) {
        drop(target);
        target = open(Some(runs))?;
    }
    if let Some(label) = array_label(args.target(), target.lanes.properties())
        && args.label.is_empty()
    {
        options.label = named(&label)?;
    }
    let mut io = target.io();
    let created = match args.grow_to {
        None => nearhead_volume::create(&mut io, &options),
        Some(ByteSize(bytes)) => nearhead_volume::create_to_grow(&mut io, &options, bytes, None),
    };
    if created.is_err() {
        // While nobody else can have it.
        for path in new {
            let _ = std::fs::remove_file(path);
        }
    }
    let superblock = created
        .map_err(|error| format!("{error}{}", where_if_missing(&error.to_string(), args)))?;
    Ok((target, superblock))
}

/// The sizes of a layout do not know their device.
fn where_if_missing(message: &str, args: &CreateArgs) -> String {
    let target = args.target();
    if message.contains(target) { String::new() } else { format!(" (on {target})") }
}

fn named(label: &str) -> Result<Label, String> {
    Label::new(label).map_err(|error| format!("create: --label: {error}"))
}

fn options(args: &CreateArgs, preset: NamedPreset) -> Result<CreateOptions, String> {
    let threshold = match args.threshold {
        None => preset.logged_write_bytes_max,
        Some(_) if !preset.layout.has_logs() => {
            return Err(format!(
                "create: --threshold: expected a preset that logs, found {}; \
                 choose {DEFAULT_PRESET} or leave --threshold out",
                preset.name
            ));
        }
        Some(ByteSize(bytes)) => checked_threshold(bytes)?,
    };
    let mut volume_id = [0; 16];
    rustix::rand::getrandom(&mut volume_id, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| format!("create: no random identity from the kernel: {error}"))?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(CreateOptions {
        volume_id,
        created_unix_s: since_epoch.map_or(0, |since| since.as_secs()),
        preset,
        logged_write_bytes_max: threshold,
        group_bytes: args.group_size.map(|size| size.0),
        log_bytes: args.log_size.map(|size| size.0),
        ack: args.ack.into(),
        label: named(&args.label)?,
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: args.fragments.map_or(preset.fragments, |said| said == YesOrNo::Yes),
        force: args.force,
    })
}

/// Makes the image file if one was asked for; whether it did.
fn make_image(args: &CreateArgs, unfinished: &Unfinished) -> Result<bool, String> {
    if ArraySpec::is_array(args.target()) {
        // Missing members are named when they are opened.
        return match args.size {
            None => Ok(false),
            Some(_) => Err(format!(
                "create {}: --size makes one image, and an array has several members; make them \
                 first, for example with `truncate --size 10G FILE`, and leave --size out",
                args.target()
            )),
        };
    }
    let Some(size) = args.size else {
        if !has_its_own_size(args.target()) && !Path::new(args.target()).exists() {
            return Err(format!(
                "create {}: expected a device or image, found nothing there; \
                 check the path, or add --size to make a new image file",
                args.target()
            ));
        }
        return Ok(false);
    };
    if has_its_own_size(args.target()) {
        return Err(format!(
            "create {}: an emulated disk has the size of its profile, and an export its own; leave --size out",
            args.target()
        ));
    }
    if size.0 < DEVICE_BYTES_MIN {
        return Err(format!(
            "create {}: --size: expected a multiple of 512 from {} on, found {} bytes: beside its data a volume keeps \
             copies of its superblock, snapshots of its map and logs, all in blocks of 4 KiB; something smaller \
             can be served as it is by another server, such as `nbdkit file` or `qemu-nbd`",
            args.target(),
            ByteSize(DEVICE_BYTES_MIN),
            size.0
        ));
    }
    if let Ok(found) = std::fs::metadata(args.target()) {
        if found.is_file() && found.len() == size.0 {
            return Ok(false);
        }
        return Err(format!(
            "create {}: --size makes a new image, but something is there already (a {}); \
             choose another path, or leave --size out to use it as it is",
            args.target(),
            if found.is_file() {
                format!("file of {} bytes", found.len())
            } else {
                "device or directory".to_owned()
            }
        ));
    }
    new_image(Path::new(args.target()), size, unfinished).map(|()| true)
}

/// Makes one image, which an interruption removes.
fn new_image(path: &Path, size: ByteSize, unfinished: &Unfinished) -> Result<(), String> {
    unfinished.add(path);
    nearhead_uring::create_image(path, size.0).map_err(|error| {
        unfinished.forget(path);
        error.to_string()
    })
}

fn report(target: &mut Target, superblock: &Superblock) -> CreateReport {
    let layout = &superblock.layout;
    CreateReport {
        target: target.name.clone(),
        volume_id: hex(&superblock.volume_id),
        preset: preset_name(superblock),
        device_bytes: layout.device_bytes,
        client_bytes: layout.client_bytes(),
        groups: layout.group_count,
        group_bytes: layout.group_bytes,
        log_bytes: layout.log_bytes,
        logged_write_bytes_max: superblock.logged_write_bytes_max,
        fragments: superblock.layout.fragments,
        devices: DeviceReport::of_lanes(superblock, &target.lanes),
        disk_notes: std::mem::take(&mut target.notes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: CreateArgs,
    }

    /// Two were asked for one image at once; the other was quicker to lock what this one had made.
    #[test]
    fn an_image_that_another_made_a_volume_of_meanwhile_stays() {
        let path = std::env::temp_dir().join(format!("nearhead-made-{}.img", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let line = Line::parse_from(["create", &path.display().to_string(), "--size", "64MiB"]);
        create(&line.args).unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        let preset = NamedPreset::by_name(DEFAULT_PRESET).unwrap();
        let options = options(&line.args, preset).unwrap();
        let unfinished = Unfinished::begin("create").unwrap();
        let images = std::slice::from_ref(&path);
        let refused = create_on(&line.args, &options, images, &unfinished).err().unwrap();
        assert!(refused.contains("expected an empty device"), "{refused}");
        assert_eq!(std::fs::metadata(&path).map(|found| found.len()).ok(), Some(before));
        std::fs::remove_file(&path).unwrap();
    }
}
