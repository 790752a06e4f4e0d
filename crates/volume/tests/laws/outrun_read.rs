//! A read that is slower than the log: what it was going to read is given up and used again before it comes to that,
//! each time it looks. That is no damage, and the read must end with what is newest once it can.

use crate::support::content::{payload, versions};
use nearhead_disk::{Command, Completion, Disk, Nanos, Properties, Submission};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_service::{Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, SyncIo, Volume, create};
use std::collections::VecDeque;

/// A disk that comes to a read long after it came to everything else.
struct LateReads {
    disk: InstantDisk,
    delay: Nanos,
    late: VecDeque<(Nanos, Submission)>,
}

impl LateReads {
    fn begin(&mut self, now: Nanos) {
        while self.late.front().is_some_and(|(at, _)| *at <= now) {
            let (at, submission) = self.late.pop_front().unwrap();
            self.disk.submit(submission, at);
        }
    }
}

impl Disk for LateReads {
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
        if matches!(submission.command, Command::Read { .. }) {
            self.late.push_back((now + self.delay, submission));
        } else {
            self.disk.submit(submission, now);
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.begin(now);
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        let late = self.late.front().map(|(at, _)| *at);
        [late, self.disk.wake_at()].into_iter().flatten().min()
    }
}

impl Drop for LateReads {
    fn drop(&mut self) {
        self.late.drain(..).for_each(|(_, submission)| submission.ticket.abandon());
    }
}

/// Logs of 512 KiB, one or two, which a few hundred small writes go round.
fn volume(preset: &str) -> (Volume<LateReads>, Nanos) {
    let disk = InstantDisk::new(
        plain_properties(64 << 20, 512),
        Box::new(MemoryStore::new()),
        Nanos::from_micros(10),
    );
    let mut disk = LateReads { disk, delay: Nanos::ZERO, late: VecDeque::new() };
    let preset = NamedPreset::by_name(preset).unwrap();
    let options = CreateOptions {
        volume_id: [1; 16],
        created_unix_s: 0,
        preset,
        logged_write_bytes_max: 64 << 10,
        group_bytes: preset.layout.has_groups_of_any_size().then_some(28 << 20),
        log_bytes: Some(512 << 10),
        ack: AckMode::Durable,
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: false,
        force: true,
    };
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options).unwrap();
    let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
        config.snapshot_after_bytes = 60 << 10;
        config.cleaning.idle_after = None;
        config.cleaning.swap_above_pct = Some(10);
        config.cleaning.swap_idle_after = Nanos::ZERO;
    })
    .unwrap();
    let now = volume.run_until_open(now).unwrap();
    volume.disk_mut().delay = Nanos::from_millis(100);
    (volume, now)
}

/// Does what is to be done now; jumps to the next event if nothing is answered.
fn step(volume: &mut Volume<LateReads>, now: &mut Nanos, replies: &mut Vec<Reply>) {
    volume.drive(*now);
    let before = replies.len();
    replies.extend(std::iter::from_fn(|| volume.poll_reply()));
    if replies.len() == before {
        *now = volume.wake_at().map_or(*now, |wake| wake.max(*now));
    }
}

fn write_and_wait(
    volume: &mut Volume<LateReads>,
    now: &mut Nanos,
    replies: &mut Vec<Reply>,
    number: u64,
    block: u64,
) {
    let data = payload(block * 8, 8, number);
    let operation = Operation::Write { offset: block * 4096, data, fua: true };
    volume.submit(Request { id: RequestId(number), operation }, *now);
    while !replies.iter().any(|reply| reply.id == RequestId(number)) {
        step(volume, now, replies);
    }
}

#[test]
fn a_read_that_the_log_outruns_time_and_again_is_no_damage() {
    let (mut volume, mut now) = volume("singlelog");
    let mut replies: Vec<Reply> = Vec::new();
    let read = RequestId(u64::MAX);
    let mut newest = 0;
    for number in 1..=100_000 {
        // Rarely the block that is read: a look that finds it in memory would end the read.
        let block = if number % 31 == 0 { 0 } else { 1 + number % 3 };
        write_and_wait(&mut volume, &mut now, &mut replies, number, block);
        replies.retain(|reply| reply.id == read);
        if number == 40 {
            let operation = Operation::Read { offset: 0, len: 4096 };
            volume.submit(Request { id: read, operation }, now);
        }
        newest = if block == 0 { number } else { newest };
        assert!(replies.is_empty(), "write {number}: not outrun: {:#?}", volume.status());
    }
    assert!(volume.status().stats.checksum_retries > 5, "{:#?}", volume.status().stats);
    while replies.is_empty() {
        step(&mut volume, &mut now, &mut replies);
    }
    let parts = replies.remove(0).result.unwrap();
    assert_eq!(versions(0, &parts).unwrap(), [newest; 8]);
    assert_eq!(volume.status().stats.unreadable, 0);
}

#[test]
fn what_a_swap_was_going_to_move_and_the_log_outran_is_no_damage() {
    let (mut volume, mut now) = volume("mlb");
    let mut replies = Vec::new();
    for number in 1..=20_000 {
        write_and_wait(&mut volume, &mut now, &mut replies, number, number % 40);
        replies.clear();
    }
    let status = volume.status();
    assert!(status.stats.swaps > 0, "{status:#?}");
    assert!(status.damage.is_empty(), "{:?}", status.damage);
}
