//! Laws of the crash disk: what is safe, what may be lost, and what can never come back.

use crate::{CrashDisk, MemoryStore, Store};
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket,
};

struct Host {
    disk: CrashDisk,
    next_id: u64,
}

impl Host {
    fn new() -> Self {
        Self { disk: CrashDisk::new(1 << 20, 512), next_id: 0 }
    }

    fn submit(&mut self, command: Command) {
        self.next_id += 1;
        let ticket = Ticket::new(CommandId(self.next_id));
        self.disk.submit(Submission { ticket, class: Class::Durable, command }, Nanos::ZERO);
    }

    fn write(&mut self, offset: u64, byte: u8, sectors: usize, durable: bool) {
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&vec![byte; 512 * sectors]).freeze())];
        self.submit(Command::Write { offset, parts, durable });
    }

    fn poll(&mut self) -> Payload {
        self.disk.poll(Nanos::ZERO).expect("a completion").result.expect("a success")
    }
}

fn byte(image: &MemoryStore, offset: u64) -> u8 {
    let mut bytes = [0; 512];
    image.read(offset, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&other| other == bytes[0]), "sectors are never torn inside");
    bytes[0]
}

/// The contents that sector 0 may have after a cut now.
fn outcomes(disk: &CrashDisk) -> Vec<u8> {
    let count = disk.unflushed().len();
    let mut found: Vec<u8> =
        (0..1_u64 << count).map(|bits| byte(&disk.image_with(bits), 0)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn a_write_is_unsafe_until_a_flush_that_covers_it_was_answered() {
    let mut host = Host::new();
    host.write(0, 1, 1, false);
    assert_eq!(outcomes(&host.disk), [0, 1]);
    host.poll();
    assert_eq!(outcomes(&host.disk), [0, 1], "complete is not safe");
    host.submit(Command::Flush);
    assert_eq!(outcomes(&host.disk), [0, 1], "the flush was not answered");
    host.poll();
    assert_eq!(outcomes(&host.disk), [1]);
}

#[test]
fn what_was_lost_never_comes_back_and_the_rest_is_no_safer() {
    for seed in 0..50 {
        let mut host = Host::new();
        host.write(0, 1, 1, true);
        host.poll();
        host.write(0, 2, 8, false);
        host.write(8192, 3, 1, false);
        host.poll();
        host.poll();
        host.disk.lose(&mut SplitMix::new(seed), &|offset| offset == 8192);
        assert!(outcomes(&host.disk).contains(&1), "what was left of it became safe");
        host.submit(Command::Read { offset: 0, len: 512 });
        let mut found = [0; 512];
        host.poll().copy_to(&mut found);
        host.submit(Command::Flush);
        host.poll();
        assert_eq!(outcomes(&host.disk), [found[0]], "a flush keeps what was left");
        let image = host.disk.image_with(u64::MAX);
        assert_eq!(byte(&image, 8192), 0, "the sector that is never written");
    }
}

#[test]
fn a_flush_does_not_cover_what_was_not_complete_when_it_was_submitted() {
    let mut host = Host::new();
    host.write(0, 1, 1, false);
    host.submit(Command::Flush);
    host.poll();
    host.poll();
    assert_eq!(outcomes(&host.disk), [0, 1]);
}

#[test]
fn a_durable_write_is_safe_once_answered_and_hides_what_came_before() {
    let mut host = Host::new();
    host.write(0, 1, 1, false);
    host.poll();
    host.write(0, 2, 1, true);
    assert_eq!(outcomes(&host.disk), [0, 1, 2]);
    host.poll();
    assert_eq!(outcomes(&host.disk), [2], "neither zeros nor 1 can come back");
    host.write(0, 3, 1, false);
    assert_eq!(outcomes(&host.disk), [2, 3]);
}

#[test]
fn readers_see_a_safe_write_over_an_older_one_that_is_not() {
    let mut host = Host::new();
    host.write(0, 1, 2, false);
    host.poll();
    host.write(0, 2, 1, true);
    host.poll();
    host.submit(Command::Read { offset: 0, len: 1024 });
    match host.poll() {
        Payload::Bytes(bytes) => assert_eq!((bytes[0], bytes[512]), (2, 1)),
        other => panic!("expected bytes, found {other:?}"),
    }
}

#[test]
fn command_ids_that_come_again_do_not_make_an_older_write_safe() {
    let mut host = Host::new();
    host.write(0, 1, 1, false);
    host.poll();
    host.next_id = 0;
    host.write(512, 2, 1, true);
    host.poll();
    assert_eq!(outcomes(&host.disk), [0, 1]);
}

#[test]
fn sectors_survive_one_by_one_and_readers_see_the_newest() {
    let mut host = Host::new();
    host.write(0, 9, 2, false);
    let image = host.disk.image_after(&|_, sector| sector == 1);
    assert_eq!((byte(&image, 0), byte(&image, 512)), (0, 9));
    host.write(512, 5, 1, false);
    host.poll();
    host.poll();
    host.submit(Command::Read { offset: 0, len: 1536 });
    match host.poll() {
        Payload::Bytes(bytes) => {
            assert_eq!((bytes[0], bytes[512], bytes[1024]), (9, 5, 0));
        }
        other => panic!("expected bytes, found {other:?}"),
    }
}

#[test]
fn after_a_cut_the_disk_goes_on_with_one_of_the_outcomes() {
    let mut found = [0; 3];
    for seed in 0..200 {
        let mut host = Host::new();
        host.write(0, 1, 1, true);
        host.poll();
        host.write(0, 2, 1, false);
        host.disk.power_cut(&mut SplitMix::new(seed));
        assert!(host.disk.unflushed().is_empty() && host.disk.wake_at().is_none());
        found[usize::from(outcomes(&host.disk)[0])] += 1;
    }
    assert!(found[0] == 0 && found[1] > 30 && found[2] > 30, "{found:?}");
}

#[test]
fn a_flush_of_a_part_covers_what_lies_there_and_nothing_else() {
    let (first, second) = (0..1024, 1024..1 << 20);
    for (part, kept) in [(first, [1, 0]), (second, [0, 2]), (0..u64::MAX, [1, 2])] {
        let mut host = Host::new();
        host.write(512, 1, 1, false);
        host.write(1024, 2, 1, false);
        host.poll();
        host.poll();
        let ticket = Ticket::new(CommandId(9));
        let submission = Submission { ticket, class: Class::Durable, command: Command::Flush };
        host.disk.submit_to_part(&part, submission, Nanos::ZERO);
        host.poll();
        let image = host.disk.image_with(0);
        assert_eq!([byte(&image, 512), byte(&image, 1024)], kept, "a flush of {part:?}");
    }
}
