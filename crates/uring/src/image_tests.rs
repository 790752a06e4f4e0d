//! The laws of new image files, on whatever file system the temporary folder is.

use super::*;
use std::path::PathBuf;

/// Gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = {
            use std::sync::atomic::{AtomicU32, Ordering};
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("nearhead-image-{}-{number}", std::process::id());
            std::env::temp_dir().join(name)
        };
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn an_image_whose_space_is_taken_misses_none_and_a_huge_one_does() {
    let folder = Folder::new();
    let image = folder.0.join("a.img");
    create_image(&image, 1 << 20).unwrap();
    preallocate_image(&image).unwrap();
    assert!(std::fs::metadata(&image).unwrap().len() == 1 << 20);
    assert_eq!(space_missing(&image), None);
    let huge = folder.0.join("huge.img");
    // 8 TiB: more than any machine that runs tests has free, within what its file systems take.
    if create_image(&huge, 8 << 40).is_err() {
        return println!("skipped: the file system takes no sparse file of 8 TiB");
    }
    let (wanted, free) = space_missing(&huge).unwrap();
    assert!(wanted > 7 << 40 && free < wanted);
    let error = preallocate_image(&huge).unwrap_err();
    assert!(error.detail.contains("huge.img"), "{error}");
    let taken = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&huge).unwrap());
    assert_eq!((error.kind, taken), (OpenErrorKind::Size, 0), "what others need is left to them");
}

#[test]
fn an_image_that_somebody_has_or_wrote_to_is_never_removed() {
    let folder = Folder::new();
    let path = folder.0.join("left.img");
    create_image(&path, 1 << 20).unwrap();
    let other = File::options().read(true).write(true).open(&path).unwrap();
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    remove_empty_image(&path);
    assert!(path.exists(), "somebody has it");
    std::os::unix::fs::FileExt::write_all_at(&other, b"theirs", 0).unwrap();
    drop(other);
    remove_empty_image(&path);
    assert!(path.exists(), "somebody wrote to it, and left");
    std::fs::remove_file(&path).unwrap();
    create_image(&path, 1 << 20).unwrap();
    remove_empty_image(&path);
    assert!(!path.exists());
    remove_empty_image(&folder.0);
    assert!(folder.0.exists());
}

#[test]
fn what_is_no_image_is_told_so() {
    let error = preallocate_image(Path::new("/dev/null")).unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::NotADisk, "{error}");
    assert_eq!(space_missing(Path::new("/dev/null")), None);
    assert!(!is_empty_image(Path::new("/dev/null")));
    assert!(!is_empty_image(Path::new("/nowhere/at/all.img")));
}

#[test]
fn an_image_is_empty_until_something_is_written_to_it() {
    let folder = Folder::new();
    let path = folder.0.join("a.img");
    create_image(&path, 1 << 20).unwrap();
    assert!(is_empty_image(&path));
    let file = File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", (1 << 20) - 1).unwrap();
    assert!(!is_empty_image(&path));
}

/// Opened as a file it would wait for whoever opens its other end.
#[test]
fn nobody_waits_for_the_other_end_of_a_pipe_that_is_taken_for_an_image() {
    let folder = Folder::new();
    let path = folder.0.join("pipe");
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
    assert!(!is_empty_image(&path));
    remove_empty_image(&path);
    assert!(path.exists());
    assert_eq!(preallocate_image(&path).unwrap_err().kind, OpenErrorKind::NotADisk);
    assert_eq!(space_missing(&path), None);
}

#[test]
fn an_image_is_of_the_size_asked_for_and_its_owners_alone() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let path = folder.0.join("a.img");
    create_image(&path, 1536).unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.len(), found.mode() & 0o777), (1536, 0o600));
    let error = create_image(&path, 4096).unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::AlreadyExists, "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1536);
}

#[test]
fn a_size_that_no_image_can_have_is_refused_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.0.join("a.img");
    for (bytes, told) in [
        (0, "found 0; the next smaller one is 0"),
        (1, "found 1; the next smaller one is 0"),
        (1537, "found 1537; the next smaller one is 1536"),
        (1 << 63, "takes no file of that size"),
        (u64::MAX - 511, "takes no file of that size"),
    ] {
        let error = create_image(&path, bytes).unwrap_err();
        assert_eq!(error.kind, OpenErrorKind::Size, "{error}");
        assert!(error.detail.contains(told), "{told:?} is missing in {error}");
        assert!(!path.exists(), "{bytes} bytes");
    }
}

/// Gone with the thread, which alone is another user.
fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(None, Some(nobody), None).unwrap();
        }
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// A folder that takes new names and cannot be opened, and so cannot be synced either.
#[test]
fn an_image_whose_name_cannot_be_made_durable_is_not_made() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let make = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&folder.0, permissions).unwrap();
        let path = folder.0.join(format!("{mode:o}.img"));
        (as_nobody(|| create_image(&path, 4096)), path)
    };
    let (control, _) = make(0o777);
    let (outcome, path) = make(0o333);
    std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    if let Err(error) = control {
        return println!("skipped: another user cannot write here: {error}");
    }
    let error = outcome.unwrap_err();
    assert!(error.detail.contains("cannot make the name of"), "{error}");
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn an_image_may_have_a_name_without_a_folder() {
    let path = PathBuf::from(format!("nearhead-image-{}.img", std::process::id()));
    let made = create_image(&path, 4096);
    let _ = std::fs::remove_file(&path);
    made.unwrap();
}

/// Files that the kernel makes up have a size; their file systems have none.
#[test]
fn a_file_system_that_does_not_tell_what_is_free_is_not_said_to_miss_any() {
    let path = Path::new("/sys/devices/system/cpu/online");
    let Ok(space) = rustix::fs::statvfs(path) else {
        return println!("skipped: no /sys here");
    };
    assert_eq!(space.f_blocks, 0);
    assert_eq!(space_missing(path), None);
}
