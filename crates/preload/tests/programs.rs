//! Programs as they are, with the library in front of their C library: they behave as without it,
//! and killed they leave exactly what they wrote.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_wal::guardian::{listen, marked, serve};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("preload-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The C program; `None` where there is no compiler.
fn program(place: &Path) -> Option<PathBuf> {
    let program = place.join("program");
    let arguments = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_FORTIFY_SOURCE=2"];
    let compiled = Command::new("cc")
        .args(arguments)
        .arg(source("program.c"))
        .arg("-o")
        .arg(&program)
        .output();
    let Ok(output) = compiled else {
        println!("skipped: there is no C compiler (cc)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// How log files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By the kernel, of exact size.
    Exact,
    /// Through a stream with zeros ahead.
    Ahead,
}

use Way::{Ahead, Exact};

impl Way {
    /// Line about a log, once it is written.
    fn line(self) -> &'static str {
        match self {
            Exact => "has its exact size",
            Ahead => "is written through a stream",
        }
    }
}

/// The name of a guardian that lives as long as this test.
fn guardian() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let own = std::process::id();
        let name = format!("nearhead-preload-test-{own}");
        let listener = listen(name.as_bytes()).unwrap();
        std::thread::spawn(move || serve(listener, own, &mut |line| println!("{line}")).unwrap());
        name
    })
}

/// Waits until the guardian has settled a file whose program has ended.
fn await_settled(file: &Path) {
    while marked(file) {
        std::thread::yield_now();
    }
}

/// A command whose files `*.wal` are logs and `*.bulk` bulk.
fn routed(program: impl AsRef<std::ffi::OsStr>, mode: &str, way: Way) -> Command {
    let library = std::env::current_exe().unwrap().with_file_name("libnearhead_preload.so");
    assert!(library.is_file(), "{}", library.display());
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", library)
        .env("NEARHEAD_RUN_WAL", "*.wal")
        .env("NEARHEAD_RUN_BULK", "*.bulk")
        .env("NEARHEAD_RUN_MODE", mode)
        .env("NEARHEAD_RUN_AHEAD", if way == Ahead { guardian() } else { "" })
        .env("NEARHEAD_RUN_VERBOSE", "1");
    command
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no {program}");
    }
    found
}

fn line_of(number: u64) -> String {
    format!("record {number} {}\n", "0".repeat((number * 37 % 900 + 1) as usize))
}

/// Kills the program after `most` acknowledgements; its file has everything it said, and nothing that
/// it did not write.
fn kill_and_look(mut command: Command, file: &Path, most: usize, way: Way) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<String> = lines.by_ref().take(most).map(Result::unwrap).collect();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    said.extend(lines.map_while(Result::ok));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains(way.line()), "{told}");
    assert!(!told.contains("left to the kernel"), "{told}");
    assert!(said.len() >= most, "{said:?} {told}");
    let last = said.iter().rev().find(|line| line.split(' ').count() == 3).unwrap();
    let last: Vec<u64> = last.split(' ').skip(1).map(|word| word.parse().unwrap()).collect();
    let expected: String = (1..=last[0]).map(line_of).collect();
    assert_eq!(expected.len() as u64, last[1]);
    await_settled(file);
    let found = std::fs::read(file).unwrap();
    let all: String = (1..=last[0] + 2).map(line_of).collect();
    assert!(found.starts_with(expected.as_bytes()), "{} lines", last[0]);
    assert!(all.as_bytes().starts_with(&found), "{} lines, {} bytes", last[0], found.len());
}

#[test]
fn what_a_killed_program_was_told_is_durable_is_there() {
    let place = directory("killed");
    let Some(program) = program(&place) else { return };
    for (mode, flags, most) in [
        ("thread", "-", 1),
        ("caller", "-", 40),
        ("thread", "d", 25),
        ("caller", "v", 33),
        ("thread", "p", 50),
        ("caller", "dv", 12),
    ] {
        for way in [Exact, Ahead] {
            let file = place.join(format!("{mode}{flags}{way:?}.wal"));
            let mut command = routed(&program, mode, way);
            command.arg("append").arg(&file).args(["100000", flags]);
            kill_and_look(command, &file, most, way);
        }
    }
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_program_behaves_as_without_it() {
    let place = directory("random");
    let Some(program) = program(&place) else { return };
    let mut streams = 0;
    for seed in 0..20 {
        let run = |name: &str, mut command: Command| {
            let file = place.join(name);
            let output = command.arg("random").arg(&file).arg(seed.to_string()).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "seed {seed}: {told}");
            let content = std::fs::read(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            (String::from_utf8(output.stdout).unwrap(), content, told)
        };
        let (plain, plain_content, _) = run("plain", Command::new(&program));
        let mode = if seed % 3 == 0 { "thread" } else { "caller" };
        let way = if seed < 4 { Exact } else { Ahead };
        let (found, content, told) = run("routed.wal", routed(&program, mode, way));
        streams += usize::from(told.contains(way.line()));
        for (number, (plain, found)) in plain.lines().zip(found.lines()).enumerate() {
            assert_eq!(found, plain, "seed {seed}, line {number}; {told}");
        }
        assert_eq!(found.len(), plain.len(), "seed {seed}");
        assert!(content == plain_content, "seed {seed}; {told}");
    }
    assert!(streams > 14, "{streams} of 20 were routed");
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn tools_write_what_they_write_without_it() {
    let place = directory("tools");
    let (input, output) = (place.join("input"), place.join("output.wal"));
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    std::fs::write(&input, &content).unwrap();
    for (name, arguments, way) in [
        ("output.wal", "fsync", Ahead),
        ("output.wal", "fsync", Exact),
        ("output.bulk", "fdatasync", Exact),
    ] {
        let output = place.join(name);
        let mut dd = routed("dd", "caller", way);
        dd.arg(format!("if={}", input.display())).arg(format!("of={}", output.display()));
        let told = dd.args(["bs=5000", &format!("conv={arguments}")]).output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        assert!(std::fs::read(&output).unwrap() == content, "{name}");
        let said = String::from_utf8_lossy(&told.stderr).contains(way.line());
        assert_eq!(said, name.ends_with("wal"));
    }
    // A shell writes by stdio, past everything here, and must not lose it.
    let shell = format!("echo one > {0}; echo two >> {0}; cat {0} {0} > {0}.wal", output.display());
    assert!(routed("sh", "thread", Ahead).args(["-c", &shell]).status().unwrap().success());
    assert_eq!(std::fs::read(&output).unwrap(), b"one\ntwo\n");
    assert_eq!(std::fs::read(place.join("output.wal.wal")).unwrap(), b"one\ntwo\none\ntwo\n");
    std::fs::remove_dir_all(&place).unwrap();
}

/// The limit of a file's length stands for a disk that fails: what was written before cannot be given to the
/// kernel, and a sync by the kernel, which knows nothing of it, would succeed.
const LOST: &str = r#"
import os, resource, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
os.write(fd, b"x" * 10000)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for attempt in [lambda: os.pwrite(fd, b"y", 0), lambda: os.fsync(fd), lambda: os.fsync(fd)]:
    try:
        attempt()
    except OSError:
        continue
    sys.exit("a call succeeded although bytes are lost")
"#;

#[test]
fn once_bytes_are_lost_no_sync_succeeds() {
    if !has("python3") {
        return;
    }
    let place = directory("lost");
    let mut python = routed("python3", "caller", Ahead);
    python.args(["-c", LOST]).arg(place.join("lost.wal"));
    let told = python.output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && said.contains("bytes written before are lost"), "{said}");
    std::fs::remove_dir_all(&place).unwrap();
}

/// Two programs that share an open file both write to it, and neither's bytes are lost.
#[test]
fn what_a_child_writes_by_an_inherited_descriptor_stays() {
    let place = directory("child");
    let path = place.join("shared.wal");
    let run = |program: &str, arguments: &[&str]| {
        let [exact, ahead] = [Exact, Ahead].map(|way| {
            let _ = std::fs::remove_file(&path);
            let status = routed(program, "caller", way).args(arguments).status().unwrap();
            assert!(status.success(), "{program} {arguments:?}");
            String::from_utf8(std::fs::read(&path).unwrap()).unwrap()
        });
        assert_eq!(exact, ahead, "{program} {arguments:?}");
        exact
    };
    let at = path.display();
    let shell = format!("{{ echo a; /bin/echo b; ( echo c ); echo d; }} > {at}");
    assert_eq!(run("sh", &["-c", &shell]), "a\nb\nc\nd\n");
    let shell = format!("{{ echo a; /bin/echo b; }} > {at}");
    assert_eq!(run("sh", &["-c", &shell]), "a\nb\n");
    let shell = format!("exec > {at}; echo a; exec /bin/echo b");
    assert_eq!(run("sh", &["-c", &shell]), "a\nb\n");
    if has("python3") {
        for start in [
            "subprocess.run(['echo', 'b'], stdout=f)",
            "os.set_inheritable(f.fileno(), True); os.system('echo b >&%d' % f.fileno())",
            "os.set_inheritable(f.fileno(), True); os.posix_spawn('/bin/echo', ['echo', 'b'], os.environ, \
             file_actions=[(os.POSIX_SPAWN_DUP2, f.fileno(), 1)]); os.wait()",
        ] {
            let code = format!(
                "import os, subprocess; f = open('{at}', 'wb', 0); os.set_inheritable(f.fileno(), True)\n\
                 f.write(b'a\\n'); {start}; f.write(b'c\\n')"
            );
            assert_eq!(run("python3", &["-c", &code]), "a\nb\nc\n", "{start}");
        }
    }
    std::fs::remove_dir_all(&place).unwrap();
}

const PYTHON: &str = r#"
import os, sys
place = sys.argv[1]
path = place + "/python.wal"
with open(path, "wb", buffering=1000) as f:
    for number in range(500):
        f.write(b"%d " % number)
        if number % 50 == 0:
            f.flush()
            os.fsync(f.fileno())
    f.flush()
    assert os.fstat(f.fileno()).st_size == f.tell() == os.path.getsize(path)
expected = b"".join(b"%d " % number for number in range(500))
assert open(path, "rb").read() == expected
with open(path, "r+b") as f:
    f.seek(0, 2)
    f.write(b"end")
    f.truncate(10)
    f.seek(3)
    f.write(b"XYZ")
assert open(path, "rb").read() == expected[:3] + b"XYZ" + expected[6:10], open(path, "rb").read()
os.rename(path, place + "/moved.wal")
"#;

#[test]
fn python_reads_what_it_wrote() {
    if !has("python3") {
        return;
    }
    let place = directory("python");
    for (mode, way) in [("thread", Exact), ("thread", Ahead), ("caller", Ahead)] {
        let mut python = routed("python3", mode, way);
        let output = python.args(["-c", PYTHON]).arg(&place).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(told.contains(way.line()), "{told}");
    }
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_database_whose_logs_are_routed_keeps_its_data() {
    if !has("sqlite3") {
        return;
    }
    let place = directory("sqlite");
    let file = place.join("data.db");
    let mut sql = "PRAGMA journal_mode=WAL; CREATE TABLE t (a INTEGER, b TEXT);".to_owned();
    for number in 0..200 {
        let text = "x".repeat(number * 7);
        write!(sql, "INSERT INTO t VALUES ({number}, '{text}');").unwrap();
    }
    let mut sqlite = routed("sqlite3", "thread", Exact);
    sqlite.env("NEARHEAD_RUN_WAL", "*-wal:*-journal");
    let script = place.join("script.sql");
    std::fs::write(&script, sql).unwrap();
    let output = sqlite.arg(&file).stdin(std::fs::File::open(&script).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let query = "PRAGMA integrity_check; SELECT count(*), sum(a), sum(length(b)) FROM t;";
    let output = Command::new("sqlite3").arg(&file).arg(query).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n200|19900|139300\n");
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_program_on_the_jvm_is_routed_too() {
    if !has("java") || !has("javac") {
        return;
    }
    let place = directory("java");
    let compiled = Command::new("javac").arg("-d").arg(&place).arg(source("Append.java")).output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let java = |file: &Path, count: &str, way: Way| {
        let mut java = routed("java", "thread", way);
        java.args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp"]).arg(&place);
        java.arg("Append").arg(file).arg(count);
        java
    };
    let file = place.join("whole.wal");
    let output = java(&file, "60", Ahead).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: String = (1..=60).map(line_of).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let file = place.join("killed.wal");
    kill_and_look(java(&file, "100000", Ahead), &file, 70, Ahead);
    std::fs::remove_dir_all(&place).unwrap();
}

/// Calls that change something: strace ends the program at one of each.
const CALLS: &str = "inject=write,pwrite64,pwritev2,fsync,fdatasync,ftruncate,fsetxattr,fremovexattr,sendmsg,sendto,close:signal=KILL:when=";

/// Killed when it makes a system call that changes something, by strace, which is started once for each.
/// The guardian leaves exactly a beginning of what the program writes, with all that it acknowledged.
#[test]
fn a_kill_at_any_system_call_leaves_what_was_written() {
    if !has("strace") {
        return;
    }
    let place = directory("calls");
    let Some(program) = program(&place) else { return };
    let lines: String = (1..=4).map(line_of).collect();
    let file = place.join("calls.wal");
    let mut kills = 0;
    for number in 1.. {
        let mode = if number % 2 == 0 { "thread" } else { "caller" };
        let _ = std::fs::remove_file(&file);
        let mut strace = routed("strace", mode, Ahead);
        let library = std::env::current_exe().unwrap().with_file_name("libnearhead_preload.so");
        strace.env_remove("LD_PRELOAD").args(["-f", "-qq", "-o", "/dev/null"]);
        strace.arg(format!("-ELD_PRELOAD={}", library.display()));
        strace.args(["-e", &format!("{CALLS}{number}")]).arg(&program).arg("append").arg(&file);
        let output = strace.args(["4", "-"]).output().unwrap();
        await_settled(&file);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = said.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).max();
        let found = std::fs::read(&file).unwrap_or_default();
        assert!(found.len() >= last.unwrap_or(0), "call {number}: {said} {} bytes", found.len());
        assert!(lines.as_bytes().starts_with(&found), "call {number}: {} bytes", found.len());
        if output.status.success() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 10, "{kills}");
    std::fs::remove_dir_all(&place).unwrap();
}

/// Keys of a database of `RocksDB`; panics if it does not open.
fn keys_of(database: &Path) -> usize {
    let arguments = [&format!("--db={}", database.display()), "scan", "--hex"];
    let output = Command::new("ldb").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter(|line| line.contains(" : ")).count()
}

/// A copy made while it runs is what a power cut leaves: zeros behind the content of the log.
#[test]
fn rocksdb_skips_zeros_behind_its_log() {
    if !has("db_bench") || !has("ldb") {
        return;
    }
    let place = directory("rocksdb");
    let (database, copy) = (place.join("db"), place.join("copy"));
    let mut bench = routed("db_bench", "caller", Ahead);
    bench.env("NEARHEAD_RUN_WAL", "??????.log").arg(format!("--db={}", database.display()));
    bench.args(["--benchmarks=fillseq", "--sync=1", "--num=1000000"]);
    let mut child = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let keys = loop {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}");
        let _ = std::fs::remove_dir_all(&copy);
        let copied = Command::new("cp").arg("-r").args([&database, &copy]).output().unwrap();
        let logs =
            std::fs::read_dir(&copy).into_iter().flatten().flatten().map(|entry| entry.path());
        let log = logs.into_iter().find(|path| path.extension().is_some_and(|it| it == "log"));
        let bytes = log.map(|path| std::fs::read(path).unwrap()).unwrap_or_default();
        let has_zeros = bytes.ends_with(&[0; 8192]);
        if copied.status.success() && has_zeros && bytes.iter().any(|byte| *byte != 0) {
            let keys = keys_of(&copy);
            if keys > 20 {
                break keys;
            }
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    for entry in std::fs::read_dir(&database).unwrap() {
        await_settled(&entry.unwrap().path());
    }
    assert!(keys_of(&database) >= keys);
    std::fs::remove_dir_all(&place).unwrap();
}
