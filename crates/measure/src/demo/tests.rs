//! The demo's parts, over real sockets but never against the clock.

use super::axes::Axes;
use super::client::{Ask, Client};
use super::experiment::{BulkKind, Row, Setting, Span};
use super::server::Served;
use super::{head_path, in_virtual_time, page, table};
use nearhead_disk::Nanos;
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_nbd::Limits;
use nearhead_study::dataless::{self, Answers};
use nearhead_volume::NamedPreset;
use std::path::PathBuf;
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearhead-demo-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn row(preset: &str, points_per_s: u32) -> Row {
    let span = Span::of_seconds(10.0);
    let preset = NamedPreset::by_name(preset).unwrap();
    let results = in_virtual_time::point(preset, BulkKind::Read, points_per_s, span).unwrap();
    let alone = in_virtual_time::alone(BulkKind::Read, span).unwrap();
    Row::new(preset.name, Setting::usual(BulkKind::Read), points_per_s, &results, alone).unwrap()
}

#[test]
fn the_client_gets_one_answer_for_every_request() {
    let folder = folder("client");
    let served = Served::start(&folder, "test", Limits::default(), |_| {
        let properties = plain_properties(256 << 20, 512);
        let disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO);
        dataless::volume(disk, NamedPreset::by_name("mlb").unwrap(), Answers::OnFlush)
    })
    .unwrap();
    let mut client = Client::connect(served.socket(), Duration::from_secs(30)).unwrap();
    assert!(client.size_bytes() > 128 << 20, "{}", client.size_bytes());
    let (small, large) = (vec![1; 4096], vec![2; 1 << 20]);
    client.send(1, Ask::Write { offset: 0, data: &small, fua: true }).unwrap();
    client.send(2, Ask::Write { offset: 1 << 20, data: &large, fua: false }).unwrap();
    client.send(3, Ask::Read { offset: 2 << 20, len: 1 << 20 }).unwrap();
    client.send(4, Ask::Flush).unwrap();
    client.send(5, Ask::Read { offset: u64::MAX / 2, len: 4096 }).unwrap();
    let mut answers: Vec<_> = (0..5).map(|_| client.receive().unwrap()).collect();
    answers.sort_by_key(|answer| answer.handle);
    let failed: Vec<bool> = answers.iter().map(|answer| answer.error != 0).collect();
    assert_eq!(failed, [false, false, false, false, true], "{answers:?}");
    drop(client);
    served.stop().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn no_preset_gets_more_than_the_physical_limit() {
    for preset in ["nolog", "singlelog", "mlb"] {
        let row = row(preset, 16);
        assert!(row.bandwidth_pct < row.limit_bandwidth_pct, "{row:?}");
    }
}

#[test]
fn near_head_records_leave_more_to_the_stream_than_writes_in_place() {
    let (in_place, near_head) = (row("nolog", 8), row("mlb", 8));
    assert!(near_head.bandwidth_pct > in_place.bandwidth_pct, "{near_head:?} {in_place:?}");
    assert!(near_head.durable_ms_mean < in_place.durable_ms_mean, "{near_head:?} {in_place:?}");
}

#[test]
fn the_page_shows_every_row_and_needs_nothing_from_elsewhere() {
    let rows: Vec<Row> = [("nolog", 2), ("mlb", 2), ("mlb", 16)].map(|(p, r)| row(p, r)).into();
    let ways = head_path::all().unwrap();
    let axes = Axes::measured(Span::of_seconds(0.5), |_| ()).unwrap();
    let page = page::render(&rows, &axes, &ways, 7.0, true, "this test").unwrap();
    assert_eq!(page.matches("<svg").count(), 6 + 6 + ways.len());
    for row in &rows {
        assert!(page.contains(&format!("<td>{}<td>{}", row.preset, row.writes_per_s)));
    }
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http") && !links.contains("src="), "something is fetched");
    assert_eq!(table::render(&rows).lines().count(), 1 + rows.len());
    assert!(page.contains("With 8 big reads outstanding on exos-x20-20tb and 320 small durable"));
    assert_eq!(axes.rows().count(), 72, "3 drives, 2 bulk clients, 3 presets, 4 depths");
    assert!(axes.rows().all(|row| page.contains(&format!("<td>{}<td>", row.drive))));
    assert_eq!(axes.text().lines().count(), 2 + 18);
    assert!(axes.text().lines().all(|line| line.len() <= 110), "{}", axes.text());
}

#[test]
fn the_json_has_the_fields_that_others_read() {
    let json = serde_json::to_value(row("mlb", 16)).unwrap();
    for field in [
        "preset",
        "drive",
        "bulk",
        "outstanding",
        "writes_per_s",
        "bandwidth_pct",
        "durable_ms_mean",
        "durable_ms_p99",
        "limit_bandwidth_pct",
    ] {
        assert!(!json[field].is_null(), "{field} in {json}");
    }
    assert_eq!((json["bulk"].as_str(), json["writes_per_s"].as_u64()), (Some("read"), Some(320)));
}
