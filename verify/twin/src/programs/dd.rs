//! A copy of a whole file to the device and back, by `dd`.

use super::{Place, Plan, bring_back, must, quoted, shell, with_kills};
use crate::Step;
use crate::act::Who;
use crate::run::Twin;
use crate::side::size_of;

const LAW: &str = "dd reads back what it wrote";
/// Largest copy.
const BYTES_MAX: u64 = 256 << 20;

/// Writes, loses processes, reads and compares.
pub(super) fn run(place: &Place, twin: &mut Twin, plan: Plan) -> Step {
    let mib = size_of(&place.device)?.min(BYTES_MAX) >> 20;
    let (file, device) = (quoted(&twin.scratch.0.join("dd.bin")), quoted(&place.device));
    shell(&format!("dd if=/dev/urandom of={file} bs=1M count={mib} status=none"))?;
    let in_flight = if plan.kill == Some(Who::Worker) { plan.kills } else { 0 };
    for block in ["1M", "4k"] {
        let count = if block == "4k" { "count=4096" } else { "" };
        let write = format!("dd if={file} of={device} bs={block} {count} oflag=direct status=none");
        let read =
            format!("dd if={device} bs=1M count={mib} iflag=direct status=none | cmp - {file}");
        must(LAW, with_kills(twin, in_flight, || shell(&write)))?;
        if let Some(who) = plan.kill.filter(|who| *who != Who::Worker) {
            twin.subject.kill(who)?;
            bring_back(twin, who)?;
        }
        must(LAW, with_kills(twin, in_flight, || shell(&read)))?;
    }
    Ok(())
}
