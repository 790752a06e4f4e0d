//! The judgement: from what was seen of a machine to why its numbers are not to be believed.
//!
//! Pure. Each reason says what was measured and what a quiet machine stays below. The thresholds stand
//! between what a quiet virtual machine with two processors showed and what one showed beside a
//! compiler; [docs/performance.md](../../../../docs/performance.md#is-the-machine-busy) has both.

use serde::Serialize;

/// Processor time that a hypervisor may keep for itself, in percent.
const STEAL_PCT_MAX: f64 = 2.0;
/// Processor time of other programs that is nothing yet, in percent of all processors.
const OTHERS_PCT_FEW: f64 = 5.0;
/// The same where the kernel does not tell whether anybody waited for a processor.
const OTHERS_PCT_MAX: f64 = 15.0;
/// Time in which somebody may wait for a processor while other programs use them, in percent.
const PRESSURE_PCT_MAX: f64 = 10.0;
/// By how much a sleep may end late, 99 of 100 times.
const SLEEP_LATE_US_MAX: f64 = 1000.0;
/// Share of what a modelled disk gives in virtual time that it gives in real time on a quiet machine.
const OF_MODEL_MIN: f64 = 0.97;
/// By which factor a real disk's measurement before and after may differ.
const BARE_FACTOR_MAX: f64 = 1.5;

/// What was seen of a machine while something was measured; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Machine {
    /// Processor time that the hypervisor gave to others, in percent of all.
    pub(crate) steal_pct: Option<f64>,
    /// Processor time of programs that are no part of the measurement, in percent of all.
    pub(crate) others_pct: Option<f64>,
    /// Share of the time in which at least one thread waited for a processor, in percent.
    pub(crate) pressure_pct: Option<f64>,
    /// By how much sleeps of a thread that does nothing else ended late, 99th percentile.
    pub(crate) sleep_late_us_p99: Option<f64>,
    /// What the bare disk gave.
    pub(crate) bare: Vec<Bare>,
}

impl Machine {
    /// The same, beside which the bare disk gave so much.
    pub(crate) fn with_bare(mut self, bare: Bare) -> Self {
        self.bare.push(bare);
        self
    }

    /// Processor time that went elsewhere, in percent: how busy, where one of several is to be named.
    pub(crate) fn elsewhere_pct(&self) -> f64 {
        self.steal_pct.unwrap_or(0.0) + self.others_pct.unwrap_or(0.0)
    }
}

/// The bare disk, measured before and after; more is better or worse, but the same is quiet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Bare {
    /// What was measured, unit last.
    pub(crate) what: String,
    pub(crate) before: f64,
    pub(crate) after: f64,
    /// What the model of the disk gives in virtual time, where there is a model; more is better then.
    pub(crate) in_virtual_time: Option<f64>,
}

/// Why the machine was too busy for numbers in real time; empty if it was quiet.
pub(crate) fn judge(machine: &Machine) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(steal) = machine.steal_pct.filter(|steal| *steal > STEAL_PCT_MAX) {
        reasons.push(format!(
            "the hypervisor took {steal:.1} % of the processor time (quiet: at most {STEAL_PCT_MAX} %)"
        ));
    }
    reasons.extend(others(machine.others_pct, machine.pressure_pct));
    if let Some(late) = machine.sleep_late_us_p99.filter(|late| *late > SLEEP_LATE_US_MAX) {
        reasons.push(format!(
            "one sleep in a hundred ended {late:.0} us late or later (quiet: at most {SLEEP_LATE_US_MAX})"
        ));
    }
    reasons.extend(machine.bare.iter().filter_map(Bare::reason));
    reasons
}

/// Programs that are no part of the measurement. That somebody waited for a processor says nothing
/// by itself: a measurement that uses all processors waits for itself.
fn others(others_pct: Option<f64>, pressure_pct: Option<f64>) -> Option<String> {
    let others = others_pct.filter(|others| *others > OTHERS_PCT_FEW)?;
    match pressure_pct {
        Some(pressure) => (pressure > PRESSURE_PCT_MAX).then(|| {
            format!(
                "other programs used {others:.0} % of the processors, and a thread waited for one \
                 {pressure:.0} % of the time (quiet: at most {OTHERS_PCT_FEW} or {PRESSURE_PCT_MAX} %)"
            )
        }),
        None => (others > OTHERS_PCT_MAX).then(|| {
            format!(
                "other programs used {others:.0} % of the processors (quiet: at most {OTHERS_PCT_MAX} %)"
            )
        }),
    }
}

impl Bare {
    /// What was measured, in words.
    pub(super) fn seen(&self) -> String {
        let Self { what, before, after, in_virtual_time } = self;
        let model = in_virtual_time.map_or_else(String::new, |model| {
            format!(", of {model:.1} that the model gives in virtual time")
        });
        format!("{what}: {before:.1} before, {after:.1} after{model}")
    }

    fn reason(&self) -> Option<String> {
        let (before, after, seen) = (self.before, self.after, self.seen());
        if let Some(model) = self.in_virtual_time {
            let least = before.min(after);
            (least < OF_MODEL_MIN * model)
                .then(|| format!("{seen} (quiet: at least {:.0} % of it)", 100.0 * OF_MODEL_MIN))
        } else {
            let (less, more) = (before.min(after), before.max(after));
            (more > BARE_FACTOR_MAX * less)
                .then(|| format!("{seen} (quiet: at most {BARE_FACTOR_MAX} times apart)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a quiet virtual machine with two processors shows itself.
    fn quiet() -> Machine {
        let bare = |what: &str, before, after, in_virtual_time| Bare {
            what: what.to_owned(),
            before,
            after,
            in_virtual_time,
        };
        Machine {
            steal_pct: Some(0.3),
            others_pct: Some(2.0),
            pressure_pct: Some(40.0),
            sleep_late_us_p99: Some(284.0),
            bare: vec![
                bare("big reads, MB/s", 128.0, 127.9, Some(128.4)),
                bare("durable write, us", 142.0, 160.0, None),
            ],
        }
    }

    #[test]
    fn a_quiet_machine_is_quiet_also_when_the_measurement_waits_for_itself() {
        assert_eq!(judge(&quiet()), Vec::<String>::new());
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_called_busy() {
        assert_eq!(judge(&Machine::default()), Vec::<String>::new());
    }

    #[test]
    fn each_sign_of_other_work_is_a_reason_of_its_own_and_names_what_was_measured() {
        let mut slower = quiet();
        slower.bare[0].after = 74.6;
        let mut faster = quiet();
        faster.bare[1].before = 612.0;
        for (machine, named) in [
            (Machine { steal_pct: Some(12.3), ..quiet() }, "12.3 %"),
            (Machine { others_pct: Some(71.0), ..quiet() }, "71 %"),
            (Machine { sleep_late_us_p99: Some(3917.0), ..quiet() }, "3917 us"),
            (slower, "74.6 after"),
            (faster, "612.0 before"),
        ] {
            let reasons = judge(&machine);
            assert_eq!(reasons.len(), 1, "{machine:?}: {reasons:?}");
            assert!(reasons[0].contains(named) && reasons[0].contains("quiet:"), "{reasons:?}");
        }
    }

    #[test]
    fn other_programs_on_processors_that_nobody_waits_for_disturb_nobody() {
        let machine = |others, pressure| Machine {
            others_pct: Some(others),
            pressure_pct: pressure,
            ..Machine::default()
        };
        assert!(judge(&machine(40.0, Some(1.0))).is_empty(), "a large machine");
        assert_eq!(judge(&machine(40.0, Some(30.0))).len(), 1);
        assert_eq!(judge(&machine(40.0, None)).len(), 1, "a kernel without pressure");
        assert!(judge(&machine(8.0, None)).is_empty());
    }

    #[test]
    fn a_modelled_disk_that_is_slow_before_and_after_alike_is_a_reason() {
        let bare = Bare {
            what: "big reads, MB/s".to_owned(),
            before: 80.0,
            after: 80.0,
            in_virtual_time: Some(128.0),
        };
        let machine = Machine { bare: vec![bare], ..Machine::default() };
        assert_eq!(judge(&machine).len(), 1);
    }
}
