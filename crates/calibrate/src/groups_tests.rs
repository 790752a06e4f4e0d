//! The search for groups against a zone of which all is known.

use crate::findings::Zone;
use crate::groups::{GroupSearch, Groups};
use crate::prober::Ask;
use crate::staircase::Shape;
use crate::tracks::Bounds;

const SECTORS: u64 = 200_000;

fn cylinders(first: i64, missing: i64) -> Shape {
    let (per_track, group_tracks) = (85, 17);
    let group_sectors = group_tracks * per_track - missing;
    let (skew, group_skew) = (2.0 / 85.0, 16.0 / 85.0);
    Shape { first, per_track, group_tracks, group_sectors, skew, group_skew }
}

/// What is searched from sector `first` on, which may be `within` sectors behind the zone's beginning.
fn zone(first: i64, within: i64) -> Zone {
    Zone {
        first_byte: first as u64 * 512,
        begins_within_bytes: within as u64 * 512,
        sectors_per_track: 85,
        skew_turns: 2.0 / 85.0,
        tracks_probed: 9,
        tracks_alike: 9,
        group_tracks: 0,
        group_missing_sectors: 0,
        group_skew_turns: 0.0,
        foretold: 0,
        foretold_of: 0,
    }
}

fn search(zone: &Zone, answer: impl Fn(i64) -> f64) -> (Option<Groups>, u32) {
    let bounds = Bounds { unit: 1, sectors: SECTORS, spread: 0.001 };
    let mut search = GroupSearch::new(zone, 512, SECTORS, &bounds);
    let mut asked = 0;
    while let Some(sector) = search.ask() {
        asked += 1;
        assert!(asked < 1000, "{search:?}");
        assert!(sector < SECTORS, "{search:?}");
        search.answer(Some(answer(sector as i64).rem_euclid(1.0)));
    }
    (search.found(), asked)
}

#[test]
fn groups_are_found_from_wherever_in_one_the_zone_begins_to_be_known() {
    for missing in [0, 1, 6, 40] {
        let shape = cylinders(70_000, missing);
        for track in 0..17 {
            let known_from = 70_000 + shape.group_sectors + track * 85;
            let (found, asked) = search(&zone(known_from, 2000), |sector| shape.angle(sector));
            let found = found.unwrap_or_else(|| panic!("{missing} missing, from track {track}"));
            let told = (found.shape.group_tracks, found.shape.missing());
            assert_eq!(told, (17, missing), "from track {track}");
            assert!((found.shape.group_skew - 16.0 / 85.0).abs() < 1e-6, "{found:?}");
            assert_eq!((found.begins - 70_000) % shape.group_sectors, 0, "{found:?}");
            assert!(asked < 250, "{asked}");
        }
    }
}

#[test]
fn a_zone_begins_with_the_first_group_that_is_where_its_groups_have_it() {
    let (shape, other) = (cylinders(70_000, 6), Shape { skew: 0.31, ..cylinders(11, 6) });
    let there = |sector: i64| {
        if sector < 70_000 { other.angle(sector) + 0.4 } else { shape.angle(sector) }
    };
    for groups in 0..9 {
        let known_from = 70_000 + groups * shape.group_sectors + 5 * 85;
        let (found, _) = search(&zone(known_from, 30_000), there);
        let found = found.unwrap();
        assert_eq!(found.begins, 70_000, "{groups} groups after it");
        assert!(found.begins_after > 70_000 - shape.group_sectors, "{found:?}");
    }
}

#[test]
fn sectors_that_lie_elsewhere_change_nothing() {
    let shape = cylinders(0, 6);
    for elsewhere in 0..20 {
        let there = |sector: i64| {
            let is_odd = sector % 20 == elsewhere && sector % 7 == 0;
            shape.angle(sector) + if is_odd { 0.4 } else { 0.0 }
        };
        let found = search(&zone(0, 0), there).0.unwrap_or_else(|| panic!("every {elsewhere}th"));
        assert_eq!(found.begins, 0, "{elsewhere}");
        assert_eq!((found.shape.group_tracks, found.shape.missing()), (17, 6), "{elsewhere}");
    }
}

#[test]
fn where_a_track_was_counted_wrong_groups_set_it_right() {
    let shape = Shape { skew: 0.12, ..cylinders(0, 6) };
    for sectors_per_track in [84, 85, 86] {
        let zone = Zone { sectors_per_track, skew_turns: 0.12, ..zone(0, 0) };
        let found = search(&zone, |sector| shape.angle(sector)).0.unwrap();
        let told = (found.shape.per_track, found.shape.group_tracks, found.shape.missing());
        assert_eq!(told, (85, 17, 6), "{sectors_per_track} sectors");
    }
}

#[test]
fn where_tracks_follow_each_other_evenly_and_where_angles_say_nothing_there_are_no_groups() {
    let plain = Shape::plain(0, 85, 2.0 / 85.0);
    let (found, asked) = search(&zone(0, 0), |sector| plain.angle(sector));
    assert!(found.is_none() && asked < 250, "{found:?}, {asked} questions");
    let noise = |sector: i64| f64::from((sector * 7919 % 1009) as u32) / 1009.0;
    assert!(search(&zone(0, 0), noise).0.is_none());
}

#[test]
fn groups_that_show_where_a_zone_begins_and_nowhere_else_are_none() {
    let shape = cylinders(0, 6);
    let there = |sector: i64| {
        let noise = f64::from((sector * 7919 % 1009) as u32) / 1009.0;
        if sector < 12_000 { shape.angle(sector) } else { noise }
    };
    assert!(search(&zone(0, 0), there).0.is_none());
}
