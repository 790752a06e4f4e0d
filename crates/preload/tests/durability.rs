//! A program that was compiled with `O_DUR`, on a file system that knows nothing of it: it works as without the flag.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use std::path::Path;
use std::process::Command;

#[test]
fn on_other_file_systems_the_flag_is_simply_gone() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("preload-durability-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let program = place.join("durability");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(package.join("include"))
        .arg(package.join("tests/programs/durability.c"))
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(compiled) = compiled else {
        println!("skipped: there is no C compiler (cc)");
        return;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let library = std::env::current_exe().unwrap().with_file_name("libnearhead_preload.so");
    let output = Command::new(&program).arg(&place).env("LD_PRELOAD", library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).unwrap();
    let expected = ["open", "open64", "openat", "openat64", "plain", "again", "again"];
    let expected: Vec<String> = expected.iter().map(|name| format!("{name} other")).collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    std::fs::remove_dir_all(&place).unwrap();
}
