//! `one_area`: the logs around the middle of the disk take everything, the nearest to it first: a journal at a fixed place, made of the
//! logs that a volume with many has. What the modes of a file system that know one journal are compared with on the same volume
//! (Manylogs V-A: a journal as large as all logs together).

use super::{NearHead, Need, Placement, Spot, View};

/// The logs around the middle.
#[derive(Clone, Debug, Default)]
pub struct OneArea;

impl Placement for OneArea {
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let middle = view.logs.count() / 2;
        let head_offset = view.logs.block_offset(middle, 0)?;
        // Nothing is ever seen by it, so it knows no rotation and takes the nearest.
        NearHead::default().choose(need, &View { head_offset, ..*view })
    }

    fn claims_ahead(&self) -> u32 {
        NearHead::default().claims_ahead()
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::logs::Logs;
    use nearhead_disk::Nanos;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};

    #[test]
    fn wherever_the_head_is_the_record_goes_to_the_middle_of_the_disk() {
        let layout = Layout::plan(1 << 40, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let mut logs = Logs::new(&layout, false);
        let middle = logs.count() / 2;
        for claimed in [0, middle + 3, logs.count() - 1] {
            logs.note_claimed(claimed);
        }
        for head_log in [0, middle, logs.count() - 1] {
            let view = View {
                logs: &logs,
                head_offset: layout.log_offset(head_log).unwrap(),
                now: Nanos::ZERO,
                is_idle: true,
                on_disk: 0,
                drives: None,
                disks: None,
            };
            let spot = OneArea.choose(Need { blocks: 8, reserve: 0 }, &view).unwrap();
            assert_eq!((spot.log_index, spot.wanted_index), (middle + 3, middle));
        }
    }
}
