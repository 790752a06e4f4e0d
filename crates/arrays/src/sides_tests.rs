//! Laws of who serves a read: nobody who waits stands behind cleaning while there is another member, and nothing is lost
//! where there is no cleaning or no other member.

use super::label_rig::*;
use super::script_rig::*;
use super::*;
use nearhead_disk::{CommandId, Payload};

/// Commands for a block, each of a class, given to the mirror so many microseconds after the one before it. Every third one of
/// class background writes what is there, all others read.
type Load = Vec<(u64, Class, u64)>;

const CLIENTS: [Class; 3] = [Class::Durable, Class::Foreground, Class::Bulk];

fn load(seed: u64, classes: &[Class]) -> Load {
    let mut random = SplitMix::new(seed);
    let mut one = || {
        let class = classes[random.below(classes.len() as u64) as usize];
        (1 + random.below(200), class, random.below(BLOCKS))
    };
    (0..200).map(|_| one()).collect()
}

fn slow(random_us: u64) -> Scripted {
    Scripted::small(move |_, command| match command {
        Command::Read { offset, .. } | Command::Write { offset, .. } => {
            50 + offset / BLOCK * 37 % random_us
        }
        _ => 10,
    })
}

fn writes(id: u64, class: Class) -> bool {
    class == Class::Background && id.is_multiple_of(3)
}

fn give(run: &mut Run<Scripted>, id: u64, class: Class, at: u64) {
    let command = if writes(id, class) {
        Command::Write { offset: at * BLOCK, parts: vec![block(at as u32 + 1)], durable: true }
    } else {
        Command::Read { offset: at * BLOCK, len: BLOCK as u32 }
    };
    let ticket = Ticket::new(CommandId(id));
    run.mirror.submit(Submission { ticket, class, command }, run.now);
    run.mirror.kick();
}

/// Puts the load on a mirror whose blocks say their number, and checks every answer; gives what each member was asked.
fn carried_out(run: &mut Run<Scripted>, load: &Load) -> Vec<Vec<Asked>> {
    let members = run.mirror.core.members.len();
    let before: Vec<usize> =
        (0..members).map(|index| run.mirror.member(index).asked().len()).collect();
    let mut done = Vec::new();
    for (id, (wait_us, class, block)) in load.iter().enumerate() {
        done.extend(run.until(run.now + Nanos::from_micros(*wait_us)));
        give(run, id as u64, *class, *block);
    }
    done.extend(run.until(run.now + Nanos::from_secs(1)));
    assert_eq!(done.len(), load.len(), "all are answered");
    for answer in done {
        let (_, class, block) = load[answer.id.0 as usize];
        let expected = block as u32 + 1;
        if writes(answer.id.0, class) {
            answer.result.unwrap();
            continue;
        }
        let Payload::Bytes(found) = answer.result.unwrap() else { panic!("bytes") };
        assert_eq!(version(&found), expected);
    }
    let asked = |index: usize| {
        let mut asked = run.mirror.member(index).asked().split_off(before[index]);
        asked.retain(|asked| asked.label.is_none());
        asked
    };
    (0..members).map(asked).collect()
}

fn filled(policy: ReadPolicy, disks: Vec<Scripted>) -> Run<Scripted> {
    let text = if disks.len() == 3 { "mirror:a,b,c" } else { "mirror:a,b" };
    let mut run = fresh(text, disks);
    run.mirror.arrangement.sides = sides::Sides::new(policy, run.mirror.core.members.len(), true);
    (0..BLOCKS).for_each(|block| run.write(block, block as u32 + 1));
    run
}

/// What a member that was asked this has yet to answer of class background at a time, before the command at `place`: reads, and changes.
fn in_background(asked: &[Asked], place: usize, at: Nanos) -> (usize, usize) {
    let under_way = || {
        let before = asked[..place].iter();
        before.filter(move |other| other.class == Class::Background && other.ends > at)
    };
    let reads = under_way().filter(|other| other.reads_at().is_some()).count();
    (reads, under_way().count() - reads)
}

/// Reads that somebody waits for, given to a member that had a background read to answer, or a background change while another
/// member had nothing of the kind.
fn behind_cleaning(members: &[Vec<Asked>]) -> usize {
    let mut behind = 0;
    for (member, asked) in members.iter().enumerate() {
        for (place, read) in asked.iter().enumerate() {
            if read.class == Class::Background || read.reads_at().is_none() {
                continue;
            }
            // A change that went on to another member in the same instant was there before the read.
            let is_quiet = |other: &Vec<Asked>| {
                let before = other.iter().take_while(|asked| asked.at <= read.at).count();
                in_background(other, before, read.at) == (0, 0)
            };
            let others = members.iter().enumerate().filter(|(other, _)| *other != member);
            let mut others = others.map(|(_, asked)| asked);
            let (reads, changes) = in_background(asked, place, read.at);
            behind += usize::from(reads > 0 || changes > 0 && others.any(is_quiet));
        }
    }
    behind
}

fn reads_of(asked: &[Asked], class: Class) -> usize {
    asked.iter().filter(|read| read.class == class && read.reads_at().is_some()).count()
}

#[test]
fn no_read_that_somebody_waits_for_is_given_to_a_member_that_is_being_cleaned() {
    let all = [&CLIENTS[..], &[Class::Background]].concat();
    let mut would_wait = 0;
    for policy in [ReadPolicy::First, ReadPolicy::Balanced] {
        for (seed, members) in (0..40).zip([2, 3].into_iter().cycle()) {
            let load = load(seed, &all);
            let disks = || (0..members).map(|_| slow(900)).collect();
            let asked = carried_out(&mut filled(policy, disks()), &load);
            assert_eq!(behind_cleaning(&asked), 0, "{policy:?}, seed {seed}");
            let cleaning: Vec<usize> =
                asked.iter().map(|asked| reads_of(asked, Class::Background)).collect();
            assert!(
                cleaning[members - 1] > 20
                    && cleaning[..members - 1].iter().all(|reads| *reads == 0),
                "all on one side: {cleaning:?}"
            );
            // Or nothing was shown here.
            let mut mixed = filled(policy, disks());
            mixed.mirror.arrangement.sides.keep_apart(false);
            let asked = carried_out(&mut mixed, &load);
            would_wait += behind_cleaning(&asked);
        }
    }
    assert!(would_wait > 500, "only {would_wait} would have waited");
}

#[test]
fn without_cleaning_all_members_serve_those_who_wait_as_if_nothing_were_kept_apart() {
    for seed in 0..20 {
        let load = load(seed, &CLIENTS);
        let of = |are_apart: bool| {
            let mut run = filled(ReadPolicy::Balanced, vec![slow(900), slow(900)]);
            run.mirror.arrangement.sides.keep_apart(are_apart);
            let asked = carried_out(&mut run, &load);
            let told =
                |asked: &Vec<Asked>| asked.iter().map(|read| (read.at, read.reads_at())).collect();
            asked.iter().map(told).collect::<Vec<Vec<_>>>()
        };
        let apart = of(true);
        assert_eq!(apart, of(false), "seed {seed}");
        assert!(apart.iter().all(|asked| asked.len() > 50), "both serve, seed {seed}");
    }
}

#[test]
fn one_member_that_is_left_serves_everybody() {
    let all = [&CLIENTS[..], &[Class::Background]].concat();
    for away in [0, 1] {
        let mut run = filled(ReadPolicy::Balanced, vec![slow(900), slow(900)]);
        run.mirror.member(away).fail(is_change, false);
        run.write(0, 1);
        assert_eq!(run.mirror.members_left(), 1);
        let load = load(3, &all);
        let asked = carried_out(&mut run, &load);
        assert_eq!((asked[away].len(), asked[1 - away].len()), (0, load.len()), "{away} is away");
        assert!(behind_cleaning(&asked[1 - away..2 - away]) > 0);
    }
}

#[test]
fn what_the_side_for_cleaning_cannot_read_the_other_one_reads() {
    let all = [&CLIENTS[..], &[Class::Background]].concat();
    let mut run = filled(ReadPolicy::First, vec![slow(900), slow(900)]);
    run.mirror.member(1).fail(is_read, false);
    let asked = carried_out(&mut run, &load(5, &all));
    assert!(reads_of(&asked[0], Class::Background) > 20, "{asked:?}");
    assert_eq!(run.mirror.members_left(), 2);
    run.mirror.member(1).heal();
    let asked = carried_out(&mut run, &load(6, &all));
    assert_eq!(
        (reads_of(&asked[0], Class::Background), behind_cleaning(&asked)),
        (0, 0),
        "nothing is remembered of reads that are over"
    );
}

/// Without labels nobody knows where members differ after a power cut; the first one is shown, always.
#[test]
fn without_labels_a_mirror_that_reads_its_first_member_reads_no_other() {
    let disks = vec![slow(900), slow(900)];
    let mut run = start(Mirror::new(disks, ReadPolicy::First).unwrap());
    (0..BLOCKS).for_each(|block| run.write(block, block as u32 + 1));
    let load = load(7, &[Class::Foreground, Class::Background]);
    let asked = carried_out(&mut run, &load);
    let reads =
        |asked: &Vec<Asked>| asked.iter().filter(|asked| asked.reads_at().is_some()).count();
    let written = load.iter().zip(0..).filter(|((_, class, _), id)| writes(*id, *class)).count();
    assert_eq!((reads(&asked[0]), reads(&asked[1])), (load.len() - written, 0));
}

/// When each member was given the changes of class background, and when it had made them.
fn changes(run: &Run<Scripted>, member: usize) -> Vec<(Nanos, Nanos)> {
    let asked = run.mirror.member(member).asked().into_iter();
    let changes =
        asked.filter(|asked| asked.class == Class::Background && is_change(&asked.command));
    changes.map(|asked| (asked.at, asked.ends)).collect()
}

#[test]
fn cleaning_writes_to_one_member_after_the_other_while_somebody_reads_and_is_answered_when_all_have_it()
 {
    for (reads_us_before, in_turn) in [(999_999, true), (1_000_000, false)] {
        let mut run = filled(ReadPolicy::Balanced, vec![slow(900), slow(900)]);
        give(&mut run, 1, Class::Foreground, 0);
        let answered = run.until(run.now + Nanos::from_micros(reads_us_before));
        assert_eq!(answered.len(), 1);
        let begin = run.now;
        give(&mut run, 3, Class::Background, 5);
        let answer = loop {
            let at = run.mirror.wake_at().unwrap();
            if !run.until(at).is_empty() {
                break at;
            }
        };
        let [one, other] = [0, 1].map(|member| changes(&run, member)[0]);
        assert_eq!((other.0, answer), (begin, one.1.max(other.1)), "the side for cleaning first");
        assert_eq!(one.0, if in_turn { other.1 } else { begin });
    }
}

#[test]
fn a_member_that_is_given_up_before_its_turn_is_not_waited_for_and_one_that_fails_counts_no_more() {
    for (fails, left) in [(0, 1), (1, 1)] {
        let mut run = filled(ReadPolicy::Balanced, vec![slow(900), slow(900)]);
        give(&mut run, 1, Class::Foreground, 0);
        run.until(run.now + Nanos::from_millis(10));
        give(&mut run, 3, Class::Background, 5);
        // Of another change, while this one is at the last member, or of this one.
        run.mirror.member(fails).fail(is_change, false);
        if fails == 0 {
            run.send(2, change(7, 8));
        } else {
            give(&mut run, 6, Class::Background, 6);
        }
        let done = run.until(run.now + Nanos::from_secs(1));
        assert_eq!(done.len(), 2, "{done:?}");
        assert!(done.iter().all(|done| done.result.is_ok()), "{done:?}");
        assert_eq!(run.mirror.members_left(), left);
        run.mirror.member(fails).heal();
        for at in 0..BLOCKS {
            assert_eq!(run.read(at), at as u32 + 1);
        }
    }
}
