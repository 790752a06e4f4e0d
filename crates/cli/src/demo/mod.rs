//! `nearhead demo`: the first measured result, on an emulated disk in real time.

/// What `nearhead demo` is told.
#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// Folder for report.html and demo.json.
    #[arg(long, default_value = "target/demo")]
    pub out: std::path::PathBuf,
}

/// Runs the demo; the error is what to tell the user.
pub fn run(_args: &DemoArgs) -> Result<(), String> {
    Err("demo: not built yet".to_owned())
}
