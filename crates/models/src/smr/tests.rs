//! Laws of shingled disks: what every disk keeps, and what bands, cache and surfaces cost.

use super::*;
use crate::model_laws::{
    a_power_cut_tears_only_what_was_not_safe, give, next, polling_late_changes_nothing, read,
    reads_return_the_last_write, run, write,
};
use crate::{MemoryStore, Model};
use nearhead_basics::SplitMix;
use nearhead_disk::DiskErrorKind;

fn profile(kind: &str) -> SmrProfile {
    SmrProfile::named(&format!("st8000as0002{kind}")).unwrap()
}

fn model(profile: &SmrProfile) -> SmrModel {
    SmrModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap()
}

/// A drive-managed disk whose cache is soon full.
fn small_cache(bytes: u64) -> SmrProfile {
    let mut profile = profile("");
    profile.shingled.persistent_cache_bytes = bytes;
    profile
}

fn phantom(offset: u64, len: u32) -> Command {
    Command::Write { offset, parts: vec![Payload::Phantom(len as usize)], durable: false }
}

/// Every kind, with ranges at the edges of bands and surfaces.
fn kinds() -> Vec<(SmrProfile, Vec<Range<u64>>)> {
    let mut kinds = Vec::new();
    for (name, in_use) in
        [("", true), ("", false), ("-slsmr", true), ("-mlsmr", true), ("-mlsmr", false)]
    {
        let mut profile = profile(name);
        profile.shingled.bands_in_use = in_use;
        let layout = Layout::new(&profile).unwrap();
        let middle =
            layout.band_of(layout.sectors() / 2).or_else(|| layout.band_of(1 << 25)).unwrap();
        let edges = [middle.start, middle.end];
        let mut places: Vec<Range<u64>> =
            edges.iter().map(|edge| (edge - 64) * 512..(edge + 64) * 512).collect();
        places.push(0..1 << 16);
        if let Some(free) = layout.zones(512).unwrap().nearest_non_shingled(middle.start * 512) {
            places.push(free.end - 32768..free.end + 32768);
        }
        kinds.push((profile, places));
    }
    kinds
}

fn check_all(law: impl Fn(&dyn Fn(bool) -> Box<dyn Model>, &[Range<u64>])) {
    for (profile, places) in kinds() {
        let make = |cache| -> Box<dyn Model> {
            let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
            Box::new(SmrModel::new(&profile, Box::new(MemoryStore::new()), options).unwrap())
        };
        law(&make, &places);
    }
}

#[test]
fn reads_return_the_last_write_through_appends_rewrites_and_cleaning() {
    check_all(|make, places| reads_return_the_last_write(make, places, Nanos::from_secs(4)));
}

#[test]
fn polling_late_changes_neither_times_nor_bytes_nor_order() {
    check_all(polling_late_changes_nothing);
}

#[test]
fn a_power_cut_keeps_what_was_durable_and_tears_the_rest_by_physical_sectors() {
    check_all(|make, places| {
        // A band of the first kinds, the non-shingled range of the last.
        a_power_cut_tears_only_what_was_not_safe(make, &(places[1].start..places[1].start + 65536));
        if let Some(free) = places.get(3) {
            a_power_cut_tears_only_what_was_not_safe(make, &(free.start..free.start + 32768));
        }
    });
}

#[test]
fn cleaning_a_band_takes_as_long_as_was_measured() {
    let profile = profile("");
    let mut disk = model(&profile);
    let capacity = disk.properties().capacity_bytes;
    let mut at = Nanos::ZERO;
    for tenth in 0..10 {
        let before = disk.stats();
        at = run(&mut disk, at, phantom(capacity / 10 * tenth / 4096 * 4096, 4096));
        at += Nanos::from_secs(10);
        assert!(disk.poll(at).is_none());
        let after = disk.stats();
        assert_eq!(after.bands_rewritten - before.bands_rewritten, 1, "one block, one band");
        let seconds = (after.band_ns - before.band_ns) as f64 / 1e9;
        assert!((0.6..=1.6).contains(&seconds), "at {tenth} tenths: {seconds} s a band");
        assert_eq!((after.cache_entries, after.bands_forced), (0, 0));
    }
}

#[test]
fn nothing_is_cleaned_before_the_host_stayed_away_long_enough() {
    let mut disk = model(&profile(""));
    let at = run(&mut disk, Nanos::ZERO, phantom(1 << 40, 4096));
    assert!(disk.poll(at + Nanos::from_millis(999)).is_none());
    assert_eq!((disk.stats().bands_rewritten, disk.stats().drive.served.reads), (0, 0));
    assert!(disk.poll(at + Nanos::from_secs(10)).is_none());
    assert_eq!(disk.stats().bands_rewritten, 1);
    assert_eq!(disk.wake_at(), None, "there is nothing left to do");
}

#[test]
fn what_is_written_while_its_band_is_cleaned_stays_in_the_cache() {
    let mut disk = model(&profile(""));
    let at = run(&mut disk, Nanos::ZERO, phantom(1 << 40, 4096));
    let at = at + Nanos::from_millis(1200);
    let _ = disk.poll(at);
    assert!(disk.stats().drive.served.reads > 0 && disk.stats().bands_rewritten == 0, "half-way");
    let at = run(&mut disk, at, phantom(1 << 40, 4096));
    assert!(disk.poll(at + Nanos::from_secs(20)).is_none());
    assert_eq!((disk.stats().bands_rewritten, disk.stats().cache_entries), (2, 0));
}

#[test]
fn a_host_that_comes_back_waits_for_a_part_of_a_band_at_most() {
    let mut disk = model(&profile(""));
    let at = run(&mut disk, Nanos::ZERO, phantom(1 << 40, 4096));
    for wait_ms in [1100, 1300, 1500, 1700] {
        let start = at + Nanos::from_millis(wait_ms * 10);
        let start = run(&mut disk, start, phantom(1 << 40, 4096)) + Nanos::from_millis(wait_ms);
        let _ = disk.poll(start);
        let end = run(&mut disk, start, Command::Read { offset: 1 << 42, len: 4096 });
        // Three steps of 1 MiB, then a seek over half of the disk.
        assert!(end.since(start) < Nanos::from_millis(110), "{}", end.since(start));
    }
}

#[test]
fn a_cached_block_is_read_from_the_cache_until_its_band_is_cleaned() {
    let mut disk = model(&profile(""));
    let place = 7_000_000_000_000 / 4096 * 4096;
    let at = run(&mut disk, Nanos::ZERO, phantom(place, 4096));
    let end = run(&mut disk, at, Command::Read { offset: place, len: 4096 });
    assert_eq!(disk.stats().cached_reads, 1);
    // The head is where the log is; the band is most of a stroke away.
    assert!(end.since(at) < Nanos::from_millis(13), "{}", end.since(at));
    let seeks = disk.stats().drive.seek_ns;
    let at = end + Nanos::from_secs(20);
    run(&mut disk, at, Command::Read { offset: place, len: 4096 });
    assert_eq!((disk.stats().cached_reads, disk.stats().bands_rewritten), (1, 1));
    assert!(disk.stats().drive.seek_ns > seeks + 10_000_000, "now it is at home");
}

#[test]
fn small_writes_are_fast_until_the_cache_is_full_and_then_collapse() {
    let mut disk = model(&small_cache(80_000_000));
    let blocks = disk.properties().capacity_bytes / 4096;
    let mut random = SplitMix::new(5);
    let mut at = Nanos::ZERO;
    let mut rate = |disk: &mut SmrModel, count: u64| {
        let start = at;
        for _ in 0..count {
            at = run(disk, at, phantom(random.below(blocks) * 4096, 4096));
        }
        count as f64 / at.since(start).as_secs_f64()
    };
    let fast = rate(&mut disk, 3000);
    assert_eq!((disk.stats().stalls, disk.stats().bands_rewritten), (0, 0));
    while disk.stats().stalls == 0 {
        let _ = rate(&mut disk, 100);
    }
    let slow = rate(&mut disk, 100);
    assert!(disk.stats().bands_forced > 90, "{:?}", disk.stats());
    // A log costs about a revolution a write; a band costs about a second.
    assert!(fast > 50.0 && slow < 3.0, "{fast} and then {slow} writes a second");
    let used = disk.stats().cache_used_bytes;
    assert!(used <= 80_000_000 + 39_000_000, "{used}");
}

#[test]
fn a_new_disk_takes_a_sequential_fill_at_the_media_rate_and_a_used_one_does_not_for_ever() {
    let rate = |in_use| {
        let mut profile = small_cache(200_000_000);
        profile.shingled.bands_in_use = in_use;
        let mut disk = model(&profile);
        let (mut sent, mut last) = (0, Nanos::ZERO);
        for done in 0..1000_u64 {
            while sent < (done + 4).min(1000) {
                give(&mut disk, sent, phantom(sent << 20, 1 << 20), last);
                sent += 1;
            }
            (last, _) = next(&mut disk);
        }
        (1000.0 * 1.048_576 / last.as_secs_f64(), disk.stats())
    };
    let (new, stats) = rate(false);
    assert_eq!((stats.append_bytes, stats.direct_bytes), (0, 1000 << 20));
    assert!((150.0..195.0).contains(&new), "{new} MB/s");
    let (used, stats) = rate(true);
    assert_eq!(stats.direct_bytes, 0);
    assert!(used < 0.5 * new && stats.bands_forced > 10, "{used} MB/s, {stats:?}");
}

#[test]
fn a_write_in_order_costs_a_write_and_one_against_it_costs_the_band() {
    for kind in ["-slsmr", "-mlsmr"] {
        let mut disk = model(&profile(kind));
        let zones = disk.zones().unwrap().clone();
        let capacity = disk.properties().capacity_bytes;
        let band = zones.bands().find(|band| band.start > capacity / 2).unwrap();
        let mut at = Nanos::ZERO;
        let mut took = |disk: &mut SmrModel, command| {
            let start = at;
            at = run(disk, at, command);
            at.since(start).as_secs_f64()
        };
        let against = took(&mut disk, phantom(band.start + 8192, 4096));
        assert!((0.6..=1.6).contains(&against), "{kind}: {against} s");
        took(&mut disk, Command::Trim { offset: band.start, len: band.end - band.start });
        for step in 0..4 {
            let in_order = took(&mut disk, phantom(band.start + step * 4096, 4096));
            assert!(in_order < 0.05, "{kind}: {in_order} s");
        }
        let again = took(&mut disk, phantom(band.start + 4096, 4096));
        assert!(again > 0.03, "{kind}: little was in the band: {again} s");
        assert_eq!(disk.stats().bands_rewritten, 2, "{kind}");
        let free = zones.nearest_non_shingled(band.start).unwrap();
        for step in [3, 1, 2, 1] {
            let in_place = took(&mut disk, phantom(free.start + step * 4096, 4096));
            assert!(in_place < 0.05, "{kind}: {in_place} s");
        }
        assert_eq!(disk.stats().bands_rewritten, 2, "{kind}: no band for a non-shingled range");
    }
}

#[test]
fn writes_that_wait_for_the_same_band_share_its_rewriting() {
    let mut disk = model(&profile("-mlsmr"));
    let band = disk.zones().unwrap().bands().nth(1000).unwrap();
    for id in 0..16 {
        give(&mut disk, id, phantom(band.start + id * 65536, 4096), Nanos::ZERO);
    }
    let ends: Vec<Nanos> = (0..16).map(|_| next(&mut disk).0).collect();
    assert_eq!(disk.stats().bands_rewritten, 1);
    assert_eq!(ends.first(), ends.last(), "all are done when the band is");
}

#[test]
fn a_host_managed_disk_refuses_what_is_out_of_order_and_says_where_to_write() {
    let mut profile = profile("-mlsmr");
    profile.shingled.out_of_order = OutOfOrder::Refuse;
    profile.shingled.bands_in_use = false;
    let mut disk =
        SmrModel::new(&profile, Box::new(MemoryStore::new()), HddOptions::default()).unwrap();
    let band = disk.zones().unwrap().bands().nth(10).unwrap();
    let at = run(&mut disk, Nanos::ZERO, write(band.start, 1, 8192, true));
    give(&mut disk, 1, write(band.start + 4096, 2, 4096, true), at);
    let (at, done) = next(&mut disk);
    let error = done.result.unwrap_err();
    let expected = format!("expected one from byte {} on", band.start + 8192);
    assert!(error.detail.contains(&expected) && error.kind == DiskErrorKind::Io, "{error}");
    let (at, found) = read(&mut disk, at, band.start..band.start + 8192);
    assert_eq!(found, [1; 8192], "nothing was changed");
    let at = run(&mut disk, at, Command::Trim { offset: band.start, len: band.end - band.start });
    let at = run(&mut disk, at, write(band.start, 3, 4096, true));
    let (_, found) = read(&mut disk, at, band.start..band.start + 8192);
    assert_eq!(
        (&found[..4096], &found[4096..]),
        (&[3; 4096][..], &[0; 4096][..]),
        "trimmed is gone"
    );
}

#[test]
fn changing_to_the_other_kind_of_surface_costs_tens_to_hundreds_of_microseconds_the_same_each_time()
{
    let profile = profile("-mlsmr");
    let (disk, aligned) = (
        model(&profile),
        HddModel::new(&profile.drive, Box::new(Dataless), HddOptions::default()).unwrap(),
    );
    let (misaligned, aligned) = (disk.drive().mechanics(), aligned.mechanics());
    let geometry = aligned.geometry();
    let mut random = SplitMix::new(1);
    let mut found = Vec::new();
    for _ in 0..2000 {
        let from = random.below(geometry.blocks());
        let to = (from + random.below(2_000_000)).min(geometry.blocks() - 1);
        let seek = |parts: &crate::Mechanics| {
            parts.transfer(parts.arm_at(from), Nanos(77), to, 1, false).seek_ns
        };
        let (a, b) = (geometry.locate(from).head == 0, geometry.locate(to).head == 0);
        let more = seek(misaligned) - seek(aligned);
        assert_eq!(more, seek(misaligned) - seek(aligned), "decided by the tracks");
        if a == b {
            assert_eq!(more, 0, "surfaces of one kind are aligned");
        } else {
            assert!((20_000..=300_000).contains(&more), "{more} ns");
            found.push(more);
        }
    }
    let mean = found.iter().sum::<u64>() / found.len() as u64;
    assert!(found.len() > 100 && (150_000..170_000).contains(&mean), "{mean} of {}", found.len());
}

#[test]
fn zeroing_whole_bands_reads_none_of_them() {
    let mut disk = model(&profile("-mlsmr"));
    let bands: Vec<_> = disk.zones().unwrap().bands().skip(30).take(3).collect();
    let (offset, end) = (bands[0].start, bands[2].end);
    let at = run(
        &mut disk,
        Nanos::ZERO,
        Command::WriteZeroes { offset, len: end - offset, durable: false },
    );
    assert_eq!((disk.stats().drive.served.reads, disk.stats().bands_rewritten), (0, 0));
    let rate = (end - offset) as f64 / 1e6 / at.as_secs_f64();
    assert!((140.0..195.0).contains(&rate), "{rate} MB/s");
}
