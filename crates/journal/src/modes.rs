//! The modes that are built, one file each, and their names.

mod adaptive;
mod data;
mod manylogs;
mod nearhead;
mod ordered;
mod selective;
mod wasteless;

use crate::mode::{Mode, UnknownMode};
pub(crate) use adaptive::Adaptive;
pub(crate) use data::Data;
pub(crate) use manylogs::Manylogs;
pub(crate) use nearhead::Nearhead;
pub(crate) use ordered::Ordered;
pub(crate) use selective::Selective;
pub(crate) use wasteless::Wasteless;

/// Longest run that is small on any volume: a fourth of a record.
const SMALL_RUN_BYTES_MAX: u64 = 256 << 10;
/// A block is small on every volume.
const BLOCK_BYTES: u64 = 4096;

/// Longest run of a file that is small, on a volume that logs writes up to `logged_bytes_max`: what it would write in place is bulk.
pub fn small_run_bytes(logged_bytes_max: u64) -> u64 {
    logged_bytes_max.clamp(BLOCK_BYTES, SMALL_RUN_BYTES_MAX)
}

/// All modes.
pub static MODES: &[&dyn Mode] =
    &[&Ordered, &Data, &Adaptive, &Manylogs, &Wasteless, &Selective, &Nearhead];

/// What is used unless another is asked for.
pub const DEFAULT_MODE: &str = "nearhead";

/// The mode of this name.
pub fn mode_named(name: &str) -> Result<&'static dyn Mode, UnknownMode> {
    MODES.iter().copied().find(|mode| mode.name() == name).ok_or_else(|| UnknownMode {
        name: name.to_owned(),
        known: MODES.iter().map(|mode| mode.name()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;

    #[test]
    fn each_mode_places_small_and_large_data_as_its_definition_says() {
        use Placement::{InPlace, Record};
        // A part of a block, a block, many of them; near the head; fragments.
        let expected = [
            ("ordered", [InPlace, InPlace, InPlace], false, false),
            ("data", [Record, Record, Record], false, false),
            ("adaptive", [Record, Record, InPlace], false, false),
            ("manylogs", [Record, Record, InPlace], true, false),
            ("wasteless", [Record, Record, Record], false, true),
            ("selective", [Record, InPlace, InPlace], false, true),
            ("nearhead", [Record, Record, InPlace], true, true),
        ];
        assert_eq!(expected.len(), MODES.len());
        for (name, places, near, fragments) in expected {
            let mode = mode_named(name).unwrap();
            assert_eq!(
                [100, 4096, 1 << 20].map(|bytes| mode.data(bytes, 64 << 10)),
                places,
                "{name}"
            );
            assert_eq!((mode.is_near_head(), mode.packs_fragments()), (near, fragments), "{name}");
            let is_selective = name == "selective";
            assert_eq!(mode.unit() == crate::Unit::UpdateSequence, is_selective, "{name}");
        }
        assert!(mode_named(DEFAULT_MODE).is_ok());
    }

    #[test]
    fn bulk_is_what_the_volume_would_not_log_within_bounds() {
        let found = [0, 32 << 10, 256 << 10, u64::from(u32::MAX)].map(small_run_bytes);
        assert_eq!(found, [4096, 32 << 10, 256 << 10, 256 << 10]);
        let manylogs = mode_named("manylogs").unwrap();
        let of_run = |small| manylogs.data(64 << 10, small_run_bytes(small));
        assert_eq!(of_run(32 << 10), Placement::InPlace);
        assert_eq!(of_run(64 << 10), Placement::Record);
    }

    #[test]
    fn an_unknown_mode_is_told_with_those_that_there_are() {
        let told = mode_named("orderly").unwrap_err().to_string();
        assert!(told.contains("\"orderly\"") && told.contains("ordered, data, adaptive"), "{told}");
    }
}
