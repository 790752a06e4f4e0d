//! `nearhead generate`: man pages and shell completions, from the very definition of the flags.

use clap::Command;
use clap_complete::Shell;
use nearhead_output::say;
use std::path::PathBuf;

/// What `nearhead generate` is told.
#[derive(clap::Args, Debug)]
pub struct GenerateArgs {
    /// Folder for nearhead.1, nearhead-create.1, ..., nearhead.bash, _nearhead and nearhead.fish
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

/// Runs the command for the program `command`.
pub fn run(args: &GenerateArgs, mut command: Command) -> Result<(), String> {
    let out = &args.out;
    let failed =
        |error: std::io::Error| format!("generate: cannot write to {}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(failed)?;
    // `nearhead help X` needs no page of its own.
    let pages = command.clone().disable_help_subcommand(true);
    let pages = pages.mut_subcommand("disk", |disk| disk.disable_help_subcommand(true));
    clap_mangen::generate_to(pages, out).map_err(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "nearhead", out).map_err(failed)?;
    }
    say(&format!("man pages and completions for bash, zsh and fish are in {}", out.display()));
    Ok(())
}
