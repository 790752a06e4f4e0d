//! A file or device for the read cache, beside the devices of a volume.
//!
//! A file that is not there is made if a size was said; one that is there must be a read cache already, or hold nothing. A size that is
//! not its own is an error, not a reason to change it.

use super::{Access, DiskArgs, Target, open_real};
use nearhead_disk::Disk as _;
use nearhead_settings::CacheDevice;
use nearhead_volume::Lanes;
use nearhead_volume::cache_device::{CACHE_DEVICE_BYTES_MIN, CacheDeviceError, claim};

impl Target {
    /// The same with a read cache on this file or device.
    pub fn with_read_cache(self, device: &CacheDevice, args: &DiskArgs) -> Result<Self, String> {
        let CacheDevice { path, size } = device;
        let shown = path.display();
        if !path.exists() {
            let Some(size) = size else {
                return Err(format!(
                    "--read-cache-device {shown}: expected a file or device that is there, found none; add a size to have \
                     the file made, such as {shown}:8GiB"
                ));
            };
            if size.0 < CACHE_DEVICE_BYTES_MIN {
                let (device, bytes) = (shown.to_string(), size.0);
                return Err(CacheDeviceError::Small { device, bytes }.to_string());
            }
            nearhead_uring::create_image(path, size.0).map_err(|error| error.to_string())?;
        }
        // Flash, as is said; no head has to be looked for.
        let args = DiskArgs { rotational: Some(false), ..args.clone() };
        let (disk, notes) = open_real(path, Access::Write, &args)
            .map_err(|error| format!("--read-cache-device {shown}: {error}"))?;
        let bytes = disk.properties().capacity_bytes;
        if let Some(size) = size.filter(|size| size.0 != bytes) {
            return Err(format!(
                "--read-cache-device {shown}: expected the {} bytes that were said, found {bytes}; leave the size out to use \
                 it as it is, or remove it to have it made anew",
                size.0
            ));
        }
        let mut alone = Lanes::from(disk);
        claim(&mut alone.in_real_time(self.start)).map_err(|error| error.to_string())?;
        let (disk, _) = alone.into_parts();
        let lanes = self.lanes.with_cache(disk).map_err(|error| error.to_string())?;
        let told = notes.into_iter().map(|note| format!("read cache: {note}"));
        let notes = self.notes.into_iter().chain(told).collect();
        Ok(Self { lanes, notes, ..self })
    }
}
