//! The judgement in words, the same wherever real time was measured.

use super::{Machine, judge};

/// What a table says beside a row that was measured on a busy machine.
pub(crate) const BUSY: &str = "BUSY";

/// The judgement and its reasons as one sentence; `None` for a quiet machine.
pub(crate) fn repeat(machine: &Machine) -> Option<String> {
    let reasons = judge(machine);
    (!reasons.is_empty()).then(|| format!("this machine was busy: repeat ({})", reasons.join("; ")))
}

/// What was measured of the machine, busy or not.
pub(crate) fn seen(machine: &Machine) -> String {
    let known = |value: Option<f64>, words: &dyn Fn(f64) -> String| value.map(words);
    let mut parts: Vec<String> = [
        known(machine.steal_pct, &|pct| format!("hypervisor {pct:.1} %")),
        known(machine.others_pct, &|pct| format!("other programs {pct:.0} %")),
        known(machine.pressure_pct, &|pct| format!("waiting for a processor {pct:.0} %")),
        known(machine.sleep_late_us_p99, &|us| format!("sleeps late by {us:.0} us at p99")),
    ]
    .into_iter()
    .flatten()
    .collect();
    parts.extend(machine.bare.iter().map(super::Bare::seen));
    if parts.is_empty() { "nothing is known of it".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_told_with_what_was_measured_and_a_quiet_one_without_a_word() {
        let quiet = Machine { steal_pct: Some(0.1), ..Machine::default() };
        assert_eq!(repeat(&quiet), None);
        assert_eq!(seen(&quiet), "hypervisor 0.1 %");
        let busy = Machine { steal_pct: Some(9.0), ..Machine::default() };
        let told = repeat(&busy).unwrap();
        assert!(
            told.starts_with("this machine was busy: repeat") && told.contains("9.0 %"),
            "{told}"
        );
        assert_eq!(seen(&Machine::default()), "nothing is known of it");
    }
}
