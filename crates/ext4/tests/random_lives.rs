//! Lives of random operations against a model, with crashes, several transactions under way, and three judges: our own
//! operations, e2fsck, and the kernel's ext4.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;
mod life;
mod model;

use driver::{Disk, FEATURES, Scratch, has_tools};
use life::Life;
use model::compare::{compare, compare_kernel, has_kernel};

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// A life on an image of `mebibytes`, judged every so often; another or a longer one with `SEED=n STEPS=n`.
fn live(name: &str, seed: u64, steps: u64, mebibytes: u64, arguments: &[&str]) -> Life {
    live_at(1, name, seed, steps, mebibytes, arguments)
}

/// The same with ranges that are longer than usual.
fn live_at(
    scale: u64,
    name: &str,
    seed: u64,
    steps: u64,
    mebibytes: u64,
    arguments: &[&str],
) -> Life {
    let seed = number_in("SEED").unwrap_or(seed);
    let steps = number_in("STEPS").unwrap_or(steps);
    let scratch = Scratch::new(name);
    let with_kernel = has_kernel(&scratch);
    let disk = Disk::made(&scratch, mebibytes, arguments);
    let mut life = Life::new(disk, seed);
    life.scale = scale;
    for step in 1..=steps {
        life.step();
        if step % steps.div_ceil(3).min(500) == 0 {
            life.driven.disk.check(&scratch, &format!("seed {seed}, step {step}, under way"));
            match life.random.below(3) {
                0 => life.crash(),
                _ => life.land_all(),
            }
            compare(&life.model, &mut life.driven);
            life.driven.disk.check(&scratch, &format!("seed {seed}, step {step}"));
            if with_kernel && step % 2000 == 0 {
                // Mounting alone changed something after a crash.
                life.land_all();
                compare_kernel(&life.landed, &life.driven.disk, &scratch);
            }
        }
    }
    life
}

#[test]
fn a_life_on_an_image_as_debian_makes_it_is_what_the_model_says() {
    if has_tools() {
        // Attributes that do not fit into a block have no room.
        let life = live("usual", 1, 8_000, 256, &["-O", FEATURES]);
        assert!(life.refused < 50 && life.done * 2 > life.step, "{} {}", life.refused, life.done);
    }
}

#[test]
fn a_life_over_many_small_groups_is_what_the_model_says() {
    if has_tools() {
        let arguments = ["-O", FEATURES, "-g", "256", "-E", "lazy_itable_init=1"];
        live("groups", 2, 6_000, 48, &arguments);
    }
}

#[test]
fn a_life_of_files_that_are_too_large_to_be_freed_at_once_is_what_the_model_says() {
    if has_tools() {
        let arguments = ["-O", FEATURES, "-g", "256", "-N", "4096"];
        let life = live_at(900, "large", 7, 1200, 640, &arguments);
        assert!(life.parked > 0, "{}", life.parked);
    }
}

#[test]
fn a_life_without_room_is_what_the_model_says() {
    if has_tools() {
        let life = live("full", 3, 6_000, 4, &["-O", FEATURES, "-N", "128", "-m", "0"]);
        assert!(life.refused > 100 && life.done * 8 > life.step, "{} {}", life.refused, life.done);
    }
}

#[test]
fn lives_on_images_without_checksums_or_wide_numbers_are_what_the_model_says() {
    if has_tools() {
        for (seed, off) in [(4, "^metadata_csum"), (5, "^64bit"), (6, "^metadata_csum,uninit_bg")] {
            let features = format!("{FEATURES},{off}");
            live("older", seed, 2_000, 32, &["-O", &features, "-g", "1024"]);
        }
    }
}
