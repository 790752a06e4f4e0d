//! Names that databases and coordination services give their logs, and the pattern for each.
//!
//! A pattern names logs and nothing else: not the index next to them, not a file of messages.

use std::path::Path;

/// The pattern, as `nearhead run --wal` takes it, of the logs like the file at `path`; `None` if it is
/// none by its name.
pub(super) fn pattern_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let directory = path.parent()?;
    let pattern = pattern_of_name(name, directory.file_name().and_then(|name| name.to_str()))?;
    Some(directory.join(pattern).display().to_string())
}

fn pattern_of_name(name: &str, directory: Option<&str>) -> Option<String> {
    let is =
        |text: &str, kind: fn(&u8) -> bool| !text.is_empty() && text.as_bytes().iter().all(kind);
    let is_decimal = |text: &str| is(text, u8::is_ascii_digit);
    let is_hex = |text: &str| is(text, u8::is_ascii_hexdigit);
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    // ZooKeeper.
    if stem == "log" && is_hex(ending) {
        return Some("log.*".to_owned());
    }
    // RocksDB and LevelDB: a number. Any other name with this ending is of messages.
    if ending == "log" && is_decimal(stem) {
        return Some(format!("{}.log", "?".repeat(stem.len())));
    }
    // Binary logs of MariaDB and MySQL, without their index.
    let is_binary_log = stem.ends_with("bin") || stem.ends_with("binlog");
    if is_binary_log && ending.len() >= 6 && is_decimal(ending) {
        return Some(format!("{stem}.{}", "?".repeat(ending.len())));
    }
    // etcd; SQLite; Redis.
    for known in [".wal", "-wal", "-journal", ".aof"] {
        if name.ends_with(known) {
            return Some(format!("*{known}"));
        }
    }
    // InnoDB, Cassandra.
    for known in ["ib_logfile", "#ib_redo", "CommitLog-"] {
        if name.starts_with(known) {
            return Some(format!("{known}*"));
        }
    }
    // PostgreSQL.
    let is_segment = name.len() == 24 && is_hex(name);
    (directory == Some("pg_wal") && is_segment).then(|| "?".repeat(name.len()))
}

/// Whether the program skips zeros behind the content of a log with this name: `RocksDB` and `LevelDB`.
pub(super) fn skips_zeros(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(".log").is_some_and(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::pattern::matches;

    #[test]
    fn a_pattern_takes_the_logs_and_not_what_lies_next_to_them() {
        for (path, expected, other) in [
            ("/zk/version-2/log.1a00000001", "/zk/version-2/log.*", "snapshot.1a"),
            ("/etcd/member/wal/0-0.wal", "/etcd/member/wal/*.wal", "0.tmp"),
            ("/x/data.db-wal", "/x/*-wal", "data.db-shm"),
            ("/db/000123.log", "/db/??????.log", "LOG"),
            ("/r/appendonly.aof.1.incr.aof", "/r/*.aof", "appendonly.aof.manifest"),
            ("/m/binlog.000007", "/m/binlog.??????", "binlog.index"),
            ("/m/server-bin.000007", "/m/server-bin.??????", "server-bin.index"),
            ("/m/ib_logfile0", "/m/ib_logfile*", "ibdata1"),
            (
                "/pg/pg_wal/000000010000000000000001",
                "/pg/pg_wal/????????????????????????",
                "x.history",
            ),
        ] {
            let pattern = pattern_of(Path::new(path)).unwrap();
            assert_eq!(pattern, expected);
            assert!(matches(pattern.as_bytes(), path.as_bytes()), "{path}");
            let other = Path::new(path).with_file_name(other).display().to_string();
            assert!(!matches(pattern.as_bytes(), other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn messages_and_indexes_are_no_logs() {
        for path in [
            "/zk/version-2/snapshot.1a",
            "/db/000123.sst",
            "/zk/log.old",
            "/x/catalog",
            "/var/log/server.log",
            "/m/binlog.index",
            "/r/appendonly.aof.manifest",
            "/pg/pg_wal/00000001.history",
            "/x/wal/README",
        ] {
            assert_eq!(pattern_of(Path::new(path)), None, "{path}");
        }
    }
}
