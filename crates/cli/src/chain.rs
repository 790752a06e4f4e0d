//! `--chain D0,D1,...`: the devices of a chain in one list, as people think of them.
//!
//! It is short for the first (or whichever has the superblock) as TARGET and the others as `--data-devices`, and to `create` for the preset as well; what follows hears of
//! nothing else. It is taken apart before anything is parsed, so that every command knows it.
//!
//! `--stripe N` with it makes one link of every N devices (or mirrors, where those are given): short for a `raid0:` of them.

use nearhead_arrays::{ArraySpec, MEMBERS_MAX, MISSING, as_member, split_members};
use nearhead_format::superblock::SUPERBLOCK_MAGIC;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;

const FLAG: &str = "--chain";
const STRIPE: &str = "--stripe";
/// What `create` makes of such devices, if nobody says otherwise.
const PRESET: &str = "gecko";

/// The arguments of the program with chains taken apart; an error says what does not go together.
pub fn expanded(args: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|command| command == "run") {
        // What follows is a program and its own arguments.
        return Ok(args);
    }
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (own, rest) = args.split_at(end);
    let (mut others, mut devices, mut stripe) = (Vec::new(), Vec::new(), None);
    let mut own = own.iter();
    while let Some(arg) = own.next() {
        let text = arg.to_str();
        if let Some(list) = text.and_then(|text| text.strip_prefix("--chain=")) {
            devices.extend(listed(list));
        } else if text == Some(FLAG) {
            match own.as_slice().first().and_then(|next| next.to_str()) {
                Some(list) => {
                    devices.extend(listed(list));
                    own.next();
                }
                // The parser says what is missing.
                None => others.push(arg.clone()),
            }
        } else if let Some(count) = text.and_then(|text| text.strip_prefix("--stripe=")) {
            stripe = Some(count.to_owned());
        } else if text == Some(STRIPE) {
            let count = own.next().map(|count| count.to_string_lossy().into_owned());
            stripe = Some(count.unwrap_or_default());
        } else {
            others.push(arg.clone());
        }
    }
    let mut devices = match stripe {
        Some(count) => striped(&count, &devices)?,
        None => devices,
    };
    if devices.is_empty() {
        return Ok(others.into_iter().chain(rest.iter().cloned()).collect());
    }
    let is_create = others.get(1).is_some_and(|command| command == "create");
    let is_preset = |arg: &OsString| {
        arg.to_str().is_some_and(|arg| arg == "--preset" || arg.starts_with("--preset="))
    };
    if is_create && !others.iter().any(is_preset) {
        others.extend(["--preset".into(), PRESET.into()]);
    }
    if let Some(first) = devices.iter().position(|device| !is_create && has_superblock(device)) {
        devices.swap(0, first);
    }
    let mut devices = devices.into_iter();
    // Before whatever else a command takes by its place.
    let behind_command = others.len().min(2);
    others.splice(behind_command..behind_command, devices.next().map(OsString::from));
    others.extend(devices.map(|device| format!("--data-devices={device}").into()));
    Ok(others.into_iter().chain(rest.iter().cloned()).collect())
}

/// One link of every so many devices.
fn striped(count: &str, devices: &[String]) -> Result<Vec<String>, String> {
    if devices.is_empty() {
        return Err(format!(
            "{STRIPE} {count}: expected {FLAG} D0,D1,... with it, found none; it makes one link of every so many devices of a chain"
        ));
    }
    let in_each = count.parse().ok().filter(|count| (1..=MEMBERS_MAX).contains(count));
    let Some(in_each) = in_each else {
        return Err(format!(
            "{STRIPE}: expected how many devices make one link, 1 to {MEMBERS_MAX}, found {count:?}"
        ));
    };
    if !devices.len().is_multiple_of(in_each) {
        return Err(format!(
            "{STRIPE} {in_each}: expected devices for whole links, a multiple of {in_each}, found {} devices: {}; name some more, or fewer",
            devices.len(),
            devices.join(" ")
        ));
    }
    if let Some(nested) = devices.iter().find(|device| device.starts_with("raid0:")) {
        return Err(format!(
            "{STRIPE} {in_each}: expected devices or mirrors, found {nested:?}, which is striped already; leave {STRIPE} out"
        ));
    }
    let link = |devices: &[String]| match devices {
        [device] => device.clone(),
        devices => {
            let members: Vec<String> = devices.iter().map(|device| as_member(device)).collect();
            format!("raid0:{}", members.join(","))
        }
    };
    Ok(devices.chunks(in_each).map(link).collect())
}

/// Whether a file or device begins with a superblock: it is the first of its chain then, wherever it is named. So does the first member of an
/// array; of an emulated disk nobody can tell so early.
fn has_superblock(device: &str) -> bool {
    if let Ok(array) = ArraySpec::parse(device) {
        return array
            .members
            .iter()
            .find(|member| *member != MISSING)
            .is_some_and(|first| has_superblock(first));
    }
    let mut magic = [0; SUPERBLOCK_MAGIC.len()];
    let read = File::open(device).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == SUPERBLOCK_MAGIC
}

/// The devices of one list: of an array, which has commas of its own, the list is all.
fn listed(text: &str) -> Vec<String> {
    if ArraySpec::is_array(text) { vec![text.to_owned()] } else { split_members(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let args = text.split(' ').map(OsString::from);
        let all: Vec<String> =
            expanded(args).unwrap().into_iter().map(|arg| arg.into_string().unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn the_first_of_a_chain_is_the_target_and_the_others_are_beside_it() {
        for (said, heard) in [
            (
                "nearhead serve --chain a,b,c --json",
                "nearhead serve a --json --data-devices=b --data-devices=c",
            ),
            ("nearhead status --chain=a", "nearhead status a"),
            (
                "nearhead backup-metadata FILE --chain a,b",
                "nearhead backup-metadata a FILE --data-devices=b",
            ),
            (
                "nearhead serve --chain mirror:a,b --chain mirror:c,d",
                "nearhead serve mirror:a,b --data-devices=mirror:c,d",
            ),
            ("nearhead create --chain a,b", "nearhead create a --preset gecko --data-devices=b"),
            (
                "nearhead serve --chain a,b,c,d --stripe 2",
                "nearhead serve raid0:a,b --data-devices=raid0:c,d",
            ),
            (
                "nearhead serve --stripe=2 --chain mirror:a,b --chain mirror:c,d",
                "nearhead serve raid0:[mirror:a,b],[mirror:c,d]",
            ),
            ("nearhead serve --stripe 1 --chain a,b", "nearhead serve a --data-devices=b"),
            (
                "nearhead create --chain a,b --preset trail",
                "nearhead create a --preset trail --data-devices=b",
            ),
        ] {
            assert_eq!(words(said), heard, "{said}");
        }
    }

    #[test]
    fn a_stripe_that_does_not_go_with_its_chain_is_refused_with_what_was_expected() {
        for (said, expected) in [
            ("nearhead serve --chain a,b,c --stripe 2", "a multiple of 2, found 3 devices: a b c"),
            ("nearhead serve a --stripe 2", "expected --chain D0,D1,... with it, found none"),
            ("nearhead serve --chain a,b --stripe 0", "1 to 32, found \"0\""),
            ("nearhead serve --chain a,b --stripe=two", "1 to 32, found \"two\""),
            ("nearhead serve --chain a,b --stripe", "1 to 32, found \"\""),
            ("nearhead serve --chain raid0:a,b --chain c --stripe 2", "which is striped already"),
        ] {
            let refused = expanded(said.split(' ').map(OsString::from)).unwrap_err();
            assert!(refused.contains(expected), "{said}: {refused}");
        }
    }

    #[test]
    fn what_is_no_chain_stays_as_it_is() {
        for said in [
            "nearhead serve a --data-devices b",
            "nearhead run -- prog --chain x",
            "nearhead run prog --chain x",
            "nearhead bench TARGET -- prog --chain x",
            "nearhead serve --chain",
            "nearhead",
        ] {
            assert_eq!(words(said), said);
        }
    }
}
