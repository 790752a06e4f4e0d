//! A profile as TOML text, each table with where its numbers come from.
//!
//! The text reads back as the same profile. Long lists (slips, tracks, seeks) are wrapped so that a
//! line stays readable.

use nearhead_models::Profile;
use nearhead_models::{ExchangeSpec, LayoutSpec, ReadAhead, SeekSpec};
use nearhead_models::{TreeRemap, TreeSpec, ZonedSpec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Width of a wrapped line.
const LINE: usize = 96;

/// The text of `profile`. `sources` says, for the names `head`, `period`, `turns`, `layout`, `seek`,
/// `command`, `interface`, `cache` and `queue`, what is to stand above that part as a comment.
pub fn to_toml(profile: &Profile, sources: &BTreeMap<&'static str, String>) -> String {
    let mut text = Text { out: String::new(), sources };
    text.comment("head");
    text.string("name", &profile.name);
    text.string("description", &profile.description);
    text.field("sector_bytes", profile.sector_bytes);
    text.field("physical_sector_bytes", profile.physical_sector_bytes);
    text.field("blocks", profile.blocks);
    text.field("heads", profile.heads);
    text.field("cylinders", profile.cylinders);
    text.comment("period");
    text.field("period_ns", profile.period_ns);
    if !profile.turns.is_empty() {
        text.comment("turns");
        text.pairs("turns", &profile.turns);
    }
    text.table("layout");
    text.layout(&profile.layout);
    if !profile.zones.is_empty() {
        let skew = profile.skew;
        text.table("skew");
        text.float("next_cylinder", skew.next_cylinder);
        text.float("next_head", skew.next_head);
        text.float("next_group", skew.next_group);
        for zone in &profile.zones {
            text.line("\n[[zones]]");
            text.field("first_cylinder", zone.first_cylinder);
            text.field("sectors_per_track", zone.sectors_per_track);
            if let Some(first_lbn) = zone.first_lbn {
                text.field("first_lbn", first_lbn);
            }
        }
    }
    text.seek(&profile.seek);
    text.command(profile);
    text.table("interface");
    text.float("megabytes_per_s", profile.interface.megabytes_per_s);
    if let Some(rate) = profile.interface.write_megabytes_per_s {
        text.float("write_megabytes_per_s", rate);
    }
    text.cache(profile);
    let queue = profile.queue;
    text.table("queue");
    text.field("depth", queue.depth);
    text.named("policy", queue.policy);
    text.float("aging", queue.aging);
    text.float("age_limit_ms", queue.age_limit_ms);
    text.field("honours_priority", queue.honours_priority);
    text.out
}

struct Text<'a> {
    out: String,
    sources: &'a BTreeMap<&'static str, String>,
}

impl Text<'_> {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn comment(&mut self, part: &'static str) {
        let Some(source) = self.sources.get(part) else { return };
        for line in source.lines() {
            let _ = writeln!(self.out, "# {line}");
        }
    }

    fn table(&mut self, name: &'static str) {
        self.out.push('\n');
        self.comment(name);
        let _ = writeln!(self.out, "[{name}]");
    }

    fn field(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.out, "{name} = {value}");
    }

    fn float(&mut self, name: &str, value: f64) {
        self.field(name, float(value));
    }

    fn string(&mut self, name: &str, value: &str) {
        let quoted = toml::Value::String(value.to_owned());
        self.field(name, quoted);
    }

    fn named(&mut self, name: &str, value: impl Serialize) {
        if let Ok(value) = toml::Value::try_from(value) {
            self.field(name, value);
        }
    }

    /// `name = [...]`, wrapped.
    fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.collect();
        let short: usize = items.iter().map(|item| item.len() + 2).sum();
        if short + name.len() + 5 <= LINE {
            return self.field(name, format!("[{}]", items.join(", ")));
        }
        let _ = write!(self.out, "{name} = [");
        let mut width = LINE;
        for item in items {
            if width + item.len() + 2 > LINE {
                self.out.push_str("\n   ");
                width = 3;
            }
            let _ = write!(self.out, " {item},");
            width += item.len() + 2;
        }
        self.line("\n]");
    }

    fn pairs(&mut self, name: &str, pairs: &[(u32, f64)]) {
        self.list(name, pairs.iter().map(|(key, value)| format!("[{key}, {}]", float(*value))));
    }

    fn layout(&mut self, layout: &LayoutSpec) {
        match layout {
            LayoutSpec::Cylinder => self.string("kind", "cylinder"),
            LayoutSpec::Serpentine { run_cylinders } => {
                self.string("kind", "serpentine");
                self.field("run_cylinders", run_cylinders);
            }
            LayoutSpec::Zoned(zoned) => self.zoned(zoned),
            LayoutSpec::Tree(tree) => self.tree(tree),
        }
    }

    fn zoned(&mut self, zoned: &ZonedSpec) {
        self.string("kind", "zoned");
        self.named("order", zoned.order);
        self.named("spares", zoned.spares);
        self.field("range_cylinders", zoned.range_cylinders);
        for zone in &zoned.zones {
            self.line("\n[[layout.zones]]");
            self.field("cylinders", format!("[{}, {}]", zone.cylinders.0, zone.cylinders.1));
            self.field("sectors_per_track", zone.sectors_per_track);
            self.float("first_sector", zone.first_sector);
            self.field("lost_blocks", zone.lost_blocks);
            self.float("track_skew", zone.track_skew);
            self.float("cylinder_skew", zone.cylinder_skew);
            self.field("spares", zone.spares);
            self.list("slips", zone.slips.iter().map(u64::to_string));
            self.list("defects", zone.defects.iter().map(|(from, to)| format!("[{from}, {to}]")));
        }
    }

    fn tree(&mut self, tree: &TreeSpec) {
        self.string("kind", "tree");
        let patterns = tree.patterns.iter();
        self.list("patterns", patterns.map(|(low, high, all)| format!("[{low}, {high}, {all}]")));
        self.line("tables = [");
        for table in &tree.tables {
            self.line("    [");
            for row in table {
                let _ = writeln!(
                    self.out,
                    "        [{}, {}, {}, {}, {}, {}, {}, {}, \"{}\", {}, {}],",
                    row.0,
                    row.1,
                    float(row.2),
                    row.3,
                    row.4,
                    float(row.5),
                    row.6,
                    row.7,
                    row.8,
                    row.9,
                    row.10
                );
            }
            self.line("    ],");
        }
        self.line("]");
        self.list("slips", tree.slips.iter().map(|(at, count)| format!("[{at}, {count}]")));
        if !tree.remaps.is_empty() {
            self.list("remaps", tree.remaps.iter().map(remap));
        }
    }

    fn seek(&mut self, seek: &SeekSpec) {
        self.table("seek");
        self.pairs("points_ms", &seek.points_ms);
        if let Some(points) = &seek.write_points_ms {
            self.pairs("write_points_ms", points);
        }
        self.float("write_settle_ms", seek.write_settle_ms);
        self.field("settles_between_tracks", seek.settles_between_tracks);
        self.float("read_after_write_ms", seek.read_after_write_ms);
        self.float("head_switch_ms", seek.head_switch_ms);
        self.float("late_share", seek.late_share);
    }

    fn command(&mut self, profile: &Profile) {
        self.table("command");
        self.float("read_ms", profile.command.read_ms);
        self.float("write_ms", profile.command.write_ms);
        self.float("cached_ms", profile.command.cached_ms);
        if let Some(exchange) = &profile.command.exchange {
            self.exchange(exchange);
        }
    }

    fn exchange(&mut self, exchange: &ExchangeSpec) {
        self.line("\n# Pairs are [after a read, after a write].");
        self.line("[command.exchange]");
        let mut pair = |name: &str, [read, write]: [f64; 2]| {
            self.field(name, format!("[{}, {}]", float(read), float(write)));
        };
        pair("read_seek_ms", exchange.read_seek_ms);
        pair("read_hit_ms", exchange.read_hit_ms);
        pair("write_seek_ms", exchange.write_seek_ms);
        pair("write_data_ms", exchange.write_data_ms);
        pair("cached_write_data_ms", exchange.cached_write_data_ms);
        self.float("read_reconnect_ms", exchange.read_reconnect_ms);
        self.float("read_enough", exchange.read_enough);
        self.field("read_keeps_interface", exchange.read_keeps_interface);
        self.float("read_end_ms", exchange.read_end_ms);
        self.float("write_seek_least_ms", exchange.write_seek_least_ms);
        self.float("write_end_ms", exchange.write_end_ms);
        self.float("cached_write_end_ms", exchange.cached_write_end_ms);
        self.float("read_ahead_end_ms", exchange.read_ahead_end_ms);
    }

    fn cache(&mut self, profile: &Profile) {
        let cache = profile.cache;
        self.table("cache");
        self.field("segments", cache.segments);
        self.field("segment_sectors", cache.segment_sectors);
        self.field("read_ahead_sectors", cache.read_ahead_sectors);
        if cache.read_ahead_until != ReadAhead::Sectors {
            self.named("read_ahead_until", cache.read_ahead_until);
        }
        self.field("read_ahead_keeps_requested", cache.read_ahead_keeps_requested);
        self.field("read_ahead_when_sequential", cache.read_ahead_when_sequential);
        self.field("joins_read_ahead", cache.joins_read_ahead);
        self.field("keeps_passing_sectors", cache.keeps_passing_sectors);
        self.field("written_segments", cache.written_segments);
        self.field("zero_latency_reads", cache.zero_latency_reads);
        self.field("write_cache", cache.write_cache);
        self.field("dirty_bytes_max", cache.dirty_bytes_max);
        self.float("destage_idle_ms", cache.destage_idle_ms);
    }
}

fn remap(remap: &TreeRemap) -> String {
    let TreeRemap { lbn, blocks, cylinder, head, sector, sectors_per_track } = remap;
    format!(
        "{{ lbn = {lbn}, blocks = {blocks}, cylinder = {cylinder}, head = {head}, sector = {sector}, \
         sectors_per_track = {sectors_per_track} }}"
    )
}

/// A number that TOML reads as a float, without the noise of binary fractions.
fn float(value: f64) -> String {
    let rounded = (value * 1e9).round() / 1e9;
    if rounded.fract() == 0.0 { format!("{rounded:.1}") } else { format!("{rounded}") }
}
