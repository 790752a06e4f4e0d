//! Chains of striped links (Gecko, section 4, "Striping"): what clients who write 64 KiB at random get of a chain whose links are two drives
//! each, beside one whose links are one, before its body is cleaned and while it is.
//!
//! The first link is full when the measurement begins; cleaning may begin 30 s later, and compacts in the body. The bound is what the drives of
//! one link take by themselves, written from their start in large transfers.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::gecko_cleaning::{BEFORE, in_body, written_through};
use crate::lab::Lab;
use crate::report::{Data, Report, Row};
use crate::rig::{self, FigureDisk, SATA, System};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions, Workload};
use nearhead_volume::Volume;

const DRIVE: &str = rig::CHEETAH;
/// So much of each drive is used.
const DRIVE_BYTES: u64 = 8 << 30;
const LINKS: u32 = 2;
const WRITE_BYTES: u32 = 64 << 10;
/// Writes outstanding: several records full of them.
const OUTSTANDING: u32 = 256;
/// After either began.
const SETTLED: Nanos = Nanos::from_secs(2);

/// One link.
fn link(drives: u32) -> Result<FigureDisk, FigureError> {
    if drives == 1 { rig::hard_disk(DRIVE, SATA) } else { rig::striped(DRIVE, drives, SATA, false) }
}

fn volume(drives: u32) -> Result<Volume<FigureDisk>, FigureError> {
    let system = System { configure: in_body, ..System::of_preset("gecko")? };
    let links: Result<Vec<FigureDisk>, FigureError> = (0..LINKS).map(|_| link(drives)).collect();
    rig::chain(links?, &system, u64::from(drives) * DRIVE_BYTES, |_| ())
}

/// MB/s of clients before the body is cleaned, while it is, and what is copied then.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    before: f64,
    during: f64,
    copied: f64,
    one_link: f64,
}

fn run(drives: u32, measured: Nanos) -> Result<Found, FigureError> {
    let what = format!("{LINKS} links of {drives}");
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let mut volume = volume(drives)?;
    let mut writer = RandomMix::new(RandomMixOptions {
        span: 0..volume.info().size_bytes,
        request_bytes: WRITE_BYTES,
        reads: 0.0,
        fua: true,
        outstanding_max: OUTSTANDING,
        requests_max: None,
        content: Content::Phantom,
        seed: 1,
    });
    let mut time = VirtualTime::default();
    let half = volume.engine().log_count() / LINKS;
    while volume.engine().newest_log() < half {
        let until = time.now() + Nanos::from_millis(100);
        time.run(&mut volume, &mut [&mut writer], until).map_err(stuck)?;
    }
    let from = time.now();
    let bytes = u64::from(drives) * DRIVE_BYTES;
    let one_link = written_through(link(drives)?, bytes, drives << 20, measured)?;
    let mut found = Found { one_link, ..Found::default() };
    for (is_cleaned, at) in [(false, SETTLED), (true, BEFORE + SETTLED)] {
        time.run(&mut volume, &mut [&mut writer], from + at).map_err(stuck)?;
        writer.start_measuring(time.now());
        let copied = volume.status().stats.compacted_bytes;
        time.run(&mut volume, &mut [&mut writer], from + at + measured).map_err(stuck)?;
        let tally = writer.writes().summary(time.now());
        succeeded(&what, &[&tally])?;
        let mb_per_s = tally.bytes_per_s / 1e6;
        if is_cleaned {
            let copied = volume.status().stats.compacted_bytes - copied;
            (found.during, found.copied) = (mb_per_s, copied as f64 / measured.as_secs_f64() / 1e6);
        } else {
            found.before = mb_per_s;
        }
    }
    Ok(found)
}

/// The figure.
pub(crate) fn gecko_stripe(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(20, 10, 2));
    let steps = [1, 2].map(|drives| (format!("{LINKS} links of {drives}"), drives));
    let done = lab.each("gecko-stripe", steps.to_vec(), |_, drives| run(drives, measured))?;
    let [one, two] = [0, 1].map(|case| done[case]);
    let row = |told: &str, of: fn(&Found) -> f64| {
        let row = Row::new(format!("bandwidth of clients, {told}"), "MB/s");
        row.baseline(of(&one)).ours(of(&two)).limit(two.one_link)
    };
    let rows = vec![
        row("before cleaning", |found| found.before),
        row("while the body is compacted", |found| found.during),
        Row::new("copied meanwhile", "MB/s").baseline(one.copied).ours(two.copied),
        Row::new("one link by itself", "MB/s").baseline(one.one_link).ours(two.one_link),
        Row::new("two drives a link over one, before cleaning", "x")
            .ours(two.before / one.before.max(1e-9))
            .limit(2.0),
    ];
    let mut data = Data::new(
        "links",
        &["drives_a_link", "before_mb_s", "during_mb_s", "copied_mb_s", "link_mb_s"],
    );
    for (drives, found) in [(1, one), (2, two)] {
        let values = [found.before, found.during, found.copied, found.one_link];
        let mut row = vec![drives.to_string()];
        row.extend(values.map(|value| format!("{value:.2}")));
        data.rows.push(row);
    }
    Ok(Report {
        name: "gecko-stripe",
        title: "Gecko, striping: a chain of striped links".to_owned(),
        ran: format!(
            "A chain (preset gecko, compacted in its body) of {LINKS} links, the first {} GiB of each {DRIVE}, write caches off: 'baseline' with one drive a link, 'ours' with a RAID-0 of two in chunks \
             of 64 KiB. Writes of 64 KiB to random places, {OUTSTANDING} outstanding, each answered once it is durable; the first link is full when it begins. 'physical limit' is one link of two \
             drives by itself, written from its start. {} s each, cleaning may begin after {} s.",
            DRIVE_BYTES >> 30,
            measured.as_secs_f64(),
            BEFORE.as_secs_f64(),
        ),
        differs: vec!["The paper proposes it and measures no chain of striped links.".to_owned()],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
