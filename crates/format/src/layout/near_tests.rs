//! Which log is near: every one of them once, in the order of their distance.

use super::*;
use crate::layout::{DEVICE_BYTES_MIN, LayoutKind, LayoutOptions};

const MIB: u64 = 1 << 20;

#[test]
fn logs_come_in_the_order_of_their_distance() {
    let options = LayoutOptions {
        group_bytes: Some(2 * MIB + 4096),
        log_bytes: Some(512 << 10),
        ..LayoutOptions::new(LayoutKind::ManyLogs)
    };
    let layout = Layout::plan(DEVICE_BYTES_MIN, &options).unwrap();
    let distance = |log_index: u32, from: u64| {
        let start = layout.log_offset(log_index).unwrap();
        start.saturating_sub(from).max(from.saturating_sub(start + layout.log_bytes - 1))
    };
    let offsets = (0..layout.device_bytes).step_by(4096).chain([1, layout.device_bytes, u64::MAX]);
    for from in offsets {
        let found: Vec<u32> = layout.logs_near(from).collect();
        assert_eq!(layout.logs_near(from).len(), found.len());
        let distances: Vec<u64> = found.iter().map(|&log| distance(log, from)).collect();
        assert!(distances.is_sorted(), "from {from}: {found:?} at {distances:?}");
        let mut all = found;
        all.sort_unstable();
        assert!(all.into_iter().eq(0..layout.log_count()), "from {from}");
    }
}

#[test]
fn the_nearer_of_two_logs_comes_first_and_of_equals_the_one_ahead() {
    let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
    let last_of_first = layout.log_offset(0).unwrap() + layout.log_bytes - 1;
    let between = layout.log_offset(1).unwrap() - last_of_first;
    assert_eq!(between % 2, 1, "no byte is in the middle: {layout:?}");
    for (from, order) in [(between / 2, [0, 1]), (between / 2 + 1, [1, 0])] {
        assert!(layout.logs_near(last_of_first + from).take(2).eq(order), "{from} of {between}");
    }
    // Logs are whole blocks, so a tie needs a layout that could not exist: a byte less per log.
    let even = Layout { log_bytes: layout.log_bytes - 1, ..layout };
    let last_of_first = even.log_offset(0).unwrap() + even.log_bytes - 1;
    let middle = last_of_first.midpoint(even.log_offset(1).unwrap());
    assert!(even.logs_near(middle).take(2).eq([1, 0]), "{even:?}");
}

#[test]
fn without_logs_none_is_near() {
    let layout = Layout::plan(DEVICE_BYTES_MIN, &LayoutOptions::new(LayoutKind::NoLogs)).unwrap();
    assert_eq!(layout.logs_near(32 * MIB).next(), None);
    assert_eq!(layout.log_offset(0), None);
}
