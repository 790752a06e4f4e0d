//! What became of the changes of a part, as a table and as findings.
//!
//! `equal.txt` lists the changes that no test can notice because nothing differs, each group below its reason. A
//! change that no test notices and that is not on the list is a finding; so is a line of the list whose change
//! tests do notice, since then its reason is wrong.

use super::Tried;
use std::collections::BTreeMap;
use std::fmt;

const EQUAL: &str = include_str!("equal.txt");

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    DoesNotCompile,
    NotTried,
    /// A test failed, or its program ended as none should.
    Noticed,
    /// The tests never ended, or asked for memory without end.
    Endless,
    Unnoticed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::DoesNotCompile => "does not compile",
            Self::NotTried => "not tried",
            Self::Noticed => "noticed",
            Self::Endless => "endless",
            Self::Unnoticed => "UNNOTICED",
        })
    }
}

/// The changes of a part.
pub(super) struct Report {
    part: &'static str,
    results: Vec<Tried>,
    /// Names of unnoticed changes that the list does not have.
    open: Vec<String>,
    /// Lines of the list without such a change.
    stale: Vec<String>,
}

impl Report {
    /// `complete` says that no change of the part was left out, so that the list can be checked, too.
    pub(super) fn new(part: &'static str, results: Vec<Tried>, complete: bool) -> Self {
        Self::against(EQUAL, part, results, complete)
    }

    fn against(equal: &str, part: &'static str, results: Vec<Tried>, complete: bool) -> Self {
        let mut known = known(equal);
        let mut open = Vec::new();
        for (mutant, _) in results.iter().filter(|(_, verdict)| *verdict == Verdict::Unnoticed) {
            match known.get_mut(&mutant.lasting_name()) {
                Some(count @ 1..) => *count -= 1,
                _ => open.push(mutant.name.clone()),
            }
        }
        let files: Vec<&str> = results.iter().map(|(mutant, _)| mutant.file.as_str()).collect();
        known.retain(|name, count| {
            *count > 0 && complete && files.iter().any(|file| name.starts_with(file))
        });
        Self { part, results, open, stale: known.into_keys().collect() }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.results.iter().filter(|(_, each)| *each == verdict).count()
    }

    /// Whether nothing is left to explain.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty() && self.stale.is_empty() && self.count(Verdict::NotTried) == 0
    }

    /// One line for each change.
    pub(super) fn lines(&self) -> String {
        let lines = self.results.iter().map(|(mutant, verdict)| {
            let (start, end, replacement) = (mutant.start, mutant.end, &mutant.replacement);
            let what = replacement.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{verdict:16} {} [{start}..{end} becomes `{what}`]\n", mutant.name)
        });
        lines.collect()
    }

    /// What a person has to look at.
    pub(super) fn findings(&self) -> String {
        let open = self.open.iter().map(|name| {
            format!("{name}: no test notices it; write one, or say in xtask/src/mutants/equal.txt why it is equal\n")
        });
        let stale = self.stale.iter().map(|name| {
            format!("{name}: listed as equal more often than tests leave it unnoticed; take the line out of xtask/src/mutants/equal.txt\n")
        });
        open.chain(stale).collect()
    }
}

/// The list: how often each change may go unnoticed.
fn known(list: &str) -> BTreeMap<String, usize> {
    let mut known = BTreeMap::new();
    for line in
        list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        *known.entry(line.to_owned()).or_insert(0) += 1;
    }
    known
}

/// The table of docs/mutants.md.
pub(super) fn table(reports: &[Report]) -> String {
    let mut table = "| part | listed | do not compile | not tried | noticed | by an endless loop | equal | open |\n\
                     |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for report in reports {
        let count = |verdict| report.count(verdict).to_string();
        let equal = report.count(Verdict::Unnoticed) - report.open.len();
        let cells = [
            report.part.to_owned(),
            report.results.len().to_string(),
            count(Verdict::DoesNotCompile),
            count(Verdict::NotTried),
            count(Verdict::Noticed),
            count(Verdict::Endless),
            equal.to_string(),
            report.open.len().to_string(),
        ];
        table.extend(["| ", &cells.join(" | "), " |\n"]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::list::Mutant;
    use super::*;

    fn tried(id: u32, verdict: Verdict) -> Tried {
        let mutant = Mutant {
            id,
            file: "a.rs".to_owned(),
            start: 0,
            end: 1,
            replacement: "-".to_owned(),
            genre: "BinaryOperator".to_owned(),
            name: format!("a.rs:{id}:5: replace + with - in a"),
        };
        (mutant, verdict)
    }

    #[test]
    fn each_line_of_the_list_excuses_one_change() {
        let results =
            [1, 2, 3].map(|id| tried(id, Verdict::Unnoticed)).into_iter().collect::<Vec<_>>();
        let line = "a.rs: replace + with - in a\n";
        let report =
            Report::against(&["# why\n\n", line, line].concat(), "a", results.clone(), true);
        assert_eq!(report.open, ["a.rs:3:5: replace + with - in a"]);
        assert!(!report.is_closed());
        assert!(table(&[report]).ends_with("| a | 3 | 0 | 0 | 0 | 0 | 2 | 1 |\n"));
        assert!(Report::against(&line.repeat(3), "a", results, true).is_closed());
    }

    #[test]
    fn a_line_whose_change_is_noticed_is_a_finding_of_a_whole_run() {
        let list = "a.rs: replace + with - in a\nb.rs: of another part\n";
        let results = vec![tried(1, Verdict::Noticed), tried(2, Verdict::Endless)];
        let report = Report::against(list, "a", results.clone(), true);
        assert!(report.findings().starts_with("a.rs: replace + with - in a: listed"));
        assert!(!report.is_closed());
        assert!(Report::against(list, "a", results, false).is_closed());
    }

    #[test]
    fn what_was_not_tried_is_not_closed() {
        assert!(!Report::against("", "a", vec![tried(1, Verdict::NotTried)], true).is_closed());
    }
}
