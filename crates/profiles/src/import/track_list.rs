//! Layouts that are a list of all tracks: DiskSim's `dm_layout_g2`.
//!
//! The list stands in a file of its own (`mappings`); the zones beside it say how many sectors a
//! track has, and how far each track is turned against the one before: by the zone's own skew at its
//! beginning, by the cylinder's skew after a step of the arm, by the track's skew after a change of
//! the head. A track that lies in no zone is an error, never a guess.

use super::ImportError;
use super::files::Folder;
use super::layout::skews_in_revolutions;
use super::mappings::{self, Track};
use super::syntax::Section;
use nearhead_models::TreeSpec;

/// Equal tracks. Skews are in revolutions.
struct Zone {
    cylinders: (u64, u64),
    sectors_per_track: u32,
    front: f64,
    track_skew: f64,
    cylinder_skew: f64,
}

/// The layout that `section` and the file which it names are.
pub(super) fn read(section: &Section, folder: &Folder) -> Result<TreeSpec, ImportError> {
    let key = "Layout Map File";
    let value = section.need(key)?;
    let (file, text) = folder.named_by(value, key)?;
    let zones = section.need("Zones")?.list("Zones")?;
    let zones: Vec<Zone> =
        zones.iter().map(|zone| one_zone(zone.section("Zones")?)).collect::<Result<_, _>>()?;
    let mut skew = 0.0_f64;
    let mut last: Option<(usize, u32, u16)> = None;
    mappings::parse(file, &text)?.tree(|track| {
        let number = zone_of(&zones, track).ok_or_else(|| {
            let (lbn, cylinder, end) = (track.lbn, track.cylinder, track.sector + track.count);
            ImportError::new(
                &section.place,
                format!(
                    "{file}: block {lbn} is on cylinder {cylinder}, up to sector {end}: expected a \
                     zone with that cylinder and so many \"Blocks per track\", found none"
                ),
            )
        })?;
        let zone = &zones[number];
        skew = match last {
            Some((before, ..)) if before != number => zone.front,
            None => zone.front,
            Some((_, cylinder, _)) if cylinder != track.cylinder => skew + zone.cylinder_skew,
            Some((_, _, head)) if head != track.head => skew + zone.track_skew,
            Some(_) => skew,
        };
        last = Some((number, track.cylinder, track.head));
        Ok((skew.rem_euclid(1.0), zone.sectors_per_track))
    })
}

fn zone_of(zones: &[Zone], track: &Track) -> Option<usize> {
    zones.iter().position(|zone| {
        let (first, last) = zone.cylinders;
        (first..=last).contains(&u64::from(track.cylinder))
            && track.sector + track.count <= zone.sectors_per_track
    })
}

fn one_zone(zone: &Section) -> Result<Zone, ImportError> {
    let key = "Blocks per track";
    let sectors_per_track = zone.whole(key)?;
    if !(1..=1 << 20).contains(&sectors_per_track) {
        let problem = format!("{key:?}: expected 1 to 1048576, found {sectors_per_track}");
        return Err(ImportError::new(&zone.place, problem));
    }
    let in_revolutions = skews_in_revolutions(zone)?.unwrap_or(false);
    let unit = if in_revolutions { 1.0 } else { 1.0 / sectors_per_track as f64 };
    Ok(Zone {
        cylinders: (zone.whole("First cylinder number")?, zone.whole("Last cylinder number")?),
        sectors_per_track: sectors_per_track as u32,
        front: zone.number_or("Zone Skew", 0.0)? * unit,
        track_skew: zone.number_or("Skew for track switch", 0.0)? * unit,
        cylinder_skew: zone.number_or("Skew for cylinder switch", 0.0)? * unit,
    })
}
