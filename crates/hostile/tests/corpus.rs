//! Every boundary survives its corpus and some thousand mutations of it, without a fuzzer.
//!
//! The corpus is `fuzz/corpus/<target>`: valid encodings, and whatever fuzzers found worth keeping.
//! `TARGET=name` runs one of them; `INPUT=path` one input of it; `SEED=n` and `MUTANTS=n` other and
//! more mutations.

#![allow(clippy::unwrap_used, reason = "a test")]

use nearhead_basics::SplitMix;
use nearhead_hostile::{TARGETS, Target, mutated, target_named};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn corpus_of(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name)
}

/// Name and bytes of every input kept for a target.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = corpus_of(target);
    let files =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let named = |path: &PathBuf| (path.display().to_string(), std::fs::read(path).unwrap());
    paths.iter().map(named).collect()
}

fn targets() -> Vec<Target> {
    match std::env::var("TARGET") {
        Ok(name) => vec![target_named(&name)],
        Err(_) => TARGETS.to_vec(),
    }
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Runs one input; on failure keeps it and says how to repeat it.
fn survive(target: &Target, name: &str, bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_ok() {
        return;
    }
    let path = std::env::temp_dir().join(format!("nearhead-hostile-{}.input", target.name));
    std::fs::write(&path, bytes).unwrap();
    panic!(
        "{} does not survive {name}; repeat with: TARGET={} INPUT={} \
         cargo test -p nearhead-hostile --test corpus one_input",
        target.name,
        target.name,
        path.display()
    );
}

#[test]
fn every_input_of_the_corpus_is_survived() {
    for target in targets() {
        let inputs = corpus(&target);
        assert!(!inputs.is_empty(), "{}: an empty corpus tests nothing", target.name);
        for (name, bytes) in inputs {
            survive(&target, &name, &bytes);
        }
        for (number, bytes) in (target.seeds)().iter().enumerate() {
            survive(&target, &format!("seed {number}"), bytes);
        }
    }
}

#[test]
fn thousands_of_mutations_are_survived() {
    for target in targets() {
        let mut inputs = (target.seeds)();
        inputs.extend(corpus(&target).into_iter().map(|(_, bytes)| bytes));
        let mut random = SplitMix::new(number_in("SEED").unwrap_or(1));
        for number in 0..number_in("MUTANTS").unwrap_or(u64::from(target.mutants)) {
            survive(&target, &format!("mutation {number}"), &mutated(&inputs, &mut random));
        }
    }
}

#[test]
fn one_input_is_survived() {
    let (Ok(name), Ok(path)) = (std::env::var("TARGET"), std::env::var("INPUT")) else { return };
    (target_named(&name).run)(&std::fs::read(path).unwrap());
}
