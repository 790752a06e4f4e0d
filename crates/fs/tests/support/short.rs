//! Short sequences of operations that end in a sync, by their numbers.

use super::tree::{Op, Room};

/// What sequences are made of, on a tree with `a` (10,000 bytes), `d`, `d/b` (5000 bytes) and the empty `e`.
pub const OPS: &[Op] = &[
    Op::Create("c"),
    Op::Create("d/c"),
    Op::Mkdir("d/f"),
    Op::Symlink("s"),
    Op::Link("a", "d/l"),
    Op::Rename("a", "c"),
    Op::Rename("a", "d/b"),
    Op::Rename("d/b", "a"),
    Op::Rename("d", "e"),
    Op::Exchange("a", "d/b"),
    Op::Exchange("a", "d"),
    Op::Unlink("a"),
    Op::Unlink("d/b"),
    Op::Rmdir("e"),
    Op::Write("a", 100, 50),
    Op::Write("a", 4096, 4096),
    Op::Write("a", 0, 1_250_000),
    Op::Write("d/b", 20_000, 90_000),
    Op::WriteDurable("d/b", 4000, 2000),
    Op::Append("a", 3000),
    Op::Append("d/b", 1_100_000),
    Op::Write("c", 0, 5000),
    Op::Truncate("a", 0),
    Op::Truncate("a", 5000),
    Op::Truncate("a", 50_000),
    Op::Room("a", Room::Reserve, 5000, 30_000),
    Op::Room("a", Room::Punch, 1000, 8000),
    Op::Room("d/b", Room::Zero, 100, 9000),
    Op::SetXattr("a", "user.small", 30),
    Op::SetXattr("a", "user.large", 2000),
    Op::RemoveXattr("d/b", "user.old"),
    Op::Create("w.wal"),
    Op::Append("w.wal", 400_000),
    Op::Truncate("w.wal", 3000),
    Op::Rename("w.wal", "a"),
    Op::Unlink("w.wal"),
    Op::Sync("d/b"),
    Op::SyncAll,
    Op::SyncSoon,
    Op::Trim,
];

/// Longer ones, in which blocks are used again.
pub const LONG: &[&[Op]] = &[
    // What `c` is given next lies where `d/c` was.
    &[
        Op::Create("c"),
        Op::Append("c", 4096),
        Op::Sync("c"),
        Op::Create("d/c"),
        Op::Append("d/c", 1_150_000),
        Op::SyncAll,
        Op::Unlink("d/c"),
        Op::SyncSoon,
        Op::Append("c", 1_100_000),
        Op::SyncAll,
    ],
    &[
        Op::Append("a", 1_200_000),
        Op::SyncAll,
        Op::Truncate("a", 5000),
        Op::SyncSoon,
        Op::Create("c"),
        Op::Write("c", 0, 1_200_000),
        Op::Sync("c"),
        Op::Room("c", Room::Punch, 5000, 900_000),
        Op::SyncSoon,
        Op::Append("d/b", 1_200_000),
        Op::SyncAll,
    ],
    &[
        Op::Create("w.wal"),
        Op::Append("w.wal", 700_000),
        Op::Sync("w.wal"),
        Op::Rename("w.wal", "d/b"),
        Op::SyncSoon,
        Op::Write("a", 0, 1_250_000),
        Op::Sync("a"),
        Op::Unlink("d/b"),
        Op::SyncSoon,
        Op::Create("c"),
        Op::Append("c", 2_000_000),
        Op::Sync("c"),
    ],
];

/// Free blocks are told to the disk while others become free.
pub const TRIMS: &[&[Op]] = &[
    &[
        Op::Append("a", 1_200_000),
        Op::SyncAll,
        Op::Unlink("a"),
        Op::Trim,
        Op::Append("d/b", 1_200_000),
        Op::Trim,
        Op::SyncSoon,
        Op::Trim,
        Op::Create("c"),
        Op::Append("c", 1_200_000),
        Op::Sync("c"),
    ],
    &[
        Op::Truncate("a", 0),
        Op::Trim,
        Op::SyncSoon,
        Op::Append("d/b", 40_000),
        Op::Trim,
        Op::SyncAll,
    ],
];

/// Sequences that found something once, or are about what is hard.
pub const FOUND: &[&[Op]] = &[
    // A few bytes over what went in place and may not be there yet; over what a record has; in blocks that are new.
    &[
        Op::Write("a", 0, 1_250_000),
        Op::SyncSoon,
        Op::Write("a", 100, 50),
        Op::Sync("a"),
        Op::Append("a", 30),
        Op::WriteDurable("a", 90_000, 20),
        Op::Write("d/b", 6000, 10),
        Op::Write("d/b", 30_000, 10),
        Op::SyncAll,
    ],
    // The other node of an exchange.
    &[Op::Exchange("a", "d/b"), Op::Sync("a")],
    // What lies behind the end.
    &[Op::Write("a", 0, 1_250_000), Op::Sync("a")],
    &[Op::Truncate("a", 5000), Op::Sync("d"), Op::Append("d/b", 10), Op::SyncAll],
    // Blocks that are unwritten lately.
    &[Op::Room("d/b", Room::Zero, 100, 9000), Op::WriteDurable("d/b", 4000, 2000), Op::Sync("a")],
];

/// How a sequence ends.
pub const ENDS: &[Op] = &[Op::Sync("a"), Op::Sync("d"), Op::SyncAll];

/// A sequence.
#[derive(Clone, Debug)]
pub struct Short {
    pub ops: Vec<Op>,
}

/// Sequences of `len` operations with an end, so many.
pub fn count(len: u32) -> u64 {
    (OPS.len() as u64).pow(len) * ENDS.len() as u64
}

/// The one of this number among those of `len` operations.
pub fn numbered(len: u32, mut number: u64) -> Short {
    let end = ENDS[(number % ENDS.len() as u64) as usize];
    number /= ENDS.len() as u64;
    let mut ops = Vec::new();
    for _ in 0..len {
        ops.push(OPS[(number % OPS.len() as u64) as usize]);
        number /= OPS.len() as u64;
    }
    ops.push(end);
    Short { ops }
}
