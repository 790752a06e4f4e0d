//! System calls on a mounted file system that reach a FUSE server only if it knows them, through the kernel.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::mounts::{assert_clean, can_mount, mount, unmount, volume};
use common::{Scratch, tool, tool_ok, tools};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn a_file_has_a_time_of_birth_that_stays() {
    let scratch = Scratch::new("calls-statx");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let path = folder.join("file");
    File::create(&path).unwrap();
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let born = |path: &Path| {
        let found = rustix::fs::statx(CWD, path, AtFlags::empty(), asked).unwrap();
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        has_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
    };
    let Some(birth) = born(&path) else {
        println!("skipped: the kernel asks a FUSE server for no time of birth (Linux 6.6)");
        return unmount(&scratch, &folder, daemon);
    };
    let changed = std::fs::metadata(&path).unwrap();
    assert_eq!(birth, (changed.ctime(), changed.ctime_nsec() as u32));
    let file = File::options().append(true).open(&path).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH - std::time::Duration::from_millis(1500);
    file.set_times(std::fs::FileTimes::new().set_modified(old)).unwrap();
    drop(file);
    unmount(&scratch, &folder, daemon);
    let daemon = mount(&scratch, &image, &folder, &[]);
    assert_eq!(born(&path), Some(birth), "after it was unmounted");
    let modified = std::fs::metadata(&path).unwrap();
    assert_eq!((modified.mtime(), modified.mtime_nsec()), (-2, 500_000_000), "before 1970");
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn a_file_without_a_name_is_linked_or_goes() {
    let scratch = Scratch::new("calls-tmpfile");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let nameless = || rustix::fs::open(&folder, flags, Mode::from_raw_mode(0o640)).map(File::from);
    let mut file = match nameless() {
        Err(Errno::OPNOTSUPP) => {
            println!("skipped: the kernel asks a FUSE server for no O_TMPFILE (Linux 6.2)");
            return unmount(&scratch, &folder, daemon);
        }
        made => made.unwrap(),
    };
    file.write_all(&vec![7; 100_000]).unwrap();
    let mut other = nameless().unwrap();
    other.write_all(&vec![8; 100_000]).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let through = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = folder.join("linked");
    rustix::fs::linkat(CWD, &through, CWD, &path, AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    drop((file, other));
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
    let daemon = mount(&scratch, &image, &folder, &[]);
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 100_000]);
    assert_eq!(std::fs::read_dir(folder.join("lost+found")).unwrap().count(), 0);
    unmount(&scratch, &folder, daemon);
}

#[test]
fn an_overlay_has_its_upper_layer_here() {
    let scratch = Scratch::new("calls-overlay");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|name| folder.join(name));
    for path in [&lower, &upper, &work, &merged] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::create_dir(lower.join("folder")).unwrap();
    for name in ["removed", "moved", "changed", "folder/inside"] {
        std::fs::write(lower.join(name), name).unwrap();
    }
    let show = |path: &Path| path.display().to_string();
    let options =
        format!("lowerdir={},upperdir={},workdir={}", show(&lower), show(&upper), show(&work));
    let done = tool("mount", &["-t", "overlay", "over", "-o", &options, &show(&merged)]);
    if !done.status.success()
        && !std::fs::read_to_string("/proc/filesystems").unwrap().contains("overlay")
    {
        println!("skipped: the kernel has no overlays");
        return unmount(&scratch, &folder, daemon);
    }
    assert!(done.status.success(), "{done:?}");
    std::fs::remove_file(merged.join("removed")).unwrap();
    std::fs::rename(merged.join("moved"), merged.join("new")).unwrap();
    std::fs::write(merged.join("changed"), "again").unwrap();
    std::fs::remove_dir_all(merged.join("folder")).unwrap();
    std::fs::create_dir(merged.join("folder")).unwrap();
    let names = |path: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (all, inside) = (names(&merged), names(&merged.join("folder")));
    tool_ok("umount", &[&show(&merged)]);
    assert_eq!((all, inside), (vec!["changed".into(), "folder".into(), "new".into()], vec![]));
    // A whiteout is a character device 0/0; a folder that hides the lower one says so.
    for name in ["removed", "moved"] {
        let node = std::fs::symlink_metadata(upper.join(name)).unwrap();
        assert_eq!((node.mode() & 0o170_000, node.rdev()), (0o020_000, 0), "{name}");
    }
    let mut value = [0; 8];
    let len = rustix::fs::getxattr(upper.join("folder"), "trusted.overlay.opaque", &mut value);
    assert_eq!(&value[..len.unwrap()], b"y");
    let (from, to) = (upper.join("new"), upper.join("newer"));
    rustix::fs::renameat_with(CWD, &from, CWD, &to, RenameFlags::WHITEOUT).unwrap();
    assert!(from.symlink_metadata().unwrap().rdev() == 0 && to.is_file());
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn system_attributes_other_than_access_lists_are_refused() {
    let scratch = Scratch::new("calls-xattrs");
    if !can_mount() || !tools(&["getfattr"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let flags = rustix::fs::XattrFlags::empty();
    let refused = rustix::fs::setxattr(&folder, "system.other", b"value", flags);
    assert_eq!(refused.unwrap_err(), Errno::OPNOTSUPP);
    let mut value = [0; 8];
    let refused = rustix::fs::getxattr(&folder, "system.other", &mut value);
    assert_eq!(refused.unwrap_err(), Errno::OPNOTSUPP);
    rustix::fs::setxattr(&folder, "trusted.secret", b"value", flags).unwrap();
    let place = folder.to_str().unwrap();
    let listed = tool_ok("getfattr", &["-d", "-m", "-", "--absolute-names", place]);
    assert!(listed.contains("trusted.secret"), "{listed}");
    unmount(&scratch, &folder, daemon);
}

/// The kernel caches attributes, and does not know that an ioctl moved one.
#[test]
fn chattr_moves_the_time_of_change_at_once() {
    let scratch = Scratch::new("calls-chattr");
    if !can_mount() || !tools(&["chattr"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let path = folder.join("file");
    std::fs::write(&path, "content").unwrap();
    let changed = || {
        let found = std::fs::metadata(&path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    // The last two change nothing, and move the time all the same, as on ext4.
    for change in ["+d", "-d", "-d", "=e"] {
        let before = changed();
        tool_ok("chattr", &[change, path.to_str().unwrap()]);
        assert!(changed() > before, "{change}");
    }
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn a_loop_that_makes_files_while_it_lists_them_ends() {
    let scratch = Scratch::new("calls-readdir");
    if !can_mount() {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    for number in 0..1000 {
        File::create(folder.join(format!("file-{number}"))).unwrap();
    }
    let (mut seen, mut made) = (std::collections::BTreeSet::new(), 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(seen.insert(name.clone()), "{name} came twice");
        std::fs::rename(folder.join(&name), folder.join(format!("moved-{made}"))).unwrap();
        File::create(folder.join(format!("made-{made}"))).unwrap();
        made += 1;
        assert!(made < 10_000, "the end of the folder moves with what is added");
    }
    let old = (0..1000).filter(|number| seen.contains(&format!("file-{number}"))).count();
    assert_eq!(old, 1000, "all that was there at the start was listed");
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn data_written_through_a_mapping_is_found_by_seek() {
    let scratch = Scratch::new("calls-seek");
    if !can_mount() || !tools(&["python3"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    // Four files at once: no search waits for the answer to another.
    let program = "import mmap, os, sys, threading\n\
        def act(path):\n\
        \x20fd = os.open(path, os.O_RDWR | os.O_CREAT)\n\
        \x20os.truncate(fd, 8 << 20)\n\
        \x20with mmap.mmap(fd, 8 << 20) as view:\n\
        \x20\x20for place in [7 << 20, 5 << 20, 3 << 20, 1 << 20]:\n\
        \x20\x20\x20view[place + 100] = 7\n\
        \x20\x20\x20found.append(os.lseek(fd, 0, os.SEEK_DATA) == place)\n\
        \x20\x20\x20found.append(os.lseek(fd, place, os.SEEK_HOLE) == place + 4096)\n\
        found = []\n\
        threads = [threading.Thread(target=act, args=[f'{sys.argv[1]}/{n}']) for n in range(4)]\n\
        [thread.start() for thread in threads]\n\
        [thread.join() for thread in threads]\n\
        sys.exit(len(found) != 32 or not all(found))\n";
    let done = tool("timeout", &["60", "python3", "-c", program, folder.to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn a_swap_file_collapsed_and_inserted_ranges_are_refused() {
    let scratch = Scratch::new("calls-refused");
    if !can_mount() || !tools(&["mkswap", "swapon"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let daemon = mount(&scratch, &image, &folder, &[]);
    let path = folder.join("swap");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    tool_ok("mkswap", &[path.to_str().unwrap()]);
    let done = tool("swapon", &[path.to_str().unwrap()]);
    assert!(!done.status.success(), "{done:?}");
    let file = File::options().write(true).open(&path).unwrap();
    for flags in
        [rustix::fs::FallocateFlags::COLLAPSE_RANGE, rustix::fs::FallocateFlags::INSERT_RANGE]
    {
        let refused = rustix::fs::fallocate(&file, flags, 0, 4096);
        assert_eq!(refused.unwrap_err(), Errno::OPNOTSUPP, "{flags:?}");
    }
    drop(file);
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
}

#[test]
fn sync_makes_a_mount_on_a_block_device_durable() {
    let scratch = Scratch::new("calls-syncfs");
    if !can_mount() || !tools(&["losetup"]) {
        return;
    }
    let (image, folder) = volume(&scratch, "256M");
    let place = folder.to_str().unwrap();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split('.').filter_map(|part| part.parse().ok()).collect();
    if numbers < vec![6, 18] || !Path::new("/dev/loop-control").exists() {
        println!("skipped: the kernel reports no sync to a FUSE server (Linux 6.18, loop devices)");
        return;
    }
    let daemon = mount(&scratch, &image, &folder, &["-o", "syncfs,commit=3600"]);
    // While a file is cut to nothing and not closed, no commit begins without a request.
    std::fs::write(folder.join("cut"), "old").unwrap();
    let cut = File::create(folder.join("cut")).unwrap();
    for (number, command) in [&["-f", place][..], &[]].into_iter().enumerate() {
        let path = folder.join(format!("file-{number}"));
        std::fs::write(&path, vec![number as u8 + 1; 300_000]).unwrap();
        tool_ok("sync", command);
        // The image as a kill at this moment leaves it.
        let copy = scratch.text(&format!("copy-{number}.img"));
        std::fs::copy(&image, &copy).unwrap();
        let shown = scratch.path(&format!("shown-{number}"));
        std::fs::create_dir(&shown).unwrap();
        let after = mount(&scratch, &copy, &shown, &[]);
        let found = std::fs::read(shown.join(format!("file-{number}"))).unwrap();
        assert!(found == vec![number as u8 + 1; 300_000], "{command:?}");
        unmount(&scratch, &shown, after);
    }
    drop(cut);
    unmount(&scratch, &folder, daemon);
    assert_clean(&scratch, &image);
    let loops = tool_ok("losetup", &["--list"]);
    assert!(!loops.contains("nearhead-mount"), "the device went with the mount: {loops}");
}
