//! Logs that each lie on one member of a striped array: which runs of its addresses that takes.
//!
//! A record that lies on several members waits for the slowest of them, and keeps all of their arms from a client that reads or
//! writes in stripes. So an array that is made for a volume is told where the logs will be. The other way round its size, and with it
//! the layout, depends on the runs; they are tried until both agree.

use crate::create::{CreateOptions, describe_to_grow};
use nearhead_disk::{Properties, Striping, WholeRuns};
use nearhead_format::Layout;

/// Runs and layout agree after the second try nearly always, as runs change the size of an array by a few logs.
const TRIES_MAX: usize = 4;

/// The runs on one member for a volume that is to be made on an array with these facts, which has none yet. None of what is no stripe,
/// has fewer logs than members, or logs that do not begin and end with chunks.
pub fn whole_logs(
    plain: &Properties,
    options: &CreateOptions,
    grow_to_bytes: Option<u64>,
) -> Option<WholeRuns> {
    let striping = plain.striping.filter(|striping| striping.whole_runs().is_none())?;
    let member_bytes = plain.capacity_bytes / u64::from(striping.members());
    let mut runs = None;
    for _ in 0..TRIES_MAX {
        let with_runs = runs.map_or(Some(striping), |runs| striping.with_whole_runs(runs))?;
        let capacity_bytes = with_runs.capacity(member_bytes);
        let properties = Properties { capacity_bytes, ..plain.clone() };
        let described = describe_to_grow(&properties, None, options, grow_to_bytes).ok()?;
        let found = runs_of(&described.layout, striping)?;
        if runs == Some(found) {
            return runs;
        }
        runs = Some(found);
    }
    None
}

fn runs_of(layout: &Layout, striping: Striping) -> Option<WholeRuns> {
    if layout.logs_are_apart() || layout.log_count() < striping.members() {
        return None;
    }
    let first_byte = layout.log_offset(0)?;
    let runs = WholeRuns { first_byte, every_bytes: layout.group_bytes, bytes: layout.log_bytes };
    striping.with_whole_runs(runs).map(|_| runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::plan;
    use crate::presets::NamedPreset;
    use nearhead_models::plain_properties;

    fn array(member_bytes: u64, members: u32, chunk_bytes: u64) -> Properties {
        let striping = Striping::new(members, chunk_bytes).unwrap();
        let capacity_bytes = striping.capacity(member_bytes);
        Properties { striping: Some(striping), ..plain_properties(capacity_bytes, 512) }
    }

    fn options(preset: &str) -> CreateOptions {
        CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap())
    }

    #[test]
    fn every_log_of_the_volume_that_is_made_with_them_lies_on_one_member_and_members_take_turns() {
        for (gib, members, chunk_kib) in [(1, 2, 64), (40, 4, 64), (300, 3, 256), (2000, 32, 16)] {
            let plain = array(gib << 30, members, chunk_kib << 10);
            let runs = whole_logs(&plain, &options("nearhead"), None).unwrap();
            let striping = plain.striping.unwrap().with_whole_runs(runs).unwrap();
            let capacity_bytes = striping.capacity(plain.capacity_bytes / u64::from(members));
            let properties = Properties { capacity_bytes, ..plain };
            let layout = plan(&properties, None, &options("nearhead")).unwrap();
            for log in 0..layout.log_count() {
                let start = layout.log_offset(log).unwrap();
                let on = striping.runs(start..start + layout.log_bytes).collect::<Vec<_>>();
                assert_eq!(on.len(), 1, "{gib} GiB x {members}: log {log} on {on:?}");
                assert_eq!(on[0].0, log % members, "{gib} GiB x {members}");
            }
        }
    }

    #[test]
    fn where_logs_cannot_lie_on_one_member_each_there_are_none() {
        let four = array(40 << 30, 4, 64 << 10);
        assert_eq!(whole_logs(&four, &options("nolog"), None), None);
        assert_eq!(whole_logs(&four, &options("singlelog"), None), None);
        let one = plain_properties(40 << 30, 512);
        assert_eq!(whole_logs(&one, &options("nearhead"), None), None);
        let coarse = array(40 << 30, 4, 16 << 20);
        assert_eq!(whole_logs(&coarse, &options("nearhead"), None), None, "chunks above a log");
    }
}
