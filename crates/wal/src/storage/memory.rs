//! Files in memory that can lose power: the disk under every crash test.
//!
//! What is written is visible at once and *pending* until a durable write or sync covers it.
//! [`Memory::cut`] gives the storage that a power cut would leave: of each pending 512-byte sector
//! what the caller decides, and of pending changes of names a prefix. A fault can be set for the
//! n-th operation that changes something: an error, or the end of power, with that operation half
//! done. Nothing here draws chance or reads a clock; whoever cuts, decides.

use super::{Access, Storage, StoredFile};
use crate::error::{Result, WalError, WalErrorKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is torn apart by a power cut.
const SECTOR_BYTES: usize = 512;

/// What becomes of a pending sector when power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorFate {
    /// It never reached the medium.
    Old,
    /// It did.
    New,
    /// It was being written: its 512 bytes are neither.
    Garbled,
}

/// A sector whose content is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSector {
    /// The file's present name, if it has one.
    pub file: Option<String>,
    /// Offset of the sector in it.
    pub offset: u64,
}

/// What a power cut does: the fate of each pending sector, in the order of [`Memory::pending`],
/// and how many pending changes of names happened.
#[derive(Clone, Debug)]
pub struct Cut {
    /// One for each pending sector.
    pub sectors: Vec<SectorFate>,
    /// Of the pending changes of names, how many survive; the first ones do.
    pub name_changes: usize,
}

#[derive(Clone, Debug)]
enum NameChange {
    Bind(String, usize),
    Unbind(String),
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// The latest pending content of each sector that has one. Between two points of durability
    /// only the latest matters here: a sector is old or new.
    pending: BTreeSet<usize>,
}

#[derive(Default)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    locks: HashMap<usize, u64>,
    next_handle: u64,
    operations: u64,
    fault_at: Option<(u64, Fault)>,
    is_dead: bool,
    capacity_bytes: Option<usize>,
}

/// What the operation chosen by [`Memory::fail_at`] meets.
#[derive(Clone, Debug)]
enum Fault {
    Power,
    Error(WalErrorKind),
}

/// Files in memory. Clones share them.
#[derive(Clone, Default)]
pub struct Memory {
    state: Arc<Mutex<State>>,
}

impl Memory {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Operations so far that changed something.
    pub fn operations(&self) -> u64 {
        self.locked().operations
    }

    /// Power fails at the operation with this number, counted from 0, or the next if that is over: it may
    /// have happened in part, and it and all later ones return errors.
    pub fn lose_power_at(&self, operation: u64) {
        self.locked().fault_at = Some((operation, Fault::Power));
    }

    /// The operation with this number returns an error; its bytes are pending all the same, as
    /// after a failed write-back.
    pub fn fail_at(&self, operation: u64, kind: WalErrorKind) {
        self.locked().fault_at = Some((operation, Fault::Error(kind)));
    }

    /// Limits the sum of all lengths: what would go beyond has no space.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.locked().capacity_bytes = bytes;
    }

    /// Whether power has failed.
    pub fn is_dead(&self) -> bool {
        self.locked().is_dead
    }

    /// The sectors that a power cut now could lose.
    pub fn pending(&self) -> Vec<PendingSector> {
        let state = self.locked();
        let mut found = Vec::new();
        for (index, content) in state.files.iter().enumerate() {
            let name = state.names.iter().find(|(_, file)| **file == index);
            for sector in &content.pending {
                let offset = (sector * SECTOR_BYTES) as u64;
                found.push(PendingSector { file: name.map(|(name, _)| name.clone()), offset });
            }
        }
        found
    }

    /// How many changes of names a power cut now could lose.
    pub fn pending_name_changes(&self) -> usize {
        self.locked().name_changes.len()
    }

    /// What is found after a power cut. This storage itself stays as it is.
    #[must_use]
    pub fn cut(&self, cut: &Cut) -> Self {
        let state = self.locked();
        let mut names = state.durable_names.clone();
        for change in state.name_changes.iter().take(cut.name_changes) {
            apply(&mut names, change);
        }
        let mut fates = cut.sectors.iter();
        let mut files = Vec::new();
        for content in &state.files {
            let mut bytes = content.durable.clone();
            for sector in &content.pending {
                let fate = fates.next().copied().unwrap_or(SectorFate::Old);
                if fate != SectorFate::Old {
                    keep(&mut bytes, &content.bytes, sector * SECTOR_BYTES, fate);
                }
            }
            files.push(Content { durable: bytes.clone(), bytes, pending: BTreeSet::new() });
        }
        let state = State { files, durable_names: names.clone(), names, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// What is found after the program was killed: everything it wrote, pending as before.
    #[must_use]
    pub fn killed(&self) -> Self {
        let state = self.locked();
        let copy = State {
            files: state.files.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            name_changes: state.name_changes.clone(),
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    /// Changes bytes of a file behind everybody's back, durably.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.locked();
        let Some(index) = state.names.get(name).copied() else { return };
        let content = &mut state.files[index];
        change(&mut content.bytes);
        content.durable.clone_from(&content.bytes);
        content.pending.clear();
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(bytes: &mut Vec<u8>, newer: &[u8], start: usize, fate: SectorFate) {
    let end = (start + SECTOR_BYTES).min(newer.len());
    if end <= start {
        return;
    }
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(&newer[start..end]);
    if fate == SectorFate::Garbled {
        bytes[start..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Bind(name, file) => {
            names.retain(|_, bound| bound != file);
            names.insert(name.clone(), *file);
        }
        NameChange::Unbind(name) => {
            names.remove(name);
        }
    }
}

impl State {
    /// Counts an operation. `Err` if it fails; `Ok(true)` if power ends with it.
    fn begin(&mut self) -> Result<bool> {
        if self.is_dead {
            return Err(power_is_gone());
        }
        let number = self.operations;
        self.operations += 1;
        match &self.fault_at {
            // Or a later one: a log's own thread may have been quicker than who chose the number.
            Some((at, Fault::Power)) if *at <= number => {
                self.is_dead = true;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The error that this operation, which has just been counted, is to meet.
    fn planned_error(&self) -> Result<()> {
        match &self.fault_at {
            Some((at, Fault::Error(kind))) if at + 1 == self.operations => {
                Err(WalError::new(*kind, "an error set by the test"))
            }
            _ => Ok(()),
        }
    }

    fn change_name(&mut self, change: NameChange) -> Result<()> {
        let dies = self.begin()?;
        self.planned_error()?;
        apply(&mut self.names, &change);
        self.name_changes.push(change);
        if dies { Err(power_is_gone()) } else { Ok(()) }
    }

    fn used_bytes(&self) -> usize {
        self.names.values().map(|file| self.files[*file].bytes.len()).sum()
    }

    fn make_durable(&mut self, file: usize, sectors: std::ops::Range<usize>) {
        let content = &mut self.files[file];
        let end = (sectors.end * SECTOR_BYTES).min(content.bytes.len());
        if content.durable.len() < end {
            content.durable.resize(end, 0);
        }
        let start = (sectors.start * SECTOR_BYTES).min(end);
        content.durable[start..end].copy_from_slice(&content.bytes[start..end]);
        content.pending.retain(|sector| !sectors.contains(sector));
    }
}

fn power_is_gone() -> WalError {
    WalError::new(WalErrorKind::Io, "power is gone")
}

impl Storage for Memory {
    fn names(&self) -> Result<Vec<String>> {
        Ok(self.locked().names.keys().cloned().collect())
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn StoredFile>> {
        let mut state = self.locked();
        let file = match (state.names.get(name).copied(), access) {
            (Some(_), Access::Create) => {
                return Err(WalError::new(WalErrorKind::AlreadyExists, format!("{name} exists")));
            }
            (Some(file), _) => file,
            (None, Access::Create) => {
                state.files.push(Content::default());
                let file = state.files.len() - 1;
                state.change_name(NameChange::Bind(name.to_owned(), file))?;
                file
            }
            (None, _) => {
                return Err(WalError::new(WalErrorKind::NotFound, format!("no file {name}")));
            }
        };
        state.next_handle += 1;
        let handle = state.next_handle;
        Ok(Arc::new(MemoryFile { storage: self.clone(), file, handle, name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.locked();
        let Some(file) = state.names.get(from).copied() else {
            return Err(WalError::new(WalErrorKind::NotFound, format!("no file {from}")));
        };
        state.change_name(NameChange::Bind(to.to_owned(), file))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.locked();
        if !state.names.contains_key(name) {
            return Err(WalError::new(WalErrorKind::NotFound, format!("no file {name}")));
        }
        state.change_name(NameChange::Unbind(name.to_owned()))
    }

    fn sync_names(&self) -> Result<()> {
        let mut state = self.locked();
        if state.begin()? {
            return Err(power_is_gone());
        }
        state.planned_error()?;
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

struct MemoryFile {
    storage: Memory,
    file: usize,
    handle: u64,
    name: String,
}

impl MemoryFile {
    /// Writes, and makes durable what `durable` says, unless a fault comes between.
    fn write_bytes(&self, offset: u64, bytes: &[u8], durable: bool) -> Result<()> {
        let mut state = self.storage.locked();
        let dies = state.begin()?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let growth = end.saturating_sub(state.files[self.file].bytes.len());
        let is_over = |capacity| state.used_bytes() + growth > capacity;
        if growth > 0 && state.capacity_bytes.is_some_and(is_over) {
            return Err(WalError::new(WalErrorKind::NoSpace, "no space left in memory"));
        }
        let sectors = start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let content = &mut state.files[self.file];
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        content.pending.extend(sectors.clone());
        if dies {
            return Err(power_is_gone());
        }
        state.planned_error()?;
        if durable {
            state.make_durable(self.file, sectors);
        }
        Ok(())
    }
}

impl StoredFile for MemoryFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn lock(&self) -> Result<()> {
        let mut state = self.storage.locked();
        if state.locks.contains_key(&self.file) {
            let detail = format!("{} is in use by another writer", self.name);
            return Err(WalError::new(WalErrorKind::InUse, detail));
        }
        state.locks.insert(self.file, self.handle);
        Ok(())
    }

    fn len_bytes(&self) -> Result<u64> {
        Ok(self.storage.locked().files[self.file].bytes.len() as u64)
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        let state = self.storage.locked();
        if state.is_dead {
            return Err(power_is_gone());
        }
        let bytes = &state.files[self.file].bytes;
        let start = (offset as usize).min(bytes.len());
        let len = memory.len().min(bytes.len() - start);
        memory[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_bytes(offset, bytes, false)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_bytes(offset, bytes, true)
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.storage.locked();
        if state.begin()? {
            return Err(power_is_gone());
        }
        if let Err(error) = state.planned_error() {
            // As Linux does: pages that could not be written count as clean from now on, and the
            // error is told once. A second sync would succeed over lost bytes.
            let content = &mut state.files[self.file];
            content.pending.clear();
            return Err(error);
        }
        let sectors = state.files[self.file].bytes.len().div_ceil(SECTOR_BYTES);
        state.make_durable(self.file, 0..sectors);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        let mut state = self.storage.locked();
        let dies = state.begin()?;
        state.planned_error()?;
        let content = &mut state.files[self.file];
        // Journalled with the file's metadata, which is durable in order: taken as durable at once.
        content.bytes.resize(bytes as usize, 0);
        content.durable.resize(bytes as usize, 0);
        let sectors = (bytes as usize).div_ceil(SECTOR_BYTES);
        content.pending.retain(|sector| *sector < sectors);
        if dies { Err(power_is_gone()) } else { Ok(()) }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.storage.locked();
        if state.locks.get(&self.file) == Some(&self.handle) {
            state.locks.remove(&self.file);
        }
    }
}
