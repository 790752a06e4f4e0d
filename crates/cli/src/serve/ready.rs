//! The line that says that a volume is served, for people or for programs.

use super::{ServeArgs, Served};
use crate::units::ByteSize;
use nearhead_output::{hex, say_json_line, tell};
use nearhead_service::Service;
use serde::Serialize;
use std::path::Path;

/// The line that says that clients are welcome.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    event: &'static str,
    target: &'a str,
    size_bytes: u64,
    uris: &'a [String],
    control: Option<&'a Path>,
    read_only: bool,
    rotational: bool,
    fast_zero: bool,
    recovery_records: u64,
    recovery_read_bytes: u64,
    volume_id: String,
    pid: u32,
}

/// Prints the line.
pub(super) fn announce(
    args: &ServeArgs,
    name: &str,
    served: &Served,
    uris: &[String],
    control: Option<&Path>,
) -> Result<(), String> {
    let status = served.volume().status();
    let info = served.info();
    if args.json {
        return say_json_line(&Ready {
            event: "serving",
            target: name,
            size_bytes: info.size_bytes,
            uris,
            control,
            read_only: info.read_only,
            rotational: info.rotational,
            fast_zero: info.fast_zero,
            recovery_records: status.recovery_records,
            recovery_read_bytes: status.recovery_read_bytes,
            volume_id: hex(&served.volume().superblock().volume_id),
            pid: std::process::id(),
        });
    }
    let recovered = if status.recovery_records > 0 {
        format!(
            "; recovered {} records from {} logs",
            status.recovery_records, status.recovery_logs
        )
    } else {
        String::new()
    };
    tell(&format!(
        "serving {name} ({}{}) on {}{recovered}",
        ByteSize(info.size_bytes),
        if info.read_only { ", read-only" } else { "" },
        uris.join(" and "),
    ));
    Ok(())
}
