//! Differences between a mounted volume and the kernel's ext4 that are allowed.
//!
//! Each has the sentence that docs/file-system.md has. None is about data, names, times that a program
//! sets, or what a crash leaves.

/// Units of 512 bytes by which `st_blocks` may differ: blocks of extents and attributes.
pub const BLOCKS_MAX: u64 = 16;

const PERM: &str = "Operation not permitted";
const KINDS: [&str; 2] = ["Not a directory", "Is a directory"];

/// Whether the results of a call differ only as the list allows, where flags forbid to change a node that it names.
pub fn is_refused_alike(verb: &str, expected: &str, found: &str) -> bool {
    expected.starts_with(PERM)
        && match verb {
            "open" => found == "ok",
            "rmdir" | "unlink" | "rename" => KINDS.iter().any(|kind| found.starts_with(kind)),
            _ => false,
        }
}

/// A difference that is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Short name.
    pub name: &'static str,
    /// The difference.
    pub sentence: &'static str,
    /// Reason for it.
    pub reason: &'static str,
}

/// All of them.
pub const ALLOWED: [Allowed; 9] = [
    Allowed {
        name: "blocks",
        sentence: "`st_blocks` may differ by 16 units of 512 bytes.",
        reason: "Extents and attributes are laid out in other blocks.",
    },
    Allowed {
        name: "reads from the cache",
        sentence: "The time of access stays where the kernel answers a read from its cache, and moves with a later one.",
        reason: "FUSE passes no such read to the daemon.",
    },
    Allowed {
        name: "inode numbers",
        sentence: "Numbers of inodes and the order of a listing differ.",
        reason: "The allocation policy is another one.",
    },
    Allowed {
        name: "data ranges",
        sentence: "`SEEK_DATA` may report data or a hole where ext4 reports the other and the bytes are zeros.",
        reason: "POSIX allows both; zeros that wait in memory count as data, blocks that were zeroed in place do not.",
    },
    Allowed {
        name: "attributes of statx",
        sentence: "`statx` reports no `stx_attributes`; `FS_IOC_GETFLAGS` (`lsattr`) has the flags.",
        reason: "FUSE in the kernel leaves out those that the daemon reports.",
    },
    Allowed {
        name: "collapse and insert",
        sentence: "`fallocate` refuses to collapse or insert a range, with EOPNOTSUPP.",
        reason: "They are not built yet; a program gets the error of a file system without them.",
    },
    Allowed {
        name: "open of an immutable file",
        sentence: "`open` for writing of an immutable or append-only file succeeds; the first write is refused with EPERM.",
        reason: "FUSE asks the daemon at an open only at the price of a round trip for each.",
    },
    Allowed {
        name: "kind of an immutable node",
        sentence: "Where flags forbid `rmdir`, `unlink` or `rename`, a node of the wrong kind fails with ENOTDIR or EISDIR, not EPERM.",
        reason: "The kernel compares kinds before it asks the daemon, which knows the flags.",
    },
    Allowed {
        name: "times of pipes",
        sentence: "Reading and writing a named pipe moves no time of its node.",
        reason: "The kernel carries both out alone, and moves no times for FUSE.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_every_allowed_difference_of_files() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/file-system.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, table) = text.split_once("## Differences from ext4").unwrap();
        let table = table.split("\n## ").next().unwrap_or_default();
        for Allowed { name, sentence, reason } in ALLOWED {
            let row = format!("| {name} | {sentence} | {reason} |");
            assert!(table.contains(&row), "docs/file-system.md lacks: {row}");
        }
        let rows = table.lines().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, ALLOWED.len() + 1, "docs/file-system.md allows more than the twin");
    }
}
