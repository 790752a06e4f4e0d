//! Which commands a disk carries out by itself, and which it leaves to the kernel.

use super::*;
use crate::job::tests::target;
use crate::options::OpenOptions;
use crate::target::tests::has_durable_direct_writes;
use nearhead_disk::{BufferMut, Command, CommandId, Payload, Ticket};
use rustix::event::{PollFd, PollFlags, poll};

/// `None`, with the reason said, where there is no ring.
fn disk(target: Target) -> Option<UringDisk> {
    UringDisk::new(Arc::new(target))
        .inspect_err(|error| println!("skipped: no io_uring here: {error}"))
        .ok()
}

fn on_flash(name: &str) -> Target {
    let mut target = target(name);
    target.properties.rotational = false;
    target
}

/// A file that is written through the page cache; `None`, with the reason said, where that cannot be.
fn cached(name: &str) -> Option<UringDisk> {
    let path = std::env::temp_dir().join(format!("nearhead-cached-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    crate::create_image(&path, 16 << 20).unwrap();
    if !has_durable_direct_writes(&path) {
        return None;
    }
    let rotational = Some(false);
    let options = OpenOptions { cache_writes: true, rotational, ..OpenOptions::default() };
    let target = Target::open(&path, &options).unwrap();
    std::fs::remove_file(&path).unwrap();
    disk(target)
}

fn submit(disk: &mut UringDisk, class: Class, command: Command) {
    let ticket = Ticket::new(CommandId(disk.outstanding as u64));
    disk.submit(Submission { ticket, class, command }, Nanos::ZERO);
}

fn write(offset: u64, len: usize, durable: bool) -> Command {
    let parts = vec![Payload::Bytes(BufferMut::zeroed(len).freeze())];
    Command::Write { offset, parts, durable }
}

const fn read() -> Command {
    Command::Read { offset: 1 << 20, len: 4096 }
}

/// Waits until all is answered.
fn finish(disk: &mut UringDisk) {
    while disk.outstanding > 0 {
        if let Some(completion) = disk.poll(Nanos::ZERO) {
            completion.result.unwrap();
        } else if disk.wake_at().is_none() {
            let fd = disk.wake_fd().unwrap();
            // It may end early: then the outcome is there already.
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None);
        }
    }
}

fn is_made_here(disk: &UringDisk) -> bool {
    !matches!(disk.alone, Alone::Nothing)
}

#[test]
fn only_small_writes_of_whole_pages_are_copied_at_once() {
    for (offset, len, expected) in [
        (0, 4096, true),
        (1 << 40, 256 << 10, true),
        (0, (256 << 10) + 4096, false),
        (512, 4096, false),
        (4096, 512, false),
        (512, 512, false),
    ] {
        assert_eq!(is_copied_at_once(offset, len), expected, "{len} bytes at {offset}");
    }
}

#[test]
fn a_small_durable_write_that_nobody_joins_is_made_here_and_so_is_a_lone_flush() {
    let Some(mut disk) = disk(on_flash("alone")) else { return };
    for (command, expected) in [
        (write(0, 4096, true), true),
        (write(0, 4096, false), false),
        (write(0, 512 << 10, true), false),
        (Command::Flush, true),
        (read(), false),
    ] {
        let shown = format!("{command:?}");
        submit(&mut disk, Class::Durable, command);
        disk.kick();
        assert_eq!(is_made_here(&disk), expected, "{shown}");
        assert_eq!(disk.wake_at().is_some(), expected, "{shown}");
        finish(&mut disk);
        assert!(!is_made_here(&disk), "{shown}");
    }
}

#[test]
fn where_a_head_moves_the_kernel_has_all_commands() {
    let mut target = target("head");
    target.properties.rotational = true;
    let Some(mut disk) = disk(target) else { return };
    for command in [write(0, 4096, true), Command::Flush] {
        submit(&mut disk, Class::Durable, command);
        disk.kick();
        assert!(!is_made_here(&disk));
        finish(&mut disk);
    }
}

#[test]
fn what_nobody_waits_for_goes_on_beside_a_write_that_is_made_here() {
    for class in [Class::Bulk, Class::Background] {
        let Some(mut disk) = disk(on_flash("beside")) else { return };
        submit(&mut disk, class, read());
        submit(&mut disk, Class::Durable, write(0, 4096, true));
        submit(&mut disk, class, read());
        disk.kick();
        assert!(is_made_here(&disk), "{class:?}");
        finish(&mut disk);
        submit(&mut disk, class, read());
        submit(&mut disk, Class::Durable, Command::Flush);
        disk.kick();
        assert!(!is_made_here(&disk), "a flush would wait for it: {class:?}");
        finish(&mut disk);
    }
}

#[test]
fn whoever_is_joined_by_somebody_who_waits_goes_to_the_kernel_with_them() {
    let Some(mut disk) = disk(on_flash("joined")) else { return };
    for class in [Class::Durable, Class::Foreground] {
        submit(&mut disk, class, read());
        submit(&mut disk, Class::Durable, write(0, 4096, true));
        assert!(!is_made_here(&disk), "{class:?} was there before");
        finish(&mut disk);
        submit(&mut disk, Class::Durable, write(0, 4096, true));
        assert!(is_made_here(&disk));
        submit(&mut disk, class, read());
        assert!(!is_made_here(&disk), "{class:?} came later");
        finish(&mut disk);
    }
    for offset in [0, 4096] {
        submit(&mut disk, Class::Durable, write(offset, 4096, true));
    }
    assert!(!is_made_here(&disk), "two of a kind");
    finish(&mut disk);
}

#[test]
fn through_the_page_cache_small_writes_are_done_at_once_and_others_by_the_kernel() {
    let Some(mut disk) = cached("copied") else { return };
    for (command, expected) in
        [(write(0, 4096, false), true), (write(8192, 512, false), false), (read(), false)]
    {
        let shown = format!("{command:?}");
        submit(&mut disk, Class::Foreground, command);
        assert_eq!(!disk.ready.is_empty(), expected, "{shown}");
        assert!(disk.wake_at().is_some(), "it is done, or to be handed over: {shown}");
        disk.kick();
        finish(&mut disk);
        assert_eq!(disk.wake_at(), None, "{shown}");
    }
}

#[test]
fn through_the_page_cache_a_sync_for_one_is_made_here_if_it_is_over_soon() {
    let Some(mut disk) = cached("synced") else { return };
    submit(&mut disk, Class::Durable, write(0, 4096, true));
    assert_eq!(disk.wake_at(), Some(Nanos::ZERO), "its sync is to be started");
    disk.kick();
    assert!(is_made_here(&disk), "little is to be brought to the disk");
    finish(&mut disk);

    submit(&mut disk, Class::Foreground, read());
    submit(&mut disk, Class::Durable, write(4096, 4096, true));
    disk.kick();
    assert!(!is_made_here(&disk), "somebody waits for a read");
    finish(&mut disk);

    submit(&mut disk, Class::Bulk, write(1 << 20, 256 << 10, false));
    finish(&mut disk);
    submit(&mut disk, Class::Durable, write(8192, 4096, true));
    disk.kick();
    assert!(!is_made_here(&disk), "much is to be brought to the disk");
    finish(&mut disk);

    for offset in [0, 4096] {
        submit(&mut disk, Class::Durable, write((4 << 20) + offset, 4096, true));
    }
    disk.kick();
    assert!(!is_made_here(&disk), "two wait for it");
    finish(&mut disk);
}
