//! An experiment as a value: a modelled disk, what runs on it, and the workloads that work on that, in virtual time and without content.
//!
//! The program's `replay` and the library for Python are fronts of this. What is said here:
//!
//! - [`Disks`]: a disk, or several as one, by the text that `--disk` takes, made anew for each run;
//! - [`dataless`]: a volume on such a disk, in the state right after `create`;
//! - [`Experiment`]: all of it together, run to an [`Outcome`];
//! - [`Replicas`]: volumes that are replicas of each other, whose writes a quorum answers, with their checkpoints coordinated or not;
//! - [`measured`]: measured drives, and how near a model comes to them.
//!
//! Nothing here depends on the machine but the wall-clock time that an outcome tells: the same experiment has the same digest everywhere.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dataless;
mod disks;
mod experiment;
mod load;
pub mod measured;
mod meter;
mod outcome;
mod recorder;
mod replicas;
mod requests;
mod running;

pub use dataless::Answers;
pub use disks::{Disks, Made, Modelled, OnDisk};
pub use experiment::{Experiment, StudyError, VolumeChoices};
pub use load::{BulkLoad, Load, PointsLoad, RandomLoad, ReplayLoad, SpanBytes};
pub use meter::{Meter, Visits};
pub use outcome::{ClassOutcome, DiskTimes, LoadOutcome, Outcome, VolumeOutcome};
pub use recorder::{OPERATIONS, RECORDED_MAX, Recorded};
pub use replicas::{Begins, Checkpoints, Counted, QuorumOutcome, Replicas};
pub use requests::Requests;
