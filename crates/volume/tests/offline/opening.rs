//! Which superblock counts on which device, and which device is the volume's: what is not is refused before anything on it is
//! believed.

use crate::medium::{DEVICE_BYTES, MIB, Medium};
use crate::support::options;
use crate::watched::Watched;
use nearhead_disk::{Nanos, Properties};
use nearhead_engine::DiskEvent;
use nearhead_format::{MapDevice, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_volume::open::{Copies, find_superblock_to_change, read_copies};
use nearhead_volume::{
    CreateOptions, Lanes, NamedPreset, OpenError, SyncIo, Volume, find_superblock,
};

fn made() -> Medium {
    Medium::made(&options("mlb", 7, 4 * MIB))
}

/// The device became larger by this, and its last superblock copy is still where it was.
const LARGER: u64 = 8 * MIB;

#[test]
fn on_a_larger_device_the_last_copy_is_where_the_first_ones_say_unless_a_newer_is_at_the_end() {
    let medium = made();
    let old = Superblock { generation: 5, ..medium.superblock() };
    let old_end = old.layout.superblock_offsets()[2];
    let new_end = DEVICE_BYTES + LARGER - 4096;
    // What is at the new end: nothing, or a copy of this generation.
    for (generation, counts) in [(None, false), (Some(4), false), (Some(5), true), (Some(6), true)]
    {
        let mut larger = Medium { bytes: DEVICE_BYTES + LARGER, ..medium.clone() };
        for (copy, at) in [0, 65_536, old_end].into_iter().enumerate() {
            larger.main.write(at, &old.encode(copy as u32)).unwrap();
        }
        let at_end = generation.map(|generation| Superblock { generation, ..old.clone() });
        if let Some(at_end) = &at_end {
            larger.main.write(new_end, &at_end.encode(2)).unwrap();
        }
        let Copies { offsets, copies } = larger.with(read_copies);
        let (expected, at) =
            if counts { (at_end.unwrap(), new_end) } else { (old.clone(), old_end) };
        assert_eq!(offsets, [0, 65_536, at], "{generation:?} at the end");
        assert_eq!(copies[2].as_ref().unwrap(), &expected, "{generation:?} at the end");
        let newest = generation.unwrap_or(0).max(5);
        assert_eq!(larger.superblock().generation, newest);
    }
    // Without the first ones the last is looked for at the end alone.
    let mut alone = Medium { bytes: DEVICE_BYTES + LARGER, ..medium };
    alone.main.zero(0, MIB).unwrap();
    assert_eq!(alone.with(read_copies).offsets, [0, 65_536, new_end]);
    assert!(alone.with(find_superblock).is_err());
}

#[test]
fn what_a_newer_program_knows_more_about_is_looked_at_and_not_changed() {
    let mut medium = made();
    let superblock = medium.superblock();
    let newer = Superblock {
        feature_ro_compat: superblock.feature_ro_compat | 1 << 40,
        ..superblock.clone()
    };
    assert!(medium.with(find_superblock_to_change).is_ok());
    for (copy, at) in superblock.layout.superblock_offsets().into_iter().enumerate() {
        medium.main.write(at, &newer.encode(copy as u32)).unwrap();
    }
    assert_eq!(medium.superblock(), newer);
    let error = medium.with(find_superblock_to_change).unwrap_err();
    assert!(matches!(error, OpenError::Newer { .. }), "{error:?}");
    let told = "found 0x10000000101; it can be served and looked at, use a newer version";
    assert!(error.to_string().contains(told), "{error}");
}

#[test]
fn a_device_that_is_shorter_than_the_volume_is_refused_with_both_sizes() {
    let medium = made();
    let short = |bytes| Medium { bytes, ..medium.clone() }.with(find_superblock);
    assert!(short(DEVICE_BYTES).is_ok() && short(DEVICE_BYTES + 512).is_ok());
    let error = short(DEVICE_BYTES - 512).unwrap_err();
    let told = "open instant: expected 67108864 bytes as the superblock says, found 67108352; the device or image was cut \
                short, restore its full size first";
    assert_eq!(error.to_string(), told);
}

#[test]
fn a_device_with_larger_sectors_is_refused_and_one_with_smaller_is_not() {
    for made_for in [512, 4096] {
        for found in [512, 4096] {
            let disk = |sector_bytes, image: &MemoryStore| {
                CrashDisk::with_image(plain_properties(DEVICE_BYTES, sector_bytes), image.clone())
            };
            let mut on = disk(made_for, &MemoryStore::new());
            let mut io = SyncIo::in_virtual_time(&mut on, Nanos::ZERO);
            nearhead_volume::create(&mut io, &options("mlb", 7, 4 * MIB)).unwrap();
            let mut on = disk(found, &on.image_after(&|_, _| true));
            let opened = find_superblock(&mut SyncIo::in_virtual_time(&mut on, Nanos::ZERO));
            match opened {
                Ok(_) => assert!(found <= made_for, "{found} instead of {made_for}"),
                Err(error) => {
                    assert!(found > made_for, "{found} instead of {made_for}");
                    let told = "open instant: expected sectors of at most 512 bytes, found 4096";
                    assert!(error.to_string().starts_with(told), "{error}");
                }
            }
        }
    }
}

/// Names of volumes whose last byte has the bit that tells the two names apart, and has not.
#[test]
fn a_map_device_has_a_name_of_its_own_and_both_names_are_asked_for() {
    for last in [0x07, 0x87] {
        let mut volume_id = [3; 16];
        (volume_id[0], volume_id[15]) = (0x11, last);
        let named = NamedPreset::by_name("mlb").unwrap();
        let options = CreateOptions::new(volume_id, named);
        let medium = Medium::made_on(Medium::empty(DEVICE_BYTES, true), &options);
        let mut expected = [3; 16];
        (expected[0], expected[15]) = (last ^ 0x80, 0x11);
        let superblock = medium.superblock();
        assert_eq!(superblock.map_device_id, Some(expected));
        let mut header = [0; 4096];
        medium.map.as_ref().unwrap().read(0, &mut header).unwrap();
        let header = MapDevice::decode(&header, 4 * MIB).unwrap();
        assert_eq!((header.volume_id, header.map_device_id), (volume_id, expected));
        let opens = |header: &MapDevice| {
            let mut medium = medium.clone();
            medium.of_map().write(0, &header.encode()).unwrap();
            let opened = Volume::open_in_virtual_time(medium.lanes(), Nanos::ZERO, |_, _| ());
            opened.map(drop)
        };
        assert!(opens(&header).is_ok());
        for wrong in [
            MapDevice { volume_id: [9; 16], ..header },
            MapDevice { map_device_id: [9; 16], ..header },
            MapDevice { volume_id: [9; 16], map_device_id: [9; 16], ..header },
        ] {
            let error = opens(&wrong).unwrap_err();
            assert!(matches!(error, OpenError::Recovery { .. }), "{error:?}");
            assert!(error.to_string().contains("expected the map device of volume"), "{error}");
        }
    }
}

/// Nobody said that he hears of it while the volume opens, so it is kept for who asks.
#[test]
fn what_a_disk_does_wrong_while_a_volume_opens_is_told_afterwards() {
    let medium = made();
    let slot = medium.superblock().layout.slot_offsets[1];
    let bad = slot..slot + 4096;
    let disk = Watched::new(medium.lanes().into_parts().0, vec![bad]);
    let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| ()).unwrap();
    assert!(volume.run_until_open(now).is_err(), "it may be what counts");
    let event = volume.poll_disk_event();
    assert!(matches!(event, Some(DiskEvent::Failed(_))), "{event:?}");
}

#[test]
fn a_map_device_has_sectors_of_4096_bytes_at_most() {
    for (sector_bytes, fits) in [(512, true), (4096, true), (8192, false)] {
        let disk = |sector_bytes| {
            let properties = Properties { ..plain_properties(DEVICE_BYTES, sector_bytes) };
            CrashDisk::with_image(properties, MemoryStore::new())
        };
        let joined = Lanes::with_map(disk(512), disk(sector_bytes));
        assert_eq!(joined.is_ok(), fits, "{sector_bytes}");
        if let Err(error) = joined {
            let told = "map device instant: expected sectors of at most 4096 bytes, found 8192";
            assert_eq!(error.detail, told);
        }
    }
}
