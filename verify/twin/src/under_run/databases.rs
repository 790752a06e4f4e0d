//! Databases that the twin kills: how each starts, takes a change, counts, and judges itself.
//!
//! Every change has a number, from 1 on without gaps, and is acknowledged by a line. All servers listen
//! on a Unix socket in their own folder, and on no port.

use super::client::Client;
use super::{Place, Settings, Way};
use crate::{Step, differs, tools};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a server to answer.
const START_MAX: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const BINARY_LOG: &str = "the binary log can be read to its end";

/// A database that runs.
pub struct Server {
    /// Process of the server; `None` where the client is the database.
    pub process: Option<Child>,
    /// A connection.
    pub client: Client,
}

/// A database under test.
pub trait Database {
    /// Makes it, with nothing in it.
    ///
    /// # Errors
    /// Programs that the machine lacks.
    fn prepare(&mut self, settings: &Settings) -> Result<(), String>;
    /// Starts it and connects.
    ///
    /// # Errors
    /// If it ends, or does not answer.
    fn start(&self, settings: &Settings, way: Way) -> Result<Server, String>;
    /// Change `number`, as a line for the client.
    fn change(&self, number: u64) -> String {
        let text = "x".repeat((number * 37 % 900) as usize);
        format!("INSERT INTO t VALUES ({number}, '{text}'); SELECT {number};")
    }
    /// The line that acknowledges it.
    fn acknowledgement(&self, number: u64) -> String {
        number.to_string()
    }
    /// How many changes there are, if they are all from 1 on.
    fn count(&self, client: &mut Client) -> Option<u64>;
    /// Runs the database's own checker, while it is down.
    ///
    /// # Errors
    /// Findings of the checker.
    fn judge(&self, _settings: &Settings) -> Step {
        Ok(())
    }
}

const COUNT: &str =
    "SELECT CASE WHEN COUNT(*) = COALESCE(MAX(a), 0) THEN COUNT(*) ELSE -1 END FROM t;";

fn folder_of(place: Option<&Place>) -> &Path {
    place.map_or(Path::new(""), |place| &place.0)
}

/// Waits until `connect` succeeds or the process ends.
fn connected(
    mut process: Child,
    log: &Path,
    connect: impl Fn() -> Option<Client>,
) -> Result<Server, String> {
    let start = Instant::now();
    loop {
        if let Some(client) = connect() {
            return Ok(Server { process: Some(process), client });
        }
        let ended = process.try_wait().map_err(|error| error.to_string())?;
        if ended.is_some() || start.elapsed() > START_MAX {
            let _ = process.kill();
            let _ = process.wait();
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(6).collect();
            return Err(format!("it does not start: {}", lines.join(" | ")));
        }
        std::thread::sleep(PAUSE);
    }
}

fn logged(command: &mut Command, log: &Path) -> Result<Child, String> {
    let log = File::create(log).map_err(|error| error.to_string())?;
    let errors = log.try_clone().map_err(|error| error.to_string())?;
    let started = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    started.map_err(|error| format!("a server: {error}"))
}

/// `SQLite`, in one journal mode. Its shell is the database.
pub struct Sqlite {
    /// `delete`, `truncate`, `persist` or `wal`.
    pub mode: &'static str,
    place: Option<Place>,
}

impl Sqlite {
    /// A database in the journal mode `mode`.
    pub fn new(mode: &'static str) -> Self {
        Self { mode, place: None }
    }

    fn file(&self) -> PathBuf {
        folder_of(self.place.as_ref()).join("data.db")
    }
}

impl Database for Sqlite {
    fn prepare(&mut self, settings: &Settings) -> Result<(), String> {
        tools::need(&["sqlite3"])?;
        self.place = Some(settings.place(&format!("sqlite-{}", self.mode))?);
        let sql = format!("PRAGMA journal_mode={}; CREATE TABLE t (a INTEGER, b TEXT);", self.mode);
        tools::ok("sqlite3", &[self.file().as_os_str(), sql.as_ref()]).map(drop)
    }

    fn start(&self, settings: &Settings, way: Way) -> Result<Server, String> {
        // Also its database, which is no log: a pattern may take too much.
        let mut command = settings.command(way, "data.db*", "sqlite3");
        let mut client = Client::start(command.arg("-batch").arg(self.file()))?;
        let sql = format!("PRAGMA journal_mode={}; PRAGMA synchronous=FULL;", self.mode);
        let mode = client.ask(&sql).ok_or("sqlite3 ends")?;
        if mode == self.mode {
            Ok(Server { process: None, client })
        } else {
            Err(format!("journal mode {mode}"))
        }
    }

    fn count(&self, client: &mut Client) -> Option<u64> {
        if client.ask("PRAGMA integrity_check;")? != "ok" {
            return None;
        }
        client.ask(COUNT)?.parse().ok()
    }
}

/// Redis with an append-only file, synced for each change.
#[derive(Default)]
pub struct Redis {
    place: Option<Place>,
}

impl Database for Redis {
    fn prepare(&mut self, settings: &Settings) -> Result<(), String> {
        tools::need(&["redis-server"])?;
        self.place = Some(settings.place("redis")?);
        Ok(())
    }

    fn start(&self, settings: &Settings, way: Way) -> Result<Server, String> {
        let folder = folder_of(self.place.as_ref());
        let (socket, log) = (folder.join("socket"), folder.join("log"));
        let mut command = settings.command(way, "*.aof", "redis-server");
        command.args([
            "--port",
            "0",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
        ]);
        command.arg("--unixsocket").arg(&socket).arg("--dir").arg(folder);
        connected(logged(&mut command, &log)?, &log, || {
            let mut client = Client::connect(&socket).ok()?;
            client.ask("PING").filter(|line| line == "+PONG").map(|_| client)
        })
    }

    fn change(&self, number: u64) -> String {
        format!("SET {number} {number}{}", "x".repeat((number * 37 % 900) as usize))
    }

    fn acknowledgement(&self, _number: u64) -> String {
        "+OK".to_owned()
    }

    fn count(&self, client: &mut Client) -> Option<u64> {
        let count = client.ask("DBSIZE")?.strip_prefix(':')?.parse().ok()?;
        for number in [1, count].into_iter().filter(|_| count > 0) {
            let found = client.ask(&format!("EXISTS {number}"))?;
            if found != ":1" {
                return None;
            }
        }
        Some(count)
    }
}

/// `MariaDB` with a binary log that is synced for each change.
#[derive(Default)]
pub struct Mariadb {
    place: Option<Place>,
}

impl Database for Mariadb {
    fn prepare(&mut self, settings: &Settings) -> Result<(), String> {
        tools::need(&["mariadbd", "mariadb", "mariadb-install-db", "mariadb-binlog"])?;
        let place = settings.place("mariadb")?;
        let data = format!("--datadir={}", place.0.join("data").display());
        tools::ok(
            "mariadb-install-db",
            &[
                "--no-defaults",
                &data,
                "--user=root",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ],
        )?;
        self.place = Some(place);
        let mut server = self.start(settings, Way::Plain)?;
        let made = server
            .client
            .ask("CREATE TABLE t (a INT PRIMARY KEY, b TEXT) ENGINE=InnoDB; SELECT 0;");
        server.kill();
        if made.is_some() { Ok(()) } else { Err("MariaDB makes no table".to_owned()) }
    }

    fn start(&self, settings: &Settings, way: Way) -> Result<Server, String> {
        let folder = folder_of(self.place.as_ref());
        let (socket, log) = (folder.join("socket"), folder.join("log"));
        let mut command = settings.command(way, "binlog.*", "mariadbd");
        command.args(["--no-defaults", "--user=root", "--skip-networking", "--log-bin=binlog"]);
        command.args([
            "--sync-binlog=1",
            "--innodb-flush-log-at-trx-commit=1",
            "--skip-grant-tables",
        ]);
        command.args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"]);
        command.arg(format!("--datadir={}", folder.join("data").display()));
        command.arg(format!("--socket={}", socket.display()));
        connected(logged(&mut command, &log)?, &log, || {
            let mut command =
                tools::command("mariadb", &["--no-defaults", "-N", "--batch", "--unbuffered"]);
            let socket = format!("--socket={}", socket.display());
            let mut client = Client::start(command.arg(socket).arg("mysql")).ok()?;
            client.ask("SELECT 'ready';").filter(|line| line == "ready").map(|_| client)
        })
    }

    fn count(&self, client: &mut Client) -> Option<u64> {
        client.ask(COUNT)?.parse().ok()
    }

    /// The database's own reader reads every binary log to the end, and no transaction has another's number.
    fn judge(&self, _settings: &Settings) -> Step {
        let data = folder_of(self.place.as_ref()).join("data");
        let entries = std::fs::read_dir(&data).map_err(|error| error.to_string())?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_log = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("binlog.0"))
        };
        let mut numbers = BTreeSet::new();
        for path in names.filter(is_log) {
            let text = tools::run("mariadb-binlog", &["--no-defaults".as_ref(), path.as_os_str()])?;
            if !text.status.success() {
                return differs(
                    BINARY_LOG,
                    format!("{}: {}", path.display(), tools::words_of(&text)),
                );
            }
            for line in String::from_utf8_lossy(&text.stdout).lines() {
                let Some((_, rest)) = line.split_once("\tGTID ") else { continue };
                let number = rest.split(' ').next().unwrap_or_default().to_owned();
                if !numbers.insert(number.clone()) {
                    return differs(BINARY_LOG, format!("GTID {number} is there twice"));
                }
            }
        }
        Ok(())
    }
}

/// `PostgreSQL`, whose segments are overwritten.
#[derive(Default)]
pub struct Postgres {
    place: Option<Place>,
    programs: PathBuf,
}

/// Words for `setpriv` that run a command as the user `postgres`.
fn as_postgres(command: &Path) -> Vec<String> {
    let words = ["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"];
    let command = command.display().to_string();
    words.iter().map(|word| (*word).to_owned()).chain([command]).collect()
}

impl Database for Postgres {
    fn prepare(&mut self, settings: &Settings) -> Result<(), String> {
        tools::need(&["setpriv", "psql"])?;
        self.programs =
            crate::programs::postgres_programs().ok_or("PostgreSQL is not installed")?;
        let place = settings.place("postgres")?;
        tools::ok("chown", &["postgres".as_ref(), place.0.as_os_str()])?;
        let data = place.0.join("data").display().to_string();
        let mut words = as_postgres(&self.programs.join("initdb"));
        words.extend(["-D", &data, "-A", "trust", "-N"].map(str::to_owned));
        tools::ok("setpriv", &words)?;
        self.place = Some(place);
        let mut server = self.start(settings, Way::Plain)?;
        let made = server.client.ask("CREATE TABLE t (a INT PRIMARY KEY, b TEXT); SELECT 0;");
        server.kill();
        if made.is_some() { Ok(()) } else { Err("PostgreSQL makes no table".to_owned()) }
    }

    fn start(&self, settings: &Settings, way: Way) -> Result<Server, String> {
        let folder = folder_of(self.place.as_ref());
        let log = folder.join("log");
        let pattern = folder.join("data/pg_wal/????????????????????????").display().to_string();
        let start = Instant::now();
        loop {
            let mut command = settings.command(way, &pattern, "setpriv");
            command
                .args(as_postgres(&self.programs.join("postgres")))
                .arg("-D")
                .arg(folder.join("data"));
            command.args(["-c", "listen_addresses=", "-c", "fsync=on", "-c"]);
            command.arg(format!("unix_socket_directories={}", folder.display()));
            let server = connected(logged(&mut command, &log)?, &log, || {
                let words = ["-qAtX", "-U", "postgres", "-d", "postgres", "-h"];
                let mut command = tools::command("psql", &words);
                let mut client = Client::start(command.arg(folder)).ok()?;
                client.ask("SELECT 'ready';").filter(|line| line == "ready").map(|_| client)
            });
            match server {
                // Processes of the killed server are still on their way out.
                Err(why) if why.contains("shared memory") && start.elapsed() < START_MAX => {
                    std::thread::sleep(PAUSE);
                }
                server => return server,
            }
        }
    }

    fn count(&self, client: &mut Client) -> Option<u64> {
        client.ask(COUNT)?.parse().ok()
    }
}
