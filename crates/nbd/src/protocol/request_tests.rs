//! The gate: what passes and what does not.

use super::*;
use crate::protocol::testing::{extended_request, info, request};
use nearhead_service::ServiceInfo;

const ALL: Agreed = Agreed { form: Form::Structured, allocation: true };
const EXTENDED: Agreed = Agreed { form: Form::Extended, allocation: true };
const FLAGS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

fn gate(info: ServiceInfo, agreed: Agreed, bytes: &[u8]) -> Result<ClientRequest, u32> {
    let export = Export::new(Vec::new(), info).unwrap();
    let header = Header::decode(bytes, agreed.form).unwrap();
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
fn each_flag_means_one_thing_and_nothing_else() {
    use ClientCommand::{BlockStatus, Read, WriteZeroes};
    let zeroes = |no_hole, fast_only| WriteZeroes { no_hole, fast_only };
    for (kind, flags, expected, fua) in [
        (command::READ, 0, Read { one_chunk: false }, false),
        (command::READ, command_flag::DF, Read { one_chunk: true }, false),
        (command::READ, command_flag::FUA, Read { one_chunk: false }, true),
        (command::WRITE_ZEROES, 0, zeroes(false, false), false),
        (command::WRITE_ZEROES, command_flag::NO_HOLE, zeroes(true, false), false),
        (command::WRITE_ZEROES, command_flag::FAST_ZERO, zeroes(false, true), false),
        (command::WRITE_ZEROES, command_flag::FUA, zeroes(false, false), true),
        (command::BLOCK_STATUS, 0, BlockStatus { one_extent: false }, false),
        (command::BLOCK_STATUS, command_flag::REQ_ONE, BlockStatus { one_extent: true }, false),
        (command::WRITE, 0, ClientCommand::Write, false),
        (command::TRIM, 0, ClientCommand::Trim, false),
        (command::TRIM, command_flag::FUA, ClientCommand::Trim, true),
    ] {
        let found = gate(info(), ALL, &request(kind, flags, 1, 512, 512)).unwrap();
        assert_eq!((found.command, found.fua), (expected, fua), "type {kind}, flags {flags}");
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
    assert!(Header::decode(&bytes, Form::Simple).is_none());
    let bytes = request(command::READ, 0, 1, 0, 512);
    let longer = [&bytes[..], &[0; 4]].concat();
    assert!(Header::decode(&longer, Form::Extended).is_none(), "compact under extended headers");
}

#[test]
fn an_extended_request_is_taken_apart_byte_by_byte() {
    let bytes = [
        &[0x21, 0xe4, 0x1c, 0x71, 0, 0x20, 0, 1][..],
        &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 7, 0, 0, 16, 0],
    ];
    let header = Header::decode(&bytes.concat(), Form::Extended).unwrap();
    assert_eq!((header.flags, header.kind), (command_flag::PAYLOAD_LEN, command::WRITE));
    assert_eq!(header.cookie, 0x0102_0304_0506_0708);
    assert_eq!((header.offset, header.len), (0x1_0000_0200, 0x7_0000_1000));
    assert!(header.carries_payload(Form::Extended));
}

#[test]
fn only_extended_headers_reach_past_4_gib_at_once() {
    let large = ServiceInfo { size_bytes: 1 << 40, ..info() };
    for kind in [command::TRIM, command::CACHE, command::WRITE_ZEROES, command::BLOCK_STATUS] {
        let bytes = extended_request(kind, 0, 1, 512, (1 << 40) - 512);
        let request = gate(large.clone(), EXTENDED, &bytes).unwrap();
        assert_eq!((request.offset, request.len), (512, (1 << 40) - 512), "type {kind}");
        let bytes = extended_request(kind, 0, 1, 512, 1 << 40);
        assert!(gate(large.clone(), EXTENDED, &bytes).is_err());
        let bytes = extended_request(kind, 0, 1, 512, u64::MAX - 511);
        assert!(gate(large.clone(), EXTENDED, &bytes).is_err());
    }
    for kind in [command::READ, command::WRITE] {
        let bytes = extended_request(kind, 0, 1, 0, 5 << 32);
        assert_eq!(gate(large.clone(), EXTENDED, &bytes).unwrap_err(), errno::INVAL);
    }
}

#[test]
fn a_payload_is_counted_where_it_may_be_and_refused_elsewhere() {
    let with_payload = command_flag::PAYLOAD_LEN;
    for kind in [0_u16, 2, 3, 4, 5, 6, 7, 99] {
        let bytes = extended_request(kind, with_payload, 1, 0, 512);
        assert_eq!(gate(info(), EXTENDED, &bytes).unwrap_err(), errno::INVAL, "type {kind}");
        assert!(Header::decode(&bytes, Form::Extended).unwrap().carries_payload(Form::Extended));
    }
    for flags in [0, with_payload] {
        let bytes = extended_request(command::WRITE, flags, 1, 0, 512);
        assert!(gate(info(), EXTENDED, &bytes).is_ok());
        assert!(Header::decode(&bytes, Form::Extended).unwrap().carries_payload(Form::Extended));
    }
    // Without extended headers the flag means nothing, and nothing follows.
    let bytes = request(command::READ, with_payload, 1, 0, 512);
    assert_eq!(gate(info(), ALL, &bytes).unwrap_err(), errno::INVAL);
    assert!(!Header::decode(&bytes, Form::Simple).unwrap().carries_payload(Form::Simple));
}

#[test]
fn any_byte_passes_where_whole_blocks_are_put_together() {
    let export = Export::new(Vec::new(), info()).unwrap().at_any_byte();
    let size = info().size_bytes;
    for (offset, len) in [(0, 1), (size - 1, 1), (511, 2), (7, 100_000)] {
        for kind in [command::READ, command::WRITE, command::TRIM, command::BLOCK_STATUS] {
            let bytes = request(kind, 0, 1, offset, len);
            let header = Header::decode(&bytes, Form::Structured).unwrap();
            let request = validate_request(&header, &export, ALL).unwrap();
            let memory = export.memory_bytes(&request);
            let copies = if kind == command::WRITE { 2 } else { 1 };
            let expected = if kind < command::TRIM { copies * len as usize } else { 0 };
            assert!(memory >= expected, "type {kind}: {memory} for {len} at {offset}");
        }
    }
}
