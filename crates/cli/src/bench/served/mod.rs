//! A volume in a file, served over NBD, against `nbdkit file` and `qemu-nbd` on files beside it.
//!
//! Each server is a program of its own, as users start it (`servers.rs`); one client drives them all
//! (`load.rs`); for each load they take turns in rounds, in another order each round, and medians of the
//! rounds count. Before anything is measured every image is written whole and every volume's logs are
//! filled several times over, so that its cleaning is part of what is measured. A row compares us, as
//! we are by default, with the better of the others. The peers that use the page cache answer reads from
//! memory, as ours does with it.

mod load;
mod servers;

use super::Effort;
use super::machine::durable_write_us;
use super::row::{Row, Target, median};
use load::{FUA_1, LOADS, Load, Outcome};
use servers::{Server, Who};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const ADDED: Target = Target::AtMost(50.0);
/// How often the logs, a tenth of the image by default, are filled before anything is measured.
const LOGS_FILLED: u64 = 3;

/// Medians are over the rounds; by server and load.
type Results = BTreeMap<(usize, usize), Vec<Outcome>>;

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let image_bytes: u64 = effort.pick(1 << 30, 64 << 20);
    let (mut servers, mut missing) = (Vec::new(), Vec::new());
    for who in Who::ALL {
        match Server::start(who, folder, image_bytes) {
            Ok(server) => servers.push(server),
            Err(why) if who == Who::Ours => return Err(why),
            Err(why) => missing.push(why),
        }
    }
    let span_bytes = prepare(&servers, image_bytes)?;
    let (results, added) = rounds(effort, folder, &servers, span_bytes)?;
    let mut rows: Vec<Row> =
        (0..LOADS.len()).flat_map(|load| rows_of(load, &servers, &results)).collect();
    rows.push(added);
    let path = folder.join("served.md");
    let table = table(&servers, &results);
    eprint!("{table}");
    std::fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))?;
    rows.extend(missing.iter().map(|why| Row::skipped("served_by", Target::Informative, why)));
    Ok(rows)
}

/// Brings every server to the state in which it stays; how much of every export is used.
fn prepare(servers: &[Server], image_bytes: u64) -> Result<u64, String> {
    let mut span_bytes = image_bytes;
    for server in servers {
        let told = |error: std::io::Error| format!("{}: {error}", server.who.name());
        let size_bytes = server.connect().map_err(told)?.size_bytes();
        span_bytes = span_bytes.min(size_bytes >> 20 << 20);
    }
    for server in servers {
        let told = |error: std::io::Error| format!("{}: {error}", server.who.name());
        load::fill_image(server).map_err(told)?;
        if server.who.is_ours() {
            let log_bytes = image_bytes / 10;
            load::fill_logs(server, span_bytes, LOGS_FILLED * log_bytes).map_err(told)?;
        }
        server.run(false);
    }
    Ok(span_bytes)
}

fn rounds(
    effort: Effort,
    folder: &Path,
    servers: &[Server],
    span_bytes: u64,
) -> Result<(Results, Row), String> {
    let time = Duration::from_millis(effort.pick(1000, 100));
    let mut results = Results::new();
    let (mut with_us, mut without_us) = (Vec::new(), Vec::new());
    for round in 0..effort.pick(3, 1) {
        for (load_number, load) in LOADS.iter().enumerate() {
            for turn in 0..servers.len() {
                let number = (turn + round) % servers.len();
                let server = &servers[number];
                server.run(true);
                let outcome = load.run(server, span_bytes, time, round as u64);
                server.run(false);
                let outcome = outcome
                    .map_err(|error| format!("{}, {}: {error}", server.who.name(), load.name))?;
                if server.who == Who::Ours && load.row == FUA_1.row {
                    with_us.push(outcome.p50_us);
                    without_us.extend(durable_write_us(folder, time));
                }
                results.entry((number, load_number)).or_default().push(outcome);
            }
        }
    }
    let added = if without_us.is_empty() {
        Row::skipped("added_latency_qd1_fua_p50_us", ADDED, "no file can be written in this folder")
    } else {
        let (with, without) = (median(&with_us), median(&without_us));
        let detail = format!("p50 {with:.0} us served, {without:.0} us raw O_DIRECT+DSYNC");
        Row::new("added_latency_qd1_fua_p50_us", ADDED, with - without, detail)
    };
    Ok((results, added))
}

/// Median of the rounds, in requests a second.
fn rate(results: &Results, server: usize, load: usize) -> f64 {
    let outcomes = results.get(&(server, load)).map_or(&[][..], Vec::as_slice);
    median(&outcomes.iter().map(|outcome| outcome.requests_per_s).collect::<Vec<f64>>())
}

/// All of it side by side, for people.
fn table(servers: &[Server], results: &Results) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let names = servers.iter().map(|server| server.who.name().to_owned());
    let head: Vec<String> = std::iter::once("requests/s or MB/s".to_owned()).chain(names).collect();
    let mut text = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
    for (number, load) in LOADS.iter().enumerate() {
        let cell = |server| format!("{:.0}", load.shown(rate(results, server, number)));
        let cells = (0..servers.len()).map(cell);
        text += &line(&std::iter::once(load.name.to_owned()).chain(cells).collect::<Vec<_>>());
    }
    text
}

/// The rows of a load: us by default against the better peer, and for each other way to serve one.
fn rows_of(number: usize, servers: &[Server], results: &Results) -> Vec<Row> {
    let load = &LOADS[number];
    let of = |(index, server): (usize, &Server)| (server.who, rate(results, index, number));
    let rates: Vec<(Who, f64)> = servers.iter().enumerate().map(of).collect();
    let detail = told(load, &rates);
    let peers = rates.iter().filter(|(who, _)| !who.is_ours()).map(|(_, rate)| *rate);
    let Some(best) = peers.reduce(f64::max) else {
        let name = format!("served_{}_vs_best_peer_ratio", load.row);
        return vec![Row::skipped(
            name,
            Target::AtLeast(1.0),
            &format!("no peer to compare with: {detail}"),
        )];
    };
    let ours = rates.iter().filter(|(who, _)| who.is_ours());
    let row = |(who, rate): &(Who, f64)| {
        let (suffix, target) = match who {
            Who::OursNoHead => ("_not_rotational", Target::Informative),
            Who::OursDirect => ("_direct", Target::Informative),
            _ => ("", Target::AtLeast(1.0)),
        };
        let name = format!("served_{}{suffix}_vs_best_peer_ratio", load.row);
        let detail = if suffix.is_empty() { detail.as_str() } else { "as above" };
        Row::new(name, target, rate / best, detail.to_owned())
    };
    ours.map(row).collect()
}

fn told(load: &Load, rates: &[(Who, f64)]) -> String {
    let each = rates.iter().map(|(who, rate)| format!("{} {:.0}", who.name(), load.shown(*rate)));
    format!("{}, {}: {}", load.name, load.unit(), each.collect::<Vec<String>>().join(", "))
}
