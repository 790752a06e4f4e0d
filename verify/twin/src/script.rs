//! A script of acts, generated from a seed.
//!
//! Acts fall into a few windows of the device, so that they meet each other. The same seed, kinds
//! and size give the same script; timing is not part of it.

use crate::act::{Act, Binary, FileSystem, Part, Way, What, Who};
use crate::kinds::{KINDS, Kind, Row};
use nearhead_basics::SplitMix;

/// Bytes of a window.
pub const WINDOW: u64 = 2 << 20;
/// Largest single operation.
const PART_MAX: u64 = 1 << 20;
/// Operations in flight together.
const TOGETHER_MAX: u64 = 8;

/// Bytes by which a device grows: two groups.
const GROWN: u64 = 32 << 20;

/// Device that a script is for.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the device.
    pub size_bytes: u64,
    /// Bytes of its smallest block.
    pub block_bytes: u64,
}

impl Shape {
    /// First bytes of the windows: at the start, in the middle and at the end of the device.
    pub fn windows(&self) -> [u64; 3] {
        let last = self.size_bytes - WINDOW;
        [0, last / 2 / 4096 * 4096, last]
    }
}

/// Draws acts.
#[derive(Debug)]
pub struct Generator {
    random: SplitMix,
    shape: Shape,
    /// Number of the next write.
    number: u64,
}

/// Each act after this many is of the next kind in turn, so that rare kinds come too.
const IN_TURN: usize = 4;

/// The script of `count` acts that `seed` names, of these kinds.
pub fn generate(seed: u64, count: usize, kinds: &[Kind], shape: Shape) -> Vec<Act> {
    let mut generator = Generator { random: SplitMix::new(seed), shape, number: 1 };
    let rows: Vec<_> = KINDS.iter().filter(|row| kinds.contains(&row.kind)).collect();
    let first = generator.random.below(rows.len() as u64) as usize;
    let mut acts = Vec::with_capacity(count);
    for number in 0..count {
        let kind = if rows.is_empty() {
            return acts;
        } else if number % IN_TURN == IN_TURN - 1 {
            rows[(first + number / IN_TURN) % rows.len()].kind
        } else {
            generator.kind(&rows)
        };
        acts.push(generator.act(kind));
    }
    acts
}

impl Generator {
    /// A kind by its weight.
    fn kind(&mut self, rows: &[&Row]) -> Kind {
        let mut drawn = self.random.below(rows.iter().map(|row| row.weight).sum());
        for row in rows {
            if drawn < row.weight {
                return row.kind;
            }
            drawn -= row.weight;
        }
        Kind::Io
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn act(&mut self, kind: Kind) -> Act {
        match kind {
            Kind::Io => Act::One(self.single()),
            Kind::Together => Act::Together(self.apart(), None),
            Kind::Overlap => Act::Together(self.overlapping(), None),
            Kind::Zero => {
                let what = self.pick(&[What::Zero, What::Punch]);
                Act::One(self.range(what))
            }
            Kind::Discard => Act::One(self.range(What::Discard)),
            Kind::Observe => Act::Observe,
            Kind::Reattach => Act::Reattach,
            Kind::KillWorker => self.kill(Who::Worker),
            Kind::KillSupervisor => Act::Kill(Who::Supervisor),
            Kind::KillBoth if self.random.coin() => Act::KillBothThenDetach,
            Kind::KillBoth => self.kill(Who::Both),
            Kind::Upgrade => {
                Act::Upgrade(self.pick(&[Binary::Good, Binary::Ends, Binary::NoProgram]))
            }
            Kind::Image if self.random.coin() => Act::ImageAway,
            Kind::Image => Act::ImageSwapped,
            Kind::Grow => Act::Grow(GROWN),
            Kind::Power => Act::PowerCut(self.random.next_u64() >> 32),
            Kind::Repair => Act::Repair,
            Kind::FileSystem => Act::FileSystem(self.pick(&FileSystem::ALL).1),
            Kind::Swap => Act::Swap,
        }
    }

    fn kill(&mut self, who: Who) -> Act {
        if self.random.coin() { Act::Kill(who) } else { Act::Together(self.apart(), Some(who)) }
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A whole range of blocks in a window.
    fn range(&mut self, what: What) -> Part {
        let block = self.shape.block_bytes;
        let blocks = self.len_max() / block;
        let len = (1 + self.random.below(blocks)) * block;
        let window = self.pick(&self.shape.windows());
        let at = window + self.random.below((WINDOW - len) / block + 1) * block;
        Part { what, at, len }
    }

    /// Small operations are drawn as often as large ones.
    fn len_max(&mut self) -> u64 {
        let block = self.shape.block_bytes;
        self.pick(&[block, 4096, 16 << 10, 64 << 10, 256 << 10, PART_MAX]).max(block)
    }

    fn single(&mut self) -> Part {
        let way = self.pick(&[Way::Direct, Way::Direct, Way::Buffered]);
        let what = match self.random.below(10) {
            0 => What::Flush,
            1..4 => What::Read(way),
            _ => What::Write(way, self.next_number()),
        };
        if what == What::Flush {
            return Part { what, at: 0, len: 0 };
        }
        let mut part = self.range(what);
        match self.random.below(12) {
            // Any byte: the page cache takes it, direct I/O does not.
            0 | 1 => {
                part.at += self.random.below(self.shape.block_bytes);
                part.len -= self.random.below(part.len.min(self.shape.block_bytes));
                part.len = part.len.min(self.shape.size_bytes - part.at);
            }
            // Over the end of the device, or behind it.
            2 if self.random.below(4) == 0 => {
                part.at = self.shape.size_bytes - self.random.below(3) * self.shape.block_bytes;
            }
            _ => {}
        }
        part
    }

    /// Operations on slices of one window, so that none overlaps another.
    fn apart(&mut self) -> Vec<Part> {
        let (window, block) = (self.pick(&self.shape.windows()), self.shape.block_bytes);
        let count = 2 + self.random.below(TOGETHER_MAX - 1);
        let slice = WINDOW / count / block * block;
        (0..count)
            .map(|index| {
                let len = (1 + self.random.below(slice.min(256 << 10) / block)) * block;
                let at = window + index * slice;
                self.direct(at, len)
            })
            .collect()
    }

    /// Operations around one place, each of another size.
    fn overlapping(&mut self) -> Vec<Part> {
        let block = self.shape.block_bytes;
        let base = self.range(What::Flush).at.min(self.shape.size_bytes - PART_MAX);
        let count = 2 + self.random.below(TOGETHER_MAX - 1);
        (0..count)
            .map(|_| {
                let blocks = self.len_max().min(512 << 10) / block;
                let len = (1 + self.random.below(blocks)) * block;
                let at = base + self.random.below(8) * block;
                self.direct(at, len)
            })
            .collect()
    }

    fn direct(&mut self, at: u64, len: u64) -> Part {
        let what = match self.random.below(12) {
            0 => What::Read(Way::Direct),
            1 => What::Flush,
            _ => What::Write(Way::Direct, self.next_number()),
        };
        Part { what, at, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { size_bytes: 64 << 20, block_bytes: 4096 };

    fn all() -> Vec<Kind> {
        KINDS.iter().map(|row| row.kind).collect()
    }

    #[test]
    fn a_seed_is_a_script_and_its_text_is_the_script() {
        let acts = generate(7, 2000, &all(), SHAPE);
        assert_eq!(acts, generate(7, 2000, &all(), SHAPE));
        assert_ne!(acts, generate(8, 2000, &all(), SHAPE));
        for act in acts {
            assert_eq!(act.to_string().parse::<Act>().unwrap(), act);
        }
    }

    #[test]
    fn operations_that_are_apart_do_not_overlap() {
        for act in generate(3, 500, &[Kind::Together], SHAPE) {
            let Act::Together(parts, None) = act else { panic!("{act}") };
            assert!(parts.windows(2).all(|two| two[0].at + two[0].len <= two[1].at), "{parts:?}");
            assert!(parts.iter().all(|part| part.at + part.len <= SHAPE.size_bytes));
        }
    }
}
