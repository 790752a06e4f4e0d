//! Metadata backups: the superblock and the newest snapshot of a volume in one file, and a volume opened with them.
//!
//! The file is self-describing ([`nearhead_format::backup`]); what is read from one is checked whole before any of it is
//! used. A restore never puts an old snapshot back as if it were the newest: the map is rebuilt from it and from every
//! record in the logs since, with the doubts of any rebuild ([`crate::repair`]).

use crate::create::write_superblocks;
use crate::data_devices;
use crate::dump::{Slot, read_long, read_slots};
use crate::generations;
use crate::map_device;
use crate::open::{find_superblock, read_copies};
use crate::presets::Presets;
use crate::probe::{Contents, Finding, HEAD_BYTES, probe, probe_device};
use crate::sync_io::SyncIo;
use nearhead_disk::DiskError;
use nearhead_format::backup::BackupHead;
use nearhead_format::snapshot::BodyReader;
use nearhead_format::{SnapshotHeader, Superblock, VolumeId};
use std::fmt;
use std::sync::Arc;

const BLOCK: usize = 4096;

/// Why there is no backup, or none that can be restored here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupError(String);

impl fmt::Display for BackupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for BackupError {}

fn failed(problem: &dyn fmt::Display) -> BackupError {
    BackupError(problem.to_string())
}

/// A backup, checked whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Whose it is, and when it was made.
    pub head: BackupHead,
    /// The volume.
    pub superblock: Superblock,
    /// Its newest snapshot then.
    pub snapshot: SnapshotHeader,
    /// Header and body, byte for byte.
    snapshot_bytes: Arc<Vec<u8>>,
}

impl Backup {
    /// Reads superblock and newest sound snapshot of a volume that is not being served. Changes nothing.
    pub fn take(io: &mut SyncIo<'_>, made_unix_s: u64) -> Result<Self, BackupError> {
        let superblock = find_superblock(io).map_err(|error| failed(&error))?.superblock;
        let place = map_device::place(io, &superblock).map_err(|error| failed(&error))?;
        let newest = read_slots(io, &superblock)
            .into_iter()
            .filter(Slot::is_sound)
            .filter_map(|slot| slot.header.ok())
            .max_by_key(|header| header.snapshot_number);
        let Some(snapshot) = newest else {
            return Err(BackupError(
                "expected a sound snapshot of the map in slot 0 or 1, found none; `nearhead repair --dry-run` says what \
                 the logs still know"
                    .to_owned(),
            ));
        };
        let start = place.body(snapshot.slot() as usize);
        let body =
            read_long(io, start, snapshot.body.body_bytes).map_err(|error| failed(&error))?;
        let mut snapshot_bytes = snapshot.encode().to_vec();
        snapshot_bytes.extend_from_slice(&body);
        let head = BackupHead {
            volume_id: superblock.volume_id,
            made_unix_s,
            snapshot_number: snapshot.snapshot_number,
            body_bytes: snapshot.body.body_bytes,
        };
        Self { head, superblock, snapshot, snapshot_bytes: Arc::new(snapshot_bytes) }.checked()
    }

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.head.encode().to_vec();
        bytes.extend_from_slice(&self.superblock.encode(0));
        bytes.extend_from_slice(&self.snapshot_bytes);
        bytes
    }

    /// Reads the bytes of a file, trusting nothing; the volume must have been made with one of `presets`.
    pub fn decode(bytes: &[u8], presets: Presets) -> Result<Self, BackupError> {
        let part = |at: usize| bytes.get(at * BLOCK..(at + 1) * BLOCK).unwrap_or_default();
        let head = BackupHead::decode(part(0)).map_err(|error| failed(&error))?;
        if head.file_bytes() != Some(bytes.len() as u64) {
            let expected = head.file_bytes().unwrap_or(0);
            let found = bytes.len();
            let problem =
                format!("expected a file of {expected} bytes, found {found}: it was cut short");
            return Err(BackupError(problem));
        }
        let superblock = presets.decode(part(1), 0).map_err(|error| failed(&error))?;
        let slot = (head.snapshot_number % 2) as u32;
        let snapshot = SnapshotHeader::decode(part(2), &head.volume_id, slot, head.body_bytes)
            .map_err(|error| failed(&error))?;
        let snapshot_bytes = Arc::new(bytes.get(2 * BLOCK..).unwrap_or_default().to_vec());
        Self { head, superblock, snapshot, snapshot_bytes }.checked()
    }

    /// Whether the parts belong together and the body is what its header says.
    fn checked(self) -> Result<Self, BackupError> {
        let belongs = self.superblock.volume_id == self.head.volume_id
            && self.snapshot.volume_id == self.head.volume_id
            && self.snapshot.snapshot_number == self.head.snapshot_number
            && self.snapshot.body.body_bytes == self.head.body_bytes;
        if !belongs {
            return Err(BackupError(
                "expected parts of one volume and one snapshot, found others".into(),
            ));
        }
        let mut reader = BodyReader::new(self.snapshot.body);
        let body = self.snapshot_bytes.get(BLOCK..).unwrap_or_default();
        reader.feed(body, &mut |_| ()).map_err(|error| failed(&error))?;
        reader.finish().map_err(|error| failed(&error))?;
        Ok(self)
    }

    /// The snapshot for an engine to begin with.
    pub fn base(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.snapshot_bytes)
    }
}

/// What a device has of the volume of a backup.
#[derive(Clone, Debug)]
pub struct Present {
    /// Its superblock, if a copy is sound.
    pub superblock: Option<Superblock>,
    /// Number of its newest sound snapshot, if one is.
    pub snapshot_number: Option<u64>,
    /// What another program put over the superblocks, if it is known.
    pub foreign: Option<Contents>,
}

/// Looks at what a restore of `backup` would replace. Refused if the device belongs to another volume, is too small, or a
/// newer program knows more about it. Changes nothing.
pub fn look(io: &mut SyncIo<'_>, backup: &Backup) -> Result<Present, BackupError> {
    let copies = read_copies(io).copies;
    let is_missing = copies.iter().all(Result::is_err);
    let superblock = match find_superblock(io) {
        Ok(found) => found.superblock,
        Err(crate::OpenError::NoVolume { .. }) if is_missing => {
            let capacity = io.disk().properties().capacity_bytes;
            let expected = backup.superblock.layout.device_bytes;
            if expected > capacity {
                let problem =
                    format!("expected a device of at least {expected} bytes, found {capacity}");
                return Err(BackupError(problem));
            }
            let has_remains = refuse_foreign(io, &backup.head.volume_id)?;
            // A snapshot may lie on one of them.
            data_devices::join(io, &backup.superblock).map_err(|error| failed(&error))?;
            let slots = read_slots(io, &backup.superblock);
            let foreign = foreign(io, has_remains).map_err(|error| failed(&error))?;
            return Ok(Present { superblock: None, snapshot_number: newest(&slots), foreign });
        }
        Err(error) => return Err(failed(&error)),
    };
    if superblock.volume_id != backup.head.volume_id {
        return Err(other_volume(&backup.head.volume_id, &hex(&superblock.volume_id)));
    }
    let snapshot_number = newest(&read_slots(io, &superblock));
    Ok(Present { superblock: Some(superblock), snapshot_number, foreign: None })
}

/// Contents with a name at the start of a device without a superblock of ours. Damage has none, and the end may be clients' data. Where
/// nothing of the volume is left on it (no `has_remains`), the end and copies of superblocks count as well.
fn foreign(io: &mut SyncIo<'_>, has_remains: bool) -> Result<Option<Contents>, DiskError> {
    let bytes = io.disk().properties().capacity_bytes;
    let head = io.read(0, bytes.min(HEAD_BYTES as u64) as usize)?;
    let contents = if has_remains {
        probe(bytes, &head, &[])
    } else {
        probe_device(bytes, |offset, len| io.read(offset, len))?
    };
    let is_of_others = |found: &Finding| !found.what.contains("Nearhead");
    Ok(match contents {
        Contents::Known(findings) if findings.iter().any(is_of_others) => {
            Some(Contents::Known(findings.into_iter().filter(is_of_others).collect()))
        }
        _ => None,
    })
}

fn newest(slots: &[Slot; 2]) -> Option<u64> {
    let sound = slots.iter().filter(|slot| slot.is_sound());
    sound.filter_map(|slot| slot.header.as_ref().ok()).map(|header| header.snapshot_number).max()
}

/// Refuses snapshots or records of another volume where there are none of this one: it is the wrong device. Says whether there are any of
/// this one.
fn refuse_foreign(io: &mut SyncIo<'_>, volume_id: &VolumeId) -> Result<bool, BackupError> {
    let remains = crate::probe::look_for_remains(io).map_err(|error| failed(&error))?;
    let own = hex(volume_id);
    let labels = || remains.iter().filter_map(|finding| finding.label.as_deref());
    let is_own = labels().any(|label| label == own);
    match labels().next() {
        Some(other) if !is_own => Err(other_volume(volume_id, other)),
        _ => Ok(is_own),
    }
}

fn other_volume(own: &VolumeId, other: &str) -> BackupError {
    let own = hex(own);
    BackupError(format!(
        "expected the device of volume {own}, found volume {other} on it; this is not its backup"
    ))
}

fn hex(id: &VolumeId) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

/// Writes the superblock of the backup to a device that has none.
pub fn restore_superblock(io: &mut SyncIo<'_>, backup: &Backup) -> Result<(), BackupError> {
    let generation = backup.superblock.generation + 1;
    let superblock = Superblock { generation, ..backup.superblock.clone() };
    data_devices::join(io, &superblock).map_err(|error| failed(&error))?;
    // The owner says that these are its devices: nothing is left that could tell.
    generations::begin(io, &superblock).map_err(|error| failed(&error))?;
    write_superblocks(io, &superblock).map_err(|error| failed(&error))
}
