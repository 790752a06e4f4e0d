//! The front, asked as the kernel asks.

use super::{KernelFront, ended_connection};
use crate::protocol::constants::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command, command_flag, errno};
use nearhead_disk::{BufferMut, Payload};
use nearhead_service::{
    ErrorKind, LastingFront, Operation, Reply, Request, RequestError, ServiceInfo,
};
use std::io::{ErrorKind as IoErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

const SIZE: u64 = 1 << 20;

struct Kernel {
    end: UnixStream,
    front: KernelFront,
}

fn info(read_only: bool) -> ServiceInfo {
    ServiceInfo {
        description: String::new(),
        size_bytes: SIZE,
        block_bytes_min: 512,
        block_bytes_preferred: 4096,
        request_bytes_max: 32 << 20,
        read_only,
        rotational: true,
        fast_zero: true,
    }
}

impl Kernel {
    fn new(read_only: bool) -> Self {
        let (end, other) = UnixStream::pair().unwrap();
        Self { end, front: KernelFront::new(other.into(), info(read_only), None, 0).unwrap() }
    }

    fn ask(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, len: u32, content: &[u8]) {
        let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(content);
        self.end.write_all(&bytes).unwrap();
    }

    fn request(&mut self) -> Request {
        self.front.receive(0).unwrap().expect("a request")
    }

    fn answer(&mut self, request: &Request, result: Result<Vec<Payload>, ErrorKind>) {
        let result = result.map_err(|kind| RequestError::new(kind, "as the test wants it"));
        assert!(self.front.is_mine(request.id));
        self.front.reply(Reply { id: request.id, result }).unwrap();
        self.front.send().unwrap();
        assert!(!self.front.is_mine(request.id), "it is answered once");
    }

    /// Error and cookie of the next reply, and so many bytes behind it.
    fn hear(&mut self, len: usize) -> (u32, u64, Vec<u8>) {
        let mut header = [0; 16];
        self.end.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], SIMPLE_REPLY_MAGIC.to_be_bytes());
        let mut content = vec![0; len];
        self.end.read_exact(&mut content).unwrap();
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(header[8..].try_into().unwrap()), content)
    }

    fn hears_nothing(&mut self) {
        self.end.set_nonblocking(true).unwrap();
        assert_eq!(self.end.read(&mut [0]).unwrap_err().kind(), IoErrorKind::WouldBlock);
    }
}

#[test]
fn requests_come_as_they_are_and_answers_go_back_in_any_order() {
    let mut kernel = Kernel::new(false);
    kernel.ask(command::READ, 0, 11, 4096, 1024, &[]);
    kernel.ask(command::WRITE, command_flag::FUA, 12, 8192, 512, &[7; 512]);
    kernel.ask(command::FLUSH, 0, 13, 0, 0, &[]);
    let (read, write, flush) = (kernel.request(), kernel.request(), kernel.request());
    assert!(matches!(read.operation, Operation::Read { offset: 4096, len: 1024 }));
    let Operation::Write { offset: 8192, data: Payload::Bytes(data), fua: true } = &write.operation
    else {
        panic!("{write:?}");
    };
    assert_eq!(&**data, &[7; 512]);
    assert!(matches!(flush.operation, Operation::Flush));
    assert!(kernel.front.receive(0).unwrap().is_none());
    kernel.answer(&flush, Ok(Vec::new()));
    kernel.answer(&write, Err(ErrorKind::NoSpace));
    let bytes = BufferMut::copy_of(&[9; 512]).freeze();
    kernel.answer(&read, Ok(vec![Payload::Bytes(bytes), Payload::Zeros(512)]));
    assert_eq!(kernel.hear(0), (0, 13, Vec::new()));
    assert_eq!(kernel.hear(0), (errno::NOSPC, 12, Vec::new()));
    assert_eq!(kernel.hear(1024), (0, 11, [[9; 512], [0; 512]].concat()));
}

#[test]
fn what_cannot_be_done_is_refused_and_what_follows_is_not_lost() {
    let mut kernel = Kernel::new(true);
    kernel.ask(command::WRITE, 0, 1, 0, 512, &[7; 512]);
    kernel.ask(command::READ, 0, 2, SIZE, 512, &[]);
    kernel.ask(command::READ, 0, 3, 0, 512, &[]);
    assert!(matches!(kernel.request().operation, Operation::Read { offset: 0, len: 512 }));
    kernel.front.send().unwrap();
    assert_eq!(kernel.hear(0).0, errno::PERM);
    assert_eq!(kernel.hear(0), (errno::INVAL, 2, Vec::new()));
}

#[test]
fn the_first_flush_after_a_loss_fails_and_the_next_one_does_not() {
    let mut kernel = Kernel::new(false);
    kernel.ask(command::FLUSH, 0, 1, 0, 0, &[]);
    assert!(kernel.front.receive(1).unwrap().is_none());
    assert_eq!(kernel.hear(0), (errno::IO, 1, Vec::new()));
    kernel.ask(command::FLUSH, 0, 2, 0, 0, &[]);
    assert!(kernel.front.receive(1).unwrap().is_some());
}

#[test]
fn what_comes_too_late_for_this_process_is_left_to_its_successor() {
    let mut kernel = Kernel::new(false);
    kernel.ask(command::FLUSH, 0, 1, 0, 0, &[]);
    let late = kernel.request();
    kernel.front.leave();
    kernel.ask(command::FLUSH, 0, 2, 0, 0, &[]);
    assert!(kernel.front.receive(0).unwrap().is_none(), "nothing more is taken");
    kernel.answer(&late, Err(ErrorKind::ShuttingDown));
    kernel.hears_nothing();
}

#[test]
fn an_end_that_the_kernel_announced_is_one_and_any_other_is_an_error() {
    let mut kernel = Kernel::new(false);
    kernel.ask(command::DISC, 0, 1, 0, 0, &[]);
    assert!(kernel.front.receive(0).unwrap().is_none());
    assert!(kernel.front.has_ended());

    let ended = ended_connection().unwrap();
    let mut front = KernelFront::new(ended, info(false), None, 0).unwrap();
    assert!(front.receive(0).unwrap().is_none() && front.has_ended());

    let mut kernel = Kernel::new(false);
    kernel.end.shutdown(std::net::Shutdown::Both).unwrap();
    let error = kernel.front.receive(0).unwrap_err();
    assert_eq!((error.kind(), kernel.front.has_ended()), (IoErrorKind::UnexpectedEof, false));

    for garbage in
        [vec![0; 28], [&REQUEST_MAGIC.to_be_bytes()[..], &[0, 0, 0, 1], &[0xff; 20]].concat()]
    {
        let mut kernel = Kernel::new(false);
        kernel.end.write_all(&garbage).unwrap();
        assert!(kernel.front.receive(0).is_err(), "{garbage:?}");
    }
}
