//! A client's socket of either kind.

use super::address::Place;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn connect(place: &Place) -> io::Result<Self> {
        match place {
            Place::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Place::Tcp(host) => TcpStream::connect(host).map(Self::Tcp),
        }
    }

    /// Bounds each read and write from here on.
    pub(super) fn bound(&self, step_max: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(step_max)?;
                stream.set_write_timeout(step_max)
            }
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(step_max)?;
                stream.set_write_timeout(step_max)
            }
        }
    }

    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    /// Waits until something came, or there is room to send if `wants_room`, or the time is over.
    pub(super) fn wait(&self, wants_room: bool, most: Duration) -> io::Result<()> {
        let room = if wants_room { PollFlags::OUT } else { PollFlags::empty() };
        let mut watched = [PollFd::new(self, PollFlags::IN | room)];
        let most =
            Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        match poll(&mut watched, Some(&most)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Instant;

    /// A connection of either kind, and its other end, which is only held.
    fn pairs() -> Vec<(Stream, Box<dyn Write>)> {
        let (near, far) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place::Tcp(listener.local_addr().unwrap().to_string());
        let tcp = Stream::connect(&place).unwrap();
        vec![(Stream::Unix(near), Box::new(far)), (tcp, Box::new(listener.accept().unwrap().0))]
    }

    #[test]
    fn a_bounded_read_from_a_silent_server_ends() {
        for (mut stream, _silent) in pairs() {
            stream.bound(Some(Duration::from_millis(1))).unwrap();
            let error = stream.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        }
    }

    #[test]
    fn a_wait_ends_when_something_came_or_there_is_room_and_else_not_before_its_time() {
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(3600));
        for (stream, mut other) in pairs() {
            let start = Instant::now();
            stream.wait(false, short).unwrap();
            assert!(start.elapsed() >= short);
            stream.wait(true, long).unwrap();
            other.write_all(&[1]).unwrap();
            stream.wait(false, long).unwrap();
        }
    }
}
