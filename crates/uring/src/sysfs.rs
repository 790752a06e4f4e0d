//! What `/sys` tells about the block device that is, or lies under, a disk.
//!
//! Attributes are those of `Documentation/ABI/stable/sysfs-block` in the Linux sources. Every one
//! may be missing (containers hide `/sys`); a missing one is `None`, never a guess.

use crate::zoned::Zoned;
use std::fs;
use std::path::{Path, PathBuf};

/// The I/O scheduler of the block device with these numbers, and the others it could have, as
/// `queue/scheduler` lists them (`none [mq-deadline] bfq`). `None` where the kernel tells nothing:
/// file systems without a device of their own, containers without `/sys`.
pub fn scheduler_of(major: u32, minor: u32) -> Option<(String, Vec<String>)> {
    scheduler_in(&BlockAttributes::of(major, minor).text("queue/scheduler")?)
}

/// Gives the block device with these numbers another scheduler, one of those it could have.
///
/// # Errors
/// Those of writing its attribute: without the privilege, or where there is none.
pub fn set_scheduler_of(major: u32, minor: u32, name: &str) -> std::io::Result<()> {
    let attributes = BlockAttributes::of(major, minor);
    let directory = attributes.directory.ok_or(std::io::ErrorKind::NotFound)?;
    fs::write(directory.join("queue/scheduler"), name)
}

fn scheduler_in(list: &str) -> Option<(String, Vec<String>)> {
    let names = list.split_whitespace();
    let bare = |name: &str| name.trim_matches(['[', ']']).to_owned();
    let current = names.clone().find(|name| name.starts_with('[')).map(bare)?;
    let others = names.filter(|name| !name.starts_with('[')).map(bare).collect();
    Some((current, others))
}

/// The devices that share bytes with a block device.
pub(crate) struct Kin {
    /// The device itself.
    own: u64,
    /// The whole device, of a partition; else the device itself.
    pub(crate) whole: u64,
    /// The partitions, of a whole device.
    partitions: Vec<u64>,
    /// Devices that it is made of.
    pub(crate) slaves: Vec<u64>,
    /// Names of devices that are made of it.
    pub(crate) holders: Vec<String>,
}

impl Kin {
    /// Of the device with this number; of one that `/sys` does not know, only itself.
    pub(crate) fn of(number: u64) -> Self {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let link = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let mut kin = Self {
            own: number,
            whole: number,
            partitions: Vec::new(),
            slaves: Vec::new(),
            holders: Vec::new(),
        };
        let Ok(directory) = fs::canonicalize(link) else { return kin };
        if directory.join("partition").exists() {
            kin.whole = directory.parent().and_then(number_at).unwrap_or(number);
        }
        let is_partition = |path: &PathBuf| path.join("partition").exists();
        let parts = entries(&directory).into_iter().filter(is_partition);
        kin.partitions = parts.filter_map(|path| number_at(&path)).collect();
        let slaves = entries(&directory.join("slaves")).into_iter();
        kin.slaves = slaves.filter_map(|path| number_at(&path)).collect();
        let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
        kin.holders = entries(&directory.join("holders")).into_iter().filter_map(name).collect();
        kin
    }

    /// The numbers of all devices with a byte in common: itself, its partitions, the whole.
    pub(crate) fn sharing_bytes(&self) -> Vec<u64> {
        let mut all = vec![self.own];
        all.extend(Some(self.whole).filter(|whole| *whole != self.own));
        all.extend(&self.partitions);
        all
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| entry.path()).collect()
}

/// The number of the device whose directory this is.
fn number_at(directory: &Path) -> Option<u64> {
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// The directory of one whole block device (a partition's attributes are its parent's).
pub(crate) struct BlockAttributes {
    directory: Option<PathBuf>,
}

impl BlockAttributes {
    /// The attributes of the device with these numbers.
    pub(crate) fn of(major: u32, minor: u32) -> Self {
        Self::under(Path::new("/sys"), major, minor)
    }

    /// The same, with `/sys` at `root`.
    pub(crate) fn under(root: &Path, major: u32, minor: u32) -> Self {
        let link = root.join(format!("dev/block/{major}:{minor}"));
        let directory = fs::canonicalize(link).ok().and_then(|directory| {
            if directory.join("queue").is_dir() {
                Some(directory)
            } else {
                directory.parent().filter(|parent| parent.join("queue").is_dir()).map(PathBuf::from)
            }
        });
        Self { directory }
    }

    fn text(&self, attribute: &str) -> Option<String> {
        let path = self.directory.as_ref()?.join(attribute);
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }

    fn number(&self, attribute: &str) -> Option<u64> {
        self.text(attribute)?.parse().ok()
    }

    /// Whether the kernel takes it for a mechanical disk, where it can know.
    pub(crate) fn rotational(&self) -> Option<bool> {
        let told = self.number("queue/rotational").map(|value| value != 0);
        told.filter(|_| self.knows_rotation())
    }

    /// Not what a virtio disk says: its configuration (virtio 1.2, section 5.2.4) has no word for it, so that all
    /// of them rotate by default.
    pub(crate) fn knows_rotation(&self) -> bool {
        let driver = self.directory.as_ref().map(|directory| directory.join("device/driver"));
        let name = driver.and_then(|driver| fs::canonicalize(driver).ok());
        name.is_none_or(|name| !name.ends_with("virtio_blk"))
    }

    /// Bytes the medium rewrites as one.
    pub(crate) fn physical_block_bytes(&self) -> Option<u32> {
        self.number("queue/physical_block_size").and_then(|value| value.try_into().ok())
    }

    /// Whether completed writes wait in a volatile cache.
    pub(crate) fn write_back_cache(&self) -> Option<bool> {
        self.text("queue/write_cache").map(|mode| mode != "write through")
    }

    /// Whether the device takes discards.
    pub(crate) fn discards(&self) -> bool {
        self.number("queue/discard_max_bytes").is_some_and(|bytes| bytes > 0)
    }

    /// Whether the device zeroes ranges without being sent the zeros.
    pub(crate) fn writes_zeroes(&self) -> bool {
        self.number("queue/write_zeroes_max_bytes").is_some_and(|bytes| bytes > 0)
    }

    /// How zones must be written. What is not told counts as no zones, as on kernels without them.
    pub(crate) fn zoned(&self) -> Zoned {
        match self.text("queue/zoned").as_deref() {
            Some("host-aware") => Zoned::HostAware,
            Some("host-managed") => Zoned::HostManaged,
            _ => Zoned::No,
        }
    }

    /// Bytes of a zone, of a disk that has zones.
    pub(crate) fn zone_bytes(&self) -> Option<u64> {
        let sectors = self.number("queue/chunk_sectors").filter(|sectors| *sectors > 0)?;
        sectors.checked_mul(512)
    }

    /// Revolutions per minute that a SCSI or ATA disk states in its block device characteristics
    /// page (SBC-4 section 6.6.2: page B1h, bytes 4 and 5; 0 not reported, 1 no rotation).
    pub(crate) fn revolutions_per_minute(&self) -> Option<u32> {
        let page = fs::read(self.directory.as_ref()?.join("device/vpd_pgb1")).ok()?;
        rotation_rate_in(&page)
    }
}

fn rotation_rate_in(page: &[u8]) -> Option<u32> {
    let rate = u16::from_be_bytes(page.get(4..6)?.try_into().ok()?);
    // Values from 0002h to 0400h and FFFFh are reserved.
    (0x0401..=0xfffe).contains(&rate).then_some(u32::from(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_sysfs_tells_nothing() {
        let nothing = BlockAttributes::of(4095, 99_999);
        assert_eq!(nothing.rotational(), None);
        assert_eq!(nothing.write_back_cache(), None);
        assert!(!nothing.discards());
    }

    #[test]
    fn a_cache_is_volatile_unless_the_kernel_says_that_writes_go_through_it() {
        let root = std::env::temp_dir().join(format!("nearhead-sysfs-{}", std::process::id()));
        let queue = root.join("dev/block/7:0/queue");
        fs::create_dir_all(&queue).unwrap();
        for (told, is_volatile) in
            [("write back\n", true), ("write through\n", false), ("something new\n", true)]
        {
            fs::write(queue.join("write_cache"), told).unwrap();
            let found = BlockAttributes::under(&root, 7, 0).write_back_cache();
            assert_eq!(found, Some(is_volatile), "{told:?}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_a_device_can_do_is_what_its_numbers_say() {
        let root = std::env::temp_dir().join(format!("nearhead-sysfs-can-{}", std::process::id()));
        let device = root.join("dev/block/8:0");
        fs::create_dir_all(device.join("queue")).unwrap();
        fs::create_dir_all(device.join("device")).unwrap();
        let found = || BlockAttributes::under(&root, 8, 0);
        let tell = |name: &str, bytes: &[u8]| fs::write(device.join(name), bytes).unwrap();
        assert!(!found().discards() && !found().writes_zeroes(), "nothing is told");
        assert_eq!(found().physical_block_bytes(), None);
        assert_eq!(found().revolutions_per_minute(), None);
        for (text, can) in [("0\n", false), ("512\n", true), ("4294966784\n", true), ("?\n", false)]
        {
            tell("queue/discard_max_bytes", text.as_bytes());
            assert_eq!(found().discards(), can, "{text}");
            tell("queue/write_zeroes_max_bytes", text.as_bytes());
            assert_eq!(found().writes_zeroes(), can, "{text}");
        }
        tell("queue/physical_block_size", b"4096\n");
        assert_eq!(found().physical_block_bytes(), Some(4096));
        tell("device/vpd_pgb1", &[0, 0xb1, 0, 0x3c, 0x1c, 0x20]);
        assert_eq!(found().revolutions_per_minute(), Some(7200));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_virtio_disk_cannot_tell_whether_it_rotates() {
        let root =
            std::env::temp_dir().join(format!("nearhead-sysfs-virtio-{}", std::process::id()));
        for (driver, told) in [("sd", Some(true)), ("virtio_blk", None)] {
            fs::create_dir_all(root.join("disk/queue")).unwrap();
            fs::create_dir_all(root.join("disk/device")).unwrap();
            fs::create_dir_all(root.join("dev/block")).unwrap();
            fs::create_dir_all(root.join(driver)).unwrap();
            fs::write(root.join("disk/queue/rotational"), "1\n").unwrap();
            let link = |to: PathBuf, from: &str| std::os::unix::fs::symlink(to, root.join(from));
            link(root.join("disk"), "dev/block/9:1").unwrap();
            link(root.join(driver), "disk/device/driver").unwrap();
            assert_eq!(BlockAttributes::under(&root, 9, 1).rotational(), told, "{driver}");
            fs::remove_dir_all(&root).unwrap();
        }
    }

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        let found = scheduler_in("none [mq-deadline] kyber bfq").unwrap();
        assert_eq!(found.0, "mq-deadline");
        assert_eq!(found.1, ["none", "kyber", "bfq"]);
        assert_eq!(scheduler_in("none"), None);
    }

    #[test]
    fn the_rotation_rate_is_read_from_the_characteristics_page() {
        assert_eq!(rotation_rate_in(&[0, 0xb1, 0, 0x3c, 0x1c, 0x20]), Some(7200));
        assert_eq!(rotation_rate_in(&[0, 0xb1, 0, 0x3c, 0, 1]), None, "1 means no rotation");
        assert_eq!(rotation_rate_in(&[0, 0xb1, 0]), None, "a page cut short");
    }
}
