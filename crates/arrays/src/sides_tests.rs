//! Laws of who serves a read: nobody who waits stands behind cleaning while there is another member, and nothing is lost
//! where there is no cleaning or no other member.

use super::label_rig::*;
use super::script_rig::*;
use super::*;
use nearhead_disk::{CommandId, Payload};

/// Reads of a block, each of a class, given to the mirror so many microseconds after the one before it.
type Load = Vec<(u64, Class, u64)>;

const CLIENTS: [Class; 3] = [Class::Durable, Class::Foreground, Class::Bulk];

fn load(seed: u64, classes: &[Class]) -> Load {
    let mut random = SplitMix::new(seed);
    let mut one = || {
        let class = classes[random.below(classes.len() as u64) as usize];
        (random.below(200), class, random.below(BLOCKS))
    };
    (0..200).map(|_| one()).collect()
}

fn slow(random_us: u64) -> Scripted {
    Scripted::small(move |_, command| match command {
        Command::Read { offset, .. } => 50 + offset / BLOCK * 37 % random_us,
        _ => 10,
    })
}

fn read_at(run: &mut Run<Scripted>, id: u64, class: Class, block: u64) {
    let command = Command::Read { offset: block * BLOCK, len: BLOCK as u32 };
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
        read_at(run, id as u64, *class, *block);
    }
    done.extend(run.until(run.now + Nanos::from_secs(1)));
    assert_eq!(done.len(), load.len(), "every read is answered");
    for answer in done {
        let expected = load[answer.id.0 as usize].2 as u32 + 1;
        let Payload::Bytes(found) = answer.result.unwrap() else { panic!("bytes") };
        assert_eq!(version(&found), expected);
    }
    let asked = |index: usize| run.mirror.member(index).asked().split_off(before[index]);
    (0..members).map(asked).collect()
}

fn filled(policy: ReadPolicy, disks: Vec<Scripted>) -> Run<Scripted> {
    let text = if disks.len() == 3 { "mirror:a,b,c" } else { "mirror:a,b" };
    let mut run = fresh(text, disks);
    run.mirror.arrangement.sides = sides::Sides::new(policy, run.mirror.core.members.len(), true);
    (0..BLOCKS).for_each(|block| run.write(block, block as u32 + 1));
    run
}

/// Reads that somebody waits for which were given to a member that had a background read to answer.
fn behind_cleaning(asked: &[Asked]) -> usize {
    let is_background =
        |other: &&Asked| other.class == Class::Background && other.reads_at().is_some();
    let waits = |place: usize, read: &Asked| {
        asked[..place].iter().filter(is_background).any(|other| other.ends > read.at)
    };
    let clients = asked.iter().enumerate().filter(|(_, read)| read.class != Class::Background);
    clients.filter(|(place, read)| read.reads_at().is_some() && waits(*place, read)).count()
}

fn reads_of(asked: &[Asked], class: Class) -> usize {
    asked.iter().filter(|read| read.class == class && read.reads_at().is_some()).count()
}

#[test]
fn no_read_that_somebody_waits_for_is_given_to_a_member_that_cleaning_reads_from() {
    let all = [&CLIENTS[..], &[Class::Background]].concat();
    let mut would_wait = 0;
    for policy in [ReadPolicy::First, ReadPolicy::Balanced] {
        for (seed, members) in (0..40).zip([2, 3].into_iter().cycle()) {
            let load = load(seed, &all);
            let disks = || (0..members).map(|_| slow(900)).collect();
            let asked = carried_out(&mut filled(policy, disks()), &load);
            let behind: Vec<usize> = asked.iter().map(|asked| behind_cleaning(asked)).collect();
            assert_eq!(behind, vec![0; members], "{policy:?}, seed {seed}");
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
            would_wait += asked.iter().map(|asked| behind_cleaning(asked)).sum::<usize>();
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
        (reads_of(&asked[0], Class::Background), behind_cleaning(&asked[0])),
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
    assert_eq!((asked[0].len(), asked[1].len()), (load.len(), 0));
}
