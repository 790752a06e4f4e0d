//! Experiments with policies that no preset has.

#![expect(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_engine::placement::SingleLog;
use nearhead_engine::{Config, Policies};
use nearhead_study::{
    Disks, Experiment, Load, Outcome, RandomLoad, SpanBytes, StudyError, VolumeChoices,
};
use nearhead_volume::NamedPreset;
use std::sync::Arc;

/// Nothing but the first log, or the preset's own; for as long as it has anything to say.
#[derive(Debug)]
struct First {
    is_used: bool,
    goes_on: bool,
}

impl Policies for First {
    fn configure(&self, config: &mut Config) {
        if self.is_used {
            config.placement = Box::new(SingleLog);
        }
    }

    fn go_on(&self) -> bool {
        self.goes_on
    }
}

fn experiment(policies: Option<First>) -> Experiment {
    let load = RandomLoad {
        request_bytes: 4096,
        reads: 0.5,
        fua: true,
        outstanding_max: 4,
        requests_max: Some(300),
        span: SpanBytes { start: 0, end: None },
        seed: 1,
    };
    Experiment {
        disk: Disks::parse("st3146855fc,cache=off").unwrap(),
        preset: Some(NamedPreset::by_name("mlb").unwrap()),
        choices: VolumeChoices::default(),
        policies: policies.map(|policies| Arc::new(policies) as Arc<dyn Policies>),
        answers: None,
        loads: vec![Load::Random(load)],
        span: None,
        record: false,
    }
}

fn run(policies: Option<First>) -> Outcome {
    experiment(policies).run(&mut || true).unwrap()
}

#[test]
fn policies_take_the_place_of_the_presets_and_what_they_leave_stays() {
    let preset = run(None);
    assert_eq!(run(Some(First { is_used: false, goes_on: true })).digest, preset.digest);
    let first = run(Some(First { is_used: true, goes_on: true }));
    assert_ne!(first.digest, preset.digest);
    let claimed = |outcome: &Outcome| outcome.volume.as_ref().unwrap().logs_claimed;
    assert_eq!(claimed(&first), 1);
    assert!(claimed(&preset) > 10, "{}", claimed(&preset));
}

#[test]
fn a_run_ends_when_its_policies_have_nothing_more_to_say() {
    let over = experiment(Some(First { is_used: true, goes_on: false }));
    assert_eq!(over.run(&mut || true).err(), Some(StudyError::Stopped));
}

#[test]
fn the_plain_disk_has_no_policies() {
    let policies = Some(First { is_used: true, goes_on: true });
    let plain = Experiment { preset: None, ..experiment(policies) };
    let Err(StudyError::Failed(problem)) = plain.run(&mut || true) else {
        panic!("it is not refused");
    };
    assert!(problem.contains("expected no policies on the plain disk"), "{problem}");
}
