//! Choices taken from the bytes of an input, one after the other. Behind its end everything is zero.

/// What is left of an input.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Two bytes, little-endian.
    pub(crate) fn half(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    /// At most `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

/// `bytes`, cut or filled up with zeros to `len`.
pub(crate) fn resized(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut resized = bytes[..bytes.len().min(len)].to_vec();
    resized.resize(len, 0);
    resized
}
