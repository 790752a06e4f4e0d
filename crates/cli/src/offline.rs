//! A volume opened by this process alone, for commands on a volume that is not served.
//!
//! Opened for reading it is never written. Opened for writing it must be closed by
//! [`Offline::close`], which makes everything durable and leaves a snapshot of the map.

use crate::target::{Access, DiskArgs, Target, refuse_if_misnamed};
use nearhead_disk::{Disk, Nanos, Payload};
use nearhead_engine::Config;
use nearhead_format::Superblock;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::open::refuse_if_newer;
use nearhead_volume::{Clock, Presets, Volume};
use std::sync::Arc;
use std::time::Instant;

/// An open volume and the zero of its clock.
pub struct Offline {
    /// As the user named it.
    pub name: String,
    /// The volume.
    pub volume: Volume<Box<dyn Disk + Send>>,
    /// Zero of its clock.
    pub start: Instant,
}

/// Opens the volume on `target` and waits for its recovery.
pub fn open(
    target: &str,
    access: Access,
    args: &DiskArgs,
    accept_loss: bool,
) -> Result<Offline, String> {
    let mut target = Target::open(target, access, args)
        .map_err(|problem| with_a_way_to_the_daemon(problem, !accept_loss))?;
    if access != Access::Read {
        refuse_if_misnamed(&mut target)?;
    }
    on(target, access, accept_loss)
}

/// Commands that ask a daemon first come here if they found none: it may listen elsewhere.
pub fn with_a_way_to_the_daemon(problem: String, asks_daemons: bool) -> String {
    if asks_daemons
        && problem.contains("in use by another process")
        && problem.contains("(nearhead)")
    {
        return format!("{problem} (to ask that one, name its control socket with --control)");
    }
    problem
}

/// The same on disks that are open already.
pub fn on(target: Target, access: Access, accept_loss: bool) -> Result<Offline, String> {
    let read_only = access == Access::Read;
    let opened = opened(target, |_, config| {
        config.read_only |= read_only;
        config.accept_loss = accept_loss;
        // Nothing happens here but what the command asks for.
        config.cleaning.idle_after = None;
        config.cleaning.watermark_pct = None;
        config.cleaning.swap_above_pct = None;
    })?;
    if !read_only {
        refuse_if_newer(&opened.name, opened.volume.superblock())
            .map_err(|error| error.to_string())?;
    }
    Ok(opened)
}

/// The same for who serves it: whatever its preset does by itself goes on.
pub fn serving(
    target: Target,
    access: Access,
    configure: impl FnOnce(&Superblock, &mut Config),
) -> Result<Offline, String> {
    let rotational = target.lanes.properties().rotational;
    opened(target, |superblock, config| {
        config.read_only |= access == Access::Read;
        config.lone_writes_go_home = !rotational && !superblock.layout.logs_are_apart();
        configure(superblock, config);
    })
}

fn opened(
    target: Target,
    configure: impl FnOnce(&Superblock, &mut Config),
) -> Result<Offline, String> {
    let Target { name, lanes, start, lone_member, .. } = target;
    let problem =
        |error: &dyn std::fmt::Display| Target::problem(&name, lone_member.as_ref(), error);
    let mut volume = Volume::open(lanes, start, configure).map_err(|error| problem(&error))?;
    volume.wait_until_open(start).map_err(|error| problem(&error))?;
    Ok(Offline { name, volume, start })
}

/// A volume that did not open.
pub struct Refused {
    /// Its disks, if another way to open it may be tried.
    pub target: Option<Box<Target>>,
    /// Why.
    pub problem: String,
}

/// How a volume is looked at by who only looks.
#[derive(Clone, Default)]
pub struct Look {
    /// Also if recovery cannot know what a lost record wrote.
    pub accept_loss: bool,
    /// A snapshot from elsewhere to begin with, and every record of the logs.
    pub base: Option<Arc<Vec<u8>>>,
    /// Instead of the superblocks on the disk.
    pub superblock: Option<Superblock>,
}

/// The same for who only looks: the engine cannot write, and without a sound snapshot it rebuilds the map from the
/// logs.
pub fn inspecting(target: Target, look: Look) -> Result<Offline, Refused> {
    let Target { name, lanes, start, notes, lone_member } = target;
    let Look { accept_loss, base, superblock } = look;
    let configure = |_: &Superblock, config: &mut Config| {
        config.read_only = true;
        config.accept_loss = accept_loss;
        config.rebuild = true;
        config.base = base;
    };
    let opened = match superblock {
        None => Volume::open(lanes, start, configure),
        Some(superblock) => {
            let clock = Clock::Real { start };
            Volume::open_as(Presets::default(), superblock, lanes, clock, configure)
                .map(|(volume, _)| volume)
        }
    };
    let mut volume =
        opened.map_err(|error| Refused { target: None, problem: error.to_string() })?;
    match volume.wait_until_open(start) {
        Ok(()) => Ok(Offline { name, volume, start }),
        Err(error) => {
            let target = Target { name, lanes: volume.into_lanes(), notes, lone_member, start };
            Err(Refused { target: Some(Box::new(target)), problem: error.to_string() })
        }
    }
}

impl Offline {
    /// The disks, with nothing made durable: for who only looked.
    pub fn into_target(self) -> Target {
        let Self { name, volume, start } = self;
        Target { name, lanes: volume.into_lanes(), notes: Vec::new(), lone_member: None, start }
    }

    /// The time on the volume's clock.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Drives the volume until `done` says so or it fails.
    pub fn drive_until(
        &mut self,
        mut done: impl FnMut(&mut Volume<Box<dyn Disk + Send>>) -> bool,
    ) -> Result<(), String> {
        loop {
            let now = self.now();
            self.volume.drive(now);
            if let Some(failure) = self.volume.engine().failure() {
                return Err(format!("{}: {failure}", self.name));
            }
            if done(&mut self.volume) {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Sleeps until the disk or the engine has something to do.
    fn wait(&mut self) -> Result<(), String> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        // At least now and then, so that whoever shows progress gets a turn.
        let left = self.volume.wake_at().map_or(Nanos::from_millis(100), |at| at.since(self.now()));
        let left = left.min(Nanos::from_millis(100));
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.0 as i64 };
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if let Some(fd) = self.volume.wake().fd {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(format!("{}: waiting for the disk failed: {error}", self.name)),
        }
    }

    /// Runs one request to its reply.
    pub fn request(&mut self, operation: Operation) -> Result<(), String> {
        self.ask(operation).map(drop)
    }

    /// Reads some bytes.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, String> {
        Ok(nearhead_disk::bytes_of(&self.ask(Operation::Read { offset, len })?))
    }

    fn ask(&mut self, operation: Operation) -> Result<Vec<Payload>, String> {
        let now = self.now();
        self.volume.submit(Request { id: RequestId(0), operation }, now);
        let mut reply = None;
        self.drive_until(|volume| {
            reply = volume.poll_reply();
            reply.is_some()
        })?;
        match reply.map(|reply| reply.result) {
            Some(Err(error)) => Err(format!("{}: {error}", self.name)),
            Some(Ok(parts)) => Ok(parts),
            None => Ok(Vec::new()),
        }
    }

    /// Makes everything durable, leaves a snapshot, and hands the disks back.
    pub fn close(mut self) -> Result<Target, String> {
        let now = self.now();
        self.volume.begin_shutdown(now);
        self.drive_until(|volume| volume.is_shut_down())?;
        let Self { name, volume, start } = self;
        Ok(Target { name, lanes: volume.into_lanes(), notes: Vec::new(), lone_member: None, start })
    }
}
