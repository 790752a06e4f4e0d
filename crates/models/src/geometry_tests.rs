//! Laws of the geometry: the map and its inverse agree, and skews are those of the profile.

use super::geometry::{Geometry, Layout, Skews, ZoneStart};
use crate::angle::Angle;
use proptest::prelude::*;

fn skews() -> Skews {
    Skews {
        next_cylinder: Angle::from_revolutions(0.14),
        next_head: Angle::from_revolutions(0.19),
        next_group: Angle::from_revolutions(0.37),
    }
}

fn zones(first_lbn: Option<u64>) -> [ZoneStart; 2] {
    [
        ZoneStart { first_cylinder: 0, sectors_per_track: 12, first_lbn: None },
        ZoneStart { first_cylinder: 150, sectors_per_track: 10, first_lbn },
    ]
}

proptest! {
    #[test]
    fn every_block_has_one_place_and_the_place_has_that_block(
        heads in 1_u16..7,
        run in proptest::option::of(1_u32..70),
    ) {
        let layout = run.map_or(Layout::Cylinder, |run| Layout::Serpentine { run });
        let blocks = u64::from(heads) * (150 * 12 + 83 * 10);
        let disk = Geometry::new(heads, 233, blocks, layout, skews(), &zones(None)).unwrap();
        for lbn in 0..blocks {
            let track = disk.locate(lbn);
            prop_assert!(track.first_lbn <= lbn && lbn < track.end_lbn());
            let sector = (lbn - track.first_lbn) as u32;
            prop_assert_eq!(disk.block_at(track.cylinder, track.head, sector), Some(lbn));
        }
        prop_assert_eq!(disk.block_at(233, 0, 0), None);
        prop_assert_eq!(disk.block_at(0, heads, 0), None);
    }

    #[test]
    fn neighbouring_tracks_are_turned_by_the_skew_of_their_step(
        heads in 1_u16..5,
        run in 2_u32..70,
    ) {
        let layout = Layout::Serpentine { run };
        let blocks = u64::from(heads) * (150 * 12 + 83 * 10);
        let disk = Geometry::new(heads, 233, blocks, layout, skews(), &zones(None)).unwrap();
        let mut lbn = 0;
        while disk.locate(lbn).end_lbn() < u64::from(heads) * 150 * 12 {
            let (here, next) = (disk.locate(lbn), disk.locate(disk.locate(lbn).end_lbn()));
            let turned = here.start.until(next.start);
            let expected = if here.cylinder / run != next.cylinder / run {
                skews().next_group
            } else if here.head != next.head {
                skews().next_head
            } else {
                prop_assert_eq!(here.cylinder.abs_diff(next.cylinder), 1);
                skews().next_cylinder
            };
            prop_assert_eq!(turned, expected, "track at block {} of {:?}", lbn, here);
            lbn = here.end_lbn();
        }
    }
}

#[test]
fn a_stated_first_block_leaves_spare_tracks_at_the_end_of_the_zone_before() {
    let layout = Layout::Serpentine { run: 5 };
    let disk = Geometry::new(2, 233, 3595 + 1660, layout, skews(), &zones(Some(3595))).unwrap();
    let last = disk.locate(3594);
    assert_eq!((last.blocks, last.end_lbn()), (7, 3595));
    assert_eq!(disk.locate(3595).cylinder, 150);
}

#[test]
fn zones_that_do_not_hold_the_stated_blocks_are_refused() {
    let layout = Layout::Cylinder;
    let error = Geometry::new(2, 233, 9999, layout, skews(), &zones(None)).unwrap_err();
    assert!(error.contains("hold 5260 blocks, expected 9999"), "{error}");
}
