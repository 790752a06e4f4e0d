//! Data devices as targets: what flags name, each opened as a target of its own and put beside the one that has the logs.
//!
//! Which of them is at which position their headers say, to the library. What is checked here is what only names show: that
//! each can be told from the next one in a list, and that no device is named for two purposes.

use super::{DiskArgs, LoneMember, Opened, backing_paths};
use nearhead_arrays::{ArraySpec, MISSING, split_members};
use nearhead_disk::{AbsentDisk, Disk};
use nearhead_format::layout::DATA_DEVICES_MAX;
use nearhead_output::quoted;
use nearhead_volume::Lanes;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// The data devices that flags name, each as a target.
pub fn data_devices(args: &DiskArgs) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for text in &args.data_devices {
        all.extend(listed(text)?);
    }
    if all.len() > DATA_DEVICES_MAX {
        return Err(format!(
            "--data-devices: expected at most {DATA_DEVICES_MAX} devices, found {}; make arrays of some (raid0:A,B)",
            all.len()
        ));
    }
    Ok(all)
}

/// The targets of one list.
fn listed(text: &str) -> Result<Vec<String>, String> {
    // What is an array has commas of its own, up to the end.
    if ArraySpec::is_array(text) {
        return Ok(vec![text.to_owned()]);
    }
    let devices = split_members(text);
    if devices.iter().any(String::is_empty) {
        return Err(format!(
            "--data-devices: expected names with one comma between them, found {text:?}; leave no name empty"
        ));
    }
    if let Some(array) = devices.iter().find(|device| ArraySpec::is_array(device)) {
        return Err(format!(
            "--data-devices: expected an array by itself, found {array:?} in the list {text:?}, where nobody could tell its \
             members from the devices after it; give it --data-devices of its own, the flag may be repeated"
        ));
    }
    Ok(devices)
}

/// The flags that name the devices beside the target, as a shell takes them, a space before each.
pub fn flags(args: &DiskArgs) -> String {
    let map = args.map_device.iter().map(|path| ("--map-device", path.to_string_lossy()));
    let data = args.data_devices.iter().map(|text| ("--data-devices", text.into()));
    map.chain(data)
        .fold(String::new(), |line, (flag, text)| line + " " + flag + " " + &quoted(&text))
}

/// Refuses a device that is named for two purposes, under one name or two.
pub(super) fn refuse_one_device_twice(
    target: &str,
    args: &DiskArgs,
    data: &[String],
) -> Result<(), String> {
    if data.is_empty() {
        return Ok(());
    }
    let map = args.map_device.iter().map(|path| path.to_string_lossy().into_owned());
    let all: Vec<String> =
        std::iter::once(target.to_owned()).chain(map).chain(data.iter().cloned()).collect();
    let mut known: Vec<((u64, u64), &str)> = Vec::new();
    for text in all.iter().filter(|text| *text != MISSING) {
        let found = identities(text)?;
        for identity in &found {
            if let Some((_, other)) = known.iter().find(|(known, _)| known == identity) {
                return Err(format!(
                    "open {target}: expected a device of its own for the logs and for each part of the data, found \
                     {other} and {text} to be the same one; name each device once"
                ));
            }
        }
        known.extend(found.into_iter().map(|identity| (identity, text.as_str())));
    }
    Ok(())
}

/// What two names of a file or device have in common, for each that holds bytes of `text`; none where there is nothing yet.
fn identities(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let found = backing_paths(text)?.into_iter().filter_map(|path| std::fs::metadata(path).ok());
    let identity = |found: std::fs::Metadata| {
        let is_device = found.file_type().is_block_device();
        if is_device { (u64::MAX, found.rdev()) } else { (found.dev(), found.ino()) }
    };
    Ok(found.map(identity).collect())
}

/// The data devices, opened by `open`, beside the others.
pub(super) fn beside(
    lanes: Lanes<Box<dyn Disk>>,
    data: &[String],
    notes: &mut Vec<String>,
    mut open: impl FnMut(&str) -> Result<Opened, String>,
) -> Result<Lanes<Box<dyn Disk>>, String> {
    if data.is_empty() {
        return Ok(lanes);
    }
    let mut disks = Vec::new();
    for text in data {
        if text == MISSING {
            disks.push(Box::new(AbsentDisk::new(MISSING)) as Box<dyn Disk>);
            continue;
        }
        let Opened { disk, notes: told, lone_member } = open(text)?;
        if let Some(LoneMember { told, is_whole: false }) = lone_member {
            return Err(format!(
                "open {text}: expected a whole data device, found only a part: {told}; name the array with all its members"
            ));
        }
        // Some name their device already.
        let named =
            |note: String| if note.starts_with(text) { note } else { format!("{text}: {note}") };
        notes.extend(told.into_iter().map(named));
        disks.push(disk);
    }
    lanes.with_data(disks).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(texts: &[&str]) -> Result<Vec<String>, String> {
        let data_devices = texts.iter().map(|text| (*text).to_owned()).collect();
        super::data_devices(&DiskArgs { data_devices, ..DiskArgs::default() })
    }

    #[test]
    fn lists_are_split_where_one_target_ends_and_the_next_begins() {
        for (texts, expected) in [
            (vec![], vec![]),
            (vec!["a,b", "c"], vec!["a", "b", "c"]),
            (vec!["mirror:a,b", "mirror:c,d"], vec!["mirror:a,b", "mirror:c,d"]),
            (
                vec!["model:x,file=a,model:y,file=b,c"],
                vec!["model:x,file=a", "model:y,file=b", "c"],
            ),
        ] {
            assert_eq!(named(&texts).unwrap(), expected, "{texts:?}");
        }
    }

    #[test]
    fn lists_that_nobody_could_read_are_refused() {
        for (texts, part) in [
            (vec!["a,,b"], "leave no name empty"),
            (vec![""], "leave no name empty"),
            (vec!["a,mirror:b,c"], "found \"mirror:b\" in the list \"a,mirror:b,c\""),
            (vec!["a,b,c,d,e,f,g,h", "a,b,c,d,e,f,g,h"], "expected at most 15 devices, found 16"),
        ] {
            let told = named(&texts).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn the_flags_are_said_again_as_a_shell_takes_them() {
        let data_devices = vec!["a,b".to_owned(), "mirror:my disk,c".to_owned()];
        let args = DiskArgs { map_device: Some("m".into()), data_devices, ..DiskArgs::default() };
        let expected = " --map-device m --data-devices a,b --data-devices 'mirror:my disk,c'";
        assert_eq!(flags(&args), expected);
    }
}
