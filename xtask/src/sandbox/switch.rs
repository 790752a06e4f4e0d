//! The switch that is put into crates of a copy: a module of theirs that says which change is on.
//!
//! A module for each crate, not a crate for all: so no manifest of the copy differs from the workspace's.

/// The module's text, as it is for changes that have numbers alone.
const TEXT: &str = include_str!("switch_on.rs");

/// A switch, and by what it is told.
pub(crate) struct Switch {
    /// The module's name.
    pub(crate) module: &'static str,
    /// The variable that says which change is on.
    pub(crate) variable: &'static str,
    /// The variable with the file that gets the changes that a program comes upon, a line each, if none is on.
    pub(crate) met_variable: &'static str,
}

impl Switch {
    /// What to write into a crate whose root, such as `lib.rs`, is `root` with the text `source`: the root, and the module
    /// beside it. Changes are called by `names`, that of number 1 first, or by their numbers if there are none.
    pub(crate) fn files(&self, root: &str, source: &str, names: &[&str]) -> [(String, String); 2] {
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        let module = self.module;
        [
            (
                root.to_owned(),
                format!("{source}\n#[allow(dead_code, missing_docs)]\nmod {module};\n"),
            ),
            (format!("{folder}/{module}.rs"), self.text(names)),
        ]
    }

    /// The question whether change `id` is on, as code of that crate.
    pub(crate) fn question(&self, id: u32) -> String {
        format!("crate::{}::on({id})", self.module)
    }

    fn text(&self, names: &[&str]) -> String {
        let changed = TEXT.lines().map(|line| match line.split_once(" = ") {
            Some(("const VARIABLE: &str", _)) => {
                format!("const VARIABLE: &str = {:?};\n", self.variable)
            }
            Some(("const MET_VARIABLE: &str", _)) => {
                format!("const MET_VARIABLE: &str = {:?};\n", self.met_variable)
            }
            Some(("const NAMES: &[&str]", _)) => format!("const NAMES: &[&str] = &{names:?};\n"),
            _ => format!("{line}\n"),
        });
        // Its tests are for the workspace.
        changed.collect::<String>().split("\n#[cfg(test)]").next().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_gets_the_module_with_the_variables_and_names_that_are_asked_for() {
        let switch = Switch { module: "trap", variable: "ON", met_variable: "MET" };
        let [(root, root_text), (module, text)] =
            switch.files("crates/a/src/lib.rs", "//! A.\n", &["x", "y"]);
        assert_eq!(
            (root.as_str(), module.as_str()),
            ("crates/a/src/lib.rs", "crates/a/src/trap.rs")
        );
        assert!(root_text.starts_with("//! A.\n") && root_text.ends_with("mod trap;\n"));
        for line in [
            "const VARIABLE: &str = \"ON\";",
            "const MET_VARIABLE: &str = \"MET\";",
            "const NAMES: &[&str] = &[\"x\", \"y\"];",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("cfg(test)") && syn::parse_file(&text).is_ok());
        assert_eq!(switch.question(7), "crate::trap::on(7)");
    }
}
