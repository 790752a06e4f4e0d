//! Logged copies: where one lies, what it is a copy of, and whether bytes that were read are it.
//!
//! Whoever reads a log, for a client, for cleaning or for a check, asks here before a byte of it goes anywhere (law 5).
//! A transfer that is too short, a hole and a checksum that does not match are all the same to the caller: the copy
//! is not there. Content that a data-less simulation left out counts as sound. Nothing here reads anything itself.

use crate::state::sectors::SECTOR;
use nearhead_disk::Payload;
use nearhead_format::crc::chunk_crc;
use nearhead_format::{Entry, Place};
use std::fmt;

/// What was written to a log at once, of one run of home sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedCopy {
    /// Device byte of its first.
    pub device_offset: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Home sector of its first.
    pub home_sector: u64,
    /// [`chunk_crc`] of all of it.
    pub crc: u32,
}

/// Why bytes that were read are not the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsound {
    /// The transfer does not reach over it.
    NotRead,
    /// The bytes are not those that were written.
    Checksum {
        /// What the map says.
        expected: u32,
        /// Of the bytes.
        found: u32,
    },
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRead => f.write_str("could not be read"),
            Self::Checksum { expected, found } => {
                write!(f, "expected checksum {expected:08x}, found {found:08x}")
            }
        }
    }
}

impl LoggedCopy {
    /// The copy that an entry points into; none if it points to no log.
    pub fn of(entry: &Entry) -> Option<Self> {
        let Place::Log { chunk_sector, .. } = entry.place else { return None };
        let (home_sector, sectors) = entry.chunk_home()?;
        Some(Self {
            device_offset: chunk_sector * SECTOR as u64,
            bytes: u32::from(sectors) * SECTOR as u32,
            home_sector,
            crc: entry.crc,
        })
    }

    /// The device byte behind it.
    pub fn end(&self) -> u64 {
        self.device_offset + u64::from(self.bytes)
    }

    /// Its bytes out of `data`, which was read from device byte `data_offset` on, whatever they are.
    fn cut(&self, data: &Payload, data_offset: u64) -> Option<Payload> {
        let from = usize::try_from(self.device_offset.checked_sub(data_offset)?).ok()?;
        let to = from.checked_add(self.bytes as usize)?;
        (to <= data.len()).then(|| data.slice(from..to))
    }

    /// Its bytes out of `data`, which was read from device byte `data_offset` on, if they are sound.
    ///
    /// # Errors
    /// They are not, or not all of them are in `data`.
    pub fn take(&self, data: &Payload, data_offset: u64) -> Result<Payload, Unsound> {
        let own = self.cut(data, data_offset).ok_or(Unsound::NotRead)?;
        let found = match &own {
            Payload::Bytes(bytes) => chunk_crc(self.home_sector, bytes),
            // A hole reads as zeros: sound only where zeros were logged.
            Payload::Zeros(len) => chunk_crc(self.home_sector, &vec![0; *len]),
            Payload::Phantom(_) => return Ok(own),
        };
        if found == self.crc {
            Ok(own)
        } else {
            Err(Unsound::Checksum { expected: self.crc, found })
        }
    }

    /// Says what is wrong with it, and where it is.
    pub(crate) fn told(&self, unsound: Unsound) -> String {
        format!(
            "logged copy of sector {} at device byte {}: {unsound}",
            self.home_sector, self.device_offset
        )
    }
}

/// The bytes of an entry out of `data`, which was read from device byte `data_offset` on.
///
/// # Errors
/// What is wrong with the copy that the entry points into, and where it is.
pub(crate) fn content_of(
    entry: &Entry,
    data: &Payload,
    data_offset: u64,
) -> Result<Payload, String> {
    let len = usize::from(entry.len_sectors) * SECTOR;
    let (Place::Log { offset, .. }, Some(copy)) = (entry.place, LoggedCopy::of(entry)) else {
        return Ok(Payload::Zeros(len));
    };
    let whole = copy.take(data, data_offset).map_err(|unsound| copy.told(unsound))?;
    let from = usize::from(offset) * SECTOR;
    Ok(whole.slice(from..from + len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::BufferMut;

    const HOME: u64 = 800;

    /// The middle two sectors of a copy of four, which lies at device sector 64.
    fn entry(bytes: &[u8]) -> Entry {
        Entry {
            home_sector: HOME + 1,
            len_sectors: 2,
            place: Place::Log { chunk_sector: 64, chunk_len: 4, offset: 1 },
            crc: chunk_crc(HOME, bytes),
        }
    }

    fn payload(bytes: &[u8]) -> Payload {
        Payload::Bytes(BufferMut::copy_of(bytes).freeze())
    }

    fn bytes_of(payload: &Payload) -> Vec<u8> {
        let mut bytes = vec![0xff; payload.len()];
        payload.copy_to(&mut bytes);
        bytes
    }

    fn content() -> Vec<u8> {
        (0..4 * SECTOR).map(|at| (at / 7) as u8).collect()
    }

    #[test]
    fn an_entry_gets_its_own_sectors_of_a_sound_copy_wherever_the_transfer_began() {
        let content = content();
        let mut read = vec![0xee; SECTOR];
        read.extend_from_slice(&content);
        let found = content_of(&entry(&content), &payload(&read), 63 * SECTOR as u64).unwrap();
        assert_eq!(bytes_of(&found), content[SECTOR..3 * SECTOR]);
    }

    #[test]
    fn a_copy_counts_as_not_there_if_a_byte_of_it_differs_or_it_was_not_read_whole_or_is_a_hole() {
        let content = content();
        let (entry, at) = (entry(&content), 64 * SECTOR as u64);
        for flipped in [0, SECTOR, content.len() - 1] {
            let mut read = content.clone();
            read[flipped] ^= 1;
            let problem = content_of(&entry, &payload(&read), at).unwrap_err();
            assert!(problem.contains("sector 800 at device byte 32768: expected"), "{problem}");
        }
        let read = payload(&content);
        for (data, from) in [
            (read.slice(0..content.len() - 1), at),
            (Payload::EMPTY, at),
            (read.clone(), at + 1),
            (read, at - content.len() as u64),
        ] {
            let problem = content_of(&entry, &data, from).unwrap_err();
            assert!(problem.contains("could not be read"), "{problem}");
        }
        assert!(content_of(&entry, &Payload::Zeros(content.len()), at).is_err());
    }

    #[test]
    fn zeros_that_were_logged_are_sound_also_where_the_disk_keeps_a_hole_for_them() {
        let zeros = vec![0; 4 * SECTOR];
        let at = 64 * SECTOR as u64;
        let found = content_of(&entry(&zeros), &Payload::Zeros(zeros.len()), at).unwrap();
        assert_eq!(bytes_of(&found), zeros[..2 * SECTOR]);
    }
}
