//! Volumes on several devices: a log disk before data disks, a chain; and what is told of all of them.

use nearhead_disk::Nanos;
use nearhead_models::Report;
use nearhead_sim::measured::Span;
use nearhead_study::{
    Disks, Experiment, Load, Outcome, PointsLoad, SpanBytes, StudyError, VolumeChoices,
};
use nearhead_volume::NamedPreset;

fn on(disk: &str, preset: Option<&str>) -> Result<Outcome, StudyError> {
    let points = Load::Points(PointsLoad {
        span: SpanBytes::default(),
        points_per_s: 8.0,
        writes_per_point: 8,
        write_bytes: 4096,
        outstanding_points_max: 4,
        fua: false,
        points_max: None,
        seed: 1,
    });
    let experiment = Experiment {
        disk: Disks::parse(disk).map_err(StudyError::Failed)?,
        preset: preset
            .map(NamedPreset::by_name)
            .transpose()
            .map_err(|error| StudyError::Failed(error.to_string()))?,
        choices: VolumeChoices::default(),
        policies: None,
        answers: None,
        loads: vec![points],
        span: Some(Span { warm_up: Nanos::ZERO, duration: Nanos::from_secs(20) }),
        record: true,
    };
    experiment.run(&mut || true)
}

/// Transfers of each device.
fn transfers(outcome: &Outcome) -> Vec<usize> {
    let mut found = Vec::new();
    for device in outcome.visits.iter().flat_map(|visits| &visits.device).flatten() {
        found.resize(found.len().max(usize::from(*device) + 1), 0);
        found[usize::from(*device)] += 1;
    }
    found
}

#[test]
fn a_log_disk_takes_what_is_durable_and_the_disk_behind_it_what_goes_home() {
    let behind = on("st41601n;data=st3146855fc", Some("trail")).unwrap();
    let alone = on("st3146855fc", Some("nolog")).unwrap();
    assert!(behind.size_bytes > 100_000_000_000, "{}", behind.size_bytes);
    let ms = |outcome: &Outcome| outcome.loads[0].classes[0].latency_ns.mean() / 1e6;
    assert!(ms(&behind) < ms(&alone), "{} against {}", ms(&behind), ms(&alone));
    let [log, data] = transfers(&behind)[..] else { panic!("of two devices") };
    assert!(log > 0 && data > 0, "{log} and {data}");
    assert_eq!(behind.digest, on("st41601n;data=st3146855fc", Some("trail")).unwrap().digest);
}

#[test]
fn further_log_disks_are_told_of_and_a_chain_is_as_large_as_its_links() {
    let two_logs = on("st41601n;data=st3146855fc;log=st41601n", Some("trail")).unwrap();
    let Report::Array { members, .. } = &two_logs.report else { panic!("of several") };
    assert_eq!(members.len(), 3);
    let chain = on("st3146855fc;data=st3146855fc;data=st3146855fc", Some("gecko")).unwrap();
    let one = on("st3146855fc", Some("gecko")).unwrap();
    assert!(chain.size_bytes > 2 * one.size_bytes, "{} of three", chain.size_bytes);
}

#[test]
fn devices_that_do_not_fit_are_refused() {
    for (disk, preset, expected) in [
        ("st3146855fc;data=st3146855fc", None, "expected one disk"),
        ("st41601n", Some("trail"), "name the data devices"),
        ("st3146855fc;data=st3146855fc", Some("mlb"), "expected no data devices"),
        ("st3146855fc;log=st3146855fc", Some("trail"), "expected a data device"),
    ] {
        let error = on(disk, preset).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(expected), "{disk} as {preset:?}: {error}");
    }
}
