//! Messages of the kernel's FUSE protocol, which the front of a mounted file system decodes.
//!
//! The laws: a message with a whole header is a request, any other none; every part of a request is a part of its message; no name has a
//! NUL; the bytes of a write are as many as it says; a listing is never longer than the kernel has room for.

use crate::input::Input;
use nearhead_fuse::protocol::answer::Listing;
use nearhead_fuse::protocol::wire::{InHeader, opcode};
use nearhead_fuse::protocol::{Operation, decode};

const HEADER_BYTES: usize = size_of::<InHeader>();
/// Numbers of requests that an input may choose, instead of its own.
const OPCODES: u8 = 60;

pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (choice, number) = (input.byte(), input.byte());
    let room = u32::from(input.half());
    let mut message = input.rest().to_vec();
    // Most mutations would end at the length, or at a number that means nothing.
    if choice & 1 != 0 && message.len() >= HEADER_BYTES {
        let len = message.len() as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
    }
    if choice & 2 != 0 && message.len() >= HEADER_BYTES {
        message[4..8].copy_from_slice(&u32::from(number % OPCODES).to_ne_bytes());
    }
    let Some(request) = decode(&message) else {
        return assert!(message.len() < HEADER_BYTES, "a whole header was left");
    };
    assert!(message.len() >= HEADER_BYTES, "half a header was taken");
    if let Ok(operation) = &request.operation {
        check(operation, &message);
    }
    list(&message, room);
}

fn check(operation: &Operation<'_>, message: &[u8]) {
    use Operation as Op;
    let body_bytes = message.len() - HEADER_BYTES;
    let names: Vec<&[u8]> = match operation {
        Op::Lookup { name }
        | Op::MakeNode { name, .. }
        | Op::MakeDirectory { name, .. }
        | Op::Unlink { name }
        | Op::RemoveDirectory { name }
        | Op::Link { name, .. }
        | Op::Create { name, .. }
        | Op::SetXattr { name, .. }
        | Op::GetXattr { name, .. }
        | Op::RemoveXattr { name } => vec![name],
        Op::Symlink { name, target } => vec![name, target],
        Op::Rename { name, new_name, .. } => vec![name, new_name],
        _ => Vec::new(),
    };
    for name in names {
        assert!(!name.contains(&0) && name.len() < body_bytes, "no name: {name:?}");
    }
    match operation {
        Op::Write { of, data } => assert_eq!(data.len(), of.size as usize),
        Op::Ioctl { of, bytes } => assert_eq!(bytes.len(), of.in_size as usize),
        Op::Forget(all) => assert!(all.len() * 8 <= body_bytes, "{} references", all.len()),
        _ => {}
    }
}

/// A listing whose names are cut out of the message.
fn list(message: &[u8], room: u32) {
    let mut listing = Listing::new(room);
    let mut fitted = 0;
    for (cookie, name) in (1..).zip(message.chunks(29)) {
        fitted += u64::from(listing.push(cookie, cookie, 8, name));
    }
    let bytes = listing.into_body().0;
    assert!(
        bytes.len() <= room as usize && bytes.len().is_multiple_of(8),
        "{} of {room}",
        bytes.len()
    );
    assert!(bytes.is_empty() == (fitted == 0), "{fitted} entries in {} bytes", bytes.len());
}

/// A message with `body`, whose length is right.
fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + body.len()) as u32;
    let mut bytes = vec![0, 0, 100, 0];
    bytes.extend([len.to_ne_bytes(), opcode.to_ne_bytes()].concat());
    bytes.extend([7_u64.to_ne_bytes(), 1_u64.to_ne_bytes()].concat());
    bytes.extend([0; 16]);
    bytes.extend(body);
    bytes
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut write = [0; 43];
    write[16] = 3;
    let mut ioctl = [0; 36];
    ioctl[24] = 4;
    let forgets = [[2_u64.to_ne_bytes(); 1].concat(), vec![1; 32]].concat();
    let names = b"one\0two\0";
    let mut seeds = vec![
        message(opcode::LOOKUP, names),
        message(opcode::SYMLINK, names),
        message(opcode::RENAME2, &[&[0; 16][..], names].concat()),
        message(opcode::SETXATTR, &[&[3, 0, 0, 0, 0, 0, 0, 0][..], b"user.a\0xyz"].concat()),
        message(opcode::WRITE, &write),
        message(opcode::IOCTL, &ioctl),
        message(opcode::BATCH_FORGET, &forgets),
        message(opcode::SETATTR, &[0; 88]),
        message(opcode::INIT, &[7, 0, 0, 0, 39, 0, 0, 0, 0, 0, 2, 0, 255, 255, 255, 255]),
    ];
    // Any request from the same bytes.
    seeds.extend((0..OPCODES).step_by(7).map(|number| {
        let mut bytes = message(0, &[&[1; 40][..], names].concat());
        (bytes[0], bytes[1]) = (3, number);
        bytes
    }));
    seeds
}
