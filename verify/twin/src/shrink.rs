//! A shorter script that shows the same difference.
//!
//! Removes runs of acts, half of them first, for as long as the same law breaks. The number of runs is
//! bounded: each makes both sides anew.

use crate::Difference;

/// Shortens `acts`, which broke a law as `run` says; runs it `runs` times at most.
pub fn shrink<Act: Clone>(
    acts: &[Act],
    found: &Difference,
    runs: u32,
    mut run: impl FnMut(&[Act]) -> Option<Difference>,
) -> Vec<Act> {
    let mut acts = acts[..acts.len().min(found.act + 1)].to_vec();
    let (mut left, mut size) = (runs, acts.len() / 2);
    while size > 0 {
        let mut at = 0;
        while at < acts.len() && left > 0 {
            let shorter = [&acts[..at], &acts[(at + size).min(acts.len())..]].concat();
            left -= 1;
            match run(&shorter).filter(|again| again.law == found.law) {
                Some(again) => {
                    let len = shorter.len();
                    acts = shorter[..len.min(again.act + 1)].to_vec();
                }
                None => at += size,
            }
        }
        size /= 2;
    }
    acts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::Act;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let acts: Vec<Act> = (0..40).map(Act::Grow).collect();
        let broken = |acts: &[Act]| {
            let has = |act| acts.iter().position(|own| *own == Act::Grow(act));
            has(7)?;
            has(21).map(|act| Difference { act, law: "law", detail: String::new() })
        };
        let found = broken(&acts).unwrap();
        assert_eq!(shrink(&acts, &found, 200, broken), [Act::Grow(7), Act::Grow(21)]);
        assert!(
            shrink(&acts, &found, 1, broken).len() <= 22,
            "the last act is that of the difference"
        );
    }
}
