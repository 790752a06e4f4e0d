//! Drives whose layout was measured: what a calibration of their models says is what their packages have.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_calibrate::{Findings, Options, calibrate};
use nearhead_models::HddOptions;
use nearhead_profiles::import::import;
use support::{Emulated, MEASURED, measured_disks};

#[test]
fn the_zones_of_measured_drives_are_those_of_their_packages() {
    let Some(disks) = measured_disks() else { return };
    for name in MEASURED {
        let profile = import(&disks.join(name)).unwrap().profile;
        let geometry = profile.geometry().unwrap();
        let mut drive = Emulated::new(&profile, HddOptions::default(), 1, 0);
        let found = calibrate(&mut drive, &Options::default(), &mut |_| {}).unwrap();
        let Findings::Turns(found) = found else { panic!("{name}: {found:?}") };
        println!("{name}: {} zones, {} s", found.zones.len(), found.took_s);
        assert!(found.zones.len() > 4 && found.took_s < 301.0, "{name}: {found:?}");
        for zone in &found.zones {
            let lbn = zone.first_byte / u64::from(profile.sector_bytes);
            // A track behind its beginning, which defects slipped in its groups may have moved by a sector each.
            let there = geometry.locate(lbn + zone.sectors_per_track).sectors_per_track;
            assert_eq!(
                zone.sectors_per_track,
                u64::from(there),
                "{name} at sector {lbn}: {zone:?}"
            );
        }
    }
}
