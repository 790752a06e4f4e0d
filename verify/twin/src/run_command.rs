//! `nearhead-twin run`: programs plain and under `nearhead run`. Only prints and decides the exit code.

use clap::ValueEnum;
use nearhead_twin::Failed;
use nearhead_twin::under_run::databases::{Database, Mariadb, Postgres, Redis, Sqlite};
use nearhead_twin::under_run::{Settings, acts, kills};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `nearhead-twin run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Only this program [default: all]
    #[arg(long, value_enum, value_name = "PROGRAM")]
    program: Option<RunWord>,
    /// Kills of each database
    #[arg(long, value_name = "N", default_value_t = 10)]
    kills: u32,
    /// Seed of the lives
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The program under test [default: `nearhead` in the folder of this program]
    #[arg(long, value_name = "FILE")]
    nearhead: Option<PathBuf>,
    /// Folder for files
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Program of a run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunWord {
    Acts,
    Sqlite,
    Redis,
    Mariadb,
    Postgres,
}

/// A database; the acts where there is none.
type Subject = Option<Box<dyn Database>>;
type Row = (RunWord, &'static str, Subject);

impl RunArgs {
    /// Every program, with that many kills of each.
    pub(crate) fn all(kills: u32, seed: u64) -> Self {
        Self { program: None, kills, seed, nearhead: None, folder: None }
    }

    /// Runs each program; 0 if nothing differs, 1 if something does, 2 if this machine cannot.
    pub(crate) fn run(&self) -> ExitCode {
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let settings = match Settings::of(super::nearhead(self.nearhead.as_ref()), folder) {
            Ok(settings) => settings,
            Err(why) => {
                eprintln!("nearhead-twin: {why}");
                return ExitCode::from(2);
            }
        };
        let mut code = ExitCode::SUCCESS;
        for (word, name, database) in self.databases() {
            let done = match database {
                None => acts::run(&settings).map(|count| format!("{count} acts")),
                Some(mut database) => kills::run(&settings, &mut *database, self.kills, self.seed)
                    .map(|count| format!("{} kills, {count} changes", self.kills)),
            };
            match done {
                Ok(what) => println!("nothing differs: run, {name}: {what}"),
                Err(Failed::Differs(law, detail)) => {
                    println!("{name}, seed {}: {law}: {detail}", self.seed);
                    code = ExitCode::FAILURE;
                }
                Err(Failed::Cannot(why)) if self.program == Some(word) => {
                    eprintln!("nearhead-twin: {name}: {why}");
                    return ExitCode::from(2);
                }
                Err(Failed::Cannot(why)) => println!("skipped: {name}: {why}"),
            }
        }
        code
    }

    fn databases(&self) -> Vec<Row> {
        let sqlite = |mode| -> Subject { Some(Box::new(Sqlite::new(mode))) };
        let all: Vec<Row> = vec![
            (RunWord::Acts, "acts", None),
            (RunWord::Sqlite, "SQLite, journal deleted", sqlite("delete")),
            (RunWord::Sqlite, "SQLite, journal truncated", sqlite("truncate")),
            (RunWord::Sqlite, "SQLite, journal kept", sqlite("persist")),
            (RunWord::Sqlite, "SQLite, write-ahead log", sqlite("wal")),
            (RunWord::Redis, "Redis", Some(Box::<Redis>::default())),
            (RunWord::Mariadb, "MariaDB", Some(Box::<Mariadb>::default())),
            (RunWord::Postgres, "PostgreSQL", Some(Box::<Postgres>::default())),
        ];
        all.into_iter().filter(|(word, ..)| self.program.is_none_or(|only| only == *word)).collect()
    }
}
