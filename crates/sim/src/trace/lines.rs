//! Lines of a byte stream, through one buffer of fixed size.
//!
//! A line longer than [`LINE_BYTES_MAX`] is cut there and its rest dropped: no real trace has one,
//! and a hostile one must not take memory. Lines end with LF, CR LF or the end of the stream.

use memchr::memchr;
use std::io::{self, Read};

/// Longest line that is passed on whole.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024;

const BUFFER_BYTES: usize = 256 * 1024;

/// A stream cut into lines.
pub(super) struct Lines {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of `buffer` that was read but not yet passed on.
    start: usize,
    end: usize,
    at_end_of_input: bool,
    /// The line being cut was too long; drop bytes until it ends.
    dropping: bool,
    /// Lines passed on so far: the number of the latest.
    pub(super) number: u64,
}

impl Lines {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            at_end_of_input: false,
            dropping: false,
            number: 0,
        }
    }

    /// The next line without its end, or `None` behind the last.
    pub(super) fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(len) = memchr(b'\n', unread) {
                let line = self.start..self.start + len;
                self.start = line.end + 1;
                if std::mem::take(&mut self.dropping) {
                    continue;
                }
                self.number += 1;
                return Ok(Some(trimmed(&self.buffer[line])));
            }
            if self.at_end_of_input {
                let line = self.start..self.end;
                self.start = self.end;
                if line.is_empty() || self.dropping {
                    return Ok(None);
                }
                self.number += 1;
                return Ok(Some(trimmed(&self.buffer[line])));
            }
            if self.dropping {
                self.start = self.end;
            } else if unread.len() > LINE_BYTES_MAX {
                let line = self.start..self.start + LINE_BYTES_MAX;
                (self.start, self.dropping) = (line.end, true);
                self.number += 1;
                return Ok(Some(&self.buffer[line]));
            }
            self.read_more()?;
        }
    }

    /// Copies of the first lines, at most `lines_max`, without passing them on. Call before
    /// [`Lines::next_line`]. A last line that the buffer cuts off is left out.
    pub(super) fn peek(&mut self, lines_max: usize) -> io::Result<Vec<Vec<u8>>> {
        const PEEK_BYTES: usize = BUFFER_BYTES / 2;
        while !self.at_end_of_input && self.end - self.start < PEEK_BYTES {
            self.read_more()?;
        }
        let unread = &self.buffer[self.start..self.end];
        let mut pieces: Vec<&[u8]> =
            unread.split(|&byte| byte == b'\n').take(lines_max + 1).collect();
        let last_is_cut =
            !self.at_end_of_input || pieces.last().is_some_and(|last| last.is_empty());
        if pieces.len() > lines_max || (last_is_cut && pieces.len() > 1) {
            pieces.pop();
        }
        Ok(pieces.into_iter().map(|line| trimmed(line).to_vec()).collect())
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end_of_input = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out its bytes a few at a time, as pipes do.
    struct Trickle(Vec<u8>, usize);

    impl Read for Trickle {
        fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(self.1).min(target.len());
            target[..len].copy_from_slice(&self.0[..len]);
            self.0.drain(..len);
            Ok(len)
        }
    }

    fn all(bytes: &[u8], step: usize) -> Vec<String> {
        let mut lines = Lines::new(Box::new(Trickle(bytes.to_vec(), step)));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(lines.number, found.len() as u64);
        found
    }

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_arrive() {
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(all(b"a\nbb\r\n\nccc", step), ["a", "bb", "", "ccc"], "step {step}");
            assert_eq!(all(b"a\n", step), ["a"], "step {step}");
            assert_eq!(all(b"", step), [""; 0], "step {step}");
        }
    }

    #[test]
    fn many_lines_pass_through_the_one_buffer() {
        let numbers: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
        let found = all(numbers.join("\n").as_bytes(), 70_000);
        assert!(found == numbers);
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_is_whole() {
        let mut text = vec![b'x'; 3 * BUFFER_BYTES];
        text.extend_from_slice(b"\nnext\n");
        let found = all(&text, 10_000);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].len(), found[1].as_str()), (LINE_BYTES_MAX, "next"));
    }

    #[test]
    fn peeked_lines_are_read_again() {
        for (text, expected) in [
            ("a\nb\nc\n", vec!["a", "b"]),
            ("a\nb", vec!["a", "b"]),
            ("a\n", vec!["a"]),
            ("", vec![""]),
        ] {
            let mut lines = Lines::new(Box::new(Trickle(text.into(), 1)));
            let expected: Vec<_> = expected.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(lines.peek(2).unwrap(), expected, "{text:?}");
            let first = lines.next_line().unwrap().map(<[u8]>::to_vec);
            assert_eq!(first.is_some(), !text.is_empty(), "{text:?}");
        }
    }
}
