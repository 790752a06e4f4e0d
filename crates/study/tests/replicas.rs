//! Sets of replicas: that a quorum answers, that permits keep checkpoints apart, and that a run can be repeated and stopped.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_disk::Nanos;
use nearhead_engine::placement::SingleLog;
use nearhead_engine::{Config, Policies};
use nearhead_sim::measured::Span;
use nearhead_study::{
    Begins, Checkpoints, Disks, Experiment, Load, PointsLoad, QuorumOutcome, RandomLoad, Replicas,
    SpanBytes, StudyError, VolumeChoices,
};
use nearhead_volume::NamedPreset;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn points() -> Load {
    Load::Points(PointsLoad {
        span: SpanBytes::default(),
        points_per_s: 4.0,
        writes_per_point: 8,
        write_bytes: 4096,
        outstanding_points_max: 4,
        fua: false,
        points_max: None,
        seed: 5,
    })
}

fn three(permits: Option<u32>) -> Replicas {
    let span = Span { warm_up: Nanos::from_secs(5), duration: Nanos::from_secs(120) };
    Replicas {
        experiment: Experiment {
            disk: Disks::parse("st3146855fc").unwrap(),
            preset: Some(NamedPreset::by_name("mlb").unwrap()),
            choices: VolumeChoices::default(),
            policies: None,
            answers: None,
            loads: vec![points()],
            span: Some(span),
            record: false,
        },
        count: 3,
        checkpoints: Checkpoints {
            begins: Begins::Period(Nanos::from_secs(30)),
            spread: Nanos::ZERO,
            permits,
        },
        second_of_day: 0,
        seed: 1,
    }
}

fn run(replicas: &Replicas) -> QuorumOutcome {
    replicas.run(&mut || true).unwrap()
}

#[test]
fn without_permits_all_go_home_at_once_and_with_one_each_by_itself() {
    let (apart, together) = (run(&three(Some(1))), run(&three(None)));
    for outcome in [&apart, &together] {
        let counted = &outcome.counted;
        assert!(counted.passes >= 9, "{}", counted.passes);
        assert!(counted.checkpointed_bytes > counted.logged_bytes / 2);
        let total: u64 = counted.at_once.iter().map(|time| time.0).sum();
        assert_eq!(total, Nanos::from_secs(120).0);
    }
    assert_eq!(apart.counted.at_once[2..], [Nanos::ZERO; 2]);
    assert!(apart.counted.at_once[1] > Nanos::ZERO);
    assert!(together.counted.at_once[3] > Nanos::ZERO, "{:?}", together.counted.at_once);
}

#[test]
fn two_permits_let_two_go_home_at_once() {
    let at_once = run(&three(Some(2))).counted.at_once;
    assert!(at_once[2] > Nanos::ZERO && at_once[3] == Nanos::ZERO, "{at_once:?}");
}

#[test]
fn a_quorum_is_faster_than_its_slowest_and_every_flush_is_counted_once() {
    let outcome = run(&three(Some(1)));
    let counted = &outcome.counted;
    let by_quorum: u64 = counted.quorum_ns.iter().map(nearhead_basics::Histogram::count).sum();
    let by_each: u64 = counted.replica_ns.iter().map(nearhead_basics::Histogram::count).sum();
    assert!(by_quorum.abs_diff(4 * 120) <= 2, "{by_quorum}");
    assert!(by_each.abs_diff(3 * by_quorum) <= 6, "{by_each}");
    let class = &outcome.loads[0].classes[0];
    assert_eq!((class.name, class.failed), ("points", 0));
    assert!(class.requests.abs_diff(by_quorum) <= 2);
    assert!(counted.quorum_ns[0].percentile(99.0) <= counted.replica_ns[0].max());
}

#[test]
fn the_same_set_has_the_same_digest_and_another_seed_another() {
    let set = three(Some(1));
    assert_eq!(run(&set).digest, run(&set).digest);
    let other = Replicas { seed: 2, ..set.clone() };
    assert_ne!(run(&other).digest, run(&set).digest);
}

#[test]
fn reads_are_served_by_one_and_writes_by_a_quorum() {
    let mut set = three(Some(1));
    set.experiment.loads = vec![Load::Random(RandomLoad {
        span: SpanBytes::default(),
        request_bytes: 4096,
        reads: 0.5,
        fua: true,
        outstanding_max: 4,
        requests_max: None,
        seed: 3,
    })];
    let outcome = run(&set);
    let [reads, writes] = &outcome.loads[0].classes[..] else {
        panic!("expected reads and writes")
    };
    assert!(reads.requests > 1000 && writes.requests > 1000);
    assert_eq!(reads.failed + writes.failed, 0);
}

#[test]
fn a_window_over_midnight_opens_and_spread_ones_at_different_times() {
    let mut set = three(None);
    set.second_of_day = 86_340;
    set.checkpoints.begins = Begins::Window(86_395, 600);
    let together = run(&set).counted;
    set.checkpoints.spread = Nanos::from_secs(60);
    let spread = run(&set).counted;
    assert_eq!((together.passes, spread.passes), (3, 3));
    let at_once = [&together, &spread].map(|counted| counted.at_once[3]);
    assert!(at_once[0] > at_once[1], "{at_once:?}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let with = |change: fn(&mut Replicas)| {
        let mut set = three(None);
        change(&mut set);
        match set.run(&mut || true) {
            Err(StudyError::Failed(problem)) => problem,
            Err(StudyError::Stopped) | Ok(_) => panic!("it ran"),
        }
    };
    for (problem, expected) in [
        (with(|set| set.count = 0), "found 0"),
        (with(|set| set.count = 16), "found 16"),
        (with(|set| set.experiment.preset = None), "expected a preset"),
        (with(|set| set.experiment.span = None), "expected a duration"),
        (with(|set| set.checkpoints.permits = Some(0)), "at least one permit"),
        (with(|set| set.checkpoints.begins = Begins::Period(Nanos::ZERO)), "a period above 0"),
        (with(|set| set.checkpoints.begins = Begins::Window(5, 5)), "found 5 to 5"),
        (with(|set| set.checkpoints.begins = Begins::Window(5, 86_400)), "found 5 to 86400"),
        (with(|set| set.checkpoints.spread = Nanos::from_secs(86_401)), "a spread"),
        (with(|set| set.second_of_day = 86_400), "found 86400"),
    ] {
        assert!(problem.contains(expected), "{problem}");
    }
}

/// Policies that count how often they were asked for: the preset's but for the first log alone, or none that has anything to say.
#[derive(Debug, Default)]
struct Counted {
    configured: AtomicU32,
    is_first_alone: bool,
    is_over: bool,
}

impl Policies for Counted {
    fn configure(&self, config: &mut Config) {
        self.configured.fetch_add(1, Ordering::Relaxed);
        if self.is_first_alone {
            config.placement = Box::new(SingleLog);
        }
    }

    fn go_on(&self) -> bool {
        !self.is_over
    }
}

fn with(policies: Counted) -> (Replicas, Arc<Counted>) {
    let (mut set, policies) = (three(None), Arc::new(policies));
    set.experiment.policies = Some(Arc::clone(&policies) as Arc<dyn Policies>);
    (set, policies)
}

#[test]
fn each_replica_asks_for_policies_of_its_own() {
    let (set, policies) = with(Counted::default());
    assert_eq!(run(&set).digest, run(&three(None)).digest);
    assert_eq!(policies.configured.load(Ordering::Relaxed), set.count);
    let (other, _) = with(Counted { is_first_alone: true, ..Counted::default() });
    assert_ne!(run(&other).digest, run(&set).digest);
}

#[test]
fn a_set_ends_when_its_policies_have_nothing_more_to_say() {
    let (set, _) = with(Counted { is_over: true, ..Counted::default() });
    assert_eq!(set.run(&mut || true).unwrap_err(), StudyError::Stopped);
}

#[test]
fn a_run_that_is_stopped_says_so() {
    let mut left = 3;
    let stopped = three(None).run(&mut || {
        left -= 1;
        left > 0
    });
    assert_eq!(stopped.unwrap_err(), StudyError::Stopped);
}
