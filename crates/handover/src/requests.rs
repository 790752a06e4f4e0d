//! Requests and answers that a keeper changes.

use nearhead_service::{ErrorKind, Operation, Request, RequestError};

/// Fails a flush while writes of an earlier process are left.
pub(crate) fn not_carried_out() -> RequestError {
    let problem = "writes that an earlier process had answered cannot be carried out yet";
    RequestError::new(ErrorKind::Io, problem.to_owned())
}

/// The same change, answered once it is durable.
pub(crate) fn made_durable(Request { id, mut operation }: Request) -> Request {
    match &mut operation {
        Operation::Write { fua, .. }
        | Operation::WriteInPlace { fua, .. }
        | Operation::WriteZeroes { fua, .. }
        | Operation::Trim { fua, .. } => *fua = true,
        Operation::WriteAtomic { .. }
        | Operation::Read { .. }
        | Operation::Hint { .. }
        | Operation::Flush => {}
    }
    Request { id, operation }
}
