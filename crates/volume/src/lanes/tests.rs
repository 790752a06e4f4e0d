//! Two devices as lanes: what is asked of a volume's disk is asked of both, whichever of them has something to say.

use super::*;
use nearhead_disk::{Class, Command, CommandId, Payload, Ticket};
use nearhead_models::plain_properties;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

/// A device that says what a test wants, and holds its answers until it is kicked.
struct Device {
    properties: Properties,
    held: Vec<Completion>,
    done: Vec<Completion>,
    wake_at: Option<Nanos>,
    wake: Option<(PipeReader, PipeWriter)>,
    trouble: Option<String>,
    lost: Option<String>,
    leaves: u32,
    starts_over: u32,
    rests_after: Option<Nanos>,
    expected_at: Vec<Nanos>,
    releases: u32,
}

fn device(name: &str) -> Device {
    Device {
        properties: Properties { name: name.to_owned(), ..plain_properties(1 << 20, 512) },
        held: Vec::new(),
        done: Vec::new(),
        wake_at: None,
        wake: None,
        trouble: None,
        lost: None,
        leaves: 0,
        starts_over: 0,
        rests_after: None,
        expected_at: Vec::new(),
        releases: 0,
    }
}

#[warn(clippy::missing_trait_methods)]
impl Disk for Device {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _: Nanos) {
        self.held.push(submission.ticket.complete(Ok(Payload::EMPTY)));
    }

    fn kick(&mut self) {
        self.done.append(&mut self.held);
    }

    fn poll(&mut self, _: Nanos) -> Option<Completion> {
        self.done.pop()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(|(readable, _)| readable.as_fd())
    }

    fn zones(&self) -> Option<&nearhead_disk::Zones> {
        None
    }

    fn run_at(&self, _: u64) -> nearhead_disk::Run {
        nearhead_disk::Run::UNKNOWN
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn lost_writes(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        self.starts_over += 1;
        self.lost = None;
        Ok(())
    }

    fn leave(&mut self) {
        self.leaves += 1;
    }

    fn has_left(&self) -> bool {
        self.leaves > 1
    }

    fn let_rest(&mut self, after: Option<Nanos>) {
        self.rests_after = after;
    }

    fn expect_writes(&mut self, now: Nanos) {
        self.expected_at.push(now);
    }

    fn sides(&self, _: Nanos) -> Vec<nearhead_disk::Side> {
        Vec::new()
    }

    fn resilvers(&self) -> Vec<nearhead_disk::Resilver> {
        Vec::new()
    }

    fn release(&mut self) {}

    fn release_replaced(&mut self) -> bool {
        self.releases += 1;
        self.releases > 1
    }
}

fn both() -> Lanes<Device> {
    Lanes::with_map(device("disk"), device("map")).unwrap()
}

/// Both lanes of one, by number.
fn lane(lanes: &mut Lanes<Device>, number: usize) -> &mut Device {
    if number == 0 { lanes.main_mut() } else { lanes.map_mut().unwrap() }
}

#[test]
fn a_command_goes_to_its_lane_and_its_answer_comes_once_that_is_kicked() {
    for number in 0..2 {
        let mut lanes = both();
        let ticket = Ticket::new(CommandId(7));
        let submission = Submission { ticket, class: Class::Durable, command: Command::Flush };
        lanes.submit(Lane(number), submission, Nanos::ZERO);
        assert_eq!(lane(&mut lanes, number.into()).held.len(), 1);
        assert!(lanes.poll(Nanos::ZERO).is_none());
        lanes.kick();
        assert_eq!(lanes.poll(Nanos::ZERO).map(|done| done.id), Some(CommandId(7)));
        assert!(lanes.poll(Nanos::ZERO).is_none());
    }
}

#[test]
fn each_is_there_under_its_own_name_and_comes_back() {
    let lanes = both();
    assert_eq!(lanes.properties().name, "disk");
    assert_eq!(
        (&*lanes.main().properties.name, &*lanes.map().unwrap().properties.name),
        ("disk", "map")
    );
    let data = vec![device("first"), device("second")];
    let mut lanes = lanes.with_data(data).unwrap();
    let names = |lanes: &Lanes<Device>| {
        lanes.data_properties().into_iter().map(|other| other.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&lanes), ["first", "second"]);
    lanes.arrange(&[1, 0]);
    assert_eq!(names(&lanes), ["second", "first"]);
    lanes.arrange(&[1]);
    assert_eq!(names(&lanes), ["first", "second"], "none is dropped");
    let (main, map) = lanes.into_parts();
    assert_eq!((&*main.properties.name, &*map.unwrap().properties.name), ("disk", "map"));
    let alone = Lanes::from(device("disk"));
    assert!(alone.map().is_none() && alone.data_properties().is_empty());
}

#[test]
fn what_either_of_them_says_is_said() {
    for number in 0..2 {
        let mut lanes = both();
        assert_eq!((lanes.trouble(), lanes.lost_writes(), lanes.wake_at()), (None, None, None));
        let device = lane(&mut lanes, number);
        device.trouble = Some("a member is gone".to_owned());
        device.lost = Some("a page".to_owned());
        device.wake_at = Some(Nanos(9));
        assert_eq!(lanes.trouble().as_deref(), Some("a member is gone"));
        assert_eq!((lanes.lost_writes(), lanes.wake_at()), (Some("a page"), Some(Nanos(9))));
        lane(&mut lanes, 1 - number).wake_at = Some(Nanos(8));
        assert_eq!(lanes.wake_at(), Some(Nanos(8)), "whichever comes first");
        lanes.start_over().unwrap();
        let starts = [0, 1].map(|number| lane(&mut lanes, number).starts_over);
        assert_eq!(starts, [u32::from(number == 0), u32::from(number == 1)]);
        assert_eq!(lanes.lost_writes(), None);
    }
}

#[test]
fn they_have_left_once_both_have() {
    let mut lanes = both();
    lanes.leave();
    assert!(!lanes.has_left());
    lanes.leave();
    assert!(lanes.has_left());
    for number in 0..2 {
        lane(&mut lanes, number).leaves = 1;
        assert!(!lanes.has_left(), "lane {number}");
        lane(&mut lanes, number).leaves = 2;
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn one_descriptor_is_readable_when_that_of_either_is() {
    assert!(both().wake_fd().is_none());
    for (has_first, has_second) in [(true, false), (false, true), (true, true)] {
        let (mut main, mut map) = (device("disk"), device("map"));
        main.wake = has_first.then(|| pipe().unwrap());
        map.wake = has_second.then(|| pipe().unwrap());
        let mut lanes = Lanes::with_map(main, map).unwrap();
        assert!(!is_readable(lanes.wake_fd().unwrap()));
        for number in 0..2 {
            let Some((_, writable)) = &mut lane(&mut lanes, number).wake else { continue };
            writable.write_all(&[1]).unwrap();
            assert!(is_readable(lanes.wake_fd().unwrap()), "lane {number}");
            let Some((readable, _)) = &mut lane(&mut lanes, number).wake else { continue };
            readable.read_exact(&mut [0; 1]).unwrap();
            assert!(!is_readable(lanes.wake_fd().unwrap()), "lane {number}");
        }
    }
    let mut alone = device("disk");
    alone.wake = Some(pipe().unwrap());
    assert!(Lanes::from(alone).wake_fd().is_some());
}

#[test]
fn what_may_rest_is_said_to_all_of_them_and_writes_are_expected_of_the_one_that_is_meant() {
    let mut lanes = both().with_data(vec![device("one"), device("other")]).unwrap();
    lanes.let_rest(Some(Nanos(7)));
    assert!(lanes.all().all(|device| device.rests_after == Some(Nanos(7))));
    let each = [
        (Lane::MAIN, "disk"),
        (Lane::MAP, "map"),
        (Lane::data(0), "one"),
        (Lane::data(1), "other"),
    ];
    for (lane, name) in each {
        let device = lanes.at_mut(lane).unwrap();
        device.expect_writes(Nanos(5));
        assert_eq!((device.properties.name.as_str(), device.expected_at.len()), (name, 1));
    }
    assert!(lanes.at_mut(Lane::data(2)).is_none());
}

#[test]
fn replaced_members_are_released_on_all_devices() {
    let mut lanes = both().with_data(vec![device("one"), device("other")]).unwrap();
    lane(&mut lanes, 1).releases = 1;
    assert!(!lanes.release_replaced(), "of all but one a member is busy");
    assert!(lanes.release_replaced());
    assert!(lanes.all().all(|device| device.releases > 1));
}
