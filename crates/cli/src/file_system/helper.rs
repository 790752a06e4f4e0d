//! The program under the names that mount(8) and umount(8) look for: `mount.nearhead`, `umount.nearhead`, and the same with `fuse.`.
//!
//! A line of fstab, a mount unit of systemd and `mount -o remount` reach the daemon this way. mount(8) passes its own arguments
//! (`mount.nearhead SOURCE FOLDER [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`); they become those of `nearhead mount --background`.
//! Under any other name the arguments stay as they are. Nothing is carried out here.

use std::ffi::OsString;
use std::path::Path;

/// Kinds of file systems in the names of the helpers: as given in fstab, and as the kernel's table shows it.
const KINDS: [&str; 3] = ["nearhead", "fuse.nearhead", "fuseblk.nearhead"];
/// Options of mount(8)'s helpers with a value of no effect here.
const WITH_VALUE: [&str; 2] = ["-t", "-N"];
/// Options without one, of no effect here: verbose, no table of mounts, read-only if it is busy, free of loops, no helper.
const WITHOUT_VALUE: [&str; 5] = ["-v", "-n", "-r", "-d", "-i"];

/// The arguments of the command that `args` asks for.
pub fn as_command(args: Vec<OsString>) -> Vec<OsString> {
    let name = args.first().map(Path::new).and_then(Path::file_name).and_then(|name| name.to_str());
    let is_for = |verb: &str| {
        let kind = name.and_then(|name| name.strip_prefix(verb)?.strip_prefix('.'));
        kind.is_some_and(|kind| KINDS.contains(&kind))
    };
    let verb = match () {
        () if is_for("mount") => ["mount", "--background"].as_slice(),
        () if is_for("umount") => &["umount"],
        () => return args,
    };
    let mut args = args.into_iter();
    let mut command: Vec<OsString> = args.next().into_iter().collect();
    command.extend(verb.iter().map(OsString::from));
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some(option) if WITH_VALUE.contains(&option) => drop(args.next()),
            Some(option) if WITHOUT_VALUE.contains(&option) => {}
            // To umount(8) it means a server that does not answer; waiting for everything to be durable is what is wanted here.
            Some("-f") if verb == ["umount"] => {}
            _ => command.push(arg),
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> String {
        let args = as_command(line.split(' ').map(OsString::from).collect());
        args.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn arguments_of_mount_8_become_those_of_the_command() {
        for (line, expected) in [
            (
                "/sbin/mount.nearhead a.img /srv -n -o rw,nofail -t nearhead",
                "/sbin/mount.nearhead mount --background a.img /srv -o rw,nofail",
            ),
            (
                "mount.fuse.nearhead a.img /srv -s -o remount,ro",
                "mount.fuse.nearhead mount --background a.img /srv -s -o remount,ro",
            ),
            ("/sbin/umount.fuse.nearhead /srv -l -v", "/sbin/umount.fuse.nearhead umount /srv -l"),
            ("nearhead mount a.img /srv -f", "nearhead mount a.img /srv -f"),
            ("mount.other a b", "mount.other a b"),
        ] {
            assert_eq!(command(line), expected);
        }
    }
}
