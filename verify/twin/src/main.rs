//! `nearhead-twin block`: a script or a program on the kernel's block device and on ours; `all`: every such run.
//!
//! Exit code 0: nothing differs. 1: a difference, with the command that repeats it and a shorter script.
//! 2: this machine cannot run it. Only prints and decides the exit code; the library does the rest.

mod files_command;
mod run_command;

use clap::{Parser, Subcommand, ValueEnum};
use files_command::FilesArgs;
use nearhead_twin::act::{Act, Who, word_of};
use nearhead_twin::files::{actor, programs as files_programs, run as files};
use nearhead_twin::kinds::{self, KINDS, Kind, OF_FILES};
use nearhead_twin::medium::MediumKind;
use nearhead_twin::programs::{self, Plan, Program};
use nearhead_twin::run::{IMAGE_BYTES, Settings, run, run_generated};
use nearhead_twin::{Difference, script, shrink};
use run_command::RunArgs;
use std::path::PathBuf;
use std::process::ExitCode;

/// The same acts on the kernel and on Nearhead, compared
#[derive(Parser)]
#[command(name = "nearhead-twin", version)]
struct Words {
    #[command(subcommand)]
    what: Of,
}

#[derive(Subcommand)]
enum Of {
    /// A loop device of the kernel and an attached volume
    Block(BlockArgs),
    /// The kernel's ext4 and a mounted volume
    Files(FilesArgs),
    /// Process that makes system calls on one side; started by `files`
    #[command(hide = true)]
    Actor {
        /// Folder of the mounted file system
        root: PathBuf,
    },
    /// Programs plain and under `nearhead run`
    Run(RunArgs),
    /// Every medium, some presets and every program, each with every kind of kill
    All(AllArgs),
}

#[derive(clap::Args)]
struct AllArgs {
    /// What the first run follows from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Seeds of each script, and kills below each program
    #[arg(long, value_name = "N", default_value_t = 10)]
    runs: u32,
}

#[derive(clap::Args, Clone)]
struct BlockArgs {
    /// What acts follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs, with one seed after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Acts of a script, or operations of a program
    #[arg(long, value_name = "N", default_value_t = 300)]
    acts: u64,
    /// Kinds of acts, with commas between them [default: all that the medium can have]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kinds::named)]
    kinds: Vec<Kind>,
    /// Processes that are killed: of a script its only kills, of a program while it runs
    #[arg(long, value_enum, value_name = "WHO")]
    kill: Option<WhoWord>,
    /// How often, below a program
    #[arg(long, value_name = "N", default_value_t = 5)]
    kills: u32,
    /// Run a program instead of a script
    #[arg(long, value_enum, value_name = "PROGRAM")]
    program: Option<ProgramWord>,
    /// Acts from a file, one a line, instead of a seed
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    script: Option<PathBuf>,
    /// What the volume lies on: power cuts need `disk`, `mirror` or `chain`
    #[arg(long, value_enum, value_name = "MEDIUM", default_value = "file")]
    medium: MediumWord,
    /// Preset of the volume
    #[arg(long, value_name = "NAME", default_value = "nearhead")]
    preset: String,
    /// Smallest block of the devices: 512 or 4096
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block_size: u32,
    /// MiB of the volume's image
    #[arg(long, value_name = "MIB", default_value_t = IMAGE_BYTES >> 20)]
    image_mib: u64,
    /// Runs that may be spent to shorten a script that failed
    #[arg(long, value_name = "N", default_value_t = 24)]
    shrink: u32,
    /// The program under test [default: `nearhead` in the folder of this program]
    #[arg(long, value_name = "FILE")]
    nearhead: Option<PathBuf>,
    /// Folder for images
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy)]
enum WhoWord {
    Worker,
    Supervisor,
    Both,
}

#[derive(ValueEnum, Clone, Copy)]
enum ProgramWord {
    Fsx,
    Postgres,
    Fio,
    Dd,
}

#[derive(ValueEnum, Clone, Copy)]
enum MediumWord {
    File,
    Disk,
    Mirror,
    Chain,
}

impl MediumWord {
    fn kind(self) -> MediumKind {
        match self {
            Self::File => MediumKind::File,
            Self::Disk => MediumKind::Disk,
            Self::Mirror => MediumKind::Mirror,
            Self::Chain => MediumKind::Chain,
        }
    }
}

fn main() -> ExitCode {
    match Words::parse().what {
        Of::Block(args) => args.run(),
        Of::Files(args) => args.run(),
        Of::Run(args) => args.run(),
        Of::Actor { root } => match actor::serve(&root) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("nearhead-twin: {why}");
                ExitCode::FAILURE
            }
        },
        Of::All(args) => {
            let under_run = RunArgs::all(args.runs, args.seed);
            let mut ended = vec![under_run.run()];
            ended.extend(args.block_runs().into_iter().map(|run| run.run()));
            ended.extend(args.files_runs().into_iter().map(|run| run.run()));
            let is_well = |code: &ExitCode| *code == ExitCode::SUCCESS;
            if ended.iter().all(is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// Scripts of `all`: medium, preset and smallest block.
const SCRIPTS: [(&str, &str, &str); 8] = [
    ("file", "nearhead", "4096"),
    ("file", "mlb", "512"),
    ("file", "singlelog", "4096"),
    ("file", "nolog", "512"),
    ("disk", "nearhead", "4096"),
    ("disk", "mlb-256", "4096"),
    ("mirror", "nearhead", "4096"),
    ("chain", "gecko", "4096"),
];

/// Crashes in runs of a program on files at most: each takes a whole run.
const FILES_KILLS_MAX: u32 = 5;
/// Acts of a script on files of `all`.
const FILES_ACTS: &str = "100";

impl AllArgs {
    /// Scripts in every mode on a file and on a disk that loses its power, and every program.
    fn files_runs(&self) -> Vec<FilesArgs> {
        let (seed, runs) = (self.seed.to_string(), self.runs.to_string());
        let kills = self.runs.min(FILES_KILLS_MAX).to_string();
        let first = ["nearhead-twin", "files", "--seed", &seed];
        let read = |words: &[&str]| match Words::parse_from(first.iter().chain(words)).what {
            Of::Files(args) => Some(args),
            _ => None,
        };
        let scripts = files::MODES.iter().flat_map(|mode| {
            ["file", "disk"].map(|medium| {
                read(&["--mode", mode, "--medium", medium, "--seeds", &runs, "--acts", FILES_ACTS])
            })
        });
        let programs = files_programs::PROGRAMS.iter().filter(|program| {
            let why = files_programs::why_not(program);
            why.inspect(|why| println!("skipped: {}: {why}", program.name)).is_none()
        });
        let programs = programs.zip(files::MODES.iter().cycle());
        let programs = programs.map(|(program, mode)| {
            read(&["--program", program.name, "--mode", mode, "--kills", &kills])
        });
        scripts.chain(programs).flatten().collect()
    }

    fn block_runs(&self) -> Vec<BlockArgs> {
        let (seed, runs) = (self.seed.to_string(), self.runs.to_string());
        let first = ["nearhead-twin", "block", "--seed", &seed];
        let read = |words: &[&str]| {
            let words = first.iter().chain(words);
            match Words::parse_from(words).what {
                Of::Block(args) => Some(args),
                _ => None,
            }
        };
        let scripts = SCRIPTS.iter().map(|(medium, preset, block)| {
            read(&["--medium", medium, "--preset", preset, "--block-size", block, "--seeds", &runs])
        });
        let programs = ProgramWord::value_variants().iter().flat_map(|program| {
            WhoWord::value_variants().iter().map(|who| {
                let word = |value: Option<clap::builder::PossibleValue>| {
                    value.map_or_else(String::new, |value| value.get_name().to_owned())
                };
                let (program, who) =
                    (word(program.to_possible_value()), word(who.to_possible_value()));
                let acts = (u64::from(self.runs) * 100).to_string();
                let image = (PROGRAM_IMAGE_MIB).to_string();
                read(&[
                    "--program",
                    &program,
                    "--kill",
                    &who,
                    "--kills",
                    &runs,
                    "--acts",
                    &acts,
                    "--image-mib",
                    &image,
                ])
            })
        });
        scripts.chain(programs).flatten().collect()
    }
}

/// The program under test: the one that was given, or the one that was built together with this program.
fn nearhead(given: Option<&PathBuf>) -> PathBuf {
    let built = || std::env::current_exe().unwrap_or_default().with_file_name("nearhead");
    given.cloned().unwrap_or_else(built)
}

/// Image below a program: a database takes most of it.
const PROGRAM_IMAGE_MIB: u64 = 400;

impl BlockArgs {
    /// Runs every seed; 0 if nothing differs, 1 if something does, 2 if this machine cannot.
    fn run(&self) -> ExitCode {
        let settings = self.settings();
        let mut failed = false;
        for seed in self.seed..self.seed + self.seeds.max(1) {
            let done = match self.program {
                Some(_) => self.run_program(&settings, seed),
                None => self.run_script(&settings, seed),
            };
            let command = self.command(seed);
            match done {
                Ok(None) => println!("nothing differs: {command}"),
                Ok(Some(found)) => {
                    failed = true;
                    println!("{found}\nrepeat with: {command}");
                }
                Err(why) => {
                    eprintln!("nearhead-twin: seed {seed}: {why}; it was: {command}");
                    return ExitCode::from(2);
                }
            }
        }
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

impl BlockArgs {
    fn settings(&self) -> Settings {
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        // Programs run in other folders, and as other users.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let mut settings = Settings::new(nearhead(self.nearhead.as_ref()), folder);
        settings.block_bytes = self.block_size;
        settings.image_bytes = self.image_mib << 20;
        settings.preset.clone_from(&self.preset);
        settings.medium = self.medium.kind();
        settings
    }

    fn who(&self) -> Option<Who> {
        self.kill.map(|who| match who {
            WhoWord::Worker => Who::Worker,
            WhoWord::Supervisor => Who::Supervisor,
            WhoWord::Both => Who::Both,
        })
    }

    fn kinds(&self) -> Vec<Kind> {
        let is_file = self.medium.kind() == MediumKind::File;
        let can_have = |kind: &Kind| {
            if is_file { *kind != Kind::Power } else { !OF_FILES.contains(kind) }
        };
        let all = KINDS.iter().map(|row| row.kind).filter(can_have);
        let mut kinds = if self.kinds.is_empty() { all.collect() } else { self.kinds.clone() };
        let of_kills = [
            (Kind::KillWorker, Who::Worker),
            (Kind::KillSupervisor, Who::Supervisor),
            (Kind::KillBoth, Who::Both),
        ];
        if let Some(who) = self.who() {
            kinds.retain(|kind| !of_kills.iter().any(|(own, _)| own == kind));
            kinds.extend(of_kills.iter().filter(|(_, own)| *own == who).map(|(kind, _)| kind));
        }
        kinds
    }

    fn run_program(&self, settings: &Settings, seed: u64) -> Result<Option<Difference>, String> {
        let program = match self.program {
            Some(ProgramWord::Fsx) | None => Program::Fsx,
            Some(ProgramWord::Postgres) => Program::Postgres,
            Some(ProgramWord::Fio) => Program::Fio,
            Some(ProgramWord::Dd) => Program::Dd,
        };
        let kill = self.who();
        let kills = if kill.is_some() { self.kills } else { 0 };
        programs::run(settings, Plan { program, seed, acts: self.acts, kill, kills })
    }

    fn run_script(&self, settings: &Settings, seed: u64) -> Result<Option<Difference>, String> {
        let (acts, found) = match &self.script {
            Some(file) => {
                let acts = read_script(file)?;
                let found = run(settings, &acts)?;
                (acts, found)
            }
            None => run_generated(settings, |shape| {
                script::generate(seed, self.acts as usize, &self.kinds(), shape)
            })?,
        };
        let Some(found) = found else { return Ok(None) };
        println!("seed {seed}: {found}");
        let again = |acts: &[Act]| run(settings, acts).ok().flatten();
        let shorter = shrink::shrink(&acts, &found, self.shrink, again);
        println!("a script that shows it (--script FILE):");
        for act in shorter {
            println!("{act}");
        }
        Ok(Some(found))
    }

    /// The command line that repeats the run of `seed`.
    fn command(&self, seed: u64) -> String {
        let mut words = vec![format!(
            "cargo run -p nearhead-twin -- block --seed {seed} --acts {} --medium {} --preset {} --block-size {} --image-mib {}",
            self.acts,
            word_of(&MediumKind::ALL, &self.medium.kind()),
            self.preset,
            self.block_size,
            self.image_mib,
        )];
        if let Some(program) = self.program.and_then(|program| program.to_possible_value()) {
            words.push(format!("--program {} --kills {}", program.get_name(), self.kills));
        }
        words.extend(self.who().map(|who| format!("--kill {}", word_of(&Who::ALL, &who))));
        if !self.kinds.is_empty() {
            let rows = KINDS.iter().filter(|row| self.kinds.contains(&row.kind));
            words.push(format!(
                "--kinds {}",
                rows.map(|row| row.name).collect::<Vec<_>>().join(",")
            ));
        }
        words.extend(self.script.iter().map(|file| format!("--script {}", file.display())));
        words.join(" ")
    }
}

fn read_script<T: std::str::FromStr<Err = String>>(
    file: &std::path::Path,
) -> Result<Vec<T>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            line.parse().map_err(|why| format!("{}:{}: {why}", file.display(), number + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_all_runs_every_program() {
        Words::command().debug_assert();
        let runs = AllArgs { seed: 1, runs: 2 }.block_runs();
        let programs = ProgramWord::value_variants().len() * WhoWord::value_variants().len();
        assert_eq!(runs.len(), SCRIPTS.len() + programs);
    }
}
