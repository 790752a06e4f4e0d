//! Whether a head moves, judged from how long reads took.
//!
//! The kernel's `rotational` says what a device claims to be, and most virtual disks claim to rotate. What
//! counts is what a distance costs. So reads come in pairs: one far from the last, and one right behind
//! it. An arm needs milliseconds for the first and, with what the drive has read ahead meanwhile, next to
//! nothing for the second; without an arm both take the same.
//!
//! Whatever disturbs a measurement makes reads slower, never faster: the faster quarter of them is what is
//! believed. Where that says nothing clear, the answer is "not sure", and the kernel is believed.

use nearhead_disk::Nanos;

/// Fewer pairs tell nothing.
pub(crate) const PAIRS_MIN: usize = 6;
/// No arm gets over a third of a disk and waits for a sector in less: of the profiles in
/// `crates/models/profiles` the quickest average seek is 3.2 ms (15,000 rpm), and a quarter of
/// all revolutions is another 1 ms.
const FAR_WITHOUT_ARM_MAX: Nanos = Nanos::from_millis(1);
/// The faster quarter of far reads takes an arm at least so long, also on a part of a disk.
const FAR_WITH_ARM_MIN: Nanos = Nanos::from_millis(2);
/// How many times as long as its neighbour a far read takes where it is the distance that counts.
const FAR_OVER_NEAR_MIN: u64 = 4;

/// What the timings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Distance costs what an arm costs.
    Moves,
    /// Distance costs nothing.
    Still,
    /// Neither is clear.
    NotSure,
}

/// How long a read far from the last took, and one right behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) far: Nanos,
    pub(crate) near: Nanos,
}

/// The faster quarter and the middle of some times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) quarter: Nanos,
    pub(crate) middle: Nanos,
}

impl Times {
    fn of(times: impl Iterator<Item = Nanos>) -> Self {
        let mut times: Vec<Nanos> = times.collect();
        times.sort_unstable();
        let at = |index: usize| times.get(index).copied().unwrap_or(Nanos::MAX);
        Self { quarter: at(times.len() / 4), middle: at(times.len() / 2) }
    }

    pub(crate) fn far(pairs: &[Pair]) -> Self {
        Self::of(pairs.iter().map(|pair| pair.far))
    }

    pub(crate) fn near(pairs: &[Pair]) -> Self {
        Self::of(pairs.iter().map(|pair| pair.near))
    }
}

/// What `pairs` say.
pub(crate) fn judge(pairs: &[Pair]) -> Verdict {
    if pairs.len() < PAIRS_MIN {
        return Verdict::NotSure;
    }
    let (far, near) = (Times::far(pairs), Times::near(pairs));
    let is_longer = |far: Nanos, near: Nanos| far.0 > near.0.saturating_mul(FAR_OVER_NEAR_MIN);
    if far.quarter >= FAR_WITH_ARM_MIN && is_longer(far.quarter, near.middle) {
        Verdict::Moves
    } else if far.quarter < FAR_WITHOUT_ARM_MAX {
        // A memory in front of an arm answers some at once, and their neighbours all: then the others tell.
        let some_cost = far.middle >= FAR_WITH_ARM_MIN && is_longer(far.middle, near.middle);
        if some_cost { Verdict::NotSure } else { Verdict::Still }
    } else {
        Verdict::NotSure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{Class, Command, CommandId, Disk, Submission, Ticket};
    use nearhead_models::ModelSpec;

    /// What the probe would see on a modelled disk, from `start` to `end` of it.
    fn timed(spec: &str, part: u64) -> Vec<Pair> {
        let mut disk = ModelSpec::parse(spec).unwrap().build_any().unwrap();
        let bytes = disk.properties().capacity_bytes / part;
        let mut now = Nanos::from_millis(5);
        let mut read = |offset: u64| {
            let ticket = Ticket::new(CommandId(offset));
            let command = Command::Read { offset, len: 4096 };
            let from = now;
            disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
            disk.kick();
            while disk.poll(now).is_none() {
                now = disk.wake_at().unwrap().max(now);
            }
            let took = now.since(from);
            now += Nanos::from_micros(30);
            took
        };
        let offsets = crate::probe_head::far_offsets(bytes, 0x5eed);
        offsets
            .take(crate::probe_head::PAIRS_MAX)
            .map(|offset| Pair { far: read(offset), near: read(offset + 4096) })
            .collect()
    }

    #[test]
    fn a_modelled_arm_moves_also_over_a_tenth_of_its_disk() {
        for profile in ["st3146855fc", "constellation-es3-1tb", "exos-x20-20tb"] {
            for part in [1, 10] {
                let pairs = timed(&format!("model:{profile}"), part);
                assert_eq!(judge(&pairs), Verdict::Moves, "{profile}, 1/{part}: {pairs:?}");
            }
        }
    }

    #[test]
    fn modelled_flash_is_still() {
        for profile in ["flash-8ch-550gb", "sata-ssd-240gb"] {
            let pairs = timed(&format!("model:{profile}"), 1);
            assert_eq!(judge(&pairs), Verdict::Still, "{profile}: {pairs:?}");
        }
    }

    fn pairs(of: impl Fn(usize) -> (u64, u64)) -> Vec<Pair> {
        (0..16)
            .map(|number| {
                let (far, near) = of(number);
                Pair { far: Nanos::from_micros(far), near: Nanos::from_micros(near) }
            })
            .collect()
    }

    #[test]
    fn a_virtual_disk_that_only_says_that_it_rotates_is_still() {
        assert_eq!(judge(&pairs(|n| (80 + n as u64, 75))), Verdict::Still);
    }

    /// Two of three reads wait for a tick of the scheduler, wherever they go.
    #[test]
    fn a_busy_machine_makes_no_arm() {
        let waits = |n: usize| if n.is_multiple_of(3) { 90 } else { 4_000 + 100 * n as u64 };
        assert_eq!(judge(&pairs(|n| (waits(n), waits(n + 1)))), Verdict::Still);
        let always = pairs(|n| (4_000 + n as u64, 4_100));
        assert_eq!(judge(&always), Verdict::NotSure, "nothing got through in time");
    }

    #[test]
    fn storage_over_a_network_that_answers_in_milliseconds_is_no_arm() {
        let verdict = judge(&pairs(|n| (2_500 + 10 * n as u64, 2_400)));
        assert_ne!(verdict, Verdict::Moves);
    }

    #[test]
    fn an_arm_on_a_busy_machine_is_never_taken_for_none() {
        let waits = |n: usize| if n.is_multiple_of(2) { 200 } else { 4_000 };
        let verdict = judge(&pairs(|n| (6_000 + waits(n), waits(n))));
        assert_ne!(verdict, Verdict::Still);
    }

    /// A host that has a third of the disk in its memory.
    #[test]
    fn a_memory_in_front_of_an_arm_does_not_hide_it() {
        let verdict = judge(&pairs(|n| if n.is_multiple_of(3) { (60, 50) } else { (9_000, 60) }));
        assert_ne!(verdict, Verdict::Still);
    }

    #[test]
    fn each_border_belongs_to_one_side() {
        let all = |far: u64, near: u64| judge(&pairs(|_| (far, near)));
        assert_eq!((all(999, 900), all(1000, 900)), (Verdict::Still, Verdict::NotSure));
        assert_eq!((all(1999, 60), all(2000, 60)), (Verdict::NotSure, Verdict::Moves));
        assert_eq!((all(4000, 1000), all(4001, 1000)), (Verdict::NotSure, Verdict::Moves));
        assert_eq!(judge(&pairs(|_| (80, 75))[..PAIRS_MIN]), Verdict::Still, "just enough");
    }

    /// A quarter of the reads, and no more, may have been answered by something else.
    #[test]
    fn the_faster_quarter_is_what_counts() {
        let quick = |few: usize| judge(&pairs(|n| if n < few { (90, 50) } else { (9_000, 60) }));
        assert_eq!((quick(4), quick(5)), (Verdict::Moves, Verdict::NotSure));
    }

    #[test]
    fn few_reads_tell_nothing() {
        let few = &pairs(|_| (80, 75))[..PAIRS_MIN - 1];
        assert_eq!(judge(few), Verdict::NotSure);
        assert_eq!(judge(&[]), Verdict::NotSure);
    }
}
