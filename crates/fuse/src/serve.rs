//! The one thread that carries out what the kernel asks: the queue, the file system, the service under it, and the clock.

use crate::answers::Waiting;
use crate::carrier::Carrier;
use crate::queue::{Asked, Queue};
use nearhead_disk::Nanos;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long before a time that has to be met precisely the thread stays awake.
const LOOK: Nanos = Nanos::from_micros(100);
/// A file system that is in use is tried again after so long.
const BUSY_FOR: Duration = Duration::from_millis(100);
/// Longest sleep: an end that nobody rang for is found after it.
const SLEEP_MAX: Nanos = Nanos::from_secs(1);

/// Time since the service's clock began.
pub(crate) fn since(start: Instant) -> Nanos {
    Nanos(start.elapsed().as_nanos() as u64)
}

/// Serves until the kernel asks nothing any more, then until all is durable.
pub(crate) fn run<C: Carrier>(
    mounted: &mut C,
    queue: &Arc<Queue>,
    start: Instant,
    folder: &Path,
    turn: &mut dyn FnMut(&mut C, Nanos),
) -> Result<(), String> {
    let mut waiting: HashMap<u64, Waiting> = HashMap::new();
    let (mut next, mut is_closing) = (0, false);
    let mut failure = None;
    loop {
        let (asked, has_ended) = queue.take();
        for Asked { mut request, waiting: whom } in asked {
            next += 1;
            request.id = next;
            waiting.insert(next, whom);
            mounted.submit(request);
        }
        if has_ended && !is_closing {
            is_closing = true;
            mounted.begin_shutdown(since(start));
        }
        if queue.is_to_stop() {
            unmount_elsewhere(folder);
        }
        mounted.drive(since(start));
        while let Some(reply) = mounted.poll_reply() {
            if let Some(whom) = waiting.remove(&reply.id) {
                whom.answer(reply.result);
            }
        }
        turn(mounted, since(start));
        if let Some(error) = mounted.failure() {
            failure.get_or_insert_with(|| error.detail.clone());
        }
        if is_closing && mounted.is_shut_down() {
            break;
        }
        sleep(mounted, start, Some(queue));
    }
    match failure {
        None => Ok(()),
        Some(detail) => Err(format!(
            "{}: {detail}; what was written last and not answered as durable may be lost",
            folder.display()
        )),
    }
}

/// Unmounting asks the file system for things itself, so it is another thread's: this one has to answer. Where somebody uses it, it is
/// unmounted once nobody does.
fn unmount_elsewhere(folder: &Path) {
    let folder = folder.to_owned();
    let unmounting = std::thread::Builder::new().name("unmount".to_owned());
    // Without it the file system stays until somebody unmounts it.
    let _ = unmounting.spawn(move || {
        while let Err(error) = crate::unmount(&folder) {
            if error.kind() != ErrorKind::ResourceBusy {
                break;
            }
            std::thread::sleep(BUSY_FOR);
        }
    });
}

/// Waits until there is something to do.
pub(crate) fn sleep(mounted: &impl Carrier, start: Instant, queue: Option<&Arc<Queue>>) {
    let wake = mounted.wake();
    let now = since(start);
    let left = wake.at.map_or(SLEEP_MAX, |at| at.since(now)).min(SLEEP_MAX);
    if left == Nanos::ZERO {
        return;
    }
    let left = if wake.is_precise && left <= LOOK {
        std::thread::yield_now();
        Nanos::ZERO
    } else if wake.is_precise && wake.at.is_some() {
        Nanos(left.0 - LOOK.0.min(left.0))
    } else {
        left
    };
    if queue.is_some_and(|queue| !queue.falls_asleep()) {
        return;
    }
    let timeout = Timespec {
        tv_sec: (left.0 / 1_000_000_000) as i64,
        tv_nsec: (left.0 % 1_000_000_000) as i64,
    };
    let bell = queue.map(|queue| queue.bell());
    let mut descriptors: Vec<PollFd<'_>> = Vec::with_capacity(2);
    descriptors.extend(bell.as_ref().map(|bell| PollFd::new(bell, PollFlags::IN)));
    descriptors.extend(wake.fd.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
    // Interrupted or not: whoever calls looks again.
    let _ = poll(&mut descriptors, Some(&timeout));
    if let Some(queue) = queue {
        queue.wakes_up();
    }
}
