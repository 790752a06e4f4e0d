//! Big-endian numbers and counted strings, read from bytes that a peer sent.
//!
//! Nothing here indexes beyond the bytes it was given or allocates what a length field claims:
//! every read checks first and says what is missing.

/// What a field expected and did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated {
    /// The field.
    pub(crate) field: &'static str,
    /// Bytes it needs.
    pub(crate) expected: usize,
    /// Bytes there are.
    pub(crate) found: usize,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { field, expected, found } = self;
        write!(formatter, "{field}: expected {expected} bytes, found {found}")
    }
}

/// Reads fields one after the other.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Truncated> {
        let split = self.rest.split_at_checked(len);
        let (taken, rest) =
            split.ok_or(Truncated { field, expected: len, found: self.rest.len() })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self, field: &'static str) -> Result<[u8; LEN], Truncated> {
        let mut array = [0; LEN];
        array.copy_from_slice(self.bytes(LEN, field)?);
        Ok(array)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Truncated> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Truncated> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Truncated> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// A length as `u32`, then that many bytes.
    pub(crate) fn counted(&mut self, field: &'static str) -> Result<&'a [u8], Truncated> {
        let len = self.u32(field)?;
        self.bytes(len as usize, field)
    }

    /// Says that nothing may follow.
    pub(crate) fn end(&self, field: &'static str) -> Result<(), Truncated> {
        let found = self.rest.len();
        if found == 0 { Ok(()) } else { Err(Truncated { field, expected: 0, found }) }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_bytes_is_told_not_followed() {
        let mut fields = Fields::new(&[0xff, 0xff, 0xff, 0xff, 1, 2]);
        let error = fields.counted("name").unwrap_err();
        assert_eq!(error, Truncated { field: "name", expected: 0xffff_ffff, found: 2 });
    }

    #[test]
    fn numbers_are_big_endian() {
        let mut fields = Fields::new(&[1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(fields.u16("a").unwrap(), 0x0102);
        assert_eq!(fields.u32("b").unwrap(), 3);
        assert_eq!(fields.u64("c").unwrap(), 4);
        assert_eq!(fields.remaining(), 0);
    }
}
