//! Metrics, alerts and the dashboard fit together: what a daemon exports is valid text, and everything that alerts and dashboard ask for
//! is something that a daemon exports.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::mounts::{can_mount, mount, unmount, volume};
use common::nbd::Client;
use common::{Daemon, Scratch, ask, run_ok, tool, tools};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const CONTRIB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib");

fn scrape(socket: &Path) -> String {
    ask(socket, "metrics")["ok"].as_str().unwrap().to_owned()
}

/// Metrics of a daemon that serves `target`, made so, after a read and a durable write.
fn metrics_of(scratch: &Scratch, create: &[&str], target: &str, serve: &[&str]) -> String {
    run_ok(scratch, create);
    let args = [&["--control", "c.sock"], serve].concat();
    let daemon = Daemon::serve(scratch, target, &args);
    let mut client = Client::connect(&daemon.socket).unwrap();
    client.write(0, &[7; 4096], true);
    client.read(0, 4096);
    let text = scrape(&scratch.path("c.sock"));
    drop(client);
    daemon.stop_ok();
    text
}

/// Metrics of a chain.
fn metrics_of_chain(scratch: &Scratch) -> String {
    let create = ["create", "--chain", "x.img,y.img", "--size", "128M", "--data-size", "128M"];
    run_ok(scratch, &create);
    let args = ["serve", "--chain", "x.img,y.img", "--socket", "chain.sock", "--control", "g.sock"];
    let daemon = Daemon::spawn(scratch, &args);
    let text = scrape(&scratch.path("g.sock"));
    daemon.stop_ok();
    text
}

fn metrics_of_log_disks(scratch: &Scratch) -> String {
    let devices = ["--log-devices", "m.img", "--data-devices", "d.img"];
    let create = ["create", "l.img", "--size", "128M", "--data-size", "128M", "--preset", "trail"];
    metrics_of(scratch, &[&create[..], &devices].concat(), "l.img", &devices)
}

fn metrics_of_mirror(scratch: &Scratch) -> String {
    for name in ["p.img", "q.img"] {
        std::fs::File::create(scratch.path(name)).unwrap().set_len(65 << 20).unwrap();
    }
    metrics_of(
        scratch,
        &["create", "mirror:p.img,q.img"],
        "mirror:p.img,q.img",
        &["--rest-mirrors", "1h"],
    )
}

/// A volume with a target and permits that nobody gives.
fn metrics_of_one(scratch: &Scratch) -> String {
    let create = ["create", "a.img", "--size", "64MiB"];
    let place = "zk://127.0.0.1:1/nearhead";
    let serve = ["--durable-p99", "10ms", "--checkpoint-coordinate", place];
    metrics_of(scratch, &create, "a.img", &serve)
}

fn metrics_of_mount(scratch: &Scratch) -> String {
    let (image, folder) = volume(scratch, "256M");
    let socket = scratch.text("named.control");
    let daemon = mount(scratch, &image, &folder, &["--control", &socket]);
    std::fs::write(folder.join("a"), "written").unwrap();
    assert_eq!(ask(Path::new(&socket), "sync")["ok"], "done");
    let text = scrape(Path::new(&socket));
    unmount(scratch, &folder, daemon);
    text
}

/// Those of every kind of daemon, asked once for all tests.
fn all_metrics() -> &'static [String] {
    static ALL: OnceLock<Vec<String>> = OnceLock::new();
    ALL.get_or_init(|| {
        let scratch = Scratch::new("monitoring");
        let mut texts = vec![
            metrics_of_one(&scratch),
            metrics_of_chain(&scratch),
            metrics_of_log_disks(&scratch),
            metrics_of_mirror(&scratch),
        ];
        texts.extend(can_mount().then(|| metrics_of_mount(&scratch)));
        texts
    })
}

/// What `promtool check metrics` finds wrong.
fn lint(text: &str) -> String {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    format!("{}{}", output.status, String::from_utf8_lossy(&told))
}

/// Names of samples.
fn exported(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

/// Names of this program's metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_ours =
        |word: &&str| word.starts_with("nearhead_") || *word == "process_start_time_seconds";
    words.filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn what_every_kind_of_daemon_exports_is_valid_and_named_as_prometheus_wants() {
    if !tools(&["promtool"]) {
        return;
    }
    for text in all_metrics() {
        assert_eq!(lint(text), "exit status: 0", "{text}");
    }
}

#[test]
fn every_sample_names_its_volume_and_histograms_count_what_was_asked() {
    let scratch = Scratch::new("labels");
    let text = metrics_of_one(&scratch);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("{volume=\"a.img\""), "{line}");
    }
    for part in [
        "nearhead_latency_seconds_bucket{volume=\"a.img\",kind=\"durable\",le=\"+Inf\"} 1\n",
        "nearhead_latency_seconds_count{volume=\"a.img\",kind=\"read\"} 1\n",
        "nearhead_request_size_bytes_bucket{volume=\"a.img\",kind=\"write\",le=\"512\"} 0\n",
        "nearhead_request_size_bytes_bucket{volume=\"a.img\",kind=\"write\",le=\"4096\"} 1\n",
        "nearhead_request_size_bytes_sum{volume=\"a.img\",kind=\"write\"} 4096\n",
        "nearhead_durable_target_seconds{volume=\"a.img\"} 0.01\n",
        concat!("version=\"", env!("CARGO_PKG_VERSION"), "\",preset=\"nearhead\"} 1\n"),
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    let text = metrics_of_mirror(&Scratch::new("mirror-labels"));
    let found = text.lines().any(|line| {
        line.starts_with("nearhead_device_size_bytes{") && line.contains("lane=\"0\",disk=\"")
    });
    assert!(found, "{text}");
}

#[test]
fn alerts_and_dashboard_ask_only_for_what_a_daemon_exports() {
    let known: BTreeSet<String> = all_metrics().iter().flat_map(|text| exported(text)).collect();
    let can_mount = can_mount();
    for file in ["prometheus/alerts.yml", "prometheus/alerts_test.yml", "grafana/nearhead.json"] {
        let text = std::fs::read_to_string(format!("{CONTRIB}/{file}")).unwrap();
        let asked = named(&text);
        assert!(asked.len() > 10, "{file}: {asked:?}");
        for name in asked {
            let is_of_mount = name.starts_with("nearhead_fs_") && !can_mount;
            assert!(known.contains(&name) || is_of_mount, "{file} asks for {name}: {known:?}");
        }
    }
}

#[test]
fn alert_rules_are_valid_say_what_to_do_and_fire_when_they_should() {
    if !tools(&["promtool"]) {
        return;
    }
    for args in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let file = format!("{CONTRIB}/prometheus/{}", args[2]);
        let output = tool("promtool", &[args[0], args[1], &file]);
        assert!(output.status.success(), "{output:?}");
    }
    let text = std::fs::read_to_string(format!("{CONTRIB}/prometheus/alerts.yml")).unwrap();
    let count = |part: &str| text.matches(part).count();
    let alerts = count("- alert: ");
    assert!(alerts >= 15, "{alerts}");
    for part in ["  summary: \"", "  description: \"", "labels: { severity: "] {
        assert_eq!(count(part), alerts, "{part}");
    }
}

#[test]
fn the_dashboard_is_one_and_all_its_questions_can_be_asked() {
    let text = std::fs::read_to_string(format!("{CONTRIB}/grafana/nearhead.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let questions: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap())
        .map(|expr| expr.replace("$__rate_interval", "1m").replace("$volume", ".*"))
        .collect();
    assert!(questions.len() > 20, "{}", questions.len());
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has a number of its own");
    if !tools(&["promtool"]) {
        return;
    }
    // Rules that record the answers: JSON is YAML.
    let rule = |(number, expr): (usize, &String)| serde_json::json!({ "record": format!("panel:{number}"), "expr": expr });
    let rules: Vec<_> = questions.iter().enumerate().map(rule).collect();
    let scratch = Scratch::new("dashboard");
    let rules = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
    std::fs::write(scratch.path("panels.yml"), rules.to_string()).unwrap();
    let output = tool("promtool", &["check", "rules", &scratch.text("panels.yml")]);
    assert!(output.status.success(), "{output:?}");
}
