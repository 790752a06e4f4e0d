//! Memory that a chain may take: for copies of its tail, and for its map.

use super::ServeArgs;
use crate::units::ByteSize;
use nearhead_engine::Config;
use nearhead_format::Superblock;
use std::ops::RangeInclusive;

/// More memory than any machine has for a read cache, and less than is worth the while.
const READ_CACHE: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// The same of a map.
const MAP_MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
/// Without a word: all of the map of a chain of 180 GB or so, and hot pages of a larger one.
const MAP_MEMORY_BYTES: u64 = 1 << 30;

impl ServeArgs {
    pub(super) fn configure_read_cache(
        &self,
        superblock: &Superblock,
        preset: &str,
        config: &mut Config,
    ) -> Result<(), String> {
        let bytes = self.read_cache.map_or(0, |ByteSize(bytes)| bytes);
        let flag = match (bytes, &self.read_cache_device) {
            (_, Some(_)) => "--read-cache-device",
            (1.., None) => "--read-cache",
            (0, None) => return Ok(()),
        };
        if !superblock.layout.is_chain() {
            return Err(format!(
                "{flag}: expected a chain (preset gecko), whose tail it is for, found preset {preset}; leave {flag} out"
            ));
        }
        if bytes > 0 && !READ_CACHE.contains(&bytes) {
            return Err(format!(
                "--read-cache: expected 0, or 1 MiB to 1 TiB, found {bytes} bytes; take what the machine can spare, such as 2GiB"
            ));
        }
        config.read_cache_bytes = bytes;
        Ok(())
    }

    pub(super) fn configure_map_memory(
        &self,
        superblock: &Superblock,
        preset: &str,
        config: &mut Config,
    ) -> Result<(), String> {
        let is_chain = superblock.layout.is_chain();
        let Some(ByteSize(bytes)) = self.map_memory else {
            config.map_memory_bytes = if is_chain { MAP_MEMORY_BYTES } else { u64::MAX };
            return Ok(());
        };
        if !is_chain {
            return Err(format!(
                "--map-memory: expected a chain (preset gecko), whose map is as large as what it holds, found preset {preset}; leave \
                 --map-memory out"
            ));
        }
        if !MAP_MEMORY.contains(&bytes) {
            return Err(format!(
                "--map-memory: expected 1 MiB to 1 TiB, found {bytes} bytes; 1GiB is enough for many terabytes"
            ));
        }
        config.map_memory_bytes = bytes;
        Ok(())
    }
}
