//! Records stand behind live damage before a crash, also where the writes that are to put them there
//! find the log full.

use crate::life::Life;
use crate::scenario::{Arrangement, Scenario, named};
use crate::steps::{Place, WINDOW_SECTORS};
use nearhead_disk::{Nanos, Properties};
use nearhead_format::AckMode;
use nearhead_models::faults::{FaultBudget, FaultKind, FaultPlan};
use nearhead_models::plain_properties;

/// A volume with one small log that nothing empties before it is full, on a disk that loses the first
/// record written once its faults are on.
fn one_log() -> Scenario {
    let scenario = Scenario::new(0, 0);
    Scenario {
        preset: named("singlelog"),
        ack: AckMode::Durable,
        properties: Properties { queue_depth_max: 1, ..plain_properties(64 << 20, 512) },
        arrangement: Arrangement::One,
        data_bytes: Vec::new(),
        log_device_bytes: Vec::new(),
        map_device_bytes: None,
        log_bytes: 512 << 10,
        no_log_reserve: false,
        logged_write_bytes_max: Some(4096),
        snapshot_after_bytes: 60 << 10,
        snapshot_period: Nanos::from_secs(600),
        checkpoint_period: None,
        idle_after: None,
        watermark_pct: None,
        batch_bytes: 4 << 20,
        budget: FaultBudget::Detect,
        faults: FaultPlan::none(0).with(FaultKind::LostWrite, 1),
        ..scenario
    }
}

/// What is lost says that logged blocks do not count any more, because newer ones are home: without a word
/// the older ones would be served.
#[test]
fn a_record_lost_while_the_log_is_full_has_others_behind_it_before_a_crash() {
    let scenario = one_log();
    let mut life = Life::new(&scenario).unwrap();
    life.disarm();
    let places = (64..WINDOW_SECTORS).step_by(8).map(|start| Place { window: 1, start, count: 8 });
    for place in places {
        life.write(place, true).unwrap();
        assert!(life.settle().unwrap());
        if life.volume().unwrap().status().stats.spills > 0 {
            break;
        }
    }
    assert!(life.volume().unwrap().status().stats.spills > 0, "the log was never full");
    life.arm();
    life.write(Place { window: 1, start: 256, count: 16 }, true).unwrap();
    assert!(life.settle().unwrap());
    assert_eq!(life.disk.counts().of(FaultKind::LostWrite), 1, "no record was written");
    let newest = life.volume().unwrap().status().record_sequence;
    life.cut(0).unwrap();
    assert!(!life.over, "the life ended although room could be made");
    let found = life.volume().unwrap().status().record_sequence;
    assert!(found > newest, "expected records behind {newest}, found {found}");
}
