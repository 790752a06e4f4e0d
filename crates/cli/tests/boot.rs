//! What the generator in contrib/systemd makes of fstab: units that attach a volume before it is checked and mounted, and nothing of a line that
//! could mean something else to systemd. No machine is started.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Scratch, run_ok, tool, tools};
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

const CONTRIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd");

/// What the generator wrote for this fstab, and what it complained of.
fn generate(scratch: &Scratch, fstab: &[u8]) -> (BTreeSet<String>, String) {
    std::fs::write(scratch.path("fstab"), fstab).unwrap();
    let folder = scratch.path("units");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let complaints = run_generator(&scratch.path("fstab"), &folder);
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        for inner in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
            let path = inner.path();
            found.insert(path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned());
        }
    }
    (found, complaints)
}

fn run_generator(fstab: &Path, folder: &Path) -> String {
    let mut command = Command::new("sh");
    command.arg(format!("{CONTRIB}/nearhead-generator")).args([folder, folder, folder]);
    let output = command.env("SYSTEMD_FSTAB", fstab).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "a generator always ends with 0: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn drop_in(scratch: &Scratch, name: &str) -> String {
    let path = format!("units/nearhead-attach@{name}.service.d/50-fstab.conf");
    std::fs::read_to_string(scratch.path(&path)).unwrap()
}

#[test]
fn a_volume_that_fstab_names_is_attached_before_its_device_is_used() {
    let scratch = Scratch::new("boot-names");
    let fstab = b"# /dev/nearhead/no /n ext4 defaults 0 0\n/dev/sda1 / ext4 defaults 0 1\n\
        /dev/nearhead/with-dash\t/srv ext4 nofail,x-nearhead.target=/dev/disk/by-id/ata-A 0 2\n\
        /dev/nearhead/image /i ext4 x-nearhead.target=/var/lib/a.img\n\
        /dev/nearhead/array /a ext4 x-nearhead.config=/etc/other.toml,ro 0 2\n\
        /dev/nearhead/plain none swap sw";
    let (found, complaints) = generate(&scratch, fstab);
    assert_eq!(complaints, "");
    for (name, unit) in [("with-dash", r"with\x2ddash"), ("image", "image"), ("plain", "plain")] {
        let wanted = format!("dev-nearhead-{unit}.device.requires/nearhead-attach@{name}.service");
        assert!(found.contains(&wanted), "{found:?}");
        let text = drop_in(&scratch, name);
        for key in ["Before", "Wants"] {
            let line = format!("{key}=blockdev@dev-nearhead-{unit}.target\n");
            assert!(text.contains(&line), "fsck and mount come after it: {text}");
        }
    }
    assert_eq!(found.len(), 4 * 3, "{found:?}");
    let disk = r"dev-disk-by\x2did-ata\x2dA.device";
    assert!(drop_in(&scratch, "with-dash").contains(&format!("Requires={disk}\nAfter={disk}\n")));
    assert!(drop_in(&scratch, "image").contains("RequiresMountsFor=/var/lib/a.img\n"));
    let array = drop_in(&scratch, "array");
    assert!(array.contains(" --as=array --config /etc/other.toml\n"), "{array}");
    assert!(!drop_in(&scratch, "plain").contains("ExecStart"), "the unit names its volume file");
}

#[test]
fn a_line_that_is_not_plain_makes_nothing_and_is_complained_of() {
    let scratch = Scratch::new("boot-hostile");
    let targets: [&[u8]; 15] = [
        b"",
        b"sdb",
        b"--help",
        b"/",
        b"/dev/a\\040b",
        b"/dev/a\\012ExecStart=/x",
        b"/dev/a;x",
        b"/dev/$(x)",
        b"/dev/`x`",
        b"/dev/%i",
        b"\"/dev/a\"",
        b"'/dev/a'",
        b"/dev/../a",
        b"/dev/\xff",
        b"/dev/a,x-nearhead.config=/b",
    ];
    for target in targets {
        let line = [b"/dev/nearhead/a /a ext4 x-nearhead.target=", target, b" 0 2\n"].concat();
        let (found, complaints) = generate(&scratch, &line);
        assert!(found.is_empty(), "{}: {found:?}", line.escape_ascii());
        assert_eq!(complaints.lines().count(), 1, "{}: {complaints}", line.escape_ascii());
    }
    let long = "n".repeat(49);
    for name in ["", "..", ".a", "../a", "a/b", "a%i", "a\\040b", "$(x)", "a;b", "a\"b", "*", &long]
    {
        let line = format!("/dev/nearhead/{name} /a ext4 defaults 0 2\n");
        let (found, complaints) = generate(&scratch, line.as_bytes());
        assert!(found.is_empty(), "{line}: {found:?}");
        assert_eq!(complaints.lines().count(), 1, "{line}: {complaints}");
    }
    let misspelt = b"/dev/nearhead/a /a ext4 x-nearhead.traget=/dev/sdb 0 2\n";
    assert!(generate(&scratch, misspelt).0.is_empty(), "an option that it does not know");
}

#[test]
fn the_first_line_says_what_a_volume_is() {
    let scratch = Scratch::new("boot-twice");
    let fstab = b"/dev/nearhead/a /a ext4 x-nearhead.target=/dev/sdb 0 2\n\
        /dev/nearhead/a /b ext4 defaults 0 0\n/dev/nearhead/a /c ext4 x-nearhead.target=/dev/sdc 0 0\n";
    let (_, complaints) = generate(&scratch, fstab);
    assert_eq!(complaints.lines().count(), 1, "{complaints}");
    assert!(drop_in(&scratch, "a").contains(" /dev/sdb\n"));
}

#[test]
fn an_fstab_that_is_no_file_holds_nothing_up() {
    let scratch = Scratch::new("boot-no-file");
    std::fs::create_dir(scratch.path("units")).unwrap();
    for fstab in ["/nonexistent/fstab", "/dev/zero", "/"] {
        assert_eq!(run_generator(Path::new(fstab), &scratch.path("units")), "");
    }
    std::fs::write(scratch.path("fstab"), "/dev/nearhead/a /a ext4 defaults 0 2\n").unwrap();
    let complaints = run_generator(&scratch.path("fstab"), Path::new("/dev/null"));
    assert!(complaints.contains("/dev/nearhead/a: expected to write"), "{complaints}");
}

#[test]
fn systemd_finds_nothing_wrong_with_what_is_generated() {
    let scratch = Scratch::new("boot-verify");
    if !tools(&["systemd-analyze"]) {
        return;
    }
    let fstab = b"/dev/nearhead/a-b /srv ext4 x-nearhead.target=/var/lib/a.img 0 2\n";
    generate(&scratch, fstab);
    let program = env!("CARGO_BIN_EXE_nearhead");
    let unit = "nearhead-attach@.service";
    let text = std::fs::read_to_string(format!("{CONTRIB}/{unit}")).unwrap();
    let units = scratch.path("units");
    let waits = "local-fs.target waits for the mount, and with `nofail` not even for that";
    assert!(!text.contains("Before=local-fs.target"), "{waits}");
    std::fs::write(units.join(unit), text.replace("/usr/local/bin/nearhead", program)).unwrap();
    let path = units.join("nearhead-attach@a-b.service.d/50-fstab.conf");
    let text = std::fs::read_to_string(&path).unwrap().replace("/usr/local/bin/nearhead", program);
    std::fs::write(&path, &text).unwrap();
    let instance = scratch.text("units/nearhead-attach@a-b.service");
    symlink(unit, &instance).unwrap();
    let output = tool("systemd-analyze", &["verify", "--man=no", &instance]);
    let told = String::from_utf8_lossy(&output.stderr);
    let about_it: Vec<&str> = told.lines().filter(|line| line.contains("nearhead")).collect();
    assert!(about_it.is_empty(), "{about_it:#?}");
    // What it runs is what this program knows.
    let line = text.lines().rev().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    run_ok(&scratch, &line.split(' ').skip(1).chain(["--help"]).collect::<Vec<_>>());
}
