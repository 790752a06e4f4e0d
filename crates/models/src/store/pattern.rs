//! A store for terabytes that repeat: of a block whose bytes are one word again and again that word alone is kept.
//!
//! Simulations write blocks that whoever reads them can compute again: eight bytes that say what the block is, repeated. Whatever else is
//! written (headers, maps) is kept as it is. So a disk of a terabyte takes 2 GB and what is not such a block, and
//! every byte that is read is the one that was written.
//!
//! What stays true: what is read never depends on how a block is kept; where a word is kept, nothing else takes room for its block. The words of
//! one stretch of the disk are held back until another one is touched, or the store ends.

use super::Store;
use nearhead_disk::DiskError;
use std::ops::Range;

const BLOCK_BYTES: u64 = 4096;
const WORD_BYTES: u64 = 8;
/// Words that are held together, and the blocks that they stand for: 4 KiB for 2 MiB.
const STRETCH_BLOCKS: u64 = 512;

/// Said of a block that was never written, or zeroed: nothing is kept of it.
const NOTHING: u64 = 0;
/// Said of a block that is kept as it is.
const KEPT: u64 = u64::MAX;

/// Bytes in `kept`, and of blocks that repeat one word that word in `words`.
pub struct PatternStore<S: Store> {
    kept: S,
    words: S,
    open: Option<Stretch>,
}

/// The words of one stretch, newer than those in the store.
struct Stretch {
    number: u64,
    words: Box<[u64; STRETCH_BLOCKS as usize]>,
    /// Blocks of which `kept` has something that does not count any more.
    hides: Box<[bool; STRETCH_BLOCKS as usize]>,
}

impl Stretch {
    fn place(number: u64) -> u64 {
        number * STRETCH_BLOCKS * WORD_BYTES
    }
}

/// The word that a whole block repeats, if it does and the word says nothing else.
fn word_of(block: &[u8]) -> Option<u64> {
    let first = block.first_chunk::<{ WORD_BYTES as usize }>()?;
    let word = u64::from_le_bytes(*first);
    let repeats = block.len() as u64 == BLOCK_BYTES
        && block[WORD_BYTES as usize..] == block[..block.len() - WORD_BYTES as usize];
    (repeats && word != NOTHING && word != KEPT).then_some(word)
}

/// Fills a part of a block, that begins at this byte of it, with what the block repeats.
fn repeat(word: u64, from: u64, target: &mut [u8]) {
    let mut bytes = word.to_le_bytes();
    bytes.rotate_left((from % WORD_BYTES) as usize);
    for piece in target.chunks_mut(WORD_BYTES as usize) {
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

/// The blocks that a range touches, each with the bytes of it that are in the range.
fn blocks(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
    (range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let own = block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES;
        (block, own.start.max(range.start)..own.end.min(range.end))
    })
}

impl<S: Store> PatternStore<S> {
    /// Of what these two hold, both empty or left by another such store.
    pub fn new(kept: S, words: S) -> Self {
        Self { kept, words, open: None }
    }

    /// Brings what is held back to the stores below.
    pub fn write_back(&mut self) -> Result<(), DiskError> {
        let Some(stretch) = self.open.take() else { return Ok(()) };
        let bytes: Vec<u8> = stretch.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.words.write(Stretch::place(stretch.number), &bytes)?;
        let first = stretch.number * STRETCH_BLOCKS;
        let mut block = 0;
        while block < stretch.hides.len() {
            let run = stretch.hides[block..].iter().take_while(|hides| **hides).count();
            if run > 0 {
                let from = (first + block as u64) * BLOCK_BYTES;
                self.kept.zero(from, run as u64 * BLOCK_BYTES)?;
            }
            block += run.max(1);
        }
        Ok(())
    }

    /// The words of the stretch with this block.
    fn stretch(&mut self, block: u64) -> Result<&mut Stretch, DiskError> {
        let number = block / STRETCH_BLOCKS;
        let known = self.open.take_if(|open| open.number == number);
        let stretch = if let Some(stretch) = known {
            stretch
        } else {
            self.write_back()?;
            let words = self.read_words(number)?;
            Stretch { number, words, hides: Box::new([false; STRETCH_BLOCKS as usize]) }
        };
        Ok(self.open.insert(stretch))
    }

    fn read_words(&self, number: u64) -> Result<Box<[u64; STRETCH_BLOCKS as usize]>, DiskError> {
        if let Some(open) = self.open.as_ref().filter(|open| open.number == number) {
            return Ok(open.words.clone());
        }
        let mut bytes = [0; (STRETCH_BLOCKS * WORD_BYTES) as usize];
        self.words.read(Stretch::place(number), &mut bytes)?;
        let mut words = Box::new([0; STRETCH_BLOCKS as usize]);
        let (pieces, _) = bytes.as_chunks();
        for (word, piece) in words.iter_mut().zip(pieces) {
            *word = u64::from_le_bytes(*piece);
        }
        Ok(words)
    }

    /// The block is what this word says from now on; what it said before.
    fn put_word(&mut self, block: u64, word: u64) -> Result<u64, DiskError> {
        let stretch = self.stretch(block)?;
        let at = (block % STRETCH_BLOCKS) as usize;
        let before = std::mem::replace(&mut stretch.words[at], word);
        stretch.hides[at] = word != KEPT && (before == KEPT || stretch.hides[at]);
        Ok(before)
    }

    /// The block is kept from now on, as it reads.
    fn keep(&mut self, block: u64) -> Result<(), DiskError> {
        let word = self.put_word(block, KEPT)?;
        if word != KEPT {
            let mut bytes = [0; BLOCK_BYTES as usize];
            repeat(word, 0, &mut bytes);
            self.kept.write(block * BLOCK_BYTES, &bytes)?;
        }
        Ok(())
    }
}

impl<S: Store> Store for PatternStore<S> {
    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        let end = offset + target.len() as u64;
        let mut known: Option<(u64, Box<[u64; STRETCH_BLOCKS as usize]>)> = None;
        // What is kept is read in one piece, and the rest filled in.
        let mut is_kept_read = false;
        for (block, range) in blocks(offset..end) {
            let number = block / STRETCH_BLOCKS;
            let words = match known.take().filter(|(of, _)| *of == number) {
                Some((_, words)) => words,
                None => self.read_words(number)?,
            };
            let word = words[(block % STRETCH_BLOCKS) as usize];
            known = Some((number, words));
            if word == KEPT && !is_kept_read {
                self.kept.read(range.start, &mut target[(range.start - offset) as usize..])?;
                is_kept_read = true;
            }
            if word != KEPT {
                let part = (range.start - offset) as usize..(range.end - offset) as usize;
                repeat(word, range.start % BLOCK_BYTES, &mut target[part]);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let end = offset + bytes.len() as u64;
        // Neighbours that are kept are written together.
        let mut kept = offset..offset;
        for (block, range) in blocks(offset..end) {
            let part = &bytes[(range.start - offset) as usize..(range.end - offset) as usize];
            if let Some(word) = word_of(part) {
                self.put_word(block, word)?;
                continue;
            }
            if (part.len() as u64) < BLOCK_BYTES {
                self.keep(block)?;
            } else {
                self.put_word(block, KEPT)?;
            }
            if kept.end != range.start {
                self.kept.write(kept.start, slice(bytes, offset, &kept))?;
                kept.start = range.start;
            }
            kept.end = range.end;
        }
        self.kept.write(kept.start, slice(bytes, offset, &kept))
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), DiskError> {
        let end = offset + len;
        let whole = offset.div_ceil(BLOCK_BYTES)..end / BLOCK_BYTES;
        if whole.start >= whole.end {
            for (block, range) in blocks(offset..end) {
                self.keep(block)?;
                self.kept.zero(range.start, range.end - range.start)?;
            }
            return Ok(());
        }
        self.zero(offset, whole.start * BLOCK_BYTES - offset)?;
        self.zero(whole.end * BLOCK_BYTES, end - whole.end * BLOCK_BYTES)?;
        self.write_back()?;
        let blocks = whole.end - whole.start;
        self.words.zero(whole.start * WORD_BYTES, blocks * WORD_BYTES)?;
        self.kept.zero(whole.start * BLOCK_BYTES, blocks * BLOCK_BYTES)
    }
}

/// The part of a write at `offset` that these bytes of the disk are.
fn slice<'a>(bytes: &'a [u8], offset: u64, range: &Range<u64>) -> &'a [u8] {
    &bytes[(range.start - offset) as usize..(range.end - offset) as usize]
}

impl<S: Store> Drop for PatternStore<S> {
    fn drop(&mut self) {
        // Nobody is there to be told; what is lacking does not read as anything else.
        let _ = self.write_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use nearhead_basics::SplitMix;

    const SPACE_BYTES: u64 = 3 * STRETCH_BLOCKS * BLOCK_BYTES;

    fn store() -> PatternStore<MemoryStore> {
        PatternStore::new(MemoryStore::new(), MemoryStore::new())
    }

    fn read(store: &dyn Store, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0xee; len as usize];
        store.read(offset, &mut bytes).unwrap();
        bytes
    }

    fn block(word: u64) -> Vec<u8> {
        word.to_le_bytes().repeat((BLOCK_BYTES / WORD_BYTES) as usize)
    }

    /// A run of blocks, some of which repeat a word; or any bytes.
    fn content(random: &mut SplitMix, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        for piece in bytes.chunks_mut(BLOCK_BYTES as usize) {
            match random.below(4) {
                0 => random.fill(piece),
                1 => {}
                _ => {
                    let words = block(random.next_u64());
                    piece.copy_from_slice(&words[..piece.len()]);
                }
            }
        }
        bytes
    }

    #[test]
    fn it_reads_as_any_store_does_whatever_is_written_where() {
        for seed in 0..20 {
            let random = &mut SplitMix::new(seed);
            let (mut store, mut plain) = (store(), MemoryStore::new());
            for _ in 0..200 {
                // Whole blocks as often as any sectors.
                let unit = if random.coin() { BLOCK_BYTES } else { 512 };
                let offset = random.below(SPACE_BYTES / unit) * unit;
                let len = (1 + random.below(40)) * unit;
                let len = len.min(SPACE_BYTES - offset);
                match random.below(5) {
                    0 => {
                        store.zero(offset, len).unwrap();
                        plain.zero(offset, len).unwrap();
                    }
                    1 => assert_eq!(read(&store, offset, len), read(&plain, offset, len)),
                    _ => {
                        let bytes = content(random, len);
                        store.write(offset, &bytes).unwrap();
                        plain.write(offset, &bytes).unwrap();
                    }
                }
            }
            let (all, expected) = (read(&store, 0, SPACE_BYTES), read(&plain, 0, SPACE_BYTES));
            assert!(all == expected, "seed {seed}");
        }
    }

    #[test]
    fn a_block_that_repeats_a_word_takes_the_room_of_the_word_also_where_other_bytes_stood() {
        let mut store = store();
        let mut other = vec![0; 64 * BLOCK_BYTES as usize];
        SplitMix::new(1).fill(&mut other);
        store.write(0, &other).unwrap();
        assert_eq!(store.kept.page_bytes(), 64 * BLOCK_BYTES);
        for number in 0..64 {
            store.write(number * BLOCK_BYTES, &block(number + 7)).unwrap();
        }
        store.write_back().unwrap();
        assert_eq!((store.kept.page_bytes(), store.words.page_bytes()), (0, 4096));
        assert_eq!(read(&store, 3 * BLOCK_BYTES + 5, 8)[..3], 10_u64.to_le_bytes()[5..]);
    }

    #[test]
    fn what_one_store_left_the_next_one_reads() {
        let folder = std::env::temp_dir().join(format!("nearhead-pattern-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let open = || {
            let file = |name: &str| crate::FileStore::open(&folder.join(name), 1 << 20).unwrap();
            PatternStore::new(file("kept"), file("words"))
        };
        let mut first = open();
        first.write(8192, &block(9)).unwrap();
        first.write(0, b"header").unwrap();
        drop(first);
        let second = open();
        assert_eq!(read(&second, 8192, BLOCK_BYTES), block(9));
        assert_eq!(&read(&second, 0, 6), b"header");
        drop(second);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
