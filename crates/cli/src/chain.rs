//! `--chain D0,D1,...`: the devices of a chain in one list, as people think of them.
//!
//! It is short for the first (or whichever has the superblock) as TARGET and the others as `--data-devices`, and to `create` for the preset as well; what follows hears of
//! nothing else. It is taken apart before anything is parsed, so that every command knows it.

use nearhead_arrays::{ArraySpec, split_members};
use nearhead_format::superblock::SUPERBLOCK_MAGIC;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;

const FLAG: &str = "--chain";
/// What `create` makes of such devices, if nobody says otherwise.
const PRESET: &str = "gecko";

/// The arguments of the program with chains taken apart.
pub fn expanded(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|command| command == "run") {
        // What follows is a program and its own arguments.
        return args;
    }
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (own, rest) = args.split_at(end);
    let (mut others, mut devices) = (Vec::new(), Vec::new());
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
        } else {
            others.push(arg.clone());
        }
    }
    if devices.is_empty() {
        return others.into_iter().chain(rest.iter().cloned()).collect();
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
    others.into_iter().chain(rest.iter().cloned()).collect()
}

/// Whether a file or device begins with a superblock: it is the first of its chain then, wherever it is named. Of what is no file by that name
/// (an array, an emulated disk) nobody can tell so early.
fn has_superblock(device: &str) -> bool {
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
            expanded(args).into_iter().map(|arg| arg.into_string().unwrap()).collect();
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
                "nearhead create --chain a,b --preset trail",
                "nearhead create a --preset trail --data-devices=b",
            ),
        ] {
            assert_eq!(words(said), heard, "{said}");
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
