//! fio with checksums in every block, on the device: many writes in flight, verified afterwards.

use super::{Place, Plan, bring_back, must, quoted, shell, with_kills};
use crate::Step;
use crate::act::Who;
use crate::run::Twin;

const LAW: &str = "fio verifies what it wrote";

/// Writes with many in flight, loses processes, and verifies.
pub(super) fn run(place: &Place, twin: &mut Twin, plan: Plan) -> Step {
    let engine = if shell("fio --enghelp=libaio").is_ok() { "libaio" } else { "psync" };
    let base = format!(
        "fio --name=twin --filename={} --rw=randwrite --bsrange=4k-256k --bs_unaligned=0 --blockalign=4k \
         --size=48M --direct=1 --ioengine={engine} --iodepth=16 --verify=crc32c --verify_fatal=1 \
         --randseed={} --allrandrepeat=1 --output=/dev/null --minimal",
        quoted(&place.device),
        plan.seed,
    );
    let folder = quoted(&twin.scratch.0);
    let in_flight = if plan.kill == Some(Who::Worker) { plan.kills } else { 0 };
    let write = format!("cd {folder} && {base} --do_verify=0 --verify_state_save=0 2>&1");
    let verify = format!("cd {folder} && {base} --verify_only=1 2>&1");
    must(LAW, with_kills(twin, in_flight, || shell(&write)))?;
    if let Some(who) = plan.kill.filter(|who| *who != Who::Worker) {
        twin.subject.kill(who)?;
        bring_back(twin, who)?;
    }
    must(LAW, with_kills(twin, in_flight, || shell(&verify))).map(drop)
}
