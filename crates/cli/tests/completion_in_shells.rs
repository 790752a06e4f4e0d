//! Completion in bash, zsh and fish as they are: a key is pressed, and a command line stands there that can be run.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::terminal::{MARKS, TRIES, Terminal, path_with_program};
use common::{Daemon, Scratch, run_ok, tools};
use std::path::Path;
use std::process::Command;

/// A folder with a served volume, files and the functions of all shells.
fn with_functions(name: &str) -> (Scratch, Daemon) {
    let scratch = Scratch::new(name);
    run_ok(&scratch, &["generate", "--out", "functions"]);
    run_ok(&scratch, &["create", "served.img", "--size", "64MiB"]);
    std::fs::write(scratch.path("with space.img"), "").unwrap();
    std::fs::write(scratch.path("with:colon.img"), "").unwrap();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    std::fs::write(scratch.path("folder/inner.img"), "").unwrap();
    let daemon = Daemon::serve(&scratch, "served.img", &[]);
    (scratch, daemon)
}

/// What is typed up to the key, and what stands there then, the same in every shell.
const TYPED: [(&str, &str); 16] = [
    ("nearhead fig\t", "nearhead figures "),
    ("nearhead stop s\t", "nearhead stop served.img "),
    ("nearhead figures fig1\t", "nearhead figures fig1"),
    ("nearhead create mod\t", "nearhead create model:"),
    ("nearhead create model:conste\t", "nearhead create model:constellation-es3-1tb "),
    (
        "nearhead create model:conste\t\u{8},ca\to\u{8}on,fi\tfol\tin\t",
        "nearhead create model:constellation-es3-1tb,cache=on,file=folder/inner.img ",
    ),
    (
        "nearhead create mirror:folder/i\t\u{8},miss\t",
        "nearhead create mirror:folder/inner.img,missing ",
    ),
    ("nearhead create --preset=gec\t", "nearhead create --preset=gecko "),
    ("nearhead create --preset gec\t", "nearhead create --preset gecko "),
    ("nearhead create --pres\t", "nearhead create --preset "),
    ("nearhead create nbd+\t", "nearhead create nbd+unix:///"),
    ("nearhead check with\\ \t", "nearhead check with\\ space.img "),
    ("nearhead check fol\tin\t", "nearhead check folder/inner.img "),
    ("nearhead check ~/fol\tin\t", "nearhead check ~/folder/inner.img "),
    ("nearhead set served.img waterm\t7", "nearhead set served.img watermark=7"),
    ("nearhead nonsense x\t", "nearhead nonsense x"),
];

/// What stands in a line that is to become `expected`.
fn typed(terminal: &mut Terminal, keys: &str, expected: &str) -> String {
    let mut line = String::new();
    for _ in 0..TRIES {
        line = terminal.line_after(keys);
        if is_typed(&line, expected) {
            break;
        }
    }
    line
}

/// Each shell quotes in its own way what is behind three slashes.
fn is_typed(line: &str, expected: &str) -> bool {
    line == expected || (expected.ends_with("///") && line.starts_with(expected))
}

#[test]
fn bash_makes_of_a_key_a_command_line_that_can_be_run() {
    if !tools(&["bash"]) {
        return;
    }
    let (scratch, daemon) = with_functions("bash");
    let setup = format!(
        "source functions/nearhead.bash\nbind -x '\"\\C-t\": printf \"{}%s{}\" \"$READLINE_LINE\"'\nbind 'set enable-bracketed-paste off'\n",
        MARKS.0, MARKS.1
    );
    std::fs::write(scratch.path("rc"), setup).unwrap();
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--rcfile", "rc", "-i"]);
    let mut terminal = Terminal::start(&scratch, command);
    for (keys, expected) in TYPED {
        let line = typed(&mut terminal, keys, expected);
        assert!(is_typed(&line, expected), "{keys:?}: expected {expected:?}, found {line:?}");
    }
    for (keys, expected) in [
        (
            "nearhead create raid0:[mirror:folder/i\t\u{8},fol\tin\t",
            "nearhead create raid0:[mirror:folder/inner.img,folder/inner.img ",
        ),
        ("nearhead check \"with s\t", "nearhead check \"with space.img\" "),
        ("nearhead check 'with:\t", "nearhead check 'with:colon.img' "),
        ("nearhead check with:\t", "nearhead check with:colon.img "),
        ("nearhead create model\\:conste\t", "nearhead create model:constellation-es3-1tb "),
        ("nearhead create $HOME/fol\t", "nearhead create $HOME/folder/"),
        ("sudo=1 nearhead stop s\t", "sudo=1 nearhead stop served.img "),
        ("true; nearhead stop s\t", "true; nearhead stop served.img "),
    ] {
        let line = typed(&mut terminal, keys, expected);
        assert!(is_typed(&line, expected), "{keys:?}: expected {expected:?}, found {line:?}");
    }
    drop(terminal);
    daemon.stop_ok();
}

#[test]
fn zsh_makes_of_a_key_a_command_line_that_can_be_run() {
    if !tools(&["zsh"]) {
        return;
    }
    let (scratch, daemon) = with_functions("zsh");
    // As it is found in a folder of functions.
    let setup = format!(
        "fpath=($PWD/functions $fpath)\nautoload -Uz compinit\ncompinit -u -d dump\nunsetopt prompt_cr prompt_sp\nsetopt no_auto_remove_slash no_auto_menu no_beep\n\
         show() {{ print -rn -- \"{}$BUFFER{}\" }}\nzle -N show\nbindkey -e\nbindkey '^T' show\nbindkey '^U' kill-whole-line\n",
        MARKS.0, MARKS.1
    );
    std::fs::write(scratch.path(".zshrc"), setup).unwrap();
    let mut command = Command::new("zsh");
    command.args(["-d", "-i"]);
    let mut terminal = Terminal::start(&scratch, command);
    // A bracket that is not quoted is a pattern there.
    let quoted = [
        (
            "nearhead create 'raid0:[mirror:folder/i\t",
            "nearhead create 'raid0:[mirror:folder/inner.img' ",
        ),
        ("nearhead check \"with s\t", "nearhead check \"with space.img\" "),
        ("nearhead check with:\t", "nearhead check with:colon.img "),
    ];
    for (keys, expected) in TYPED.into_iter().chain(quoted) {
        let line = typed(&mut terminal, keys, expected);
        assert!(is_typed(&line, expected), "{keys:?}: expected {expected:?}, found {line:?}");
    }
    drop(terminal);
    daemon.stop_ok();
}

#[test]
fn fish_is_told_candidates_and_what_each_is() {
    if !tools(&["fish"]) {
        return;
    }
    let (scratch, daemon) = with_functions("fish");
    let told = |line: &str| {
        let script = format!("source functions/nearhead.fish; complete --do-complete '{line}'");
        let mut command = Command::new("fish");
        command.args(["--no-config", "-c", &script]).current_dir(scratch.path(""));
        command.env("RUNTIME_DIRECTORY", scratch.path("run")).env("HOME", scratch.path(""));
        let output = command.env("PATH", path_with_program()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for (line, expected) in [
        ("nearhead stop s", "served.img\tnearhead, "),
        ("nearhead fig", "figures\tReproduce"),
        ("nearhead create model:conste", "model:constellation-es3-1tb\tSeagate"),
        ("nearhead create --preset=gec", "--preset=gecko\t"),
        ("nearhead check with\\\\ ", "with space.img"),
        ("nearhead check folder/", "folder/inner.img"),
        ("nearhead create mirror:a,folder/", "mirror:a,folder/inner.img"),
    ] {
        let mut tries = (0..TRIES).map(|_| told(line));
        let is_told = |text: &String| text.lines().any(|found| found.starts_with(expected));
        let text = tries.find(is_told).unwrap_or_else(|| told(line));
        assert!(text.lines().any(|found| found.starts_with(expected)), "{line}: {text}");
    }
    assert_eq!(told("nearhead nonsense x"), "");
    daemon.stop_ok();
}

#[test]
fn without_files_the_program_gives_its_function_itself_wherever_it_is() {
    if !tools(&["bash"]) {
        return;
    }
    let scratch = Scratch::new("by-itself");
    std::fs::create_dir(scratch.path("a 'b'")).unwrap();
    let program = scratch.path("a 'b'/nearhead");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nearhead"), &program).unwrap();
    let script = "source <(NEARHEAD_COMPLETE=/bin/bash \"$0\"); cd /; COMP_LINE='nearhead dra' COMP_POINT=12; \
                  _nearhead nearhead dra nearhead; echo \"${COMPREPLY[*]}\"";
    let asked = |name: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script, name]).current_dir(scratch.path(""));
        let output = command.output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for name in [program.to_str().unwrap(), "a 'b'/nearhead"] {
        let mut tries = (0..TRIES).map(|_| asked(name));
        assert!(tries.any(|found| found == "drain\n"), "{name}: {}", asked(name));
    }
}

#[test]
fn a_program_that_is_gone_or_too_old_leaves_the_line_as_it_is() {
    if !tools(&["bash"]) {
        return;
    }
    let scratch = Scratch::new("gone");
    run_ok(&scratch, &["generate", "--out", "functions"]);
    let script = "source functions/nearhead.bash; COMP_LINE='nearhead s' COMP_POINT=10; _nearhead nearhead s nearhead; echo \"${#COMPREPLY[@]}\"";
    let without = |path: &Path| {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", script]).current_dir(scratch.path("")).env("PATH", path);
        let output = command.output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(without(&scratch.path("nowhere")), "0\n");
    common::script(
        &scratch.path("nearhead"),
        "#!/bin/sh\n[ \"$1\" = -- ] && echo unknown >&2; exit 2\n",
    );
    assert_eq!(without(&scratch.path("")), "0\n");
}
