//! File systems on volumes: short sequences of operations on a real engine in virtual time, with the power cut at every command of its
//! disks. The volume is recovered from what may be left, its image is read as a client would, and then the laws of a file system hold.
//!
//! `NEARHEAD_FS_STRIDE=n` tries one in so many sequences of two and three operations, `NEARHEAD_FS_ONLY=PRESET:LEN:NUMBER` one.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_format::AckMode;
use nearhead_laws::disk::CutPoint;
use nearhead_models::MemoryStore;
use std::panic::AssertUnwindSafe;
use support::judge::Judge;
use support::known::Known;
use support::short::{FOUND, LONG, Short, count, numbered};
use support::store::{Ground, Left, Store, after_cut};
use support::tree::Tree;
use support::user::{SMALL_BYTES, User, small_base};
use support::{Blocks, Client, mode_of};

const PRESETS: [&str; 5] = ["gecko", "slsmr", "mlb", "singlelog", "nearhead"];

struct Trial {
    preset: &'static str,
    ground: Ground,
    image: MemoryStore,
    blocks: Blocks,
    tree: Tree,
    judge: Judge,
    random: Random,
    sequences: u64,
    cuts: u64,
}

impl Trial {
    fn of(preset: &'static str, blocks: &Blocks, tree: &Tree) -> Self {
        let ground = Ground::of(preset, AckMode::Flush);
        Self {
            preset,
            image: ground.made(blocks),
            ground,
            blocks: blocks.clone(),
            tree: tree.clone(),
            judge: Judge::new(blocks.clone()),
            random: Random::new(1),
            sequences: 0,
            cuts: 0,
        }
    }

    fn try_all(&mut self, len: u32, stride: u64, from: u64) {
        for number in (from % stride..count(len)).step_by(stride as usize) {
            self.try_one(len, number);
        }
    }

    fn try_one(&mut self, len: u32, number: u64) {
        let short = numbered(len, number);
        let (preset, mode) = (self.preset, mode_of(number));
        self.random = Random::new(number);
        self.try_these(&short, mode, &format!("NEARHEAD_FS_ONLY={preset}:{len}:{number}"));
    }

    fn try_these(&mut self, short: &Short, mode: &str, which: &str) {
        let command = "cargo test -p nearhead-fs --test on_volumes";
        let told = format!("{}, mode {mode}, {:?}: {which} {command}", self.preset, short.ops);
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| self.cut_everywhere(short, mode)));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(what)) => panic!("{told}\n{what}"),
            Err(panic) => {
                println!("{told}");
                std::panic::resume_unwind(panic);
            }
        }
    }

    fn cut_everywhere(&mut self, short: &Short, mode: &str) -> Result<(), String> {
        let store = Store::on(&self.ground, self.image.clone());
        let now = store.now();
        let mut user = User::of(Client::at(store, mode, now), &self.tree);
        user.client.mounted.service_mut().watch();
        for op in &short.ops {
            let Some(is_answered) = user.ask(*op) else { return Ok(()) };
            assert!(is_answered, "{op:?} is never answered");
            for point in user.client.mounted.service_mut().cut_points() {
                self.cut(&point, mode, &user.known, &format!("before the answer to {op:?}"))?;
            }
            user.learn(*op);
            let point = user.client.mounted.service_mut().cut_now();
            self.cut(&point, mode, &user.known, &format!("after the answer to {op:?}"))?;
        }
        self.sequences += 1;
        Ok(())
    }

    fn cut(
        &mut self,
        point: &CutPoint,
        mode: &str,
        known: &Known,
        told: &str,
    ) -> Result<(), String> {
        self.cuts += 1;
        let all = match point.unflushed.len() {
            0 => &[Left::Safe][..],
            1 => &[Left::Safe, Left::All, Left::Chance],
            _ => &[Left::Safe, Left::All, Left::Later, Left::Chance],
        };
        for left in all {
            let sector_bytes = self.ground.options.sector_bytes;
            let image = after_cut(point, sector_bytes, *left, &mut self.random);
            let blocks = self.ground.recovered(image, SMALL_BYTES, &self.blocks);
            self.judge
                .look(&blocks, mode, known)
                .map_err(|what| format!("cut {told}, left {left:?}: {what}"))?;
        }
        Ok(())
    }
}

#[test]
fn a_cut_at_any_command_of_a_volume_leaves_a_file_system_with_what_was_synced() {
    let Some((blocks, tree)) = small_base() else { return };
    let only = std::env::var("NEARHEAD_FS_ONLY").ok();
    let stride: Option<u64> =
        std::env::var("NEARHEAD_FS_STRIDE").ok().map(|text| text.parse().unwrap());
    for (from, preset) in (0_u64..).zip(PRESETS) {
        if let Some(only) = &only {
            let parts: Vec<&str> = only.split(':').collect();
            if parts[0] == preset {
                let (len, number) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
                Trial::of(preset, &blocks, &tree).try_one(len, number);
            }
            continue;
        }
        let mut trial = Trial::of(preset, &blocks, &tree);
        // Of the long ones each has many cuts.
        let long = LONG.iter().cycle().skip(from as usize).take(stride.map_or(1, |_| LONG.len()));
        for (at, ops) in (0..).zip(FOUND.iter().chain(long)) {
            let mode = mode_of(from + at);
            trial.try_these(&Short { ops: ops.to_vec() }, mode, "the first ones of every run");
        }
        trial.try_all(1, stride.map_or(5, |_| 1), from);
        trial.try_all(2, stride.unwrap_or(307), from * 61);
        trial.try_all(3, stride.unwrap_or(9973), from * 2003);
        let judge = &trial.judge;
        println!(
            "{preset}: {} sequences, {} cuts, {} images, {} of them different",
            trial.sequences, trial.cuts, judge.images, judge.new_images
        );
    }
}
