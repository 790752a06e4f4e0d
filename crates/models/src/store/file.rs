//! A store in a sparse file, which may be far larger than the file system it lives on.
//!
//! Blocks that were never written take no room. Running out of room is reported as such
//! ([`DiskErrorKind::OutOfSpace`]), with the file and the place, and changes nothing already there.
//! The file is owned by one store at a time (an advisory lock), and bytes are handed to the kernel
//! at once, so they outlive this process.

use super::Store;
use nearhead_disk::{DiskError, DiskErrorKind, Run};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Zeros written where holes cannot be punched, at a time.
const ZEROS_BYTES: usize = 64 * 1024;

/// Content in a sparse file.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    path: PathBuf,
}

impl FileStore {
    /// Opens `path`, creating it if absent and growing it to `capacity_bytes` if it is shorter and holds no data.
    ///
    /// Errors say which file, and when another process has it open. A shorter file with data belongs to something else and is
    /// left as it is. A failure leaves no new file behind.
    pub fn open(path: &Path, capacity_bytes: u64) -> Result<Self, DiskError> {
        let fail = |what: &str, error: &io::Error| DiskError {
            kind: kind_of(error),
            detail: format!("{what} {}: {error}", path.display()),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, is_new) = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = options.clone().create_new(true).open(path);
                (made.map_err(|error| fail("cannot create", &error))?, true)
            }
            opened => (opened.map_err(|error| fail("cannot open", &error))?, false),
        };
        let opened = Self::own(&file, path, capacity_bytes);
        if opened.is_err() && is_new {
            // A failure to remove it changes nothing: the next attempt finds it empty.
            let _ = std::fs::remove_file(path);
        }
        opened.map(|()| Self { file, path: path.to_owned() })
    }

    /// Locks the file and gives it its size.
    fn own(file: &File, path: &Path, capacity_bytes: u64) -> Result<(), DiskError> {
        let fail = |what: &str, error: &io::Error| DiskError {
            kind: kind_of(error),
            detail: format!("{what} {}: {error}", path.display()),
        };
        rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            fail("another process uses, or cannot lock,", &io::Error::from(error))
        })?;
        let found = file.metadata().map_err(|error| fail("cannot stat", &error))?.len();
        if found >= capacity_bytes {
            return Ok(());
        }
        if rustix::fs::seek(file, SeekFrom::Data(0)).is_ok() {
            let path = path.display();
            let detail = format!(
                "{path}: expected the file of this emulated disk, {capacity_bytes} bytes, or an empty one, found {found} bytes \
                 with data; name another file, or remove this one if nothing in it is needed"
            );
            return Err(DiskError { kind: DiskErrorKind::Invalid, detail });
        }
        file.set_len(capacity_bytes).map_err(|error| {
            if !matches!(error.kind(), io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput) {
                return fail("cannot extend", &error);
            }
            let path = path.display();
            let detail = format!(
                "cannot make a file of {capacity_bytes} bytes at {path}, the size of this emulated disk: found that its file \
                 system takes no file of that size; put it elsewhere, or choose a smaller profile"
            );
            DiskError { kind: DiskErrorKind::Invalid, detail }
        })
    }

    fn failed(&self, what: &str, offset: u64, len: u64, error: &io::Error) -> DiskError {
        let path = self.path.display();
        DiskError {
            kind: kind_of(error),
            detail: format!("{what} {len} bytes at byte {offset} of {path}: {error}"),
        }
    }
}

fn kind_of(error: &io::Error) -> DiskErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskErrorKind::OutOfSpace,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            DiskErrorKind::ReadOnly
        }
        _ => DiskErrorKind::Io,
    }
}

impl Store for FileStore {
    fn run_at(&self, offset: u64) -> Run {
        // Bytes are read and written at their offsets: nobody minds where the file's own stands.
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => Run { len: data - offset, zero: true },
            Ok(_) => match rustix::fs::seek(&self.file, SeekFrom::Hole(offset)) {
                Ok(hole) if hole > offset => Run { len: hole - offset, zero: false },
                _ => Run::UNKNOWN,
            },
            // No data from there on, if the offset is in the file.
            Err(rustix::io::Errno::NXIO) => {
                let end = self.file.metadata().map_or(0, |metadata| metadata.len());
                let len = end.saturating_sub(offset);
                if len > 0 { Run { len, zero: true } } else { Run::UNKNOWN }
            }
            Err(_) => Run::UNKNOWN,
        }
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        let len = target.len() as u64;
        self.file
            .read_exact_at(target, offset)
            .map_err(|error| self.failed("cannot read", offset, len, &error))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|error| self.failed("cannot write", offset, bytes.len() as u64, &error))
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), DiskError> {
        if len == 0 {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if rustix::fs::fallocate(&self.file, punch, offset, len).is_ok() {
            return Ok(());
        }
        // Not every file system can punch holes; writing zeros always means the same.
        let zeros = vec![0; ZEROS_BYTES];
        let mut done = 0;
        while done < len {
            let step = (len - done).min(ZEROS_BYTES as u64) as usize;
            self.write(offset + done, &zeros[..step])?;
            done += step as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("nearhead-filestore-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_large_disk_takes_only_the_room_of_what_was_written() {
        let path = scratch("sparse");
        let mut store = FileStore::open(&path, 4 << 40).unwrap();
        store.write(3 << 40, b"near").unwrap();
        let mut bytes = [9; 8];
        store.read((3 << 40) - 2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0near\0\0");
        store.zero(3 << 40, 4096).unwrap();
        store.read((3 << 40) - 2, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8]);
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_shorter_file_with_data_is_left_as_it_is() {
        let path = scratch("foreign");
        std::fs::write(&path, b"a letter").unwrap();
        let refused = FileStore::open(&path, 1 << 20).unwrap_err();
        assert!(refused.detail.contains("found 8 bytes with data"), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), b"a letter");
        std::fs::write(&path, b"").unwrap();
        drop(FileStore::open(&path, 1 << 20).unwrap());
        drop(FileStore::open(&path, 2 << 20).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 2 << 20, "an empty one grows");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_have_its_size_is_not_left_behind() {
        let path = scratch("too-large");
        // No file system of Linux takes a file of 8 EiB less a sector.
        let refused = FileStore::open(&path, i64::MAX as u64 / 512 * 512).unwrap_err();
        assert!(refused.detail.contains("of that size") || refused.kind != DiskErrorKind::Io);
        assert!(path.symlink_metadata().is_err(), "{refused}");
    }

    #[test]
    fn holes_are_known_without_reading_and_what_was_written_is_none() {
        let path = scratch("holes");
        let mut store = FileStore::open(&path, 64 << 20).unwrap();
        assert_eq!(store.run_at(5), Run { len: (64 << 20) - 5, zero: true });
        store.write(8 << 20, &[1; 4096]).unwrap();
        assert_eq!(store.run_at(0), Run { len: 8 << 20, zero: true });
        assert!(!store.run_at(8 << 20).zero && !store.run_at((8 << 20) + 4095).zero);
        let after = (8 << 20) + store.run_at(8 << 20).len;
        assert_eq!(store.run_at(after), Run { len: (64 << 20) - after, zero: true });
        assert_eq!(store.run_at(64 << 20), Run::UNKNOWN, "nothing is said past the end");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn content_outlives_the_store_and_two_stores_cannot_share_a_file() {
        let path = scratch("lock");
        let mut store = FileStore::open(&path, 1 << 20).unwrap();
        store.write(512, b"kept").unwrap();
        let error = FileStore::open(&path, 1 << 20).unwrap_err();
        assert!(error.detail.contains("another process"), "{error}");
        drop(store);
        let mut bytes = [0; 4];
        FileStore::open(&path, 1 << 20).unwrap().read(512, &mut bytes).unwrap();
        assert_eq!(&bytes, b"kept");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_full_file_system_is_told_from_other_failures() {
        let full = io::Error::from(rustix::io::Errno::NOSPC);
        assert_eq!(kind_of(&full), DiskErrorKind::OutOfSpace);
        let broken = io::Error::from(rustix::io::Errno::IO);
        assert_eq!(kind_of(&broken), DiskErrorKind::Io);
    }
}
