//! The modes that are built, one file each, and their names.

mod adaptive;
mod data;
mod manylogs;
mod ordered;

use crate::mode::{Mode, UnknownMode};
pub(crate) use adaptive::Adaptive;
pub(crate) use data::Data;
pub(crate) use manylogs::Manylogs;
pub(crate) use ordered::Ordered;

/// Runs of a file longer than this are bulk: they go in place where a mode tells bulk from small writes. Chosen, not measured: between the 32 and
/// 256 KiB that the volume's presets log at most.
pub(crate) const SMALL_RUN_BYTES_MAX: u64 = 64 << 10;

/// All modes.
pub static MODES: &[&dyn Mode] = &[&Ordered, &Data, &Adaptive, &Manylogs];

/// What is used unless another is asked for.
pub const DEFAULT_MODE: &str = "manylogs";

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
    fn each_mode_places_small_and_large_runs_as_its_definition_says() {
        let expected = [
            ("ordered", Placement::InPlace, Placement::InPlace, false),
            ("data", Placement::Record, Placement::Record, false),
            ("adaptive", Placement::Record, Placement::InPlace, false),
            ("manylogs", Placement::Record, Placement::InPlace, true),
        ];
        assert_eq!(expected.len(), MODES.len());
        for (name, small, large, near) in expected {
            let mode = mode_named(name).unwrap();
            let found = (mode.data(4096), mode.data(1 << 20), mode.is_near_head());
            assert_eq!(found, (small, large, near), "{name}");
        }
    }

    #[test]
    fn an_unknown_mode_is_told_with_those_that_there_are() {
        let told = mode_named("orderly").unwrap_err().to_string();
        assert!(told.contains("\"orderly\"") && told.contains("ordered, data, adaptive"), "{told}");
    }
}
