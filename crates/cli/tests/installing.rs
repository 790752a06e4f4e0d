//! `make install` and `make uninstall`, into a folder: what is put where, and that nothing of it stays.
//!
//! The built programs are empty stand-ins; man pages and completions are those that the program writes.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Scratch, run_ok, tools};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What `make libraries` builds.
const LIBRARIES: [&str; 4] = [
    "libnearhead_preload.so",
    "libnearhead_wal_c.so",
    "libnearhead_wal_c.a",
    "nearhead-wal-helper",
];

/// A machine to install on, and what was built for it.
struct Machine {
    scratch: Scratch,
}

impl Machine {
    /// Nothing if there is no `make`.
    fn new(name: &str, built: &[&str]) -> Option<Self> {
        if !tools(&["make", "install", "sed"]) {
            return None;
        }
        let scratch = Scratch::new(name);
        run_ok(&scratch, &["generate", "--out", "docs"]);
        std::fs::create_dir(scratch.path("built")).unwrap();
        for name in ["nearhead"].iter().chain(built) {
            std::fs::write(scratch.path("built").join(name), "").unwrap();
        }
        Some(Self { scratch })
    }

    fn make(&self, target: &str) {
        let mut command = Command::new("make");
        command.args(["--silent", target, "PREFIX=/opt/near"]).current_dir(ROOT);
        command.arg(format!("DESTDIR={}", self.scratch.text("machine")));
        command.env("BUILT", self.scratch.path("built")).env("DOCS", self.scratch.path("docs"));
        // Of whoever runs the tests by `make`.
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "make {target}: {output:?}");
    }

    /// Files below the prefix, and folders that are ours alone.
    fn found(&self) -> BTreeSet<String> {
        let top = self.scratch.path("machine");
        let (mut found, mut open) = (BTreeSet::new(), vec![top.clone()]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
                let path = entry.path();
                let is_folder = path.is_dir();
                if !is_folder || path.ends_with("nearhead") {
                    let name = path.strip_prefix(top.join("opt/near")).unwrap();
                    found.insert(name.to_str().unwrap().to_owned());
                }
                if is_folder {
                    open.push(path);
                }
            }
        }
        found
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.path("machine/opt/near").join(name)).unwrap()
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn what_is_installed_is_taken_away_again_and_shared_folders_stay() {
    let Some(machine) = Machine::new("installed", &LIBRARIES) else { return };
    machine.make("install");
    let found = machine.found();
    for name in ["bin/nearhead", "lib/nearhead/libnearhead_preload.so", "lib/libnearhead_wal.so"] {
        assert!(found.contains(name), "{name} is missing: {found:?}");
    }
    let helper = machine.scratch.path("machine/opt/near/sbin/mount.nearhead");
    assert!(helper.ends_with("sbin/mount.nearhead") && helper.exists(), "its link leads nowhere");
    let neighbour = machine.scratch.path("machine/opt/near/bin/neighbour");
    std::fs::write(&neighbour, "").unwrap();
    machine.make("uninstall");
    assert_eq!(machine.found(), BTreeSet::from(["bin/neighbour".to_owned()]));
    assert!(machine.scratch.path("machine/opt/near/share/man/man1").is_dir(), "it is shared");
    // There is nothing more to take away, which is no error.
    machine.make("uninstall");
}

#[test]
fn everything_that_is_made_to_be_installed_is() {
    let Some(machine) = Machine::new("all-installed", &[]) else { return };
    machine.make("install");
    let found = machine.found();
    let is_there = |name: &str| found.iter().any(|path| path.rsplit('/').next() == Some(name));
    let contrib = Path::new(ROOT).join("contrib");
    let mut made: Vec<String> =
        ["systemd", "udev", "grafana"].iter().flat_map(|it| names_in(&contrib.join(it))).collect();
    made.extend(
        names_in(&machine.scratch.path("docs")).into_iter().filter(|it| it.ends_with(".1")),
    );
    assert!(made.len() > 30, "{made:?}");
    for name in made {
        assert!(is_there(&name), "{name} is missing: {found:?}");
    }
    let libraries: Vec<&String> = found.iter().filter(|path| path.contains("wal")).collect();
    assert!(libraries.iter().all(|path| path.contains("/man1/")), "not built: {libraries:?}");
}

#[test]
fn installed_texts_name_the_place_where_the_program_is() {
    let Some(machine) = Machine::new("named-place", &LIBRARIES) else { return };
    machine.make("install");
    let units = machine.found().into_iter().filter(|path| path.contains("systemd/"));
    for unit in units.filter(|path| path.ends_with(".service")) {
        let text = machine.text(&unit);
        let started: Vec<PathBuf> = text
            .lines()
            .filter_map(|line| line.strip_prefix("ExecSt"))
            .filter_map(|line| line.split_once('=')?.1.split(' ').next())
            .map(PathBuf::from)
            .collect();
        assert!(!started.is_empty(), "{unit}: {text}");
        assert!(started.iter().all(|path| path == Path::new("/opt/near/bin/nearhead")), "{text}");
    }
    let library = machine.text("lib/pkgconfig/nearhead_wal.pc");
    assert!(library.contains("prefix=/opt/near\n"), "{library}");
    let version = concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(library.contains(version), "{library}");
    for path in machine.found().iter().filter(|path| path.contains('.') && !path.contains(".so")) {
        assert!(!machine.text(path).contains("/usr/local"), "{path}");
    }
}
