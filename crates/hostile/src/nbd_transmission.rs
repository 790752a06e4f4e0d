//! NBD transmission: requests of a client that may send anything.
//!
//! The laws: the machine never panics and never loops; how the bytes are cut into receives does
//! not matter; a request that passes the gate lies inside the export, is whole blocks unless any byte
//! was offered, is not too large, and writes only where that is allowed; every request gets exactly one
//! answer that a client can take apart, in the form that was agreed on.

use crate::input::Input;
use crate::nbd_handshake::{client_flags, context_data, info_data};
use nearhead_disk::{BufferMut, Payload};
use nearhead_nbd::TlsMode;
use nearhead_nbd::protocol::constants::{
    EXTENDED_REPLY_MAGIC, EXTENDED_REQUEST_MAGIC, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, command, command_flag, option,
};
use nearhead_nbd::protocol::{
    ClientCommand, ClientRequest, Event, Export, Intake, Machine, ReadAsked, STAGING_BYTES,
};
use nearhead_service::{ErrorKind, Extent, RequestError, ServiceInfo};
use std::rc::Rc;

/// Bytes of the export.
const SIZE_BYTES: u64 = 1 << 20;
/// Most bytes in one request.
const REQUEST_BYTES_MAX: u32 = 64 << 10;

/// Speaks requests to a server that was agreed with.
pub(crate) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.byte();
    let step = 1 + usize::from(input.byte());
    let bytes = input.rest();
    let form = match choice {
        _ if choice & 16 != 0 => option::EXTENDED_HEADERS,
        _ if choice & 1 != 0 => option::STRUCTURED_REPLY,
        _ => 0,
    };
    let speak = |step| {
        let mut talk = Talk::offering(TlsMode::Off, None, choice & 4 != 0, choice & 32 != 0);
        talk.pauses = choice & 8 != 0;
        talk.speak(&opening(form, choice & 2 != 0), usize::MAX);
        assert!(talk.machine.is_transmitting(), "the handshake failed");
        talk.sent.clear();
        talk.speak(bytes, step);
        talk.end()
    };
    let whole = speak(usize::MAX);
    let pieces = speak(step);
    assert!(pieces.is_same(&whole), "pieces of {step} bytes matter: {pieces:?} {whole:?}");
    check_answers(&whole, form);
}

/// The handshake before the input.
fn opening(form: u32, allocation: bool) -> Vec<u8> {
    let mut bytes = client_flags();
    if form != 0 {
        bytes.extend(option_bytes(form, &[]));
    }
    if form != 0 && allocation {
        let data = context_data(b"", &[b"base:allocation"]);
        bytes.extend(option_bytes(option::SET_META_CONTEXT, &data));
    }
    bytes.extend(option_bytes(option::GO, &info_data(b"", &[])));
    bytes
}

/// An option as a client sends it.
pub(crate) fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Everything that a client saw and a server was asked.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) sent: Vec<u8>,
    requests: Vec<String>,
    answered: Vec<u64>,
    /// Cookie and length of every read.
    reads: Vec<(u64, u64)>,
    closed: Option<&'static str>,
    pub(crate) stayed_in_handshake: bool,
    pub(crate) began_tls: bool,
}

impl Conversation {
    /// Whether the same was said by both sides.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.sent == other.sent && self.requests == other.requests && self.closed == other.closed
    }
}

/// A client and a server.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Talk {
    machine: Machine,
    read_only: bool,
    /// Not only whole blocks.
    any_byte: bool,
    /// Every request has to wait once.
    pauses: bool,
    sent: Vec<u8>,
    requests: Vec<String>,
    answered: Vec<u64>,
    /// Cookie and length of every read.
    reads: Vec<(u64, u64)>,
    closed: Option<&'static str>,
    stayed_in_handshake: bool,
    began_tls: bool,
}

struct Memory {
    admits: bool,
}

impl Intake for Memory {
    fn admit(&mut self, bytes: usize) -> bool {
        // A copy of it, and the sectors at its ends, if it is no whole blocks.
        assert!(bytes <= 2 * REQUEST_BYTES_MAX as usize + 20_480, "memory for {bytes} bytes");
        self.admits
    }

    fn payload_buffer(&mut self, bytes: usize) -> BufferMut {
        assert!(bytes <= REQUEST_BYTES_MAX as usize, "a buffer of {bytes} bytes");
        BufferMut::zeroed(bytes)
    }
}

impl Talk {
    pub(crate) fn new(tls: TlsMode, refusal: Option<String>, read_only: bool) -> Self {
        Self::offering(tls, refusal, read_only, false)
    }

    fn offering(tls: TlsMode, refusal: Option<String>, read_only: bool, any_byte: bool) -> Self {
        let info = ServiceInfo {
            description: "a disk".to_owned(),
            size_bytes: SIZE_BYTES,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: REQUEST_BYTES_MAX,
            read_only,
            rotational: true,
            fast_zero: true,
        };
        let export = Export::new(vec!["disk".into(), "alias".into()], info);
        let export = export.unwrap_or_else(|error| panic!("{error}"));
        let export = if any_byte { export.at_any_byte() } else { export };
        Self {
            machine: Machine::new(Rc::new(export), tls, refusal),
            read_only,
            any_byte,
            pauses: false,
            sent: Vec::new(),
            requests: Vec::new(),
            answered: Vec::new(),
            reads: Vec::new(),
            closed: None,
            stayed_in_handshake: true,
            began_tls: false,
        }
    }

    /// Sends `bytes`, at most `step` at a time.
    pub(crate) fn speak(&mut self, mut bytes: &[u8], step: usize) {
        let mut staging = Vec::new();
        while !bytes.is_empty() && self.closed.is_none() {
            let mut taken = 0;
            for slice in self.machine.receive_slices(&mut staging) {
                let len = slice.len().min(bytes.len()).min(step - taken);
                slice[..len].copy_from_slice(&bytes[..len]);
                bytes = &bytes[len..];
                taken += len;
            }
            assert!(taken > 0, "no room for more, and nothing is understood");
            self.machine.received(taken);
            self.hear();
            assert!(self.machine.waiting_bytes() <= STAGING_BYTES);
            self.machine.settle(&mut staging);
        }
    }

    /// Follows what was received as far as it goes.
    fn hear(&mut self) {
        let mut memory = Memory { admits: !self.pauses };
        // Every step consumes at least a byte or waits once for memory or for the outbox.
        for _ in 0..4 * STAGING_BYTES {
            let event = self.machine.poll(&mut memory);
            self.send();
            match event {
                None => return,
                Some(Event::Paused) => memory.admits = true,
                Some(Event::StartTls) => {
                    self.began_tls = true;
                    if !self.machine.begin_tls() {
                        self.closed = Some("bytes in the clear");
                        return;
                    }
                }
                Some(Event::Closed(why)) => {
                    self.closed = Some(why.unwrap_or("in order"));
                    return;
                }
                Some(Event::Request(request)) => {
                    memory.admits = !self.pauses;
                    self.answer(&request);
                }
            }
        }
        panic!("the machine does not come to an end");
    }

    fn send(&mut self) {
        self.stayed_in_handshake &= !self.machine.is_transmitting();
        let bytes = self.machine.outbox().to_bytes();
        self.machine.outbox().advance(bytes.len());
        self.sent.extend(bytes);
    }

    /// Checks a request that passed the gate, and answers it.
    fn answer(&mut self, request: &ClientRequest) {
        let ClientRequest { handle, command, offset, len, .. } = *request;
        let cookie = handle.cookie;
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= SIZE_BYTES), "outside: {request:?}");
        let is_whole = offset % 512 == 0 && len % 512 == 0;
        assert!(is_whole || self.any_byte, "not blocks: {request:?}");
        self.requests.push(format!("{command:?} {cookie} {offset} {len} {}", request.fua));
        self.answered.push(cookie);
        let is_change = matches!(
            command,
            ClientCommand::Write | ClientCommand::Trim | ClientCommand::WriteZeroes { .. }
        );
        assert!(!(is_change && self.read_only), "a change of a read-only export: {request:?}");
        if cookie % 5 == 4 {
            let error = RequestError::new(ErrorKind::Io, "a bad day");
            return self.machine.reply_error(handle, &error);
        }
        match command {
            ClientCommand::Read { one_chunk } => {
                assert!(len <= u64::from(REQUEST_BYTES_MAX), "too much: {len}");
                self.reads.push((cookie, len));
                let half = len as usize / 2;
                let parts = vec![Payload::Zeros(half), Payload::Zeros(len as usize - half)];
                let len = len as u32;
                self.machine.reply_read(ReadAsked { handle, len, one_chunk }, parts);
            }
            ClientCommand::BlockStatus { .. } => {
                let extent = Extent { len, hole: true, zero: true };
                self.machine.reply_block_status(handle, &[extent]);
            }
            ClientCommand::Write => {
                assert_eq!(request.payload.len(), len as usize, "{request:?}");
                self.machine.reply_done(handle);
            }
            _ => self.machine.reply_done(handle),
        }
    }

    pub(crate) fn end(mut self) -> Conversation {
        self.send();
        Conversation {
            sent: self.sent,
            requests: self.requests,
            answered: self.answered,
            reads: self.reads,
            closed: self.closed,
            stayed_in_handshake: self.stayed_in_handshake,
            began_tls: self.began_tls,
        }
    }
}

/// Takes the replies apart as a client does; each request that was answered is in them, once.
fn check_answers(talk: &Conversation, form: u32) {
    let is_extended = form == option::EXTENDED_HEADERS;
    let (chunk_magic, chunk_bytes) =
        if is_extended { (EXTENDED_REPLY_MAGIC, 32) } else { (STRUCTURED_REPLY_MAGIC, 20) };
    let read_bytes = |cookie: u64| {
        let found = talk.reads.iter().find(|(read, _)| *read == cookie);
        found.map(|(_, len)| *len as usize)
    };
    let mut finished = Vec::new();
    let mut rest = &talk.sent[..];
    while !rest.is_empty() {
        let word =
            |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        assert!(rest.len() >= 16, "half a reply: {rest:02x?}");
        let cookie = u64::from(word(8)) << 32 | u64::from(word(12));
        let (magic, errno) = (word(0), word(4));
        if magic == SIMPLE_REPLY_MAGIC {
            assert!(!is_extended, "a simple reply under extended headers");
            finished.push(cookie);
            // Two requests may share a cookie: then a client cannot tell either, and nor can this.
            let shared = talk.answered.iter().filter(|known| **known == cookie).count() > 1;
            if shared {
                return;
            }
            let content = if errno == 0 { read_bytes(cookie).unwrap_or(0) } else { 0 };
            assert!(rest.len() >= 16 + content, "a reply without its {content} bytes");
            rest = &rest[16 + content..];
            continue;
        }
        assert_eq!(magic, chunk_magic, "not a reply: {rest:02x?}");
        assert!(form != 0, "a chunk for a client that did not agree to chunks");
        assert!(rest.len() >= chunk_bytes, "half a chunk: {rest:02x?}");
        let is_last = errno >> 16 & 1 == 1;
        if is_last {
            finished.push(cookie);
        }
        // Nothing here is so long that the upper half of an extended length counts.
        assert!(!is_extended || word(24) == 0, "a chunk of more than 4 GiB");
        let len = word(if is_extended { 28 } else { 16 }) as usize;
        assert!(rest.len() >= chunk_bytes + len, "a chunk without its {len} bytes");
        rest = &rest[chunk_bytes + len..];
    }
    for cookie in &talk.answered {
        let count = |list: &[u64]| list.iter().filter(|known| *known == cookie).count();
        let (asked, answered) = (count(&talk.answered), count(&finished));
        assert!(answered >= asked, "request {cookie}: {answered} answers for {asked}");
    }
}

fn request_bytes(kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// Every command, alone and in a conversation, with every set of things agreed on.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let write = [request_bytes(command::WRITE, command_flag::FUA, 1, 512, 512), vec![0x5a; 512]];
    let requests: Vec<Vec<u8>> = vec![
        request_bytes(command::READ, 0, 0, 0, 4096),
        write.concat(),
        request_bytes(command::FLUSH, 0, 2, 0, 0),
        request_bytes(command::TRIM, 0, 3, 4096, 65_536),
        request_bytes(command::READ, command_flag::DF, 4, 0, 512),
        request_bytes(command::CACHE, 0, 5, 0, 512),
        request_bytes(command::WRITE_ZEROES, command_flag::NO_HOLE, 6, 512, 1024),
        request_bytes(command::BLOCK_STATUS, command_flag::REQ_ONE, 7, 0, 1 << 20),
        request_bytes(77, 0, 8, 0, 512),
        request_bytes(command::READ, 0, 10, 1 << 20, 512),
        request_bytes(command::DISC, 0, 11, 0, 0),
    ];
    let mut seeds: Vec<Vec<u8>> =
        requests.iter().map(|request| [&[3, 10][..], request].concat()).collect();
    for choice in (0..16).chain(32..48) {
        seeds.push([&[choice, 27][..], &requests.concat()].concat());
    }
    let odd = [request_bytes(command::WRITE, 0, 1, 511, 3), vec![0x5a; 3]].concat();
    seeds.push([&[32, 5][..], &odd, &request_bytes(command::TRIM, 1, 2, 100, 9999)].concat());
    // A refused write whose payload is skipped, and what follows it.
    let refused = [request_bytes(command::WRITE, 64, 1, 0, 900), vec![0x5a; 900]].concat();
    seeds.push([&[1, 50][..], &refused, &request_bytes(command::FLUSH, 0, 2, 0, 0)].concat());
    let extended: Vec<_> = requests.iter().map(|request| extended_bytes(request)).collect();
    let with_payload = command_flag::PAYLOAD_LEN;
    let status = request_bytes(command::BLOCK_STATUS, with_payload, 12, 0, 12);
    let status = [extended_bytes(&status), vec![0; 12]].concat();
    for choice in [16, 18, 22, 26, 50] {
        seeds.push([&[choice, 31][..], &status, &extended.concat()].concat());
    }
    seeds
}

/// The same request under extended headers.
fn extended_bytes(request: &[u8]) -> Vec<u8> {
    let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(&request[4..24]);
    bytes.extend([0; 4]);
    bytes.extend(&request[24..]);
    bytes
}
