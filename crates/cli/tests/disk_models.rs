//! `disk import` and `disk validate` as a user runs them, on a small package of our own.
//!
//! How near the models are to real drives is tested where the models are.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Scratch, run};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

const PACKAGE: &str = "dm_disk toy {
   Number of data surfaces = 2, Number of cylinders = 100, Block count = 20001,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0,
      Zones = [ dm_layout_g1_zone {
         First cylinder number = 0, Last cylinder number = 99, Blocks per track = 100,
         Skew for track switch = 12, Skew for cylinder switch = 20
      } ]
   },
   Mechanical Model = dm_mech_g1 {
      Seek type = constant, Average seek time = 2.0, Head switch time = 0.5,
      Rotation speed (in rpms) = 6000
   }
}
";

/// The package and a trace of `count` requests that took `response_us` each.
fn files(scratch: &Scratch, count: u64, response_us: u64) -> String {
    fs::write(scratch.path("toy.model"), PACKAGE).unwrap();
    let mut trace = String::new();
    for number in 0..count {
        let kind = if number % 3 == 0 { 'W' } else { 'R' };
        let sector = number * 7919 % 19_900;
        writeln!(trace, "{kind} Hit {sector} 8 {response_us}.0 20000.0").unwrap();
    }
    fs::write(scratch.path("toy.trace"), trace).unwrap();
    scratch.text("toy")
}

fn told(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_imported_package_is_a_profile_to_use() {
    let scratch = Scratch::new("import");
    let package = files(&scratch, 300, 7000);
    let out = run(&scratch, &["disk", "import", &package, "--out", "toy.toml"]);
    assert!(out.status.success(), "{}", told(&out.stderr));
    assert!(told(&out.stderr).contains("20001") && told(&out.stderr).contains("20000"), "told");
    assert!(told(&out.stdout).contains("2 heads, 100 cylinders"), "{}", told(&out.stdout));
    let out = run(&scratch, &["disk", "validate", "toy.toml", "toy.trace", "--json"]);
    assert!(out.status.success(), "{}", told(&out.stderr));
    let report: Value = common::json::parse(&out.stdout).unwrap();
    let lines = report["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 3, "{report}");
    assert_eq!((&lines[0]["requests"], &lines[1]["requests"]), (&300.into(), &200.into()));
    assert_eq!((&lines[0]["chosen"], &lines[1]["chosen"]), (&"all".into(), &"reads".into()));
    assert!(lines[0]["demerit_ms"].as_f64().unwrap() > 0.1, "{report}");
}

#[test]
fn a_fit_is_shown_tested_on_the_other_half_and_written() {
    let scratch = Scratch::new("fit");
    let package = files(&scratch, 400, 8500);
    let svg = scratch.text("cdf.svg");
    let arguments = ["disk", "validate", &package, "toy.trace", "--fit", "overheads"];
    let more = ["--out", "fitted.toml", "--plot", &svg, "--below-cylinder", "50"];
    let out = run(&scratch, &[&arguments[..], &more[..]].concat());
    assert!(out.status.success(), "{}", told(&out.stderr));
    let shown = told(&out.stdout);
    assert!(shown.contains("half not fitted on") && shown.contains("fitted command"), "{shown}");
    assert!(shown.contains("cylinders below 50"), "{shown}");
    assert!(fs::read_to_string(&svg).unwrap().contains("modelled"));
    let out = run(&scratch, &["disk", "validate", "fitted.toml", "toy.trace", "--plot", "-"]);
    assert!(out.status.success(), "{}", told(&out.stderr));
    assert!(told(&out.stdout).contains("100% |"), "{}", told(&out.stdout));
}

#[test]
fn an_import_learns_from_a_trace_and_says_what_the_other_half_is_worth() {
    let scratch = Scratch::new("learn");
    let package = files(&scratch, 400, 8500);
    let out = run(
        &scratch,
        &["disk", "import", &package, "--measured", "toy.trace", "--out", "learned.toml"],
    );
    assert!(out.status.success(), "{}", told(&out.stderr));
    let shown = told(&out.stdout);
    for wanted in
        ["fitted command", "second half, all (as imported)", "second half, writes (learned)"]
    {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let text = fs::read_to_string(scratch.path("learned.toml")).unwrap();
    assert!(text.contains("Imported by") && text.contains("Fitted to the first half of"), "{text}");
    let out = run(&scratch, &["disk", "validate", "learned.toml", "toy.trace"]);
    assert!(out.status.success(), "{}", told(&out.stderr));
}

#[test]
fn no_json_of_a_disk_command_has_a_key_twice() {
    let scratch = Scratch::new("twice");
    let package = files(&scratch, 400, 8500);
    let validate = ["disk", "validate", &package, "toy.trace", "--json"];
    let commands: [Vec<&str>; 3] = [
        vec!["disk", "list", "--json"],
        validate.to_vec(),
        [&validate[..], &["--fit", "overheads,cache", "--below-cylinder", "50"]].concat(),
    ];
    for command in commands {
        let out = run(&scratch, &command);
        assert!(out.status.success(), "{command:?}: {}", told(&out.stderr));
        // Refuses a key that is there twice.
        common::json::parse(&out.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}"));
    }
}

#[test]
fn a_request_past_the_end_is_named_wrapped_or_scaled() {
    let scratch = Scratch::new("pastend");
    let package = files(&scratch, 10, 7000);
    let mut trace = fs::read_to_string(scratch.path("toy.trace")).unwrap();
    trace.push_str("R Hit 30000 8 7000.0 1000.0\n");
    fs::write(scratch.path("toy.trace"), trace).unwrap();
    let out = run(&scratch, &["disk", "validate", &package, "toy.trace"]);
    let error = told(&out.stderr);
    assert!(!out.status.success() && error.contains("line 11"), "{error}");
    assert!(error.contains("--past-end"), "{error}");
    for how in ["wrap", "scale"] {
        let out = run(&scratch, &["disk", "validate", &package, "toy.trace", "--past-end", how]);
        assert!(out.status.success(), "{how}: {}", told(&out.stderr));
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let scratch = Scratch::new("badmodel");
    let package = files(&scratch, 10, 7000);
    let missing = scratch.text("nothing");
    let cases: [(&[&str], &str); 9] = [
        (&["disk", "import", &missing], "toy.model"),
        (&["disk", "import", &package, "--out", "toy.txt"], ".toml"),
        (&["disk", "import", &package, "--out", "no/such/toy.toml"], "cannot write"),
        (&["disk", "import", &package, "--measured", "toy.trace"], "--out"),
        (&["disk", "import", &package, "--measured", "no.trace", "--out", "a.toml"], "no.trace"),
        (
            &["disk", "import", &package, "--measured", "toy.trace", "--out", "a.toml"],
            "200 requests",
        ),
        (&["disk", "validate", "nodrive", "toy.trace"], "constellation-es3-1tb"),
        (&["disk", "validate", &package, "no.trace"], "no.trace"),
        (&["disk", "validate", &package, "toy.trace", "--fit", "overheads"], "200 requests"),
    ];
    for (arguments, expected) in cases {
        let out = run(&scratch, arguments);
        let error = told(&out.stderr);
        assert!(!out.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
    fs::write(scratch.path("toy.trace"), "R Hit 5 8 7000.0\n").unwrap();
    let out = run(&scratch, &["disk", "validate", &package, "toy.trace"]);
    let error = told(&out.stderr);
    assert!(error.contains("line 1") && error.contains("think_us"), "{error}");
}
