//! The quick share of the twin under `nearhead run`: every act, and a few kills of what is installed.
//!
//! Bounded by about 30 s on one core; `nearhead-twin run` does more. Without the built program, its
//! library, a C compiler or a database a test prints why it is skipped.

#![allow(clippy::unwrap_used, reason = "tests")]

use nearhead_twin::Failed;
use nearhead_twin::under_run::databases::{Database, Mariadb, Redis, Sqlite};
use nearhead_twin::under_run::{Settings, acts, kills};
use std::path::PathBuf;

fn settings() -> Option<Settings> {
    let twin = PathBuf::from(env!("CARGO_BIN_EXE_nearhead-twin"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let settings = Settings::of(twin.with_file_name("nearhead"), folder);
    settings.inspect_err(|why| println!("skipped: {why}")).ok()
}

fn survives(database: &mut dyn Database, kills: u32) {
    let Some(settings) = settings() else { return };
    match kills::run(&settings, database, kills, 1) {
        Ok(changes) => println!("{changes} changes"),
        Err(Failed::Cannot(why)) => println!("skipped: {why}"),
        Err(Failed::Differs(law, detail)) => panic!("{law}: {detail}"),
    }
}

#[test]
fn acts_on_a_log_end_alike_plain_and_under_run() {
    let Some(settings) = settings() else { return };
    match acts::run(&settings) {
        Ok(count) => assert!(count > 40, "{count}"),
        Err(Failed::Cannot(why)) => println!("skipped: {why}"),
        Err(Failed::Differs(law, detail)) => panic!("{law}: {detail}"),
    }
}

#[test]
fn a_killed_sqlite_has_every_acknowledged_change() {
    for mode in ["delete", "truncate", "persist", "wal"] {
        survives(&mut Sqlite::new(mode), 3);
    }
}

#[test]
fn a_killed_redis_has_every_acknowledged_change() {
    survives(&mut Redis::default(), 5);
}

#[test]
fn a_killed_mariadb_has_every_acknowledged_change() {
    survives(&mut Mariadb::default(), 2);
}
