//! The quick share of the twin: a few seeds of every kind that `kinds.rs` lets it have.
//!
//! Bounded by about 20 s on one core. A failing test prints the acts up to the difference; the whole twin
//! (`cargo run -p nearhead-twin -- block`) makes them shorter. Without root, `/dev/fuse` or the built
//! program a test prints why it is skipped.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_twin::act::Who;
use nearhead_twin::kinds::{KINDS, Kind, OF_FILES, quick};
use nearhead_twin::medium::MediumKind;
use nearhead_twin::programs::{self, Plan, Program};
use nearhead_twin::run::{Settings, Twin, run_generated};
use nearhead_twin::script::generate;
use std::path::PathBuf;

/// Seeds of which one must show the fault of a kind that is left out.
const LEFT_OUT_SEEDS: u64 = 5;

/// The program of the same build.
fn settings() -> Option<Settings> {
    let own = std::env::current_exe().unwrap();
    let nearhead = own.ancestors().nth(2).unwrap().join("nearhead");
    // In memory where that is possible: a flush of the disk that holds target/ takes most of the time.
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
    let mut settings = Settings::new(nearhead, folder);
    settings.image_bytes = 64 << 20;
    settings.check_machine().inspect_err(|why| println!("skipped: {why}")).ok()?;
    Some(settings)
}

fn nothing_differs(settings: &Settings, seed: u64, count: usize, kinds: &[Kind]) {
    let done = run_generated(settings, |shape| generate(seed, count, kinds, shape));
    let (acts, found) = done.unwrap();
    if let Some(found) = found {
        acts[..=found.act].iter().for_each(|act| println!("{act}"));
        panic!("seed {seed}, {:?}, {} B blocks: {found}", settings.medium, settings.block_bytes);
    }
}

#[test]
fn the_same_acts_end_alike_on_the_kernel_and_on_ours() {
    let Some(mut settings) = settings() else { return };
    let kinds: Vec<Kind> = quick().into_iter().filter(|kind| *kind != Kind::Power).collect();
    nothing_differs(&settings, 1, 80, &kinds);
    settings.block_bytes = 512;
    settings.preset = "mlb".to_owned();
    nothing_differs(&settings, 2, 80, &kinds);
}

#[test]
fn a_power_cut_takes_nothing_that_a_flush_covers() {
    let Some(mut settings) = settings() else { return };
    let kinds = [Kind::Io, Kind::Together, Kind::Zero, Kind::Discard, Kind::Power];
    let kinds: Vec<Kind> = quick().into_iter().filter(|kind| kinds.contains(kind)).collect();
    for (seed, medium) in [(3, MediumKind::Disk), (4, MediumKind::Mirror)] {
        settings.medium = medium;
        nothing_differs(&settings, seed, 30, &kinds);
    }
    assert!(OF_FILES.iter().all(|kind| !kinds.contains(kind)));
}

#[test]
fn fsx_notices_no_killed_process() {
    let Some(settings) = settings() else { return };
    if let Some(why) = programs::why_not(Program::Fsx) {
        println!("skipped: {why}");
        return;
    }
    for (who, kills) in [(Who::Worker, 3), (Who::Both, 2)] {
        let plan = Plan { program: Program::Fsx, seed: 5, acts: 300, kill: Some(who), kills };
        let found = programs::run(&settings, plan).unwrap();
        assert!(found.is_none(), "seed 5, kill {who:?}: {}", found.unwrap());
    }
}

#[test]
fn a_medium_loses_what_no_flush_covers() {
    let Some(mut settings) = settings() else { return };
    let kinds = [Kind::Io, Kind::Power];
    for medium in [MediumKind::Disk, MediumKind::Mirror] {
        settings.medium = medium;
        let mut twin = Twin::new(&settings).unwrap();
        twin.assumes_flushed = true;
        let acts = generate(6, 60, &kinds, twin.shape().unwrap());
        let found = twin.carry_out_all(&acts).unwrap();
        assert!(found.is_some(), "{medium:?}: power cuts took nothing, so they show nothing");
    }
}

#[test]
fn each_kind_that_is_left_out_still_fails() {
    for row in KINDS.iter().filter(|row| row.not_in_quick.is_some()) {
        let Some(settings) = settings() else { return };
        let seeds = 1..=LEFT_OUT_SEEDS;
        let fails = |seed| {
            let script = |shape| generate(seed, 80, &[row.kind], shape);
            run_generated(&settings, script).unwrap().1.is_some()
        };
        assert!(seeds.into_iter().any(fails), "{} fails no more: take its reason out", row.name);
    }
}
