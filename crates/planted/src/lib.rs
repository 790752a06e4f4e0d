//! Mistakes made on purpose, to see that the tests find them.
//!
//! A test that never failed proves nothing. Each mistake here is one that somebody could make; the code in
//! question asks [`is_made`], which is a constant `false` unless everything was built with `--cfg planted`.
//! Then one mistake at a time is chosen for the whole process: by [`choose`], or for programs that know
//! nothing of it, such as tests, by the environment (`NEARHEAD_PLANTED=flush-skipped`). `cargo xtask
//! planted` makes each of them and says what finds it, and how soon.

mod mistakes;

use mistakes::MISTAKES;
pub use mistakes::Mistake;

impl Mistake {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        MISTAKES.iter().map(|(mistake, ..)| *mistake)
    }

    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        MISTAKES[self as usize].1
    }

    /// What is done wrong.
    pub const fn what(self) -> &'static str {
        MISTAKES[self as usize].2
    }

    /// The mistake with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|mistake| mistake.name() == name)
    }
}

/// The environment's variable that names a mistake.
pub const VARIABLE: &str = "NEARHEAD_PLANTED";

/// The environment's variable that names a file. A build with mistakes adds to it the name of each one that the
/// program comes to, made or not: a run that never comes to a mistake cannot find it.
pub const REACHED_VARIABLE: &str = "NEARHEAD_PLANTED_REACHED";

/// Which mistakes this process has come to.
#[cfg(planted)]
static REACHED: [std::sync::atomic::AtomicBool; MISTAKES.len()] =
    [const { std::sync::atomic::AtomicBool::new(false) }; MISTAKES.len()];

/// Nobody chose yet, and the environment was not asked either.
#[cfg(planted)]
const UNASKED: u8 = u8::MAX;

#[cfg(planted)]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(UNASKED);

/// The number of the chosen mistake, from 1 on; 0 for none.
#[cfg(planted)]
fn chosen() -> u8 {
    use std::sync::atomic::Ordering;
    let known = CHOSEN.load(Ordering::Relaxed);
    if known != UNASKED {
        return known;
    }
    let named = std::env::var(VARIABLE).ok().map(|name| {
        Mistake::by_name(&name).unwrap_or_else(|| panic!("{VARIABLE}: no mistake is called {name}"))
    });
    choose(named);
    CHOSEN.load(Ordering::Relaxed)
}

/// Makes this mistake from now on, or none. Without `--cfg planted` nothing changes.
pub fn choose(mistake: Option<Mistake>) {
    #[cfg(planted)]
    CHOSEN.store(
        mistake.map_or(0, |mistake| mistake as u8 + 1),
        std::sync::atomic::Ordering::Relaxed,
    );
    #[cfg(not(planted))]
    let _ = mistake;
}

/// Whether mistakes can be made at all: whether this is a build with `--cfg planted`.
pub const fn is_planted() -> bool {
    cfg!(planted)
}

/// Whether this mistake is to be made.
#[inline]
pub fn is_made(mistake: Mistake) -> bool {
    #[cfg(planted)]
    {
        if !REACHED[mistake as usize].load(std::sync::atomic::Ordering::Relaxed) {
            note_reached(mistake);
        }
        chosen() == mistake as u8 + 1
    }
    #[cfg(not(planted))]
    {
        let _ = mistake;
        false
    }
}

/// Writes down that the program came to this mistake, for whoever asked by [`REACHED_VARIABLE`]. Programs that it starts
/// write to the same file, so a name may stand there twice.
#[cfg(planted)]
#[cold]
fn note_reached(mistake: Mistake) {
    use std::io::Write;
    REACHED[mistake as usize].store(true, std::sync::atomic::Ordering::Relaxed);
    let Some(path) = std::env::var_os(REACHED_VARIABLE) else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    // One write, which appends as a whole.
    let noted =
        file.and_then(|mut file| file.write_all(format!("{}\n", mistake.name()).as_bytes()));
    if let Err(error) = noted {
        panic!("{REACHED_VARIABLE}: {} cannot be noted: {error}", mistake.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mistake_is_made_unless_it_was_planted() {
        choose(Some(Mistake::FlushSkipped));
        assert_eq!(is_made(Mistake::FlushSkipped), is_planted());
        choose(None);
        for (number, mistake) in Mistake::all().enumerate() {
            assert!(!is_made(mistake) && mistake as usize == number);
            assert_eq!(Mistake::by_name(mistake.name()), Some(mistake));
        }
    }

    #[test]
    fn every_mistake_says_in_its_own_words_what_is_done_wrong() {
        let words: std::collections::BTreeSet<_> = Mistake::all().map(Mistake::what).collect();
        assert_eq!(words.len(), Mistake::all().count());
        assert!(words.iter().all(|what| what.split_whitespace().count() >= 4), "{words:?}");
    }
}
