//! The token of a submitted command.
//!
//! A disk that loses track of a command would leave a client waiting forever, so the token must be
//! spent: [`Ticket::complete`] turns it into a completion, [`Ticket::abandon`] says that the disk
//! itself is gone (power cut, teardown). Dropping it otherwise is a bug and panics in debug builds.

use crate::{Completion, DiskError, PartDone, Payload};

/// Names a command among those outstanding; chosen by whoever submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Proof that a command awaits its completion.
#[derive(Debug)]
#[must_use = "a command must be completed or abandoned"]
pub struct Ticket {
    id: CommandId,
    spent: bool,
}

impl Ticket {
    /// A ticket for the command `id`.
    pub fn new(id: CommandId) -> Self {
        Self { id, spent: false }
    }

    /// The command this ticket stands for.
    pub fn id(&self) -> CommandId {
        self.id
    }

    /// Spends the ticket: the command is done.
    pub fn complete(self, result: Result<Payload, DiskError>) -> Completion {
        self.complete_in_parts(result, Vec::new())
    }

    /// The same, and when each member of an array was done with its part.
    pub fn complete_in_parts(
        mut self,
        result: Result<Payload, DiskError>,
        parts: Vec<PartDone>,
    ) -> Completion {
        self.spent = true;
        Completion { id: self.id, result, parts }
    }

    /// Spends the ticket without an answer: the disk it was on no longer exists.
    pub fn abandon(mut self) {
        self.spent = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        debug_assert!(
            self.spent || std::thread::panicking(),
            "command {:?} was dropped without a completion",
            self.id
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "dropped without a completion")]
    fn losing_a_ticket_is_loud() {
        drop(Ticket::new(CommandId(7)));
    }
}
