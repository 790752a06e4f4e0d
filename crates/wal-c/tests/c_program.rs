//! A C program, compiled against the header, writes through the library and is killed: everything
//! it said was durable is read back.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use wal::read_log;

/// The library as the build of this test made it.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.with_file_name("libnearhead_wal_c.so")
}

fn directory(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wal-c-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

/// Compiles a program; `None` where there is no compiler.
fn compiled(source: &Path, program: &Path) -> Option<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Under the name that it is installed by.
    let libraries = program.parent().unwrap();
    let _ = std::os::unix::fs::symlink(library(), libraries.join("libnearhead_wal.so"));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(root.join("include"))
        .arg(source)
        .arg("-o")
        .arg(program)
        .arg("-L")
        .arg(libraries)
        .arg("-lnearhead_wal")
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .output();
    let Ok(output) = compiled else {
        println!("skipped: there is no C compiler (cc)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

fn example(place: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/append.c");
    let program = place.join("append");
    compiled(&source, &program).map(|()| program)
}

fn line_of(number: u64) -> String {
    format!("record {number} {}\n", "0".repeat((number * 37 % 900 + 1) as usize))
}

/// Runs the program, kills it after `most` acknowledgements, and returns all there were.
fn killed(program: &Path, arguments: &[&str], most: usize) -> Vec<String> {
    let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<String> = lines.by_ref().take(most).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    said.extend(lines.map_while(Result::ok));
    assert!(said.len() >= most, "{said:?}");
    said
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn what_a_killed_c_program_said_was_durable_is_there() {
    let place = directory("killed");
    let Some(program) = example(&place) else { return };
    for (mode, most) in [("0", 1), ("1", 23), ("2", 60)] {
        let file = place.join(format!("stream-{mode}"));
        let said = killed(&program, &["stream", file.to_str().unwrap(), "100000", mode], most);
        let last: Vec<u64> =
            said.last().unwrap().split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
        let (number, durable) = (last[0], last[1] as usize);
        let expected: String = (1..=number).map(line_of).collect();
        assert_eq!(expected.len(), durable);
        assert!(std::fs::read(&file).unwrap()[..durable] == *expected.as_bytes(), "mode {mode}");
        let log = place.join(format!("log-{mode}"));
        let mut acknowledged = 0;
        for life in 0..3 {
            let said =
                killed(&program, &["log", log.to_str().unwrap(), "100000", mode], most + life);
            let last = said.last().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
            assert!(last > acknowledged);
            acknowledged = last;
        }
        let mut found = 0;
        read_log(&log, |lsn, record| {
            found += 1;
            assert_eq!((lsn.0, record), (found, line_of(found).as_bytes()));
        })
        .unwrap();
        assert!(found >= acknowledged, "mode {mode}: {acknowledged} acknowledged, {found} found");
        let output = run(&program, &["read", log.to_str().unwrap()]);
        let expected: String = (1..=found).map(line_of).collect();
        assert!(output.stdout == expected.as_bytes());
    }
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_c_program_that_ends_in_order_leaves_a_file_of_exactly_its_bytes() {
    let place = directory("whole");
    let Some(program) = example(&place) else { return };
    let file = place.join("stream");
    assert!(run(&program, &["stream", file.to_str().unwrap(), "50"]).status.success());
    let expected: String = (1..=50).map(line_of).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    std::fs::remove_dir_all(&place).unwrap();
}

const MISUSE: &str = r#"
#include <nearhead_wal.h>
#include <assert.h>
#include <string.h>
int main(int argc, char **argv)
{
    nearhead_error error;
    nearhead_stream *stream = (nearhead_stream *)&error;
    nearhead_log *log;
    uint64_t number;
    assert(argc == 2);
    assert(nearhead_stream_open(NULL, 3, 0, NULL, &stream, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(stream == NULL && strstr(error.message, "path") != NULL);
    assert(nearhead_stream_open(argv[1], 9, 0, NULL, &stream, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_open(argv[1], 3, 0, NULL, NULL, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_open("/nowhere/file", 3, 0, NULL, &stream, &error) == NEARHEAD_NOT_FOUND);
    assert(error.code == NEARHEAD_NOT_FOUND && strstr(error.message, "/nowhere") != NULL);
    assert(nearhead_stream_open("/nowhere/file", 3, 0, NULL, &stream, NULL) == NEARHEAD_NOT_FOUND);
    assert(nearhead_stream_write(NULL, "x", 1, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_close(NULL, NULL, NULL) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_log_close(NULL, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_open(argv[1], 3, 0, NULL, &stream, &error) == 0 && error.message[0] == 0);
    assert(nearhead_stream_write(stream, NULL, 1, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_write(stream, NULL, 0, &error) == 0);
    assert(nearhead_stream_truncate(stream, 5, &error) == NEARHEAD_OUT_OF_RANGE);
    assert(nearhead_stream_write(stream, "abc", 3, NULL) == 0);
    assert(nearhead_stream_sync(stream, NULL, NULL) == 0);
    assert(nearhead_stream_close(stream, &number, NULL) == 0 && number == 3);
    assert(nearhead_log_open(argv[1], NULL, &log, &error) == NEARHEAD_NOT_A_LOG && log == NULL);
    nearhead_free_text(NULL);
    return 0;
}
"#;

#[test]
fn misuse_is_an_error_and_never_a_crash() {
    let place = directory("misuse");
    let (source, program) = (place.join("misuse.c"), place.join("misuse"));
    std::fs::write(&source, MISUSE).unwrap();
    if compiled(&source, &program).is_none() {
        return;
    }
    let output = run(&program, &[place.join("file").to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(&place).unwrap();
}

/// A child that inherited a stream or a log does nothing to it, however it ends, and does not abort.
#[test]
fn a_forked_child_leaves_its_parents_log_alone() {
    let place = directory("inherit");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/inherit.c");
    let program = place.join("inherit");
    if compiled(&source, &program).is_none() {
        return;
    }
    for (mode, act) in ["0", "1", "2", "3"].iter().flat_map(|mode| {
        ["exit", "_exit", "close", "use", "exec"].iter().map(move |act| (*mode, *act))
    }) {
        for kind in ["stream", "log"] {
            let path = place.join(format!("{kind}-{mode}-{act}"));
            let mut command = Command::new(&program);
            command.args([kind, path.to_str().unwrap(), mode, act]);
            command.env("NEARHEAD_WAL_HELPER", helper());
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{kind} {mode} {act}: {said}");
            let expected = "parent\n".repeat(22);
            if kind == "stream" {
                assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "{mode} {act}");
            } else {
                let mut found = String::new();
                read_log(&path, |_, record| found.push_str(std::str::from_utf8(record).unwrap()))
                    .unwrap();
                assert_eq!(found, expected, "{mode} {act}");
            }
        }
    }
    std::fs::remove_dir_all(&place).unwrap();
}

/// The program that writes in the mode `process`.
fn helper() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("nearhead-wal-helper")
}
