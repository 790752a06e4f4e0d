//! An export as a disk: commands out as requests, replies back as completions.
//!
//! Nothing blocks once it is connected, but for a bounded wait where somebody asks what is blank. A connection that ends,
//! or a server that breaks the protocol, takes the disk with it: all that was outstanding fails as
//! [`DiskErrorKind::Gone`](nearhead_disk::DiskErrorKind::Gone), and so does what comes later, because nobody knows
//! what became of it. It never connects again by itself: behind the same name may be a disk that lost what its cache
//! held.

use super::Address;
use super::handshake::{self, Facts};
use super::link::Link;
use super::stream::Stream;
use crate::protocol::constants::{command, command_flag, flag};
use nearhead_disk::{Command, Completion, Disk, Nanos, Payload, Properties, Run, Submission};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long a server may take for each step of the handshake.
const HANDSHAKE_STEP_MAX: Duration = Duration::from_secs(10);
/// Most commands outstanding: far below what any server takes from one client.
const QUEUE_DEPTH: u16 = 64;
/// Largest read or write sent, if the server takes as much.
const TRANSFER_BYTES_MAX: u32 = 4 << 20;

/// A disk behind an NBD connection.
pub struct RemoteDisk {
    properties: Properties,
    read_only: bool,
    /// Readable when the link may have something.
    wake: OwnedFd,
    link: RefCell<Link>,
}

impl RemoteDisk {
    /// Connects to an export and learns what it is. Errors name the export.
    pub fn connect(address: &Address) -> Result<Self, String> {
        let failed = |problem: String| format!("{address}: {problem}");
        let told = |error: io::Error| failed(error.to_string());
        let mut stream = Stream::connect(&address.place).map_err(told)?;
        stream.bound(Some(HANDSHAKE_STEP_MAX)).map_err(told)?;
        let facts = handshake::choose(&mut stream, &address.export).map_err(failed)?;
        if let Some(problem) = handshake::what_is_missing(&facts) {
            return Err(failed(problem));
        }
        let properties = properties(address, &facts);
        properties.validate().map_err(|error| failed(error.to_string()))?;
        stream.bound(None).map_err(told)?;
        let link = Link::new(properties.name.clone(), stream, facts.form, facts.allocation);
        let link = link.map_err(told)?;
        Ok(Self {
            read_only: facts.offers(flag::READ_ONLY),
            properties,
            wake: link.as_fd().try_clone_to_owned().map_err(told)?,
            link: RefCell::new(link),
        })
    }

    /// Whether the server refuses every change.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

impl Disk for RemoteDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        let Submission { ticket, command: asked, .. } = submission;
        let has_cache = self.properties.volatile_cache;
        let link = self.link.get_mut();
        if link.is_gone() {
            let error = link.gone_error();
            return link.answer(ticket, Err(error));
        }
        let fua = |durable: bool| {
            // Without a volatile cache there is nothing to ask for.
            if durable && has_cache { command_flag::FUA } else { 0 }
        };
        match asked {
            Command::Read { offset, len } => link.read(ticket, offset, len),
            Command::Write { offset, parts, durable } => {
                let len = nearhead_disk::total_len(&parts) as u64;
                link.change(ticket, (command::WRITE, fua(durable), offset, len), &parts);
            }
            Command::WriteZeroes { offset, len, durable } => {
                link.change_range(ticket, (command::WRITE_ZEROES, fua(durable), offset, len));
            }
            Command::Trim { offset, len } => {
                link.change_range(ticket, (command::TRIM, 0, offset, len));
            }
            Command::Flush if has_cache => link.change(ticket, (command::FLUSH, 0, 0, 0), &[]),
            Command::Flush => link.answer(ticket, Ok(Payload::EMPTY)),
        }
    }

    fn kick(&mut self) {
        self.link.get_mut().pump();
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        let link = self.link.get_mut();
        if !link.has_done() {
            link.pump();
        }
        link.next_done()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.link.borrow().has_done().then_some(Nanos::ZERO)
    }

    /// As the server tells by `base:allocation`, if it does; it is asked when nothing else is under way. That others change
    /// the export meanwhile is not known here.
    fn run_at(&self, offset: u64) -> Run {
        let Properties { capacity_bytes, sector_bytes, .. } = self.properties;
        self.link.borrow_mut().run_at(offset, capacity_bytes, sector_bytes)
    }

    fn trouble(&self) -> Option<String> {
        let link = self.link.borrow();
        link.is_gone().then(|| link.gone_error().detail)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wake.as_fd())
    }
}

fn properties(address: &Address, facts: &Facts) -> Properties {
    let sector_bytes = if facts.block_bytes_min <= 512 { 512 } else { 4096 };
    let transfer = facts.request_bytes_max.min(TRANSFER_BYTES_MAX);
    Properties {
        name: address.to_string(),
        capacity_bytes: facts.size_bytes / u64::from(sector_bytes) * u64::from(sector_bytes),
        sector_bytes,
        physical_sector_bytes: facts.block_bytes_preferred.clamp(sector_bytes, 4096),
        rotational: facts.offers(flag::ROTATIONAL),
        rotation_period: None,
        volatile_cache: facts.offers(flag::SEND_FLUSH),
        // A server may ignore a trim, and its client cannot tell.
        trim_reads_zero: false,
        fast_zero: facts.offers(flag::SEND_FAST_ZERO),
        transfer_bytes_max: transfer / sector_bytes * sector_bytes,
        queue_depth_max: QUEUE_DEPTH,
        width: 1,
        striping: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Form;
    use nearhead_disk::{Class, CommandId, Ticket};
    use std::os::unix::net::UnixStream;

    fn facts() -> Facts {
        Facts {
            size_bytes: (1 << 30) + 4095,
            flags: 0,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 65_536,
            form: Form::Simple,
            allocation: None,
        }
    }

    fn address() -> Address {
        Address::parse("nbd+unix:///?socket=/some/where").unwrap()
    }

    #[test]
    fn sectors_are_the_smallest_of_the_two_sizes_that_the_server_takes() {
        for (block_bytes_min, sector_bytes) in
            [(1, 512), (2, 512), (512, 512), (1024, 4096), (2048, 4096), (4096, 4096)]
        {
            let found = properties(&address(), &Facts { block_bytes_min, ..facts() });
            assert_eq!(found.sector_bytes, sector_bytes, "blocks of {block_bytes_min}");
            let size = (1 << 30) + if sector_bytes == 512 { 3584 } else { 0 };
            assert_eq!(found.capacity_bytes, size);
            found.validate().unwrap();
        }
    }

    #[test]
    fn an_answer_that_is_there_wakes_at_once_and_none_does_not() {
        let stream = Stream::Unix(UnixStream::pair().unwrap().0);
        let link = Link::new("export".to_owned(), stream, Form::Simple, None).unwrap();
        let wake = link.as_fd().try_clone_to_owned().unwrap();
        let properties = properties(&address(), &facts());
        let mut disk = RemoteDisk { properties, read_only: false, wake, link: RefCell::new(link) };
        assert_eq!(disk.wake_at(), None);
        // Without a volatile cache a flush needs no server.
        let submission = Submission {
            ticket: Ticket::new(CommandId(1)),
            class: Class::Foreground,
            command: Command::Flush,
        };
        disk.submit(submission, Nanos(5));
        assert_eq!(disk.wake_at(), Some(Nanos::ZERO));
        assert!(disk.poll(Nanos(5)).unwrap().result.is_ok());
        assert_eq!(disk.wake_at(), None);
    }
}
