//! Commands that a driver of the kernel defines (`IORING_OP_URING_CMD`, Linux 5.19), each with memory lent to it, and the words that such a
//! driver shows.
//!
//! What a command means is for whoever sends it; here it is a code, 32 bytes, and memory. The rule that makes it sound is that of
//! [`crate::ring`]: **memory that was lent is untouched until the outcome of its command has been taken**, and a ring that is dropped leaks
//! what was not given back, rather than free it under the kernel. The address of that memory stands in bytes 8 to 15 of the 32: that is
//! where all commands of `linux/ublk_cmd.h` have it. Nothing here waits, but for [`DriverCommands::wait`].
#![expect(unsafe_code, reason = "the kernel reads and writes memory that Rust owns")]

use io_uring::{IoUring, opcode, squeue, types};
use nearhead_disk::BufferMut;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a driver may define of a command.
pub const COMMAND_BYTES: usize = 32;
/// Where in it the address of the memory stands.
const ADDRESS: Range<usize> = 8..16;

/// What came of a command.
#[derive(Debug)]
pub struct CommandOutcome {
    /// The slot that it was sent with.
    pub slot: u16,
    /// What the driver answered: a negative one is an error of Linux.
    pub result: i32,
    /// The memory that was lent.
    pub memory: Option<BufferMut>,
}

#[derive(Default)]
struct Slot {
    is_taken: bool,
    memory: Option<BufferMut>,
}

/// Commands in the hands of a driver, at most one in each slot.
pub struct DriverCommands {
    io: IoUring<squeue::Entry128>,
    slots: Vec<Slot>,
    unsubmitted: usize,
}

impl DriverCommands {
    /// A ring for commands in so many slots.
    ///
    /// # Errors
    /// What the kernel answered: `ENOSYS` or `EPERM` where `io_uring` is missing or forbidden, `EINVAL` before Linux 5.19.
    pub fn new(slots: u16) -> io::Result<Self> {
        let io = IoUring::builder().build(u32::from(slots).next_power_of_two())?;
        let slots = (0..slots).map(|_| Slot::default()).collect();
        Ok(Self { io, slots, unsubmitted: 0 })
    }

    /// Readable for as long as an outcome waits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }

    /// Prepares a command for the driver behind `device`, which [`DriverCommands::submit`] hands over; `memory` is lent to it.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if there is no such slot, or a command in it.
    pub fn prepare(
        &mut self,
        device: BorrowedFd<'_>,
        slot: u16,
        code: u32,
        mut command: [u8; COMMAND_BYTES],
        memory: Option<BufferMut>,
    ) -> io::Result<()> {
        let taken = self.slots.get_mut(usize::from(slot)).filter(|slot| !slot.is_taken);
        let taken = taken.ok_or_else(|| {
            let what = format!("expected a free slot for a command, found slot {slot} taken");
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        *taken = Slot { is_taken: true, memory };
        if let Some(memory) = &mut taken.memory {
            command[ADDRESS].copy_from_slice(&(memory.as_mut_ptr() as u64).to_ne_bytes());
        }
        let mut whole = [0; 80];
        whole[..COMMAND_BYTES].copy_from_slice(&command);
        let entry = opcode::UringCmd80::new(types::Fd(device.as_raw_fd()), code).cmd(whole).build();
        // SAFETY: the memory whose address the command has is its slot's until the outcome is taken (module documentation), on the heap;
        // the kernel itself keeps the file open.
        let pushed = unsafe { self.io.submission().push(&entry.user_data(u64::from(slot))) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.unsubmitted += 1;
        Ok(())
    }

    /// Hands over what was prepared.
    ///
    /// # Errors
    /// What the kernel answered; the rest stays prepared.
    pub fn submit(&mut self) -> io::Result<()> {
        while self.unsubmitted > 0 {
            match self.io.submit() {
                Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(accepted) => self.unsubmitted -= accepted.min(self.unsubmitted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next outcome, if there is one.
    pub fn poll(&mut self) -> Option<CommandOutcome> {
        let entry = self.io.completion().next()?;
        let number = entry.user_data() as u16;
        let slot = std::mem::take(self.slots.get_mut(usize::from(number))?);
        Some(CommandOutcome { slot: number, result: entry.result(), memory: slot.memory })
    }

    /// Waits for an outcome, at most so long.
    pub fn wait(&mut self, at_most: Duration) {
        let limit = types::Timespec::from(at_most);
        let arguments = types::SubmitArgs::new().timespec(&limit);
        // Whatever ended it, the caller looks for an outcome.
        let _ = self.io.submitter().submit_with_args(1, &arguments);
    }
}

impl Drop for DriverCommands {
    fn drop(&mut self) {
        for slot in self.slots.drain(..).filter(|slot| slot.is_taken) {
            std::mem::forget(slot);
        }
    }
}

/// Words that a driver shows and changes, mapped to be read only.
pub struct DriverWords {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: it owns its mapping, which belongs to the process and to no thread of it.
unsafe impl Send for DriverWords {}

impl DriverWords {
    /// So many words of the driver behind `device`.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn map(device: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<AtomicU64>();
        // SAFETY: a new mapping where the kernel likes, so nothing that Rust knows of is replaced.
        let start =
            unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, device, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { start, words })
    }

    /// A word by its number, as it is at this moment.
    pub fn load(&self, number: usize) -> Option<u64> {
        let is_there = number < self.words;
        // SAFETY: so many words are mapped and readable until `drop`, page-aligned; the driver's writes are to whole words. No reference
        // is given out, so nobody can write through it.
        is_there.then(|| unsafe { self.start.add(number).as_ref() }.load(Ordering::Acquire))
    }
}

impl Drop for DriverWords {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and no reference to it is left.
        let _ = unsafe {
            munmap(self.start.as_ptr().cast::<c_void>(), self.words * size_of::<AtomicU64>())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(slots: u16) -> Option<DriverCommands> {
        let ring = DriverCommands::new(slots);
        ring.inspect_err(|error| println!("skipped: no such io_uring here: {error}")).ok()
    }

    #[test]
    fn memory_comes_back_with_the_outcome_of_its_command_also_if_that_is_an_error() {
        let Some(mut commands) = commands(2) else { return };
        let memory = BufferMut::copy_of(b"lent");
        // A memory file has a driver that knows no commands.
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        commands.prepare(file.as_fd(), 1, 7, [0; COMMAND_BYTES], Some(memory)).unwrap();
        assert!(commands.poll().is_none(), "nothing was handed over");
        commands.submit().unwrap();
        commands.wait(Duration::from_secs(10));
        let outcome = commands.poll().unwrap();
        assert_eq!((outcome.slot, outcome.result), (1, -libc::EOPNOTSUPP));
        assert_eq!(&*outcome.memory.unwrap(), b"lent");
    }

    #[test]
    fn a_slot_takes_one_command_at_a_time() {
        let Some(mut commands) = commands(1) else { return };
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut send = |slot| commands.prepare(file.as_fd(), slot, 7, [0; COMMAND_BYTES], None);
        send(0).unwrap();
        for slot in [0, 1] {
            assert_eq!(send(slot).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{slot}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_and_none_past_the_last() {
        let (shared, file) = crate::SharedWords::create("test", 512).unwrap();
        let words = DriverWords::map(file.as_fd(), 512).unwrap();
        shared.words()[511].store(7, Ordering::Release);
        assert_eq!((words.load(511), words.load(512)), (Some(7), None));
    }
}
