//! Whether a head moves: who is believed, and how people are told.
//!
//! The user before the timing, the timing before the kernel. What was decided is always said, since much
//! depends on it: how durable writes are carried out, how much bulk goes to the disk at once.

use crate::head_judgement::Verdict;
use crate::options::OpenOptions;
use crate::probe_head::Finding;

/// Decides, and adds what was decided to `notes`. `kernel` is what the kernel says, if anything.
pub(crate) fn is_rotational(
    options: &OpenOptions,
    kernel: Option<bool>,
    time: impl FnOnce() -> Finding,
    notes: &mut Vec<String>,
) -> bool {
    if let Some(told) = options.rotational {
        return told;
    }
    if !options.time_head {
        return kernel.unwrap_or(false);
    }
    let (rotational, note) = decide(kernel, &time());
    notes.push(note);
    rotational
}

fn decide(kernel: Option<bool>, finding: &Finding) -> (bool, String) {
    let said = |moves: bool| {
        format!("the kernel says that it {}", if moves { "rotates" } else { "does not" })
    };
    let timed = match finding.verdict {
        Verdict::Moves => true,
        Verdict::Still => false,
        Verdict::NotSure => {
            let taken = kernel.unwrap_or(false);
            let note = format!(
                "it is not clear whether a head moves ({}): {}, so {}; say --rotational true or false \
                 if you know better",
                finding.text,
                kernel.map_or("the kernel cannot know".to_owned(), said),
                if taken { "one does" } else { "none does" },
            );
            return (taken, note);
        }
    };
    let against = match kernel {
        Some(kernel) if kernel != timed => {
            format!("; {}, which is not believed", said(kernel))
        }
        _ => String::new(),
    };
    let what = if timed { "a head moves" } else { "no head moves" };
    (timed, format!("{what}: {}{against}", finding.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verdict: Verdict) -> impl FnOnce() -> Finding {
        move || Finding { verdict, text: "as timed".to_owned() }
    }

    fn timing() -> OpenOptions {
        OpenOptions { time_head: true, ..OpenOptions::default() }
    }

    #[test]
    fn the_user_comes_before_the_timing_and_the_timing_before_the_kernel() {
        for told in [true, false] {
            let options = OpenOptions { rotational: Some(told), ..timing() };
            let never = || panic!("whoever was told need not look");
            let mut notes = Vec::new();
            assert_eq!(is_rotational(&options, Some(!told), never, &mut notes), told);
            for kernel in [None, Some(true), Some(false)] {
                let verdict = if told { Verdict::Moves } else { Verdict::Still };
                let taken = is_rotational(&timing(), kernel, found(verdict), &mut notes);
                assert_eq!(taken, told, "the kernel says {kernel:?}");
            }
        }
    }

    #[test]
    fn where_the_timing_is_not_sure_the_kernel_is_believed_and_people_are_told() {
        for (kernel, taken) in [(Some(true), true), (Some(false), false), (None, false)] {
            let mut notes = Vec::new();
            let found = found(Verdict::NotSure);
            assert_eq!(is_rotational(&timing(), kernel, found, &mut notes), taken);
            assert!(notes[0].contains("not clear") && notes[0].contains("--rotational"));
        }
    }

    #[test]
    fn a_kernel_that_is_not_believed_is_named() {
        let mut notes = Vec::new();
        is_rotational(&timing(), Some(true), found(Verdict::Still), &mut notes);
        assert!(
            notes[0].contains("no head moves") && notes[0].contains("not believed"),
            "{notes:?}"
        );
        is_rotational(&timing(), Some(false), found(Verdict::Still), &mut notes);
        assert!(!notes[1].contains("not believed"), "{notes:?}");
    }
}
