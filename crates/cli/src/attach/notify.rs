//! One word to the service manager (`sd_notify(3)`): that the device is there. Without one nobody is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says that it is ready.
pub(super) fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    // Whoever does not listen goes without.
    let socket = UnixDatagram::unbound();
    if let (Ok(address), Ok(socket)) = (address, socket) {
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}
