//! Comparison of both sides after an act: attributes, which times it moved, and whole trees.
//!
//! Times are compared by relation. On each side a time stayed, moved to the time of the act, or became
//! an exact value; both sides must agree, and exact values must be equal.

use super::actor::Outcome;
use super::allowed::BLOCKS_MAX;
use super::view::{Content, Found, Node, TIMES, Time};
use crate::content::{SECTOR, describe};
use crate::{Step, differs};
use rustix::fs::FileType;
use std::collections::{BTreeMap, HashMap};

/// The coarse clock of the kernel is at most this many nanoseconds behind.
const COARSE_NS: i128 = 20_000_000;

/// Attributes of one side after an act, and those before it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Earlier times by inode.
    pub before: &'a HashMap<u64, [Option<Time>; 4]>,
    /// Attributes by path.
    pub now: &'a BTreeMap<String, Found>,
    /// Clock around the act.
    pub act: &'a Outcome,
}

/// Change of one time by an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Stayed,
    ToTheAct,
    To(Time),
    NotReported,
}

impl Seen<'_> {
    fn changes(&self, node: &Node) -> [Change; 4] {
        let before = self.before.get(&node.ino);
        std::array::from_fn(|index| {
            let Some(now) = node.times[index] else { return Change::NotReported };
            if before.is_some_and(|times| times[index] == Some(now)) {
                return Change::Stayed;
            }
            let (from, to) = (nanos(self.act.before) - COARSE_NS, nanos(self.act.after));
            if (from..=to).contains(&nanos(now)) { Change::ToTheAct } else { Change::To(now) }
        })
    }
}

fn nanos(time: Time) -> i128 {
    i128::from(time.0) * 1_000_000_000 + i128::from(time.1)
}

/// Compares the attributes of every path on both sides.
pub fn attributes(oracle: &Seen<'_>, subject: &Seen<'_>) -> Step {
    for (path, expected) in oracle.now {
        let Some(found) = subject.now.get(path) else { continue };
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                node(path, expected, found)?;
                let (mut old, mut new) = (oracle.changes(expected), subject.changes(found));
                // The same exact value: an earlier look may have moved one side's time of access alone.
                // A file that had no name before: its times are of earlier acts.
                let is_first_seen = !oracle.before.contains_key(&expected.ino)
                    && !subject.before.contains_key(&found.ino);
                for index in 0..4 {
                    let are_earlier =
                        matches!((old[index], new[index]), (Change::To(_), Change::To(_)));
                    if expected.times[index] == found.times[index] || is_first_seen && are_earlier {
                        (old[index], new[index]) = (Change::Stayed, Change::Stayed);
                    }
                }
                let earlier = subject.before.get(&found.ino).and_then(|times| times[0]);
                let lags = earlier < expected.times[0];
                times(path, (expected.kind(), lags), &old, &new)?;
            }
            (Err(expected), Err(found)) if expected == found => {}
            (expected, found) => {
                let words = |side: &Found| match side {
                    Ok(node) => format!("mode {:o}", node.mode),
                    Err(errno) => std::io::Error::from_raw_os_error(*errno).to_string(),
                };
                let (expected, found) = (words(expected), words(found));
                let detail = format!("{path}: expected {expected}, found {found}");
                return differs("a lookup finds the same", detail);
            }
        }
    }
    Ok(())
}

/// Compares the changes of times; `of` is the kind of the node, and whether its time of access lagged before.
fn times(path: &str, of: (FileType, bool), expected: &[Change; 4], found: &[Change; 4]) -> Step {
    const LAWS: [&str; 4] = [
        "the time of access moves alike",
        "the time of modification moves alike",
        "the time of change moves alike",
        "the time of birth is alike",
    ];
    for index in 0..4 {
        let is_late = expected[index] == Change::ToTheAct && found[index] == Change::Stayed;
        // A read from the cache, and the reads and writes of a pipe, never reach the daemon.
        let is_unseen = is_late && (index == 0 || of.0 == FileType::Fifo);
        // A later read moves a time of access that lagged.
        let is_catching_up = index == 0 && of.1 && expected[0] == Change::Stayed;
        let is_allowed = is_unseen || is_catching_up;
        if expected[index] != found[index] && !is_allowed {
            let name = TIMES[index];
            let (expected, found) = (expected[index], found[index]);
            let detail = format!("{path}: {name}: expected {expected:?}, found {found:?}");
            return differs(LAWS[index], detail);
        }
    }
    Ok(())
}

/// Compares the attributes of a node on both sides, but for its times.
pub fn node(path: &str, expected: &Node, found: &Node) -> Step {
    let same = |law, one: String, other: String| {
        if one == other {
            Ok(())
        } else {
            differs(law, format!("{path}: expected {one}, found {other}"))
        }
    };
    same("the mode is the same", format!("{:o}", expected.mode), format!("{:o}", found.mode))?;
    same("the number of links is the same", expected.links.to_string(), found.links.to_string())?;
    same("the owner is the same", format!("{:?}", expected.owner), format!("{:?}", found.owner))?;
    same("the size is the same", expected.size.to_string(), found.size.to_string())?;
    same(
        "the device number is the same",
        format!("{:?}", expected.device),
        format!("{:?}", found.device),
    )?;
    same("the flags are the same", flags(expected), flags(found))?;
    same(
        "extended attributes are the same",
        format!("{:?}", expected.xattrs),
        format!("{:?}", found.xattrs),
    )?;
    if expected.kind() == FileType::RegularFile
        && expected.blocks.abs_diff(found.blocks) > BLOCKS_MAX
    {
        let (expected, found) = (expected.blocks, found.blocks);
        let detail = format!("{path}: expected {expected} units of 512 bytes, found {found}");
        return differs("the space taken is the same", detail);
    }
    Ok(())
}

fn flags(node: &Node) -> String {
    format!("{:x?}", node.flags)
}

/// Compares the contents of both trees.
pub fn trees(oracle: &BTreeMap<String, Content>, subject: &BTreeMap<String, Content>) -> Step {
    for (path, expected) in oracle {
        let Some(found) = subject.get(path) else {
            return differs("both trees have the same names", format!("{path} is missing"));
        };
        match (expected, found) {
            (Content::File(one, data), Content::File(other, found)) => {
                bytes(path, one, other)?;
                holes(path, one, data, found)?;
            }
            (Content::Names(one), Content::Names(other)) if one != other => {
                let detail = format!("{path}: expected {one:?}, found {other:?}");
                return differs("both trees have the same names", detail);
            }
            (one, other) if one != other => {
                return differs("a node has the same content", path.clone());
            }
            _ => {}
        }
    }
    Ok(())
}

fn bytes(path: &str, expected: &[u8], found: &[u8]) -> Step {
    if expected == found {
        return Ok(());
    }
    let at = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
    let sector = |bytes: &[u8]| {
        let start = at / SECTOR as usize * SECTOR as usize;
        describe(bytes.get(start..(start + SECTOR as usize).min(bytes.len())).unwrap_or(&[]))
    };
    let (had, has) = (expected.len(), found.len());
    let (one, other) = (sector(expected), sector(found));
    let detail = format!("{path}: {had} and {has} bytes; byte {at}: expected {one}, found {other}");
    differs("a file has the same bytes", detail)
}

/// Data that ext4 reports must be reported, unless it is zeros; a hole may be reported as data.
fn holes(path: &str, bytes: &[u8], expected: &[(u64, u64)], found: &[(u64, u64)]) -> Step {
    let is_zero = |from: u64, to: u64| {
        let part = bytes.get(from as usize..to as usize).unwrap_or_default();
        part.iter().all(|byte| *byte == 0)
    };
    for range in expected {
        let mut at = range.0;
        for own in found.iter().filter(|own| own.1 > range.0 && own.0 < range.1) {
            if own.0 > at && !is_zero(at, own.0) {
                return missing_data(path, *range, found);
            }
            at = at.max(own.1);
        }
        if at < range.1 && !is_zero(at, range.1) {
            return missing_data(path, *range, found);
        }
    }
    Ok(())
}

fn missing_data(path: &str, range: (u64, u64), found: &[(u64, u64)]) -> Step {
    differs(
        "SEEK_DATA finds all data",
        format!("{path}: expected data at {range:?}, found {found:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_where_ext4_has_data_must_read_as_zeros() {
        let mut bytes = vec![0; 12288];
        bytes[8192] = 1;
        let data = [(0, 12288)];
        assert!(holes("a", &bytes, &data, &[(8192, 12288)]).is_ok());
        assert!(holes("a", &bytes, &data, &[(0, 8192)]).is_err());
        assert!(holes("a", &bytes, &data, &[(0, 4096), (12287, 12288)]).is_err());
    }
}
