//! Power cuts: the medium loses what no flush covers, and the machine's memory is gone.
//!
//! After a cut a sector holds its content of the last flush or any newer one. What a read returned
//! after the recovery is durable from then on.

use crate::history::Reached;
use crate::run::Twin;
use crate::{Step, differs};

const SURVIVES: &str = "what a flush covers survives a power cut";

/// Cuts the power of the medium, forgets the processes, and attaches again.
pub fn cut(twin: &mut Twin, seed: u64) -> Step {
    if twin.medium.disks.is_empty() {
        return Err("a plain file cannot lose its power; take --medium disk".to_owned().into());
    }
    twin.medium.power_off(seed)?;
    // The kernel's page cache fails to reach the device when this closes it.
    twin.close_both();
    twin.subject.forget();
    twin.medium.power_on()?;
    if let Err(why) = twin.subject.attach() {
        return differs(SURVIVES, format!("attach fails: {why}"));
    }
    twin.open_both()?;
    twin.compare(Reached::Disk, SURVIVES)?;
    twin.history.flush();
    Ok(())
}
