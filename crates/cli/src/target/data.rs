//! Data devices and further log devices as targets: what flags name, each opened as a target of its own and put beside the one that has the logs.
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

const DATA: &str = "--data-devices";
const LOGS: &str = "--log-devices";

/// The devices beside the target that flags name, each as a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Those that hold the data, or the other links of a chain.
    pub data: Vec<String>,
    /// Further log devices.
    pub logs: Vec<String>,
}

impl Beside {
    /// Those of these flags.
    pub fn of(args: &DiskArgs) -> Result<Self, String> {
        let all = |flag, texts: &[String]| {
            texts.iter().map(|text| listed(flag, text)).collect::<Result<Vec<_>, _>>()
        };
        let (data, logs) = (all(DATA, &args.data_devices)?, all(LOGS, &args.log_devices)?);
        let beside = Self { data: data.concat(), logs: logs.concat() };
        let found = beside.all().count();
        if found > DATA_DEVICES_MAX {
            let flags =
                if beside.logs.is_empty() { DATA.to_owned() } else { format!("{DATA} and {LOGS}") };
            return Err(format!(
                "{flags}: expected at most {DATA_DEVICES_MAX} devices, found {found}; make arrays of some (raid0:A,B)"
            ));
        }
        Ok(beside)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.data.iter().chain(&self.logs)
    }
}

/// The targets of one list.
fn listed(flag: &str, text: &str) -> Result<Vec<String>, String> {
    // What is an array has commas of its own, up to the end.
    if ArraySpec::is_array(text) {
        return Ok(vec![text.to_owned()]);
    }
    let devices = split_members(text);
    if devices.iter().any(String::is_empty) {
        return Err(format!(
            "{flag}: expected names with one comma between them, found {text:?}; leave no name empty"
        ));
    }
    if let Some(array) = devices.iter().find(|device| ArraySpec::is_array(device)) {
        return Err(format!(
            "{flag}: expected an array by itself, found {array:?} in the list {text:?}, where nobody could tell its \
             members from the devices after it; give it {flag} of its own, the flag may be repeated"
        ));
    }
    Ok(devices)
}

/// The flags that name the devices beside the target, as a shell takes them, a space before each.
pub fn flags(args: &DiskArgs) -> String {
    let map = args.map_device.iter().map(|path| ("--map-device", path.to_string_lossy()));
    let data = args.data_devices.iter().map(|text| (DATA, text.into()));
    let logs = args.log_devices.iter().map(|text| (LOGS, text.into()));
    map.chain(data)
        .chain(logs)
        .fold(String::new(), |line, (flag, text)| line + " " + flag + " " + &quoted(&text))
}

/// Refuses a device that is named for two purposes, under one name or two.
pub(super) fn refuse_one_device_twice(
    target: &str,
    args: &DiskArgs,
    beside: &Beside,
) -> Result<(), String> {
    if beside.all().next().is_none() {
        return Ok(());
    }
    let map = args.map_device.iter().map(|path| path.to_string_lossy().into_owned());
    let all: Vec<String> =
        std::iter::once(target.to_owned()).chain(map).chain(beside.all().cloned()).collect();
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

/// The devices beside the target, opened by `open`, beside the others.
pub(super) fn beside(
    lanes: Lanes<Box<dyn Disk + Send>>,
    beside: &Beside,
    notes: &mut Vec<String>,
    mut open: impl FnMut(&str) -> Result<Opened, String>,
) -> Result<Lanes<Box<dyn Disk + Send>>, String> {
    let data = opened(&beside.data, notes, &mut open)?;
    let logs = opened(&beside.logs, notes, &mut open)?;
    if data.is_empty() && logs.is_empty() {
        return Ok(lanes);
    }
    let lanes = lanes.with_data(data).map_err(|error| error.to_string())?;
    lanes.with_log_devices(logs).map_err(|error| error.to_string())
}

fn opened(
    texts: &[String],
    notes: &mut Vec<String>,
    open: &mut impl FnMut(&str) -> Result<Opened, String>,
) -> Result<Vec<Box<dyn Disk + Send>>, String> {
    let mut disks = Vec::new();
    for text in texts {
        if text == MISSING {
            disks.push(Box::new(AbsentDisk::new(MISSING)) as Box<dyn Disk + Send>);
            continue;
        }
        let Opened { disk, notes: told, lone_member } = open(text)?;
        if let Some(LoneMember { told, is_whole: false }) = lone_member {
            return Err(format!(
                "open {text}: expected a whole device, found only a part: {told}; name the array with all its members"
            ));
        }
        // Some name their device already.
        let named =
            |note: String| if note.starts_with(text) { note } else { format!("{text}: {note}") };
        notes.extend(told.into_iter().map(named));
        disks.push(disk);
    }
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(texts: &[&str]) -> Result<Vec<String>, String> {
        let data_devices = texts.iter().map(|text| (*text).to_owned()).collect();
        Ok(Beside::of(&DiskArgs { data_devices, ..DiskArgs::default() })?.data)
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
        let (map_device, log_devices) = (Some("m".into()), vec!["l".to_owned()]);
        let args = DiskArgs { map_device, data_devices, log_devices, ..DiskArgs::default() };
        let expected =
            " --map-device m --data-devices a,b --data-devices 'mirror:my disk,c' --log-devices l";
        assert_eq!(flags(&args), expected);
    }
}
