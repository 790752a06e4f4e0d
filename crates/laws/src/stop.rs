//! An orderly stop of a volume in virtual time: everything that was answered is durable when it ends, and it does end.

use nearhead_disk::{Disk, Nanos};
use nearhead_service::Service;
use nearhead_volume::Volume;

/// No stop takes more turns than this.
const TURNS_MAX: u32 = 1_000_000;

/// Stops `volume` from `now` on; gives the time when it has stopped.
pub fn stop<D: Disk>(volume: &mut Volume<D>, mut now: Nanos) -> Nanos {
    volume.begin_shutdown(now);
    for _ in 0..TURNS_MAX {
        volume.drive(now);
        if volume.is_shut_down() {
            return now;
        }
        let Some(at) = volume.wake().at else { break };
        now = at.max(now);
    }
    panic!("the shutdown never ends: {:#?}", volume.status());
}
