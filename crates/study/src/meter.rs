//! A disk that counts how long commands stay with the disk below, and notes where transfers were, if asked to.
//!
//! It changes nothing and delays nothing. Counting costs two additions a command; notes cost memory, and end at [`RECORDED_MAX`] of them.

use crate::disks::Modelled;
use crate::recorder::RECORDED_MAX;
use nearhead_basics::NumberHash;
use nearhead_disk::{
    Class, Command, CommandId, Completion, Disk, Nanos, Payload, Properties, Submission,
};
use nearhead_models::Report;
use std::collections::HashMap;

/// Where transfers were, a column for each fact: the way of a disk's head, address against time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// When the disk was told, in ns of virtual time.
    pub submitted_ns: Vec<u64>,
    /// When it was done.
    pub completed_ns: Vec<u64>,
    /// First byte on the device.
    pub offset_bytes: Vec<u64>,
    /// Number of bytes.
    pub len_bytes: Vec<u64>,
    /// 1 of a write, 0 of a read.
    pub write: Vec<u8>,
    /// Who goes first: 0 durable, 1 foreground, 2 bulk, 3 background.
    pub class: Vec<u8>,
    /// Where a volume lies on several devices, on which: 0 its own, then those of data, then those of further logs.
    pub device: Option<Vec<u8>>,
    /// Transfers that were not noted any more.
    pub left_out: u64,
}

impl Visits {
    /// Those of several devices, in order of completion.
    pub fn together(devices: &[Self]) -> Self {
        let (mut all, mut of) = (Self::default(), Vec::new());
        let mut places = Vec::new();
        for (device, visits) in (0_u8..).zip(devices) {
            all.left_out += visits.left_out;
            places.extend((0..visits.completed_ns.len()).map(|place| (device, place)));
        }
        places.sort_by_key(|(device, place)| devices[usize::from(*device)].completed_ns[*place]);
        for (device, place) in places {
            if all.completed_ns.len() >= RECORDED_MAX {
                all.left_out += 1;
                continue;
            }
            let from = &devices[usize::from(device)];
            all.submitted_ns.push(from.submitted_ns[place]);
            all.completed_ns.push(from.completed_ns[place]);
            all.offset_bytes.push(from.offset_bytes[place]);
            all.len_bytes.push(from.len_bytes[place]);
            all.write.push(from.write[place]);
            all.class.push(from.class[place]);
            of.push(device);
        }
        Self { device: Some(of), ..all }
    }

    fn push(&mut self, begun: Begun, now: Nanos) {
        if self.completed_ns.len() >= RECORDED_MAX {
            self.left_out += 1;
            return;
        }
        self.submitted_ns.push(begun.at.0);
        self.completed_ns.push(now.0);
        self.offset_bytes.push(begun.offset);
        self.len_bytes.push(begun.len);
        self.write.push(u8::from(begun.write));
        self.class.push(match begun.class {
            Class::Durable => 0,
            Class::Foreground => 1,
            Class::Bulk => 2,
            Class::Background => 3,
        });
    }
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    offset: u64,
    len: u64,
    write: bool,
    class: Class,
}

impl Begun {
    fn of(submission: &Submission, at: Nanos) -> Option<Self> {
        let (offset, len, write) = match &submission.command {
            Command::Read { offset, len } => (*offset, u64::from(*len), false),
            Command::Write { offset, parts, .. } => {
                (*offset, parts.iter().map(|part| Payload::len(part) as u64).sum(), true)
            }
            Command::WriteZeroes { offset, len, .. } => (*offset, *len, true),
            Command::Trim { .. } | Command::Flush => return None,
        };
        Some(Self { at, offset, len, write, class: submission.class })
    }
}

/// The disk.
#[derive(Debug)]
pub struct Meter<D> {
    disk: D,
    /// How many, and the sum of the times at which.
    submitted: (u64, u128),
    completed: (u64, u128),
    /// Transfers under way, and those that are over.
    noted: Option<(HashMap<CommandId, Begun, NumberHash>, Visits)>,
}

impl<D: Modelled> Meter<D> {
    /// Before `disk`; `with_visits` says whether it notes transfers.
    pub fn new(disk: D, with_visits: bool) -> Self {
        let noted = with_visits.then(Default::default);
        Self { disk, submitted: (0, 0), completed: (0, 0), noted }
    }

    /// Commands that were answered.
    pub fn commands(&self) -> u64 {
        self.completed.0
    }

    /// How long the commands that were answered took from submission to completion, together; of those under way what went by until `now`.
    pub fn response(&self, now: Nanos) -> Nanos {
        let outstanding = self.submitted.0.saturating_sub(self.completed.0);
        let until = self.completed.1 + u128::from(outstanding) * u128::from(now.0);
        Nanos(u64::try_from(until.saturating_sub(self.submitted.1)).unwrap_or(u64::MAX))
    }

    /// The report of the disk below.
    pub fn report(&self) -> Report {
        self.disk.told()
    }

    /// What was noted; it is taken.
    pub fn take_visits(&mut self) -> Option<Visits> {
        self.noted.as_mut().map(|(_, visits)| std::mem::take(visits))
    }
}

impl<D: Disk> Disk for Meter<D> {
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
        self.submitted.0 += 1;
        self.submitted.1 += u128::from(now.0);
        if let Some((under_way, _)) = &mut self.noted
            && let Some(begun) = Begun::of(&submission, now)
        {
            under_way.insert(submission.ticket.id(), begun);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let completion = self.disk.poll(now)?;
        self.completed.0 += 1;
        self.completed.1 += u128::from(now.0);
        if let Some((under_way, visits)) = &mut self.noted
            && let Some(begun) = under_way.remove(&completion.id)
        {
            visits.push(begun, now);
        }
        Some(completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}
