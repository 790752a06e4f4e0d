//! Kept writes seen from outside: how many there are, for which volume, and whether they may be carried out on it.
//!
//! It must never change the file but for the count of openings ([`begin_opening`]).

use crate::kept_file::KeptFile;
use crate::owner::{KeptFor, Owner};
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Ranges that a sentence names.
const RANGES_NAMED_MAX: usize = 4;

/// Writes that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWrites {
    /// The volume; none if an older program kept them.
    pub of: Option<KeptFor>,
    /// Requests that count.
    pub writes: u64,
    /// Bytes that they change.
    pub bytes: u64,
    /// Each of them, oldest first: first byte and length.
    pub ranges: Vec<(u64, u64)>,
    /// An entry cannot be read: there may be more.
    pub is_damaged: bool,
}

/// Lists the writes that the file at `path` keeps; nothing if it keeps none or is not there.
///
/// # Errors
/// The file cannot be read, or is none that keeps writes.
pub fn kept_writes(path: &Path) -> io::Result<Option<KeptWrites>> {
    if !path.try_exists()? {
        return Ok(None);
    }
    let file = KeptFile::look(path)?;
    Ok(Some(KeptWrites::of(&file)).filter(|kept| kept.writes > 0 || kept.is_damaged))
}

/// Refuses `now`, the volume that is found where it is served, if the file at `path` keeps writes that belong to another volume or
/// to another generation of it.
///
/// # Errors
/// Why the kept writes must not be carried out on it.
pub fn refuse_another_volume(path: &Path, now: &KeptFor) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    if kept_writes(path).map_err(failed)?.is_none() {
        return Ok(());
    }
    let file = KeptFile::look(path).map_err(failed)?;
    let Some(owner) = file.owner() else { return Ok(()) };
    refuse_another(&owner, now)
        .map_err(|why| format!("{}: {}", path.display(), refused(&file, &why)))
}

/// The same for a volume with the id for which the writes are kept; an error is the reason alone.
///
/// # Errors
/// Why the kept writes must not be carried out at its generation.
pub fn refuse_another_generation(path: &Path, now: &KeptFor) -> Result<(), String> {
    let file = KeptFile::look(path).map_err(|error| format!("{}: {error}", path.display()))?;
    file.owner().map_or(Ok(()), |owner| refuse_another(&owner, now))
}

/// Notes in the file at `path` that the volume is about to be opened for writing, which may raise its generation. Call it only for
/// a volume that [`refuse_another_volume`] accepts: each call widens what is accepted by one generation.
///
/// # Errors
/// The file cannot be read or written.
pub fn begin_opening(path: &Path) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    let mut file = KeptFile::open(path)?;
    let Some(Owner { of, begun }) = file.owner() else { return Ok(()) };
    file.set_owner(Owner { of, begun: begun + 1 })
}

impl KeptWrites {
    pub(crate) fn of(file: &KeptFile) -> Self {
        let of = file.owner().map(|owner| owner.of);
        let mut kept = Self { of, writes: 0, bytes: 0, ranges: Vec::new(), is_damaged: false };
        let mut at = file.start();
        loop {
            let head = match file.head_at(at) {
                Ok(Some(head)) => head,
                end => {
                    kept.is_damaged = end.is_err();
                    return kept;
                }
            };
            at = head.end;
            if !head.counts() {
                continue;
            }
            kept.writes += 1;
            kept.bytes = kept.bytes.saturating_add(head.len);
            kept.ranges.push((head.offset, head.len));
        }
    }

    /// A line for each of the first `max` writes, and one for the rest.
    pub fn listed(&self, max: usize) -> Vec<String> {
        let (first, rest) = self.ranges.split_at(max.min(self.ranges.len()));
        let mut lines: Vec<String> =
            first.iter().map(|(offset, len)| format!("{len} bytes at byte {offset}")).collect();
        if !rest.is_empty() {
            let bytes = rest.iter().fold(0_u64, |sum, (_, len)| sum.saturating_add(*len));
            lines.push(format!("and {} more writes of {bytes} bytes", rest.len()));
        }
        lines
    }

    /// How many writes there are and where, in words.
    pub fn in_words(&self) -> String {
        let named = self.ranges.iter().take(RANGES_NAMED_MAX);
        let ranges: Vec<String> = named.map(|(offset, len)| format!("{len} at {offset}")).collect();
        let more = if self.ranges.len() > RANGES_NAMED_MAX { ", ..." } else { "" };
        format!(
            "{} writes of {} bytes that were answered and not flushed ({}{more})",
            self.writes,
            self.bytes,
            ranges.join(", ")
        )
    }
}

/// Why entries kept for `owner` must not be carried out on the open volume `now`.
pub(crate) fn refuse_another(owner: &Owner, now: &KeptFor) -> Result<(), String> {
    let (id, found) = (hex(&owner.of.volume_id), hex(&now.volume_id));
    if id != found {
        return Err(format!("expected volume {id}, for which they are kept, found volume {found}"));
    }
    let (kept, found) = (owner.of.generation, now.generation);
    if kept == 0 || found == 0 {
        return Ok(());
    }
    // The generation grows with the first change of an opening, so the entries' own volume has it unless openings of a
    // supervised worker may have raised it since.
    let newest = kept.saturating_add(owner.begun);
    if (kept..=newest).contains(&found) {
        return Ok(());
    }
    let why = if found < kept {
        "this is an older copy of the volume"
    } else {
        "something else changed the volume since"
    };
    let expected = if owner.begun == 0 { kept.to_string() } else { format!("{kept} to {newest}") };
    Err(format!("expected generation {expected} of the volume, found {found}: {why}"))
}

/// The message that refuses the entries of `file`.
pub(crate) fn refused(file: &KeptFile, why: &str) -> String {
    format!(
        "{} are not carried out, and stay where they are: {why}",
        KeptWrites::of(file).in_words()
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
