//! What the tests of how an array goes about its work stand on: a disk that takes as long over each command as the
//! test says, does the worst with the order of what is under way, and tells afterwards what it was asked.

use super::label_rig::{BLOCK, BLOCKS, Run, opened, reopened, start};
use super::*;
use nearhead_disk::Payload;
use nearhead_models::{InstantDisk, MemoryStore, Store, plain_properties};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What a disk was asked, and when.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) at: Nanos,
    pub(super) ends: Nanos,
    pub(super) class: Class,
    pub(super) command: Command,
    /// If it was the write of a label.
    pub(super) label: Option<Label>,
}

impl Asked {
    /// Where it begins, if it is a change of what the array's own host sees.
    pub(super) fn changes_at(&self) -> Option<u64> {
        match &self.command {
            Command::Write { offset, .. } if self.label.is_none() => Some(*offset),
            _ => None,
        }
    }

    pub(super) fn reads_at(&self) -> Option<u64> {
        if let Command::Read { offset, .. } = self.command { Some(offset) } else { None }
    }
}

/// What a test sees and decides while the array has the disk.
#[derive(Default)]
pub(super) struct Script {
    pub(super) asked: Vec<Asked>,
    /// Commands that fail from now on.
    pub(super) fails: Option<fn(&Command) -> bool>,
    /// They fail because the disk is gone.
    pub(super) is_gone: bool,
}

pub(super) type Takes = Box<dyn Fn(Class, &Command) -> u64 + Send>;

/// Reads what was written when a read came, and writes when a write is over.
pub(super) struct Scripted {
    pub(super) disk: InstantDisk,
    takes_us: Takes,
    pending: BTreeMap<(Nanos, u64), (Result<Submission, Completion>, bool)>,
    order: u64,
    power_cuts: u64,
    pub(super) script: Arc<Mutex<Script>>,
}

impl Scripted {
    pub(super) fn new(properties: Properties, store: Box<dyn Store>, takes_us: Takes) -> Self {
        let disk = InstantDisk::new(properties, store, Nanos::ZERO);
        let (pending, script) = (BTreeMap::new(), Arc::default());
        Self { disk, takes_us, pending, order: 0, power_cuts: 0, script }
    }

    /// A member of a mirror of `BLOCKS` blocks, of four a piece.
    pub(super) fn small(takes_us: impl Fn(Class, &Command) -> u64 + Send + 'static) -> Self {
        let properties = Properties {
            transfer_bytes_max: 4 * BLOCK as u32,
            ..plain_properties(BLOCKS * BLOCK + LABEL_BYTES, 512)
        };
        Self::new(properties, Box::new(MemoryStore::new()), Box::new(takes_us))
    }

    /// What it was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    pub(super) fn fail(&self, fails: fn(&Command) -> bool, is_gone: bool) {
        let mut script = self.script.lock().unwrap();
        (script.fails, script.is_gone) = (Some(fails), is_gone);
    }

    pub(super) fn heal(&self) {
        self.script.lock().unwrap().fails = None;
    }

    /// Whoever had it is no more, and with it what was under way.
    pub(super) fn forget(&mut self) {
        while let Some((_, (what, _))) = self.pending.pop_first() {
            if let Ok(submission) = what {
                submission.ticket.abandon();
            }
        }
    }
}

pub(super) fn is_change(command: &Command) -> bool {
    !matches!(command, Command::Read { .. })
}

pub(super) fn is_read(command: &Command) -> bool {
    !is_change(command)
}

fn label_in(command: &Command) -> Option<Label> {
    let Command::Write { parts, .. } = command else { return None };
    let mut bytes = Vec::new();
    for part in parts {
        if let Payload::Bytes(part) = part {
            bytes.extend_from_slice(part);
        }
    }
    Label::decode(&bytes).ok().flatten()
}

impl Disk for Scripted {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, mut submission: Submission, now: Nanos) {
        let Submission { class, command, .. } = &submission;
        let ends = now + Nanos::from_micros((self.takes_us)(*class, command));
        let mut script = self.script.lock().unwrap();
        let (label, class, command) = (label_in(command), *class, command.clone());
        let fails = script.fails.is_some_and(|fails| fails(&command));
        let is_gone = fails && script.is_gone;
        script.asked.push(Asked { at: now, ends, class, command, label });
        if fails {
            // Past the end: the disk itself answers with an error.
            submission.command = Command::Read { offset: 1 << 60, len: 512 };
        }
        let what = if is_read(&submission.command) {
            self.disk.submit(submission, now);
            Err(self.disk.poll(now).unwrap())
        } else {
            Ok(submission)
        };
        self.order += 1;
        self.pending.insert((ends, self.order), (what, is_gone));
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let entry = self.pending.first_entry().filter(|entry| entry.key().0 <= now)?;
        match entry.remove() {
            (Err(mut done), is_gone) => {
                if let (Err(error), true) = (&mut done.result, is_gone) {
                    error.kind = DiskErrorKind::Gone;
                }
                Some(done)
            }
            (Ok(submission), _) => {
                self.disk.submit(submission, now);
                self.disk.poll(now)
            }
        }
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.pending.first_key_value().map(|((at, _), _)| *at)
    }
}

impl Model for Scripted {
    fn power_cut(&mut self, _: Nanos, _: &mut SplitMix) -> Result<(), DiskError> {
        self.power_cuts += 1;
        self.forget();
        Ok(())
    }
    fn report(&self) -> Report {
        Report::Array { members: Vec::new(), power_cuts: self.power_cuts }
    }
    fn reset_report(&mut self) {
        self.power_cuts = 0;
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.forget();
    }
}

/// The labels that a member got, in order: when, where, and what they say.
pub(super) fn labels(asked: &[Asked]) -> Vec<(&Asked, u64, Label)> {
    let label = |asked: &'_ Asked| match &asked.command {
        Command::Write { offset, .. } => asked.label.map(|label| (*offset, label)),
        _ => None,
    };
    let with_label = |asked| label(asked).map(|(offset, label)| (asked, offset, label));
    asked.iter().filter_map(with_label).collect()
}

/// A new mirror, whose members were asked nothing yet but for their labels.
pub(super) fn fresh(text: &str, disks: Vec<Scripted>) -> Run<Scripted> {
    let mut disks: Vec<_> = disks.into_iter().map(Some).collect();
    start(opened(text, &mut disks, label_rig::make(5)).unwrap())
}

/// A mirror of two whose first member was away while the second was used, and left in order.
pub(super) fn stale(disks: [Scripted; 2]) -> Run<Scripted> {
    let mut disks = fresh("mirror:a,b", disks.into()).disks();
    let away = disks[0].take();
    let mut run = start(reopened("mirror:missing,b", &mut disks).unwrap());
    run.wait(label_rig::change(3, 2)).unwrap();
    run.mirror.leave();
    run.until(run.now + Nanos::from_secs(9));
    assert!(run.mirror.has_left());
    let mut disks = run.disks();
    disks.insert(0, away);
    start(reopened("mirror:a,b", &mut disks).unwrap())
}

/// A mirror that was not left in order, as `differ` changes its members before it is opened again.
pub(super) fn unsure(
    text: &str,
    disks: Vec<Scripted>,
    differ: impl Fn(usize, &mut InstantDisk),
) -> Run<Scripted> {
    let mut run = fresh(text, disks);
    run.wait(label_rig::change(0, 1)).unwrap();
    let mut disks = run.disks();
    for (index, disk) in disks.iter_mut().flatten().enumerate() {
        differ(index, &mut disk.disk);
        disk.script.lock().unwrap().asked.clear();
    }
    start(reopened(text, &mut disks).unwrap())
}
