//! A share of the disk for bulk, on a modelled disk: somebody commits without a pause beside somebody who reads a file.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test binary uses its part")]
mod support;

use nearhead_arrays::model_from_text;
use nearhead_disk::Nanos;
use nearhead_engine::admission::WithShare;
use nearhead_models::Model;
use nearhead_service::{Operation, Service};
use nearhead_volume::{CreateOptions, SyncIo, create};
use support::Run;

const MIB: u64 = 1 << 20;
const VOLUME_BYTES: u64 = 512 << 20;
/// Where the reader's file lies.
const FILE: std::ops::Range<u64> = 64 * MIB..448 * MIB;
const SPAN: Nanos = Nanos::from_secs(20);

/// What came of it.
struct Outcome {
    bulk_bytes: u64,
    commits: u64,
    longest: Nanos,
}

fn opened(share_pct: Option<u8>) -> Run<Box<dyn Model>> {
    let mut model = model_from_text("model:st3146855fc").unwrap();
    let options = CreateOptions {
        device_bytes: Some(VOLUME_BYTES),
        ..support::options("mlb-32", 9, 16 << 20)
    };
    create(&mut SyncIo::in_virtual_time(&mut model, Nanos::ZERO), &options).unwrap();
    Run::open(model, Nanos::from_secs(60), |config| {
        config.cleaning.idle_after = None;
        if let Some(pct) = share_pct {
            config.admission = Box::new(WithShare::new(config.admission.boxed(), pct));
        }
    })
}

/// Reads of 1 MiB, two under way, and one durable write after the other.
fn beside_each_other(share_pct: Option<u8>, reads: bool, commits: bool) -> Outcome {
    let mut run = opened(share_pct);
    let ends = run.now + SPAN;
    let mut outcome = Outcome { bulk_bytes: 0, commits: 0, longest: Nanos::ZERO };
    let (mut reading, mut writing) = (Vec::new(), None);
    let (mut next_read, mut version) = (FILE.start, 0);
    while run.now < ends {
        while reads && reading.len() < 2 {
            reading.push(run.send(Operation::Read { offset: next_read, len: MIB as u32 }));
            next_read = if next_read + MIB < FILE.end { next_read + MIB } else { FILE.start };
        }
        if commits && writing.is_none() {
            version += 1;
            let block = version * 7919 % 4096;
            writing = Some((run.write(block..block + 1, version), run.now));
        }
        run.volume.drive(run.now);
        while let Some(reply) = run.volume.poll_reply() {
            reply.result.unwrap();
            if let Some((_, asked)) = writing.take_if(|(id, _)| *id == reply.id.0) {
                outcome.commits += 1;
                outcome.longest = outcome.longest.max(run.now.since(asked));
            } else {
                reading.retain(|id| *id != reply.id.0);
                outcome.bulk_bytes += MIB;
            }
        }
        run.now = run.volume.wake_at().unwrap().max(run.now);
    }
    outcome
}

#[test]
fn bulk_keeps_the_share_that_was_asked_for_beside_commits_without_a_pause() {
    let alone = beside_each_other(None, true, false).bulk_bytes as f64;
    let without = beside_each_other(None, true, true);
    let kept = |outcome: &Outcome| 100.0 * outcome.bulk_bytes as f64 / alone;
    assert!(kept(&without) < 60.0, "there is something to share: {:.1} %", kept(&without));
    for share_pct in [70, 90, 95] {
        let with = beside_each_other(Some(share_pct), true, true);
        let told = format!("share {share_pct}: {:.1} %, {} commits", kept(&with), with.commits);
        let asked = f64::from(share_pct);
        // A little more, as what a record costs has the next transfer of bulk in it; but not much.
        assert!((asked - 1.0..asked + 15.0).contains(&kept(&with)), "{told}");
        assert!(with.commits < without.commits && with.commits > 20, "{told}");
        assert!(with.longest < Nanos::from_millis(1100), "{told}, the longest {}", with.longest);
    }
}

#[test]
fn where_there_is_no_bulk_a_share_costs_nothing() {
    let (without, with) =
        (beside_each_other(None, false, true), beside_each_other(Some(95), false, true));
    assert_eq!((with.commits, with.longest), (without.commits, without.longest));
}
