//! All short sequences of operations that end in a sync, with a crash at every request to the service that changes or flushes anything:
//! e2fsck finds nothing, what was synced is there, names are those of one moment, and nobody reads what was never written there.
//!
//! `make test` tries those of one and two operations and some of three; `NEARHEAD_FS_STRIDE=1` all of them, `NEARHEAD_FS_ONLY=LEN:NUMBER`
//! one.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use std::panic::AssertUnwindSafe;
use support::judge::Judge;
use support::known::Known;
use support::short::{FOUND, LONG, Short, TRIMS, count, numbered};
use support::tree::Tree;
use support::user::{SMALL_BYTES, User, small_base};
use support::{Blocks, Client, Ram, mode_of};

/// Outcomes of one crash that are tried by chance, beside "all is lost" and "nothing is".
const CHANCES: u64 = 2;

struct Trial {
    blocks: Blocks,
    tree: Tree,
    judge: Judge,
    sequences: u64,
    crashes: u64,
}

impl Trial {
    fn try_all(&mut self, len: u32, stride: u64) {
        for number in (stride / 2..count(len)).step_by(stride as usize) {
            self.try_one(len, number);
        }
    }

    fn try_one(&mut self, len: u32, number: u64) {
        let short = numbered(len, number);
        let mode = mode_of(number);
        let which = format!("NEARHEAD_FS_ONLY={len}:{number}");
        self.try_these(&short, mode, &which);
    }

    fn try_these(&mut self, short: &Short, mode: &str, which: &str) {
        let command = "cargo test -p nearhead-fs --test every_request";
        let told = format!("mode {mode}, {:?}: {which} {command}", short.ops);
        let done =
            std::panic::catch_unwind(AssertUnwindSafe(|| self.crash_everywhere(short, mode)));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(what)) => panic!("{told}\n{what}"),
            Err(panic) => {
                println!("{told}");
                std::panic::resume_unwind(panic);
            }
        }
    }

    fn crash_everywhere(&mut self, short: &Short, mode: &str) -> Result<(), String> {
        for requests in 0.. {
            let mut ram = Ram::of(SMALL_BYTES, self.blocks.clone());
            ram.requests_left = requests;
            let mut user = User::of(Client::of(ram, mode), &self.tree);
            let mut ends = short.ops.len();
            for (at, op) in short.ops.iter().enumerate() {
                match user.step(*op) {
                    // It would be refused: so this is another, shorter sequence.
                    None => return Ok(()),
                    Some(true) => {}
                    Some(false) => {
                        ends = at;
                        break;
                    }
                }
            }
            let ram = user.client.mounted.service();
            self.crash(ram, mode, &user.known).map_err(|what| {
                format!("crash after {requests} requests, {ends} answers: {what}")
            })?;
            if ends == short.ops.len() {
                self.sequences += 1;
                return Ok(());
            }
        }
        Ok(())
    }

    fn crash(&mut self, ram: &Ram, mode: &str, known: &Known) -> Result<(), String> {
        self.crashes += 1;
        self.judge.look(&ram.durable, mode, known)?;
        if !ram.has_unflushed() {
            return Ok(());
        }
        self.judge.look(ram.blocks(), mode, known)?;
        for seed in 0..CHANCES {
            let blocks = ram.after_crash(&mut Random::new(self.crashes * CHANCES + seed));
            self.judge.look(&blocks, mode, known)?;
        }
        Ok(())
    }
}

#[test]
fn a_crash_at_any_request_of_a_short_sequence_leaves_what_was_synced_and_names_of_one_moment() {
    let Some((blocks, tree)) = small_base() else { return };
    let judge = Judge::new(blocks.clone());
    let mut trial = Trial { blocks, tree, judge, sequences: 0, crashes: 0 };
    if let Ok(only) = std::env::var("NEARHEAD_FS_ONLY") {
        let (len, number) = only.split_once(':').unwrap();
        return trial.try_one(len.parse().unwrap(), number.parse().unwrap());
    }
    let stride: Option<u64> =
        std::env::var("NEARHEAD_FS_STRIDE").ok().map(|text| text.parse().unwrap());
    for ops in FOUND.iter().chain(LONG).chain(TRIMS) {
        for mode in nearhead_journal::MODES.iter().map(|mode| mode.name()) {
            trial.try_these(&Short { ops: ops.to_vec() }, mode, "the first ones of every run");
        }
    }
    trial.try_all(1, 1);
    trial.try_all(2, stride.map_or(5, |_| 1));
    trial.try_all(3, stride.unwrap_or(499));
    println!(
        "{} sequences, {} crashes, {} images, {} of them different",
        trial.sequences, trial.crashes, trial.judge.images, trial.judge.new_images
    );
}
