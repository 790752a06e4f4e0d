//! `nearhead disk import`: a measured drive's parameter package as a profile.
//!
//! Contradictions in a package are told as warnings, with what was taken instead; what is missing
//! ends the import with where it was named and what to do.

use nearhead_output::{note, say};
use nearhead_profiles::import::{import, to_toml};
use std::fmt::Write as _;
use std::path::PathBuf;

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
    let text = to_toml(&imported.profile, &imported.sources);
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
