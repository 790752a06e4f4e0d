//! Which commands a disk accepts at all: aligned, inside, within limits, with real bytes.

use crate::target::Target;
use nearhead_disk::{Command, DiskError, DiskErrorKind, Payload, total_len};

/// Refuses what changes a file of which written pages were lost.
fn refuse_lost(target: &Target) -> Result<(), DiskError> {
    match target.lost() {
        Some(detail) => Err(DiskError { kind: DiskErrorKind::Gone, detail: detail.to_owned() }),
        None => Ok(()),
    }
}

/// The one gate that every command passes before it reaches the kernel.
pub(crate) fn check(command: &Command, target: &Target) -> Result<(), DiskError> {
    let (name, offset, len, writes, limited) = match command {
        Command::Read { offset, len } => ("read", *offset, u64::from(*len), false, true),
        Command::Write { offset, parts, .. } => {
            ("write", *offset, total_len(parts) as u64, true, true)
        }
        Command::WriteZeroes { offset, len, .. } => ("write of zeros", *offset, *len, true, false),
        Command::Trim { offset, len } => ("trim", *offset, *len, true, false),
        Command::Flush => return refuse_lost(target),
    };
    if writes {
        refuse_lost(target)?;
    }
    let properties = &target.properties;
    let sector = u64::from(properties.sector_bytes);
    let refuse = |kind, problem: String| {
        let disk = &properties.name;
        let detail =
            format!("{name} of {len} bytes at offset {offset} of {disk} refused: {problem}");
        Err(DiskError { kind, detail })
    };
    let invalid = DiskErrorKind::Invalid;
    if writes && target.read_only {
        return refuse(DiskErrorKind::ReadOnly, "the disk was opened read-only".to_owned());
    }
    if !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) {
        return refuse(invalid, format!("expected multiples of the sector of {sector} bytes"));
    }
    let capacity = properties.capacity_bytes;
    if offset.checked_add(len).is_none_or(|end| end > capacity) {
        return refuse(invalid, format!("expected an end within the {capacity} bytes of the disk"));
    }
    let limit = u64::from(properties.transfer_bytes_max);
    if limited && len > limit {
        return refuse(invalid, format!("expected at most {limit} bytes per transfer"));
    }
    if let Command::Write { parts, .. } = command {
        for part in parts {
            if matches!(part, Payload::Phantom(_)) {
                let problem =
                    "expected bytes, found a data-less payload, which only a model can write";
                return refuse(invalid, problem.to_owned());
            }
            if !(part.len() as u64).is_multiple_of(sector) {
                let found = part.len();
                let problem = format!(
                    "expected parts of whole sectors of {sector} bytes, found one of {found}"
                );
                return refuse(invalid, problem);
            }
        }
    }
    Ok(())
}
