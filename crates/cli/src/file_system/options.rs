//! Options of `mount -o`: those that change how the file system is served, those of the kernel, and those meant for other programs.
//!
//! A line of fstab carries options for mount(8) and systemd too. These are accepted and have no effect here. An unknown option is an
//! error that lists the known ones, except for a `mount` that asks to ignore it (`-s`). Parsing opens nothing and changes nothing.

use nearhead_disk::Nanos;
use nearhead_fs::{AccessTimes, COMMIT_AFTER, DurableName};
use nearhead_fuse::KernelFlags;
use nearhead_journal::{DEFAULT_MODE, MODES, Mode, mode_named};

/// Options without a value that have an effect here; completion proposes them.
pub const MOUNT_OPTIONS: [&str; 21] = [
    "ro",
    "rw",
    "allow_other",
    "discard",
    "nodiscard",
    "noatime",
    "relatime",
    "strictatime",
    "syncfs",
    "nosuid",
    "suid",
    "nodev",
    "dev",
    "noexec",
    "exec",
    "sync",
    "async",
    "dirsync",
    "nonempty",
    "remount",
    "user",
];
/// Options for mount(8), systemd and fstab(5), and what the kernel's table shows of a FUSE mount.
const FOR_OTHERS: [&str; 20] = [
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "nouser",
    "nousers",
    "noowner",
    "nogroup",
    "silent",
    "loud",
    "lazytime",
    "nolazytime",
    "diratime",
    "nodiratime",
    "norelatime",
    "nostrictatime",
    "iversion",
    "noiversion",
    "default_permissions",
];
/// The same with a value.
const FOR_OTHERS_WITH_VALUE: [&str; 7] =
    ["comment", "user", "user_id", "group_id", "max_read", "blksize", "helper"];
/// Beginnings of options that only userspace tools read (mount(8), systemd.mount(5)).
const FOR_USERSPACE: [&str; 2] = ["x-", "X-"];
/// Bounds of `commit=`, in seconds. The upper bound is that of a mistake: ext4's usual values are 1 to 60.
const COMMIT_S: std::ops::RangeInclusive<u64> = 1..=3600;

/// Effect of all options of a mount.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(super) struct Wanted {
    pub(super) read_only: bool,
    pub(super) for_everybody: bool,
    /// The kernel reports `sync(2)`.
    pub(super) reports_sync: bool,
    pub(super) durable: Vec<DurableName>,
    pub(super) mode: &'static dyn Mode,
    pub(super) trims_freed: bool,
    pub(super) access_times: AccessTimes,
    pub(super) kernel: KernelFlags,
    /// Longest time for which a change stays in memory alone.
    pub(super) commit_after: Nanos,
    /// The folder may hold files and may be one of the system's.
    pub(super) allows_nonempty: bool,
    /// The options are for what is mounted there already.
    pub(super) is_remount: bool,
    /// Names of the options that were given and have an effect, for a remount.
    pub(super) given: Vec<String>,
}

impl Wanted {
    /// The effect of `options`. With `is_sloppy` unknown ones are ignored.
    pub(super) fn of(options: &[String], is_sloppy: bool) -> Result<Self, String> {
        let is_root = rustix::process::geteuid().is_root();
        let mut wanted = Self {
            read_only: false,
            for_everybody: is_root,
            reports_sync: false,
            durable: Vec::new(),
            mode: named(DEFAULT_MODE)?,
            trims_freed: true,
            access_times: AccessTimes::Relative,
            kernel: KernelFlags::default(),
            commit_after: COMMIT_AFTER,
            allows_nonempty: false,
            is_remount: false,
            given: Vec::new(),
        };
        for option in options.iter().filter(|option| !option.is_empty()) {
            wanted.take(option, is_sloppy)?;
        }
        Ok(wanted)
    }

    fn take(&mut self, option: &str, is_sloppy: bool) -> Result<(), String> {
        let is_known = match option.split_once('=') {
            Some((name, value)) => self.take_value(name, value)?,
            None => self.take_word(option),
        };
        if is_known {
            self.given.push(option.to_owned());
            return Ok(());
        }
        // Names after the first, with commas between them.
        if !self.durable.is_empty() && !option.contains('=') && !is_for_others(option) {
            self.durable.push(durable(option)?);
            return Ok(());
        }
        if is_for_others(option) || is_sloppy { Ok(()) } else { Err(unknown(option)) }
    }

    /// Takes an option without a value, if it has an effect.
    fn take_word(&mut self, option: &str) -> bool {
        match option {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "allow_other" => self.for_everybody = true,
            "syncfs" => self.reports_sync = true,
            "noatime" => self.access_times = AccessTimes::Never,
            "relatime" => self.access_times = AccessTimes::Relative,
            "strictatime" => self.access_times = AccessTimes::Always,
            "discard" => self.trims_freed = true,
            "nodiscard" => self.trims_freed = false,
            "suid" => self.kernel.suid = true,
            "nosuid" => self.kernel.suid = false,
            "dev" => self.kernel.dev = true,
            "nodev" => self.kernel.dev = false,
            "exec" => self.kernel.exec = true,
            "noexec" => self.kernel.exec = false,
            "sync" => (self.kernel.sync, self.kernel.dirsync) = (true, true),
            "async" => (self.kernel.sync, self.kernel.dirsync) = (false, false),
            "dirsync" => self.kernel.dirsync = true,
            "nonempty" => self.allows_nonempty = true,
            "remount" => self.is_remount = true,
            // A file system that a user may mount grants no privileges (mount(8)).
            "user" | "users" => {
                (self.kernel.suid, self.kernel.dev, self.kernel.exec) = (false, false, false);
            }
            "owner" | "group" => (self.kernel.suid, self.kernel.dev) = (false, false),
            _ => return false,
        }
        true
    }

    /// Takes an option with a value, if it has an effect.
    fn take_value(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "mode" => self.mode = named(value)?,
            "durable" => self.durable.push(durable(value)?),
            "commit" => self.commit_after = commit_after(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn is_for_others(option: &str) -> bool {
    let is_for_userspace = FOR_USERSPACE.iter().any(|beginning| option.starts_with(beginning));
    let named = |name: &str| FOR_OTHERS_WITH_VALUE.contains(&name);
    is_for_userspace
        || FOR_OTHERS.contains(&option)
        || option.split_once('=').is_some_and(|(name, _)| named(name))
}

fn unknown(option: &str) -> String {
    let modes: Vec<String> =
        MODES.iter().map(|mode| format!("{} ({})", mode.name(), mode.about())).collect();
    format!(
        "mount -o {option}: expected {}, commit=SECONDS, durable=NAMES or mode=NAME with one of: {}; options for mount(8) and systemd \
         (defaults, nofail, _netdev, x-...) have no effect here",
        MOUNT_OPTIONS.join(", "),
        modes.join("; ")
    )
}

fn named(name: &str) -> Result<&'static dyn Mode, String> {
    mode_named(name).map_err(|error| format!("mount -o mode: {error}"))
}

fn durable(name: &str) -> Result<DurableName, String> {
    DurableName::parse(name).ok_or_else(|| {
        format!("mount -o durable={name}: expected names such as *.wal or pg_wal/**, with commas between them")
    })
}

fn commit_after(value: &str) -> Result<Nanos, String> {
    let seconds = value.parse().ok().filter(|seconds| COMMIT_S.contains(seconds));
    seconds.map(Nanos::from_secs).ok_or_else(|| {
        format!(
            "mount -o commit={value}: expected {} to {} seconds",
            COMMIT_S.start(),
            COMMIT_S.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(options: &str) -> Result<Wanted, String> {
        let options: Vec<String> = options.split(',').map(str::to_owned).collect();
        Wanted::of(&options, false)
    }

    #[test]
    fn every_proposed_option_is_accepted() {
        for option in MOUNT_OPTIONS {
            assert!(wanted(option).is_ok(), "{option}");
        }
    }

    #[test]
    fn options_of_fstab_and_systemd_have_no_effect() {
        let plain = format!("{:?}", wanted("").unwrap());
        for option in FOR_OTHERS {
            assert_eq!(format!("{:?}", wanted(option).unwrap()), plain, "{option}");
        }
        for options in ["x-systemd.automount,x-gvfs-show", "X-mount.mkdir=0755", "user=joe"] {
            assert_eq!(format!("{:?}", wanted(options).unwrap()), plain, "{options}");
        }
    }

    #[test]
    fn the_last_of_two_opposite_options_counts() {
        assert!(!wanted("ro,rw").unwrap().read_only);
        assert!(wanted("user,exec").unwrap().kernel.exec);
        assert!(!wanted("sync,async").unwrap().kernel.dirsync);
        assert!(wanted("sync").unwrap().kernel.dirsync, "names are durable as well");
    }

    #[test]
    fn names_of_durable_end_at_an_option_of_fstab() {
        let found = wanted("durable=*.wal,*.log,nofail,ro").unwrap();
        assert_eq!((found.durable.len(), found.read_only), (2, true));
    }

    #[test]
    fn wrong_options_are_named_unless_they_are_to_be_ignored() {
        for wrong in ["nosuch", "commit=0", "commit=x", "mode=fast", "nosuch=1", "durable=a/b"] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
        assert!(Wanted::of(&["nosuch".to_owned()], true).is_ok());
    }
}
