//! A disk whose power fails at a command chosen before; from then on it answers nothing.
//!
//! What is left of it is settled at that moment, so whatever a client was told before must be in it,
//! and whatever it is told later can only rest on what came before.

use nearhead_basics::SplitMix;
use nearhead_disk::{Command, Completion, Disk, Nanos, Properties, Submission};
use nearhead_models::{CrashDisk, MemoryStore};
use nearhead_nbd::ShutdownHandle;
use nearhead_volume::{BareDisk, Volume};

/// How long every command takes: long enough for requests to be under way together.
const LATENCY: Nanos = Nanos::from_micros(150);

pub(crate) struct Doomed {
    disk: CrashDisk,
    properties: Properties,
    commands_left: u64,
    fate: SplitMix,
    image: Option<MemoryStore>,
    /// Completions are held back.
    pub(crate) is_held: bool,
    /// Ended at the cut.
    server: Option<ShutdownHandle>,
}

/// What disks of this test are like: trims read as zeros, so that it shows whether they are durable.
pub(crate) fn properties(capacity_bytes: u64) -> Properties {
    Properties { trim_reads_zero: true, ..CrashDisk::new(capacity_bytes, 512).properties().clone() }
}

impl Doomed {
    pub(crate) fn new(properties: Properties, image: MemoryStore, fate: SplitMix) -> Self {
        let disk = CrashDisk::with_image(properties.clone(), image).with_latency(LATENCY);
        let (commands_left, image, is_held, server) = (u64::MAX, None, false, None);
        Self { disk, properties, commands_left, fate, image, is_held, server }
    }

    /// From now on its power fails at some command, which ends `server`.
    pub(crate) fn arm(&mut self, server: ShutdownHandle) {
        let below = [30, 200, 1000][self.fate.below(3) as usize];
        self.commands_left = self.fate.below(below);
        self.server = Some(server);
    }

    /// Cuts the power, if nobody did before.
    pub(crate) fn cut(&mut self) {
        if self.image.is_some() {
            return;
        }
        self.image = Some(self.disk.random_image(&mut self.fate));
        // Twice: at once.
        let server = self.server.as_ref();
        (0..2).for_each(|_| server.into_iter().for_each(ShutdownHandle::request));
    }

    /// What the cut left.
    pub(crate) fn take_image(&mut self) -> MemoryStore {
        self.cut();
        self.image.clone().unwrap_or_default()
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        // Gives up the commands that nobody will answer.
        self.disk.power_cut(&mut self.fate);
    }
}

impl Disk for Doomed {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        if self.commands_left == 0 {
            self.cut();
        }
        self.commands_left = self.commands_left.saturating_sub(1);
        if self.image.is_some() {
            return submission.ticket.abandon();
        }
        let Submission { ticket, class, command } = submission;
        let command = match command {
            Command::Trim { offset, len } => Command::WriteZeroes { offset, len, durable: false },
            other => other,
        };
        self.disk.submit(Submission { ticket, class, command }, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if self.is_held || self.image.is_some() { None } else { self.disk.poll(now) }
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.is_held || self.image.is_some() { None } else { self.disk.wake_at() }
    }
}

/// A service on such a disk.
pub(crate) trait OnDoomed {
    fn doomed(&mut self) -> &mut Doomed;
}

impl OnDoomed for BareDisk<Doomed> {
    fn doomed(&mut self) -> &mut Doomed {
        self.disk_mut()
    }
}

impl OnDoomed for Volume<Doomed> {
    fn doomed(&mut self) -> &mut Doomed {
        self.disk_mut()
    }
}
