//! Drives whose layout was measured: what a calibration of their models says is what their packages have.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_calibrate::{Findings, Options, calibrate};
use nearhead_models::HddOptions;
use nearhead_profiles::import::import;
use std::path::PathBuf;
use support::Emulated;

const DRIVES: [&str; 8] = [
    "hp_c2247a",
    "st41601n",
    "atlas10k",
    "atlas_III",
    "barracuda",
    "cheetah4LP",
    "cheetah9LP",
    "ibm18es",
];

#[test]
fn the_zones_of_measured_drives_are_those_of_their_packages() {
    let root = std::env::var_os("NEARHEAD_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let disks = root.join("disks/disksim-valid");
    if !disks.exists() {
        println!("skipped: no disks/disksim-valid under NEARHEAD_SHARED");
        return;
    }
    for name in DRIVES {
        let profile = import(&disks.join(name)).unwrap().profile;
        let geometry = profile.geometry().unwrap();
        let mut drive = Emulated::new(&profile, HddOptions::default(), 1, 0);
        let found = calibrate(&mut drive, &Options::default(), &mut |_| {}).unwrap();
        let Findings::Turns(found) = found else { panic!("{name}: {found:?}") };
        println!("{name}: {} zones, {} s", found.zones.len(), found.took_s);
        assert!(found.zones.len() > 4 && found.took_s < 301.0, "{name}: {found:?}");
        for zone in &found.zones {
            let lbn = zone.first_byte / u64::from(profile.sector_bytes);
            let there = geometry.locate(lbn).sectors_per_track;
            assert_eq!(
                zone.sectors_per_track,
                u64::from(there),
                "{name} at sector {lbn}: {zone:?}"
            );
        }
    }
}
