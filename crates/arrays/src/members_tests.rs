//! What members of an array are given, and how they are heard: never more at once than they take, in order, nobody
//! first, and all of them through one descriptor.

use super::label_rig::{BLOCK, change};
use super::script_rig::*;
use super::*;
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn narrow() -> Scripted {
    let properties = Properties { queue_depth_max: 2, ..plain_properties(1 << 20, 512) };
    Scripted::new(properties, Box::new(MemoryStore::new()), Box::new(|_, _| 10))
}

fn read(at: u64) -> Command {
    Command::Read { offset: at * BLOCK, len: BLOCK as u32 }
}

fn give(disk: &mut dyn Disk, id: u64, command: Command, now: Nanos) {
    let ticket = Ticket::new(nearhead_disk::CommandId(id));
    disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
    disk.kick();
}

#[test]
fn a_member_has_no_more_at_once_than_it_takes_and_gets_the_rest_in_order() {
    let mut members = Members::new(vec![narrow(), narrow()]).unwrap();
    for at in 0..7 {
        members.submit(0, at, Class::Foreground, read(at), Nanos::ZERO);
        let at_disk = members.disk(0).asked().len();
        assert_eq!((members.load(0), at_disk), (at as usize + 1, 2.min(at as usize + 1)));
    }
    for done in 0..7 {
        let at = members.wake_at().unwrap();
        let (member, completion) = members.poll(at).unwrap();
        assert_eq!((member, completion.id.0, members.load(0)), (0, done, 6 - done as usize));
        let asked = members.disk(0).asked();
        let outstanding = asked.len() - done as usize - 1;
        assert_eq!(outstanding, members.load(0).min(2));
        let order: Vec<u64> = asked.iter().filter_map(Asked::reads_at).collect();
        assert_eq!(order, (0..order.len() as u64).map(|at| at * BLOCK).collect::<Vec<_>>());
    }
    assert!(members.wake_at().is_none() && members.poll(Nanos::from_secs(1)).is_none());
}

#[test]
fn members_that_have_answers_are_heard_in_turn() {
    let mut members = Members::new(vec![narrow(), narrow(), narrow()]).unwrap();
    for member in [0, 0, 1, 1, 2, 2] {
        members.submit(member, 1, Class::Foreground, read(0), Nanos::ZERO);
    }
    let heard: Vec<usize> = std::iter::from_fn(|| members.poll(Nanos::from_secs(1)))
        .map(|(member, _)| member)
        .collect();
    assert_eq!(heard, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn what_waits_for_a_member_is_let_go_with_the_array_and_with_its_power() {
    let stripe = || Stripe::new(vec![narrow(), narrow()], 4096).unwrap();
    let fill = |stripe: &mut Stripe<Scripted>| {
        // All of them of one member, of which the queue takes two.
        (0..4).for_each(|id| give(stripe, id, change(2 * id, 1), Nanos::ZERO));
    };
    let mut dropped = stripe();
    fill(&mut dropped);
    drop(dropped);
    let mut taken = stripe();
    fill(&mut taken);
    assert_eq!(taken.into_disks().len(), 2);
    let mut cut = stripe();
    for round in 1..3 {
        fill(&mut cut);
        cut.power_cut(Nanos::ZERO, &mut SplitMix::new(1)).unwrap();
        assert!(cut.wake_at().is_none() && cut.poll(Nanos::from_secs(1)).is_none());
        assert_eq!(cut.report().power_cuts(), round);
        give(&mut cut, 9, read(0), Nanos::ZERO);
        let at = cut.wake_at().expect("the member takes commands again");
        assert_eq!(cut.poll(at).unwrap().id.0, 9);
    }
    cut.reset_report();
    let Report::Array { members, power_cuts } = cut.report() else { panic!("of another kind") };
    assert_eq!((members.iter().map(Report::power_cuts).sum::<u64>(), power_cuts), (0, 0));
}

/// A disk that begins with what it was given when it is told to.
struct Batched {
    disk: InstantDisk,
    accepted: Vec<Submission>,
}

fn batched() -> Batched {
    let properties = Properties { queue_depth_max: 2, ..plain_properties(1 << 20, 512) };
    let disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO);
    Batched { disk, accepted: Vec::new() }
}

impl Disk for Batched {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, submission: Submission, _: Nanos) {
        self.accepted.push(submission);
    }
    fn kick(&mut self) {
        for submission in self.accepted.drain(..) {
            self.disk.submit(submission, Nanos::ZERO);
        }
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

#[test]
fn members_that_begin_when_they_are_told_to_are_told() {
    let arrays: [Box<dyn Disk>; 2] = [
        Box::new(Stripe::new(vec![batched(), batched()], 4096).unwrap()),
        Box::new(Mirror::new(vec![batched(), batched()], ReadPolicy::First).unwrap()),
    ];
    for mut array in arrays {
        let most = u64::from(array.properties().queue_depth_max);
        for id in 0..most {
            give(&mut array, id, change(2 * id, 1), Nanos::ZERO);
        }
        // A member that waits for others is told when it gets them.
        let answered = std::iter::from_fn(|| array.poll(Nanos::ZERO)).count();
        assert_eq!(answered as u64, most, "{}", array.properties().name);
    }
}

/// A disk that wakes who waits for it.
struct Waking {
    disk: InstantDisk,
    wakes: UnixStream,
}

impl Disk for Waking {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.disk.submit(submission, now);
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wakes.as_fd())
    }
}

#[test]
fn an_array_has_a_descriptor_that_is_readable_whenever_one_of_its_members_is() {
    let instant = || {
        let properties = plain_properties(1 << 20, 512);
        InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO)
    };
    let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let disks = theirs.into_iter().map(|wakes| Waking { disk: instant(), wakes }).collect();
    let stripe = Stripe::new(disks, 4096).unwrap();
    let is_readable = || {
        let mut watched = [PollFd::new(&stripe, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    };
    assert!(!is_readable());
    for (index, mut ours) in ours.iter().enumerate() {
        ours.write_all(b"!").unwrap();
        assert!(is_readable(), "member {index}");
        (&stripe.member(index).wakes).read_exact(&mut [0]).unwrap();
        assert!(!is_readable(), "member {index}");
    }
    let plain = Stripe::new(vec![instant(), instant()], 4096).unwrap();
    assert!(plain.wake_fd().is_none(), "no member has one");
}

impl AsFd for Stripe<Waking> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_fd().expect("its members have one")
    }
}

#[test]
fn a_balanced_mirror_reads_on_where_it_read_and_else_from_whoever_has_less_to_do() {
    let disk = || Scripted::small(|_, _| 10);
    let mut mirror = Mirror::new(vec![disk(), disk()], ReadPolicy::Balanced).unwrap();
    let readers = |mirror: &Mirror<Scripted>| {
        [0, 1].map(|index| {
            let asked = mirror.member(index).asked();
            asked.iter().filter_map(Asked::reads_at).map(|at| at / BLOCK).collect::<Vec<_>>()
        })
    };
    // Each block behind the one before it.
    (20..24).for_each(|at| give(&mut mirror, at, read(at), Nanos::ZERO));
    assert_eq!(readers(&mirror), [vec![20, 21, 22, 23], vec![]]);
    // Near to where the first one is, which has more to do, and then as much.
    for at in [26, 28, 30, 32, 34, 36] {
        give(&mut mirror, at, read(at), Nanos::ZERO);
    }
    assert_eq!(readers(&mirror)[1][..4], [26, 28, 30, 32]);
    assert_eq!(readers(&mirror).map(|read| read.len()), [5, 5]);
    while mirror.wake_at().is_some() {
        mirror.poll(Nanos::from_secs(1));
    }
}
