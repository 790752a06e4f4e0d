//! Laws of the detailed exchange: what a host waits for, and that data in time cost nothing.

use crate::measured::{MeasuredRequest, replay};
use crate::{Dataless, ExchangeSpec, HddModel, HddOptions, Profile};
use nearhead_disk::Nanos;

fn exchange() -> ExchangeSpec {
    ExchangeSpec {
        read_seek_ms: [0.3, 0.5],
        read_hit_ms: [0.1, 0.2],
        read_reconnect_ms: 0.0,
        read_enough: 0.0,
        read_keeps_interface: false,
        read_end_ms: 0.05,
        write_seek_ms: [0.4, 0.6],
        write_data_ms: [0.4, 0.6],
        write_seek_least_ms: 0.0,
        write_end_ms: 0.07,
        cached_write_data_ms: [0.15, 0.25],
        cached_write_end_ms: 0.02,
        read_ahead_end_ms: 0.0,
    }
}

/// The embedded drive with the exchange, and an interface of so many MB/s.
fn drive(megabytes_per_s: f64) -> Profile {
    let mut profile = Profile::named("st3146855fc").unwrap();
    profile.command.exchange = Some(exchange());
    profile.seek.late_share = 0.0;
    profile.cache.read_ahead_sectors = 0;
    profile.interface.megabytes_per_s = megabytes_per_s;
    profile
}

fn request(write: bool, lbn: u64, sectors: u32) -> MeasuredRequest {
    MeasuredRequest { write, lbn, sectors, response_ms: 0.0, think: Nanos::from_millis(20) }
}

fn times(profile: &Profile, requests: &[MeasuredRequest]) -> Vec<f64> {
    let mut disk = HddModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap();
    replay(&mut disk, requests.iter().copied()).unwrap()
}

#[test]
fn a_hit_takes_its_overhead_the_interface_and_the_end() {
    let profile = drive(5.12);
    let read = request(false, 4000, 8);
    let found = times(&profile, &[read, read]);
    // 8 sectors at 0.1 ms each.
    let expected = 0.1 + 0.8 + 0.05;
    assert!((found[1] - expected).abs() < 0.001, "{found:?}, expected {expected}");
}

#[test]
fn overheads_depend_on_what_was_done_before() {
    let profile = drive(5.12);
    let read = request(false, 4000, 8);
    let found = times(&profile, &[read, request(true, 90_000_000, 8), read]);
    let expected = 0.2 + 0.8 + 0.05;
    assert!((found[2] - expected).abs() < 0.001, "{found:?}, expected {expected}");
}

#[test]
fn a_write_whose_data_are_late_waits_for_whole_revolutions() {
    let period_ms = Profile::named("st3146855fc").unwrap().period_ns as f64 / 1e6;
    let requests: Vec<MeasuredRequest> =
        (1..60).map(|step| request(true, step * 4_000_037, 64)).collect();
    let fast = times(&drive(1e6), &requests);
    let mut slow = drive(1e6);
    // A sector takes 0.1 ms to come in, about thirty times as long as to be written.
    slow.interface.write_megabytes_per_s = Some(5.12);
    let mut late = 0;
    let mut shifted_ns = 0.0;
    for (index, (fast, slow)) in fast.iter().zip(times(&slow, &requests)).enumerate() {
        let more = (slow - fast - shifted_ns).abs() / period_ms;
        late += usize::from(more > 0.5);
        assert!((more - more.round()).abs() < 0.02, "request {index}: {more} revolutions more");
        // Completions stay at the same angle, so later requests start at the same phase.
        shifted_ns = 0.0;
    }
    assert!(late > 30, "{late} of {} were late", requests.len());
}

#[test]
fn a_fast_interface_adds_one_sector_to_a_read() {
    let requests: Vec<MeasuredRequest> =
        (1..60).map(|step| request(false, step * 4_000_037, 64)).collect();
    let (free, fast) = (times(&drive(1e6), &requests), times(&drive(1000.0), &requests));
    for (free, fast) in free.iter().zip(fast) {
        let more = fast - free;
        // Or a revolution less where the later completion makes the next request come later.
        assert!(more > -0.001 && more < 0.002, "{more} ms more");
    }
}

#[test]
fn a_cached_write_is_told_once_its_data_are_in() {
    let mut profile = drive(5.12);
    profile.cache.write_cache = true;
    let found = times(&profile, &[request(true, 4000, 8)]);
    let expected = 0.15 + 0.8 + 0.02;
    assert!((found[0] - expected).abs() < 0.001, "{found:?}, expected {expected}");
}

#[test]
fn what_was_written_is_read_from_memory_only_where_the_drive_keeps_it() {
    let requests = [request(true, 4000, 8), request(false, 4000, 8)];
    let mut profile = drive(5.12);
    let forgets = times(&profile, &requests)[1];
    profile.cache.written_segments = 1;
    let keeps = times(&profile, &requests)[1];
    assert!((keeps - 1.05).abs() < 0.001 && forgets > 1.2, "{keeps} or {forgets}");
}

#[test]
fn without_a_read_cache_every_read_goes_to_the_medium() {
    let read = request(false, 4000, 8);
    let options = HddOptions { read_cache: Some(false), ..HddOptions::default() };
    let mut disk = HddModel::new(&drive(5.12), Box::new(Dataless), options).unwrap();
    replay(&mut disk, [read, read, read]).unwrap();
    assert_eq!(disk.stats().served.read_hits, 0);
}

#[test]
fn sectors_that_passed_by_are_hits_where_the_drive_keeps_them() {
    let mut profile = drive(1000.0);
    profile.cache.read_ahead_sectors = 0;
    let requests: Vec<MeasuredRequest> = (1..200)
        .flat_map(|step| {
            let lbn = step * 1_000_037;
            [request(false, lbn, 8), request(false, lbn - 8, 8)]
        })
        .collect();
    let hits = |profile: &Profile| {
        let mut disk = HddModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap();
        replay(&mut disk, requests.iter().copied()).unwrap();
        disk.stats().served.read_hits
    };
    assert_eq!(hits(&profile), 0);
    profile.cache.keeps_passing_sectors = true;
    // All but those just under the head on arrival, or at the start of their track.
    assert!(hits(&profile) > 150, "{}", hits(&profile));
}

/// The drive with reading ahead of so many sectors.
fn reads_ahead(sectors: u32) -> Profile {
    let mut profile = drive(1000.0);
    profile.cache.read_ahead_sectors = sectors;
    profile.cache.segment_sectors = sectors;
    profile.cache.segments = 2;
    profile
}

fn hits(profile: &Profile, requests: &[MeasuredRequest]) -> u64 {
    let mut disk = HddModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap();
    replay(&mut disk, requests.iter().copied()).unwrap();
    disk.stats().served.read_hits
}

#[test]
fn a_command_that_ends_a_read_ahead_is_looked_at_later_and_one_that_finds_it_ended_is_not() {
    let mut profile = reads_ahead(512);
    let mut soon = request(false, 4000, 8);
    soon.think = Nanos(200_000);
    let late = request(false, 4000, 8);
    let write = request(true, 4_000_000, 8);
    let period_ms = profile.period_ns as f64 / 1e6;
    let before = [soon, late].map(|first| times(&profile, &[first, write])[1]);
    profile.command.exchange.as_mut().unwrap().read_ahead_end_ms = period_ms;
    let after = [soon, late].map(|first| times(&profile, &[first, write])[1]);
    // A revolution later the head is where it was.
    assert!((after[0] - before[0] - period_ms).abs() < 0.001, "{before:?} {after:?}");
    assert!((after[1] - before[1]).abs() < 0.001, "{before:?} {after:?}");
}

#[test]
fn a_drive_may_read_ahead_only_of_what_goes_on() {
    let mut profile = reads_ahead(512);
    let at = |lbn| request(false, lbn, 8);
    let single = [at(4000), at(4100)];
    let going_on = [at(4000), at(4008), at(4100)];
    assert_eq!((hits(&profile, &single), hits(&profile, &going_on)), (1, 2));
    profile.cache.read_ahead_when_sequential = true;
    assert_eq!((hits(&profile, &single), hits(&profile, &going_on)), (0, 1));
}

#[test]
fn what_was_asked_for_is_given_up_to_reading_ahead_unless_the_drive_keeps_it() {
    let mut profile = reads_ahead(256);
    let again = [request(false, 4000, 8), request(false, 4000, 8)];
    let ahead = [request(false, 4000, 8), request(false, 4240, 8)];
    assert_eq!((hits(&profile, &again), hits(&profile, &ahead)), (0, 1));
    profile.cache.read_ahead_keeps_requested = true;
    assert_eq!((hits(&profile, &again), hits(&profile, &ahead)), (1, 1));
}

#[test]
fn a_head_that_wrote_takes_its_time_before_it_reads_on_the_same_track() {
    let mut profile = drive(1000.0);
    let period_ms = profile.period_ns as f64 / 1e6;
    let mut write = request(true, 4000, 8);
    let mut earliest = [f64::MAX; 2];
    for step in 0..400_u64 {
        write.think = Nanos(10_000_000 + step * 50_000);
        for (turn, earliest) in earliest.iter_mut().enumerate() {
            profile.seek.read_after_write_ms = 0.9 * turn as f64;
            let found = times(&profile, &[write, request(false, 4100, 8)])[1];
            *earliest = earliest.min(found);
        }
    }
    // Of all the places where the track may be, the luckiest is that much later.
    let more = earliest[1] - earliest[0];
    assert!((more - 0.9).abs() < 0.1, "{earliest:?}, a revolution takes {period_ms}");
}
