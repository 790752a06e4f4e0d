//! The one gate that every command passes: on the disk, aligned, within the limits.

use crate::{Command, DiskError, DiskErrorKind, Payload, Properties, total_len};

/// Checks that `command` lies on the disk, aligned, and within its limits.
pub fn check_command(properties: &Properties, command: &Command) -> Result<(), DiskError> {
    let invalid = |problem: String| DiskError {
        kind: DiskErrorKind::Invalid,
        detail: format!("{}: {problem}", properties.name),
    };
    let sector = u64::from(properties.sector_bytes);
    let (what, offset, len, limited) = match command {
        Command::Read { offset, len } => ("read", *offset, u64::from(*len), true),
        Command::Write { offset, parts, .. } => {
            let uneven = |part: &&Payload| !(part.len() as u64).is_multiple_of(sector);
            if let Some(part) = parts.iter().find(uneven) {
                let found = part.len();
                return Err(invalid(format!(
                    "a part of the write at byte {offset} has {found} bytes, expected whole \
                     sectors of {sector}"
                )));
            }
            ("write", *offset, total_len(parts) as u64, true)
        }
        Command::WriteZeroes { offset, len, .. } => ("zeroing", *offset, *len, false),
        Command::Trim { offset, len } => ("trim", *offset, *len, false),
        Command::Flush => return Ok(()),
    };
    if len == 0 || !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) {
        return Err(invalid(format!(
            "{what} of {len} bytes at byte {offset}: expected whole sectors of {sector} bytes"
        )));
    }
    let capacity = properties.capacity_bytes;
    if offset.checked_add(len).is_none_or(|end| end > capacity) {
        return Err(invalid(format!(
            "{what} of {len} bytes at byte {offset} reaches past the end at {capacity}"
        )));
    }
    let most = u64::from(properties.transfer_bytes_max);
    if limited && len > most {
        return Err(invalid(format!(
            "{what} of {len} bytes at byte {offset}: at most {most} at once"
        )));
    }
    Ok(())
}
