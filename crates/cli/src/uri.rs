//! Where clients connect, as every NBD client takes it: names and paths with what a URI gives a meaning written as `%20`.

use nearhead_nbd::client::uri_escaped as encoded;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Of a Unix socket. The name of the export may be empty; `scheme` is `nbd` or `nbds`.
pub fn of_socket(scheme: &str, export: &str, socket: &Path) -> String {
    let socket = encoded(socket.as_os_str().as_bytes());
    format!("{scheme}+unix:///{}?socket={socket}", encoded(export.as_bytes()))
}

/// Of an address with its port.
pub fn of_address(scheme: &str, export: &str, address: &str) -> String {
    format!("{scheme}://{address}/{}", encoded(export.as_bytes()))
}

/// A parameter that names a file, for what stands behind the question mark.
pub fn parameter(name: &str, file: &Path) -> String {
    format!("{name}={}", encoded(file.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_uri_is_escaped_and_common_names_are_as_typed() {
        let socket = |export, path| of_socket("nbd", export, Path::new(path));
        assert_eq!(socket("", "/run/a-b_1.sock"), "nbd+unix:///?socket=/run/a-b_1.sock");
        assert_eq!(socket("a b\nc", "/x?y#&%"), "nbd+unix:///a%20b%0Ac?socket=/x%3Fy%23%26%25");
        assert_eq!(parameter("tls-psk-file", Path::new("/a b")), "tls-psk-file=/a%20b");
        assert_eq!(of_address("nbds", "\u{e9}", "[::1]:10809"), "nbds://[::1]:10809/%C3%A9");
    }
}
