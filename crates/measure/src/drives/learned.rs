//! What a fit learned of a drive, for people and for the profile's text.
//!
//! It must never show what was learned without what the half says that the fit has not seen.

use nearhead_models::Profile;
use nearhead_output::say;
use nearhead_profiles::fit::FittedConstant;
use nearhead_profiles::import::to_toml;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Fitted constants shown on a terminal; the others are counted, `disk validate --json` has all.
const CONSTANTS_SHOWN: usize = 12;

/// Says what was changed.
pub(super) fn show(constants: &[FittedConstant]) {
    let (layout, other): (Vec<_>, Vec<_>) =
        constants.iter().partition(|constant| constant.name.starts_with("layout."));
    for constant in other.iter().chain(&layout).take(CONSTANTS_SHOWN) {
        let (before, after) = (constant.before, constant.after);
        say(&format!("  fitted {}: {before:.6} -> {after:.6}", constant.name));
    }
    if constants.len() > CONSTANTS_SHOWN {
        let more = constants.len() - CONSTANTS_SHOWN;
        say(&format!("  fitted {more} more; disk validate --fit ... --json lists them"));
    }
}

/// The profile's text, with what was changed and by what trace at its head.
pub(super) fn text(
    profile: &Profile,
    constants: &[FittedConstant],
    trace: &Path,
    mut sources: BTreeMap<&'static str, String>,
) -> String {
    let mut head = sources.remove("head").map_or_else(String::new, |head| head + "\n");
    let _ = write!(
        head,
        "Fitted to the first half of {}; {} constants, before and after:",
        trace.display(),
        constants.len()
    );
    for constant in constants {
        let (before, after) = (constant.before, constant.after);
        let _ = write!(head, "\n  {}: {before} {after}", constant.name);
    }
    sources.insert("head", head);
    to_toml(profile, &sources)
}
