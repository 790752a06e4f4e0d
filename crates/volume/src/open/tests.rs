//! On which disk a volume whose logs are apart from its data may be opened.

use super::*;
use crate::create::{CreateOptions, describe};
use nearhead_disk::{Region, RegionKind};
use nearhead_models::plain_properties;

const BYTES: u64 = 64 << 20;

/// A disk that is not shingled up to here.
fn zones(free: u64) -> Zones {
    let region = |offset, len, kind| Region { offset, len, kind };
    let bands = RegionKind::Bands { band_bytes: 1 << 20 };
    let regions = vec![region(0, free, RegionKind::NonShingled), region(free, BYTES - free, bands)];
    Zones::new(regions, BYTES).unwrap()
}

#[test]
fn a_volume_for_a_shingled_disk_is_opened_on_one_with_just_as_much_that_is_not() {
    let free = 12 << 20;
    for (preset, is_apart) in [("slsmr", true), ("mlsmr", true), ("mlb", false)] {
        let preset = NamedPreset::by_name(preset).unwrap();
        let options = CreateOptions::new([7; 16], preset);
        let properties = plain_properties(BYTES, 512);
        let superblock = describe(&properties, Some(&zones(free)), &options).unwrap();
        let check = |zones: Option<&Zones>| check_zones("disk", &superblock, &preset, zones);
        assert!(check(Some(&zones(free))).is_ok(), "{preset:?}");
        // Data begins with a whole block.
        assert!(check(Some(&zones(free - 512))).is_ok(), "{preset:?}");
        for (wrong, words) in [
            (None, "found one that does not tell where it is shingled"),
            (Some(zones(free + 512)), "found one with 12583424 such bytes"),
            (Some(zones(free - 4096)), "found one with 12578816 such bytes"),
        ] {
            let refused = check(wrong.as_ref()).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), is_apart, "{preset:?}: {refused:?}");
            let Some(told) = refused else { continue };
            let expected = format!(
                "expected the shingled disk that this {} volume was made on, with 12582912 non-shingled bytes, {words}",
                preset.name
            );
            assert!(told.contains(&expected), "{told}");
        }
    }
}
