//! The answer in a sentence.
//!
//! It is about one preset, the default one if it was among those compared, beside the bare disk, and says only what differs by more than a
//! repetition with other phases of the disk would. Where the trace has too little of something, it says so.

use super::{Answer, Side};
use nearhead_basics::Histogram;
use nearhead_sim::latency::{mean_ms, percentile_ms};
use nearhead_sim::replay::Durability;
use nearhead_volume::{DEFAULT_PRESET, NamedPreset};
use serde::Serialize;
use std::fmt::Write as _;

/// Fewer durable points say nothing of their time.
pub(super) const POINTS_MIN: u64 = 30;
/// Fewer say nothing of the slowest in a hundred.
const POINTS_OF_P99_MIN: u64 = 300;
/// Less bulk says nothing of the bandwidth that it keeps: seconds of the whole disk.
const BULK_S_MIN: f64 = 1.0;
/// A preset that answers last so long after the last arrival, or ...
const LATE_S_MAX: f64 = 1.0;
/// ... by so much of the trace, does not follow it.
const LATE_SHARE_MAX: f64 = 0.01;
/// Times that differ by less than this share, or by less than this many milliseconds, are alike.
const ALIKE_SHARE: f64 = 0.1;
const ALIKE_MS: f64 = 0.1;
/// Shares of the disk that differ by less are alike, in percent of the disk.
const ALIKE_PCT: f64 = 2.0;

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Better in one thing at least, worse in none.
    Helps,
    /// Better in one, worse in the other.
    HelpsAtAPrice,
    /// The bare disk is as good.
    AsGoodWithout,
    /// Worse in one at least, better in none.
    GetsWorse,
    /// Nothing in the trace is to be durable, and bulk is no better either.
    NothingDurable,
    /// Too short or too idle a trace.
    TooLittle,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// In a word.
    pub class: Class,
    /// In a sentence or two.
    pub sentence: String,
}

/// How one thing is, beside the bare disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Better,
    Alike,
    Worse,
}

pub(super) fn of(answer: &Answer) -> Verdict {
    let Some(ours) = chosen(answer) else {
        let sentence = "No preset was named that does anything else than the bare disk, so there is nothing to compare.";
        return Verdict { class: Class::TooLittle, sentence: sentence.to_owned() };
    };
    let durable = durable(answer, ours);
    let bulk = bulk(answer, ours);
    let class = class(answer, durable.as_ref(), bulk.as_ref());
    let opening = opening(class, ours);
    let sentence = match (&durable, &bulk) {
        (Some(points), Some(bulk)) => {
            let is_against = points.beside != bulk.beside && class == Class::HelpsAtAPrice;
            let and = if is_against { "but" } else { "and" };
            format!("{opening}{}, {and} {}.{}", points.words, bulk.words, backlog(answer, ours))
        }
        (Some(points), None) => {
            format!("{opening}{}; {}.{}", points.words, why_no_bulk(answer), backlog(answer, ours))
        }
        (None, Some(bulk)) => {
            format!("{} {opening}{}.", capital(&why_no_points(answer)), bulk.words)
        }
        (None, None) if answer.makeup.points == 0 => {
            format!(
                "{} And {}, so it has nothing that another way of writing would change.",
                capital(&why_no_points(answer)),
                why_no_bulk(answer)
            )
        }
        (None, None) => format!(
            "Too little to tell: {} And {}. Take a longer trace, when the disk is busy.",
            why_no_points(answer),
            why_no_bulk(answer)
        ),
    };
    Verdict { class, sentence }
}

/// A thing that is compared.
struct Compared {
    beside: Beside,
    words: String,
}

fn class(answer: &Answer, durable: Option<&Compared>, bulk: Option<&Compared>) -> Class {
    use Beside::{Alike, Better, Worse};
    match (durable.map(|it| it.beside), bulk.map(|it| it.beside)) {
        (Some(Better), Some(Worse)) | (Some(Worse), Some(Better)) => Class::HelpsAtAPrice,
        (Some(Worse), _) | (_, Some(Worse)) => Class::GetsWorse,
        (Some(Better), _) | (_, Some(Better)) => Class::Helps,
        (Some(Alike), _) => Class::AsGoodWithout,
        (None, _) if answer.makeup.points == 0 => Class::NothingDurable,
        (None, _) => Class::TooLittle,
    }
}

fn opening(class: Class, ours: &Side) -> String {
    let name = &ours.name;
    match class {
        Class::GetsWorse => format!("It would get worse: with {name} "),
        Class::AsGoodWithout => format!("The bare disk is as good for this: with {name} "),
        _ => format!("With {name} "),
    }
}

/// What the sentence is about: the default preset, else the last that was named and is not the disk as it is.
pub(super) fn chosen(answer: &Answer) -> Option<&Side> {
    let presets = &answer.presets;
    let default = presets.iter().find(|side| side.name == DEFAULT_PRESET);
    default.or_else(|| presets.iter().rev().find(|side| has_logs(side)))
}

fn has_logs(side: &Side) -> bool {
    NamedPreset::by_name(&side.name).is_ok_and(|preset| preset.layout.has_logs())
}

/// What the trace's durable points are for whoever took it.
pub(super) fn points_word(answer: &Answer) -> &'static str {
    match answer.makeup.durability {
        Durability::Asked => "your fsyncs",
        Durability::EveryWrite => "your small writes, each taken as durable,",
    }
}

/// How durable points are.
fn durable(answer: &Answer, ours: &Side) -> Option<Compared> {
    let bare = &answer.bare.points;
    if ours.points.count().min(bare.count()) < POINTS_MIN {
        return None;
    }
    let (new, old) = (mean_ms(&ours.points), mean_ms(bare));
    let mut words = format!(
        "{} would take {} ms instead of {}",
        points_word(answer),
        figures(new),
        figures(old)
    );
    if bare.count() >= POINTS_OF_P99_MIN {
        let p99 = |points: &Histogram| figures(percentile_ms(points, 99.0));
        // Writing to a string cannot fail.
        let _ = write!(words, " (99 of 100 within {} instead of {})", p99(&ours.points), p99(bare));
    }
    let is_alike = (new - old).abs() < ALIKE_MS.max(ALIKE_SHARE * old);
    Some(Compared { beside: beside(is_alike, new < old), words })
}

/// What bulk keeps of the whole disk.
fn bulk(answer: &Answer, ours: &Side) -> Option<Compared> {
    if whole_disk_s(answer)? < BULK_S_MIN {
        return None;
    }
    let (new, old) = (answer.pct_of_disk(ours)?, answer.pct_of_disk(&answer.bare)?);
    let words = format!("bulk would keep {new:.0} % of the disk instead of {old:.0}");
    Some(Compared { beside: beside((new - old).abs() < ALIKE_PCT, new > old), words })
}

fn beside(is_alike: bool, is_better: bool) -> Beside {
    match (is_alike, is_better) {
        (true, _) => Beside::Alike,
        (false, true) => Beside::Better,
        (false, false) => Beside::Worse,
    }
}

/// How long the bulk keeps the bare disk busy alone, in seconds.
fn whole_disk_s(answer: &Answer) -> Option<f64> {
    let rate = answer.alone_bytes_per_s.filter(|rate| *rate > 0.0)?;
    Some(answer.makeup.bulk_bytes as f64 / rate)
}

fn why_no_bulk(answer: &Answer) -> String {
    match whole_disk_s(answer) {
        None => "there is no bulk in the trace".to_owned(),
        Some(whole_s) => {
            format!(
                "there is too little bulk in the trace ({whole_s:.1} s of the disk) to say what it would keep"
            )
        }
    }
}

fn why_no_points(answer: &Answer) -> String {
    match answer.makeup.points {
        0 => "nothing in this trace waits to be durable (no flush, no FUA, no small write that somebody waits for).".to_owned(),
        count => format!(
            "there are {count} durable points in {:.0} s, too few to say how long they would take.",
            answer.makeup.duration.as_secs_f64()
        ),
    }
}

/// Who does not follow the trace.
fn backlog(answer: &Answer, ours: &Side) -> String {
    let trace_s = answer.makeup.duration.as_secs_f64();
    let is_late = |side: &&Side| side.late_s > LATE_S_MAX.max(LATE_SHARE_MAX * trace_s);
    let late: Vec<String> = [&answer.bare, ours]
        .into_iter()
        .filter(is_late)
        .map(|side| format!("{} ends {:.0} s after it", side.name, side.late_s))
        .collect();
    if late.is_empty() {
        return String::new();
    }
    // Who waits for answers asks for no more; without that what is asked for piles up.
    let grows = if answer.makeup.recorded.is_some() && answer.makeup.has_processes {
        ""
    } else {
        "; such times are those of a backlog, and grow with the trace"
    };
    format!(" Not at the trace's pace: {}{grows}.", late.join(", "))
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// As many figures as such a number is good for.
pub(super) fn figures(ms: f64) -> String {
    if ms >= 9.95 {
        format!("{ms:.0}")
    } else if ms >= 0.095 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.2}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::will_it_help::{BARE, DiskFacts};
    use nearhead_disk::Nanos;
    use nearhead_sim::replay::Makeup;
    use nearhead_sim::trace::{Counts, Format};

    fn side(name: &str, points: u64, ms: f64, bulk_mb_per_s: Option<f64>) -> Side {
        let mut taken = Histogram::new();
        (0..points).for_each(|_| taken.record((ms * 1e6) as u64));
        Side {
            name: name.to_owned(),
            points: taken,
            bulk_bytes_per_s: bulk_mb_per_s.map(|rate| rate * 1e6),
            bulk_over_time: vec![(0.5, 1e6), (1.5, 2e6)],
            late_s: 0.0,
        }
    }

    /// A trace of a minute with so many durable points, and bulk that takes so many seconds of the disk; times and megabytes a second on the bare disk
    /// and with the default preset. The disk alone does 100 MB/s.
    pub(in crate::will_it_help) fn answer(
        points: u64,
        bulk_s: f64,
        bare: (f64, f64),
        ours: (f64, f64),
    ) -> Answer {
        let has_bulk = bulk_s > 0.0;
        let rate = |mb_per_s: f64| has_bulk.then_some(mb_per_s);
        Answer {
            trace: "sda.trace".to_owned(),
            makeup: Makeup {
                format: Format::Blkparse,
                counts: Counts::default(),
                notes: Vec::new(),
                requests: 1000,
                duration: Nanos::from_secs(60),
                devices: 1,
                durability: Durability::Asked,
                flushes: points,
                fua_writes: 0,
                points,
                bulk_requests: u64::from(has_bulk) * 100,
                bulk_bytes: (bulk_s * 1e8) as u64,
                recorded: None,
                has_processes: false,
            },
            disk: DiskFacts {
                asked: "st3146855fc".to_owned(),
                description: "a disk".to_owned(),
                is_built_in: true,
                write_cache: true,
                demerit_pct: None,
            },
            alone_bytes_per_s: has_bulk.then_some(1e8),
            bare: side(BARE, points, bare.0, rate(bare.1)),
            presets: vec![
                side("nolog", points, bare.0, rate(bare.1)),
                side(DEFAULT_PRESET, points, ours.0, rate(ours.1)),
            ],
        }
    }

    fn told(points: u64, bulk_s: f64, bare: (f64, f64), ours: (f64, f64)) -> (Class, String) {
        let Verdict { class, sentence } = of(&answer(points, bulk_s, bare, ours));
        (class, sentence)
    }

    #[test]
    fn what_both_gain_is_said_of_both() {
        let (class, sentence) = told(1000, 30.0, (190.0, 31.0), (6.04, 94.0));
        assert_eq!(class, Class::Helps);
        assert_eq!(
            sentence,
            "With nearhead your fsyncs would take 6.0 ms instead of 190 (99 of 100 within 6.0 instead of 190), and bulk would keep 94 % of the disk instead of 31."
        );
    }

    #[test]
    fn a_gain_that_is_paid_for_says_what_it_costs() {
        let (class, sentence) = told(100, 30.0, (50.0, 90.0), (6.0, 70.0));
        assert_eq!(class, Class::HelpsAtAPrice);
        assert!(sentence.contains("6.0 ms instead of 50, but bulk would keep 70 %"), "{sentence}");
    }

    #[test]
    fn what_gets_worse_is_said_plainly() {
        for (bare, ours) in [((5.0, 90.0), (8.0, 90.0)), ((5.0, 90.0), (5.0, 80.0))] {
            let (class, sentence) = told(100, 30.0, bare, ours);
            assert_eq!(class, Class::GetsWorse);
            assert!(sentence.starts_with("It would get worse: with nearhead"), "{sentence}");
        }
    }

    #[test]
    fn a_bare_disk_that_is_as_fast_is_said_to_be() {
        for ours in [(5.3, 89.0), (4.7, 91.0)] {
            let (class, sentence) = told(100, 30.0, (5.0, 90.0), ours);
            assert_eq!(class, Class::AsGoodWithout);
            assert!(sentence.starts_with("The bare disk is as good"), "{sentence}");
        }
        assert_eq!(told(100, 0.0, (0.05, 0.0), (0.09, 0.0)).0, Class::AsGoodWithout);
    }

    #[test]
    fn without_bulk_or_with_too_little_the_sentence_is_about_durable_points_alone() {
        let (class, sentence) = told(100, 0.0, (50.0, 0.0), (6.0, 0.0));
        assert_eq!(class, Class::Helps);
        assert!(sentence.ends_with("instead of 50; there is no bulk in the trace."), "{sentence}");
        let (_, sentence) = told(100, 0.3, (50.0, 90.0), (6.0, 90.0));
        assert!(
            sentence.contains("too little bulk in the trace (0.3 s of the disk)"),
            "{sentence}"
        );
    }

    #[test]
    fn a_trace_in_which_nothing_is_to_be_durable_has_nothing_to_gain() {
        let (class, sentence) = told(0, 30.0, (0.0, 95.0), (0.0, 95.5));
        assert_eq!(class, Class::NothingDurable);
        assert!(sentence.starts_with("Nothing in this trace waits to be durable"), "{sentence}");
        assert!(sentence.contains("bulk would keep 96 % of the disk instead of 95."), "{sentence}");
        assert_eq!(told(0, 0.0, (0.0, 0.0), (0.0, 0.0)).0, Class::NothingDurable);
        assert_eq!(told(0, 30.0, (0.0, 95.0), (0.0, 60.0)).0, Class::GetsWorse);
    }

    #[test]
    fn too_short_or_too_idle_a_trace_is_said_to_be() {
        let (class, sentence) = told(12, 0.0, (50.0, 0.0), (6.0, 0.0));
        assert_eq!(class, Class::TooLittle);
        assert!(
            sentence.starts_with("Too little to tell: there are 12 durable points in 60 s"),
            "{sentence}"
        );
        let (class, sentence) = told(12, 30.0, (50.0, 80.0), (6.0, 80.0));
        assert_eq!(class, Class::TooLittle);
        assert!(sentence.contains("12 durable points") && sentence.contains("80 %"), "{sentence}");
    }

    #[test]
    fn who_does_not_keep_the_trace_s_pace_is_named() {
        let mut answer = answer(100, 30.0, (5000.0, 1.0), (6.0, 90.0));
        answer.bare.late_s = 40.0;
        let sentence = of(&answer).sentence;
        assert!(
            sentence.contains("Not at the trace's pace: bare disk ends 40 s after it; such times"),
            "{sentence}"
        );
        answer.presets.retain(|side| !has_logs(side));
        assert_eq!(of(&answer).class, Class::TooLittle);
    }
}
