//! Arrays opened to be looked at, used or made anew: what is written to their members, and who of them is asked.

use super::label_rig::{BLOCK, block, change, run_one, version};
use super::script_rig::*;
use super::*;
use nearhead_disk::{CommandId, Payload, Striping, WholeRuns};
use std::cell::RefCell;
use std::rc::Rc;

type Shared = Rc<RefCell<Scripted>>;

/// A disk that outlives the array that has it.
struct Lent {
    properties: Properties,
    disk: Shared,
}

impl Disk for Lent {
    /// Nobody can be lent what is behind the cell.
    fn below(&self) -> Option<&dyn Disk> {
        None
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }
    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.disk.borrow_mut().submit(submission, now);
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.borrow_mut().poll(now)
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.disk.borrow().wake_at()
    }
}

fn shared(count: usize) -> Vec<Shared> {
    (0..count).map(|_| Rc::new(RefCell::new(Scripted::small(|_, _| 10)))).collect()
}

/// Opens the array of those of `disks` that the text does not call missing.
fn opened(text: &str, disks: &[Shared], purpose: Purpose) -> Box<dyn Disk> {
    let spec = ArraySpec::parse(text).unwrap();
    let lend = |(name, disk): (&String, &Shared)| {
        let properties = disk.borrow().properties().clone();
        (name != MISSING).then(|| Lent { properties, disk: Rc::clone(disk) })
    };
    let members = spec.members.iter().zip(disks).map(lend).collect();
    open(&spec, members, purpose, &mut run_one).unwrap().0
}

fn made(text: &str, disks: &[Shared]) -> Box<dyn Disk> {
    opened(text, disks, Purpose::Make { array_id: [4; 16], anew: false, whole_runs: None })
}

/// Does what an array does by itself until `until`.
fn idle(array: &mut dyn Disk, until: Nanos) {
    let mut now = Nanos::ZERO;
    loop {
        while array.poll(now).is_some() {}
        match array.wake_at().filter(|at| *at <= until) {
            Some(at) => now = at.max(now),
            None => return,
        }
    }
}

fn wait(array: &mut dyn Disk, command: Command) -> Payload {
    let ticket = Ticket::new(CommandId(77));
    array.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
    let mut now = Nanos::ZERO;
    loop {
        if let Some(done) = array.poll(now) {
            return done.result.unwrap();
        }
        now = array.wake_at().expect("a command is outstanding").max(now);
    }
}

fn read(array: &mut dyn Disk, at: u64) -> u32 {
    let payload = wait(array, Command::Read { offset: at * BLOCK, len: BLOCK as u32 });
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    version(&bytes)
}

fn label(disk: &Shared) -> Option<Label> {
    label_of(&mut *disk.borrow_mut(), &mut run_one).unwrap()
}

fn leave(array: &mut dyn Disk) {
    array.leave();
    idle(array, Nanos::from_secs(9));
    assert!(array.has_left());
}

fn changes(disks: &[Shared]) -> usize {
    let of_one = |disk: &Shared| {
        disk.borrow().asked().iter().filter(|asked| is_change(&asked.command)).count()
    };
    disks.iter().map(of_one).sum()
}

/// Whatever state the members are in, who looks sees what counts and changes nothing, however long it stays.
#[test]
fn who_looks_sees_what_counts_and_writes_nothing() {
    for state in ["in order", "in use", "one behind", "one away", "a stripe"] {
        let disks = shared(2);
        let (kind, mut text) = match state {
            "a stripe" => ("raid0:a,b", "raid0:a,b"),
            _ => ("mirror:a,b", "mirror:a,b"),
        };
        let mut array = made(kind, &disks);
        wait(&mut array, change(3, 1));
        let mut newest = 1;
        if state != "in use" {
            leave(&mut array);
        }
        drop(array);
        if state == "one behind" || state == "one away" {
            let mut array = opened("mirror:missing,b", &disks, Purpose::Use);
            wait(&mut array, change(3, 2));
            newest = 2;
            if state == "one away" {
                text = "mirror:missing,b";
            }
        }
        let before = changes(&disks);
        let mut array = opened(text, &disks, Purpose::Look);
        assert_eq!(read(&mut array, 3), newest, "{state}");
        idle(&mut array, Nanos::from_secs(9));
        assert_eq!(array.wake_at(), None, "{state}: there is nothing to do");
        array.leave();
        assert!(array.has_left(), "{state}: there is nothing to take back");
        idle(&mut array, Nanos::from_secs(9));
        assert_eq!((read(&mut array, 3), changes(&disks)), (newest, before), "{state}");
        let trouble = array.trouble().unwrap_or_default();
        let expected = match state {
            "in order" | "a stripe" => "",
            "in use" => "was not left in order",
            _ => "1 of 2 members left: the others are not named",
        };
        assert!(
            trouble.contains(expected) && trouble.is_empty() == expected.is_empty(),
            "{trouble}"
        );
    }
}

#[test]
fn who_uses_it_marks_it_first_brings_all_up_to_date_and_takes_the_mark_back() {
    let disks = shared(2);
    let mut array = made("mirror:a,b", &disks);
    for disk in &disks {
        disk.borrow().script.lock().unwrap().asked.clear();
    }
    wait(&mut array, change(3, 1));
    for disk in &disks {
        let asked = disk.borrow().asked();
        let first = asked.iter().position(|asked| asked.changes_at().is_some()).unwrap();
        let told = labels(&asked[..first]);
        assert!(told.last().is_some_and(|(.., label)| label.in_use), "{asked:?}");
    }
    // It was not left in order: used again, its members are made alike, and the mark goes when that is left.
    drop(array);
    run_one(&mut disks[1].borrow_mut().disk, change(5, 9)).unwrap();
    let mut array = opened("mirror:a,b", &disks, Purpose::Use);
    idle(&mut array, Nanos::from_secs(9));
    assert_eq!(array.trouble(), None);
    leave(&mut array);
    drop(array);
    assert!(disks.iter().all(|disk| !label(disk).unwrap().in_use));
    // A member that was away is one again.
    let mut array = opened("mirror:a,missing", &disks, Purpose::Use);
    wait(&mut array, change(3, 4));
    leave(&mut array);
    drop(array);
    let mut array = opened("mirror:a,b", &disks, Purpose::Use);
    idle(&mut array, Nanos::from_secs(9));
    assert_eq!(array.trouble(), None);
    for disk in disks {
        let command = Command::Read { offset: 3 * BLOCK, len: BLOCK as u32 };
        let Payload::Bytes(bytes) = run_one(&mut *disk.borrow_mut(), command).unwrap() else {
            panic!("it keeps content")
        };
        assert_eq!(version(&bytes), 4);
    }
}

#[test]
fn disks_that_are_made_a_new_array_of_keep_the_label_before_in_the_other_slot() {
    let disks = shared(2);
    drop(made("mirror:a,b", &disks));
    for turn in 5..9 {
        let before: Vec<Label> = disks.iter().map(|disk| label(disk).unwrap()).collect();
        drop(opened(
            "mirror:a,b",
            &disks,
            Purpose::Make { array_id: [turn; 16], anew: true, whole_runs: None },
        ));
        for (disk, before) in disks.iter().zip(before) {
            let now = label(disk).unwrap();
            assert_eq!((now.array_id, now.sequence), ([turn; 16], before.sequence + 1));
            let asked = disk.borrow().asked();
            let told = labels(&asked);
            let [.., (_, one, _), (_, other, _)] = told[..] else { panic!("two labels") };
            assert_ne!(one, other, "the slots are used in turn");
        }
    }
}

/// One that was away has an older label, and the slot of that may be the one that the others use next.
#[test]
fn no_label_is_written_over_the_newest_one_of_its_member_however_long_that_was_away() {
    for times in 0..5 {
        let disks = shared(2);
        drop(made("mirror:a,b", &disks));
        for alone in ["mirror:a,missing", "mirror:missing,b"] {
            for _ in 0..times {
                drop(opened(alone, &disks[..], Purpose::Use));
            }
            let mut array = opened("mirror:a,b?take=1", &disks, Purpose::Use);
            idle(&mut array, Nanos::from_secs(9));
            leave(&mut array);
        }
        for disk in &disks {
            let asked = disk.borrow().asked();
            let offsets: Vec<u64> = labels(&asked).iter().map(|(_, offset, _)| *offset).collect();
            assert!(offsets.len() > 2, "{offsets:?}");
            let is_in_turn = offsets.windows(2).all(|two| two[0] != two[1]);
            assert!(is_in_turn, "{times} times alone: {offsets:?}");
        }
    }
}

#[test]
fn a_disk_whose_label_is_removed_is_a_disk_like_any_other() {
    let disks = shared(2);
    drop(made("raid0:a,b", &disks));
    assert!(!label(&disks[0]).unwrap().is_mirror());
    run_one(
        &mut *disks[0].borrow_mut(),
        Command::Write { offset: 0, parts: vec![block(7)], durable: true },
    )
    .unwrap();
    remove_label(&mut *disks[0].borrow_mut(), &mut run_one).unwrap();
    assert_eq!(label(&disks[0]), None);
    assert!(label(&disks[1]).is_some());
    let found =
        run_one(&mut *disks[0].borrow_mut(), Command::Read { offset: 0, len: BLOCK as u32 });
    let Payload::Bytes(bytes) = found.unwrap() else { panic!("it keeps content") };
    assert_eq!(version(&bytes), 7, "and keeps what it held");
}

#[test]
fn an_array_made_with_runs_on_one_member_has_them_whenever_it_is_opened_and_no_other_has() {
    let text = "raid0:a,b?chunk=4k";
    let disks = shared(2);
    let runs = WholeRuns { first_byte: 2 * BLOCK, every_bytes: 6 * BLOCK, bytes: 3 * BLOCK };
    let purpose = Purpose::Make { array_id: [4; 16], anew: false, whole_runs: Some(runs) };
    let mut array = opened(text, &disks, purpose);
    let blocks = array.properties().capacity_bytes / BLOCK;
    for at in 0..blocks {
        wait(&mut *array, change(at, at as u32 + 1));
    }
    drop(array);
    for purpose in [Purpose::Look, Purpose::Use] {
        let mut array = opened(text, &disks, purpose);
        let found = array.properties().striping.and_then(Striping::whole_runs);
        assert_eq!((found, array.properties().capacity_bytes / BLOCK), (Some(runs), blocks));
        for at in 0..blocks {
            assert_eq!(read(&mut *array, at), at as u32 + 1, "block {at}, {purpose:?}");
        }
    }
    // The first run is on the first member, the next one on the second.
    let striping = opened(text, &disks, Purpose::Look).properties().striping.unwrap();
    let members = [2, 4, 8, 10].map(|at| striping.member_of(at * BLOCK));
    assert_eq!(members, [0, 0, 1, 1]);
    let others = shared(2);
    drop(made(text, &others));
    let mixed = [Rc::clone(&disks[0]), Rc::clone(&others[1])];
    let spec = ArraySpec::parse(text).unwrap();
    let lent = mixed.iter().map(|disk| {
        let properties = disk.borrow().properties().clone();
        Some(Lent { properties, disk: Rc::clone(disk) })
    });
    let told = open(&spec, lent.collect(), Purpose::Use, &mut run_one).err().unwrap();
    assert!(told.detail.contains("expected the runs on one member that"), "{told}");
}
