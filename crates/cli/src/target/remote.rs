//! An NBD export as a target: `nbd+unix:///EXPORT?socket=PATH` or `nbd://HOST:PORT/EXPORT`.
//!
//! Above all for emulated disks of `nearhead disk serve`, whose power can be cut while a volume is
//! served from them. Unlike a file or device it cannot be kept to oneself, and what an earlier user
//! sent may still be carried out after it was killed; both are said when it is opened.

use super::Access;
use nearhead_disk::Disk;
use nearhead_nbd::client::{Address, Place, RemoteDisk};
use std::path::PathBuf;

/// Connects to the export that `text` names.
pub(super) fn open(
    text: &str,
    access: Access,
) -> Result<(Box<dyn Disk + Send>, Vec<String>), String> {
    let address = Address::parse(text)?;
    let disk = RemoteDisk::connect(&address).map_err(|problem| format!("open {problem}"))?;
    if !access.only_looks() && disk.is_read_only() {
        return Err(format!(
            "open {text}: expected an export that may be written, found a read-only one"
        ));
    }
    let note = format!(
        "{text}: nothing keeps other clients of this export out, and what an earlier one sent may still be \
         carried out after it was killed"
    );
    Ok((Box::new(disk), vec![note]))
}

/// What names the export on this machine: the path of its socket, or else the text itself.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    Ok(match Address::parse(text)?.place {
        Place::Unix(socket) => PathBuf::from(socket),
        Place::Tcp(_) => PathBuf::from(text),
    })
}
