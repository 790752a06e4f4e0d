//! The gate: what passes and what does not.

use super::*;
use crate::protocol::testing::{info, request};
use nearhead_volume::ServiceInfo;

const ALL: Agreed = Agreed { structured: true, allocation: true };
const FLAGS: [u16; 6] = [1, 2, 4, 8, 16, 32];

fn gate(info: ServiceInfo, agreed: Agreed, bytes: &[u8]) -> Result<ClientRequest, u32> {
    let export = Export::new(Vec::new(), info).unwrap();
    let header = Header::decode(bytes.try_into().unwrap()).unwrap();
    validate_request(&header, &export, agreed).map_err(|refusal| refusal.errno)
}

fn errno(kind: u16, flags: u16, offset: u64, len: u32) -> Option<u32> {
    gate(info(), ALL, &request(kind, flags, 1, offset, len)).err()
}

#[test]
fn a_range_must_be_whole_blocks_inside_the_export() {
    let size = info().size_bytes;
    let kinds = [command::READ, command::WRITE, command::TRIM, command::CACHE];
    for kind in kinds.into_iter().chain([command::WRITE_ZEROES, command::BLOCK_STATUS]) {
        assert_eq!(errno(kind, 0, 0, 512), None, "type {kind}");
        assert_eq!(errno(kind, 0, size - 512, 512), None, "type {kind}");
        assert_eq!(errno(kind, 0, 0, 0), Some(errno::INVAL), "type {kind}");
        assert_eq!(errno(kind, 0, 1, 512), Some(errno::INVAL), "type {kind}");
        assert_eq!(errno(kind, 0, 0, 511), Some(errno::INVAL), "type {kind}");
        let grows = matches!(kind, command::WRITE | command::WRITE_ZEROES);
        let outside = Some(if grows { errno::NOSPC } else { errno::INVAL });
        assert_eq!(errno(kind, 0, size, 512), outside, "type {kind}");
        assert_eq!(errno(kind, 0, size - 512, 1024), outside, "type {kind}");
        assert_eq!(errno(kind, 0, u64::MAX - 511, 1024), outside, "type {kind}");
    }
}

#[test]
fn only_transfers_are_limited_by_the_largest_request() {
    let too_long = info().request_bytes_max + 512;
    for kind in [command::READ, command::WRITE] {
        assert_eq!(errno(kind, 0, 0, too_long - 512), None);
        assert_eq!(errno(kind, 0, 0, too_long), Some(errno::INVAL));
    }
    for kind in [command::TRIM, command::CACHE, command::WRITE_ZEROES, command::BLOCK_STATUS] {
        assert_eq!(errno(kind, 0, 0, too_long), None);
    }
}

#[test]
fn each_type_takes_its_own_flags_only() {
    let table = [
        (command::READ, 1 | 4),
        (command::WRITE, 1),
        (command::FLUSH, 1),
        (command::TRIM, 1),
        (command::CACHE, 1),
        (command::WRITE_ZEROES, 1 | 2 | 16),
        (command::BLOCK_STATUS, 1 | 8),
    ];
    for (kind, allowed) in table {
        for flag in FLAGS {
            let expected = (flag & allowed == 0).then_some(errno::INVAL);
            assert_eq!(errno(kind, flag, 0, 512), expected, "type {kind}, flag {flag}");
        }
    }
}

#[test]
fn what_was_not_negotiated_is_refused() {
    let plain = Agreed::default();
    let cases = [
        request(command::READ, command_flag::DF, 1, 0, 512),
        request(command::BLOCK_STATUS, 0, 1, 0, 512),
    ];
    for bytes in cases {
        assert_eq!(gate(info(), plain, &bytes).unwrap_err(), errno::INVAL);
        assert!(gate(info(), ALL, &bytes).is_ok());
    }
    let slow = ServiceInfo { fast_zero: false, ..info() };
    let bytes = request(command::WRITE_ZEROES, command_flag::FAST_ZERO, 1, 0, 512);
    assert_eq!(gate(slow, ALL, &bytes).unwrap_err(), errno::INVAL);
}

#[test]
fn a_read_only_export_refuses_every_write_as_not_permitted() {
    let read_only = ServiceInfo { read_only: true, ..info() };
    for kind in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let bytes = request(kind, 0, 1, 0, 512);
        assert_eq!(gate(read_only.clone(), ALL, &bytes).unwrap_err(), errno::PERM);
    }
    for kind in [command::READ, command::FLUSH, command::CACHE, command::BLOCK_STATUS] {
        assert!(gate(read_only.clone(), ALL, &request(kind, 0, 1, 0, 512)).is_ok());
    }
}

#[test]
fn unknown_types_are_invalid() {
    for kind in [8, 9, 100, u16::MAX] {
        assert_eq!(errno(kind, 0, 0, 512), Some(errno::INVAL));
    }
}

#[test]
fn a_wrong_magic_is_no_request() {
    let mut bytes = request(command::READ, 0, 1, 0, 512);
    bytes[0] ^= 1;
    assert!(Header::decode(bytes[..].try_into().unwrap()).is_none());
}
