//! Which traces of a figure are real and which are generated, in words.
//!
//! Nobody can tell from a report what lay beside the project when it was made. So no sentence names a
//! real trace by itself: each is made from the names of the traces that were run.

use std::collections::BTreeSet;

/// What the names of generated traces begin with.
pub(crate) const SYNTHETIC: &str = "synthetic-";

/// Whether a trace of that name was generated; it may stand behind its number ("T7 synthetic-...").
pub(crate) fn is_synthetic(name: &str) -> bool {
    name.split(' ').any(|word| word.starts_with(SYNTHETIC))
}

/// What stands in for the servers of a figure, where `names` are those of its traces.
pub(crate) fn told<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let all: BTreeSet<&str> = names.into_iter().collect();
    let (generated, real): (Vec<&str>, Vec<&str>) = all.iter().partition(|name| is_synthetic(name));
    let which = match (generated.len(), real.len()) {
        (0, _) => return "All traces of this figure are real ones.".to_owned(),
        (count, 0) => format!(
            "None of the {count} server traces of this figure was at hand. Generators stand in for all of them"
        ),
        (count, more) => format!(
            "{count} of the {} server traces of this figure are not public here. Generators stand in for them",
            count + more
        ),
    };
    let real = match real.as_slice() {
        [] => String::new(),
        [one] => format!(" {one} is the real trace."),
        several => format!(" {} are real traces.", several.join(", ")),
    };
    format!(
        "{which}, fitted to what is published of them, and are called synthetic.{real} Rates, sizes and \
         bursts of the generators are assumptions (figures/data/servers.toml), so what comes out is that \
         of a workload of the same kind, not of the same requests."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_called_real_only_if_it_was_run() {
        let generated = told(["synthetic-a", "synthetic-b", "synthetic-b"]);
        assert!(generated.contains("None of the 2") && !generated.contains("real"), "{generated}");
        let both = told(["T1 synthetic-a", "T8 dtrs"]);
        assert!(
            both.contains("1 of the 2") && both.contains("T8 dtrs is the real trace"),
            "{both}"
        );
        assert!(told(["a", "b", "synthetic-c"]).contains("a, b are real traces"));
        assert!(told(["dtrs"]).contains("All traces"));
    }
}
