//! Memory of the map: bytes for each logged 4 KiB block, at 10 million scattered blocks.

use super::Effort;
use super::engine_alone::{Load, volume};
use super::machine::resident_bytes;
use super::row::{Row, Target};
use nearhead_disk::Payload;
use nearhead_service::{Operation, Service};
use std::path::Path;

/// Large enough that nothing must be checkpointed on the way.
const DISK_BYTES: u64 = 20_000_000_000_000 / 4096 * 4096;
const TARGET: Target = Target::AtMost(24.0);

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let blocks = effort.pick(10_000_000, 100_000);
    let mut volume = volume(DISK_BYTES)?;
    let span_blocks = volume.info().size_bytes / 4096;
    let before = (resident_bytes(), volume.status().map_bytes);
    let mut load = Load::default();
    load.run(&mut volume, blocks, |random| Operation::Write {
        offset: random.below(span_blocks) * 4096,
        data: Payload::Phantom(4096),
        fua: true,
    })?;
    let status = volume.status();
    let resident = resident_bytes().saturating_sub(before.0);
    let per_block = |bytes: u64| bytes as f64 / status.map_entries.max(1) as f64;
    let detail = format!("{} entries at random on 20 TB", status.map_entries);
    Ok(vec![
        Row::new("map_bytes_per_block", TARGET, per_block(status.map_bytes), detail.clone()),
        Row::new(
            "process_bytes_per_block",
            Target::Informative,
            per_block(resident),
            format!("growth of the resident memory; {detail}"),
        ),
    ])
}
