//! Zoned disks: what the kernel says of them, and whether a volume may live there.
//!
//! `queue/zoned` and `queue/chunk_sectors` are those of `Documentation/ABI/stable/sysfs-block`. A
//! host-managed disk refuses writes that do not go on where its zone was written up to (ZBC, INCITS
//! 536-2016, 4.3), so it is refused here rather than found out by the first write that fails. A
//! host-aware one takes any write and pays later; its user is told. A drive-managed one looks like
//! any disk, and nobody can tell.

use crate::error::{OpenError, OpenErrorKind};
use crate::sysfs::BlockAttributes;

/// How a disk's zones must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zoned {
    /// No zones, as far as is told.
    No,
    /// Writes in order are faster.
    HostAware,
    /// Writes must be in order.
    HostManaged,
}

/// What the user of the disk should know about its zones; an error if it cannot be used.
pub(crate) fn check(
    attributes: &BlockAttributes,
    shown: &str,
) -> Result<Option<String>, OpenError> {
    let zones = match attributes.zone_bytes() {
        Some(bytes) => format!("zones of {} MiB", bytes >> 20),
        None => "zones".to_owned(),
    };
    match attributes.zoned() {
        Zoned::No => Ok(None),
        Zoned::HostAware => Ok(Some(format!(
            "{shown} is host-aware with {zones}: it takes writes in any order, and slows down once \
             many were out of order; preset mlb keeps such writes near each other"
        ))),
        Zoned::HostManaged => Err(OpenError::new(
            OpenErrorKind::NotADisk,
            format!(
                "cannot use {shown}: expected a disk that takes writes in any order, found a \
                 host-managed one with {zones}; put dm-zoned on it (`dmzadm --format {shown}`, then \
                 `dmzadm --start {shown}`) and use that device, or a file system that supports zones \
                 (btrfs, f2fs) and an image file on it"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A `/sys` of one disk, and of one partition of it, that goes away with the test.
    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str, attributes: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("nh-sys-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            for (attribute, value) in attributes {
                let path = root.join("dev/block/8:0/queue").join(attribute);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{value}\n")).unwrap();
            }
            let partition = root.join("dev/block/8:0/sda1");
            fs::create_dir_all(&partition).unwrap();
            std::os::unix::fs::symlink(partition, root.join("dev/block/8:1")).unwrap();
            Self(root)
        }

        fn check(&self, minor: u32) -> Result<Option<String>, OpenError> {
            check(&BlockAttributes::under(&self.0, 8, minor), "/dev/sda")
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_host_managed_disk_and_its_partitions_are_refused_with_what_to_do() {
        let sys = Sys::new("managed", &[("zoned", "host-managed"), ("chunk_sectors", "524288")]);
        for minor in [0, 1] {
            let error = sys.check(minor).unwrap_err();
            assert_eq!(error.kind, OpenErrorKind::NotADisk);
            for part in ["/dev/sda", "host-managed one with zones of 256 MiB", "dmzadm --format"] {
                assert!(error.detail.contains(part), "{part}: {error}");
            }
        }
    }

    #[test]
    fn a_host_aware_disk_is_used_and_its_user_is_told() {
        let sys = Sys::new("aware", &[("zoned", "host-aware"), ("chunk_sectors", "524288")]);
        let told = sys.check(0).unwrap().unwrap();
        assert!(told.contains("host-aware with zones of 256 MiB"), "{told}");
        let sys = Sys::new("aware-only", &[("zoned", "host-aware"), ("chunk_sectors", "0")]);
        let told = sys.check(0).unwrap().unwrap();
        assert!(told.contains("host-aware with zones:"), "nothing is told of their size: {told}");
    }

    #[test]
    fn a_disk_without_zones_and_one_that_tells_nothing_are_used_silently() {
        // Without zones, chunk_sectors is the stripe of an array.
        let plain = Sys::new("plain", &[("zoned", "none"), ("chunk_sectors", "128")]);
        assert_eq!(plain.check(0), Ok(None));
        let silent = Sys::new("silent", &[("rotational", "1")]);
        assert_eq!(silent.check(0), Ok(None));
        assert_eq!(silent.check(7), Ok(None), "no such device");
    }
}
