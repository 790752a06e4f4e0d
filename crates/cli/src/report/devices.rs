//! The devices that a volume lies on, as reports name them: what each is for, and where its bytes are among the volume's.

use crate::units::ByteSize;
use nearhead_disk::{Disk, Lane, Nanos, Properties, Replacing, Resilver, Side, WokenBy};
use nearhead_format::Superblock;
use nearhead_volume::{Lanes, SyncIo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One of the devices of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `disk` if logs and data are there, else `log` or `data`, or `link` of a chain; `map` of a map device, `cache` of the read cache's.
    pub role: String,
    /// Which of the devices beside the volume's own.
    pub position: Option<u8>,
    /// As errors name it: its path, the profile of an emulated disk, or what an array is made of.
    pub path: String,
    /// All its bytes.
    pub size_bytes: u64,
    /// Where its bytes begin among the volume's addresses, which is what a "device byte" of other reports is; a map device
    /// has its own.
    pub first_address: Option<u64>,
    /// Its members, if they may rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sides: Vec<SideReport>,
    /// The mirrors that it is, or that it lies on, if their members know each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<MirrorReport>,
}

/// How far the members of a mirror are apart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MirrorReport {
    /// As errors name it.
    pub path: String,
    /// What the member that lacks most would be copied if it came back now; 0 if none is away.
    pub dirty_bytes: u64,
    /// Bytes still to be copied to members that came back, or to be compared after a crash.
    pub left_bytes: u64,
    /// The member that is being replaced, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<ReplacingReport>,
}

/// Progress of a member that replaces another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplacingReport {
    /// The member that is replaced; none if it is away.
    pub old: Option<String>,
    /// The new member.
    pub new: String,
    /// Bytes that it is to hold.
    pub size_bytes: u64,
    /// Bytes still to be copied to it.
    pub left_bytes: u64,
    /// Share of them that it holds.
    pub done_pct: u64,
    /// The old member takes every change and counts until the new one has everything.
    pub old_counts: bool,
    /// The new member has everything, and the old one is used no more.
    pub is_done: bool,
    /// Error for which the new member was given up.
    pub failed: Option<String>,
}

impl ReplacingReport {
    pub fn of(replacing: Replacing) -> Self {
        let Replacing { old, new, size_bytes, left_bytes, old_counts, is_done, failed } = replacing;
        let done_pct = size_bytes.saturating_sub(left_bytes) * 100 / size_bytes.max(1);
        Self { old, new, size_bytes, left_bytes, done_pct, old_counts, is_done, failed }
    }

    /// For people.
    pub fn words(&self) -> String {
        let Self { old, new, size_bytes, left_bytes, done_pct, old_counts, .. } = self;
        let old = old.as_deref().unwrap_or("a member that is away");
        let copied = ByteSize(size_bytes.saturating_sub(*left_bytes));
        let counts =
            if *old_counts { "; the old one counts until the new one has everything" } else { "" };
        format!(
            "{new} replaces {old}: {copied} of {} copied ({done_pct} %){counts}",
            ByteSize(*size_bytes)
        )
    }
}

impl MirrorReport {
    fn of(resilver: Resilver) -> Self {
        let Resilver { name: path, dirty_bytes, left_bytes, replacing } = resilver;
        Self { path, dirty_bytes, left_bytes, replacing: replacing.map(ReplacingReport::of) }
    }

    /// For people, if they wait for anything.
    fn lines(&self) -> Vec<String> {
        let Self { path, dirty_bytes, left_bytes, replacing } = self;
        if let Some(replacing) = replacing.as_ref().filter(|replacing| replacing.left_bytes > 0) {
            return vec![replacing.words()];
        }
        let away = (*dirty_bytes > 0).then(|| {
            format!("{path}: {} to copy when who is away comes back", ByteSize(*dirty_bytes))
        });
        let left = (*left_bytes > 0)
            .then(|| format!("{path}: {} left to make alike", ByteSize(*left_bytes)));
        away.into_iter().chain(left).collect()
    }
}

/// A member of a mirror that may rest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SideReport {
    /// As errors name it.
    pub path: String,
    /// It has had nothing to do for as long as was asked for.
    pub is_resting: bool,
    /// For how long it has rested, in s, if it does.
    #[serde(default)]
    pub resting_s: Option<f64>,
    /// Since when it has had nothing to do, in s.
    pub idle_s: f64,
    /// For how long it has rested in all since the volume was opened, in s.
    #[serde(default)]
    pub rested_s: f64,
    /// How often it was asked something after it had rested.
    pub woken: u64,
    /// The same by what it was asked: `read`, `write`, `cleaning`, `alike` (the members were made alike), `ahead` (of writes that were about
    /// to come).
    #[serde(default)]
    pub woken_by: BTreeMap<String, u64>,
    /// How the program did that hears of it, if there is one and it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<RestCommandReport>,
}

/// How a program did that hears when a side rests and when it is woken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestCommandReport {
    /// How often it was run, to its end.
    pub runs: u64,
    /// How often of these it did not end well.
    pub failed: u64,
    /// It runs now.
    pub is_running: bool,
    /// What was wrong last, until it ends well.
    pub problem: Option<String>,
}

impl RestCommandReport {
    /// For people, if there is anything to say.
    fn words(&self) -> String {
        let problem = self.problem.as_ref().map(|problem| format!("; its program: {problem}"));
        problem.unwrap_or_default()
    }
}

impl SideReport {
    fn of(side: Side) -> Self {
        let Side { name: path, resting_for, idle, rested, woken } = side;
        let by = |by: WokenBy| (by.name().to_owned(), woken.by(by));
        Self {
            path,
            is_resting: resting_for.is_some(),
            resting_s: resting_for.map(Nanos::as_secs_f64),
            idle_s: idle.as_secs_f64(),
            rested_s: rested.as_secs_f64(),
            woken: woken.total(),
            woken_by: WokenBy::ALL.map(by).into(),
            command: None,
        }
    }

    fn line(&self) -> String {
        let Self { path, resting_s, idle_s, rested_s, woken, woken_by, command, .. } = self;
        let state = resting_s.map_or("awake".to_owned(), |span| format!("resting for {span:.0} s"));
        let by = WokenBy::ALL.map(WokenBy::name);
        let by =
            by.iter().filter_map(|by| Some((by, woken_by.get(*by).filter(|times| **times > 0)?)));
        let by: Vec<String> = by.map(|(by, times)| format!("{by} {times}")).collect();
        let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
        let command = command.as_ref().map(RestCommandReport::words).unwrap_or_default();
        format!(
            "side {path}: {state}, nothing to do for {idle_s:.0} s; rested {rested_s:.0} s in all, woken {woken} times{by}{command}"
        )
    }
}

impl DeviceReport {
    /// Those of an open volume, or of one just made.
    pub fn of_lanes(superblock: &Superblock, lanes: &Lanes<Box<dyn Disk + Send>>) -> Vec<Self> {
        let mut all = Self::all(superblock, |lane| {
            disk_at(lanes, lane).map(|disk| disk.properties().clone())
        });
        all.extend(lanes.cache().map(|cache| {
            let Properties { name: path, capacity_bytes: size_bytes, .. } =
                cache.properties().clone();
            let role = "cache".to_owned();
            Self {
                role,
                position: None,
                path,
                size_bytes,
                first_address: None,
                sides: Vec::new(),
                mirrors: Vec::new(),
            }
        }));
        all
    }

    /// The same with how their sides rest at this time, and how far these are apart.
    pub fn of_served(
        superblock: &Superblock,
        lanes: &Lanes<Box<dyn Disk + Send>>,
        now: Nanos,
    ) -> Vec<Self> {
        let with_sides = |report: Self| {
            let lane = match (report.position, report.role.as_str()) {
                (Some(position), _) => Lane::data(position),
                (None, "map") => Lane::MAP,
                (None, "cache") => return report,
                (None, _) => Lane::MAIN,
            };
            let Some(disk) = disk_at(lanes, lane) else { return report };
            let sides = disk.sides(now).into_iter().map(SideReport::of).collect();
            let mirrors = disk.resilvers().into_iter().map(MirrorReport::of).collect();
            Self { sides, mirrors, ..report }
        };
        Self::of_lanes(superblock, lanes).into_iter().map(with_sides).collect()
    }

    /// Those of a volume whose superblock was found by this.
    pub fn of_io(superblock: &Superblock, io: &SyncIo<'_>) -> Vec<Self> {
        Self::all(superblock, |lane| io.lane(lane).map(|disk| disk.properties().clone()))
    }

    fn all(superblock: &Superblock, at: impl Fn(Lane) -> Option<Properties>) -> Vec<Self> {
        let layout = &superblock.layout;
        let (own, other) = match (layout.is_chain(), layout.data_parts.is_empty()) {
            (true, _) => ("link", "link"),
            (false, true) => ("disk", "data"),
            (false, false) => ("log", "data"),
        };
        let with_homes = layout.data_parts.with_homes() as u8;
        let data = (0..).zip(layout.data_devices()).map(|(position, addresses)| {
            let role = if position < with_homes { other } else { own };
            (Lane::data(position), role, Some(position), Some(addresses.start))
        });
        let map = superblock.map_device_id.map(|_| (Lane::MAP, "map", None, None));
        let all = std::iter::once((Lane::MAIN, own, None, Some(0))).chain(data).chain(map);
        all.filter_map(|(lane, role, position, first_address)| {
            let Properties { name: path, capacity_bytes: size_bytes, .. } = at(lane)?;
            let (role, sides, mirrors) = (role.to_owned(), Vec::new(), Vec::new());
            Some(Self { role, position, path, size_bytes, first_address, sides, mirrors })
        })
        .collect()
    }

    /// One line each for people, if there are data devices: one disk was named by whoever asks. And one for each side that may rest,
    /// and for each mirror whose members are apart.
    pub fn lines(devices: &[Self]) -> Vec<String> {
        let is_alone = devices.iter().all(|device| device.position.is_none());
        let lines = |device: &Self| {
            let own = (!is_alone).then(|| device.line(devices));
            let sides = device.sides.iter().map(SideReport::line);
            let mirrors = device.mirrors.iter().flat_map(MirrorReport::lines);
            own.into_iter().chain(sides).chain(mirrors).collect::<Vec<_>>()
        };
        devices.iter().flat_map(lines).collect()
    }

    fn line(&self, all: &[Self]) -> String {
        let Self { role, position, path, size_bytes, first_address, .. } = self;
        // The first link, and the first log device, is the volume's own device.
        let with_homes = all.iter().filter(|device| device.role == "data").count() as u8;
        let number = match (role.as_str(), position) {
            ("link", at) => Some(at.map_or(0, |at| at + 1)),
            ("log", Some(at)) => Some((at + 1).saturating_sub(with_homes)),
            (_, at) => *at,
        };
        let number = number.map_or(String::new(), |number| format!(" {number}"));
        let name = if role == "link" { role.clone() } else { format!("{role} device") };
        let from = first_address.map_or(String::new(), |at| format!(", device bytes from {at} on"));
        format!("{name}{number}: {path}, {}{from}", ByteSize(*size_bytes))
    }
}

fn disk_at(lanes: &Lanes<Box<dyn Disk + Send>>, lane: Lane) -> Option<&dyn Disk> {
    let disk = match (lane, lane.data_position()) {
        (Lane::MAIN, _) => Some(lanes.main()),
        (_, Some(position)) => lanes.data().get(usize::from(position)),
        (_, None) => lanes.map(),
    };
    disk.map(|disk| &**disk as &dyn Disk)
}
