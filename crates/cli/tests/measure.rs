//! `replay`, `demo` and `bench` as a user runs them: what they print and how they fail.
//!
//! Nothing here asserts how fast anything is; the figures' own laws are tested where they are made.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn nearhead(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearhead")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearhead-measure-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Twenty writes a millisecond apart, in the MSR Cambridge format, with two lines that do not parse.
fn trace(folder: &std::path::Path) -> String {
    let mut lines = vec!["128166372000000000,host,0,Read,0,4096,0".to_owned()];
    for number in 0..20_u64 {
        let at = 128_166_372_000_000_000 + number * 10_000;
        lines.push(format!("{at},host,0,Write,{},4096,0", number * 1_000_000_000 / 512 * 512));
    }
    lines.insert(3, "128166372000000000,host,0,Write,12,".to_owned());
    lines.insert(9, "what is this".to_owned());
    let path = folder.join("small.csv");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path.to_string_lossy().into_owned()
}

#[test]
fn a_replay_reports_each_preset_and_counts_bad_lines() {
    let folder = folder("replay");
    let trace = trace(&folder);
    let output =
        nearhead(&["replay", &trace, "--preset", "nolog,mlb-32", "--format", "msr", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value = common::json::parse(&output.stdout).unwrap();
    let rows = &report["outcomes"];
    assert_eq!(rows.as_array().unwrap().len(), 2);
    for (row, preset) in rows.as_array().unwrap().iter().zip(["nolog", "mlb-32"]) {
        assert_eq!(row["preset"], preset);
        assert_eq!((&row["requests"], &row["failed"]), (&21.into(), &0.into()), "{row}");
        assert_eq!(row["lines"]["skipped"], 2, "{row}");
        assert_eq!(row["writes"]["requests"], 20, "{row}");
    }
    assert_eq!(rows[0]["records"], 0);
    assert!(rows[1]["records"].as_u64().unwrap() > 0, "{}", rows[1]);
    let help = &report["will_it_help"];
    assert_eq!(
        (&help["class"], &help["durability"]),
        (&"too_little".into(), &"every_write".into())
    );
    assert!(help["sentence"].as_str().unwrap().contains("20 durable points"), "{help}");
    let told = text(&output.stderr);
    assert!(told.contains("line 4") && told.contains("line 10"), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_strict_replay_stops_at_the_first_bad_line_and_names_it() {
    let folder = folder("strict");
    let trace = trace(&folder);
    let output = nearhead(&["replay", &trace, "--format", "msr", "--strict"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("line 4"), "{}", text(&output.stderr));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_in_replay_are_named() {
    let folder = folder("mistakes");
    let trace = trace(&folder);
    let cases: [(&[&str], &str); 4] = [
        (&["--preset", "best"], "expected one of nolog"),
        (&["--disk", "cheetah"], "st3146855fc"),
        (&["--format", "punchcards"], "punchcards"),
        (&["--time-scale", "0"], "above 0"),
    ];
    for (arguments, expected) in cases {
        let output = nearhead(&[&["replay", &trace], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_demo_in_virtual_time_leaves_its_page_and_its_rows() {
    let folder = folder("demo");
    let out = folder.to_string_lossy().into_owned();
    let output = nearhead(&["demo", "--virtual", "--seconds", "3", "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Value =
        common::json::parse(std::fs::read(folder.join("demo.json")).unwrap()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 24, "4 presets, 2 bulk clients, 3 rates");
    let disturbed = rows.as_array().unwrap().iter().any(|row| row["machine_was_busy"] != false);
    assert!(!disturbed, "virtual time passes as fast on a busy machine");
    assert!(!text(&output.stdout).contains("busy"), "{}", text(&output.stdout));
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Time is virtual"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_demo_in_real_time_says_whether_the_machine_was_busy_and_what_it_saw() {
    let folder = folder("demo-real");
    let out = folder.to_string_lossy().into_owned();
    let output = nearhead(&["demo", "--seconds", "0.5", "--out", &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Value =
        common::json::parse(std::fs::read(folder.join("demo.json")).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    let busy = rows.iter().filter(|row| row["machine_was_busy"] == true).count();
    let (printed, page) =
        (text(&output.stdout), std::fs::read_to_string(folder.join("report.html")).unwrap());
    for told in [&printed, &page] {
        let expected =
            if busy > 0 { "this machine was busy: repeat" } else { "The machine was quiet" };
        assert!(told.contains(expected), "{busy} busy rows: {printed}");
    }
    assert_eq!(printed.lines().filter(|line| line.ends_with("BUSY")).count(), busy, "{printed}");
    for row in rows {
        let bare = &row["machine"]["bare"][0];
        assert!(bare["before"].is_number() && bare["in_virtual_time"].is_number(), "{row}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_quick_bench_leaves_every_row() {
    let folder = folder("bench");
    let out = folder.to_string_lossy().into_owned();
    // Those of the log set up disks and build other logs: `make bench` runs them.
    let names = ["demo", "engine", "map", "recovery", "idle", "served"];
    let output = nearhead(&[&["bench", "--quick", "--out", &out], &names[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: Value =
        common::json::parse(std::fs::read(folder.join("bench.json")).unwrap()).unwrap();
    let names: Vec<&str> =
        report["rows"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    for name in [
        "demo_mlb_bandwidth_pct",
        "demo_mlb_durable_mean_ms",
        "engine_write_4k_requests_per_s",
        "engine_read_4k_requests_per_s",
        "map_bytes_per_block",
        "recovery_read_per_snapshot_and_logs",
        "recovery_cpu_s",
        "idle_20tb_resident_mib",
        "served_fua_1_vs_best_peer_ratio",
        "served_fua_32_vs_best_peer_ratio",
        "served_flush_16_vs_best_peer_ratio",
        "served_read_32_vs_best_peer_ratio",
        "served_fua_8_clients_vs_best_peer_ratio",
        "served_read_1_busy_vs_best_peer_ratio",
        "added_latency_qd1_fua_p50_us",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
    assert_eq!(report["quick"], true);
    // Whether this machine is busy now is not for a test to say, but the report must.
    let watched = report["machine"].as_array().unwrap();
    let of = |name| watched.iter().find(|machine| machine["bench"] == name);
    assert!(of("served").is_some() && of("recovery").is_some(), "{watched:?}");
    assert!(of("demo").is_none(), "virtual time cannot be disturbed");
    let is_busy = watched.iter().any(|machine| machine["busy"].is_string());
    assert_eq!(report["machine_was_busy"], is_busy);
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["machine_was_busy"].is_boolean()));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_figure_prints_its_table_and_leaves_a_report_csv_and_svg() {
    let folder = folder("figures");
    let out = folder.join("out");
    let output = nearhead(&["figures", "fig2a", "--tiny", "--out", &out.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for column in ["paper", "goal", "baseline", "ours", "physical limit"] {
        assert!(printed.contains(column), "{printed}");
    }
    for file in ["report.html", "fig2a.csv", "fig2a-points.csv", "fig2a-bandwidth.svg"] {
        assert!(out.join(file).exists(), "{file}");
    }
    assert!(text(&output.stderr).contains("fig2a ["), "progress: {}", text(&output.stderr));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_in_figures_are_named_before_anything_is_computed() {
    let folder = folder("figures-mistakes");
    let file = folder.join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_string_lossy();
    let cases: [(&[&str], &str); 3] = [
        (&["fig99"], "expected one of fig2a, fig2a-1m, fig2a-drives, fig2b"),
        (&["fig2a", "--out", &file], "choose another folder with --out"),
        (&["fig2a", "--traces", &file], "expected --traces with a folder"),
    ];
    for (arguments, expected) in cases {
        let output = nearhead(&[&["figures", "--tiny"], arguments].concat());
        assert!(!output.status.success(), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert!(!told.contains('['), "something was computed: {told}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_real_trace_past_the_end_of_the_disk_stops_figures_with_its_line_unless_it_is_scaled() {
    let folder = folder("figures-trace");
    let traces = folder.join("traces");
    std::fs::create_dir_all(traces.join("cloudphysics")).unwrap();
    let lines = "0 0 0 8 0\n1000000000 0 9000000000000 8 0\n";
    std::fs::write(traces.join("cloudphysics/cloudPhysicsIO.csv.zst"), lines).unwrap();
    let out = folder.join("out").to_string_lossy().into_owned();
    let traces = traces.to_string_lossy().into_owned();
    let run = |more: &[&str]| {
        let arguments = ["figures", "mapping", "--tiny", "--out", &out, "--traces", &traces];
        nearhead(&[&arguments, more].concat())
    };
    let refused = run(&[]);
    assert!(!refused.status.success());
    let told = text(&refused.stderr);
    assert!(told.contains("line 2") && told.contains("the disk"), "{told}");
    let scaled = run(&["--fit", "scale"]);
    assert!(scaled.status.success(), "{}", text(&scaled.stderr));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_speed_up_over_a_volume_that_did_not_follow_the_trace_is_no_plain_number() {
    let folder = folder("replay-late");
    // Far more than a disk can do in a second, and a tenth of what it can do in a minute.
    for (name, step_ms, is_late) in [("burst", 0.5, true), ("calm", 200.0, false)] {
        let lines = (0..2000_u64).map(|number| {
            let offset = number * 7_919_993 % 200_000_000 * 4096;
            let ticks = 128_166_372_000_000_000 + (number as f64 * step_ms * 1e4) as u64;
            format!("{ticks},host,0,{},{offset},4096,0\n", ["Read", "Write"][number as usize % 2])
        });
        let trace = folder.join(format!("{name}.trace"));
        std::fs::write(&trace, lines.collect::<String>()).unwrap();
        let trace = trace.to_string_lossy().into_owned();
        let run = |more: &[&str]| {
            let arguments = ["replay", &trace, "--format", "msr", "--preset", "nolog,mlb"];
            let output = nearhead(&[&arguments, more].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
            output
        };
        let told = text(&run(&["--fit", "wrap"]).stdout);
        let marks = [told.contains("not followed: nolog"), told.contains("(1.00x)")];
        assert_eq!(marks, [is_late; 2], "{name}: {told}");
        let report: Value = common::json::parse(&run(&["--json"]).stdout).unwrap();
        assert_eq!(report["outcomes"][0]["kept_up"], !is_late, "{name}");
        let scaled = text(&run(&["--fit", "scale"]).stderr);
        assert!(scaled.contains("locality is no longer the trace's"), "{scaled}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_bench_of_traces_has_a_row_for_each_trace_and_says_when_there_is_none() {
    let folder = folder("bench-traces");
    let out = folder.join("out").to_string_lossy().into_owned();
    let traces = folder.join("traces/mine");
    let rows = || {
        let output = Command::new(env!("CARGO_BIN_EXE_nearhead"))
            .args(["bench", "traces", "--quick", "--out", &out])
            .env("NEARHEAD_SHARED", &folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let none = rows();
    assert!(none.contains("skipped: no real traces in"), "{none}");
    std::fs::create_dir_all(&traces).unwrap();
    let lines = (0..200_u64).map(|number| {
        let ticks = 128_166_372_000_000_000 + number * 50_000;
        let offset = number * 7_919_993 % 200_000_000 * 4096;
        format!("{ticks},host,0,Write,{offset},4096,0\n")
    });
    std::fs::write(traces.join("busy.csv.zst"), lines.collect::<String>()).unwrap();
    std::fs::write(traces.join("other.zst"), "no trace\n").unwrap();
    let told = rows();
    assert!(told.contains("trace_busy_constellation-es3-1tb_depth_8_mean"), "{told}");
    assert!(!told.contains("trace_other"), "{told}");
    std::fs::remove_dir_all(folder).unwrap();
}
