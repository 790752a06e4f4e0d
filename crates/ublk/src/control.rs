//! The control device of the driver: making devices, starting them, letting the next server go on, and ending them.
//!
//! Each order is one command and waits for its answer within a bound. An order of a kernel before Linux 6.3 has another number: which
//! numbers it knows is found out with the first one.

use crate::words::{
    INFO_BYTES, IOCTL_ENCODE, Info, Order, Parameters, USER_RECOVERY, USER_RECOVERY_REISSUE,
    control_command,
};
use nearhead_disk::BufferMut;
use nearhead_uring::DriverCommands;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CONTROL: &str = "/dev/ublk-control";
/// The driver waits for its server in some orders, and a server for the disk.
const ANSWER_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Requests that the kernel sends without waiting for answers: the depth of a loop device's queue.
const DEPTH: u16 = 128;
/// Largest request: what most drivers take at once (`BLK_DEF_MAX_SECTORS` of old).
const REQUEST_BYTES_MAX: u32 = 512 << 10;

/// How a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Made and not started, or stopped.
    Dead,
    /// It serves.
    Live,
    /// Its server is no more; who uses it waits.
    Quiesced,
    /// Its server is no more, which a later kernel calls otherwise: who uses it gets errors.
    Failing,
}

/// A device, as the driver tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number: that of `/dev/ublkbN` and `/dev/ublkcN`.
    pub number: u32,
    /// How it is.
    pub state: State,
    /// What whoever made it wrote on it.
    pub mark: u64,
    /// Whether another server can go on where one was killed.
    pub outlives_a_kill: bool,
    pub(crate) info: Info,
}

impl Device {
    fn of(info: Info) -> Self {
        let needed = USER_RECOVERY | USER_RECOVERY_REISSUE;
        let state = match info.state {
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::Failing,
            _ => State::Dead,
        };
        Self {
            number: info.device,
            state,
            mark: info.mark,
            outlives_a_kill: info.flags & needed == needed,
            info,
        }
    }

    /// Whether codes are those of an `ioctl`.
    pub(crate) fn is_encoded(&self) -> bool {
        self.info.flags & IOCTL_ENCODE != 0
    }
}

/// The block device with this number.
pub fn block_device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

/// What the server of a device is given. Whoever has it is its server: the driver gives it out once at a time.
pub fn open_for_server(number: u32) -> io::Result<OwnedFd> {
    let path = format!("/dev/ublkc{number}");
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        match rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => return Ok(device),
            // The one before has ended, and the kernel has not yet put it all away; or udev has not yet made the file.
            Err(Errno::BUSY | Errno::NOENT) if Instant::now() < deadline => {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Why this machine has no such driver, if it has none.
pub fn why_missing() -> Option<String> {
    let found = Path::new(CONTROL).exists();
    let missing = || format!("expected {CONTROL}, found none; load the module (modprobe ublk_drv)");
    if !found {
        return Some(missing());
    }
    let failed = |error: io::Error| {
        format!("expected io_uring with commands of drivers (Linux 5.19), found {error}")
    };
    Control::open().err().map(failed)
}

/// The control device.
pub struct Control {
    device: OwnedFd,
    commands: DriverCommands,
    /// Whether the driver knows the codes of an `ioctl`, once that was found out.
    is_encoded: Option<bool>,
}

impl Control {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open(CONTROL, flags, Mode::empty())?;
        Ok(Self { device, commands: DriverCommands::new(1)?, is_encoded: None })
    }

    /// Makes a device with `mark` on it.
    pub fn add(&mut self, mark: u64) -> io::Result<Device> {
        let wanted = Info {
            depth: DEPTH,
            state: 0,
            request_bytes_max: REQUEST_BYTES_MAX,
            // The driver chooses.
            device: u32::MAX,
            flags: USER_RECOVERY | USER_RECOVERY_REISSUE,
            mark,
        };
        let memory = BufferMut::copy_of(&wanted.to_bytes());
        info(&self.order(Order::Add, u32::MAX, Some(memory), 0)?)
    }

    /// The device with this number, if there is one.
    pub fn device(&mut self, number: u32) -> io::Result<Option<Device>> {
        match self.order(Order::GetInfo, number, Some(BufferMut::zeroed(INFO_BYTES)), 0) {
            Ok(memory) => info(&memory).map(Some),
            Err(error) if is_none(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says what a device that was not started yet is like.
    pub(crate) fn set_parameters(&mut self, number: u32, parameters: Parameters) -> io::Result<()> {
        let memory = BufferMut::copy_of(&parameters.to_bytes());
        self.order(Order::SetParameters, number, Some(memory), 0).map(drop)
    }

    /// Shows the block device, which the process `server` serves already.
    pub fn start(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.order(Order::Start, number, None, u64::from(server)).map(drop)
    }

    /// Tells the driver that a device has become larger (Linux 6.16).
    pub fn resize(&mut self, number: u32, size_bytes: u64) -> io::Result<()> {
        self.order(Order::UpdateSize, number, None, size_bytes / 512).map(drop)
    }

    /// Lets another server take a device whose server has ended, once the kernel has seen that.
    pub fn start_recovery(&mut self, number: u32) -> io::Result<()> {
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            match self.order(Order::StartRecovery, number, None, 0) {
                Err(error)
                    if error.raw_os_error() == Some(Errno::BUSY.raw_os_error())
                        && Instant::now() < deadline =>
                {
                    std::thread::sleep(LOOK_AGAIN);
                }
                other => return other.map(drop),
            }
        }
    }

    /// Lets a device go on with the process `server`.
    pub fn end_recovery(&mut self, number: u32, server: u32) -> io::Result<()> {
        self.order(Order::EndRecovery, number, None, u64::from(server)).map(drop)
    }

    /// Ends a device: whoever uses it gets errors, and its server is told.
    pub fn stop(&mut self, number: u32) -> io::Result<()> {
        none_is_well(self.order(Order::Stop, number, None, 0))
    }

    /// Takes a device away that nobody serves any more, else once that is so.
    pub fn delete(&mut self, number: u32) -> io::Result<()> {
        none_is_well(self.order(Order::Delete, number, None, 0))
    }

    fn order(
        &mut self,
        order: Order,
        number: u32,
        memory: Option<BufferMut>,
        datum: u64,
    ) -> io::Result<BufferMut> {
        let is_encoded = self.is_encoded.unwrap_or(true);
        let again = memory.as_ref().map(|memory| BufferMut::copy_of(memory));
        match self.give(order.code(is_encoded), order, number, memory, datum) {
            // Before Linux 6.3 the driver answers like this to what it does not know, and otherwise where there is no such device.
            Err(error) if self.is_encoded.is_none() && is_unknown(&error) => {
                let outcome = self.give(order.code(false), order, number, again, datum);
                if outcome.is_ok() {
                    self.is_encoded = Some(false);
                }
                outcome
            }
            Ok(memory) => {
                self.is_encoded = Some(is_encoded);
                Ok(memory)
            }
            other => other,
        }
    }

    fn give(
        &mut self,
        code: u32,
        order: Order,
        number: u32,
        memory: Option<BufferMut>,
        datum: u64,
    ) -> io::Result<BufferMut> {
        let bytes = memory.as_ref().map_or(0, |memory| memory.len());
        let command = control_command(number, bytes, datum);
        self.commands.prepare(self.device.as_fd(), 0, code, command, memory)?;
        self.commands.submit()?;
        let deadline = Instant::now() + ANSWER_MAX;
        loop {
            if let Some(outcome) = self.commands.poll() {
                return match outcome.result {
                    failed if failed < 0 => Err(Errno::from_raw_os_error(-failed).into()),
                    _ => Ok(outcome.memory.unwrap_or_else(|| BufferMut::zeroed(0))),
                };
            }
            let now = Instant::now();
            if now >= deadline {
                // What is still in the slot stays with the old ring.
                self.commands = DriverCommands::new(1)?;
                let waited = ANSWER_MAX.as_secs();
                let what = format!("{order:?} of ublk device {number}: no answer in {waited} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            self.commands.wait(deadline - now);
        }
    }
}

fn info(memory: &BufferMut) -> io::Result<Device> {
    let info = Info::from_bytes(memory).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Device::of(info))
}

fn is_none(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

fn is_unknown(error: &io::Error) -> bool {
    is_none(error) || error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

fn none_is_well(outcome: io::Result<BufferMut>) -> io::Result<()> {
    match outcome {
        Err(error) if is_none(&error) => Ok(()),
        other => other.map(drop),
    }
}
