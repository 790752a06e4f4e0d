//! Recognisable sectors: each says which write it came from and where it belongs, so that a wrong
//! value names its origin, and a sector that is torn inside or misplaced is told at once.

use nearhead_disk::{BufferMut, Payload};

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// The bytes of `sector` as write `version` leaves them; version 0 is zeros.
pub fn sector_content(sector: u64, version: u64) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version > 0 {
        for (at, chunk) in bytes.chunks_exact_mut(16).enumerate() {
            chunk[..8].copy_from_slice(&version.to_le_bytes());
            chunk[8..].copy_from_slice(&(sector * 1000 + at as u64).to_le_bytes());
        }
    }
    bytes
}

/// `sectors` sectors from `start`, all of write `version`.
pub fn payload(start: u64, sectors: u64, version: u64) -> Payload {
    let mut buffer = BufferMut::zeroed((sectors * SECTOR) as usize);
    for (at, bytes) in buffer.chunks_exact_mut(512).enumerate() {
        bytes.copy_from_slice(&sector_content(start + at as u64, version));
    }
    Payload::Bytes(buffer.freeze())
}

/// The versions in what a read of sectors from `start` returned, or what is wrong with it.
pub fn versions(start: u64, parts: &[Payload]) -> Result<Vec<u64>, String> {
    let mut versions = Vec::new();
    for part in parts {
        let mut bytes = vec![0; part.len()];
        part.copy_to(&mut bytes);
        for sector in bytes.chunks(512) {
            let at = start + versions.len() as u64;
            if *sector == [0; 512] {
                versions.push(0);
                continue;
            }
            let mut version = [0; 8];
            version.copy_from_slice(&sector[..8]);
            let version = u64::from_le_bytes(version);
            if *sector != sector_content(at, version) {
                return Err(format!(
                    "sector {at} is torn inside or misplaced: {:02x?}",
                    &sector[..32]
                ));
            }
            versions.push(version);
        }
    }
    Ok(versions)
}
