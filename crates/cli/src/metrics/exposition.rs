//! The Prometheus text format (version 0.0.4), as it is written: families of samples, each with its volume.
//!
//! A family is written once and whole, its name begins with `nearhead_` unless all exporters share it, and texts from elsewhere cannot end
//! a label.

use crate::report::Distribution;
use std::fmt::{Display, Write as _};

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// May go up and down.
    Gauge,
    /// Only goes up, from 0 at the start.
    Counter,
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// Samples of one volume.
pub(super) struct Exposition {
    text: String,
    volume: String,
}

/// Samples of one name.
pub(super) struct Family<'a> {
    all: &'a mut Exposition,
    name: String,
}

/// How a histogram is shown: the ends of its buckets, and how many of its units make one of what is shown.
pub(super) struct Buckets<'a> {
    pub(super) ends: &'a [u64],
    pub(super) divisor: f64,
}

impl Exposition {
    /// Of the volume with this name.
    pub(super) fn of(volume: &str) -> Self {
        Self { text: String::new(), volume: escaped(volume) }
    }

    /// Begins a family of this program's.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        self.shared_family(&format!("nearhead_{name}"), kind, help)
    }

    /// Begins a family whose name all exporters share.
    pub(super) fn shared_family(&mut self, name: &str, kind: Kind, help: &str) -> Family<'_> {
        let kind = kind.name();
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { all: self, name: name.to_owned() }
    }

    /// A family with one sample.
    pub(super) fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The whole text.
    pub(super) fn text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// One sample, with these labels beside that of the volume.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let Exposition { text, volume } = &mut *self.all;
        let _ = write!(text, "{}{suffix}{{volume=\"{volume}\"", self.name);
        for (name, label) in labels {
            let _ = write!(text, ",{name}=\"{}\"", escaped(label));
        }
        let _ = writeln!(text, "}} {value}");
    }

    /// The samples of a histogram: buckets that each hold those below, the sum and the count.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        values: &Distribution,
        buckets: &Buckets<'_>,
    ) {
        let mut bucket = |end: &str, count: u64| {
            let labels: Vec<_> = labels.iter().copied().chain([("le", end)]).collect();
            self.line("_bucket", &labels, count);
        };
        for end in buckets.ends {
            bucket(&(*end as f64 / buckets.divisor).to_string(), values.count_at_most(*end));
        }
        bucket("+Inf", values.count());
        self.line("_sum", labels, values.sum as f64 / buckets.divisor);
        self.line("_count", labels, values.count());
    }
}

/// As the format has it within quotes. Whatever else would end a line is left out.
fn escaped(label: &str) -> String {
    label.chars().fold(String::new(), |mut text, c| {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => {}
            c => text.push(c),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::Histogram;

    #[test]
    fn buckets_hold_all_that_is_below_and_the_last_one_everything() {
        let mut times = Histogram::new();
        for ns in [9_000, 20_000, 4_000_000, 7_000_000_000] {
            times.record(ns);
        }
        let mut all = Exposition::of("a.img");
        let buckets = Buckets { ends: &[10_000, 25_000, 5_000_000], divisor: 1e9 };
        all.family("t_seconds", Kind::Histogram, "T").histogram(
            &[("kind", "read")],
            &Distribution::of_times(&times),
            &buckets,
        );
        let text = all.text();
        let expected = "# HELP nearhead_t_seconds T\n# TYPE nearhead_t_seconds histogram\n\
            nearhead_t_seconds_bucket{volume=\"a.img\",kind=\"read\",le=\"0.00001\"} 1\n\
            nearhead_t_seconds_bucket{volume=\"a.img\",kind=\"read\",le=\"0.000025\"} 2\n\
            nearhead_t_seconds_bucket{volume=\"a.img\",kind=\"read\",le=\"0.005\"} 3\n\
            nearhead_t_seconds_bucket{volume=\"a.img\",kind=\"read\",le=\"+Inf\"} 4\n\
            nearhead_t_seconds_sum{volume=\"a.img\",kind=\"read\"} 7.004029\n\
            nearhead_t_seconds_count{volume=\"a.img\",kind=\"read\"} 4\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_from_elsewhere_cannot_end_its_label_or_its_line() {
        let mut all = Exposition::of("a\"b\\c\nd\u{1b}");
        all.one("x", Kind::Gauge, "X", 1);
        assert!(all.text().ends_with("nearhead_x{volume=\"a\\\"b\\\\c\\nd\"} 1\n"));
    }
}
