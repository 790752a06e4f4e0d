//! Which bytes of a volume a file has that lies on a file system of the kernel's, on the volume as a block device.
//!
//! A block device knows nothing of files, so this is a look at one moment, from above: the file's extents, the partition or the offset of a loop device
//! that they count from. Nothing is believed that cannot be checked: the device must be an NBD or loop device of the volume's size.

use nearhead_uring::{FileExtents, file_extents};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of a sector in `/sys`, whatever the device has.
const SECTOR: u64 = 512;
/// A loop device leaves the end of a file out that is no whole sector of its own.
const END_BYTES_MAX: u64 = 4096;

/// Where a file lies on the volume.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) ranges: Vec<Range<u64>>,
    /// Parts that are in no blocks of their own.
    pub(super) without_place: usize,
    /// The device.
    pub(super) device: String,
}

/// Of the file at `path`, on a volume of `volume_bytes`.
pub(super) fn placed(path: &Path, volume_bytes: u64) -> Result<Placed, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("hint --file {shown}: {error}");
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(format!("hint --file {shown}: expected a regular file"));
    }
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let under = Under::of(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
        .map_err(|problem| format!("hint --file {shown}: {problem}"))?;
    let end = under.first_byte + under.device_bytes;
    if end > volume_bytes || volume_bytes - end > END_BYTES_MAX {
        return Err(format!(
            "hint --file {shown}: expected it on a device of the volume's {volume_bytes} bytes, found it on {} of {end}: is it another one's?",
            under.name
        ));
    }
    let FileExtents { ranges, without_place } = file_extents(&file).map_err(failed)?;
    let start = under.first_byte + under.partition_start;
    let ranges: Vec<_> =
        ranges.iter().map(|range| range.start + start..range.end + start).collect();
    if ranges.iter().any(|range| range.end > volume_bytes) {
        return Err(format!("hint --file {shown}: it lies behind the end of the volume"));
    }
    Ok(Placed { ranges, without_place, device: under.name })
}

/// What is under a file system.
#[derive(Debug, PartialEq, Eq)]
struct Under {
    /// Of the whole device.
    name: String,
    device_bytes: u64,
    /// Of the volume, where the device begins.
    first_byte: u64,
    /// Of the device, where the file system's partition begins.
    partition_start: u64,
}

impl Under {
    /// By its folder in `/sys`.
    fn of(folder: &Path) -> Result<Self, String> {
        let none = "expected a file on ext4 or xfs on a block device, found a file system on none (btrfs, tmpfs, FUSE, a network)";
        let mut folder: PathBuf = folder.canonicalize().map_err(|_| none.to_owned())?;
        let number = |folder: &Path, name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let mut partition_start = 0;
        if folder.join("partition").exists() {
            partition_start = number(&folder, "start").unwrap_or(0) * SECTOR;
            folder.pop();
        }
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let is_loop = folder.join("loop/backing_file").exists();
        if !is_loop && !name.starts_with("nbd") {
            return Err(format!(
                "expected it on an NBD device or a loop device over the volume, found it on {name}; what lies between cannot be seen through"
            ));
        }
        Ok(Self {
            device_bytes: number(&folder, "size").unwrap_or(0) * SECTOR,
            first_byte: number(&folder, "loop/offset").unwrap_or(0),
            partition_start,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_a_loop_device_begins_where_both_say() {
        let folder = std::env::temp_dir().join(format!("nearhead-hint-{}", std::process::id()));
        let (whole, part) = (folder.join("loop7"), folder.join("loop7/loop7p1"));
        std::fs::create_dir_all(whole.join("loop")).unwrap();
        std::fs::create_dir_all(&part).unwrap();
        let put = |path: PathBuf, text: &str| std::fs::write(path, text).unwrap();
        put(whole.join("size"), "2048\n");
        put(whole.join("loop/backing_file"), "/run/volume/disk\n");
        put(whole.join("loop/offset"), "4096\n");
        put(part.join("partition"), "1\n");
        put(part.join("start"), "64\n");
        let expected = Under {
            name: "loop7".to_owned(),
            device_bytes: 1 << 20,
            first_byte: 4096,
            partition_start: 32768,
        };
        assert_eq!(Under::of(&part), Ok(expected));
        put(whole.join("size"), "0\n");
        std::fs::remove_dir_all(whole.join("loop")).unwrap();
        assert!(Under::of(&whole).unwrap_err().contains("found it on loop7"));
        assert!(Under::of(&folder.join("nosuch")).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
