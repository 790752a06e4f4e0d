//! What `nearhead create` does about data devices: which preset they ask for, and images for those that do not exist.

use super::CreateArgs;
use crate::target::{Beside, has_its_own_size};
use crate::unfinished::Unfinished;
use crate::units::ByteSize;
use nearhead_arrays::{ArraySpec, MISSING};
use nearhead_format::data_device::DATA_START_BYTES;
use nearhead_volume::{DEFAULT_PRESET, NamedPreset};
use std::path::{Path, PathBuf};

/// The preset for them.
const FOR_DATA: &str = "trail";
/// Smallest image that is made: the header's mebibyte, both snapshots and some room for data.
const DATA_IMAGE_BYTES_MIN: u64 = 8 << 20;

/// The preset that was named, or the one for the devices that were; refused if it does not go with those.
pub(super) fn preset(args: &CreateArgs, beside: &Beside) -> Result<NamedPreset, String> {
    let (target, Beside { data, logs }) = (args.target(), beside);
    let is_for_data = !data.is_empty() || !logs.is_empty() || args.log_device.is_some();
    let default = if is_for_data { FOR_DATA } else { DEFAULT_PRESET };
    let name = args.preset.as_deref().unwrap_or(default);
    let preset = NamedPreset::by_name(name).map_err(|error| error.to_string())?;
    if preset.layout.is_for_data_devices() {
        if data.is_empty() {
            return Err(format!(
                "create {target}: --preset {name}: expected --data-devices D1,D2,... with it, found none; all of {target} \
                 becomes the log, so name the devices or images that are to hold the data"
            ));
        }
        if let Some(ByteSize(found)) = args.grow_to {
            return Err(format!(
                "create {target}: --grow-to: expected no size to grow to with preset {name}, whose devices cannot grow, \
                 found {found}; leave it out"
            ));
        }
        return Ok(preset);
    }
    if preset.layout.is_chain() && logs.is_empty() {
        return Ok(preset);
    }
    if !logs.is_empty() {
        return Err(format!(
            "create {target}: --log-devices: expected preset {FOR_DATA}, whose logs are on devices of their own, found {name}; leave --preset \
             out, or --log-devices"
        ));
    }
    let flag = if !data.is_empty() {
        "--data-devices"
    } else if args.log_device.is_some() {
        "--log-device"
    } else {
        return Ok(preset);
    };
    Err(format!(
        "create {target}: {flag}: expected preset {FOR_DATA}, whose logs and data are on different devices, or a chain (gecko), found {name}, \
         which lies on one; leave --preset out, or name that one device as TARGET and leave {flag} out"
    ))
}

/// Makes an image of each device beside the target that is a file and does not exist; `images` tells which.
pub(super) fn make_images(
    args: &CreateArgs,
    beside: &Beside,
    unfinished: &Unfinished,
    images: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let (target, Beside { data, logs }) = (args.target(), beside);
    if let Some(ByteSize(found)) = args.data_size {
        if data.is_empty() {
            return Err(format!(
                "create {target}: --data-size: expected --data-devices with it, found none; the size of TARGET's own \
                 image is --size"
            ));
        }
        if found < DATA_IMAGE_BYTES_MIN {
            return Err(format!(
                "create {target}: --data-size: expected at least {}, found {found} bytes; a data device has a header, and the \
                 first one the snapshots of the map, beside the data",
                ByteSize(DATA_IMAGE_BYTES_MIN)
            ));
        }
    }
    if beside.all().any(|device| device == MISSING) {
        return Err(format!(
            "create {target}: --data-devices and --log-devices: expected devices that are there, found {MISSING:?}, which stands for one that is away              when a volume is served; leave it out, or write ./{MISSING} for a file"
        ));
    }
    let data = data.iter().map(|device| (device, "data device", "--data-size", args.data_size));
    let logs = logs.iter().map(|device| (device, "log device", "--size", args.size));
    for (device, noun, flag, size) in data.chain(logs) {
        let path = Path::new(device);
        if ArraySpec::is_array(device) || has_its_own_size(device) || path.exists() {
            continue;
        }
        crate::target::refuse_unknown_kind(device)?;
        let Some(size) = size else {
            return Err(format!(
                "create {target}: {noun} {device}: expected a device or image, found nothing there; check the path, or \
                 have `create {flag} SIZE` make a new image file of each that is missing"
            ));
        };
        super::new_image(path, size, unfinished)?;
        images.push(path.to_owned());
    }
    Ok(())
}

const _: () = assert!(DATA_IMAGE_BYTES_MIN > DATA_START_BYTES, "there is room for data");
