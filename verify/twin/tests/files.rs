//! The quick share of the twin of files: one script in each of three modes, and one with power cuts.
//!
//! Bounded by about 20 s on one core. A failing test prints the script; `nearhead-twin files` makes it
//! shorter. Without root, `/dev/fuse` or the built program a test prints why it is skipped.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_twin::files::act::FilesAct;
use nearhead_twin::files::generate::{Kind, NOT_YET, generate};
use nearhead_twin::files::run::{FilesSettings, run};
use nearhead_twin::medium::MediumKind;
use std::path::PathBuf;

fn settings(mode: &str, medium: MediumKind) -> Option<FilesSettings> {
    let twin = PathBuf::from(env!("CARGO_BIN_EXE_nearhead-twin"));
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
    let nearhead = twin.with_file_name("nearhead");
    let settings = FilesSettings { nearhead, twin, folder, mode: mode.to_owned(), medium };
    settings.check_machine().inspect_err(|why| println!("skipped: {why}")).ok()?;
    Some(settings)
}

fn nothing_differs(settings: &FilesSettings, acts: &[FilesAct]) {
    if let Some(found) = run(settings, acts).unwrap() {
        acts[..=found.act].iter().for_each(|act| println!("{act}"));
        panic!("{}: {found}", settings.mode);
    }
}

#[test]
fn system_calls_do_the_same_as_on_ext4() {
    for (seed, mode) in [(1, "nearhead"), (2, "ordered"), (3, "manylogs")] {
        let Some(settings) = settings(mode, MediumKind::File) else { return };
        nothing_differs(&settings, &generate(seed, 60, &[Kind::Power]));
    }
}

#[test]
fn a_power_cut_leaves_what_ext4_would_keep() {
    let Some(settings) = settings("nearhead", MediumKind::Disk) else { return };
    nothing_differs(&settings, &generate(4, 60, &[]));
}

#[test]
fn each_fault_that_is_left_out_still_shows() {
    for (kind, script) in NOT_YET {
        let Some(settings) = settings("nearhead", MediumKind::File) else { return };
        let acts: Vec<FilesAct> = script.lines().map(|line| line.parse().unwrap()).collect();
        let found = run(&settings, &acts).unwrap();
        assert!(found.is_some(), "{kind:?} shows no fault any more: take its row out of NOT_YET");
    }
}
