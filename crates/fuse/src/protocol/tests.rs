//! Messages of the protocol, byte for byte, in both directions, on a little-endian machine.

use super::answer::{Body, Listing, header, invalidate_attributes, invalidate_from};
use super::wire::*;
use super::{Operation, Request, decode};
use rustix::io::Errno;
use zerocopy::IntoBytes;

/// Bytes from hexadecimal text with blanks.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// A message: request 7 of node 0x11, user 1, group 2, process 3.
fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = (40 + body.len()) as u32;
    let mut bytes = [len.to_ne_bytes(), opcode.to_ne_bytes()].concat();
    bytes.extend(hex("0700000000000000 1100000000000000 01000000 02000000 03000000 0000 0000"));
    bytes.extend(body);
    bytes
}

fn operation(message: &[u8]) -> Result<Operation<'_>, Errno> {
    decode(message).unwrap().operation
}

#[test]
fn a_header_is_read_byte_for_byte() {
    let bytes = hex(
        "2a000000 01000000 0807060504030201 1100000000000000 e8030000 e9030000 d2040000 0000 0000 6100",
    );
    let Request { header, operation } = decode(&bytes).unwrap();
    assert_eq!((header.len, header.opcode, header.unique), (42, 1, 0x0102_0304_0506_0708));
    assert_eq!((header.nodeid, header.uid, header.gid, header.pid), (17, 1000, 1001, 1234));
    assert_eq!(operation, Ok(Operation::Lookup { name: b"a" }));
}

/// Requests on names.
fn on_names() -> Vec<(u32, &'static str, Operation<'static>)> {
    use Operation as Op;
    let create = CreateIn { flags: 0x8042, mode: 0o100_644, umask: 0o22, open_flags: 0 };
    vec![
        (1, "612e6200", Op::Lookup { name: b"a.b" }),
        (5, "", Op::ReadLink),
        (6, "6100 2f622f6300", Op::Symlink { name: b"a", target: b"/b/c" }),
        (
            8,
            "a4210000 03010000 12000000 00000000 6400",
            Op::MakeNode {
                of: MknodIn { mode: 0o020_644, rdev: 0x103, umask: 0o22, padding: 0 },
                name: b"d",
            },
        ),
        (
            9,
            "ed410000 12000000 6400",
            Op::MakeDirectory { of: MkdirIn { mode: 0o040_755, umask: 0o22 }, name: b"d" },
        ),
        (10, "6100", Op::Unlink { name: b"a" }),
        (11, "6100", Op::RemoveDirectory { name: b"a" }),
        (
            12,
            "0500000000000000 6100 6200",
            Op::Rename { to: 5, flags: 0, name: b"a", new_name: b"b" },
        ),
        (13, "0900000000000000 6200", Op::Link { node: 9, name: b"b" }),
        (
            45,
            "0500000000000000 04000000 00000000 6100 6200",
            Op::Rename { to: 5, flags: 4, name: b"a", new_name: b"b" },
        ),
        (35, "42800000 a4810000 12000000 00000000 6100", Op::Create { of: create, name: b"a" }),
        (51, "42800000 a4810000 12000000 00000000 2f00", Op::MakeNameless { of: create }),
    ]
}

/// Requests on nodes.
fn on_nodes() -> Vec<(u32, &'static str, Operation<'static>)> {
    use Operation as Op;
    vec![
        (2, "0300000000000000", Op::Forget(vec![ForgetOne { nodeid: 0x11, nlookup: 3 }])),
        (
            42,
            "02000000 00000000 0500000000000000 0100000000000000 0600000000000000 0200000000000000",
            Op::Forget(vec![
                ForgetOne { nodeid: 5, nlookup: 1 },
                ForgetOne { nodeid: 6, nlookup: 2 },
            ]),
        ),
        (3, "00000000 00000000 0000000000000000", Op::GetAttributes),
        (
            4,
            "38000000 00000000 0000000000000000 0010000000000000 0000000000000000
             ffffffffffffffff 0100000000000000 0000000000000000 15cd5b07 02000000 00000000
             a4810000 00000000 01000000 02000000 00000000",
            Op::SetAttributes(SetattrIn {
                valid: set::SIZE | set::ATIME | set::MTIME,
                size: 4096,
                atime: -1,
                mtime: 1,
                atimensec: 123_456_789,
                mtimensec: 2,
                mode: 0o100_644,
                uid: 1,
                gid: 2,
                ..SetattrIn::default()
            }),
        ),
        (
            52,
            "00000000 00000000 0000000000000000 00000000 ff0f0000",
            Op::Statx(StatxIn { sx_mask: 0xFFF, ..StatxIn::default() }),
        ),
        (17, "", Op::Statistics),
        (
            21,
            "03000000 01000000 757365722e6100 78797a",
            Op::SetXattr { name: b"user.a", value: b"xyz", flags: 1 },
        ),
        (22, "40000000 00000000 757365722e6100", Op::GetXattr { name: b"user.a", room: 64 }),
        (23, "40000000 00000000", Op::ListXattrs { room: 64 }),
        (24, "757365722e6100", Op::RemoveXattr { name: b"user.a" }),
        (50, "0000000000000000", Op::SyncAll),
        (38, "", Op::Destroy),
    ]
}

/// Requests on files that are open.
fn on_files() -> Vec<(u32, &'static str, Operation<'static>)> {
    use Operation as Op;
    let read = ReadIn { offset: 0x2000, size: 0x1000, flags: 0x8000, ..ReadIn::default() };
    let read_bytes =
        "0000000000000000 0020000000000000 00100000 00000000 0000000000000000 00800000 00000000";
    vec![
        (15, read_bytes, Op::Read(read)),
        (28, read_bytes, Op::ReadDirectory(read)),
        (
            16,
            "0000000000000000 0020000000000000 03000000 04000000 0000000000000000 01100000 00000000 616263",
            Op::Write {
                of: WriteIn {
                    offset: 0x2000,
                    size: 3,
                    write_flags: WRITE_KILL_SUIDGID,
                    flags: 0x1001,
                    ..WriteIn::default()
                },
                data: b"abc",
            },
        ),
        (18, "0000000000000000 00000000 00000000 0000000000000000", Op::Release),
        (25, "0000000000000000 00000000 00000000 0000000000000000", Op::Flush),
        (20, "0000000000000000 01000000 00000000", Op::Sync { data_only: true }),
        (30, "0000000000000000 00000000 00000000", Op::Sync { data_only: false }),
        (
            39,
            "0000000000000000 00000000 02660840 0000000000000000 04000000 00000000 10000000",
            Op::Ioctl {
                of: IoctlIn { cmd: 0x4008_6602, in_size: 4, ..IoctlIn::default() },
                bytes: &[0x10, 0, 0, 0],
            },
        ),
        (
            43,
            "0000000000000000 0010000000000000 0020000000000000 03000000 00000000",
            Op::Allocate(FallocateIn {
                offset: 0x1000,
                length: 0x2000,
                mode: 3,
                ..FallocateIn::default()
            }),
        ),
        (
            46,
            "0000000000000000 0010000000000000 03000000 00000000",
            Op::Seek(LseekIn { offset: 0x1000, whence: 3, ..LseekIn::default() }),
        ),
    ]
}

fn all() -> Vec<(u32, &'static str, Operation<'static>)> {
    [on_names(), on_nodes(), on_files()].concat()
}

#[test]
fn each_request_is_read_byte_for_byte() {
    for (opcode, body, expected) in all() {
        assert_eq!(operation(&message(opcode, &hex(body))), Ok(expected), "opcode {opcode}");
    }
}

#[test]
fn the_first_request_is_read_in_both_lengths() {
    let short = "07000000 1f000000 00000200 21000000";
    let expected =
        InitIn { major: 7, minor: 31, max_readahead: 0x20000, flags: 0x21, ..InitIn::default() };
    assert_eq!(operation(&message(26, &hex(short))), Ok(Operation::Init(expected)));
    let mut long = hex(short);
    long.extend(hex("80000000"));
    long.resize(64, 0);
    let expected = InitIn { flags2: 0x80, ..expected };
    assert_eq!(operation(&message(26, &long)), Ok(Operation::Init(expected)));
}

#[test]
fn a_request_cut_short_anywhere_is_refused() {
    for (opcode, body, expected) in all() {
        let body = hex(body);
        for len in 0..body.len() {
            let cut = message(opcode, &body[..len]);
            let found = operation(&cut).ok();
            // Of these nothing is read behind the header.
            let has_no_body = matches!(
                expected,
                Operation::GetAttributes
                    | Operation::Flush
                    | Operation::Release
                    | Operation::SyncAll
            );
            // Its name says nothing.
            let is_nameless = matches!(expected, Operation::MakeNameless { .. }) && len >= 16;
            assert!(found.is_none() || has_no_body || is_nameless, "opcode {opcode} cut to {len}");
        }
    }
}

#[test]
fn lengths_that_contradict_the_message_are_refused() {
    let whole = message(1, b"a\0");
    for len in [0, 1, 39, 41, 43, u32::MAX] {
        let mut bytes = whole.clone();
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(operation(&bytes), Err(Errno::IO), "{len}");
    }
    // An extension of 8 bytes where two are left.
    let mut bytes = whole.clone();
    bytes[36] = 1;
    assert_eq!(operation(&bytes), Err(Errno::IO));
    assert_eq!(decode(&whole[..39]), None);
    // 4 billion references in a message of 16 bytes.
    let forgets = message(42, &hex("ffffffff 00000000 0000000000000000"));
    assert_eq!(operation(&forgets), Err(Errno::INVAL));
    // More bytes than the write says.
    let mut write = hex("0000000000000000 0000000000000000 02000000");
    write.resize(40 + 3, 0);
    assert_eq!(operation(&message(16, &write)), Err(Errno::INVAL));
}

#[test]
fn extensions_are_no_part_of_a_request() {
    let mut bytes = message(1, &hex("6100 0800000000000000"));
    bytes[36] = 1;
    assert_eq!(operation(&bytes), Ok(Operation::Lookup { name: b"a" }));
}

#[test]
fn requests_that_are_not_served_are_refused_by_name() {
    // OPEN, OPENDIR, GETLK, ACCESS, INTERRUPT, BMAP, POLL, COPY_FILE_RANGE, and numbers without a meaning.
    for opcode in [0, 7, 14, 27, 31, 34, 36, 37, 40, 47, 4096, u32::MAX] {
        assert_eq!(operation(&message(opcode, &[0; 64])), Err(Errno::NOSYS), "{opcode}");
    }
}

/// Small numbers in order, so that an exchange of two fields shows.
fn attr() -> Attr {
    Attr {
        ino: 1,
        size: 2,
        blocks: 3,
        atime: 4,
        mtime: 5,
        ctime: 6,
        atimensec: 7,
        mtimensec: 8,
        ctimensec: 9,
        mode: 10,
        nlink: 11,
        uid: 12,
        gid: 13,
        rdev: 14,
        blksize: 15,
        flags: 16,
    }
}

const ATTR: &str = "0100000000000000 0200000000000000 0300000000000000 0400000000000000
    0500000000000000 0600000000000000 07000000 08000000 09000000 0a000000 0b000000 0c000000
    0d000000 0e000000 0f000000 10000000";

#[test]
fn each_answer_is_written_byte_for_byte() {
    let entry = EntryOut {
        nodeid: 1,
        generation: 2,
        entry_valid: 3,
        attr_valid: 4,
        entry_valid_nsec: 5,
        attr_valid_nsec: 6,
        attr: attr(),
    };
    let entry_bytes = format!(
        "0100000000000000 0200000000000000 0300000000000000 0400000000000000 05000000 06000000 {ATTR}"
    );
    let opened = OpenOut { fh: 1, open_flags: OPEN_KEEP_CACHE, backing_id: 0 };
    let statfs = StatfsOut {
        blocks: 1,
        bfree: 2,
        bavail: 3,
        files: 4,
        ffree: 5,
        bsize: 6,
        namelen: 7,
        frsize: 8,
        ..StatfsOut::default()
    };
    let attributes = AttrOut { attr_valid: 1, attr_valid_nsec: 2, padding: 0, attr: attr() };
    for (body, expected) in [
        (Body::of(&entry), entry_bytes.clone()),
        (
            Body::of(&entry).and(&opened),
            format!("{entry_bytes} 0100000000000000 02000000 00000000"),
        ),
        (Body::of(&attributes), format!("0100000000000000 02000000 00000000 {ATTR}")),
        (Body::of(&WriteOut { size: 5, padding: 0 }), "05000000 00000000".to_owned()),
        (Body::of(&GetxattrOut { size: 5, padding: 0 }), "05000000 00000000".to_owned()),
        (Body::of(&LseekOut { offset: 0x1000 }), "0010000000000000".to_owned()),
        (Body::ioctl(b"ab"), format!("{} 6162", "00".repeat(16))),
        (
            Body::of(&statfs),
            format!(
                "0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000
                 06000000 07000000 08000000 {}",
                "00".repeat(28)
            ),
        ),
    ] {
        assert_eq!(body.0, hex(&expected));
    }
}

#[test]
fn statx_is_written_byte_for_byte() {
    let time = |seconds, nanoseconds| StatxTime { seconds, nanoseconds, reserved: 0 };
    let stat = Statx {
        mask: 0xFFF,
        blksize: 4096,
        attributes: 0x10,
        nlink: 1,
        uid: 2,
        gid: 3,
        mode: 0o100_644,
        ino: 4,
        size: 5,
        blocks: 6,
        attributes_mask: 0x30,
        atime: time(-1, 7),
        btime: time(8, 9),
        ctime: time(10, 11),
        mtime: time(12, 13),
        rdev_major: 14,
        rdev_minor: 15,
        ..Statx::default()
    };
    let out = StatxOut { attr_valid: 1, attr_valid_nsec: 2, stat, ..StatxOut::default() };
    let expected = hex(&format!(
        "0100000000000000 02000000 00000000 {}
         ff0f0000 00100000 1000000000000000 01000000 02000000 03000000 a481 0000
         0400000000000000 0500000000000000 0600000000000000 3000000000000000
         ffffffffffffffff 07000000 00000000 0800000000000000 09000000 00000000
         0a00000000000000 0b000000 00000000 0c00000000000000 0d000000 00000000
         0e000000 0f000000 00000000 00000000 {}",
        "00".repeat(16),
        "00".repeat(112)
    ));
    assert_eq!(Body::of(&out).0, expected);
}

#[test]
fn the_first_answer_is_written_byte_for_byte() {
    let out = InitOut {
        major: 7,
        minor: 39,
        max_readahead: 1,
        flags: 2,
        max_background: 3,
        congestion_threshold: 4,
        max_write: 5,
        time_gran: 6,
        max_pages: 7,
        map_alignment: 8,
        flags2: 9,
        max_stack_depth: 10,
        ..InitOut::default()
    };
    let expected = format!(
        "07000000 27000000 01000000 02000000 0300 0400 05000000 06000000 0700 0800 09000000 0a000000 {}",
        "00".repeat(24)
    );
    assert_eq!(Body::of(&out).0, hex(&expected));
}

#[test]
fn a_header_says_length_and_error_of_its_answer() {
    assert_eq!(header(7, Ok(()), 8).as_bytes(), hex("18000000 00000000 0700000000000000"));
    assert_eq!(
        header(7, Err(Errno::NOENT), 0).as_bytes(),
        hex("10000000 feffffff 0700000000000000")
    );
}

#[test]
fn notifications_are_written_byte_for_byte() {
    let expected =
        "28000000 02000000 0000000000000000 0500000000000000 0010000000000000 0000000000000000";
    assert_eq!(invalidate_from(5, 4096), hex(expected));
    let expected =
        "28000000 02000000 0000000000000000 0500000000000000 ffffffffffffffff 0000000000000000";
    assert_eq!(invalidate_attributes(5), hex(expected));
}

#[test]
fn a_listing_is_never_longer_than_its_room() {
    let mut listing = Listing::new(64 + 31);
    assert!(listing.push(2, 1, 4, b".") && listing.push(5, 13, 8, b"names"));
    assert!(!listing.push(6, 33, 8, b"more"), "31 bytes are left, and it has 32");
    let expected = "0200000000000000 0100000000000000 01000000 04000000 2e00000000000000
        0500000000000000 0d00000000000000 05000000 08000000 6e616d6573000000";
    assert_eq!(listing.into_body().0, hex(expected));
}
