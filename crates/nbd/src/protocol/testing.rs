//! What the protocol's tests share: an export, a client's messages, and a machine fed with them.

use super::constants::{EXTENDED_REQUEST_MAGIC, OPTION_MAGIC, REQUEST_MAGIC};
use super::reply::Form;
use super::{Event, Export, Intake, Machine, TlsMode};
use nearhead_disk::BufferMut;
use nearhead_service::ServiceInfo;
use std::rc::Rc;

pub(crate) fn info() -> ServiceInfo {
    ServiceInfo {
        description: "a test disk".to_owned(),
        size_bytes: 1 << 20,
        block_bytes_min: 512,
        block_bytes_preferred: 4096,
        request_bytes_max: 256 * 1024,
        read_only: false,
        rotational: true,
        fast_zero: true,
    }
}

/// Admits up to `bytes_max` in all and counts what was taken.
pub(crate) struct Counter {
    pub(crate) bytes_max: usize,
    pub(crate) bytes: usize,
}

impl Counter {
    pub(crate) fn unlimited() -> Self {
        Self { bytes_max: usize::MAX, bytes: 0 }
    }
}

impl Intake for Counter {
    fn admit(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.bytes_max.saturating_sub(self.bytes);
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    fn payload_buffer(&mut self, bytes: usize) -> BufferMut {
        BufferMut::zeroed(bytes)
    }
}

pub(crate) fn machine() -> Machine {
    machine_with(info(), TlsMode::Off)
}

pub(crate) fn machine_with(info: ServiceInfo, tls: TlsMode) -> Machine {
    let export = Export::new(vec!["disk".into(), "alias".into()], info).unwrap();
    Machine::new(Rc::new(export), tls, None)
}

/// Feeds `bytes` in steps of at most `step` and returns every event.
pub(crate) fn feed(machine: &mut Machine, bytes: &[u8], step: usize) -> Vec<Event> {
    feed_with(machine, bytes, step, &mut Counter::unlimited())
}

pub(crate) fn feed_with(
    machine: &mut Machine,
    bytes: &[u8],
    step: usize,
    intake: &mut Counter,
) -> Vec<Event> {
    let mut staging = Vec::new();
    let mut events = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut taken = 0;
        for slice in machine.receive_slices(&mut staging) {
            let len = slice.len().min(rest.len()).min(step - taken);
            slice[..len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
            taken += len;
        }
        if taken == 0 {
            break;
        }
        machine.received(taken);
        while let Some(event) = machine.poll(intake) {
            let last = matches!(event, Event::Paused | Event::Closed(_) | Event::StartTls);
            events.push(event);
            if last {
                return events;
            }
        }
        machine.settle(&mut staging);
    }
    events
}

/// What was sent since the last call.
pub(crate) fn sent(machine: &mut Machine) -> Vec<u8> {
    let bytes = machine.outbox().to_bytes();
    let len = bytes.len();
    machine.outbox().advance(len);
    bytes
}

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

pub(crate) fn counted(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(text);
    bytes
}

pub(crate) fn info_data(name: &[u8], facts: &[u16]) -> Vec<u8> {
    let mut bytes = counted(name);
    bytes.extend_from_slice(&(facts.len() as u16).to_be_bytes());
    for fact in facts {
        bytes.extend_from_slice(&fact.to_be_bytes());
    }
    bytes
}

pub(crate) fn context_data(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut bytes = counted(name);
    bytes.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        bytes.extend_from_slice(&counted(query));
    }
    bytes
}

pub(crate) fn request(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

pub(crate) fn extended_request(
    kind: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u64,
) -> Vec<u8> {
    let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

/// Client flags: fixed newstyle, no zeroes.
pub(crate) const CLIENT_FLAGS: [u8; 4] = [0, 0, 0, 3];

/// Replies to options, taken apart: option, kind, data.
pub(crate) fn option_replies(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], super::constants::OPTION_REPLY_MAGIC.to_be_bytes());
        let len = number(&bytes[16..20]) as usize;
        replies.push((number(&bytes[8..12]), number(&bytes[12..16]), bytes[20..20 + len].to_vec()));
        bytes = &bytes[20 + len..];
    }
    replies
}

/// A machine in the transmission phase of the default export.
pub(crate) fn transmitting(structured: bool, allocation: bool) -> Machine {
    transmitting_in(if structured { Form::Structured } else { Form::Simple }, allocation)
}

pub(crate) fn transmitting_in(form: Form, allocation: bool) -> Machine {
    let mut machine = machine();
    let mut bytes = CLIENT_FLAGS.to_vec();
    match form {
        Form::Simple => {}
        Form::Structured => bytes.extend(option(super::constants::option::STRUCTURED_REPLY, &[])),
        Form::Extended => bytes.extend(option(super::constants::option::EXTENDED_HEADERS, &[])),
    }
    if allocation {
        let data = context_data(b"", &[b"base:allocation"]);
        bytes.extend(option(super::constants::option::SET_META_CONTEXT, &data));
    }
    bytes.extend(option(super::constants::option::GO, &info_data(b"", &[])));
    assert!(feed(&mut machine, &bytes, usize::MAX).is_empty());
    sent(&mut machine);
    assert!(machine.is_transmitting());
    machine
}
