//! Which step of a checkpoint is under way: for tests, which look for company that rarely comes together.

use super::{Checkpoint, Step};
use crate::activity::Activity;

impl Checkpoint {
    /// The step of the window under way, for tests.
    pub(crate) fn activity(&self) -> Option<Activity> {
        Some(match self.window.as_ref()?.step {
            Step::Reading { .. } | Step::Read | Step::Marking => Activity::CheckpointRead,
            Step::Writing { .. } => Activity::CheckpointWrite,
            Step::Flushing { .. } => Activity::CheckpointFlush,
            Step::Releasing => Activity::CheckpointRelease,
            Step::Settling { .. } => Activity::CheckpointSettle,
        })
    }
}
