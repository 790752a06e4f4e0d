//! A worker's side of its mount: orders, messages to the supervisor, and the start of another supervisor.
//!
//! A worker whose supervisor ends goes on serving. It must never wait for a supervisor while it has the file system, nor use the folder
//! that it serves.

use super::channel::{Agreed, Channel, Message, VolumeMark};
use super::process::{Role, command_as, thread};
use nearhead_fuse::Connection;
use nearhead_output::{hex, warn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

/// Orders of a worker.
pub(crate) struct Orders {
    /// Memory of the survival log.
    pub(crate) log: OwnedFd,
    /// Connection of a mount that an ended worker served.
    pub(crate) connection: Option<Connection>,
    /// Device number of that mount, and its volume.
    pub(crate) mount: Option<u64>,
    pub(crate) volume: Option<VolumeMark>,
    /// Way to the supervisor.
    pub(crate) supervisor: ToSupervisor,
}

impl Orders {
    /// The orders of this process, which is a worker.
    pub(crate) fn receive() -> Result<Self, String> {
        let failed = |error: io::Error| format!("mount: {error}");
        let channel = Channel::inherited().map_err(failed)?;
        let received = channel.receive().map_err(failed)?;
        let Some((Message::Serve { go_on }, descriptors)) = received else {
            return Err("mount: expected the orders of a supervisor (internal error)".to_owned());
        };
        let mut descriptors = descriptors.into_iter();
        let missing = || "mount: expected a log and a connection (internal error)".to_owned();
        let log = descriptors.next().ok_or_else(missing)?;
        let connection = match go_on {
            Some(agreed) => Some(agreed.connection(descriptors.next().ok_or_else(missing)?)),
            None => None,
        };
        let to_keep = log.try_clone().map_err(failed)?;
        let kept = connection.as_ref().map(Connection::try_clone).transpose().map_err(failed)?;
        let supervisor = ToSupervisor {
            channel: Arc::new(Mutex::new(Arc::new(channel))),
            log: Arc::new(to_keep),
            connection: Arc::new(Mutex::new(go_on.zip(kept))),
        };
        let mount = go_on.and_then(|agreed| agreed.mount);
        let volume = go_on.map(|agreed| agreed.volume);
        Ok(Self { log, connection, mount, volume, supervisor })
    }
}

/// Reason for which a worker cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CannotGoOn {
    pub(crate) why: String,
    /// No later worker can.
    pub(crate) is_for_good: bool,
}

impl VolumeMark {
    /// Refuses a volume on which the survival log must not be replayed.
    pub(crate) fn refuse_another(&self, found: &Self) -> Result<(), CannotGoOn> {
        let refused = |is_for_good, why| Err(CannotGoOn { why, is_for_good });
        if found.volume_id != self.volume_id {
            let (expected, found) = (hex(&self.volume_id), hex(&found.volume_id));
            let why = format!(
                "expected volume {expected}, found volume {found}; nothing was written to it: bring the other one back"
            );
            return refused(false, why);
        }
        let (kept, now) = (self.generation, found.generation);
        if kept == 0 || now == 0 {
            return Ok(());
        }
        let newest = kept.saturating_add(self.openings);
        let expected = format!("expected generation {kept} to {newest} of the volume, found {now}");
        if now < kept {
            let why = format!("{expected}: this is an older copy; bring the newer one back");
            return refused(false, why);
        }
        if now > newest {
            return refused(true, format!("{expected}: something else changed it since"));
        }
        Ok(())
    }
}

/// A worker's way to its supervisor, with what another supervisor would get.
#[derive(Clone)]
pub(crate) struct ToSupervisor {
    channel: Arc<Mutex<Arc<Channel>>>,
    log: Arc<OwnedFd>,
    connection: Arc<Mutex<Option<(Agreed, Connection)>>>,
}

impl ToSupervisor {
    fn channel(&self) -> Arc<Channel> {
        Arc::clone(&self.channel.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports that the folder is mounted, with this device number.
    pub(crate) fn mounted(&self, connection: &Connection, mount: Option<u64>, volume: VolumeMark) {
        let (device, agreed) = ([connection.device.as_fd()], Agreed::of(connection, mount, volume));
        let sent = self.channel().send(&Message::Mounted(agreed), &device);
        match sent.and_then(|()| connection.try_clone()) {
            Ok(copy) => {
                let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
                *kept = Some((agreed, copy));
            }
            Err(error) => {
                warn(&format!("no other process can go on if this one ends: {error}"));
            }
        }
    }

    /// Reports that the folder can be used. Returns once `umount` finds the supervisor.
    pub(crate) fn ready(&self, volume: VolumeMark) {
        let channel = self.channel();
        // A supervisor that has ended is followed by another.
        if channel.send(&Message::Ready(volume), &[]).is_ok() {
            let _ = channel.receive();
        }
    }

    /// Asks for the end of the mount.
    pub(crate) fn stop(&self) {
        let _ = self.channel().send(&Message::Stop, &[]);
    }

    /// Reports that no worker can go on, if that is so. Returns the reason.
    pub(crate) fn refused(&self, CannotGoOn { why, is_for_good }: CannotGoOn) -> String {
        if is_for_good {
            let _ = self.channel().send(&Message::GiveUp, &[]);
        }
        why
    }

    /// Watches the supervisor, and starts another whenever it has ended. Returns when none can be started.
    pub(crate) fn guard(&self) {
        let kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((agreed, connection)) = kept else { return };
        loop {
            let channel = self.channel();
            // A supervisor sends nothing that matters to a worker that serves.
            while let Ok(Some(_)) = channel.receive() {}
            match next_supervisor(&self.log, agreed, &connection) {
                Ok(next) => {
                    *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                }
                Err(error) => {
                    return warn(&format!(
                        "the supervisor of this mount has ended, and no other can be started: {error}"
                    ));
                }
            }
        }
    }
}

fn next_supervisor(log: &OwnedFd, agreed: Agreed, connection: &Connection) -> io::Result<Channel> {
    let (channel, other) = Channel::pair()?;
    let worker = std::process::id();
    let with = [log.as_fd(), connection.device.as_fd()];
    channel.send(&Message::Supervise { worker, agreed }, &with)?;
    let mut command = command_as(Role::Supervisor);
    // It must not end with this process's group.
    command.stdin(Stdio::from(other)).stdout(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    drop(command);
    // Its end is noticed by the end of its socket; here it is only waited for.
    thread("supervisor-end", move || drop(child.wait()))?;
    Ok(channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(id: u8, generation: u64) -> VolumeMark {
        VolumeMark { volume_id: [id; 16], generation, openings: 2 }
    }

    #[test]
    fn another_older_or_changed_volume_is_refused() {
        let refused = |found| mark(1, 5).refuse_another(&found).map_err(|why| why.is_for_good);
        assert_eq!(refused(mark(2, 5)), Err(false));
        assert_eq!(refused(mark(1, 4)), Err(false));
        assert_eq!(refused(mark(1, 8)), Err(true));
        for generation in [0, 5, 6, 7] {
            assert_eq!(refused(mark(1, generation)), Ok(()));
        }
    }
}
