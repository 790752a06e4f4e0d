//! A place of our own in the kernel's tracing (`Documentation/trace/ftrace.rst`, "Instances"): a buffer, which events go there, and the pipe they come out of.
//!
//! Nothing outside the instance is changed, so whatever else is traced on the machine goes on. It goes away when this is dropped, however the program
//! ends; one that a killed program left is taken away by the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the kernel's tracing may be mounted; the second one mounts itself.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// How our instances are called, before the number of a process.
const PREFIX: &str = "nearhead-";
/// Memory of all processors together for what was not read yet, in KiB, and bounds for one.
const BUFFERS_KIB: u64 = 64 << 10;
const BUFFER_KIB_MIN: u64 = 512;
const BUFFER_KIB_MAX: u64 = 8 << 10;
/// How lines are written, whatever somebody chose for the rest of the machine.
const OPTIONS: [(&str, &str); 6] = [
    ("context-info", "1"),
    ("latency-format", "0"),
    ("bin", "0"),
    ("hex", "0"),
    ("raw", "0"),
    ("fields", "0"),
];

/// Where the kernel's tracing is: where the user says, or where it is mounted.
pub(super) fn find(told: Option<&Path>) -> Result<PathBuf, String> {
    let has_instances = |path: &Path| path.join("instances").is_dir();
    if let Some(told) = told {
        if has_instances(told) {
            return Ok(told.to_owned());
        }
        return Err(format!(
            "trace --tracefs {}: expected the kernel's tracing mounted there, found no folder `instances` in it",
            told.display()
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Err("trace: expected to run as root, as the kernel shows nobody else what goes to a device; sudo nearhead trace ...".to_owned());
    }
    let found = PLACES.iter().map(Path::new).find(|path| has_instances(path));
    found.map(Path::to_owned).ok_or_else(|| {
        format!(
            "trace: expected the kernel's tracing at {}, found none; mount it (mount -t tracefs tracefs {}), or take a trace with blktrace: replay reads that, too",
            PLACES.join(" or "),
            PLACES[0]
        )
    })
}

/// An instance.
pub(super) struct Instance {
    folder: PathBuf,
    /// How it is taken away.
    remove: fn(&Path) -> io::Result<()>,
    events: Vec<&'static str>,
}

/// How an instance is made and taken away: by the kernel, or by a test in its place.
#[derive(Clone, Copy)]
pub(super) struct Makers {
    pub(super) make: fn(&Path) -> io::Result<()>,
    pub(super) remove: fn(&Path) -> io::Result<()>,
}

impl Makers {
    /// The kernel fills a folder that is made there.
    pub(super) const KERNEL: Self =
        Self { make: |folder| fs::create_dir(folder), remove: |folder| fs::remove_dir(folder) };
}

impl Instance {
    /// Makes one below `root` in which these events of these devices are written down, and nothing yet is.
    pub(super) fn make(
        root: &Path,
        makers: Makers,
        events: impl Iterator<Item = &'static str>,
        devices: &[(u32, u32)],
    ) -> Result<Self, String> {
        take_away_left_ones(root, makers);
        let folder = root.join("instances").join(format!("{PREFIX}{}", std::process::id()));
        (makers.make)(&folder)
            .map_err(|error| format!("trace: cannot make {}: {error}", folder.display()))?;
        let mut instance = Self { folder, remove: makers.remove, events: Vec::new() };
        for (option, value) in OPTIONS {
            let path = format!("options/{option}");
            if instance.folder.join(&path).exists() {
                instance.set(&path, value)?;
            }
        }
        // All processors by one clock.
        instance.set("trace_clock", "mono")?;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let buffer_kib = (BUFFERS_KIB / processors).clamp(BUFFER_KIB_MIN, BUFFER_KIB_MAX);
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        for event in events {
            if !instance.folder.join(format!("events/block/{event}")).is_dir() {
                return Err(format!(
                    "trace: expected the event block:{event} in {}, found none; this kernel cannot tell what goes to a device",
                    root.display()
                ));
            }
            instance.set(&format!("events/block/{event}/filter"), &filter(devices))?;
            instance.events.push(event);
        }
        Ok(instance)
    }

    /// From now on events are written down.
    pub(super) fn start(&self) -> Result<(), String> {
        self.events
            .iter()
            .try_for_each(|event| self.set(&format!("events/block/{event}/enable"), "1"))
    }

    /// From now on none are; those that were stay to be read.
    pub(super) fn stop(&self) -> Result<(), String> {
        self.events
            .iter()
            .try_for_each(|event| self.set(&format!("events/block/{event}/enable"), "0"))
    }

    /// Where the events come out; a read of it never waits.
    pub(super) fn pipe(&self) -> Result<File, String> {
        let path = self.folder.join("trace_pipe");
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        opened.map_err(|error| format!("trace: cannot read {}: {error}", path.display()))
    }

    /// How many events found no room so far; `None` if the kernel does not say.
    pub(super) fn lost(&self) -> Option<u64> {
        let processors = fs::read_dir(self.folder.join("per_cpu")).ok()?;
        let texts =
            processors.flatten().filter_map(|it| fs::read_to_string(it.path().join("stats")).ok());
        let mut lost = None;
        for text in texts {
            *lost.get_or_insert(0) += lost_in(&text);
        }
        lost
    }

    fn set(&self, what: &str, value: &str) -> Result<(), String> {
        let path = self.folder.join(what);
        let written = OpenOptions::new().write(true).truncate(true).open(&path);
        written.and_then(|mut file| file.write_all(value.as_bytes())).map_err(|error| {
            format!("trace: cannot write {value:?} to {}: {error}", path.display())
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // One that stays is taken away by the next trace.
        let _ = self.stop();
        let _ = (self.remove)(&self.folder);
    }
}

/// `overrun`, `commit overrun` and `dropped events` of a processor.
fn lost_in(stats: &str) -> u64 {
    let counts = ["overrun", "commit overrun", "dropped events"];
    let lines = stats.lines().filter_map(|line| line.split_once(": "));
    let lost = lines.filter(|(what, _)| counts.contains(&what.trim()));
    lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// Only events of these devices, in the kernel's words (`Documentation/trace/events.rst`, section 5).
fn filter(devices: &[(u32, u32)]) -> String {
    let each = devices.iter().map(|(major, minor)| format!("dev == {}", major << 20 | minor));
    each.collect::<Vec<_>>().join(" || ")
}

/// Instances of processes that are no more.
fn take_away_left_ones(root: &Path, makers: Makers) {
    let entries = fs::read_dir(root.join("instances")).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Whoever uses it keeps it.
            let _ = (makers.remove)(&entry.path());
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder that looks like the kernel's, with an instance that looks like one.
    pub(in crate::trace) fn tree(name: &str) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("nearhead-tracefs-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("instances")).unwrap();
        root
    }

    /// Makes and removes instances as the kernel does.
    pub(in crate::trace) const MADE_UP: Makers =
        Makers { make: make_up, remove: |folder| fs::remove_dir_all(folder) };

    fn make_up(folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)?;
        for name in ["options", "per_cpu/cpu0", "per_cpu/cpu1"] {
            fs::create_dir_all(folder.join(name))?;
        }
        for name in ["trace_clock", "buffer_size_kb", "options/latency-format", "options/raw"] {
            fs::write(folder.join(name), "")?;
        }
        fs::write(
            folder.join("per_cpu/cpu0/stats"),
            "entries: 5\noverrun: 7\ncommit overrun: 0\nbytes: 9\ndropped events: 0\n",
        )?;
        fs::write(
            folder.join("per_cpu/cpu1/stats"),
            "entries: 5\noverrun: 0\ncommit overrun: 1\ndropped events: 2\nread events: 40\n",
        )?;
        for (event, _) in super::super::event::EVENTS {
            let event = folder.join("events/block").join(event);
            fs::create_dir_all(&event)?;
            fs::write(event.join("filter"), "none\n")?;
            fs::write(event.join("enable"), "0\n")?;
        }
        let pipe = folder.join("trace_pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )?;
        Ok(())
    }

    fn events() -> impl Iterator<Item = &'static str> {
        super::super::event::EVENTS.iter().map(|(name, _)| *name)
    }

    #[test]
    fn an_instance_has_its_own_events_and_goes_away_with_them() {
        let root = tree("own");
        let instance = Instance::make(&root, MADE_UP, events(), &[(8, 0), (259, 3)]).unwrap();
        let read = |name: &str| fs::read_to_string(instance.folder.join(name)).unwrap();
        assert_eq!(
            read("events/block/block_bio_queue/filter"),
            "dev == 8388608 || dev == 271581187"
        );
        assert_eq!(
            (read("trace_clock"), read("options/latency-format")),
            ("mono".into(), "0".into())
        );
        assert_eq!(read("events/block/block_rq_issue/enable"), "0\n", "not yet");
        instance.start().unwrap();
        assert_eq!(read("events/block/block_rq_issue/enable"), "1");
        assert_eq!(instance.lost(), Some(10));
        drop(instance);
        assert_eq!(fs::read_dir(root.join("instances")).unwrap().count(), 0);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_a_killed_program_left_is_taken_away_and_what_others_have_is_not() {
        let root = tree("left");
        for name in ["nearhead-4194999", "nearhead-1", "nearhead-x", "somebodys"] {
            fs::create_dir(root.join("instances").join(name)).unwrap();
        }
        drop(Instance::make(&root, MADE_UP, events(), &[(8, 0)]).unwrap());
        let mut left: Vec<_> = fs::read_dir(root.join("instances"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["nearhead-1", "nearhead-x", "somebodys"]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_kernel_without_the_events_and_a_folder_without_tracing_are_named() {
        let root = tree("without");
        let bare = Makers {
            make: |folder| {
                make_up(folder)?;
                fs::remove_dir_all(folder.join("events/block/block_rq_issue"))
            },
            ..MADE_UP
        };
        let problem = Instance::make(&root, bare, events(), &[(8, 0)]).err().unwrap();
        assert!(problem.contains("block:block_rq_issue"), "{problem}");
        assert_eq!(
            fs::read_dir(root.join("instances")).unwrap().count(),
            0,
            "nothing stays behind"
        );
        let problem = find(Some(&root.join("instances"))).unwrap_err();
        assert!(problem.contains("no folder `instances`"), "{problem}");
        fs::remove_dir_all(root).unwrap();
    }
}
