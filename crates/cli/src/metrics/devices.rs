//! Metrics of single devices: each with its number, the volume's own 0, and its path.

use super::exposition::{Exposition, Kind};
use crate::report::{
    DeviceReport, Link, LogDisk, MirrorReport, ReplacingReport, RestCommandReport, SideReport,
    StatusReport,
};
use std::fmt::Display;

/// What is told of one.
type Value<T, N> = fn(&T) -> N;

/// The number of a device, as text.
fn lane(device: &DeviceReport) -> String {
    device.position.map_or(0, |position| u32::from(position) + 1).to_string()
}

/// Those with this role, in their order: the one that is first is the volume's own.
fn with_role<'a>(
    report: &'a StatusReport,
    role: &'a str,
) -> impl Iterator<Item = &'a DeviceReport> {
    report.devices.iter().filter(move |device| device.role == role)
}

/// How large each is.
pub(super) fn sizes(all: &mut Exposition, report: &StatusReport) {
    let mut family =
        all.family("device_size_bytes", Kind::Gauge, "Size of a device that the volume lies on");
    for device in &report.devices {
        let lane = match device.role.as_str() {
            "map" | "cache" => device.role.clone(),
            _ => lane(device),
        };
        let labels = [("lane", lane.as_str()), ("disk", &device.path), ("role", &device.role)];
        family.sample(&labels, device.size_bytes);
    }
}

/// One family with a sample for each of several devices, which stand in the order of `devices`.
fn each<T, V: Display>(
    all: &mut Exposition,
    (name, help): (&str, &str),
    (report, role): (&StatusReport, &str),
    told: &[T],
    value: impl Fn(&T) -> V,
) {
    let mut family = all.family(name, Kind::Gauge, help);
    for (one, device) in told.iter().zip(with_role(report, role)) {
        family.sample(&[("lane", &lane(device)), ("disk", &device.path)], value(one));
    }
}

/// The devices of a chain.
pub(super) fn links(all: &mut Exposition, report: &StatusReport) {
    let links = &report.state.links;
    if links.is_empty() {
        return;
    }
    let values: [(&str, &str, Value<Link, u64>); 4] = [
        ("link_tail", "1 of the device of a chain that takes records", |link| {
            u64::from(link.role == "tail")
        }),
        (
            "link_out_of_use",
            "1 of a device of a chain that is lost, or closed to records",
            |link| u64::from(matches!(link.role.as_str(), "lost" | "closed")),
        ),
        ("link_logs_free", "Logs of a device of a chain that may be begun anew", |link| {
            u64::from(link.logs_free)
        }),
        ("link_needed_bytes", "Bytes on a device of a chain that are needed", |link| {
            link.needed_bytes
        }),
    ];
    for (name, help, value) in values {
        each(all, (name, help), (report, "link"), links, value);
    }
}

/// Several log disks.
pub(super) fn log_disks(all: &mut Exposition, report: &StatusReport) {
    let disks = &report.state.log_disks;
    if disks.is_empty() {
        return;
    }
    let values: [(&str, &str, Value<LogDisk, u64>); 2] = [
        ("log_disk_out_of_use", "1 of a log disk that is lost, or closed to records", |disk| {
            u64::from(matches!(disk.state.as_str(), "lost" | "closed"))
        }),
        ("log_disk_needed_bytes", "Bytes on a log disk that are needed", |disk| disk.needed_bytes),
    ];
    for (name, help, value) in values {
        each(all, (name, help), (report, "log"), disks, value);
    }
}

/// The sides of mirrors that may rest; which device they are a side of is told as well.
pub(super) fn sides(all: &mut Exposition, report: &StatusReport) {
    if report.devices.iter().all(|device| device.sides.is_empty()) {
        return;
    }
    let values: [(&str, Kind, &str, Value<SideReport, f64>); 3] = [
        ("side_resting", Kind::Gauge, "1 of a side of a mirror that rests", |side| {
            f64::from(u8::from(side.is_resting))
        }),
        (
            "side_idle_seconds",
            Kind::Gauge,
            "Since a side of a mirror had something to do",
            |side| side.idle_s.floor(),
        ),
        (
            "side_rested_seconds_total",
            Kind::Counter,
            "For how long a side of a mirror rested in all",
            |side| side.rested_s.floor(),
        ),
    ];
    for (name, kind, help, value) in values {
        let mut family = all.family(name, kind, help);
        each_side(report, |labels, side| family.sample(labels, value(side)));
    }
    let help = "How often a side of a mirror was woken, by what it was asked";
    let mut family = all.family("side_woken_total", Kind::Counter, help);
    each_side(report, |labels, side| {
        for (by, times) in &side.woken_by {
            family.sample(&[labels, &[("by", by)]].concat(), *times);
        }
    });
    rest_commands(all, report);
}

/// What a program is told with that hears of sides that rest.
fn rest_commands(all: &mut Exposition, report: &StatusReport) {
    let mut sides = report.devices.iter().flat_map(|device| &device.sides);
    if sides.all(|side| side.command.is_none()) {
        return;
    }
    let values: [(&str, &str, Value<RestCommandReport, u64>); 2] = [
        ("side_commands_total", "Runs of the program that hears how a side rests", |told| {
            told.runs
        }),
        ("side_commands_failed_total", "Those of them that did not end well", |told| told.failed),
    ];
    for (name, help, value) in values {
        let mut family = all.family(name, Kind::Counter, help);
        each_side(report, |labels, side| {
            if let Some(told) = &side.command {
                family.sample(labels, value(told));
            }
        });
    }
}

/// Every side of every device, with its labels.
fn each_side(report: &StatusReport, mut tell: impl FnMut(&[(&str, &str)], &SideReport)) {
    for device in &report.devices {
        let lane = lane(device);
        for (side, told) in device.sides.iter().enumerate() {
            let side = side.to_string();
            tell(&[("lane", lane.as_str()), ("side", &side), ("disk", &told.path)], told);
        }
    }
}

/// Differences between the members of mirrors, and progress of a replacement.
pub(super) fn mirrors(all: &mut Exposition, report: &StatusReport) {
    if report.devices.iter().all(|device| device.mirrors.is_empty()) {
        return;
    }
    let values: [(&str, &str, Value<MirrorReport, u64>); 2] = [
        (
            "mirror_dirty_bytes",
            "What a member of a mirror that is away would be copied if it came back now",
            |mirror| mirror.dirty_bytes,
        ),
        ("mirror_left_bytes", "Bytes still to be copied or compared", |mirror| mirror.left_bytes),
    ];
    for (name, help, value) in values {
        let mut family = all.family(name, Kind::Gauge, help);
        each_mirror(report, |labels, mirror| {
            let [lane, number, disk] = labels;
            family.sample(&[lane, number, disk], value(mirror));
        });
    }
    replacements(all, report);
}

/// Every mirror of every device, with its labels.
fn each_mirror(report: &StatusReport, mut visit: impl FnMut([(&str, &str); 3], &MirrorReport)) {
    for device in &report.devices {
        let lane = lane(device);
        for (number, mirror) in device.mirrors.iter().enumerate() {
            let number = number.to_string();
            visit([("lane", &lane), ("mirror", &number), ("disk", &mirror.path)], mirror);
        }
    }
}

/// Progress of a member that replaces another one, while one does.
fn replacements(all: &mut Exposition, report: &StatusReport) {
    let mut mirrors = report.devices.iter().flat_map(|device| &device.mirrors);
    if mirrors.all(|mirror| mirror.replacing.is_none()) {
        return;
    }
    let values: [(&str, &str, Value<ReplacingReport, u64>); 3] = [
        (
            "mirror_replacing_size_bytes",
            "Bytes that a disk which replaces a member of a mirror is to hold",
            |replacing| replacing.size_bytes,
        ),
        ("mirror_replacing_left_bytes", "Bytes of them still to be copied", |replacing| {
            replacing.left_bytes
        }),
        (
            "mirror_replacing_failed",
            "1 once that disk has failed and is used no more",
            |replacing| u64::from(replacing.failed.is_some()),
        ),
    ];
    for (name, help, value) in values {
        let mut family = all.family(name, Kind::Gauge, help);
        each_mirror(report, |[lane, number, disk], mirror| {
            if let Some(replacing) = &mirror.replacing {
                let new = ("new", replacing.new.as_str());
                family.sample(&[lane, number, disk, new], value(replacing));
            }
        });
    }
}
