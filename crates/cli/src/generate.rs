//! `nearhead generate`: man pages and shell completions, from the very definition of the flags.

use crate::complete::Shell;
use crate::help::{Example, FILES, examples_of, exit_status_of};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use nearhead_output::say;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What `nearhead generate` is told.
#[derive(clap::Args, Debug)]
pub struct GenerateArgs {
    /// Folder for nearhead.1, nearhead-create.1, ..., nearhead.bash, _nearhead and nearhead.fish
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

/// Runs the command for the program `command`.
pub fn run(args: &GenerateArgs, command: Command) -> Result<(), String> {
    let out = &args.out;
    let failed = |error: io::Error| format!("generate: cannot write to {}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(failed)?;
    // `nearhead help X` needs no page of its own.
    let mut pages = command.disable_help_subcommand(true);
    pages = pages.mut_subcommand("disk", |disk| disk.disable_help_subcommand(true));
    pages.build();
    write_pages(&pages, out).map_err(failed)?;
    for shell in Shell::ALL {
        let path = out.join(shell.file_name());
        std::fs::write(path, shell.function("nearhead")).map_err(failed)?;
    }
    say(&format!("man pages and completions for bash, zsh and fish are in {}", out.display()));
    Ok(())
}

/// The page of a command, and those of its sub-commands.
fn write_pages(command: &Command, out: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, out)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    own_sections(command.get_name()).to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    std::fs::File::create(out.join(man.get_filename()))?.write_all(&page)
}

/// Examples, what exit codes say, and files.
fn own_sections(name: &str) -> Roff {
    let mut roff = Roff::default();
    let examples = examples_of(name);
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for Example { command, what } in examples {
        roff.control("TP", []);
        roff.text([bold(*command)]);
        roff.text([roman(*what)]);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, what) in exit_status_of(name) {
        roff.control("TP", []);
        roff.text([bold(*code)]);
        roff.text([roman(*what)]);
    }
    roff.control("SH", ["FILES"]);
    for (path, what) in FILES {
        roff.control("TP", []);
        roff.text([bold(path)]);
        roff.text([roman(what)]);
    }
    roff
}
