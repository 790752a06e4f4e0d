//! The observer: compares what both devices hold, as any reader of them sees it.
//!
//! Sectors that may differ after a loss are settled: the oracle gets what the subject has, so that it
//! must stay so from then on.

use crate::content::{self, SECTOR};
use crate::history::{History, Reached};
use crate::script::WINDOW;
use crate::side::{Open, Side};
use crate::{Step, differs, tools};
use std::os::unix::fs::FileExt;

/// What both sides share: the open devices, and what they may hold.
#[derive(Debug)]
pub struct Pair {
    /// The subject's device.
    pub subject: Open,
    /// The oracle's device.
    pub oracle: Open,
}

/// Reads all windows of both sides; everything must be equal, save sectors that a loss excuses.
pub fn compare(
    pair: &Pair,
    history: &mut History,
    windows: &[u64],
    kept: Reached,
    law: &'static str,
) -> Step {
    let (mut wrong, mut first) = (0_u64, None);
    for window in windows {
        let [subject, oracle] = read_both(pair, *window, WINDOW, law)?;
        for (index, pieces) in subject.chunks_exact(4096).zip(oracle.chunks_exact(4096)).enumerate()
        {
            let (found, expected) = pieces;
            if found == expected {
                continue;
            }
            let at = window + index as u64 * 4096;
            for place in 0..4096 / SECTOR {
                let part = (place * SECTOR) as usize..((place + 1) * SECTOR) as usize;
                let (sector, found) = (at / SECTOR + place, &found[part.clone()]);
                let is_equal = *found == expected[part];
                if is_equal {
                    continue;
                }
                if history.allows(sector, found, kept) {
                    history.choose(sector, found, Reached::Device);
                } else {
                    wrong += 1;
                    let current = history.current(sector);
                    let name = content::describe;
                    first.get_or_insert_with(|| {
                        format!(
                            "sector {sector}: expected {}, found {}",
                            name(&current),
                            name(found)
                        )
                    });
                }
            }
            write_to_oracle(pair, at, found)?;
        }
    }
    match first {
        None => Ok(()),
        Some(first) => differs(law, format!("{wrong} sectors; {first}")),
    }
}

/// The same range of both sides.
pub fn read_both(pair: &Pair, at: u64, len: u64, law: &'static str) -> Step<[Vec<u8>; 2]> {
    let read = |open: &Open| crate::carry_out::read_direct(open, at, len);
    let text = |errno: i32| std::io::Error::from_raw_os_error(errno);
    let oracle = read(&pair.oracle).map_err(|errno| format!("oracle: {}", text(errno)))?;
    match read(&pair.subject) {
        Ok(subject) => Ok([subject, oracle]),
        Err(errno) => differs(law, format!("read of {len} at {at}: {}", text(errno))),
    }
}

/// Gives the oracle the subject's content of whole blocks.
pub fn write_to_oracle(pair: &Pair, at: u64, bytes: &[u8]) -> Step {
    let mut buffer = nearhead_disk::BufferMut::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    let done = pair.oracle.direct.write_all_at(&buffer, at);
    Ok(done.map_err(|error| format!("oracle: {error}"))?)
}

/// Another process reads both whole devices, past the page cache and through it.
pub fn by_another_process(subject: &dyn Side, oracle: &dyn Side) -> Step {
    for flag in ["iflag=direct", "iflag=nocache"] {
        let sum = |side: &dyn Side| {
            let device = side.device();
            let script = format!("dd if={} bs=1M {flag} status=none | cksum", device.display());
            tools::ok("sh", &["-c", &script])
        };
        let (found, expected) = (sum(subject)?, sum(oracle)?);
        if found != expected {
            let law = "another process sees the same bytes";
            return differs(law, format!("{flag}: cksum {expected}, found {found}"));
        }
    }
    Ok(())
}
