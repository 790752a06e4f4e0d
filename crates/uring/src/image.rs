//! New image files: sparse, of a given size, and never over something that exists.

use crate::error::{OpenError, OpenErrorKind};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;

/// Every image is a whole number of these, so that it suits devices with 4 KiB sectors too.
const IMAGE_UNIT_BYTES: u64 = 4096;

/// Creates a sparse image of `bytes` bytes, readable and writable by its owner alone, and makes
/// its existence durable.
///
/// # Errors
/// [`OpenErrorKind::AlreadyExists`] if `path` is there already, whatever it is;
/// [`OpenErrorKind::Size`] if `bytes` is zero, not a multiple of 4096, or more than the file
/// system can address. Nothing is left behind by a failure.
pub fn create_image(path: &Path, bytes: u64) -> Result<(), OpenError> {
    let shown = path.display().to_string();
    if bytes == 0 || !bytes.is_multiple_of(IMAGE_UNIT_BYTES) {
        let detail = format!(
            "cannot create {shown}: expected a size that is a multiple of {IMAGE_UNIT_BYTES} bytes, found {bytes}"
        );
        return Err(OpenError::new(OpenErrorKind::Size, detail));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| OpenError::from_errno("create the image", &shown, errno))?;
    let sized = rustix::fs::ftruncate(&file, bytes)
        .and_then(|()| rustix::fs::fsync(&file))
        .map_err(|errno| {
            let mut error =
                OpenError::from_errno(&format!("make an image of {bytes} bytes at"), &shown, errno);
            if matches!(errno, rustix::io::Errno::FBIG | rustix::io::Errno::INVAL) {
                error.kind = OpenErrorKind::Size;
            }
            error
        })
        .and_then(|()| sync_directory_of(path));
    if sized.is_err() {
        // The file is ours: O_EXCL created it above. A failure to remove it changes nothing.
        let _ = std::fs::remove_file(path);
    }
    sized
}

/// A new name survives a power cut only once its directory does.
fn sync_directory_of(path: &Path) -> Result<(), OpenError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(|error| {
        let detail = format!("cannot make the name of {} durable: {error}", path.display());
        OpenError::new(OpenErrorKind::Io, detail)
    })
}
