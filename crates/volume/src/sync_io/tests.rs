//! A disk that takes its time, and who hears of it.

use super::*;
use crate::{CreateOptions, NamedPreset, Volume};
use nearhead_disk::{Completion, Properties};
use nearhead_service::Service;
use std::cell::RefCell;
use std::collections::VecDeque;

thread_local! {
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What was told on this thread since the last call.
fn heard() -> Vec<String> {
    tell_of_waits(|event| HEARD.with_borrow_mut(|heard| heard.push(event.to_string())));
    HEARD.take()
}

/// Memory that answers the first command so late, and every other at once.
struct LateDisk {
    properties: Properties,
    bytes: Vec<u8>,
    queue: VecDeque<(Nanos, Submission)>,
    takes: Nanos,
}

impl LateDisk {
    fn new(takes: Nanos) -> Self {
        let properties = Properties {
            physical_sector_bytes: 4096,
            volatile_cache: true,
            trim_reads_zero: true,
            fast_zero: false,
            transfer_bytes_max: 1 << 20,
            queue_depth_max: 4,
            ..Properties::plain("late", 64 << 20, 512)
        };
        let bytes = vec![0; properties.capacity_bytes as usize];
        Self { properties, bytes, queue: VecDeque::new(), takes }
    }
}

impl Disk for LateDisk {
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
        let takes = std::mem::replace(&mut self.takes, Nanos::ZERO);
        self.queue.push_back((now + takes, submission));
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let at = self.queue.iter().position(|(due, _)| *due <= now)?;
        let (_, Submission { ticket, command, .. }) = self.queue.remove(at)?;
        let mut payload = Payload::EMPTY;
        match command {
            Command::Read { offset, len } => {
                let bytes = &self.bytes[offset as usize..offset as usize + len as usize];
                payload = Payload::Bytes(BufferMut::copy_of(bytes).freeze());
            }
            Command::Write { offset, parts, .. } => {
                let mut at = offset as usize;
                for part in parts {
                    part.copy_to(&mut self.bytes[at..at + part.len()]);
                    at += part.len();
                }
            }
            _ => {}
        }
        Some(ticket.complete(Ok(payload)))
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.queue.iter().map(|(due, _)| *due).min()
    }
}

impl Drop for LateDisk {
    fn drop(&mut self) {
        self.queue.drain(..).for_each(|(_, submission)| submission.ticket.abandon());
    }
}

#[test]
fn a_disk_that_lets_one_command_wait_is_told_of_and_so_is_its_answer() {
    heard();
    let mut disk = LateDisk::new(Nanos::from_secs(70));
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    io.read(0, 4096).unwrap();
    let told = heard();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("does not answer: 1 commands wait, the oldest (reading) for 30 s"));
    assert!(told[1].contains("answers again, the slowest command after 70.0 s"), "{told:?}");
}

/// It has left when this time has come, and not before it was asked to.
struct LeavingDisk {
    disk: LateDisk,
    due: Nanos,
    asked: bool,
    left: bool,
}

impl LeavingDisk {
    fn new(due: Nanos) -> Self {
        Self { disk: LateDisk::new(Nanos::ZERO), due, asked: false, left: false }
    }
}

impl Disk for LeavingDisk {
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
        self.left |= self.asked && now >= self.due;
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        (self.asked && !self.left).then_some(self.due)
    }

    fn leave(&mut self) {
        self.asked = true;
    }

    fn has_left(&self) -> bool {
        self.left
    }
}

#[test]
fn leaving_ends_once_every_device_has_left() {
    for (first, second) in [(3, 5), (5, 3)] {
        let mut disk = LeavingDisk::new(Nanos::from_secs(first));
        let mut map = LeavingDisk::new(Nanos::from_secs(second));
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO).with_map(&mut map);
        io.leave().unwrap();
        assert_eq!(io.now(), Nanos::from_secs(5));
        assert!(disk.left && map.left);
    }
}

#[test]
fn in_real_time_a_disk_without_a_descriptor_is_waited_for_until_it_has_something() {
    let mut disk = LateDisk::new(Nanos::from_millis(2));
    let read = SyncIo::in_real_time(&mut disk, Instant::now()).read(0, 4096).unwrap();
    assert_eq!((read.len(), disk.queue.len()), (4096, 0));
}

#[test]
fn a_disk_that_has_nothing_and_announces_nothing_is_an_error_on_either_clock() {
    let mut disk = LateDisk::new(Nanos::ZERO);
    let waits = [
        SyncIo::in_virtual_time(&mut disk, Nanos::ZERO).wait(),
        SyncIo::in_real_time(&mut disk, Instant::now()).wait(),
    ];
    for wait in waits {
        let error = wait.unwrap_err();
        assert!(error.detail.contains("late: a command neither completed nor will"), "{error:?}");
    }
}

#[test]
fn a_disk_that_answers_in_time_is_not_told_of() {
    heard();
    let mut disk = LateDisk::new(Nanos::from_secs(29));
    SyncIo::in_virtual_time(&mut disk, Nanos::ZERO).read(0, 4096).unwrap();
    assert_eq!(heard(), Vec::<String>::new());
}

#[test]
fn a_disk_that_stalls_during_recovery_is_told_of_while_it_does() {
    heard();
    let mut disk = LateDisk::new(Nanos::ZERO);
    let options = CreateOptions::new([7; 16], NamedPreset::by_name("mlb").unwrap());
    crate::create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options).unwrap();
    let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| {}).unwrap();
    // The next command is the first of recovery.
    volume.disk_mut().takes = Nanos::from_secs(70);
    let now = volume.run_until_open(now).unwrap();
    assert!(now >= Nanos::from_secs(70));
    let told = heard();
    assert!(told.iter().any(|line| line.contains("the disk does not answer")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("the disk answers again")), "{told:?}");
    volume.begin_shutdown(now);
}
