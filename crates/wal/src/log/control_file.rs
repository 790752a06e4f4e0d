//! The file with the two control blocks, and its lock.
//!
//! A change is one durable write to the slot that does not count now, so a torn one changes nothing.
//! After an error the same slot is used again: the other is the only one known to be good.

use super::pool::sequence_of;
use crate::codec::control::{Control, SLOT_BYTES, SLOTS};
use crate::error::{Result, WalError, WalErrorKind};
use crate::storage::{Access, Storage, StoredFile};
use nearhead_disk::BufferMut;
use std::sync::Arc;

/// Its name.
pub(crate) const CONTROL_NAME: &str = "wal.control";
/// Its name until it is whole.
const NEW_NAME: &str = "wal.control.new";

/// The open file and what it says.
pub(crate) struct ControlFile {
    file: Arc<dyn StoredFile>,
    current: Control,
}

impl ControlFile {
    /// Makes the first one of a log, all or nothing.
    pub(crate) fn create(storage: &dyn Storage, control: &Control) -> Result<()> {
        let names = storage.names()?;
        if names.iter().any(|name| name == CONTROL_NAME) {
            let detail = format!(
                "{} holds a log already: open it, or choose another directory",
                storage.describe()
            );
            return Err(WalError::new(WalErrorKind::AlreadyExists, detail));
        }
        if let Some(segment) = names.iter().find(|name| sequence_of(name).is_some()) {
            let detail = format!(
                "{}: expected an empty directory, found {segment} of a log whose {CONTROL_NAME} is gone; restore that, or choose another directory",
                storage.describe()
            );
            return Err(WalError::new(WalErrorKind::AlreadyExists, detail));
        }
        if names.iter().any(|name| name == NEW_NAME) {
            // Of an attempt that was cut; or of one under way, which holds its lock.
            storage.open(NEW_NAME, Access::Write)?.lock()?;
            storage.remove(NEW_NAME)?;
        }
        let file = storage.open(NEW_NAME, Access::Create)?;
        file.lock()?;
        let mut buffer = BufferMut::zeroed(SLOT_BYTES * SLOTS);
        let slot = slot_of(control.generation);
        control.encode(&mut buffer[slot..slot + SLOT_BYTES]);
        file.write(0, &buffer)?;
        file.sync()?;
        storage.rename(NEW_NAME, CONTROL_NAME)?;
        storage.sync_names()
    }

    /// Opens it; for writing also keeps other writers out.
    pub(crate) fn open(storage: &dyn Storage, access: Access) -> Result<Self> {
        let place = storage.describe();
        let file = storage.open(CONTROL_NAME, access).map_err(|error| {
            if error.kind != WalErrorKind::NotFound {
                return error;
            }
            let detail = format!(
                "{place} holds no log: expected a file {CONTROL_NAME}, found none; create a log, or check the path"
            );
            WalError::new(WalErrorKind::NotFound, detail)
        })?;
        if access == Access::Write {
            file.lock()?;
        }
        let mut buffer = BufferMut::zeroed(SLOT_BYTES * SLOTS);
        let read = file.read(0, &mut buffer)?;
        let slots = buffer[..read].chunks(SLOT_BYTES).map(Control::decode);
        let outcomes: Vec<_> = slots.collect();
        let good = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok());
        match good.max_by_key(|control| control.generation) {
            Some(control) => Ok(Self { file, current: *control }),
            None => Err(unreadable(&place, &outcomes)),
        }
    }

    /// What it says.
    pub(crate) fn current(&self) -> &Control {
        &self.current
    }

    /// Durably says something else.
    pub(crate) fn store(&mut self, change: impl FnOnce(&mut Control)) -> Result<()> {
        let mut next = self.current;
        change(&mut next);
        next.generation = self.current.generation + 1;
        let mut buffer = BufferMut::zeroed(SLOT_BYTES);
        next.encode(&mut buffer);
        self.file.write_durable(slot_of(next.generation) as u64, &buffer)?;
        self.current = next;
        Ok(())
    }
}

/// The unit of writes of the log that lies there.
pub(crate) fn block_bytes_of(storage: &dyn Storage) -> Result<u32> {
    Ok(ControlFile::open(storage, Access::Read)?.current().geometry.block_bytes)
}

fn slot_of(generation: u64) -> usize {
    (generation % SLOTS as u64) as usize * SLOT_BYTES
}

fn unreadable(place: &str, outcomes: &[std::result::Result<Control, String>]) -> WalError {
    let said: Vec<&str> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err().map(String::as_str)).collect();
    let said = if said.is_empty() { "an empty file".to_owned() } else { said.join("; ") };
    let detail = format!(
        "{place}/{CONTROL_NAME}: expected a control block in one of two slots, found {said}; restore the file from a copy of the directory"
    );
    WalError::new(WalErrorKind::Corrupt, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Geometry, Tail};
    use crate::log::Lsn;
    use crate::storage::Memory;

    fn control() -> Control {
        Control {
            log_id: [3; 16],
            geometry: Geometry { segment_bytes: 65536, block_bytes: 512, tail: Tail::Rewritten },
            generation: 1,
            first_sequence: 1,
            last_sequence: 0,
            first_lsn: Lsn::FIRST,
            clean_end: None,
        }
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let storage = Memory::new();
        ControlFile::create(&storage, &control()).unwrap();
        let mut file = ControlFile::open(&storage, Access::Write).unwrap();
        file.store(|control| control.last_sequence = 1).unwrap();
        file.store(|control| control.last_sequence = 2).unwrap();
        drop(file);
        let reopened = ControlFile::open(&storage, Access::Read).unwrap();
        assert_eq!(reopened.current().last_sequence, 2);
        // Generation 3 is in slot 1.
        storage.damage(CONTROL_NAME, |bytes| bytes[SLOT_BYTES + 50] ^= 1);
        let reopened = ControlFile::open(&storage, Access::Read).unwrap();
        assert_eq!(reopened.current().last_sequence, 1);
        storage.damage(CONTROL_NAME, |bytes| bytes[50] ^= 1);
        let error = ControlFile::open(&storage, Access::Read).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, WalErrorKind::Corrupt);
    }

    #[test]
    fn a_change_that_failed_leaves_the_good_slot_alone() {
        let storage = Memory::new();
        ControlFile::create(&storage, &control()).unwrap();
        let mut file = ControlFile::open(&storage, Access::Write).unwrap();
        for _ in 0..3 {
            storage.fail_at(storage.operations(), WalErrorKind::Io);
            assert!(file.store(|control| control.last_sequence = 9).is_err());
            // The slot that failed rots; the other must still be what it was.
            let storage = storage.killed();
            storage.damage(CONTROL_NAME, |bytes| bytes[50] ^= 1);
            let found = ControlFile::open(&storage, Access::Read).unwrap();
            assert_eq!(found.current().generation, 1);
        }
    }

    #[test]
    fn an_attempt_to_make_a_log_that_was_cut_is_made_again_and_one_under_way_is_not_disturbed() {
        let storage = Memory::new();
        let attempt = storage.open(NEW_NAME, Access::Create).unwrap();
        attempt.lock().unwrap();
        let error = ControlFile::create(&storage, &control()).unwrap_err();
        assert_eq!(error.kind, WalErrorKind::InUse);
        drop(attempt);
        ControlFile::create(&storage, &control()).unwrap();
    }

    #[test]
    fn a_second_writer_is_kept_out() {
        let storage = Memory::new();
        ControlFile::create(&storage, &control()).unwrap();
        let first = ControlFile::open(&storage, Access::Write).unwrap();
        let error = ControlFile::open(&storage, Access::Write).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, WalErrorKind::InUse);
        drop(first);
        assert!(ControlFile::open(&storage, Access::Write).is_ok());
    }
}
