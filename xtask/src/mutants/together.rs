//! All changes of a part in one build, switched on one after the other.
//!
//! A change may not compile beside the others though it would alone: then it is taken out, the build is tried
//! again, and the change is among those left over.

use super::list::Mutant;
use super::sandbox::{Built, Sandbox};
use super::switch::{MODULE, MODULE_FILE, MODULE_TEXT, Switched, write};
use super::trial::{Judge, judge, side_by_side};
use super::verdicts::Verdict;
use super::{Part, Tried, sites};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Builds that may fail before this is given up: each shows the errors of one stage of the compiler.
const BUILDS_MAX: u32 = 16;

/// What every change became that could be switched, and those that could not.
pub(super) fn try_all(
    workspace: &Path,
    folder: &Path,
    part: &Part,
    mutants: &[Mutant],
) -> Result<(Vec<Tried>, Vec<Mutant>), String> {
    let sandbox = Sandbox::create(
        workspace,
        folder.join("together"),
        folder.with_file_name("build-together"),
    )?;
    let files = prepare(&sandbox, part, mutants)?;
    let mut dropped = BTreeSet::new();
    let (paths, switched) = build(&sandbox, part, &files, &mut dropped)?;
    let judges = Judge::all(sandbox.root(), part, paths)?;
    let (here, left): (Vec<&Mutant>, Vec<&Mutant>) =
        mutants.iter().partition(|mutant| switched.contains(&mutant.id));
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

/// A file with changes: its text and where they can be.
struct File {
    name: String,
    source: String,
    sites: Vec<sites::Site>,
}

fn prepare(sandbox: &Sandbox, part: &Part, mutants: &[Mutant]) -> Result<Vec<File>, String> {
    let root_file = format!("crates/{}/src/lib.rs", part.programs[0].folder());
    let library = sandbox.read(&root_file)?;
    sandbox.write(&root_file, &[&library, MODULE].concat())?;
    let module = root_file.replace("lib.rs", MODULE_FILE);
    sandbox.write(&module, MODULE_TEXT)?;
    let mut by_file: BTreeMap<&str, Vec<Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_file.entry(&mutant.file).or_default().push(mutant.clone());
    }
    let files = by_file.into_iter().map(|(name, mutants)| {
        let source = sandbox.read(name)?;
        let sites = sites::find(&source, &mutants).map_err(|error| format!("{name}: {error}"))?;
        Ok(File { name: name.to_owned(), source, sites })
    });
    files.collect()
}

/// Test programs with all changes that compile, and which these are.
fn build(
    sandbox: &Sandbox,
    part: &Part,
    files: &[File],
    dropped: &mut BTreeSet<u32>,
) -> Result<(Vec<std::path::PathBuf>, BTreeSet<u32>), String> {
    for _ in 0..BUILDS_MAX {
        let mut written = BTreeMap::new();
        for file in files {
            let switched = write(&file.source, &file.sites, &|id| !dropped.contains(&id));
            sandbox.write(&file.name, &switched.text)?;
            written.insert(file.name.clone(), switched);
        }
        let faults = match sandbox.build(part.programs)? {
            Built::Programs(paths) => {
                let ids = written.values().flat_map(|file| &file.lines).map(|(_, id)| *id);
                return Ok((paths, ids.collect()));
            }
            Built::Errors(faults) => faults,
        };
        let places = faults.iter().flat_map(|fault| &fault.places);
        let wrong: BTreeSet<u32> = places.flat_map(|place| changes_at(&written, place)).collect();
        if wrong.is_empty() {
            let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
            return Err(format!("the tests do not compile:\n{}", texts.join("\n")));
        }
        println!("{}: {} changes do not compile beside the others", part.name, wrong.len());
        dropped.extend(wrong);
    }
    Err(format!("{BUILDS_MAX} builds still found changes that do not compile"))
}

fn changes_at(files: &BTreeMap<String, Switched>, place: &(String, usize)) -> Vec<u32> {
    let Some(file) = files.get(&place.0) else { return Vec::new() };
    let here = file.lines.iter().filter(|(lines, _)| lines.contains(&place.1));
    here.map(|(_, id)| *id).collect()
}
