//! `PostgreSQL` on ext4: pgbench's own accounts must balance, and every acknowledged row be there.
//!
//! The server runs as the user `postgres` on a Unix socket of its own. After a kill of both it is
//! stopped at once, and recovers from its own log once the volume is back.

use super::{Place, Plan, bring_back, quoted, shell, with_kills};
use crate::act::Who;
use crate::run::Twin;
use crate::{Step, differs, tools};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest wait for a server that is to end at once; it ends itself after 5 s.
const END_MAX: Duration = Duration::from_secs(30);
const BALANCES: &str = "the accounts of pgbench balance";
const ACKNOWLEDGED: &str = "every acknowledged row is there";

/// Folder of the server's programs.
pub(super) fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(Result::ok).map(|entry| entry.path().join("bin"));
    folders.filter(|folder| folder.join("postgres").is_file()).max()
}

struct Server {
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
    is_running: bool,
    process: Option<Pid>,
}

impl Server {
    /// Runs a command as the user `postgres`.
    fn run(&self, command: &str) -> Result<String, String> {
        let path = format!("PATH={}:$PATH", self.programs.display());
        let command =
            format!("cd / && export {path} PGHOST={} && {command}", self.sockets.display());
        tools::ok("runuser", &["-u", "postgres", "--", "sh", "-c", &command])
    }

    fn start(&mut self) -> Result<(), String> {
        let options =
            format!("-c listen_addresses= -c unix_socket_directories={}", self.sockets.display());
        let (data, log) = (quoted(&self.data), quoted(&self.sockets.join("log")));
        self.run(&format!(
            "pg_ctl -D {data} -l {log} -t 120 -w -o \"{options}\" start >{log}.ctl 2>&1"
        ))?;
        let text = self.run(&format!("head -n 1 {data}/postmaster.pid"))?;
        self.process = text.parse().ok().and_then(Pid::from_raw);
        self.is_running = true;
        Ok(())
    }

    /// Ends it at once by a signal: `pg_ctl` reads the process from a device that may be dead.
    fn end_at_once(&mut self) {
        self.is_running = false;
        let Some(process) = self.process.take() else { return };
        let _ = kill_process(process, Signal::QUIT);
        let begun = Instant::now();
        while test_kill_process(process).is_ok() {
            if begun.elapsed() > END_MAX {
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self, mode: &str) -> Result<(), String> {
        self.is_running = false;
        let data = quoted(&self.data);
        self.run(&format!("pg_ctl -D {data} -w -m {mode} stop >/dev/null 2>&1")).map(drop)
    }

    fn ask(&self, query: &str) -> Result<String, String> {
        self.run(&format!("psql -qAtX -d postgres -c \"{query}\""))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_running {
            self.end_at_once();
        }
    }
}

/// Runs transactions with kills below them, and checks the accounts.
pub(super) fn run(place: &Place, twin: &mut Twin, plan: Plan) -> Step {
    place.make_ext4()?;
    let mut mounted = place.mount()?;
    let programs = programs().ok_or_else(|| "PostgreSQL is not installed".to_owned())?;
    let sockets =
        PathBuf::from(format!("{}-pg", std::env::temp_dir().join(&twin.subject.name).display()));
    let data = place.folder.join("data");
    shell(&format!(
        "mkdir -p {0} && chown postgres {0} {1} && chmod 711 {2}",
        quoted(&sockets),
        quoted(&place.folder),
        quoted(&twin.scratch.0)
    ))?;
    let mut server =
        Server { programs, data, sockets: sockets.clone(), is_running: false, process: None };
    let done = (|| -> Step {
        server.run(&format!("initdb -D {} -A trust >/dev/null", quoted(&server.data)))?;
        server.start()?;
        server.run("pgbench -i -q -s 1 postgres 2>/dev/null")?;
        server.ask("create table acknowledged (number int)")?;
        let mut rows = 0;
        let rounds = if plan.kill == Some(Who::Worker) { 1 } else { plan.kills.max(1) };
        for _ in 0..rounds {
            let kills = if plan.kill == Some(Who::Worker) { plan.kills } else { 0 };
            let transactions = (plan.acts / 4).max(1);
            let bench = format!(
                "pgbench -n -c 4 -j 1 -t {transactions} --random-seed={} postgres 2>&1",
                plan.seed
            );
            with_kills(twin, kills, || server.run(&bench))?;
            let insert = "for i in 1 2 3 4 5 6 7 8; do psql -qX -d postgres -c \"insert into acknowledged values ($i)\" || exit 1; done";
            server.run(insert)?;
            rows += 8;
            if let Some(who) = plan.kill.filter(|who| *who != Who::Worker) {
                twin.subject.kill(who)?;
                if who == Who::Supervisor {
                    server.stop("fast")?;
                } else {
                    server.end_at_once();
                }
                mounted.end();
                bring_back(twin, who)?;
                mounted = place.mount()?;
                server.start()?;
            }
            check(&server, rows)?;
        }
        server.stop("fast")?;
        Ok(())
    })();
    drop(server);
    let _ = std::fs::remove_dir_all(&sockets);
    done?;
    mounted.end();
    crate::tools::ok("e2fsck", &["-fn".as_ref(), place.device.as_os_str()])?;
    Ok(())
}

fn check(server: &Server, rows: u64) -> Step {
    let sums = server.ask(
        "select (select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history), \
         (select sum(bbalance) from pgbench_branches) = (select coalesce(sum(delta), 0) from pgbench_history), \
         (select sum(tbalance) from pgbench_tellers) = (select coalesce(sum(delta), 0) from pgbench_history)",
    )?;
    if sums != "t|t|t" {
        return differs(BALANCES, format!("expected t|t|t, found {sums}"));
    }
    let found = server.ask("select count(*) from acknowledged")?;
    if found == rows.to_string() {
        Ok(())
    } else {
        differs(ACKNOWLEDGED, format!("{rows} rows, found {found}"))
    }
}
