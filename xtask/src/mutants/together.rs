//! All changes of a part in one build, switched on one after the other.
//!
//! A change may not compile beside the others though it would alone: then it is taken out, the build is tried
//! again, and the change is among those left over.

use super::build::{self, Built};
use super::list::Mutant;
use super::switch::{SWITCH, Switched, write};
use super::trial::{Judge, judge, side_by_side};
use super::verdicts::Verdict;
use super::{Part, Tried, sites};
use crate::sandbox::Sandbox;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Builds that may fail before this is given up: each shows the errors of one stage of the compiler.
const BUILDS_MAX: u32 = 16;

/// What became of those of `mutants` that are `chosen` and can be switched, and the chosen ones that cannot. All of
/// them are built in, so that the next run finds them built whatever it chooses.
pub(super) fn try_all(
    workspace: &Path,
    folder: &Path,
    part: &Part,
    mutants: &[Mutant],
    chosen: &BTreeSet<String>,
) -> Result<(Vec<Tried>, Vec<Mutant>), String> {
    let library = format!("crates/{}/src/lib.rs", part.programs[0].folder());
    let mut own: BTreeSet<String> = mutants.iter().map(|mutant| mutant.file.clone()).collect();
    own.insert(library.clone());
    let sandbox = Sandbox::create(
        workspace,
        folder.join("together"),
        folder.with_file_name("build-together"),
        &own,
    )?;
    let files = prepare(workspace, &sandbox, &library, mutants, &own)?;
    let notes = folder.join("left-out.txt");
    let known = std::fs::read_to_string(&notes).unwrap_or_default();
    let mut left_out: BTreeSet<u32> = mutants
        .iter()
        .filter(|one| known.lines().any(|name| name == one.name))
        .map(|one| one.id)
        .collect();
    let (paths, switched) = build(&sandbox, part, &files, &mut left_out)?;
    let names = mutants.iter().filter(|mutant| left_out.contains(&mutant.id));
    let names: Vec<&str> = names.map(|mutant| mutant.name.as_str()).collect();
    std::fs::write(&notes, names.join("\n"))
        .map_err(|error| format!("{}: {error}", notes.display()))?;
    let mut judges = Judge::all(sandbox.root(), part, paths)?;
    println!("{}: finding out which test comes upon which change", part.name);
    for (number, judge) in judges.iter_mut().enumerate() {
        judge.learn(sandbox.root(), &folder.join("met").join(number.to_string()))?;
    }
    let (here, left): (Vec<&Mutant>, Vec<&Mutant>) = mutants
        .iter()
        .filter(|mutant| chosen.contains(&mutant.name))
        .partition(|mutant| switched.contains(&mutant.id));
    println!("{}: {} of them switched in one build", part.name, here.len());
    let results = Mutex::new(Vec::new());
    side_by_side(&here, |mutant| {
        let verdict = judge(&judges, sandbox.root(), mutant.id);
        if verdict != Verdict::Noticed {
            println!("  {verdict}: {}", mutant.name);
        }
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push(((*mutant).clone(), verdict));
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((results, left.into_iter().cloned().collect()))
}

/// A file that this module writes: its text and where changes can be.
struct File {
    name: String,
    source: String,
    sites: Vec<sites::Site>,
}

fn prepare(
    workspace: &Path,
    sandbox: &Sandbox,
    library: &str,
    mutants: &[Mutant],
    own: &BTreeSet<String>,
) -> Result<Vec<File>, String> {
    let files = own.iter().map(|name| {
        let mut source = std::fs::read_to_string(workspace.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
        let here: Vec<Mutant> =
            mutants.iter().filter(|mutant| mutant.file == *name).cloned().collect();
        let sites = sites::find(&source, &here).map_err(|error| format!("{name}: {error}"))?;
        if name == library {
            let [(_, root), (module, text)] = SWITCH.files(library, &source, &[]);
            sandbox.write(&module, &text)?;
            source = root;
        }
        Ok(File { name: name.clone(), source, sites })
    });
    files.collect()
}

/// Test programs with all changes that compile, and which these are. Those that do not are `left_out`.
fn build(
    sandbox: &Sandbox,
    part: &Part,
    files: &[File],
    left_out: &mut BTreeSet<u32>,
) -> Result<(Vec<PathBuf>, BTreeSet<u32>), String> {
    for _ in 0..BUILDS_MAX {
        let mut written = BTreeMap::new();
        for file in files {
            let switched = write(&file.source, &file.sites, &|id| !left_out.contains(&id));
            sandbox.write(&file.name, &switched.text)?;
            written.insert(file.name.clone(), switched);
        }
        let faults = match build::build(sandbox, part.programs)? {
            Built::Programs(paths) => {
                let ids = written.values().flat_map(|file| &file.lines).map(|(_, id)| *id);
                return Ok((paths, ids.collect()));
            }
            Built::Errors(faults) => faults,
        };
        let places = faults.iter().flat_map(|fault| &fault.places);
        let mut wrong: BTreeSet<u32> =
            places.clone().flat_map(|place| changes_at(&written, place)).collect();
        if wrong.is_empty() {
            wrong = places.filter_map(|place| change_behind(&written, place)).collect();
        }
        if wrong.is_empty() {
            let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
            return Err(format!("the tests do not compile:\n{}", texts.join("\n")));
        }
        println!("{}: {} changes do not compile beside the others", part.name, wrong.len());
        left_out.extend(wrong);
    }
    Err(format!("{BUILDS_MAX} builds still found changes that do not compile"))
}

/// The first change behind the place: a match that a changed guard leaves incomplete is named by where it begins.
fn change_behind(files: &BTreeMap<String, Switched>, place: &(String, usize)) -> Option<u32> {
    let behind = files.get(&place.0)?.lines.iter().filter(|(lines, _)| lines.start > place.1);
    behind.min_by_key(|(lines, _)| lines.start).map(|(_, id)| *id)
}

fn changes_at(files: &BTreeMap<String, Switched>, place: &(String, usize)) -> Vec<u32> {
    let Some(file) = files.get(&place.0) else { return Vec::new() };
    let here = file.lines.iter().filter(|(lines, _)| lines.contains(&place.1));
    here.map(|(_, id)| *id).collect()
}
