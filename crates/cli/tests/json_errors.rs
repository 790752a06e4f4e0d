//! With `--json` a command that fails says why in JSON, the last line of standard error, with the sentence and the exit code that it has
//! without.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Scratch, run, run_ok};
use serde_json::Value;
use std::process::Output;

fn told(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The error that stands last.
fn error_of(output: &Output) -> Value {
    let told = told(output);
    let error: Value = common::json::parse(told.lines().last().unwrap()).unwrap();
    assert_eq!(error["exit_code"], output.status.code().unwrap(), "{told}");
    assert_eq!(error.as_object().unwrap().len(), 3, "{told}");
    error
}

#[test]
fn these_tests_refuse_json_that_has_a_key_twice() {
    let refused = |text: &str| common::json::parse(text).unwrap_err().to_string();
    for text in [
        r#"{"requests": "all", "requests": 300}"#,
        r#"[{"a": {"requests": 1, "b": 2, "requests": 1}}]"#,
    ] {
        assert!(refused(text).contains(r#"the key "requests" is there twice"#), "{text}");
    }
    assert!(refused("{} {}").contains("trailing"));
    let sound =
        r#"{"a":[{"n":-1},{"n":1.5},{"n":18446744073709551615}],"b":null,"c":true,"d":"\n"}"#;
    assert_eq!(common::json::parse(sound).unwrap().to_string(), sound);
}

#[test]
fn an_error_in_json_has_the_sentence_and_the_exit_code_of_the_one_in_text() {
    let scratch = Scratch::new("json");
    std::fs::write(scratch.path("odd.img"), vec![7; 1 << 20]).unwrap();
    for (args, command) in [
        (&["check", "odd.img"][..], "check"),
        (&["check", "none.img"], "check"),
        (&["stop", "odd.img"], "stop"),
        (&["open", "none.img"], "serve"),
        (&["disk", "serve", "nonsense"], "disk serve"),
    ] {
        let text = run(&scratch, args);
        let output = run(&scratch, &[args, &["--json"]].concat());
        let error = error_of(&output);
        assert_eq!(error["command"], command);
        assert_eq!(output.status.code(), text.status.code(), "{args:?}");
        let sentence = format!("nearhead: {}", error["error"].as_str().unwrap());
        assert_eq!(told(&text).lines().last().unwrap(), sentence, "{args:?}");
    }
}

#[test]
fn a_command_line_that_cannot_be_read_is_told_in_json_too() {
    let scratch = Scratch::new("json-usage");
    for (args, command, part) in [
        (&["check", "--json"][..], "check", "<TARGET>"),
        (&["check", "--json", "a.img", "--nonsense"], "check", "--nonsense"),
        (&["disk", "list", "--json", "--nonsense"], "disk list", "--nonsense"),
        (&["attach", "--json", "a.img", "--by", "nonsense"], "attach", "nonsense"),
    ] {
        let output = run(&scratch, args);
        let error = error_of(&output);
        assert_eq!((output.status.code(), told(&output).lines().count()), (Some(2), 1), "{args:?}");
        assert_eq!(error["command"], command);
        let sentence = error["error"].as_str().unwrap();
        assert!(sentence.contains(part) && !sentence.contains("Usage"), "{sentence}");
    }
}

#[test]
fn help_and_what_went_well_are_as_they_were() {
    let scratch = Scratch::new("json-well");
    let help = run_ok(&scratch, &["check", "--json", "--help"]);
    assert!(help.contains("Usage:") && help.contains("last line of standard error"), "{help}");
    assert!(run_ok(&scratch, &["disk", "list", "--help"]).contains("last line of standard error"));
    let output = run(&scratch, &["disk", "list", "--json"]);
    assert!(!told(&output).contains("exit_code") && output.status.success(), "{output:?}");
}

#[test]
fn errors_stay_text_without_the_flag_and_for_a_process_with_a_part_in_attach() {
    let scratch = Scratch::new("json-text");
    for args in [
        &["check", "none.img"][..],
        &["check", "--nonsense"],
        &["check", "--", "--json"],
        &["attach", "--role", "supervisor", "none.img", "--json", "--as", "a/b"],
        &["attach", "--role", "supervisor", "none.img", "--json", "--nonsense"],
    ] {
        let output = run(&scratch, args);
        let told = told(&output);
        assert!(!output.status.success(), "{args:?}");
        assert!(told.starts_with("nearhead: ") || told.starts_with("error: "), "{args:?}: {told}");
        assert!(!told.contains("exit_code"), "{args:?}: {told}");
    }
}
