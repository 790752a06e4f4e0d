//! A workload over a socket in real time: the generator that simulations use, at the wall clock.
//!
//! One thread per workload and connection, as separate clients would be. The thread sleeps until
//! its next request is due or an answer arrives; it never decides anything itself.

use super::client::{Ask, Client};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{ErrorKind, Operation, RequestError};
use nearhead_sim::workload::Workload;
use std::io;
use std::time::{Duration, Instant};

/// How long, after the end of a measurement, answers may still come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A clock shared by the clients of one measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: Instant,
    pub(crate) measured_from: Nanos,
    pub(crate) ends: Nanos,
}

impl Span {
    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn instant(&self, at: Nanos) -> Instant {
        self.start + Duration::from_nanos(at.0)
    }
}

/// Lets `workload` work on `client` for the span, gives its figures at the end of it to `summary`,
/// and waits for what is outstanding.
pub(crate) fn drive<W: Workload, T>(
    client: &mut Client,
    workload: &mut W,
    span: Span,
    summary: impl FnOnce(&W, Nanos) -> T,
) -> io::Result<T> {
    run(client, workload, span, span.measured_from)?;
    workload.start_measuring(span.now());
    run(client, workload, span, span.ends)?;
    let result = summary(workload, span.now());
    workload.stop();
    let patience = span.now() + Nanos(PATIENCE.as_nanos() as u64);
    run(client, workload, span, patience)?;
    if workload.is_finished() {
        Ok(result)
    } else {
        Err(io::Error::new(io::ErrorKind::TimedOut, "requests without an answer at the end"))
    }
}

fn run<W: Workload>(
    client: &mut Client,
    workload: &mut W,
    span: Span,
    until: Nanos,
) -> io::Result<()> {
    while span.now() < until && !workload.is_finished() {
        while let Some(issue) = workload.poll_issue(span.now()) {
            send(client, issue.tag, &issue.operation)?;
        }
        let wish = workload.next_at().map_or(until, |at| at.min(until));
        if client.wait(Some(span.instant(wish)))? {
            let answer = client.receive()?;
            let result = match answer.error {
                0 => Ok(Vec::new()),
                error => Err(failure(error)),
            };
            if !workload.on_reply(answer.handle, result, span.now()) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to no request"));
            }
        }
    }
    Ok(())
}

fn failure(error: u32) -> RequestError {
    let detail = io::Error::from_raw_os_error(error as i32).to_string();
    RequestError { kind: ErrorKind::Io, detail }
}

fn send(client: &mut Client, handle: u64, operation: &Operation) -> io::Result<()> {
    match operation {
        Operation::Read { offset, len } => {
            client.send(handle, Ask::Read { offset: *offset, len: *len })
        }
        Operation::Write { offset, data: Payload::Bytes(data), fua } => {
            client.send(handle, Ask::Write { offset: *offset, data, fua: *fua })
        }
        Operation::Flush => client.send(handle, Ask::Flush),
        other => {
            let told = format!("a workload asked for what goes over no socket: {other:?}");
            Err(io::Error::new(io::ErrorKind::Unsupported, told))
        }
    }
}
