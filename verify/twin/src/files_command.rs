//! `nearhead-twin files`: a script or a program on the kernel's ext4 and on a mounted volume.
//!
//! Only prints and decides the exit code; [`nearhead_twin::files`] does the rest.

use crate::{MediumWord, nearhead, read_script};
use clap::ValueEnum;
use nearhead_twin::files::{act::FilesAct, generate, programs as files_programs, run as files};
use nearhead_twin::medium::MediumKind;
use nearhead_twin::shrink;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args, Clone)]
pub(crate) struct FilesArgs {
    /// Seed of the first script
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs, with one seed after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Acts of a script
    #[arg(long, value_name = "N", default_value_t = 300)]
    acts: usize,
    /// Mode of the mount
    #[arg(long, value_name = "MODE", default_value = "nearhead")]
    mode: String,
    /// Acts from a file, one a line, instead of a seed
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Medium of the volume: power cuts need `disk`
    #[arg(long, value_enum, value_name = "MEDIUM", default_value = "file")]
    medium: MediumWord,
    /// Kinds of acts that scripts leave out
    #[arg(long, value_enum, value_name = "KINDS", value_delimiter = ',')]
    without: Vec<FilesKind>,
    /// Run a program instead of a script
    #[arg(long, value_name = "PROGRAM", value_parser = files_programs::named, conflicts_with = "script")]
    program: Option<files_programs::FilesProgram>,
    /// Crashes in the middle of runs of the program
    #[arg(long, value_name = "N", default_value_t = 2)]
    kills: u32,
    /// Runs that may be spent to shorten a script that failed
    #[arg(long, value_name = "N", default_value_t = 24)]
    shrink: u32,
    /// The program under test [default: `nearhead` in the folder of this program]
    #[arg(long, value_name = "FILE")]
    nearhead: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy)]
enum FilesKind {
    Kill,
    Power,
    Reads,
    Flags,
    Mappings,
    Overlay,
    EmptyChown,
}

impl FilesArgs {
    /// Runs every seed; 0 if nothing differs, 1 if something does, 2 if this machine cannot.
    pub(crate) fn run(&self) -> ExitCode {
        let settings = files::FilesSettings {
            nearhead: nearhead(self.nearhead.as_ref()),
            twin: std::env::current_exe().unwrap_or_default(),
            folder: std::env::temp_dir(),
            mode: self.mode.clone(),
            medium: self.medium.kind(),
        };
        let mut code = ExitCode::SUCCESS;
        for seed in self.seed..self.seed + self.seeds.max(1) {
            match self.run_seed(&settings, seed) {
                Ok(true) => println!(
                    "nothing differs: files {}--mode {} --seed {seed}",
                    self.words(),
                    self.mode
                ),
                Ok(false) => code = ExitCode::FAILURE,
                Err(why) => {
                    eprintln!("nearhead-twin: seed {seed}: {why}");
                    return ExitCode::from(2);
                }
            }
        }
        code
    }

    /// Words of the command line that name program and medium.
    fn words(&self) -> String {
        let program = self.program.map(|program| format!("--program {} ", program.name));
        let medium =
            self.medium.to_possible_value().filter(|_| self.medium.kind() != MediumKind::File);
        let medium = medium.map(|word| format!("--medium {} ", word.get_name()));
        [program, medium].into_iter().flatten().collect()
    }

    /// Whether nothing differs.
    fn run_seed(&self, settings: &files::FilesSettings, seed: u64) -> Result<bool, String> {
        if let Some(program) = self.program {
            let found = files_programs::run(settings, program, seed, self.kills)?;
            let found = found.inspect(|found| {
                println!("mode {}, {}, seed {seed}: {found}", self.mode, program.name);
            });
            return Ok(found.is_none());
        }
        let acts = match &self.script {
            Some(file) => read_script(file)?,
            None => generate::generate(seed, self.acts, &self.without()),
        };
        let Some(found) = files::run(settings, &acts)? else { return Ok(true) };
        println!("mode {}, seed {seed}: {found}", self.mode);
        let again = |acts: &[FilesAct]| files::run(settings, acts).ok().flatten();
        println!("a script that shows it (--script FILE):");
        for act in shrink::shrink(&acts, &found, self.shrink, again) {
            println!("{act}");
        }
        Ok(false)
    }

    fn without(&self) -> Vec<generate::Kind> {
        let kinds = self.without.iter().map(|kind| match kind {
            FilesKind::Kill => generate::Kind::Kill,
            FilesKind::Power => generate::Kind::Power,
            FilesKind::Reads => generate::Kind::Reads,
            FilesKind::Flags => generate::Kind::Flags,
            FilesKind::Mappings => generate::Kind::Mappings,
            FilesKind::Overlay => generate::Kind::Overlay,
            FilesKind::EmptyChown => generate::Kind::EmptyChown,
        });
        let is_file = self.medium.kind() == MediumKind::File;
        kinds.chain(is_file.then_some(generate::Kind::Power)).collect()
    }
}
