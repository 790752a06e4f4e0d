//! Which copies are read together, and how many findings are kept.

use super::*;
use crate::create::{CreateOptions, describe};
use crate::presets::NamedPreset;
use nearhead_models::plain_properties;

/// Copies of these lengths, one behind the other from byte 4096 on, each after a gap.
fn copies(parts: &[(u64, u32)]) -> Vec<LoggedCopy> {
    let mut at = 4096;
    let mut copy = |&(gap, bytes): &(u64, u32)| {
        let device_offset = at + gap;
        at = device_offset + u64::from(bytes);
        LoggedCopy { device_offset, bytes, home_sector: 0, crc: 0 }
    };
    parts.iter().map(&mut copy).collect()
}

fn lengths(parts: &[(u64, u32)]) -> Vec<usize> {
    let copies = copies(parts);
    let runs: Vec<_> = runs(&copies).collect();
    assert_eq!(runs.concat(), copies, "each copy is in one run, in order");
    runs.iter().map(|run| run.len()).collect()
}

#[test]
fn copies_are_read_together_if_and_only_if_each_begins_where_the_last_one_ends() {
    assert_eq!(lengths(&[]), [0; 0]);
    assert_eq!(lengths(&[(0, 4096)]), [1]);
    assert_eq!(lengths(&[(0, 4096), (0, 512), (0, 4096)]), [3]);
    assert_eq!(lengths(&[(0, 4096), (512, 512), (0, 4096)]), [1, 2]);
    assert_eq!(lengths(&[(0, 512), (0, 512), (4096, 4096), (512, 512)]), [2, 1, 1]);
}

#[test]
fn a_run_is_as_long_as_one_read_may_be_and_no_longer() {
    let whole = (READ_BYTES_MAX / 4096) as usize;
    assert_eq!(lengths(&vec![(0, 4096); whole]), [whole]);
    assert_eq!(lengths(&vec![(0, 4096); 2 * whole + 1]), [whole, whole, 1]);
    let mut shifted = vec![(0, 4096); whole + 1];
    shifted[0].1 = 512;
    assert_eq!(lengths(&shifted), [whole, 1]);
}

#[test]
fn findings_past_the_most_that_are_kept_are_counted() {
    let preset = NamedPreset::by_name("mlb").unwrap();
    let options = CreateOptions::new([7; 16], preset);
    let superblock = describe(&plain_properties(1 << 30, 512), None, &options).unwrap();
    let mut report = CheckReport {
        superblock,
        opens: true,
        sound_snapshots: 0,
        entries: 0,
        chunks: 0,
        chunk_bytes: 0,
        findings: Vec::new(),
        findings_total: 0,
    };
    for number in 0..FINDINGS_MAX + 2 {
        let finding = text_finding("logs", number.to_string());
        report.add(CheckFinding { is_damage: number % 3 == 0, ..finding });
    }
    assert_eq!((report.findings.len(), report.findings_total), (FINDINGS_MAX, 10_002));
    assert_eq!(report.findings[FINDINGS_MAX - 1].problem, (FINDINGS_MAX - 1).to_string());
    assert_eq!(report.damage_count(), FINDINGS_MAX.div_ceil(3));
}
