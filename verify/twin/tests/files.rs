//! The quick share of the twin of files: one script in each of three modes.
//!
//! Bounded by about 20 s on one core. A failing test prints the script; `nearhead-twin files` makes it
//! shorter. Without root, `/dev/fuse` or the built program a test prints why it is skipped.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_twin::files::act::FilesAct;
use nearhead_twin::files::generate::{Kind, generate};
use nearhead_twin::files::run::{FilesSettings, run};
use std::path::PathBuf;

/// Kinds of acts that show a fault today: the first file without a name makes `lost+found` again, which each run removes.
const NOT_YET: [Kind; 1] = [Kind::Overlay];

fn settings(mode: &str) -> Option<FilesSettings> {
    let twin = PathBuf::from(env!("CARGO_BIN_EXE_nearhead-twin"));
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
    let nearhead = twin.with_file_name("nearhead");
    let settings = FilesSettings { nearhead, twin, folder, mode: mode.to_owned() };
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
        let Some(settings) = settings(mode) else { return };
        nothing_differs(&settings, &generate(seed, 60, &NOT_YET));
    }
}
