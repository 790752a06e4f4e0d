//! `nearhead disk import`: a measured drive's parameter package as a profile.
//!
//! Contradictions in a package are told as warnings, with what was taken instead; what is missing
//! ends the import with where it was named and what to do. With a trace that was measured on the drive all that can be
//! fitted is, and the half of the trace that the fit has not seen says what that is worth.

use super::learned;
use super::validate::{Line, OnOff, setup, table};
use nearhead_models::HddOptions;
use nearhead_output::{note, say};
use nearhead_profiles::fit::fit_all;
use nearhead_profiles::import::{Imported, import, to_toml};
use nearhead_study::measured::{Fit, compare_some, model, read_trace};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What `nearhead disk import` is told.
#[derive(clap::Args, Debug)]
pub struct DiskImportArgs {
    /// The package, FOLDER/NAME: NAME.parv, NAME.diskspecs or NAME.model in DiskSim's formats, and
    /// what they name, compressed (.zst) or not. None come with Nearhead: DiskSim's source has some in its
    /// folder `valid`
    #[arg(value_name = "FOLDER/NAME")]
    pub package: PathBuf,
    /// Write the profile here; otherwise it is printed
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// Learn what the package does not know from a trace that was measured on the drive (lines `R|W Hit|Miss sector
    /// sectors response_us think_us`): overheads, what its memory does, and angles where the trace shows them, from the first
    /// half; says what the second half is worth before and after. Seconds, at most two minutes for 10,000 requests
    #[arg(long, value_name = "TRACE", requires = "out")]
    pub measured: Option<PathBuf>,
    /// How the drive's write cache was set when it was measured, if not as in the package
    #[arg(long, value_enum, requires = "measured")]
    pub write_cache: Option<OnOff>,
    /// How its read cache was set
    #[arg(long, value_enum, requires = "measured")]
    pub read_cache: Option<OnOff>,
}

/// Runs the command.
pub fn run(args: &DiskImportArgs) -> Result<(), String> {
    let folder = args.package.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!(
            "disk import: {}: expected a folder with the parameter files of a drive, found none; they do not \
             come with Nearhead: take those of your drive, or the folder `valid` of DiskSim's source",
            folder.display()
        ));
    }
    let mut imported = import(&args.package).map_err(|error| format!("disk import: {error}"))?;
    for warning in &imported.warnings {
        note(&format!("warning: {warning}"));
    }
    let mut head =
        format!("Imported by `nearhead disk import` from package {}.", args.package.display());
    for warning in &imported.warnings {
        let _ = write!(head, "\nContradiction: {warning}.");
    }
    imported.sources.insert("head", head);
    let text = match &args.measured {
        None => to_toml(&imported.profile, &imported.sources),
        Some(trace) => {
            let setup = setup(args.write_cache, args.read_cache);
            let told = |problem: String| format!("disk import: {problem}");
            learn(&mut imported, trace, setup).map_err(told)?
        }
    };
    write_profile(args.out.as_ref(), &text)?;
    if let Some(out) = &args.out {
        let (bytes, path) = (imported.profile.capacity_bytes(), out.display());
        say(&format!(
            "{path}: {}, {:.1} GB, {} heads, {} cylinders; use it as model:{path}",
            imported.profile.name,
            bytes as f64 / 1e9,
            imported.profile.heads,
            imported.profile.cylinders
        ));
    }
    Ok(())
}

/// Fits the profile to the first half of `trace`, says what was learned and what the second half is worth, and gives the text.
fn learn(imported: &mut Imported, trace: &Path, setup: HddOptions) -> Result<String, String> {
    let stated = &imported.profile;
    let requests = read_trace(trace, stated.capacity_bytes(), stated.sector_bytes, Fit::Error)?;
    let fitted = fit_all(stated, &requests, setup)?;
    learned::show(&fitted.constants);
    if fitted.constants.is_empty() {
        say("  nothing was learned: the first half is told no better by anything that was tried");
    }
    let half = requests.len() / 2;
    let mut lines = Vec::new();
    for (name, profile) in [("as imported", stated), ("learned", &fitted.profile)] {
        let modelled = model(profile, &requests, setup)?;
        for (kind, wanted) in [("all", None), ("reads", Some(false)), ("writes", Some(true))] {
            let comparison = compare_some(&requests, &modelled, |index, request| {
                index >= half && wanted.is_none_or(|write| request.write == write)
            });
            lines.push(Line {
                chosen: format!("second half, {kind}"),
                model: name.to_owned(),
                comparison,
            });
        }
    }
    table(&lines);
    let sources = std::mem::take(&mut imported.sources);
    imported.profile = fitted.profile;
    Ok(learned::text(&imported.profile, &fitted.constants, trace, sources))
}

/// Writes a profile's text to a file, or prints it.
pub(super) fn write_profile(out: Option<&PathBuf>, text: &str) -> Result<(), String> {
    let Some(out) = out else {
        say(text.trim_end());
        return Ok(());
    };
    if out.extension().is_none_or(|extension| extension != "toml") {
        // Only such a path is taken for a profile later.
        return Err(format!("{}: expected a name that ends in .toml", out.display()));
    }
    std::fs::write(out, text).map_err(|error| format!("cannot write {}: {error}", out.display()))
}
