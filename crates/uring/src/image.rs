//! New image files: sparse, of a given size, and never over something that exists.

use crate::error::{OpenError, OpenErrorKind};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Every image is a whole number of these, the smallest sectors there are.
const IMAGE_UNIT_BYTES: u64 = 512;

/// Creates a sparse image of `bytes` bytes, readable and writable by its owner alone, and makes
/// its existence durable.
///
/// # Errors
/// [`OpenErrorKind::AlreadyExists`] if `path` is there already, whatever it is;
/// [`OpenErrorKind::Size`] if `bytes` is zero, not a multiple of 512, or more than the file
/// system can address. Nothing is left behind by a failure.
pub fn create_image(path: &Path, bytes: u64) -> Result<(), OpenError> {
    let shown = path.display().to_string();
    if bytes == 0 || !bytes.is_multiple_of(IMAGE_UNIT_BYTES) {
        let detail = format!(
            "cannot create {shown}: expected a size that is a multiple of {IMAGE_UNIT_BYTES} bytes, as disks are whole \
             sectors, found {bytes}; the next smaller one is {}",
            bytes / IMAGE_UNIT_BYTES * IMAGE_UNIT_BYTES
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
            if matches!(errno, Errno::FBIG | Errno::INVAL) {
                error.kind = OpenErrorKind::Size;
                error.detail = format!(
                    "cannot make an image of {bytes} bytes at {shown}: found that its file system takes no file of that \
                     size; make a smaller image, or put it elsewhere"
                );
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

/// Takes all the space of the image at `path` from its file system now, so that no write finds it gone later. What is
/// in it stays.
///
/// # Errors
/// [`OpenErrorKind::NotADisk`] if it is no regular file; [`OpenErrorKind::Size`] if there is less space than that: then
/// others find as much of it as before.
pub fn preallocate_image(path: &Path) -> Result<(), OpenError> {
    let shown = path.display().to_string();
    let failed = |errno| OpenError::from_errno("take the space of the image", &shown, errno);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let found = rustix::fs::fstat(&file).map_err(failed)?;
    if !FileType::from_raw_mode(found.st_mode).is_file() {
        let detail = format!(
            "cannot take the space of {shown} beforehand: expected an image file, found something else; a device has \
             its space already"
        );
        return Err(OpenError::new(OpenErrorKind::NotADisk, detail));
    }
    let bytes = u64::try_from(found.st_size).unwrap_or(0);
    // Asked to give more than it has, a file system may give all it has before it says so, and take nothing back.
    let fits = if space_missing(path).is_some() { Err(Errno::NOSPC) } else { Ok(()) };
    fits.and_then(|()| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes))
        .and_then(|()| rustix::fs::fsync(&file))
        .map_err(|errno| {
            let mut error = failed(errno);
            if matches!(errno, Errno::NOSPC | Errno::DQUOT) {
                error.kind = OpenErrorKind::Size;
                error.detail = format!(
                    "cannot take the {bytes} bytes of the image {shown}: found too little space on its file system; \
                     free some, or make a smaller image"
                );
            }
            error
        })
}

/// Whether `path` is an image to which nothing was ever written.
pub fn is_empty_image(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|file| is_empty(&file))
}

fn is_empty(file: &OwnedFd) -> bool {
    let found = rustix::fs::fstat(file);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file())
        && rustix::fs::seek(file, SeekFrom::Data(0)) == Err(Errno::NXIO)
}

/// Removes the image at `path` if nothing was ever written to it and nobody has it: one that was made for a volume that came
/// to nothing. Whoever got it meanwhile keeps it, also if they are done with it already.
pub fn remove_empty_image(path: &Path) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    // Held until the name is gone: who opened it before and locks it then finds out that it has none.
    let is_ours = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_ours && is_empty(&file) {
        // If it stays it is in the way of the next attempt, which says so.
        let _ = std::fs::remove_file(path);
    }
}

/// Bytes that the image at `path` may still take from its file system, and those that are free there, if it may take
/// more than there is; `None` for what is no regular file, or cannot be looked at.
pub fn space_missing(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::stat(path).ok()?;
    if !FileType::from_raw_mode(found.st_mode).is_file() {
        return None;
    }
    let taken = u64::try_from(found.st_blocks).ok()?.saturating_mul(512);
    let wanted = u64::try_from(found.st_size).ok()?.saturating_sub(taken);
    let space = rustix::fs::statvfs(path).ok()?;
    // A file system without a size (many by FUSE) does not tell what is free.
    if space.f_blocks == 0 {
        return None;
    }
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    (wanted > free).then_some((wanted, free))
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

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
