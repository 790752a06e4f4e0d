//! What a client is offered: the export's names, sizes and flags.
//!
//! All names lead to the one service behind the server, so every connection sees the same data and
//! a flush on one covers what was answered on any other: `CAN_MULTI_CONN` is honest. Nothing is
//! promised that [`ServiceInfo`] does not say.

use super::constants::flag;
use super::request::{ClientCommand, ClientRequest};
use nearhead_disk::ALIGN_BYTES;
use nearhead_service::ServiceInfo;
use std::fmt;

/// Largest request this server takes, whatever the service offers, in bytes: the size that a
/// client may assume without asking (proto.md, "Block size constraints").
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// An offer that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportError {
    /// What is wrong, and what was expected.
    pub problem: String,
}

impl fmt::Display for ExportError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.problem)
    }
}

impl std::error::Error for ExportError {}

/// A service under one or more names.
#[derive(Clone, Debug)]
pub struct Export {
    names: Vec<String>,
    info: ServiceInfo,
    /// The service's own smallest block, whatever clients may use.
    sector_bytes: u32,
}

impl Export {
    /// Offers a service under `names`; without any, under the default name `""`.
    pub fn new(mut names: Vec<String>, info: ServiceInfo) -> Result<Self, ExportError> {
        if names.is_empty() {
            names.push(String::new());
        }
        let limit = super::constants::STRING_BYTES_MAX;
        let problem = if let Some(name) = names.iter().find(|name| name.len() > limit) {
            format!("export name: expected at most {limit} bytes, found {}", name.len())
        } else if !info.block_bytes_min.is_power_of_two() || info.block_bytes_min > 65_536 {
            // proto.md: the minimum is a power of two of at most 64 KiB.
            format!(
                "smallest block: expected a power of two up to 65536, found {}",
                info.block_bytes_min
            )
        } else if info.request_bytes_max < info.block_bytes_min {
            format!(
                "largest request: expected at least one block of {}, found {}",
                info.block_bytes_min, info.request_bytes_max
            )
        } else {
            let sector_bytes = info.block_bytes_min;
            return Ok(Self { names, info: Self::rounded(info), sector_bytes });
        };
        Err(ExportError { problem })
    }

    /// Takes requests at any byte: whoever serves this export puts whole blocks together.
    #[must_use]
    pub fn at_any_byte(mut self) -> Self {
        self.info.block_bytes_min = 1;
        self
    }

    /// Memory that `request` occupies until it is answered, and its answer until it is sent, in
    /// bytes: its content, and copies where it does not cover whole sectors.
    pub fn memory_bytes(&self, request: &ClientRequest) -> usize {
        let sector = u64::from(self.sector_bytes);
        let is_whole = request.offset.is_multiple_of(sector) && request.len.is_multiple_of(sector);
        // Two sectors as they were read and two as they are written, and the rest of a page.
        let sector_memory = (self.sector_bytes as usize).max(ALIGN_BYTES);
        let copies = if is_whole { 0 } else { 4 * sector_memory + ALIGN_BYTES };
        let content = || (request.len as usize).next_multiple_of(ALIGN_BYTES);
        match request.command {
            ClientCommand::Read { .. } => content() + copies,
            ClientCommand::Write if is_whole => content(),
            ClientCommand::Write => 2 * content() + copies,
            ClientCommand::Trim | ClientCommand::WriteZeroes { .. } => copies,
            ClientCommand::Flush | ClientCommand::Cache | ClientCommand::BlockStatus { .. } => 0,
        }
    }

    /// Facts that fit each other: whole blocks, and the preferred block between the bounds.
    fn rounded(mut info: ServiceInfo) -> ServiceInfo {
        let block = info.block_bytes_min;
        info.size_bytes -= info.size_bytes % u64::from(block);
        info.request_bytes_max = info.request_bytes_max.min(REQUEST_BYTES_MAX);
        info.request_bytes_max -= info.request_bytes_max % block;
        let preferred = info.block_bytes_preferred.clamp(block, info.request_bytes_max.max(block));
        // proto.md: the preferred block is a power of two; round down to one.
        info.block_bytes_preferred = 1 << preferred.ilog2();
        info.description.truncate(floor_char_boundary(&info.description, 256));
        info
    }

    /// The names, the default one first.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Facts about the service.
    pub fn info(&self) -> &ServiceInfo {
        &self.info
    }

    /// The export that a client calls `name`; the empty name is the default export.
    pub fn find(&self, name: &[u8]) -> Option<&str> {
        if name.is_empty() {
            return self.names.first().map(String::as_str);
        }
        self.names.iter().map(String::as_str).find(|known| known.as_bytes() == name)
    }

    /// The transmission flags for a client that did or did not negotiate structured replies.
    pub fn transmission_flags(&self, structured: bool) -> u16 {
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA;
        flags |= flag::CAN_MULTI_CONN | flag::SEND_CACHE;
        if self.info.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES;
            if self.info.fast_zero {
                flags |= flag::SEND_FAST_ZERO;
            }
        }
        if self.info.rotational {
            flags |= flag::ROTATIONAL;
        }
        if structured {
            flags |= flag::SEND_DF;
        }
        flags
    }
}

/// The longest prefix of at most `limit` bytes that ends between two characters.
pub(crate) fn floor_char_boundary(text: &str, limit: usize) -> usize {
    (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Handle;
    use crate::protocol::testing::info;
    use nearhead_disk::Payload;

    #[test]
    fn the_empty_name_is_the_first_export() {
        let export = Export::new(vec!["disk".into(), "alias".into()], info()).unwrap();
        assert_eq!(export.find(b""), Some("disk"));
        assert_eq!(export.find(b"alias"), Some("alias"));
        assert_eq!(export.find(b"other"), None);
    }

    #[test]
    fn sizes_are_whole_blocks_and_the_preferred_block_is_a_power_of_two() {
        let odd = ServiceInfo {
            size_bytes: 10_000,
            block_bytes_min: 4096,
            block_bytes_preferred: 6_000,
            request_bytes_max: u32::MAX,
            ..info()
        };
        let export = Export::new(Vec::new(), odd).unwrap();
        assert_eq!(export.info().size_bytes, 8192);
        assert_eq!(export.info().block_bytes_preferred, 4096);
        assert_eq!(export.info().request_bytes_max, REQUEST_BYTES_MAX);
        let odd = ServiceInfo { request_bytes_max: 100_001, ..info() };
        assert_eq!(Export::new(Vec::new(), odd).unwrap().info().request_bytes_max, 195 * 512);
    }

    #[test]
    fn every_flag_is_offered_exactly_where_it_holds() {
        for bits in 0..16 {
            let is = |bit: u32| bits >> bit & 1 == 1;
            let (read_only, rotational, fast_zero, structured) = (is(0), is(1), is(2), is(3));
            let info = ServiceInfo { read_only, rotational, fast_zero, ..info() };
            let flags = Export::new(Vec::new(), info).unwrap().transmission_flags(structured);
            for (flag, expected) in [
                (flag::HAS_FLAGS, true),
                (flag::SEND_FLUSH, true),
                (flag::SEND_FUA, true),
                (flag::CAN_MULTI_CONN, true),
                (flag::SEND_CACHE, true),
                (flag::READ_ONLY, read_only),
                (flag::SEND_TRIM, !read_only),
                (flag::SEND_WRITE_ZEROES, !read_only),
                (flag::SEND_FAST_ZERO, !read_only && fast_zero),
                (flag::ROTATIONAL, rotational),
                (flag::SEND_DF, structured),
                (1 << 9, false),
                (0xf << 12, false),
            ] {
                assert_eq!(flags & flag != 0, expected, "flag {flag:#x}, case {bits:#06b}");
            }
        }
    }

    #[test]
    fn a_request_is_charged_what_it_holds_and_copies_only_where_sectors_are_not_whole() {
        use ClientCommand::{BlockStatus, Cache, Flush, Read, Trim, Write, WriteZeroes};
        const PAGE: usize = ALIGN_BYTES;
        let read = Read { one_chunk: false };
        let zeroes = WriteZeroes { no_hole: false, fast_only: false };
        for (sector, per_sector) in [(512, PAGE), (8192, 8192)] {
            let info = ServiceInfo { block_bytes_min: sector, ..info() };
            let export = Export::new(Vec::new(), info).unwrap().at_any_byte();
            // Both ends as read and as written, each in a buffer of its own, and what rounding adds.
            let copies = 4 * per_sector + PAGE;
            let sector = u64::from(sector);
            for (offset, len, is_whole) in [
                (0, 8192, true),
                (8192, 65_536, true),
                (1, 8192, false),
                (8192, 8191, false),
                (sector - 1, 2, false),
                (511, 65_535, false),
            ] {
                let content = (len as usize).next_multiple_of(PAGE);
                let more = if is_whole { 0 } else { copies };
                for (command, expected) in [
                    (read, content + more),
                    (Write, if is_whole { content } else { 2 * content + copies }),
                    (Trim, more),
                    (zeroes, more),
                    (Flush, 0),
                    (Cache, 0),
                    (BlockStatus { one_extent: false }, 0),
                ] {
                    let handle = Handle { cookie: 1, offset };
                    let payload = Payload::EMPTY;
                    let request =
                        ClientRequest { handle, command, fua: false, offset, len, payload };
                    let found = export.memory_bytes(&request);
                    assert_eq!(
                        found, expected,
                        "{command:?} of {len} at {offset}, sector {sector}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_read_only_export_offers_no_way_to_write() {
        let export = Export::new(Vec::new(), ServiceInfo { read_only: true, ..info() }).unwrap();
        let flags = export.transmission_flags(true);
        assert_ne!(flags & flag::READ_ONLY, 0);
        assert_eq!(flags & (flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO), 0);
    }

    #[test]
    fn an_offer_no_client_could_use_is_refused() {
        let odd = ServiceInfo { block_bytes_min: 1000, ..info() };
        assert!(Export::new(Vec::new(), odd).unwrap_err().problem.contains("found 1000"));
        assert!(Export::new(vec!["x".repeat(5000)], info()).is_err());
    }
}
