//! What a disk leaves out is asked of the disk below it, and only there.

use super::*;
use crate::{Command, DiskErrorKind, Payload, Region, RegionKind, Ticket, Woken};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

const CAPACITY_BYTES: u64 = 1 << 20;
const KNOWN: Run = Run { len: 512, zero: true };

fn properties() -> Properties {
    Properties {
        volatile_cache: true,
        fast_zero: false,
        transfer_bytes_max: 1 << 16,
        queue_depth_max: 7,
        ..Properties::plain("told", CAPACITY_BYTES, 512)
    }
}

/// A disk with an answer of its own to everything.
struct Telling {
    properties: Properties,
    zones: Zones,
    descriptor: OwnedFd,
    accepted: Vec<Submission>,
    kicks: u32,
    restarts: u32,
    is_left: bool,
    rests_after: Option<Nanos>,
    woken_at: Option<Nanos>,
    is_released: bool,
}

impl Telling {
    fn new() -> Self {
        let region = Region { offset: 0, len: CAPACITY_BYTES, kind: RegionKind::NonShingled };
        let nothing = std::fs::File::open("/dev/null").expect("every Unix has it");
        Self {
            properties: properties(),
            zones: Zones::new(vec![region], CAPACITY_BYTES).expect("one region is the whole disk"),
            descriptor: nothing.into(),
            accepted: Vec::new(),
            kicks: 0,
            restarts: 0,
            is_left: false,
            rests_after: None,
            woken_at: None,
            is_released: false,
        }
    }
}

#[warn(clippy::missing_trait_methods)]
impl Disk for Telling {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        self.accepted.push(submission);
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        self.accepted.pop().map(|submission| submission.ticket.complete(Ok(Payload::EMPTY)))
    }

    fn wake_at(&self) -> Option<Nanos> {
        Some(Nanos(5))
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn kick(&mut self) {
        self.kicks += 1;
    }

    fn zones(&self) -> Option<&Zones> {
        Some(&self.zones)
    }

    fn run_at(&self, offset: u64) -> Run {
        if offset == 512 { KNOWN } else { Run::UNKNOWN }
    }

    fn is_absent(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<String> {
        Some("it smokes".to_owned())
    }

    fn lost_writes(&self) -> Option<&str> {
        Some("a page is gone")
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        self.restarts += 1;
        Err(DiskError { kind: DiskErrorKind::Gone, detail: "it burns".to_owned() })
    }

    fn leave(&mut self) {
        self.is_left = true;
    }

    fn has_left(&self) -> bool {
        self.is_left
    }

    fn let_rest(&mut self, after: Option<Nanos>) {
        self.rests_after = after;
    }

    fn expect_writes(&mut self, now: Nanos) {
        self.woken_at = Some(now);
    }

    fn sides(&self, now: Nanos) -> Vec<Side> {
        let resting_for = self.woken_at.is_none().then_some(now);
        let name = format!("{:?}", self.rests_after);
        vec![Side { name, resting_for, idle: now, rested: now, woken: Woken::default() }]
    }

    fn resilvers(&self) -> Vec<Resilver> {
        vec![Resilver { name: "pair".to_owned(), dirty_bytes: 5, left_bytes: 7, replacing: None }]
    }

    fn release(&mut self) {
        self.is_released = true;
    }

    fn release_replaced(&mut self) -> bool {
        self.is_released
    }
}

/// A disk that says what it has to say, and what is below it.
struct Before<D>(D);

impl<D: Disk> Disk for Before<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.0)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.0)
    }

    fn properties(&self) -> &Properties {
        self.0.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.0.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.0.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.0.wake_at()
    }
}

/// A disk that says what it has to say, and nothing is below it.
struct Plain(Properties);

impl Disk for Plain {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.0
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        submission.ticket.abandon();
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        None
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}

fn descriptor_of(disk: &dyn Disk) -> Option<RawFd> {
    disk.wake_fd().map(|fd| fd.as_raw_fd())
}

/// Asks everything that can be asked, and compares with what a [`Telling`] with this `descriptor` says.
fn assert_tells_all(disk: &mut dyn Disk, descriptor: RawFd) {
    let now = Nanos::ZERO;
    let submission = |id: u64| Submission {
        ticket: Ticket::new(crate::CommandId(id)),
        class: crate::Class::Bulk,
        command: Command::Flush,
    };
    assert_eq!(disk.properties(), &properties());
    disk.submit(submission(9), now);
    assert_eq!(disk.poll(now).map(|done| done.id.0), Some(9));
    assert_eq!(disk.wake_at(), Some(Nanos(5)));
    assert_eq!(descriptor_of(disk), Some(descriptor));
    assert!(disk.zones().is_some());
    assert_eq!((disk.run_at(0), disk.run_at(512)), (Run::UNKNOWN, KNOWN));
    assert_eq!(disk.trouble().as_deref(), Some("it smokes"));
    assert_eq!(disk.lost_writes(), Some("a page is gone"));
    assert!(disk.is_absent());
    disk.kick();
    assert_eq!(disk.start_over().map_err(|error| error.detail), Err("it burns".to_owned()));
    assert!(!disk.has_left(), "nobody asked it to leave");
    disk.leave();
    assert!(disk.has_left());
    let side = |resting_for| Side {
        name: "Some(Nanos(7))".into(),
        resting_for,
        idle: Nanos(9),
        rested: Nanos(9),
        woken: Woken::default(),
    };
    disk.let_rest(Some(Nanos(7)));
    assert_eq!(disk.sides(Nanos(9)), [side(Some(Nanos(9)))]);
    disk.expect_writes(Nanos(8));
    assert_eq!(disk.sides(Nanos(9)), [side(None)]);
    assert_eq!(disk.resilvers()[0].left_bytes, 7);
    assert!(!disk.release_replaced());
    disk.release();
    assert!(disk.release_replaced());
}

#[test]
fn who_says_only_what_must_be_said_gives_every_answer_of_the_disk_below() {
    let told = Telling::new();
    let descriptor = told.descriptor.as_raw_fd();
    let mut disk = Before(told);
    assert_tells_all(&mut disk, descriptor);
    assert_eq!((disk.0.kicks, disk.0.restarts), (1, 1), "each is handed on once");
}

#[test]
fn the_answers_come_through_any_number_of_disks_and_boxes() {
    let told: Box<dyn Disk> = Box::new(Telling::new());
    let descriptor = descriptor_of(&*told).expect("it has one");
    let mut disk: Box<dyn Disk + Send> = Box::new(Before(Box::new(Plain(properties()))));
    assert!(disk.below().is_some_and(|below| below.below().is_none()));
    assert!(disk.below_mut().is_some());
    disk.kick();
    let mut disk = Before(Box::new(Before(told)));
    assert_tells_all(&mut disk, descriptor);
}

#[test]
fn a_disk_with_nothing_below_has_the_answers_of_a_plain_one() {
    let mut disk = Plain(properties());
    assert!(disk.wake_fd().is_none() && disk.zones().is_none());
    assert_eq!(disk.run_at(512), Run::UNKNOWN);
    assert_eq!((disk.trouble(), disk.lost_writes()), (None, None));
    assert!(!disk.is_absent() && disk.resilvers().is_empty());
    disk.release();
    assert!(disk.release_replaced(), "none is held");
    disk.kick();
    assert!(disk.start_over().is_ok());
    assert!(disk.has_left(), "there is nothing to put down");
    disk.leave();
    assert!(disk.has_left());
}
