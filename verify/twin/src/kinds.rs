//! Kinds of acts, and which of them the quick share of the tests has.
//!
//! A kind that the program fails has its reason in `not_in_quick`. The change that mends the fault takes
//! it out.

/// A kind of act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes, reads and flushes, one at a time.
    Io,
    /// Operations in flight together that do not overlap.
    Together,
    /// Operations in flight together that do.
    Overlap,
    /// Zeroing and holes.
    Zero,
    /// Discards.
    Discard,
    /// Another process reads the device.
    Observe,
    /// Detach and attach.
    Reattach,
    /// `kill -9` of the worker.
    KillWorker,
    /// `kill -9` of the supervisor.
    KillSupervisor,
    /// `kill -9` of both.
    KillBoth,
    /// Upgrades, also to what is no program.
    Upgrade,
    /// The image is not at its path, or another one is.
    Image,
    /// A larger device.
    Grow,
    /// The medium loses its power.
    Power,
    /// Check and repair.
    Repair,
    /// File systems of the kernel, and the space that they take.
    FileSystem,
    /// Swap space.
    Swap,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Its word for `--kinds`.
    pub name: &'static str,
    /// How often it is drawn.
    pub weight: u64,
    /// None if the quick share has it, else the reason why not.
    pub not_in_quick: Option<&'static str>,
}

const fn row(kind: Kind, name: &'static str, weight: u64) -> Row {
    Row { kind, name, weight, not_in_quick: None }
}

/// Every kind.
pub const KINDS: [Row; 17] = [
    row(Kind::Io, "io", 60),
    row(Kind::Together, "together", 12),
    row(Kind::Overlap, "overlap", 12),
    row(Kind::Zero, "zero", 6),
    row(Kind::Discard, "discard", 6),
    row(Kind::Observe, "observe", 2),
    row(Kind::Reattach, "reattach", 3),
    row(Kind::KillWorker, "kill-worker", 4),
    row(Kind::KillSupervisor, "kill-supervisor", 2),
    row(Kind::KillBoth, "kill-both", 2),
    row(Kind::Upgrade, "upgrade", 2),
    row(Kind::Image, "image", 1),
    row(Kind::Grow, "grow", 1),
    row(Kind::Power, "power", 3),
    row(Kind::Repair, "repair", 1),
    row(Kind::FileSystem, "file-system", 1),
    row(Kind::Swap, "swap", 1),
];

/// Kinds that a medium of emulated disks cannot have.
pub const OF_FILES: [Kind; 2] = [Kind::Image, Kind::Grow];

/// The kinds of the quick share.
pub fn quick() -> Vec<Kind> {
    let rows = KINDS.iter().filter(|row| row.not_in_quick.is_none());
    rows.map(|row| row.kind).collect()
}

/// The kind that is called `name`.
pub fn named(name: &str) -> Result<Kind, String> {
    let found = KINDS.iter().find(|row| row.name == name);
    found.map(|row| row.kind).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|row| row.name).collect();
        format!("expected kinds out of {}, found {name:?}", names.join(","))
    })
}
