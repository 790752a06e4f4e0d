//! A client of the helper over two pipes, written from docs/wal-helper.md alone: it shares no code
//! with the library, as a client in another language would not.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

pub(crate) const HELLO: u16 = 1;
pub(crate) const OPEN_STREAM: u16 = 2;
pub(crate) const WRITE: u16 = 3;
pub(crate) const SYNC: u16 = 4;
pub(crate) const POSITION: u16 = 5;
pub(crate) const TRUNCATE: u16 = 6;
pub(crate) const CLOSE: u16 = 7;
pub(crate) const READ: u16 = 8;
pub(crate) const RESUME: u16 = 9;
pub(crate) const OPEN_LOG: u16 = 16;
pub(crate) const APPEND: u16 = 17;
pub(crate) const COMMIT: u16 = 18;
pub(crate) const TRUNCATE_PREFIX: u16 = 19;
pub(crate) const RECORDS: u16 = 20;
pub(crate) const OPEN_FILE: u16 = 32;
pub(crate) const ERROR: u16 = 0xFFFF;

/// A frame that came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) kind: u16,
    pub(crate) tag: u64,
    pub(crate) handle: u32,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The number of an error.
    pub(crate) fn code(&self) -> u16 {
        assert_eq!(self.kind, ERROR, "{self:?}");
        u16::from_le_bytes(self.body[..2].try_into().unwrap())
    }

    /// The text of an error.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body[24..].to_vec()).unwrap()
    }

    /// The number at this place of a body.
    pub(crate) fn number(&self, at: usize) -> u64 {
        assert_ne!(self.kind, ERROR, "{}", self.text());
        u64::from_le_bytes(self.body[at..at + 8].try_into().unwrap())
    }
}

/// A helper and its pipes.
pub(crate) struct Pipes {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: ChildStdout,
    tag: u64,
}

impl Pipes {
    /// A helper that has not been greeted.
    pub(crate) fn silent() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nearhead-wal-helper"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, input, output, tag: 0 }
    }

    /// One that has.
    pub(crate) fn start() -> Self {
        let mut pipes = Self::silent();
        let hello = pipes.ask(HELLO, 0, b"NHWP\x01\0\0\0").unwrap();
        assert_eq!(hello.kind, 0x8000 | HELLO);
        assert_eq!(&hello.body[..8], b"NHWP\x01\0\0\0");
        pipes
    }

    /// Sends; false if nobody takes it.
    pub(crate) fn send(&mut self, kind: u16, handle: u32, body: &[u8]) -> bool {
        self.tag += 1;
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(kind.to_le_bytes());
        frame.extend([0; 2]);
        frame.extend(self.tag.to_le_bytes());
        frame.extend(handle.to_le_bytes());
        frame.extend(body);
        self.raw(&frame)
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> bool {
        self.input.as_mut().unwrap().write_all(bytes).is_ok()
    }

    /// The next frame; `None` at the end.
    pub(crate) fn receive(&mut self) -> Option<Answer> {
        let mut header = [0; 20];
        self.output.read_exact(&mut header).ok()?;
        let len = u32::from_le_bytes(header[..4].try_into().unwrap());
        let mut body = vec![0; len as usize];
        self.output.read_exact(&mut body).ok()?;
        assert_eq!(header[6..8], [0; 2]);
        Some(Answer {
            kind: u16::from_le_bytes(header[4..6].try_into().unwrap()),
            tag: u64::from_le_bytes(header[8..16].try_into().unwrap()),
            handle: u32::from_le_bytes(header[16..].try_into().unwrap()),
            body,
        })
    }

    /// Sends and waits for the answer; `None` if the helper is gone.
    pub(crate) fn ask(&mut self, kind: u16, handle: u32, body: &[u8]) -> Option<Answer> {
        if !self.send(kind, handle, body) {
            return None;
        }
        let answer = self.receive()?;
        assert_eq!((answer.tag, answer.handle), (self.tag, handle), "{answer:?}");
        Some(answer)
    }

    pub(crate) fn open_stream(
        &mut self,
        handle: u32,
        at: u8,
        position: u64,
        path: &Path,
    ) -> Answer {
        let mut body = vec![at, 0, 0, 0];
        body.extend(0o640_u32.to_le_bytes());
        body.extend(65536_u32.to_le_bytes());
        body.extend([0; 4]);
        body.extend((256_u64 << 10).to_le_bytes());
        body.extend(position.to_le_bytes());
        body.extend(path.to_str().unwrap().as_bytes());
        self.ask(OPEN_STREAM, handle, &body).unwrap()
    }

    pub(crate) fn open_log(&mut self, handle: u32, segments_max: u32, path: &Path) -> Answer {
        let mut body = vec![1, 0, 0, 0];
        for size in [64 << 10, 10_000, segments_max] {
            body.extend(u32::to_le_bytes(size));
        }
        body.extend(path.to_str().unwrap().as_bytes());
        self.ask(OPEN_LOG, handle, &body).unwrap()
    }

    /// Ends its input and waits for it.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.input = None;
        while let Some(answer) = self.receive() {
            assert_ne!(answer.kind, ERROR, "{}", answer.text());
        }
        self.child.wait().unwrap()
    }
}
