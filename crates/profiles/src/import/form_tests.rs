//! Forms in which packages come beside the usual ones: each imports, or the error says what to do.

use super::tests::{MODEL, Package, SEEKS, SPECS, TREE};
use super::to_toml;
use nearhead_models::{Geometry, Profile};

/// Cylinder, head, and ten-thousandths of a revolution.
fn at(disk: &Geometry, lbn: u64) -> (u32, u16, u32) {
    let track = disk.locate(lbn);
    let angle = (track.angle_of(lbn).revolutions() * 1e4).round() as u32 % 10_000;
    (track.cylinder, track.head, angle)
}

const LISTED: &str = "dm_disk listed {
   Number of data surfaces = 2, Number of cylinders = 4, Block count = 64,
   Layout Model = dm_layout_g2 {
      Layout Map File = listed.map,
      Zones = [
         dm_layout_g2_zone {
            First cylinder number = 0, Last cylinder number = 1, First LBN = 0, Last LBN = 38,
            Blocks per track = 10, Zone Skew = 0.25, Skew units = revolutions,
            Skew for track switch = 0.1, Skew for cylinder switch = 0.2
         },
         dm_layout_g2_zone {
            First cylinder number = 2, Last cylinder number = 3, First LBN = 39, Last LBN = 63,
            Blocks per track = 8, Zone Skew = 2, Skew for track switch = 1,
            Skew for cylinder switch = 3
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = constant, Constant seek time = 1.5, Rotation speed (in rpms) = 6000
   }
}";

/// Sector 4 of the second track is a defect; the last track is short.
const MAP: &str = "a drive\nmaxlbn 63, blocksize 512\n4 cylinders, 6000 rot, 2 heads
lbn 0 --> cyl 0, head 0, sect 0, seqcnt 9
lbn 10 --> cyl 0, head 1, sect 0, seqcnt 3
lbn 14 --> cyl 0, head 1, sect 5, seqcnt 4
lbn 19 --> cyl 1, head 1, sect 0, count 10
lbn 29 --> cyl 1, head 0, sect 0, count 10
lbn 39 --> cyl 2, head 0, sect 0, count 8
lbn 47 --> cyl 2, head 1, sect 0, count 8
lbn 55 --> cyl 3, head 1, sect 0, count 8
lbn 63 --> cyl 3, head 0, sect 0, count 1
Defect at cyl 0, head 1, sect 4
";

#[test]
fn a_layout_that_lists_its_tracks_is_turned_by_the_skews_of_its_zones() {
    let package = Package::new(&[("listed.model", LISTED), ("listed.map", MAP)]);
    let imported = package.import("listed").unwrap();
    assert_eq!(imported.profile.blocks, 64);
    let disk = imported.profile.geometry().unwrap();
    // A quarter at the front, then a tenth for each head and a fifth for each cylinder.
    assert_eq!(at(&disk, 0), (0, 0, 2500));
    assert_eq!(at(&disk, 13), (0, 1, 6500));
    assert_eq!(at(&disk, 14), (0, 1, 8500), "the defect passes under the head");
    assert_eq!(at(&disk, 19), (1, 1, 5500));
    assert_eq!(at(&disk, 29), (1, 0, 6500));
    // In eighths of a revolution, from the zone's own front.
    assert_eq!(at(&disk, 39), (2, 0, 2500));
    assert_eq!(at(&disk, 47), (2, 1, 3750));
    assert_eq!(at(&disk, 56), (3, 1, 8750));
    assert_eq!(at(&disk, 63), (3, 0, 8750));
    assert_eq!(imported.profile.seek_curve().unwrap().time_ns(2), 1_500_000);
    let text = to_toml(&imported.profile, &imported.sources);
    let again = Profile::parse("again", &text).unwrap().geometry().unwrap();
    assert!((0..64).all(|lbn| again.locate(lbn) == disk.locate(lbn)));
}

#[test]
fn what_a_list_of_tracks_lacks_is_named() {
    let told = |model: &str, map: &str| {
        let package = Package::new(&[("listed.model", model), ("listed.map", map)]);
        package.import("listed").unwrap_err().to_string()
    };
    let cases = [
        (LISTED.replace("listed.map", "other.map"), MAP.to_owned(), "put it (or other.map.zst)"),
        (LISTED.replace("= 2, Last", "= 3, Last"), MAP.to_owned(), "block 39 is on cylinder 2"),
        (LISTED.replace("track = 8", "track = 7"), MAP.to_owned(), "up to sector 8"),
        (LISTED.replace("revolutions", "degrees"), MAP.to_owned(), "found \"degrees\""),
        (LISTED.to_owned(), MAP.replace("lbn 39", "lbn 40"), "listed.map:9: expected the track"),
    ];
    for (model, map, expected) in cases {
        let told = told(&model, &map);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn remapped_blocks_of_a_tree_are_where_the_drive_put_them() {
    // Blocks 2 to 4, of which address 4 is slipped, go to the last track: cylinder 3, head 1; and one
    // goes to a track that holds no block.
    let model = TREE
        .replace("Number of cylinders = 6", "Number of cylinders = 9")
        .replace("Remaps = []", "Remaps = [ 2, 3, 3, 1, 5, 10, 50, 1, 8, 0, 5, 10 ]");
    let plain = Package::new(&[("snake.model", TREE)]).import("snake").unwrap();
    let plain = plain.profile.geometry().unwrap();
    let imported = Package::new(&[("snake.model", model.as_str())]).import("snake").unwrap();
    assert!(!imported.warnings.join("").contains("emap"), "{:?}", imported.warnings);
    let disk = imported.profile.geometry().unwrap();
    let zero_of_last = at(&plain, 109).2;
    for lbn in 0..118 {
        let expected = match lbn {
            2..5 => (3, 1, (zero_of_last + 5000 + 1000 * (lbn as u32 - 2)) % 10_000),
            50 => (8, 0, 5000),
            _ => at(&plain, lbn),
        };
        assert_eq!(at(&disk, lbn), expected, "block {lbn}");
    }
    let text = to_toml(&imported.profile, &imported.sources);
    let again = Profile::parse("again", &text).unwrap().geometry().unwrap();
    assert!((0..118).all(|lbn| again.locate(lbn) == disk.locate(lbn)));
    for (remaps, expected) in [
        ("[ 118, 1, 0, 0, 0, 10 ]", "remap of block 118: expected a block of the disk"),
        ("[ 1, 2, 0, 0, 9, 10 ]", "found 2 from 9 on"),
        ("[ 1, 2, 0, 0, 9 ]", "groups of 6 numbers, found 5"),
        ("[ 1, 1, 0, 7, 0, 10 ]", "leave the disk"),
    ] {
        let model = TREE.replace("Remaps = []", &format!("Remaps = {remaps}"));
        let package = Package::new(&[("snake.model", model.as_str())]);
        let told = package.import("snake").unwrap_err().to_string();
        assert!(told.contains(expected), "{remaps}: {told}");
    }
}

#[test]
fn skews_may_be_left_out_and_have_units_of_their_own_in_a_zone() {
    let model = MODEL
        .replace(
            "Skew for track switch = 2.0,",
            "Skew units = revolutions, Skew for track switch = 0.5,",
        )
        .replace("Skew for cylinder switch = 3.0,", "Skew for cylinder switch = 0.25,")
        .replace(
            "            Skew for track switch = 1,\n            Skew for cylinder switch = 2,\n",
            "",
        );
    let package = Package::new(&[("tiny.model", model.as_str()), ("tiny.seek", SEEKS)]);
    let disk = package.import("tiny").unwrap().profile.geometry().unwrap();
    assert_eq!(at(&disk, 12), (0, 1, 5833), "half a revolution and the slip");
    assert_eq!((at(&disk, 710).2, at(&disk, 718).2, at(&disk, 726).2), (5000, 5000, 5000));
}

/// Everything in one file, made for other folders, with what is no part of the drive missing.
#[test]
fn one_file_with_paths_of_elsewhere_and_missing_statistics_imports() {
    let model = MODEL.replace("tiny.seek", "../valid/tiny.seek");
    let specs = SPECS.replace("source tiny.model", "tiny_model");
    let other = SPECS.replace("tiny_drive", "spare_drive");
    let whole = format!(
        "\u{feff}# no topology\r\nsource ../statdefs\n{model},\n{specs};\n{}\n\
         instantiate [ disk0, disk1 ] as tiny_drive\n",
        other.replace("source tiny.model", "tiny_model")
    );
    let package = Package::new(&[("two.parv", whole.as_str()), ("tiny.seek", SEEKS)]);
    let imported = package.import("two").unwrap();
    assert_eq!(imported.profile.blocks, 1190);
    assert!(imported.profile.description.contains("tiny drive"), "{:?}", imported.profile);
    let told = imported.warnings.join("\n");
    assert!(told.contains("two.parv:2") && told.contains("statdefs"), "{told}");
    // Where the drive itself is missing, that is an error.
    let package = Package::new(&[("alone.parv", "source ../valid/tiny.diskspecs\n")]);
    let told = package.import("alone").unwrap_err().to_string();
    assert!(
        told.contains("alone.parv:1") && told.contains("put ../valid/tiny.diskspecs"),
        "{told}"
    );
}

#[test]
fn devices_that_are_no_hard_disks_are_named() {
    let simple = "disksim_simpledisk simple { Block count = 100, Max queue length = 1 }";
    let package = Package::new(&[("simple.parv", simple)]);
    let told = package.import("simple").unwrap_err().to_string();
    assert!(told.contains("found disksim_simpledisk"), "{told}");
}

#[test]
fn seeks_out_of_order_are_put_in_order_and_told() {
    let seeks = "50, 3.0\n1, 1.0\n10, 2.0\n10, 9.0\n";
    let package = Package::new(&[("tiny.model", MODEL), ("tiny.seek", seeks)]);
    let imported = package.import("tiny").unwrap();
    assert_eq!(imported.profile.seek.points_ms[..3], [(1, 1.0), (10, 2.0), (50, 3.0)]);
    assert!(imported.warnings.join("\n").contains("found 1 after 50"), "{:?}", imported.warnings);
}
