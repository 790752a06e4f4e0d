//! First steps of a process that goes on with a mounted folder: what the ended process left in its log becomes durable.
//!
//! Requests of the kernel are received only after these steps, so nothing of them needs to be fast or concurrent.

use crate::serve::{Sleep, since};
use nearhead_disk::Payload;
use nearhead_ext4::{Caller, Timestamp};
use nearhead_fs::{FsOperation, FsRequest, Mounted, SurvivalLog, Survived};
use nearhead_service::{Operation, Request, RequestId, Service};
use std::time::Instant;

/// Number of requests here: none that the kernel sends again has it.
const OWN: u64 = 1;

/// Makes the blocks in the log of an ended process durable on its volume, before the file system there is mounted.
///
/// # Errors
/// The volume does not do it. It may be tried again.
pub fn replay<S: Service>(
    service: &mut S,
    start: Instant,
    survived: &mut Survived,
    now: Timestamp,
    log: &mut dyn SurvivalLog,
) -> Result<(), String> {
    let bytes = service.info().size_bytes;
    nearhead_fs::replay(survived, bytes, now, log, &mut |operation| ask(service, start, operation))
}

/// Carries out one operation.
fn ask<S: Service>(
    service: &mut S,
    start: Instant,
    operation: Operation,
) -> Result<Vec<Payload>, String> {
    service.submit(Request { id: RequestId(OWN), operation }, since(start));
    loop {
        service.drive(since(start));
        if let Some(reply) = service.poll_reply() {
            return reply.result.map_err(|error| error.detail);
        }
        let wake = service.wake();
        Sleep::until(&wake).sleep(start, None, wake.fd);
    }
}

/// Makes everything durable that is mounted.
pub(crate) fn make_durable<S: Service>(
    mounted: &mut Mounted<S>,
    start: Instant,
) -> Result<(), String> {
    let caller = Caller { uid: 0, gid: 0, now: crate::clock() };
    mounted.submit(FsRequest { id: OWN, caller, operation: FsOperation::SyncAll });
    loop {
        mounted.drive(since(start));
        if let Some(reply) = mounted.poll_reply() {
            return reply.result.map(|_| ()).map_err(|error| error.detail);
        }
        let wake = mounted.wake();
        Sleep::until(&wake).sleep(start, None, wake.fd);
    }
}
