//! One client's side of the conversation, without a socket.
//!
//! Bytes go in where [`Machine::receive_slices`] says, [`Machine::poll`] tells what they mean,
//! and what must be sent gathers in [`Machine::outbox`]. What it keeps true for any bytes at all:
//!
//! - it never panics and never loops without consuming;
//! - it holds at most one staging buffer and one admitted payload; memory for a payload is taken
//!   only after [`Intake::admit`] agreed;
//! - every request that can be answered gets one answer: those refused at the gate from here, the
//!   others from the owner. Only a stream that is lost (wrong magic) ends without;
//! - the payload of a refused request is received and dropped, without ever being held, and only
//!   then is the refusal sent: clients take an answer to what they still send for a broken server.
//!   A payload beyond [`SKIP_BYTES_MAX`] is answered at once and ends the conversation.
//!
//! Call `poll` until it returns `None` or [`Event::Paused`] after every receive, and again after
//! admission may have changed.

use super::constants::{GREETING_MAGIC, OPTION_HEADER_BYTES, OPTION_MAGIC, command, handshake};
use super::export::Export;
use super::inbox::{Inbox, STAGING_BYTES};
use super::options::{self, Negotiation, Outcome, TlsMode};
use super::outbox::Outbox;
use super::reply::{self, Handle, ReadAsked, Replies};
use super::request::{Agreed, ClientCommand, ClientRequest, Header, Refusal, validate_request};
use super::wire::Fields;
use nearhead_disk::{BufferMut, Payload};
use nearhead_service::{Extent, RequestError};
use std::rc::Rc;

/// Longest option that is looked at, in bytes: four strings of the protocol's longest.
pub const OPTION_BYTES_MAX: usize = 16 * 1024;

/// Longest option, and longest payload of a refused write, that is skipped rather than taken as
/// the end of the conversation, in bytes.
pub const SKIP_BYTES_MAX: u64 = 64 << 20;

/// Rests of payloads from this size on are received alone, straight into their buffer, in bytes.
const DIRECT_BYTES: usize = 64 * 1024;

/// Unread replies beyond which nothing more is answered from here, in bytes: what a client that
/// does not read can make wait by asking badly.
const UNREAD_BYTES_MAX: usize = 64 * 1024;

/// Room for headers between large payloads, so that little of them is received elsewhere.
const HEADER_ROOM_BYTES: usize = 4096;

/// Who decides whether a request is taken, and gives memory for its payload.
pub trait Intake {
    /// Whether a request that occupies `bytes` of memory may be taken now.
    fn admit(&mut self, bytes: usize) -> bool;

    /// A buffer of at least `bytes` for an admitted payload; its content does not matter.
    fn payload_buffer(&mut self, bytes: usize) -> BufferMut;
}

/// What the received bytes mean.
#[derive(Debug)]
pub enum Event {
    /// A request that passed the gate; it must be answered.
    Request(ClientRequest),
    /// A request waits in the inbox for admission, or until earlier answers were sent.
    Paused,
    /// TLS follows once the outbox is empty; then call [`Machine::begin_tls`].
    StartTls,
    /// The client is done, or has lost the protocol in the way that the words say; nothing more
    /// will be understood. What is pending is still to be answered.
    Closed(Option<&'static str>),
}

/// Where in the conversation the next byte belongs.
#[derive(Debug)]
enum Phase {
    ClientFlags,
    Option,
    SkipOption {
        left: u64,
    },
    AwaitTls,
    Request,
    Payload {
        request: ClientRequest,
        buffer: BufferMut,
        filled: usize,
    },
    /// The rest of a refused request's payload; then it is told.
    SkipPayload {
        left: u64,
        handle: Handle,
        refusal: Refusal,
    },
    Closed,
}

/// What one step did.
enum Step {
    /// Consumed something; look again.
    Again,
    /// Bytes are missing.
    Starved,
    Tell(Event),
}

/// The protocol state of one connection.
#[derive(Debug)]
pub struct Machine {
    export: Rc<Export>,
    negotiation: Negotiation,
    agreed: Agreed,
    phase: Phase,
    inbox: Inbox,
    outbox: Outbox,
    /// The last payload was large: expect another.
    large_payloads: bool,
}

impl Machine {
    /// Greets a client of `export`. With a `refusal` every client is turned away with these words.
    pub fn new(export: Rc<Export>, tls: TlsMode, refusal: Option<String>) -> Self {
        let mut outbox = Outbox::default();
        outbox.put_header(|out| {
            out.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
            out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
            let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
            out.extend_from_slice(&flags.to_be_bytes());
        });
        Self {
            export,
            negotiation: Negotiation { tls, refusal, ..Negotiation::default() },
            agreed: Agreed::default(),
            phase: Phase::ClientFlags,
            inbox: Inbox::default(),
            outbox,
            large_payloads: false,
        }
    }

    /// Where the next received bytes go, in order: the rest of a payload, then headers. Either may
    /// be empty. `staging` lends memory to idle connections; see [`Machine::settle`].
    pub fn receive_slices<'a>(&'a mut self, staging: &mut Vec<u8>) -> [&'a mut [u8]; 2] {
        let large = self.large_payloads && !matches!(self.phase, Phase::SkipPayload { .. });
        let room = if large { HEADER_ROOM_BYTES } else { STAGING_BYTES };
        match &mut self.phase {
            Phase::Payload { request, buffer, filled } => {
                let rest = &mut buffer[*filled..request.len as usize];
                if rest.len() >= DIRECT_BYTES {
                    return [rest, &mut []];
                }
                [rest, self.inbox.room(staging, room)]
            }
            _ => [&mut [], self.inbox.room(staging, room)],
        }
    }

    /// Books `len` bytes received into [`Machine::receive_slices`].
    pub fn received(&mut self, len: usize) {
        let mut len = len;
        if let Phase::Payload { request, filled, .. } = &mut self.phase {
            let direct = len.min(request.len as usize - *filled);
            *filled += direct;
            len -= direct;
        }
        self.inbox.received(len);
    }

    /// Gives `staging` back when little of it is needed.
    pub fn settle(&mut self, staging: &mut Vec<u8>) {
        self.inbox.settle(staging);
    }

    /// What waits to be sent.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Received bytes that are not understood yet.
    pub fn waiting_bytes(&self) -> usize {
        self.inbox.waiting().len()
    }

    /// The name of the export that the client chose, once it has.
    pub(crate) fn export_name(&self) -> Option<&str> {
        self.negotiation.chosen.as_deref()
    }

    /// Whether the client may send requests.
    pub fn is_transmitting(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Payload { .. } | Phase::SkipPayload { .. })
    }

    /// Starts over under TLS. False if the client sent bytes in the clear that it meant to be
    /// read as encrypted ones: somebody may have injected them.
    pub fn begin_tls(&mut self) -> bool {
        self.negotiation.restart_under_tls();
        self.phase = Phase::Option;
        self.waiting_bytes() == 0
    }

    /// The next thing the received bytes mean.
    pub fn poll(&mut self, intake: &mut impl Intake) -> Option<Event> {
        loop {
            match self.step(intake) {
                Step::Again => {}
                Step::Starved => return None,
                Step::Tell(event) => return Some(event),
            }
        }
    }

    fn step(&mut self, intake: &mut impl Intake) -> Step {
        match &mut self.phase {
            Phase::ClientFlags => self.client_flags(),
            Phase::Option => self.option(),
            Phase::SkipOption { left } => {
                let skipped = skip(&mut self.inbox, left);
                if *left == 0 {
                    self.phase = Phase::Option;
                }
                skipped
            }
            Phase::Request => self.request(intake),
            Phase::Payload { .. } => self.payload(),
            Phase::SkipPayload { left, .. } => {
                let skipped = skip(&mut self.inbox, left);
                if *left == 0 { self.end_skip() } else { skipped }
            }
            Phase::AwaitTls | Phase::Closed => Step::Starved,
        }
    }

    fn close(&mut self, why: Option<&'static str>) -> Step {
        self.phase = Phase::Closed;
        Step::Tell(Event::Closed(why))
    }

    fn client_flags(&mut self) -> Step {
        let Ok(flags) = Fields::new(self.inbox.waiting()).u32("client flags") else {
            return Step::Starved;
        };
        self.inbox.consume(4);
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if flags & !known != 0 {
            return self.close(Some("client flags that this server does not know"));
        }
        self.negotiation.fixed_newstyle = flags & u32::from(handshake::FIXED_NEWSTYLE) != 0;
        self.negotiation.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        self.phase = Phase::Option;
        Step::Again
    }

    fn option(&mut self) -> Step {
        let waiting = self.inbox.waiting();
        let mut fields = Fields::new(waiting);
        let (Ok(magic), Ok(option), Ok(len)) =
            (fields.u64("magic"), fields.u32("option"), fields.u32("length"))
        else {
            return Step::Starved;
        };
        if self.outbox.len() > UNREAD_BYTES_MAX {
            return Step::Tell(Event::Paused);
        }
        if magic != OPTION_MAGIC {
            return self.close(Some("an option without its magic number"));
        }
        let outcome = if len as usize > OPTION_BYTES_MAX {
            self.inbox.consume(OPTION_HEADER_BYTES);
            let negotiation = &self.negotiation;
            let outcome = self.outbox.put_header(|out| {
                options::answer_too_big(negotiation, option, len, OPTION_BYTES_MAX, out)
            });
            if u64::from(len) > SKIP_BYTES_MAX {
                return self.close(Some("an option too long even to skip"));
            }
            self.phase = Phase::SkipOption { left: len.into() };
            outcome
        } else {
            let Ok(data) = fields.bytes(len as usize, "data") else { return Step::Starved };
            let (negotiation, export) = (&mut self.negotiation, &self.export);
            let outcome = self
                .outbox
                .put_header(|out| options::answer(negotiation, export, option, data, out));
            self.inbox.consume(OPTION_HEADER_BYTES + len as usize);
            outcome
        };
        self.follow(outcome)
    }

    fn follow(&mut self, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Continue => Step::Again,
            Outcome::Transmission { allocation } => {
                self.agreed = Agreed { form: self.negotiation.form, allocation };
                self.phase = Phase::Request;
                Step::Again
            }
            Outcome::StartTls => {
                self.phase = Phase::AwaitTls;
                Step::Tell(Event::StartTls)
            }
            Outcome::Close(why) => self.close(why),
        }
    }

    fn request(&mut self, intake: &mut impl Intake) -> Step {
        let form = self.agreed.form;
        let header_bytes = Header::len_in(form);
        if self.inbox.waiting().len() < header_bytes {
            return Step::Starved;
        }
        let Some(header) = Header::decode(self.inbox.waiting(), form) else {
            return self.close(Some("a request without its magic number"));
        };
        if header.kind == command::DISC {
            self.inbox.consume(header_bytes);
            return self.close(None);
        }
        let request = match validate_request(&header, &self.export, self.agreed) {
            Ok(request) => request,
            Err(_) if self.outbox.len() > UNREAD_BYTES_MAX => return Step::Tell(Event::Paused),
            Err(refusal) => {
                self.inbox.consume(header_bytes);
                return self.refuse(&header, refusal);
            }
        };
        if !intake.admit(self.export.memory_bytes(&request)) {
            return Step::Tell(Event::Paused);
        }
        self.inbox.consume(header_bytes);
        if request.command == ClientCommand::Write {
            self.large_payloads = request.len as usize >= DIRECT_BYTES;
            let buffer = intake.payload_buffer(request.len as usize);
            self.phase = Phase::Payload { request, buffer, filled: 0 };
            return Step::Again;
        }
        self.large_payloads = false;
        Step::Tell(Event::Request(request))
    }

    /// Answers a request that did not pass the gate, once its payload is out of the way.
    fn refuse(&mut self, header: &Header, refusal: Refusal) -> Step {
        let handle = header.handle();
        let payload_bytes = if header.carries_payload(self.agreed.form) { header.len } else { 0 };
        if payload_bytes > SKIP_BYTES_MAX {
            self.reply_errno(handle, refusal.errno, &refusal.words);
            return self.close(Some("a refused request with a payload too long even to skip"));
        }
        self.phase = Phase::SkipPayload { left: payload_bytes, handle, refusal };
        if payload_bytes == 0 { self.end_skip() } else { Step::Again }
    }

    fn end_skip(&mut self) -> Step {
        let skipped = std::mem::replace(&mut self.phase, Phase::Request);
        if let Phase::SkipPayload { handle, refusal, .. } = skipped {
            self.reply_errno(handle, refusal.errno, &refusal.words);
        }
        Step::Again
    }

    fn payload(&mut self) -> Step {
        let Phase::Payload { request, buffer, filled } = &mut self.phase else {
            return Step::Starved;
        };
        let len = request.len as usize;
        let waiting = self.inbox.waiting();
        let taken = waiting.len().min(len - *filled);
        buffer[*filled..*filled + taken].copy_from_slice(&waiting[..taken]);
        *filled += taken;
        self.inbox.consume(taken);
        if *filled < len {
            return Step::Starved;
        }
        let Phase::Payload { mut request, buffer, .. } =
            std::mem::replace(&mut self.phase, Phase::Request)
        else {
            return Step::Starved;
        };
        request.payload = Payload::Bytes(buffer.freeze().slice(0..len));
        Step::Tell(Event::Request(request))
    }

    /// Answers a request that succeeded and has no content.
    pub fn reply_done(&mut self, handle: Handle) {
        self.replies().put_done(handle);
    }

    /// Answers a read.
    pub fn reply_read(&mut self, asked: ReadAsked, parts: Vec<Payload>) {
        self.replies().put_read(asked, parts);
    }

    /// Answers a block status request.
    pub fn reply_block_status(&mut self, handle: Handle, extents: &[Extent]) {
        self.replies().put_block_status(handle, extents);
    }

    /// Answers a request that failed.
    pub fn reply_error(&mut self, handle: Handle, error: &RequestError) {
        self.reply_errno(handle, reply::errno_of(error.kind), &error.detail);
    }

    fn reply_errno(&mut self, handle: Handle, errno: u32, words: &str) {
        self.replies().put_error(handle, errno, words);
    }

    fn replies(&mut self) -> Replies<'_> {
        Replies { outbox: &mut self.outbox, form: self.agreed.form }
    }
}

fn skip(inbox: &mut Inbox, left: &mut u64) -> Step {
    let waiting = inbox.waiting().len();
    let skipped = usize::try_from(*left).map_or(waiting, |left| waiting.min(left));
    inbox.consume(skipped);
    *left -= skipped as u64;
    if *left == 0 { Step::Again } else { Step::Starved }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
