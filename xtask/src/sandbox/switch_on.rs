//! Which change of a copy is on, and which changes a program comes upon.
//!
//! `cargo xtask` writes this file into crates of a copy, with other variables and names (`xtask/src/sandbox/switch.rs`); in
//! the workspace it is built for its own tests alone. It must never say that a change is on which nobody named.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable that says which change is on: by its name, or by its number where changes have no names.
const VARIABLE: &str = "NEARHEAD_MUTANT";
/// The variable with the file that gets the changes that a program comes upon while none is on, a line each.
const MET_VARIABLE: &str = "NEARHEAD_MUTANTS_MET";
/// Names of the changes, that of number 1 first.
const NAMES: &[&str] = &[];

/// Bits of the changes that this process has come upon, so that each is noted once.
static MET: [AtomicU64; 1 << 10] = [const { AtomicU64::new(0) }; 1 << 10];

/// Whether this change is on.
pub(crate) fn on(id: u32) -> bool {
    static CHOSEN: OnceLock<u32> = OnceLock::new();
    let chosen = *CHOSEN.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(text) => {
            named(&text, NAMES).unwrap_or_else(|| panic!("{VARIABLE}: no change is called {text}"))
        }
        Err(_) => 0,
    });
    if chosen == 0 && is_first(id) {
        note(id);
    }
    chosen == id
}

/// The number of the change that is meant; 0 is none.
fn named(text: &str, names: &[&str]) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    if names.is_empty() {
        return text.parse().ok();
    }
    let place = names.iter().position(|name| *name == text)?;
    Some(place as u32 + 1)
}

fn is_first(id: u32) -> bool {
    let (word, bit) = (&MET[id as usize / 64], 1 << (id % 64));
    word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Programs that this one starts write to the same file, so a change may stand there twice.
#[cold]
fn note(id: u32) {
    let Some(path) = std::env::var_os(MET_VARIABLE) else { return };
    let line = match NAMES.get(id as usize - 1) {
        Some(name) => format!("{name}\n"),
        None => format!("{id}\n"),
    };
    let file = File::options().append(true).create(true).open(path);
    // One write, which appends as a whole.
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        panic!("{MET_VARIABLE}: change {id} cannot be noted: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_on_unless_it_is_named() {
        assert_eq!(
            (named("", NAMES), named("7", NAMES), named("seven", NAMES)),
            (Some(0), Some(7), None)
        );
        let names = ["early", "late"];
        assert_eq!(
            (named("", &names), named("late", &names), named("7", &names)),
            (Some(0), Some(2), None)
        );
        assert!(!on(7) && !on(8));
    }

    #[test]
    fn a_change_is_come_upon_for_the_first_time_once() {
        assert!(is_first(700) && is_first(701) && !is_first(700) && !is_first(701));
    }
}
