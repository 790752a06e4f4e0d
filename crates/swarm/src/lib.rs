//! The swarm: volumes of every kind under random work, faults, crashes and restarts in virtual time,
//! held against an oracle that knows only what was asked and answered.
//!
//! One seed is one life of a volume ([`Scenario`]): geometry, policies, workload, faults. [`run`] lives it
//! and says what law was broken, if one was; [`minimise`] makes a failing life short. What stays true:
//!
//! - nothing here reads a clock or draws chance of its own: the same scenario gives the same digest;
//! - the oracle never looks into the engine, and the engine never learns that it is simulated;
//! - a run that ends well has also made progress with all faults gone.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod content;
pub mod oracle;

mod bend;
mod checks;
mod company;
mod damage;
mod eager;
mod fickle;
mod ghost;
mod hints;
mod hostile;
mod life;
mod minimise;
mod patient;
mod requests;
mod restart;
mod restless;
mod rig;
mod scenario;
mod shared_disk;
mod steer;
mod steps;
mod tally;
mod wanderer;

pub use bend::Bend;
pub use company::{Company, Coverage, Pair, pairs};
pub use eager::Eager;
pub use fickle::Fickle;
pub use life::{Failure, run, run_observed};
pub use minimise::{Minimised, minimise};
pub use patient::Patient;
pub use restless::Restless;
pub use scenario::{Arrangement, Scenario};
pub use shared_disk::SharedDisk;
pub use steer::{BATCH, Campaign, Recipe, words};
pub use steps::{Place, Step, Steps};
pub use tally::Tally;
pub use wanderer::Wanderer;

/// Steps of a life, if nobody says otherwise.
pub const OPERATIONS: usize = 1000;
