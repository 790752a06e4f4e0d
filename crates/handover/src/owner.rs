//! The volume for which writes are kept, as the file names it: mark, id, generation, and openings that may have raised the generation since.

/// Precedes the volume and its generation.
pub(crate) const OWNER_MARK: u64 = u64::from_le_bytes(*b"NHfor001");
/// Length of these fields.
pub(crate) const OWNER_BYTES: usize = 48;

/// The volume for which writes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFor {
    /// Names the volume.
    pub volume_id: [u8; 16],
    /// Newest generation of its devices; 0 if they have none.
    pub generation: u64,
}

/// The volume of the entries, and how many openings may have raised its generation since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) of: KeptFor,
    pub(crate) begun: u64,
}

fn array_at<const N: usize>(bytes: &[u8; OWNER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

impl Owner {
    /// Reads the bytes that [`Owner::bytes`] made, behind a mark that was checked.
    pub(crate) fn read(bytes: &[u8; OWNER_BYTES]) -> Self {
        let number = |at: usize| u64::from_le_bytes(array_at(bytes, at));
        let of = KeptFor { volume_id: array_at(bytes, 8), generation: number(24) };
        Self { of, begun: number(32) }
    }

    /// The bytes in the file.
    pub(crate) fn bytes(&self) -> [u8; OWNER_BYTES] {
        let mut bytes = [0; OWNER_BYTES];
        bytes[0..8].copy_from_slice(&OWNER_MARK.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.of.volume_id);
        bytes[24..32].copy_from_slice(&self.of.generation.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.begun.to_le_bytes());
        bytes
    }
}
