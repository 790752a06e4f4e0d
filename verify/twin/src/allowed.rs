//! Differences that are allowed, each with the sentence that docs/twin.md has.
//!
//! Everything else is a fault. A new entry needs a reason that an operator would accept.

/// Bytes that metadata, snapshots and superblocks of a volume may take besides its logs.
pub const METADATA_BYTES: u64 = 4 << 20;

/// A difference that is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Short name.
    pub name: &'static str,
    /// The sentence.
    pub sentence: &'static str,
}

/// All of them.
pub const ALLOWED: [Allowed; 8] = [
    Allowed {
        name: "order of overlapping writes",
        sentence: "Of overlapping writes in flight together either may be last, per sector; what a read returned stays.",
    },
    Allowed {
        name: "page cache of a dead device",
        sentence: "A device that died loses what only the kernel's page cache had, as a disk that is pulled out does.",
    },
    Allowed {
        name: "unflushed writes after a power cut",
        sentence: "After a power cut a sector holds its content of the last flush or any newer one.",
    },
    Allowed {
        name: "holes",
        sentence: "A device that cannot make a hole refuses it with EOPNOTSUPP; zeroing works on both sides.",
    },
    Allowed {
        name: "discards of a disk",
        sentence: "On an emulated disk, which cannot make zeros, a discard may be refused, and its range holds anything; what a read returned stays.",
    },
    Allowed {
        name: "space of logs",
        sentence: "The files below take what the logs take, and 4 MiB of metadata, more than the oracle's file.",
    },
    Allowed {
        name: "errors of outstanding operations",
        sentence: "Operations outstanding while supervisor and worker are both killed may fail with EIO.",
    },
    Allowed {
        name: "a little smaller",
        sentence: "The device is smaller than its image by logs and metadata, and the oracle is made of the same size.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_every_allowed_difference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/twin.md");
        let text = std::fs::read_to_string(path).unwrap();
        for Allowed { name, sentence } in ALLOWED {
            let bullet = format!("- **{name}**: {sentence}");
            assert!(text.contains(&bullet), "docs/twin.md lacks: {bullet}");
        }
        let listed = text.lines().filter(|line| line.starts_with("- **")).count();
        assert_eq!(listed, ALLOWED.len(), "docs/twin.md allows more than the twin");
    }
}
