//! `nearhead set`: asks the daemon that serves or has mounted a volume to do something otherwise from now on.
//!
//! A setting lasts until the daemon ends, of an attached volume until it is detached. `--keep` writes it to the volume file as well.

use crate::control::Client;
use nearhead_output::{note, say, say_json};
use nearhead_settings::{Change, Setting, VolumeFile};
use std::path::PathBuf;

/// Arguments of `nearhead set`.
#[derive(clap::Args, Debug)]
pub struct SetArgs {
    /// The volume, as whoever serves it named it or by any other name of its disk, or the folder where it is mounted
    pub target: String,
    /// NAME=VALUE, with the names of a volume file and the values of flags; without any, all settings are listed
    #[arg(value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Write them to the volume file that it is served by as well, for its next start
    #[arg(long, requires = "settings")]
    pub keep: bool,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &SetArgs) -> Result<(), String> {
    let target = &args.target;
    let Some(mut client) = Client::find(target, args.control.as_deref())? else {
        return Err(format!(
            "set {target}: expected a volume that is served or mounted, found nobody who does; what is to hold from its next start on \
             is a flag of `serve`, or a line of its volume file"
        ));
    };
    if args.settings.is_empty() {
        let settings: Vec<Setting> = client.ask("set")?;
        if args.json {
            return say_json(&settings);
        }
        list(&settings);
        return Ok(());
    }
    if let Some(odd) = args.settings.iter().find(|word| word.contains(char::is_whitespace)) {
        return Err(format!("set: expected NAME=VALUE without spaces, found {odd:?}"));
    }
    let file = if args.keep { Some(volume_file(target, &mut client)?) } else { None };
    let changes: Vec<Change> = client.ask(&format!("set {}", args.settings.join(" ")))?;
    if let Some(path) = &file {
        VolumeFile::read(path)?.with(&args.settings)?.write()?;
        note(&format!("kept in {}", path.display()));
    }
    if args.json {
        return say_json(&changes);
    }
    for Change { name, before, after } in changes {
        say(&format!("{name}: {after}, was {before}"));
    }
    Ok(())
}

/// The volume file that the daemon was started with.
fn volume_file(target: &str, client: &mut Client) -> Result<PathBuf, String> {
    let path: Option<PathBuf> = client.ask("config")?;
    path.ok_or_else(|| {
        format!(
            "set {target} --keep: expected a volume file, found that it is served without one (--config FILE); what is to hold from its next \
             start on is a flag then"
        )
    })
}

fn list(settings: &[Setting]) {
    let widest =
        |of: fn(&Setting) -> &str| settings.iter().map(|it| of(it).len()).max().unwrap_or(0);
    let (names, values) = (widest(|it| &it.name), widest(|it| &it.value));
    for Setting { name, value, about } in settings {
        say(&format!("{name:<names$}  {value:<values$}  {about}"));
    }
}
