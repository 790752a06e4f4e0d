//! Who gives permits for checkpoints that can wait: an ensemble of ZooKeeper servers and a path there.
//!
//! What is accepted here is bounded and can be handed on as it is: every server has a port, and the path is one that
//! ZooKeeper takes. Nothing here resolves a name or opens a connection.

use crate::units::from_file;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Most servers that may be named.
const SERVERS_MAX: usize = 32;
/// Longest address, in bytes.
const ADDRESS_BYTES_MAX: usize = 4096;
/// Most permits: more volumes than that are no replicas of each other.
pub const PERMITS_MAX: u32 = 1000;

/// Where permits are kept, typed as `zk://HOST:PORT[,HOST:PORT...]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitsPlace {
    /// `HOST:PORT[,HOST:PORT...]`, as ZooKeeper's own programs take it.
    pub servers: String,
    /// A path of at least one part, `/` before each.
    pub path: String,
}

/// `checkpoint = { coordinate = "zk://...", permits = N, identity = "FILE" }` in a volume file.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CheckpointTable {
    pub(crate) coordinate: PermitsPlace,
    pub(crate) permits: Option<u32>,
    pub(crate) identity: Option<PathBuf>,
}

impl FromStr for PermitsPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: String| {
            format!("expected zk://HOST:PORT[,HOST:PORT...]/PATH, found {text:?}: {why}")
        };
        if text.len() > ADDRESS_BYTES_MAX {
            let len = text.len();
            return Err(format!(
                "expected zk://HOST:PORT[,HOST:PORT...]/PATH of at most {ADDRESS_BYTES_MAX} bytes, found {len}"
            ));
        }
        let rest = text
            .strip_prefix("zk://")
            .ok_or_else(|| wrong("it must begin with zk://".to_owned()))?;
        let at = rest.find('/').ok_or_else(|| {
            wrong("add a path for these volumes, such as /nearhead/volumes-a".to_owned())
        })?;
        let (servers, path) = rest.split_at(at);
        if servers.split(',').count() > SERVERS_MAX {
            return Err(wrong(format!("name at most {SERVERS_MAX} servers")));
        }
        servers.split(',').try_for_each(check_server).map_err(wrong)?;
        check_path(path).map_err(wrong)?;
        Ok(Self { servers: servers.to_owned(), path: path.to_owned() })
    }
}

fn check_server(server: &str) -> Result<(), String> {
    let (host, port) = server.rsplit_once(':').ok_or_else(|| {
        format!("{server:?} names no port; add the one ZooKeeper's clients use, often :2181")
    })?;
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = if let Some(address) = inside {
        address.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        !host.is_empty() && host.chars().all(is_name)
    };
    if !is_host {
        return Err(format!(
            "{host:?} is no name or address of a host; IPv6 addresses stand in brackets"
        ));
    }
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit());
    if !is_port || !matches!(port.parse::<u16>(), Ok(1..)) {
        return Err(format!("{port:?} is no port; give 1 to 65535"));
    }
    Ok(())
}

/// The rules of ZooKeeper for names of znodes, but for letters beyond ASCII, and never the root.
fn check_path(path: &str) -> Result<(), String> {
    let first = path.split('/').nth(1);
    if first == Some("zookeeper") {
        return Err("/zookeeper is ZooKeeper's own; choose another path".to_owned());
    }
    for part in path.split('/').skip(1) {
        if part.is_empty() {
            return Err(
                "a part of the path is empty; write it as /a/b, without / at its end".to_owned()
            );
        }
        let is_plain = part.chars().all(|c| c.is_ascii_graphic());
        if part == "." || part == ".." || !is_plain {
            return Err(format!(
                "{part:?} cannot be a part of the path; use letters, digits, - and _"
            ));
        }
    }
    Ok(())
}

impl fmt::Display for PermitsPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "zk://{}{}", self.servers, self.path)
    }
}

impl<'de> Deserialize<'de> for PermitsPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_file(deserializer)
    }
}

/// A number of permits that makes sense.
pub(crate) fn checked_permits(permits: u32) -> Result<u32, String> {
    if (1..=PERMITS_MAX).contains(&permits) {
        return Ok(permits);
    }
    Err(format!(
        "checkpoint permits: expected 1 to {PERMITS_MAX}, found {permits}; of 2N+1 replicas N may be busy, and 1 is always right"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_into_servers_and_a_path() {
        for (servers, path) in [
            ("localhost:2181", "/nearhead"),
            ("zk-1.example:2181,zk-2.example:2182,10.0.0.3:1", "/nearhead/volumes_a"),
            ("[::1]:65535", "/a"),
        ] {
            let text = format!("zk://{servers}{path}");
            let place: PermitsPlace = text.parse().unwrap();
            assert_eq!((place.servers.as_str(), place.path.as_str()), (servers, path));
            assert_eq!(place.to_string(), text);
        }
    }

    #[test]
    fn a_wrong_address_is_refused_with_what_is_wrong_and_what_to_do() {
        for (text, part) in [
            ("", "must begin with zk://"),
            ("http://a:1/p", "must begin with zk://"),
            ("zk://a:2181", "add a path"),
            ("zk://a/p", "\"a\" names no port"),
            ("zk:///p", "\"\" names no port"),
            ("zk://a:2181,/p", "\"\" names no port"),
            ("zk://:2181/p", "no name or address"),
            ("zk://a b:2181/p", "no name or address"),
            ("zk://::1:2181/p", "brackets"),
            ("zk://[a]:2181/p", "no name or address"),
            ("zk://a:0/p", "\"0\" is no port"),
            ("zk://a:65536/p", "\"65536\" is no port"),
            ("zk://a:+1/p", "\"+1\" is no port"),
            ("zk://a:2181/", "a part of the path is empty"),
            ("zk://a:2181/p/", "a part of the path is empty"),
            ("zk://a:2181/p//q", "a part of the path is empty"),
            ("zk://a:2181/p/..", "cannot be a part"),
            ("zk://a:2181/p q", "cannot be a part"),
            ("zk://a:2181/zookeeper/p", "ZooKeeper's own"),
        ] {
            let error = text.parse::<PermitsPlace>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {part:?} is missing in {error:?}");
            assert!(error.contains(&format!("found {text:?}")), "{text:?}: {error}");
        }
        let servers = vec!["a:1"; SERVERS_MAX + 1].join(",");
        let error = format!("zk://{servers}/p").parse::<PermitsPlace>().unwrap_err();
        assert!(error.contains("at most 32 servers"), "{error}");
        let long = format!("zk://a:1/{}", "p".repeat(ADDRESS_BYTES_MAX));
        assert!(long.parse::<PermitsPlace>().unwrap_err().contains("found 4105"));
    }
}
