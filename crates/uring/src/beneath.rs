//! What lies beneath a block device, kept from others together with it.
//!
//! The kernel lets one exclusive opener have a device, its partitions and whatever is built on it by
//! the device mapper. It knows nothing of loop devices: a file and the loop device attached to it, or
//! two loop devices on one file, are the same bytes and can be had by two. So whoever gets a device also
//! gets what is beneath: the files are locked as if they were opened themselves (shared by those
//! who have different parts of one), the devices opened exclusively; and nobody gets in where another
//! loop device is attached to the same bytes, in use or not, since anybody may use it at any time.

use crate::byte_lock;
use crate::error::OpenError;
use crate::exclusive::{self, Failure};
use crate::identity::Identity;
use crate::loops::{self, Loop};
use crate::sysfs::Kin;
use crate::users::{self, User};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::path::Path;

/// More devices than any disk is put together of; the walk ends there.
const DEVICES_MAX: usize = 256;

/// Who else has the regular file, apart from locks: a loop device attached to it, or swap space.
pub(crate) fn refuse_used_file(file: Identity, shown: &str) -> Result<(), OpenError> {
    let attached = loops::attached().into_iter().find(|found| found.backing == file);
    let user = attached.map(|found| User::loop_device(&found)).or_else(|| users::swap_on(file));
    user.map_or(Ok(()), |user| Err(Failure::InUse(Some(user)).into_error("open", shown)))
}

/// Takes what lies beneath the device with this number, opened under the name `shown`.
pub(crate) fn claim(number: u64, shown: &str) -> Result<Vec<OwnedFd>, OpenError> {
    let loops = loops::attached();
    let (mut held, mut seen) = (Vec::new(), Vec::new());
    let mut todo = vec![(number, false)];
    while let Some((number, is_part)) = todo.pop() {
        if seen.contains(&number) || seen.len() >= DEVICES_MAX {
            continue;
        }
        seen.push(number);
        let kin = Kin::of(number);
        let is_on_it = |found: &&Loop| match found.backing {
            Identity::Device(backing) => kin.sharing_bytes().contains(&backing),
            Identity::File { .. } => false,
        };
        refuse(
            loops.iter().find(|found| is_on_it(found) && !seen.contains(&found.number())),
            shown,
        )?;
        let is_part = is_part || kin.whole != number;
        if let Some(own) = loops.iter().find(|found| found.number() == kin.whole) {
            refuse(
                loops.iter().find(|other| other.name != own.name && other.overlaps(own)),
                shown,
            )?;
            let is_part = is_part || own.is_part();
            held.extend(claim_backing(own, is_part, shown)?);
            if let Identity::Device(backing) = own.backing {
                todo.push((backing, is_part));
            }
        }
        todo.extend(kin.slaves.iter().map(|slave| (*slave, true)));
    }
    Ok(held)
}

fn refuse(other: Option<&Loop>, shown: &str) -> Result<(), OpenError> {
    let Some(other) = other else { return Ok(()) };
    Err(Failure::InUse(Some(User::loop_device(other))).into_error("open", shown))
}

/// Takes what a loop device is attached to. One that this user may not open, or that is in another
/// mount namespace, is left: then there is nothing to lock here, and whoever opens it there is refused
/// because of the loop device.
fn claim_backing(own: &Loop, is_part: bool, shown: &str) -> Result<Option<OwnedFd>, OpenError> {
    let path = own.path.display();
    let what = format!("{shown} ({path}, which /dev/{} is attached to,)", own.name);
    if matches!(own.backing, Identity::Device(_)) {
        if Identity::of_path(&own.path) != Some(own.backing) {
            return Ok(None);
        }
        return exclusive::open_whole_device(&own.path, OFlags::RDONLY | OFlags::CLOEXEC).map(Some);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(Path::new(&own.path), flags, Mode::empty()) else {
        return Ok(None);
    };
    let found = rustix::fs::fstat(&file).map(|stat| Identity::of_file(&stat));
    if found != Ok(own.backing) {
        return Ok(None);
    }
    let operation = if is_part {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    exclusive::lock_by(&file, operation, &what)?;
    // Of two who lock first and look then, one at least sees the other. Who has another part of the file is none.
    let is_other = |held: &byte_lock::Held| !(is_part && held.is_shared_by_us);
    let refused = byte_lock::lock_all(&file, false).or_else(|| byte_lock::holder(&file));
    if refused.is_some_and(|held| is_other(&held)) {
        let user = exclusive::byte_lock_owner(&file);
        return Err(Failure::InUse(user).into_error("open", &what));
    }
    Ok(Some(file))
}
