//! `nearhead bench`: every number the project claims, measured side by side in one run.

/// What `nearhead bench` is told.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// Folder for bench.json.
    #[arg(long, default_value = "target/bench")]
    pub out: std::path::PathBuf,
}

/// Runs the benches; the error is what to tell the user.
pub fn run(_args: &BenchArgs) -> Result<(), String> {
    Err("bench: not built yet".to_owned())
}
