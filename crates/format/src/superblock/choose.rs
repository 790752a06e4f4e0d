//! Which superblock copy counts.
//!
//! Every combination of sound, damaged, stale and foreign copies has exactly one answer, so that
//! two programs that open the same device always agree:
//!
//! 1. If any copy is sound but of a newer format or with unknown features, the volume is refused: a newer program has begun
//!    to change it.
//! 2. Sound copies are grouped by volume id (a device that once held another volume may keep one of
//!    its copies). The id with the most copies counts; of equals the one with the lowest copy index.
//! 3. Of its copies the one with the highest generation counts; of equals the lowest copy index.

use super::{Superblock, SuperblockError};

/// The answer: a superblock, and what is to be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The copy that counts.
    pub superblock: Superblock,
    /// Indices of the copies that differ from it: damaged, stale or foreign. Rewrite them.
    pub to_repair: Vec<u32>,
}

/// Chooses among the results of reading copies 0, 1 and 2.
///
/// If none counts, the error is the most telling one: a newer version or unknown features before
/// damage, damage before "no volume here", the lower copy index before the higher.
pub fn choose(
    copies: &[Result<Superblock, SuperblockError>; 3],
) -> Result<Choice, SuperblockError> {
    let mut errors = copies.iter().filter_map(|copy| copy.as_ref().err());
    if let Some(error) = errors.find(|error| is_too_new(error)) {
        return Err(error.clone());
    }
    let sound = || copies.iter().filter_map(|copy| copy.as_ref().ok());
    let votes = |copy: &Superblock| sound().filter(|c| c.volume_id == copy.volume_id).count();
    let mut best: Option<&Superblock> = None;
    for copy in sound() {
        let better = best.is_none_or(|best| {
            let same_volume = copy.volume_id == best.volume_id;
            votes(copy) > votes(best) || (same_volume && copy.generation > best.generation)
        });
        if better {
            best = Some(copy);
        }
    }
    let Some(best) = best else { return Err(most_telling(copies)) };
    let differs = |copy: &Result<Superblock, _>| copy.as_ref().ok() != Some(best);
    let to_repair = (0..).zip(copies).filter(|(_, copy)| differs(copy)).map(|(i, _)| i).collect();
    Ok(Choice { superblock: best.clone(), to_repair })
}

fn is_too_new(error: &SuperblockError) -> bool {
    match error {
        SuperblockError::Version { expected, found } => found > expected,
        SuperblockError::Features { .. } => true,
        _ => false,
    }
}

fn most_telling(copies: &[Result<Superblock, SuperblockError>; 3]) -> SuperblockError {
    let no_volume = |error: &SuperblockError| {
        matches!(error, SuperblockError::NoMagic { .. } | SuperblockError::Length { .. })
    };
    let errors = || copies.iter().filter_map(|copy| copy.as_ref().err());
    errors()
        .find(|error| !no_volume(error))
        .or_else(|| errors().next())
        .cloned()
        .unwrap_or(SuperblockError::Length { found: 0 })
}
