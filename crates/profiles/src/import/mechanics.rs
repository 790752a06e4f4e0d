//! The mechanics of a package: rotation, seek curve, head switch, write settling.
//!
//! A seek curve comes as a table of measured distances, or as one of the formulas of DiskSim's
//! manual (Bucy et al., CMU-PDL-08-101, section 3.2); formulas are turned into points close enough
//! that a straight line between them is the curve.

use super::files::Folder;
use super::syntax::{Content, Section, Value};
use super::{ImportError, Notes};
use nearhead_models::SeekSpec;

/// What the mechanical section says.
pub(super) struct Mechanics {
    pub(super) period_ns: u64,
    pub(super) seek: SeekSpec,
}

/// Points of a curve: distance in cylinders, ms.
type Points = Vec<(u32, f64)>;

pub(super) fn read(
    model: &Section,
    folder: &Folder,
    notes: &mut Notes,
) -> Result<Mechanics, ImportError> {
    let key = "Mechanical Model";
    let section = model.need(key)?.section(key)?;
    if section.kind != "dm_mech_g1" {
        return Err(ImportError::new(
            &section.place,
            format!("expected a mechanical model dm_mech_g1, found {}", section.kind),
        ));
    }
    let rpm_key = "Rotation speed (in rpms)";
    let rpm = section.number(rpm_key)?;
    if !(60.0..=60_000.0).contains(&rpm) {
        let problem = format!("{rpm_key:?}: expected 60 to 60000, found {rpm}");
        return Err(ImportError::new(&section.need(rpm_key)?.place, problem));
    }
    if let Some(kind) = section.get("Access time type")
        && !kind.word("Access time type")?.eq_ignore_ascii_case("trackSwitchPlusRotation")
    {
        notes.warn(
            &kind.place,
            "access times other than trackSwitchPlusRotation are not known; \
                                 the model turns with its real phase",
        );
    }
    let cylinders = model.whole("Number of cylinders")?;
    let (points_ms, write_points_ms, source) = curve(section, cylinders, folder, notes)?;
    notes.sources.insert("period", format!("{}: {rpm} rpm.", section.place));
    notes.sources.insert("seek", source);
    Ok(Mechanics {
        period_ns: (60e9 / rpm).round() as u64,
        seek: SeekSpec {
            points_ms,
            write_points_ms,
            write_settle_ms: write_settle(section, notes)?,
            settles_between_tracks: true,
            read_after_write_ms: 0.0,
            head_switch_ms: section.number_or("Head switch time", 0.0)?,
            late_share: 0.0,
        },
    })
}

/// How much longer a write settles than a read. A write needs the head more exactly over its track than a read does, which can be
/// tried again: a delay below nothing is what a fit made of something else, and writes of such a package come out too fast.
fn write_settle(section: &Section, notes: &mut Notes) -> Result<f64, ImportError> {
    const NAME: &str = "Add. write settling delay";
    let ms = section.number_or(NAME, 0.0)?;
    if ms < 0.0
        && let Some(value) = section.get(NAME)
    {
        notes.warn(
            &value.place,
            format!("{NAME}: expected 0 ms or more, found {ms}: no write settles faster than a read; taken for 0"),
        );
    }
    Ok(ms.max(0.0))
}

/// The curve of reads, that of writes if it is another, and where they come from.
fn curve(
    section: &Section,
    cylinders: u64,
    folder: &Folder,
    notes: &mut Notes,
) -> Result<(Points, Option<Points>, String), ImportError> {
    let kind_value = section.need("Seek type")?;
    let kind = kind_value.word("Seek type")?.to_ascii_lowercase();
    let place = &kind_value.place;
    let stated = |key: &str| section.number(key);
    let full = cylinders.clamp(2, 100_000_000) as f64;
    let formula: Box<dyn Fn(f64) -> f64> = match kind.as_str() {
        "extracted" => return table(section, full, folder, notes),
        "constant" => {
            let constant = match section.get("Constant seek time") {
                Some(value) => value.number("Constant seek time")?,
                None => stated("Average seek time")?,
            };
            Box::new(move |_| constant)
        }
        "linear" => {
            let (one, mean, most) = (
                stated("Single cylinder seek time")?,
                stated("Average seek time")?,
                stated("Full strobe seek time")?,
            );
            let third = full / 3.0;
            Box::new(move |distance| {
                if distance <= third {
                    one + (mean - one) * (distance - 1.0) / (third - 1.0).max(1.0)
                } else {
                    mean + (most - mean) * (distance - third) / (full - third)
                }
            })
        }
        // Lee and Katz, "An analytic performance model of disk arrays", SIGMETRICS 1993.
        "curve" => {
            let (one, mean, most) = (
                stated("Single cylinder seek time")?,
                stated("Average seek time")?,
                stated("Full strobe seek time")?,
            );
            let root = (-10.0 * one + 15.0 * mean - 5.0 * most) / (3.0 * full.sqrt());
            let line = (7.0 * one - 15.0 * mean + 8.0 * most) / (3.0 * full);
            Box::new(move |distance| one + root * (distance - 1.0).sqrt() + line * (distance - 1.0))
        }
        // Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 1994.
        "hpl" | "hplplus10" => {
            let value = numbers(section, "HPL seek equation values", 6)?;
            let ten = if kind == "hplplus10" {
                numbers(section, "First ten seek times", 10)?
            } else {
                match value[5] {
                    single if single < 0.0 => Vec::new(),
                    _ => vec![stated("Single cylinder seek time").unwrap_or(value[5])],
                }
            };
            Box::new(move |distance| match ten.get(distance as usize - 1) {
                Some(stated) => *stated,
                None if distance < value[0] => value[1] + value[2] * distance.sqrt(),
                None => value[3] + value[4] * distance,
            })
        }
        other => {
            return Err(ImportError::new(
                place,
                format!(
                    "\"Seek type\": expected constant, linear, curve, hpl, hplplus10 or extracted, \
                 found {other:?}"
                ),
            ));
        }
    };
    let points = sample(full as u32, |distance| formula(f64::from(distance)));
    Ok((points, None, format!("{place}: seek type {kind}.")))
}

/// Points of a formula: every distance up to 128, then steps of a fiftieth.
fn sample(full: u32, formula: impl Fn(u32) -> f64) -> Points {
    let mut points = Vec::new();
    let mut distance = 1;
    while distance < full {
        points.push((distance, formula(distance)));
        distance += (distance / 50).saturating_sub(1).max(1);
    }
    points.push((full, formula(full)));
    points
}

fn numbers(section: &Section, key: &str, count: usize) -> Result<Vec<f64>, ImportError> {
    let value = section.need(key)?;
    let found: Vec<f64> =
        value.list(key)?.iter().map(|item| item.number(key)).collect::<Result<_, _>>()?;
    if found.len() == count {
        return Ok(found);
    }
    let problem = format!("{key:?}: expected {count} numbers, found {}", found.len());
    Err(ImportError::new(&value.place, problem))
}

/// A measured curve from its own file.
fn table(
    section: &Section,
    full: f64,
    folder: &Folder,
    notes: &mut Notes,
) -> Result<(Points, Option<Points>, String), ImportError> {
    let key = "Full seek curve";
    let value = section.need(key)?;
    if let Content::List(items) = &value.content {
        let points = inline_points(items, key)?;
        return Ok((points, None, format!("{}: measured seeks.", value.place)));
    }
    let (file, text) = folder.named_by(value, key)?;
    let mut table = Table::default();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{file}:{}", index + 1);
        table.line(line).map_err(|problem| ImportError::new(place, problem))?;
    }
    let rows = table.rows.len();
    if let Some(claimed) = table.claimed
        && claimed != rows
    {
        notes.warn(
            file,
            format!("the first line claims {claimed} distances, found {rows}; all are taken"),
        );
    }
    if rows == 0 {
        let problem = "expected lines `distance, milliseconds`, found none";
        return Err(ImportError::new(file, problem));
    }
    if let Some(pair) = table.rows.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let (after, before) = (pair[1].0, pair[0].0);
        let problem = format!(
            "distances should increase, found {after} after {before}: they are put in order, and \
             of several with one distance the first is taken"
        );
        notes.warn(file, problem);
        table.rows.sort_by_key(|row| row.0);
        table.rows.dedup_by_key(|row| row.0);
    }
    let reads = table.rows.iter().map(|row| (row.0, row.1)).collect();
    let dual = table.rows.iter().any(|row| row.2.is_some());
    let writes =
        dual.then(|| table.rows.iter().map(|row| (row.0, row.2.unwrap_or(row.1))).collect());
    let source = format!(
        "{file}: {rows} measured distances{}.",
        if dual { ", writes measured apart" } else { "" }
    );
    let extended = |points: Points| extend(points, full as u32);
    Ok((extended(reads), writes.map(extended), source))
}

fn inline_points(items: &[Value], key: &str) -> Result<Points, ImportError> {
    let numbers: Vec<f64> = items.iter().map(|item| item.number(key)).collect::<Result<_, _>>()?;
    Ok(numbers.chunks_exact(2).map(|pair| (pair[0] as u32, pair[1])).collect())
}

/// Goes on from the last point to the full stroke as the last two lead.
fn extend(mut points: Points, full: u32) -> Points {
    if let [.., (before, early), (last, late)] = points[..]
        && last < full
    {
        let slope = (late - early) / f64::from(last - before);
        points.push((full, (late + slope.max(0.0) * f64::from(full - last)).max(late)));
    }
    points
}

#[derive(Default)]
struct Table {
    claimed: Option<usize>,
    /// Distance, ms of a read, ms of a write.
    rows: Vec<(u32, f64, Option<f64>)>,
}

impl Table {
    /// `distance, ms[, deviation[, ms of a write]]`, a comment, or the claim in the first line.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            return Ok(());
        }
        if let Some((_, claimed)) = line.split_once("measured:") {
            self.claimed = claimed.trim().parse().ok();
            return Ok(());
        }
        let fields: Vec<&str> =
            line.split([',', ' ', '\t']).filter(|field| !field.is_empty()).collect();
        let wrong =
            || format!("expected `distance, milliseconds[, deviation[, write]]`, found {line:?}");
        let distance = fields[0].parse::<f64>().ok().filter(|distance| *distance >= 0.0);
        let times: Vec<f64> = fields[1..]
            .iter()
            .map(|field| field.parse())
            .collect::<Result<_, _>>()
            .map_err(|_| wrong())?;
        let (Some(distance), Some(&read)) = (distance, times.first()) else { return Err(wrong()) };
        if times.iter().any(|ms| !(0.0..1000.0).contains(ms)) {
            return Err(wrong());
        }
        // A distance of 0 says nothing about moving.
        if distance >= 1.0 {
            self.rows.push((distance as u32, read, times.get(2).copied()));
        }
        Ok(())
    }
}
