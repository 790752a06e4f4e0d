//! The front of the process that serves a device: it takes the kernel's requests and gives its answers, slot by slot.
//!
//! A slot is one request at a time: its command is with the driver until there is a request, which then is here until it is answered, by the
//! command that takes the next one. The memory that a slot has lent holds what a write brings, and is where the answer of a read is put.
//! It belongs to the thread that made it: the driver takes no answer from another.

use crate::control::{Control, Device, State};
use crate::words::{
    Asked, DESCRIPTOR_WORDS, Descriptor, Parameters, SECTOR_BYTES, io_code, io_command,
};
use nearhead_disk::{Buffer, BufferMut, BufferPool, Payload};
use nearhead_service::{
    ErrorKind, LASTING_FRONT_IDS, LastingFront, Operation, Reply, Request, RequestId, ServiceInfo,
};
use nearhead_uring::{CommandOutcome, DriverCommands, DriverWords};
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest discard: the service takes any, but one command should not take minutes.
const DISCARD_BYTES_MAX: u64 = 1 << 30;
/// A write of so many bytes keeps the memory that it was received in; a smaller one would keep far more than it needs.
const KEPT_BYTES_MIN: usize = 64 << 10;

/// What whoever attaches a device decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Smallest block, in bytes.
    pub block_bytes: u32,
}

/// What a slot waits for.
enum Slot {
    /// For a request; the driver has its command.
    Kernel,
    /// For the service's reply to this.
    Service { descriptor: Descriptor, memory: BufferMut, data: Option<Buffer> },
}

/// The front.
pub struct Ublk {
    device: OwnedFd,
    commands: DriverCommands,
    descriptors: DriverWords,
    is_encoded: bool,
    size_bytes: u64,
    request_bytes_max: usize,
    poller: OwnedFd,
    slots: Vec<Slot>,
    /// Requests that wait to be received, by slot.
    received: VecDeque<u16>,
    pool: BufferPool,
    is_taking: bool,
    has_ended: bool,
    losses_told: u64,
}

impl Ublk {
    /// Serves `device` ([`crate::open_for_server`]). `of_service` is what the service wants to be driven for, and `losses` what it has
    /// told of so far.
    pub fn new(
        device: OwnedFd,
        shape: BlockShape,
        info: &ServiceInfo,
        of_service: Option<BorrowedFd<'_>>,
        losses: u64,
    ) -> io::Result<Self> {
        // The driver numbers its devices so.
        let number = rustix::fs::minor(rustix::fs::fstat(&device)?.st_rdev);
        let mut control = Control::open()?;
        let found = control.device(number)?.ok_or(Errno::NODEV)?;
        if found.state == State::Dead {
            control.set_parameters(number, parameters(info, shape, &found))?;
        }
        let depth = found.info.depth;
        let commands = DriverCommands::new(depth)?;
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = || epoll::EventFlags::IN;
        epoll::add(&poller, commands.descriptor(), epoll::EventData::new_u64(0), readable())?;
        if let Some(fd) = of_service {
            epoll::add(&poller, fd, epoll::EventData::new_u64(1), readable())?;
        }
        let descriptors = DriverWords::map(device.as_fd(), usize::from(depth) * DESCRIPTOR_WORDS)?;
        let mut front = Self {
            device,
            commands,
            descriptors,
            is_encoded: found.is_encoded(),
            size_bytes: info.size_bytes,
            request_bytes_max: found.info.request_bytes_max as usize,
            poller,
            slots: (0..depth).map(|_| Slot::Kernel).collect(),
            received: VecDeque::with_capacity(usize::from(depth)),
            pool: BufferPool::default(),
            is_taking: true,
            has_ended: false,
            losses_told: losses,
        };
        for tag in 0..depth {
            let memory = BufferMut::zeroed(front.request_bytes_max);
            front.give(tag, false, 0, memory)?;
        }
        front.send()?;
        Ok(front)
    }

    /// Gives the slot back to the driver: with an answer, or for its first request.
    fn give(
        &mut self,
        tag: u16,
        is_answer: bool,
        result: i32,
        memory: BufferMut,
    ) -> io::Result<()> {
        let code = io_code(is_answer, self.is_encoded);
        let command = io_command(tag, result);
        self.commands.prepare(self.device.as_fd(), tag, code, command, Some(memory))
    }

    /// What the driver has by now.
    fn look(&mut self) -> io::Result<()> {
        while let Some(outcome) = self.commands.poll() {
            let CommandOutcome { slot: tag, result, memory } = outcome;
            match (result, memory) {
                (0, Some(memory)) => self.take(tag, memory)?,
                // The device was stopped.
                (aborted, _) if aborted == -Errno::NODEV.raw_os_error() => {
                    self.has_ended = true;
                    self.leave();
                }
                (other, _) => {
                    let what = format!(
                        "the block device's driver: expected a request in slot {tag}, found {}",
                        io::Error::from_raw_os_error(other.saturating_neg())
                    );
                    return Err(io::Error::other(what));
                }
            }
        }
        Ok(())
    }

    /// A request came to slot `tag`.
    fn take(&mut self, tag: u16, memory: BufferMut) -> io::Result<()> {
        let first = usize::from(tag) * DESCRIPTOR_WORDS;
        let mut words = [0; DESCRIPTOR_WORDS];
        for (word, number) in words.iter_mut().zip(first..) {
            *word = self.descriptors.load(number).unwrap_or_default();
        }
        let refused = |errno: Errno| -errno.raw_os_error();
        let Some(descriptor) = Descriptor::from_words(words) else {
            return self.give(tag, true, refused(Errno::OPNOTSUPP), memory);
        };
        let end = descriptor.offset.checked_add(descriptor.len);
        if end.is_none_or(|end| end > self.size_bytes) {
            return self.give(tag, true, refused(Errno::INVAL), memory);
        }
        if matches!(descriptor.asked, Asked::Read | Asked::Write { .. })
            && descriptor.len > memory.len() as u64
        {
            return self.give(tag, true, refused(Errno::INVAL), memory);
        }
        if let Some(slot) = self.slots.get_mut(usize::from(tag)) {
            *slot = Slot::Service { descriptor, memory, data: None };
            self.received.push_back(tag);
        }
        Ok(())
    }

    /// The operation that slot `tag` asks for.
    fn operation(&mut self, tag: u16) -> Option<Operation> {
        let slot = self.slots.get_mut(usize::from(tag));
        let Some(Slot::Service { descriptor, memory, data: kept }) = slot else { return None };
        let Descriptor { asked, offset, len } = *descriptor;
        Some(match asked {
            Asked::Read => Operation::Read { offset, len: len as u32 },
            Asked::Write { is_durable: fua } => {
                let len = len as usize;
                let data = if len >= KEPT_BYTES_MIN {
                    let next = self.pool.take(self.request_bytes_max);
                    std::mem::replace(memory, next).freeze().slice(0..len)
                } else {
                    let mut own = self.pool.take(len);
                    own[..len].copy_from_slice(&memory[..len]);
                    own.freeze().slice(0..len)
                };
                *kept = Some(data.clone());
                Operation::Write { offset, data: Payload::Bytes(data), fua }
            }
            Asked::Flush => Operation::Flush,
            Asked::Discard => Operation::Trim { offset, len, fua: false },
            Asked::Zeroes { is_durable: fua, may_unmap } => {
                Operation::WriteZeroes { offset, len, fua, fast_only: false, may_unmap }
            }
        })
    }

    /// Answers the request in slot `tag`, a read with what it read.
    fn answer(&mut self, tag: u16, result: i32, parts: &[Payload]) -> io::Result<()> {
        let slot = self.slots.get_mut(usize::from(tag));
        let Some(Slot::Service { mut memory, data, .. }) =
            slot.map(|slot| std::mem::replace(slot, Slot::Kernel))
        else {
            return Ok(());
        };
        let mut at = 0;
        for part in parts {
            let Some(room) = memory.get_mut(at..at + part.len()) else { break };
            match part {
                Payload::Bytes(bytes) => room.copy_from_slice(bytes),
                Payload::Zeros(_) | Payload::Phantom(_) => room.fill(0),
            }
            at += part.len();
        }
        if let Some(data) = data {
            self.pool.recycle(data);
        }
        self.give(tag, true, result, memory)
    }
}

fn parameters(info: &ServiceInfo, shape: BlockShape, device: &Device) -> Parameters {
    Parameters {
        read_only: info.read_only,
        rotational: info.rotational,
        block_bytes: shape.block_bytes.max(info.block_bytes_min),
        block_bytes_preferred: info.block_bytes_preferred.max(shape.block_bytes),
        request_bytes_max: device.info.request_bytes_max.min(info.request_bytes_max),
        size_bytes: info.size_bytes / SECTOR_BYTES * SECTOR_BYTES,
        discard_bytes_max: DISCARD_BYTES_MAX,
        zeroes_bytes_max: if info.fast_zero { DISCARD_BYTES_MAX } else { 0 },
    }
}

impl LastingFront for Ublk {
    fn resized(&mut self, info: &ServiceInfo) {
        self.size_bytes = info.size_bytes;
    }

    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    fn is_mine(&self, id: RequestId) -> bool {
        id.0 >= LASTING_FRONT_IDS && id.0 - LASTING_FRONT_IDS < self.slots.len() as u64
    }

    fn receive(&mut self, losses: u64) -> io::Result<Option<Request>> {
        self.look()?;
        while self.is_taking {
            let Some(tag) = self.received.pop_front() else { break };
            let Some(operation) = self.operation(tag) else { continue };
            if matches!(operation, Operation::Flush) && losses > self.losses_told {
                self.losses_told = losses;
                self.answer(tag, -Errno::IO.raw_os_error(), &[])?;
                continue;
            }
            return Ok(Some(Request {
                id: RequestId(LASTING_FRONT_IDS + u64::from(tag)),
                operation,
            }));
        }
        self.send()?;
        Ok(None)
    }

    fn reply(&mut self, reply: Reply) -> io::Result<()> {
        let tag = (reply.id.0 - LASTING_FRONT_IDS) as u16;
        match reply.result {
            Ok(parts) => {
                let Some(Slot::Service { descriptor, .. }) = self.slots.get(usize::from(tag))
                else {
                    return Ok(());
                };
                let moves = matches!(descriptor.asked, Asked::Read | Asked::Write { .. });
                let result = if moves { descriptor.len as i32 } else { 0 };
                self.answer(tag, result, &parts)
            }
            // It came too late for this process: it is for its successor, who is asked again.
            Err(error) if error.kind == ErrorKind::ShuttingDown && !self.has_ended => Ok(()),
            Err(error) => self.answer(tag, -error.kind.errno(), &[]),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.commands.submit()
    }

    fn leave(&mut self) {
        self.is_taking = false;
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }
}
