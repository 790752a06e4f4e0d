//! Changes that cannot be switched, one at a time in a copy of their own: each is written, built and tried, and
//! the file is put back. Builds are incremental, so that one takes seconds.

use super::build::{Built, build};
use super::list::Mutant;
use super::trial::Judge;
use super::verdicts::Verdict;
use super::{Part, Tried};
use crate::sandbox::Sandbox;
use std::collections::BTreeSet;
use std::path::Path;

/// What became of each of `mutants`.
pub(super) fn try_all(
    workspace: &Path,
    folder: &Path,
    part: &Part,
    mutants: &[Mutant],
) -> Result<Vec<Tried>, String> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    let (root, target) = (folder.join("alone"), folder.with_file_name("build-alone"));
    let sandbox = Sandbox::create(workspace, root, target, &BTreeSet::new())?;
    let Built::Programs(paths) = build(&sandbox, part.programs)? else {
        return Err("the tests do not compile without any change".to_owned());
    };
    let judges = Judge::all(sandbox.root(), part, paths)?;
    let mut results = Vec::new();
    for mutant in mutants {
        let source = sandbox.read(&mutant.file)?;
        sandbox.write(&mutant.file, &mutant.applied(&source))?;
        let verdict = try_one(&sandbox, part, &judges);
        sandbox.write(&mutant.file, &source)?;
        let verdict = verdict?;
        println!("  {verdict}: {}", mutant.name);
        results.push((mutant.clone(), verdict));
    }
    Ok(results)
}

/// Builds and asks one program after the other, so that most changes never reach the slow ones.
fn try_one(sandbox: &Sandbox, part: &Part, judges: &[Judge]) -> Result<Verdict, String> {
    for (program, judge) in part.programs.iter().zip(judges) {
        let path = match build(sandbox, &[*program])? {
            Built::Programs(mut paths) => paths.pop(),
            Built::Errors(_) => return Ok(Verdict::DoesNotCompile),
        };
        let Some(path) = path else { return Ok(Verdict::NotTried) };
        if let Some(verdict) = judge.at(path).judge(sandbox.root(), 0) {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Unnoticed)
}
