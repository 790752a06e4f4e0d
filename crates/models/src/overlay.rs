//! Bytes that a disk has in memory, laid over those that it has stored.

use nearhead_disk::Payload;

/// Copies what of `parts`, which begin at byte `at`, falls into `target`, which begins at byte
/// `start`.
pub(crate) fn overlay(target: &mut [u8], start: u64, mut at: u64, parts: &[Payload]) {
    let end = start + target.len() as u64;
    for part in parts {
        let (from, to) = (at.max(start), (at + part.len() as u64).min(end));
        if from < to {
            let inside = part.slice((from - at) as usize..(to - at) as usize);
            inside.copy_to(&mut target[(from - start) as usize..(to - start) as usize]);
        }
        at += part.len() as u64;
    }
}
