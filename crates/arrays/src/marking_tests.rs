//! When the labels of a mirror say that it is in use: before any change that is not covered by them, at the cost of
//! one round, and no longer once it was left.

use super::keeper::Standing;
use super::label_rig::*;
use super::script_rig::*;
use super::*;

fn at_once() -> Scripted {
    Scripted::small(|_, _| 10)
}

fn label_counts(run: &Run<Scripted>) -> Vec<usize> {
    let count = run.mirror.core.members.len();
    (0..count).map(|index| labels(&run.mirror.member(index).asked()).len()).collect()
}

fn leave(run: &mut Run<Scripted>) {
    run.mirror.leave();
    run.until(run.now + Nanos::from_secs(1));
    assert!(run.mirror.has_left());
}

/// No member gets a change of the host before its label says that the mirror is in use.
fn assert_marked(asked: &[Asked]) {
    for (at, change) in asked.iter().enumerate() {
        let is_hosts = change.class == Class::Foreground && change.changes_at().is_some();
        if !is_hosts {
            continue;
        }
        let told = labels(&asked[..at]);
        let last =
            told.iter().rfind(|(label, ..)| label.ends <= change.at).expect("it has a label");
        assert!(last.2.in_use, "{change:?} after {:?}", last.2);
    }
}

#[test]
fn a_mark_costs_one_round_however_many_changes_wait_for_it_and_so_does_taking_it_back() {
    let mut run = fresh("mirror:a,b", vec![at_once(), at_once()]);
    assert_eq!(label_counts(&run), [1, 1]);
    (0..8).for_each(|at| run.send(at, change(at, 1)));
    assert_eq!(run.until(Nanos::from_secs(1)).len(), 8);
    (0..8).for_each(|at| run.send(at, change(at, 2)));
    assert_eq!(run.until(Nanos::from_secs(2)).len(), 8);
    assert_eq!(label_counts(&run), [2, 2]);
    for _ in 0..3 {
        leave(&mut run);
        assert_eq!((label_counts(&run), run.mirror.wake_at()), (vec![3, 3], None));
    }
    run.wait(change(1, 3)).unwrap();
    assert_eq!(label_counts(&run), [4, 4]);
    (0..2).for_each(|index| assert_marked(&run.mirror.member(index).asked()));
}

#[test]
fn a_mirror_has_left_only_when_its_labels_say_so_also_while_a_member_comes_back() {
    let mut waited = 0;
    let slow_labels = |_, command: &Command| match command {
        Command::Write { offset, .. } if *offset >= BLOCKS * BLOCK => 70,
        _ => 10,
    };
    for asked_at_us in (0..2000).step_by(7) {
        let mut run = stale([Scripted::small(slow_labels), at_once()]);
        run.wait(change(5, 3)).unwrap();
        run.until(run.now + Nanos::from_micros(asked_at_us));
        run.mirror.leave();
        while !run.mirror.has_left() {
            waited += 1;
            run.until(run.now + Nanos::from_micros(5));
            assert!(run.now < Nanos::from_secs(1), "asked after {asked_at_us} us");
        }
        for index in run.mirror.arrangement.counting() {
            let asked = run.mirror.member(index).asked();
            let told = labels(&asked);
            let (last, _, label) = told.last().unwrap();
            assert!(
                !label.in_use && last.ends <= run.now,
                "member {index}, {asked_at_us} us: {last:?}"
            );
        }
        assert_eq!(run.mirror.wake_at(), None, "nothing more is begun");
    }
    assert!(waited > 100);
}

#[test]
fn a_change_after_a_mirror_was_left_is_marked_first_also_where_a_member_fell_out_before() {
    for failing in 0..3 {
        let mut run = fresh("mirror:a,b,c", vec![at_once(), at_once(), at_once()]);
        run.wait(change(1, 1)).unwrap();
        run.mirror.member(failing).fail(is_change, false);
        run.wait(change(2, 2)).unwrap();
        leave(&mut run);
        run.wait(change(3, 3)).unwrap();
        assert_eq!(run.mirror.members_left(), 2);
        for index in run.mirror.arrangement.counting() {
            assert_marked(&run.mirror.member(index).asked());
        }
    }
}

#[test]
fn a_member_whose_label_cannot_be_written_is_out_and_the_others_go_on() {
    for failing in 0..2 {
        let mut run = fresh("mirror:a,b", vec![at_once(), at_once()]);
        let is_label = |command: &Command| matches!(command, Command::Write { offset, .. } if *offset >= BLOCKS * BLOCK);
        run.mirror.member(failing).fail(is_label, false);
        run.wait(change(1, 1)).unwrap();
        let standings = &run.mirror.arrangement.standings;
        assert!(standings[failing] == Standing::Out && standings[1 - failing] == Standing::InSync);
        run.wait(change(1, 2)).unwrap();
        assert_eq!(run.read(1), 2);
    }
}

/// The same program goes on over a power cut: what was under way is as if it had never been asked for.
#[test]
fn whatever_is_under_way_when_the_power_goes_the_mirror_goes_on_without_it() {
    for cut_at_us in (0..400).step_by(3) {
        for is_stale in [false, true] {
            let disks = [at_once(), at_once()];
            let mut run = if is_stale { stale(disks) } else { fresh("mirror:a,b", disks.into()) };
            if is_stale {
                run.mirror.leave();
                run.until(Nanos::from_micros(1));
            }
            run.send(1, change(1, 1));
            run.send(2, change(2, 1));
            if cut_at_us % 2 == 0 {
                run.until(Nanos::from_micros(cut_at_us / 2));
                run.mirror.leave();
            }
            run.until(Nanos::from_micros(cut_at_us));
            run.mirror.power_cut(run.now, &mut SplitMix::new(cut_at_us)).unwrap();
            let shown: Vec<u32> = (0..3).map(|at| run.read(at)).collect();
            assert!(run.until(run.now + Nanos::from_secs(1)).is_empty(), "cut at {cut_at_us} us");
            assert!(run.mirror.has_left(), "nobody asks any more");
            run.wait(change(4, 9)).unwrap();
            run.until(run.now + Nanos::from_secs(1));
            assert_eq!(run.mirror.trouble(), None, "cut at {cut_at_us} us");
            assert_eq!((0..3).map(|at| run.read(at)).collect::<Vec<_>>(), shown);
            leave(&mut run);
        }
    }
}
