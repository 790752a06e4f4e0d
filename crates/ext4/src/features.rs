//! The features of ext4 that this implementation has; any other is refused by name, with what to do.
//!
//! A feature that is not in the table is refused by its number: what we do not know may change what every byte means.

use crate::error::OpenError;

/// Which of those that are supported are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each feature of the format")]
pub(crate) struct Features {
    pub(crate) is_64bit: bool,
    pub(crate) flex_bg: bool,
    pub(crate) checksum_seed: bool,
    pub(crate) sparse_super: bool,
    pub(crate) huge_file: bool,
    pub(crate) gdt_csum: bool,
    pub(crate) dir_nlink: bool,
    pub(crate) metadata_csum: bool,
    pub(crate) names: Vec<&'static str>,
}

/// What is to be done about a feature.
enum Stand {
    /// Supported, on or off.
    Has,
    /// Supported, and nothing works without it.
    Needs,
    /// Refused; how to get rid of it.
    No(&'static str),
}
use Stand::{Has, Needs, No};

const REMAKE: &str = "make the file system anew with \
                      `mkfs.ext4 -O ^has_journal,^dir_index,^resize_inode`";

const COMPATIBLE: &[(u32, &str, Stand)] = &[
    (0x1, "dir_prealloc", Has),
    (0x2, "imagic_inodes", No(REMAKE)),
    (0x4, "has_journal", No("take it away with `tune2fs -O ^has_journal`")),
    (0x8, "ext_attr", Has),
    (0x10, "resize_inode", No("take it away with `tune2fs -O ^resize_inode`, then `e2fsck -f`")),
    (0x20, "dir_index", No("take it away with `tune2fs -O ^dir_index`, then `e2fsck -fD`")),
    (0x200, "sparse_super2", No(REMAKE)),
    (0x400, "fast_commit", No("take the journal away with `tune2fs -O ^has_journal`")),
    (0x800, "stable_inodes", No(REMAKE)),
    (0x1000, "orphan_file", No("take it away with `tune2fs -O ^orphan_file`")),
];

const INCOMPATIBLE: &[(u32, &str, Stand)] = &[
    (0x1, "compression", No(REMAKE)),
    (0x2, "filetype", Needs),
    (0x4, "needs_recovery", No("replay the journal with e2fsck, then `tune2fs -O ^has_journal`")),
    (0x8, "journal_dev", No("this is a journal, not a file system")),
    (0x10, "meta_bg", No(REMAKE)),
    (0x40, "extents", Needs),
    (0x80, "64bit", Has),
    (0x100, "mmp", No("take it away with `tune2fs -O ^mmp`")),
    (0x200, "flex_bg", Has),
    (0x400, "ea_inode", No(REMAKE)),
    (0x1000, "dirdata", No(REMAKE)),
    (0x2000, "metadata_csum_seed", Has),
    (0x4000, "large_dir", No(REMAKE)),
    (0x8000, "inline_data", No(REMAKE)),
    (0x1_0000, "encrypt", No(REMAKE)),
    (0x2_0000, "casefold", No(REMAKE)),
];

const READ_ONLY_COMPATIBLE: &[(u32, &str, Stand)] = &[
    (0x1, "sparse_super", Has),
    (0x2, "large_file", Needs),
    (0x4, "btree_dir", No(REMAKE)),
    (0x8, "huge_file", Needs),
    (0x10, "uninit_bg", Has),
    (0x20, "dir_nlink", Has),
    (0x40, "extra_isize", Has),
    (0x100, "quota", No("take it away with `tune2fs -O ^quota`")),
    (0x200, "bigalloc", No(REMAKE)),
    (0x400, "metadata_csum", Has),
    (0x800, "replica", No(REMAKE)),
    (0x1000, "read-only", No("take it away with `tune2fs -O ^read-only`")),
    (0x2000, "project", No("take it away with `tune2fs -O ^project`")),
    (0x4000, "shared_blocks", No(REMAKE)),
    (0x8000, "verity", No(REMAKE)),
    (0x1_0000, "orphan_present", No("run e2fsck, then `tune2fs -O ^orphan_file`")),
];

/// The features of an image, if all are supported.
pub(crate) fn check(
    compatible: u32,
    incompatible: u32,
    read_only_compatible: u32,
) -> Result<Features, OpenError> {
    let mut names = Vec::new();
    check_word(compatible, COMPATIBLE, "compatible", &mut names)?;
    check_word(incompatible, INCOMPATIBLE, "incompatible", &mut names)?;
    check_word(read_only_compatible, READ_ONLY_COMPATIBLE, "read-only compatible", &mut names)?;
    Ok(Features {
        is_64bit: incompatible & 0x80 != 0,
        flex_bg: incompatible & 0x200 != 0,
        checksum_seed: incompatible & 0x2000 != 0,
        sparse_super: read_only_compatible & 0x1 != 0,
        huge_file: read_only_compatible & 0x8 != 0,
        gdt_csum: read_only_compatible & 0x10 != 0,
        dir_nlink: read_only_compatible & 0x20 != 0,
        metadata_csum: read_only_compatible & 0x400 != 0,
        names,
    })
}

fn check_word(
    word: u32,
    table: &[(u32, &'static str, Stand)],
    kind: &str,
    names: &mut Vec<&'static str>,
) -> Result<(), OpenError> {
    let refused = |text: String| Err(OpenError::Refused(text));
    for (bit, name, stand) in table {
        match (word & bit != 0, stand) {
            (true, No(advice)) => {
                return refused(format!(
                    "the file system has the feature {name}, which is not supported; {advice}"
                ));
            }
            (true, _) => names.push(name),
            (false, Needs) => {
                return refused(format!("the file system lacks the feature {name}; {REMAKE}"));
            }
            (false, _) => {}
        }
    }
    let known = table.iter().fold(0, |bits, (bit, _, _)| bits | bit);
    if word & !known != 0 {
        return refused(format!(
            "the file system has {kind} features that are not known here: {:#x}; {REMAKE}",
            word & !known
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian 12 makes them.
    const USUAL: (u32, u32, u32) = (0x8, 0x2C2, 0x46B);

    #[test]
    fn what_debian_makes_is_served_and_every_other_feature_is_refused_by_name() {
        let on = check(USUAL.0, USUAL.1, USUAL.2).unwrap();
        assert!(on.is_64bit && on.metadata_csum && on.huge_file && !on.gdt_csum);
        for (nth, table) in [COMPATIBLE, INCOMPATIBLE, READ_ONLY_COMPATIBLE].into_iter().enumerate()
        {
            for bit in (0..32).map(|shift| 1_u32 << shift) {
                let mut words = [USUAL.0, USUAL.1, USUAL.2];
                words[nth] |= bit;
                let entry = table.iter().find(|(known, _, _)| *known == bit);
                let answer = check(words[0], words[1], words[2]);
                match entry {
                    Some((_, _, Has | Needs)) => assert!(answer.is_ok()),
                    Some((_, name, No(_))) => {
                        assert!(answer.unwrap_err().to_string().contains(name));
                    }
                    None => assert!(answer.unwrap_err().to_string().contains("not known")),
                }
            }
        }
    }
}
