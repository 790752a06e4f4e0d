//! Examples of each command, what its exit code says, and the files that all of them know.

/// A command line, and what it is good for.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// As it is typed.
    pub command: &'static str,
    /// In a few words.
    pub what: &'static str,
}

/// Files and folders, and what is there.
pub const FILES: [(&str, &str); 4] = [
    (
        "/run/nearhead/*.control",
        "Control sockets of root's daemons, one for each file and device under a volume; units of systemd have folders of their own there.",
    ),
    ("$XDG_RUNTIME_DIR/nearhead/*.control", "The same of another user."),
    (
        "/etc/nearhead/NAME.toml",
        "The volume file that nearhead@NAME.service reads: flags of serve, with underscores.",
    ),
    ("/run/nearhead/NAME.sock", "Where that unit's clients connect."),
];

const fn of(command: &'static str, what: &'static str) -> Example {
    Example { command, what }
}

/// Those of each command.
const TABLE: &[(&str, &[Example])] = &[
    (
        "create",
        &[
            of(
                "nearhead create /dev/disk/by-id/ata-EXAMPLE --label backups",
                "A volume on a whole disk.",
            ),
            of("nearhead create disk.img --size 64GiB", "One in a new sparse image."),
            of(
                "nearhead create --chain a.img,b.img,c.img --size 100G --data-size 100G",
                "One log over three devices.",
            ),
        ],
    ),
    (
        "serve",
        &[
            of(
                "nearhead serve /dev/disk/by-id/ata-EXAMPLE --socket /run/nearhead/backups.sock",
                "To clients on this machine.",
            ),
            of(
                "nearhead serve disk.img --socket disk.sock --durable-p99 15ms --metrics 127.0.0.1:9420",
                "Bulk gives way to durable writes, and Prometheus may ask.",
            ),
            of("nearhead serve --config /etc/nearhead/backups.toml", "As a volume file says."),
        ],
    ),
    (
        "attach",
        &[
            of(
                "nearhead attach disk.img --as backups --mount /srv/backups",
                "As /dev/nearhead/backups, with the file system that is on it mounted.",
            ),
            of(
                "nearhead attach --config /etc/nearhead/backups.toml --as backups",
                "As a volume file says.",
            ),
        ],
    ),
    (
        "detach",
        &[of("nearhead detach backups --unmount", "Unmount what is mounted of it, and stop.")],
    ),
    (
        "upgrade",
        &[of("nearhead upgrade backups", "Let it go on with the program that is installed now.")],
    ),
    (
        "status",
        &[
            of("nearhead status", "All volumes that are served or mounted here."),
            of("nearhead status disk.img --json", "One of them, for a program."),
            of("nearhead status disk.img --watch 5", "What it does, every five seconds."),
        ],
    ),
    (
        "set",
        &[
            of("nearhead set disk.img", "What may be set, and what it is."),
            of(
                "nearhead set disk.img durable_p99=15ms checkpoint_idle=5s",
                "Two settings, until it is stopped.",
            ),
        ],
    ),
    (
        "stop",
        &[
            of("nearhead stop disk.img", "Makes all durable, and waits for the end."),
            of("nearhead stop disk.img --timeout 1m", "Waits for a minute at most."),
        ],
    ),
    ("checkpoint", &[of("nearhead checkpoint disk.img", "In a quiet hour, before a busy one.")]),
    ("drain", &[of("nearhead drain disk.img --stop", "Before a disk is retired.")]),
    (
        "check",
        &[of("nearhead check disk.img", "Reads all that has a checksum; the daemon is stopped.")],
    ),
    (
        "dump",
        &[
            of("nearhead dump disk.img", "Superblocks, layout, snapshots."),
            of("nearhead dump disk.img --log 3", "The records of a log."),
        ],
    ),
    ("repair", &[of("nearhead repair disk.img --dry-run", "What would be written.")]),
    (
        "backup-metadata",
        &[of("nearhead backup-metadata disk.img disk.meta", "While it is served, too.")],
    ),
    (
        "restore-metadata",
        &[of(
            "nearhead restore-metadata disk.img disk.meta",
            "Into a volume whose superblocks are gone.",
        )],
    ),
    ("grow", &[of("nearhead grow disk.img --dry-run", "What would come of a larger device.")]),
    (
        "replace",
        &[
            of(
                "nearhead replace db /dev/sdb /dev/sdd",
                "A member of the mirror of an attached volume.",
            ),
            of("nearhead replace db missing /dev/sdd", "One that is away already."),
        ],
    ),
    (
        "hint",
        &[of(
            "nearhead hint disk.img --offset 0 --len 64MiB --kind durability-only",
            "A range that is needed after a crash only.",
        )],
    ),
    ("forget-log", &[of("nearhead forget-log disk.img 3 --dry-run", "What would be given up.")]),
    ("mkfs", &[of("nearhead mkfs disk.img", "An empty ext4 on the whole volume.")]),
    (
        "mount",
        &[of("nearhead mount disk.img /mnt/near -o noatime", "Stays and serves; umount ends it.")],
    ),
    ("sync", &[of("nearhead sync /mnt/near", "As `sync -f` does on other file systems.")]),
    ("umount", &[of("nearhead umount /mnt/near", "Waits until all is durable.")]),
    ("fsck", &[of("nearhead fsck disk.img", "What e2fsck finds; changes nothing.")]),
    (
        "calibrate",
        &[of(
            "nearhead calibrate /dev/disk/by-id/ata-EXAMPLE --store",
            "Finds the tracks, and keeps them in the volume.",
        )],
    ),
    ("disk", &[of("nearhead disk list", "Emulated disks that there are.")]),
    ("demo", &[of("nearhead demo", "A minute on an emulated disk.")]),
    ("bench", &[of("nearhead bench", "Every number the project claims.")]),
    ("figures", &[of("nearhead figures fig2a", "One of the papers' figures.")]),
    (
        "trace",
        &[
            of("nearhead trace /dev/sda --for 5m", "What goes to a disk, into sda.trace.zst here."),
            of(
                "nearhead trace 4711 --for 1h --out /dev/shm/db.trace.zst",
                "The disks under the files of a process, into memory, where it disturbs none of them.",
            ),
        ],
    ),
    (
        "replay",
        &[
            of(
                "nearhead replay sda.trace.zst --disk exos-x20-20tb --report answer.html",
                "Whether Nearhead would help, in a sentence and with charts.",
            ),
            of(
                "nearhead replay trace.csv --disk st3146855fc --preset nolog,nearhead",
                "Any other trace in virtual time.",
            ),
        ],
    ),
    (
        "run",
        &[
            of(
                "nearhead run --wal data/*.aof -- redis-server --appendonly yes --dir data",
                "A program as it is, the syncs of its log with a priority of their own.",
            ),
            of(
                "nearhead run --ahead --wal db/??????.log --bulk db/*.sst -- db_bench --db=db",
                "One that skips zeros behind its log: appends without the file system's journal.",
            ),
            of(
                "nearhead run --repair db/000012.log",
                "Zeros that a power cut left behind a log, cut off.",
            ),
        ],
    ),
    ("wal", &[of("nearhead wal advise 4711", "What would help the log of this process.")]),
    ("generate", &[of("nearhead generate --out man", "Man pages and completions.")]),
];

/// Examples of the command with this name.
pub fn examples_of(name: &str) -> &'static [Example] {
    TABLE.iter().find(|(known, _)| *known == name).map_or(&[], |(_, examples)| examples)
}

/// What the exit codes of the command with this name say.
pub fn exit_status_of(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "status" => &[
            ("0", "All is well."),
            (
                "1",
                "That could not be found out: nobody serves TARGET and it cannot be read, or a daemon does not answer.",
            ),
            ("2", "A volume is degraded or has failed; or the command line cannot be read."),
        ],
        "stop" => &[
            ("0", "It has ended, and everything is durable."),
            (
                "1",
                "Nobody serves it, less than that is promised, or it has not ended in time; standard error says which.",
            ),
            ("2", "The command line cannot be read."),
        ],
        "serve" | "mount" => &[
            ("0", "It was stopped in order, and everything is durable."),
            (
                "1",
                "It could not begin, or ended otherwise; standard error says why. What was acknowledged as durable is.",
            ),
            ("2", "The command line cannot be read."),
        ],
        "fsck" => &[
            ("0", "Nothing was found."),
            ("4", "Something is wrong."),
            ("1", "That could not be found out; other codes are those of e2fsck(8)."),
        ],
        _ => &[
            ("0", "It was done."),
            ("1", "It was not; standard error says what, where, expected, found, and what to do."),
            ("2", "The command line cannot be read."),
        ],
    }
}
