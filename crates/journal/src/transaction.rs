//! The parts of a transaction: bytes, and where they belong.

use nearhead_disk::Payload;

/// Bytes that belong at one place of the device.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Device byte where they belong.
    pub offset: u64,
    /// The bytes.
    pub data: Payload,
}

impl Piece {
    /// The device byte behind them.
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// The same pieces in the order of their places, neighbours in memory and on the device as one, zeros beside zeros as well. Of two for
/// one place the later counts.
pub fn merged(mut pieces: Vec<Piece>) -> Vec<Piece> {
    // Stable: of two for one place the later one comes last.
    pieces.sort_by_key(|piece| piece.offset);
    let mut merged: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some(last) = merged.last_mut() else {
            merged.push(piece);
            continue;
        };
        if last.offset == piece.offset && last.data.len() == piece.data.len() {
            *last = piece;
            continue;
        }
        match (&last.data, &piece.data) {
            (Payload::Bytes(before), Payload::Bytes(after))
                if last.end() == piece.offset && before.is_followed_by(after) =>
            {
                last.data = Payload::Bytes(before.joined_with(after));
            }
            (Payload::Zeros(before), Payload::Zeros(after)) if last.end() == piece.offset => {
                last.data = Payload::Zeros(before + after);
            }
            _ => merged.push(piece),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::BufferMut;

    #[test]
    fn neighbours_become_one_piece_and_the_later_of_two_for_one_place_counts() {
        let buffer = BufferMut::copy_of(&[7; 16]).freeze();
        let part = |from: usize, to: usize| Payload::Bytes(buffer.slice(from..to));
        let newer = Payload::Bytes(BufferMut::copy_of(&[9; 4]).freeze());
        let pieces = merged(vec![
            Piece { offset: 108, data: part(8, 12) },
            Piece { offset: 100, data: part(0, 4) },
            Piece { offset: 104, data: part(4, 8) },
            Piece { offset: 200, data: part(0, 4) },
            Piece { offset: 200, data: newer },
            Piece { offset: 300, data: Payload::Zeros(10) },
            Piece { offset: 310, data: Payload::Zeros(6) },
        ]);
        let found: Vec<(u64, usize)> = pieces.iter().map(|it| (it.offset, it.data.len())).collect();
        assert_eq!(found, [(100, 12), (200, 4), (300, 16)]);
        let mut bytes = [0; 4];
        pieces[1].data.copy_to(&mut bytes);
        assert_eq!(bytes, [9; 4]);
    }
}
