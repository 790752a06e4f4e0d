//! Writing a file anew with all its changes built in, each behind a question that the running program answers from
//! an environment variable: one build then serves hundreds of changes. With the variable at 0 or missing the
//! program does what the original does; and it may note which changes it comes upon, so that a test that never meets a
//! change need not be asked of it.
//!
//! Only text between the places of changes is taken over as it is; lines move, so what the compiler complains of
//! is looked up in the list of lines that comes along.

use super::sites::{Kind, Offer, Site};
use crate::sandbox::Switch;
use std::fmt::Write as _;
use std::ops::Range;

/// The module of the changed crate that answers.
pub(super) const SWITCH: Switch = Switch {
    module: "mutant_switch",
    variable: "NEARHEAD_MUTANT",
    met_variable: "NEARHEAD_MUTANTS_MET",
};

/// A file with its changes built in.
pub(super) struct Switched {
    pub(super) text: String,
    /// Lines (from 1) that belong to a change.
    pub(super) lines: Vec<(Range<usize>, u32)>,
}

/// `source` with every change of `sites` that `wanted` says; the others are not written at all.
pub(super) fn write(source: &str, sites: &[Site], wanted: &dyn Fn(u32) -> bool) -> Switched {
    let mut writer = Writer {
        source,
        wanted,
        line: 1,
        out: Switched { text: String::new(), lines: Vec::new() },
    };
    writer.copy(0..source.len(), sites);
    writer.out
}

struct Writer<'a> {
    source: &'a str,
    wanted: &'a dyn Fn(u32) -> bool,
    line: usize,
    out: Switched,
}

impl Writer<'_> {
    fn push(&mut self, text: &str) {
        self.line += text.matches('\n').count();
        self.out.text.push_str(text);
    }

    /// A piece on lines of its own, so that an error there is one of this change.
    fn push_for(&mut self, id: u32, text: &str) {
        self.push("\n");
        let first = self.line;
        self.push(text);
        self.out.lines.push((first..self.line + 1, id));
        self.push("\n");
    }

    fn wanted<'b>(&self, offers: &'b [Offer]) -> Vec<&'b Offer> {
        offers.iter().filter(|(id, _)| (self.wanted)(*id)).collect()
    }

    /// Copies `range`, with the sites that lie in it; they are sorted, outer ones first.
    fn copy(&mut self, range: Range<usize>, sites: &[Site]) {
        let mut from = range.start;
        let mut left = sites;
        while let Some((site, others)) = left.split_first() {
            let inner = others.partition_point(|other| other.range.start < site.range.end);
            let is_inside = site.range.start >= from && site.range.end <= range.end;
            left = if is_inside { &others[inner..] } else { others };
            if is_inside {
                self.push(&self.source[from..site.range.start]);
                self.site(site, &others[..inner]);
                from = site.range.end;
            }
        }
        self.push(&self.source[from..range.end]);
    }

    fn site(&mut self, site: &Site, inside: &[Site]) {
        let source = self.source;
        let offers = self.wanted(&site.offers);
        match &site.kind {
            Kind::Binary { left, operator, right } => {
                self.push("(");
                for (id, new) in offers {
                    let (left, right) = (&source[left.clone()], &source[right.clone()]);
                    self.alternative(*id, &format!("({left}) {new} ({right})"));
                }
                self.push("{ (");
                self.copy(left.clone(), inside);
                self.push(&format!(") {} (", &source[operator.clone()]));
                self.copy(right.clone(), inside);
                self.push(") })");
            }
            Kind::Unary { operator, operand } => {
                self.push("(");
                for (id, _) in offers {
                    self.alternative(*id, &source[operand.clone()]);
                }
                self.push(&format!("{{ {}(", &source[operator.clone()]));
                self.copy(operand.clone(), inside);
                self.push(") })");
            }
            Kind::Body => {
                for (id, new) in offers {
                    let text = format!("if {} {{ return {new}; }}", SWITCH.question(*id));
                    self.push_for(*id, &text);
                }
            }
            Kind::Arm { condition, removed_by } => {
                let removed_by: Vec<u32> =
                    removed_by.iter().copied().filter(|id| (self.wanted)(*id)).collect();
                self.arm(condition.as_ref(), &removed_by, &offers, inside);
            }
        }
    }

    fn arm(
        &mut self,
        condition: Option<&Range<usize>>,
        removed_by: &[u32],
        offers: &[&Offer],
        inside: &[Site],
    ) {
        if condition.is_none() && !removed_by.is_empty() {
            self.push(" if ");
        }
        for (nth, id) in removed_by.iter().enumerate() {
            let mut text = if nth > 0 { "&& ".to_owned() } else { String::new() };
            let _ = write!(text, "!{}", SWITCH.question(*id));
            self.push_for(*id, &text);
        }
        if let Some(condition) = condition {
            self.push(if removed_by.is_empty() { "(" } else { " && (" });
            for (id, new) in offers {
                self.alternative(*id, new);
            }
            self.push("{ ");
            self.copy(condition.clone(), inside);
            self.push(" })");
        }
    }

    fn alternative(&mut self, id: u32, text: &str) {
        self.push_for(id, &format!("if {} {{ {text} }} else", SWITCH.question(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::list::Mutant;
    use super::super::sites::find;
    use super::*;

    const SOURCE: &str = "\
fn double(a: u32, b: u32) -> u32 {
    a + b * 2
}
fn name(n: u32, odd: bool) -> &'static str {
    match n {
        0 => \"none\",
        1 if !odd => \"one\",
        _ => \"many\",
    }
}
const LIMIT: u32 = 3 + 4;
fn chained(a: Option<u32>, b: bool) -> bool {
    b && let Some(c) = a && c > 1
}
";

    /// The change of `what` in the line that holds it, by `replacement`.
    fn mutant(id: u32, genre: &str, line: &str, what: &str, replacement: &str) -> Mutant {
        let start = SOURCE.find(line).unwrap() + line.find(what).unwrap();
        Mutant {
            id,
            file: "a.rs".to_owned(),
            start,
            end: start + what.len(),
            replacement: replacement.to_owned(),
            genre: genre.to_owned(),
            name: format!("a.rs:1:1: {id}"),
        }
    }

    fn mutants() -> Vec<Mutant> {
        vec![
            mutant(1, "FnValue", "    a + b * 2", "a + b * 2", "7"),
            mutant(2, "BinaryOperator", "a + b", "+", "-"),
            mutant(3, "BinaryOperator", "b * 2", "*", "/"),
            mutant(4, "MatchArm", "0 => \"none\",", "0 => \"none\",", ""),
            mutant(5, "MatchArmGuard", "1 if !odd", "!odd", "true"),
            mutant(6, "UnaryOperator", "1 if !odd", "!", ""),
            mutant(7, "BinaryOperator", "3 + 4", "+", "*"),
            mutant(8, "BinaryOperator", "b && let", "&&", "||"),
            mutant(9, "BinaryOperator", "c > 1", ">", "<"),
        ]
    }

    /// The file with only the changes in `wanted`, in words that do not depend on line ends.
    fn words(wanted: &[u32]) -> String {
        let sites = find(SOURCE, &mutants()).unwrap();
        let text = write(SOURCE, &sites, &|id| wanted.contains(&id)).text;
        text.replace("crate::mutant_switch::on", "on")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn each_kind_of_change_is_asked_for_where_it_stands() {
        assert!(words(&[1]).contains("-> u32 { if on(1) { return 7; }"));
        assert!(words(&[2]).contains("( if on(2) { (a) - (b * 2) } else { (a) + ("));
        assert!(words(&[3]).contains("( if on(3) { (b) / (2) } else { (b) * (2) })"));
        assert!(words(&[4]).contains("0 if !on(4) => \"none\""));
        assert!(words(&[5]).contains("1 if ( if on(5) { true } else { "));
        assert!(words(&[6]).contains("( if on(6) { odd } else { !(odd) })"));
        assert!(words(&[9]).contains("( if on(9) { (c) < (1) } else { (c) > (1) })"));
    }

    #[test]
    fn what_has_no_running_program_to_ask_is_not_written() {
        let sites = find(SOURCE, &mutants()).unwrap();
        let written = write(SOURCE, &sites, &|_| true);
        let ids: Vec<u32> = written.lines.iter().map(|(_, id)| *id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 9], "a constant, and an operator beside `let`");
        assert!(syn::parse_file(&written.text).is_ok(), "{}", written.text);
    }

    #[test]
    fn the_lines_of_a_change_say_which_one_it_is() {
        let sites = find(SOURCE, &mutants()).unwrap();
        let written = write(SOURCE, &sites, &|_| true);
        let lines: Vec<&str> = written.text.lines().collect();
        for (range, id) in &written.lines {
            let text = lines[range.start - 1..range.end - 1].join("\n");
            assert!(text.contains(&format!("on({id})")), "{id}: {text}");
        }
    }
}
