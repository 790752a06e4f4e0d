//! A volume in a file, served over NBD, against `nbdkit file` and `qemu-nbd` on files beside it.
//!
//! Each server is a program of its own, as users start it (`servers.rs`); one client drives them all
//! (`load.rs`); for each load they take turns in rounds, in another order each round. Before anything is
//! measured every image is written whole and every volume's logs are filled several times over, so that its
//! cleaning is part of what is measured. A row compares us, as we are by default, with the better of the
//! others, turn by turn of the same round, and the median of these ratios counts: a disk that answers a
//! hundred times slower for a while, as virtual ones do, is slow for neighbours alike. The peers that use
//! the page cache answer reads from memory, as ours does with it; before each load of reads every image is read once
//! past all servers, since some machines drop pages that nobody has asked for in a while. A peer that hangs up is
//! compared up to there.

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
const ROUNDS: usize = 5;

/// One outcome for each round; by server and load.
type Results = BTreeMap<(usize, usize), Vec<Outcome>>;

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let wished = |load: &Load| effort.loads.iter().any(|wish| load.row.starts_with(wish.as_str()));
    let loads: Vec<Load> =
        LOADS.into_iter().filter(|load| effort.loads.is_empty() || wished(load)).collect();
    if loads.is_empty() {
        let known = LOADS.map(|load| load.row).join(", ");
        return Err(format!(
            "expected --loads with beginnings of {known}, found {:?}",
            effort.loads
        ));
    }
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
    let (results, added, gone) = rounds(effort, folder, &loads, (&servers, span_bytes))?;
    missing.extend(gone);
    let mut rows: Vec<Row> =
        (0..).zip(&loads).flat_map(|load| rows_of(load, &servers, &results)).collect();
    rows.extend(added);
    let path = folder.join("served.md");
    let table = table(&loads, &servers, &results);
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
    loads: &[Load],
    (servers, span_bytes): (&[Server], u64),
) -> Result<(Results, Option<Row>, Vec<String>), String> {
    let time = Duration::from_millis(effort.pick(1000, 100));
    let mut results = Results::new();
    let (mut with_us, mut without_us) = (Vec::new(), Vec::new());
    let mut gone: BTreeMap<usize, String> = BTreeMap::new();
    for round in 0..effort.pick(ROUNDS, 1) {
        for (load_number, load) in loads.iter().enumerate() {
            for turn in 0..servers.len() {
                let number = (turn + round) % servers.len();
                let server = &servers[number];
                if gone.contains_key(&number) {
                    continue;
                }
                server.run(true);
                let outcome = load.run(server, span_bytes, time, round as u64);
                server.run(false);
                let outcome = match outcome {
                    Ok(outcome) => outcome,
                    Err(error) => {
                        let (name, load) = (server.who.name(), load.name);
                        let told = format!("{name}, round {}, {load}: {error}", round + 1);
                        if server.who.is_ours() {
                            return Err(told);
                        }
                        gone.insert(number, told);
                        continue;
                    }
                };
                if server.who == Who::Ours && load.row == FUA_1.row {
                    with_us.push(outcome.p50_us);
                    without_us.extend(durable_write_us(folder, time));
                }
                results.entry((number, load_number)).or_default().push(outcome);
            }
        }
    }
    let added = (!with_us.is_empty()).then(|| added_latency(&with_us, &without_us));
    Ok((results, added, gone.into_values().collect()))
}

/// What serving adds to the latency of a lone durable write.
fn added_latency(with_us: &[f64], without_us: &[f64]) -> Row {
    const NAME: &str = "added_latency_qd1_fua_p50_us";
    if without_us.is_empty() {
        return Row::skipped(NAME, ADDED, "no file can be written in this folder");
    }
    let (with, without) = (median(with_us), median(without_us));
    let detail = format!("p50 {with:.0} us served, {without:.0} us raw O_DIRECT+DSYNC");
    Row::new(NAME, ADDED, with - without, detail)
}

/// Requests a second of each round.
fn rates(results: &Results, server: usize, load: usize) -> Vec<f64> {
    let outcomes = results.get(&(server, load)).map_or(&[][..], Vec::as_slice);
    outcomes.iter().map(|outcome| outcome.requests_per_s).collect()
}

/// The median over the rounds of one server's rate over another's in the same round.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    median(&ratios.collect::<Vec<f64>>())
}

/// All of it side by side, medians, for people.
fn table(loads: &[Load], servers: &[Server], results: &Results) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let names = servers.iter().map(|server| server.who.name().to_owned());
    let head: Vec<String> = std::iter::once("requests/s or MB/s".to_owned()).chain(names).collect();
    let mut text = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
    for (number, load) in loads.iter().enumerate() {
        let cell = |server| format!("{:.0}", load.shown(median(&rates(results, server, number))));
        let cells = (0..servers.len()).map(cell);
        text += &line(&std::iter::once(load.name.to_owned()).chain(cells).collect::<Vec<_>>());
    }
    text
}

/// The rows of a load: us by default against the better peer, and for each other way to serve one.
fn rows_of((number, load): (usize, &Load), servers: &[Server], results: &Results) -> Vec<Row> {
    let of = |(index, server): (usize, &Server)| (server.who, rates(results, index, number));
    let rates: Vec<(Who, Vec<f64>)> = servers.iter().enumerate().map(of).collect();
    let detail = told(load, &rates);
    let peers = rates.iter().filter(|(who, _)| !who.is_ours()).map(|(_, rates)| rates);
    let Some(best) = peers.max_by(|one, other| median(one).total_cmp(&median(other))) else {
        let name = format!("served_{}_vs_best_peer_ratio", load.row);
        return vec![Row::skipped(
            name,
            Target::AtLeast(1.0),
            &format!("no peer to compare with: {detail}"),
        )];
    };
    let ours = rates.iter().filter(|(who, _)| who.is_ours());
    let row = |(who, rates): &(Who, Vec<f64>)| {
        let (suffix, target) = match who {
            Who::OursNoHead => ("_not_rotational", Target::Informative),
            Who::OursDirect => ("_direct", Target::Informative),
            _ => ("", Target::AtLeast(1.0)),
        };
        let name = format!("served_{}{suffix}_vs_best_peer_ratio", load.row);
        let detail = if suffix.is_empty() { detail.as_str() } else { "as above" };
        Row::new(name, target, ratio(rates, best), detail.to_owned())
    };
    ours.map(row).collect()
}

fn told(load: &Load, rates: &[(Who, Vec<f64>)]) -> String {
    let each =
        rates.iter().map(|(who, rates)| format!("{} {:.0}", who.name(), load.shown(median(rates))));
    format!("{}, {}: {}", load.name, load.unit(), each.collect::<Vec<String>>().join(", "))
}
