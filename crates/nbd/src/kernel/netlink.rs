//! Messages of generic netlink, byte by byte (`linux/netlink.h`, `linux/genetlink.h`), in the machine's byte order.
//!
//! ```text
//! message    0 length u32 | 4 type u16 | 6 flags u16 | 8 sequence u32 | 12 port u32 | 16 command u8 | 17 version u8 | 18 zeros u16 | 20 attributes
//! attribute  0 length u16 | 2 type u16 | 4 content, then zeros up to a multiple of 4
//! error      0 .. 16 as above, of type 2 | 16 error i32 (0: done)
//! ```
//!
//! What the kernel says is taken apart with the same care as what anybody says.

/// The family that knows the others, and what it is asked.
pub(super) const CONTROLLER: u16 = 0x10;
pub(super) const GET_FAMILY: u8 = 3;
pub(super) const FAMILY_ID: u16 = 1;
pub(super) const FAMILY_NAME: u16 = 2;

const HEADER_BYTES: usize = 20;
const ERROR: u16 = 2;
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
/// An attribute of attributes.
pub(super) const NESTED: u16 = 1 << 15;
/// Flags in an attribute's type.
const TYPE: u16 = (1 << 14) - 1;

/// A message in the making.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new(family: u16, command: u8, sequence: u32) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&family.to_ne_bytes());
        bytes[6..8].copy_from_slice(&REQUEST_WITH_ANSWER.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes[16] = command;
        bytes[17] = 1;
        Self(bytes)
    }

    pub(super) fn with(mut self, kind: u16, content: &[u8]) -> Self {
        put(&mut self.0, kind, content);
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// Attributes as the content of one.
pub(super) fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, content) in attributes {
        put(&mut bytes, *kind, content);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, kind: u16, content: &[u8]) {
    bytes.extend(((content.len() + 4) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// What the kernel said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The request with this number is done, or failed with this positive error of Linux.
    Done { sequence: u32, error: i32 },
    /// Attributes.
    Content { sequence: u32, attributes: &'a [u8] },
}

/// The first of the messages in `bytes`, and the rest.
pub(super) fn first(bytes: &[u8]) -> Option<(Said<'_>, &[u8])> {
    let len = u32::from_ne_bytes(take(bytes, 0)?) as usize;
    let message = bytes.get(..len)?;
    let rest = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    let kind = u16::from_ne_bytes(take(message, 4)?);
    let sequence = u32::from_ne_bytes(take(message, 8)?);
    let said = if kind == ERROR {
        let error = i32::from_ne_bytes(take(message, 16)?).saturating_neg();
        Said::Done { sequence, error }
    } else {
        Said::Content { sequence, attributes: message.get(HEADER_BYTES..)? }
    };
    Some((said, rest))
}

/// The content of the first attribute of this kind.
pub(super) fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(take(attributes, 0)?));
        let kind = u16::from_ne_bytes(take(attributes, 2)?) & TYPE;
        let content = attributes.get(4..len)?;
        if kind == wanted {
            return Some(content);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

pub(super) fn take<const LEN: usize>(bytes: &[u8], at: usize) -> Option<[u8; LEN]> {
    bytes.get(at..at.checked_add(LEN)?)?.try_into().ok()
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_what_the_kernel_expects() {
        let found = Message::new(CONTROLLER, GET_FAMILY, 7).with(FAMILY_NAME, b"nbd\0").finish();
        let expected = [
            28, 0, 0, 0, 0x10, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, // header
            8, 0, 2, 0, b'n', b'b', b'd', 0,
        ];
        assert_eq!(found, expected);
        assert_eq!(nested(&[(1, &[9])]), [5, 0, 1, 0, 9, 0, 0, 0], "padded");
    }

    #[test]
    fn whatever_the_kernel_says_is_taken_apart_or_nothing() {
        let content = Message::new(30, 1, 7).with(1, &[5, 0]).with(2, &[6, 0, 0, 0]).finish();
        let mut done = vec![20, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        done.extend((-16_i32).to_ne_bytes());
        let both = [content, done].concat();
        let (Said::Content { sequence: 7, attributes }, rest) = first(&both).unwrap() else {
            panic!("expected content");
        };
        assert_eq!((find(attributes, 2), find(attributes, 3)), (Some(&[6, 0, 0, 0][..]), None));
        assert_eq!(first(rest).unwrap().0, Said::Done { sequence: 7, error: 16 });
        for len in 0..both.len() {
            let cut = &both[..len];
            let mut left = first(cut).map(|(_, rest)| rest);
            while let Some(rest) = left {
                left = first(rest).map(|(_, rest)| rest);
            }
            let _ = find(cut, 1);
        }
        assert_eq!(
            find(&[0, 0, 1, 0], 2),
            None,
            "an attribute of no length does not go round forever"
        );
    }
}
