//! TLS with keys shared beforehand, through the program and by a client that others wrote (libnbd).

#![cfg(feature = "psk")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Daemon, Scratch, run_ok, tool, tools};
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "3b1f7a90c2d4e6f8a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718";
const OTHER_KEY: &str = "0000000000000000a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718";

fn key_file(scratch: &Scratch, name: &str, user: &str, key: &str) -> String {
    let path = scratch.path(name);
    std::fs::write(&path, format!("{user}:{key}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    scratch.text(name)
}

#[test]
fn who_has_the_key_is_served_encrypted_and_nobody_else_is() {
    if !tools(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let scratch = Scratch::new("psk");
    run_ok(&scratch, &["create", "a.img", "--size", "64MiB"]);
    let keys = key_file(&scratch, "keys.psk", "alice", KEY);
    let other = key_file(&scratch, "other.psk", "alice", OTHER_KEY);
    let daemon = Daemon::serve(&scratch, "a.img", &["--tls-psk", &keys]);
    let plain = daemon.uri();
    let with = |user: &str, keys: &str| {
        let place = plain.strip_prefix("nbd+unix:///").unwrap();
        format!("nbds+unix://{user}@/{place}&tls-psk-file={keys}")
    };

    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    std::fs::write(scratch.path("in.img"), &content).unwrap();
    let copied = tool("nbdcopy", &["--flush", &scratch.text("in.img"), &with("alice", &keys)]);
    assert!(copied.status.success(), "{copied:?}");
    let back = tool("nbdcopy", &[&with("alice", &keys), &scratch.text("out.img")]);
    assert!(back.status.success(), "{back:?}");
    let found = std::fs::read(scratch.path("out.img")).unwrap();
    assert!(found[..content.len()] == content[..], "what was written through TLS is not there");

    for refused in [with("alice", &other), with("bob", &keys), plain.clone()] {
        let info = tool("nbdinfo", &["--size", &refused]);
        assert!(!info.status.success(), "{refused}: {info:?}");
    }
    // Who was refused held nothing up.
    assert!(tool("nbdinfo", &["--size", &with("alice", &keys)]).status.success());
    daemon.stop_ok();
}
