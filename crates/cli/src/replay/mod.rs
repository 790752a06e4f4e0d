//! `nearhead replay`: a block trace against presets on a disk model, in virtual time.

/// What `nearhead replay` is told.
#[derive(clap::Args, Debug)]
pub struct ReplayArgs {
    /// The trace file.
    pub trace: std::path::PathBuf,
}

/// Runs the replay; the error is what to tell the user.
pub fn run(_args: &ReplayArgs) -> Result<(), String> {
    Err("replay: not built yet".to_owned())
}
