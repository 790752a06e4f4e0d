//! The layout of a package: `dm_layout_g1` (zones), `dm_layout_g2` (list of tracks) or `dm_layout_g4`
//! (index tree).
//!
//! The detailed layout is believed over the counts that other files state; where they differ that
//! is told. Without a layout file, a raw `layout.mappings` gives the tracks but no angles.

use super::files::Folder;
use super::syntax::{Content, Section, Value};
use super::{ImportError, Notes, mappings, track_list};
use nearhead_models::LayoutSpec;
use nearhead_models::{
    SpareScheme, SurfaceOrder, TreeRemap, TreeRow, TreeSpec, ZonedSpec, ZonedZone,
};

/// The layout, and the counts that follow from it.
pub(super) struct Layout {
    pub(super) spec: LayoutSpec,
    pub(super) blocks: u64,
    pub(super) heads: u16,
    pub(super) cylinders: u32,
}

const KEY: &str = "Layout Model";

pub(super) fn read(
    model: &Section,
    folder: &Folder,
    notes: &mut Notes,
) -> Result<Layout, ImportError> {
    let value = model.need(KEY)?;
    let raw = mappings::read(folder)?;
    let surfaces = model.whole("Number of data surfaces")?;
    let stated_cylinders = model.whole("Number of cylinders")?;
    let small = |what: &str, found: u64, most: u64| {
        let problem = format!("{what:?}: expected 1 to {most}, found {found}");
        if (1..=most).contains(&found) {
            Ok(())
        } else {
            Err(ImportError::new(&model.place, problem))
        }
    };
    small("Number of data surfaces", surfaces, 1024)?;
    small("Number of cylinders", stated_cylinders, 1 << 30)?;
    let stated_blocks = model.whole_or("Block count", 0)?;
    let (heads, mut cylinders) = (surfaces as u16, stated_cylinders as u32);
    let mut blocks = stated_blocks;
    let spec = if let (Content::Missing(file), Some(raw)) = (&value.content, &raw) {
        notes.warn(
            &value.place,
            format!(
                "source {file} is not there; tracks are taken from layout.mappings, which has no \
                 angles: sequential transfers are too fast and phases unknown"
            ),
        );
        LayoutSpec::Tree(raw.bare_tree())
    } else {
        let section = value.section(KEY)?;
        notes.sources.insert("layout", format!("{}: {}.", section.place, section.kind));
        match section.kind.as_str() {
            "dm_layout_g1" => LayoutSpec::Zoned(zoned(section)?),
            "dm_layout_g2" => {
                let listed = track_list::read(section, folder)?;
                blocks = if blocks == 0 { listed.blocks() } else { blocks };
                LayoutSpec::Tree(listed)
            }
            "dm_layout_g4" => LayoutSpec::Tree(tree(section)?),
            other => {
                let problem = format!(
                    "expected a layout dm_layout_g1, dm_layout_g2 or dm_layout_g4, found {other}"
                );
                return Err(ImportError::new(&section.place, problem));
            }
        }
    };
    if let Some(raw) = &raw
        && raw.blocks != blocks
    {
        notes.warn(
            "layout.mappings",
            format!(
                "the last block is {}, so there are {} blocks; the model file says {blocks}: the \
             former is taken",
                raw.blocks - 1,
                raw.blocks
            ),
        );
        blocks = raw.blocks;
    }
    let failed = |problem: String| {
        ImportError::new(&value.place, format!("the layout contradicts itself: {problem}"))
    };
    match &spec {
        LayoutSpec::Zoned(zoned) => {
            let last = zoned.zones.iter().map(|zone| zone.cylinders.1.saturating_add(1)).max();
            cylinders = wider(cylinders, last.unwrap_or(0), value, notes);
            let held = zoned.compile(heads, cylinders).map_err(failed)?.blocks();
            if blocks != held {
                notes.warn(
                    &model.place,
                    format!(
                        "\"Block count\" says {blocks}, the zones hold {held}: the latter is taken"
                    ),
                );
                blocks = held;
            }
        }
        LayoutSpec::Tree(tree) => {
            let most = tree.blocks();
            if blocks == 0 || blocks > most {
                notes.warn(&model.place, format!(
                    "\"Block count\" says {blocks}, the tree has room for {most}: the latter is \
                     taken"
                ));
                blocks = most;
            }
            let compiled = tree.compile(heads, u32::MAX, blocks).map_err(failed)?;
            cylinders = wider(cylinders, compiled.cylinders_used(), value, notes);
        }
        _ => {}
    }
    Ok(Layout { spec, blocks, heads, cylinders })
}

fn wider(stated: u32, used: u32, value: &Value, notes: &mut Notes) -> u32 {
    if used > stated {
        notes.warn(&value.place, format!(
            "the layout uses {used} cylinders, \"Number of cylinders\" says {stated}: the former \
             is taken"
        ));
    }
    used.max(stated)
}

fn zoned(section: &Section) -> Result<ZonedSpec, ImportError> {
    let order_key = "LBN-to-PBN mapping scheme";
    let orders = [SurfaceOrder::Same, SurfaceOrder::AlternatingInZone, SurfaceOrder::Alternating];
    let order = one_of(section, order_key, &orders)?;
    let spares = one_of(
        section,
        "Sparing scheme used",
        &[
            SpareScheme::None,
            SpareScheme::Tracks,
            SpareScheme::SectorsPerCylinder,
            SpareScheme::SectorsPerTrack,
            SpareScheme::SectorsPerCylinderSlipOn,
            SpareScheme::SectorsInFrontOfCylinder,
            SpareScheme::SectorsInFrontOfCylinderSlipOn,
            SpareScheme::AtEnd,
            SpareScheme::SectorsPerRange,
            SpareScheme::SectorsPerZone,
            SpareScheme::SectorsPerZoneSlipOn,
        ],
    )?;
    let in_revolutions = skews_in_revolutions(section)?.unwrap_or(false);
    let zones: Vec<ZonedZone> = section
        .need("Zones")?
        .list("Zones")?
        .iter()
        .map(|zone| zone.section("Zones").and_then(|zone| one_zone(zone, in_revolutions)))
        .collect::<Result<_, _>>()?;
    if zones.is_empty() {
        return Err(ImportError::new(&section.place, "expected at least one zone, found none"));
    }
    let range = section.whole_or("Rangesize for sparing", 1)?.clamp(1, 1 << 30);
    Ok(ZonedSpec { order, spares, range_cylinders: range as u32, zones })
}

/// Whether skews are in revolutions or, otherwise, in sectors; none if the section does not say.
pub(super) fn skews_in_revolutions(section: &Section) -> Result<Option<bool>, ImportError> {
    let key = "Skew units";
    let Some(value) = section.get(key) else { return Ok(None) };
    match value.word(key)?.to_ascii_lowercase().as_str() {
        "revolutions" => Ok(Some(true)),
        "sectors" => Ok(Some(false)),
        other => {
            let problem = format!("{key:?}: expected revolutions or sectors, found {other:?}");
            Err(ImportError::new(&value.place, problem))
        }
    }
}

fn one_of<T: Copy>(section: &Section, key: &str, known: &[T]) -> Result<T, ImportError> {
    let value = section.need(key)?;
    let found = value.whole(key)?;
    known.get(found as usize).copied().ok_or_else(|| {
        let problem = format!("{key:?}: expected 0 to {}, found {found}", known.len() - 1);
        ImportError::new(&value.place, problem)
    })
}

fn one_zone(section: &Section, in_revolutions: bool) -> Result<ZonedZone, ImportError> {
    let small = |key: &str| {
        let found = section.whole(key)?;
        u32::try_from(found)
            .map_err(|_| ImportError::new(&section.place, format!("{key:?}: {found} is too large")))
    };
    let sectors_per_track = small("Blocks per track")?;
    let in_revolutions = skews_in_revolutions(section)?.unwrap_or(in_revolutions);
    let unit = if in_revolutions { f64::from(sectors_per_track) } else { 1.0 };
    let whole_list = |key: &str| -> Result<Vec<u64>, ImportError> {
        section.list(key)?.iter().map(|item| item.whole(key)).collect()
    };
    let mut slips = whole_list("slips")?;
    slips.sort_unstable();
    slips.dedup();
    let defects = whole_list("defects")?;
    if defects.len() % 2 == 1 {
        let problem = "\"defects\": expected pairs of a defect and its spare, found an odd number";
        return Err(ImportError::new(&section.need("defects")?.place, problem));
    }
    Ok(ZonedZone {
        cylinders: (small("First cylinder number")?, small("Last cylinder number")?),
        sectors_per_track,
        first_sector: section.number_or("Offset of first block", 0.0)? * unit,
        lost_blocks: section.whole_or("Empty space at zone front", 0)?,
        track_skew: section.number_or("Skew for track switch", 0.0)? * unit,
        cylinder_skew: section.number_or("Skew for cylinder switch", 0.0)? * unit,
        spares: section.whole_or("Number of spares", 0)?,
        slips,
        defects: defects.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
    })
}

fn tree(section: &Section) -> Result<TreeSpec, ImportError> {
    let flat = |key: &str, width: usize| -> Result<Vec<u64>, ImportError> {
        let Some(value) = section.get(key) else { return Ok(Vec::new()) };
        let found: Vec<u64> =
            value.list(key)?.iter().map(|item| item.whole(key)).collect::<Result<_, _>>()?;
        if found.len().is_multiple_of(width) {
            return Ok(found);
        }
        let problem = format!("{key:?}: expected groups of {width} numbers, found {}", found.len());
        Err(ImportError::new(&value.place, problem))
    };
    section.need("TP")?;
    let patterns = flat("TP", 3)?
        .chunks_exact(3)
        .map(|pattern| (pattern[0] as u32, pattern[1] as u32, pattern[2] as u32))
        .collect();
    let tables = section.need("IDX")?.list("IDX")?;
    let tables = tables.iter().map(table).collect::<Result<_, _>>()?;
    let slips = flat("Slips", 2)?.chunks_exact(2).map(|slip| (slip[0], slip[1])).collect();
    // First block, blocks, and where they are: cylinder, head, sector, sectors of that track.
    let remaps = flat("Remaps", 6)?;
    let remaps = remaps.chunks_exact(6).map(|remap| TreeRemap {
        lbn: remap[0],
        blocks: remap[1],
        cylinder: remap[2] as u32,
        head: remap[3] as u16,
        sector: remap[4] as u32,
        sectors_per_track: remap[5] as u32,
    });
    Ok(TreeSpec { patterns, tables, slips, remaps: remaps.collect() })
}

/// A table: rows of 10 items for a table, of 11 for a track.
fn table(value: &Value) -> Result<Vec<TreeRow>, ImportError> {
    let mut items = value.list("IDX")?;
    let mut rows = Vec::new();
    while let Some(first) = items.first() {
        let wrong = |what: String| {
            ImportError::new(
                &first.place,
                format!(
                    "expected `lbn, cyl, off, len, cyllen, alen, runlen, cylrunlen, TRACK, child, head` or \
             `..., IDX, child`, found {what}"
                ),
            )
        };
        let kind = items.get(8).ok_or_else(|| wrong(format!("{} items", items.len())))?;
        let (kind, width) = match kind.word("childtype")?.to_ascii_uppercase().as_str() {
            "TRACK" => ("track", 11),
            "IDX" => ("table", 10),
            other => return Err(wrong(format!("{other:?}"))),
        };
        let row = items.get(..width).ok_or_else(|| wrong(format!("{} items", items.len())))?;
        items = &items[width..];
        let whole = |index: usize| row[index].whole("IDX");
        let number = |index: usize| row[index].number("IDX");
        rows.push(TreeRow(
            whole(0)?,
            whole(1)? as u32,
            number(2)?,
            whole(3)?,
            whole(4)? as u32,
            number(5)?,
            whole(6)?,
            number(7)? as i64,
            kind.to_owned(),
            whole(9)? as usize,
            if width == 11 { whole(10)? as u16 } else { 0 },
        ));
    }
    Ok(rows)
}
