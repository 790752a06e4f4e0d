//! What writes carry.

use nearhead_basics::Random;
use nearhead_disk::{Buffer, BufferMut, Payload};

/// Where the bytes of writes come from.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nowhere: only lengths are kept (the data-less mode of simulations).
    Phantom,
    /// The start of this buffer, shared by all writes; a write beyond its length carries zeros.
    Shared(Buffer),
}

impl Content {
    /// Random bytes, enough for writes of `len_max`.
    pub fn random(seed: u64, len_max: usize) -> Self {
        let mut buffer = BufferMut::zeroed(len_max);
        Random::new(seed).fill(&mut buffer);
        Self::Shared(buffer.freeze())
    }

    /// The payload of a write of `len` bytes.
    pub fn payload(&self, len: u32) -> Payload {
        let len = len as usize;
        match self {
            Self::Phantom => Payload::Phantom(len),
            Self::Shared(buffer) if len <= buffer.len() => Payload::Bytes(buffer.slice(0..len)),
            Self::Shared(_) => Payload::Zeros(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_length_asked_for_and_the_seed_s_bytes() {
        let content = Content::random(5, 4096);
        let Payload::Bytes(bytes) = content.payload(512) else { panic!("not bytes") };
        let mut expected = [0; 512];
        Random::new(5).fill(&mut expected);
        assert_eq!(&*bytes, &expected[..]);
        assert!(matches!(content.payload(8192), Payload::Zeros(8192)));
        assert!(matches!(Content::Phantom.payload(8192), Payload::Phantom(8192)));
    }
}
