//! The layer rule: who may depend on whom.
//!
//! `format <- disk <- service <- {engine <- volume, sim, nbd} <- cli`, `sim <- figures <- cli`; `models` and `uring` are
//! interchangeable disks and know only `disk`; `profiles` fills models with measured numbers; `wal` writes files through `uring`, beside the engine. A crate of the workspace that the table does not
//! name is a finding, so the table stays complete. Dependencies of tests are free: they never
//! reach a user, and a test of the engine may well drive a disk model.
//!
//! Every package also has to take over the workspace's lints and licence, or they would silently
//! not apply to it.

use super::Finding;
use super::purity::is_pure;
use super::tree::Tree;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What knows nothing of storage, and so may be used by every other one.
const FOR_ALL: &str = "nearhead-basics";

/// Every package of the workspace and the ones of the workspace it may depend on, besides [`FOR_ALL`].
const LAYERS: &[(&str, &[&str])] = &[
    (FOR_ALL, &[]),
    ("nearhead-format", &[]),
    ("nearhead-disk", &["nearhead-format"]),
    ("nearhead-service", &["nearhead-disk"]),
    ("nearhead-read-cache", &[]),
    ("nearhead-ext4", &[]),
    ("nearhead-journal", &["nearhead-disk", "nearhead-service"]),
    ("nearhead-fs", &["nearhead-disk", "nearhead-service", "nearhead-ext4", "nearhead-journal"]),
    (
        "nearhead-engine",
        &["nearhead-format", "nearhead-disk", "nearhead-service", "nearhead-read-cache"],
    ),
    ("nearhead-example-policies", &["nearhead-engine"]),
    ("nearhead-models", &["nearhead-disk"]),
    ("nearhead-profiles", &["nearhead-models"]),
    ("nearhead-arrays", &["nearhead-disk", "nearhead-models"]),
    ("nearhead-uring", &["nearhead-disk"]),
    (
        "nearhead-volume",
        &["nearhead-format", "nearhead-disk", "nearhead-service", "nearhead-engine"],
    ),
    ("nearhead-sim", &["nearhead-disk", "nearhead-service"]),
    (
        "nearhead-swarm",
        &[
            "nearhead-format",
            "nearhead-disk",
            "nearhead-service",
            "nearhead-engine",
            "nearhead-models",
            "nearhead-arrays",
            "nearhead-volume",
        ],
    ),
    (
        "nearhead-laws",
        &[
            "nearhead-format",
            "nearhead-disk",
            "nearhead-service",
            "nearhead-engine",
            "nearhead-models",
            "nearhead-volume",
            "nearhead-swarm",
        ],
    ),
    ("nearhead-nbd", &["nearhead-disk", "nearhead-service"]),
    ("nearhead-one-file", &["nearhead-disk", "nearhead-service"]),
    ("nearhead-handover", &["nearhead-disk", "nearhead-service"]),
    ("nearhead-ublk", &["nearhead-disk", "nearhead-service", "nearhead-uring"]),
    (
        "nearhead-fuse",
        &["nearhead-disk", "nearhead-service", "nearhead-ext4", "nearhead-fs", "nearhead-one-file"],
    ),
    ("nearhead-calibrate", &["nearhead-disk", "nearhead-volume"]),
    (
        "nearhead-settings",
        &["nearhead-calibrate", "nearhead-format", "nearhead-disk", "nearhead-engine"],
    ),
    ("nearhead-coordinate", &[]),
    ("nearhead-wal", &["nearhead-format", "nearhead-disk", "nearhead-uring"]),
    ("nearhead-wal-c", &["nearhead-wal"]),
    ("nearhead-preload", &["nearhead-wal"]),
    (
        "nearhead-hostile",
        &[
            "nearhead-format",
            "nearhead-disk",
            "nearhead-service",
            "nearhead-engine",
            "nearhead-models",
            "nearhead-profiles",
            "nearhead-arrays",
            "nearhead-volume",
            "nearhead-sim",
            "nearhead-nbd",
            "nearhead-settings",
            "nearhead-wal",
            "nearhead-ext4",
            "nearhead-fuse",
        ],
    ),
    (
        "nearhead-figures",
        &[
            "nearhead-calibrate",
            "nearhead-format",
            "nearhead-disk",
            "nearhead-service",
            "nearhead-journal",
            "nearhead-ext4",
            "nearhead-fs",
            "nearhead-read-cache",
            "nearhead-engine",
            "nearhead-models",
            "nearhead-arrays",
            "nearhead-volume",
            "nearhead-sim",
        ],
    ),
    (
        "nearhead-study",
        &[
            "nearhead-arrays",
            "nearhead-calibrate",
            "nearhead-disk",
            "nearhead-engine",
            "nearhead-format",
            "nearhead-models",
            "nearhead-profiles",
            "nearhead-service",
            "nearhead-sim",
            "nearhead-volume",
        ],
    ),
    (
        "nearhead-python",
        &[
            "nearhead-disk",
            "nearhead-engine",
            "nearhead-figures",
            "nearhead-laws",
            "nearhead-models",
            "nearhead-sim",
            "nearhead-study",
            "nearhead-swarm",
            "nearhead-volume",
        ],
    ),
    ("nearhead-output", &[]),
    ("nearhead-web", &[]),
    (
        "nearhead-measure",
        &[
            "nearhead-arrays",
            "nearhead-calibrate",
            "nearhead-disk",
            "nearhead-engine",
            "nearhead-figures",
            "nearhead-format",
            "nearhead-models",
            "nearhead-nbd",
            "nearhead-one-file",
            "nearhead-output",
            "nearhead-profiles",
            "nearhead-service",
            "nearhead-sim",
            "nearhead-study",
            "nearhead-uring",
            "nearhead-volume",
            "nearhead-wal",
        ],
    ),
    (
        "nearhead-cli",
        &[
            "nearhead-format",
            "nearhead-disk",
            "nearhead-service",
            "nearhead-engine",
            "nearhead-models",
            "nearhead-measure",
            "nearhead-output",
            "nearhead-arrays",
            "nearhead-uring",
            "nearhead-volume",
            "nearhead-sim",
            "nearhead-study",
            "nearhead-nbd",
            "nearhead-one-file",
            "nearhead-handover",
            "nearhead-ublk",
            "nearhead-ext4",
            "nearhead-journal",
            "nearhead-fs",
            "nearhead-fuse",
            "nearhead-calibrate",
            "nearhead-coordinate",
            "nearhead-figures",
            "nearhead-settings",
            "nearhead-wal",
            "nearhead-web",
        ],
    ),
    ("nearhead-protocol-model", &[]),
    ("nearhead-twin", &["nearhead-disk"]),
    ("xtask", &[]),
];

/// Foreign crates that bring a clock, chance, I/O or a runtime, barred from the state machines.
const REACHES_OUTSIDE: &[&str] = &[
    "async-std",
    "chrono",
    "fastrand",
    "futures",
    "getrandom",
    "io-uring",
    "libc",
    "mio",
    "nix",
    "rand",
    "rustix",
    "signal-hook",
    "smol",
    "time",
    "tokio",
];

/// Lines every manifest of the workspace has, and why.
const INHERITED: &[(&str, &str)] = &[
    ("[lints]\nworkspace = true", "add a [lints] section with `workspace = true`"),
    ("license.workspace = true", "add `license.workspace = true` under [package]"),
];

/// One package of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// As in its manifest.
    pub(crate) name: String,
    /// Path of its Cargo.toml from the root of the workspace.
    pub(crate) manifest: String,
    /// What its library or program is built from; what only its tests use is left out.
    dependencies: Vec<String>,
}

/// The packages of the workspace at `root`, as cargo reads them.
pub(super) fn packages_of(root: &Path) -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed; it said: {}", said.trim_end()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata printed something that is not JSON: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no root")?;
    packages.iter().map(|package| package_from(package, root)).collect()
}

fn package_from(package: &Value, root: &str) -> Result<Package, String> {
    let text = |value: &Value, key: &str| {
        let text = value[key].as_str().map(str::to_owned);
        text.ok_or_else(|| format!("cargo metadata names a package or dependency without {key}"))
    };
    let manifest = text(package, "manifest_path")?;
    let manifest = manifest.strip_prefix(root).unwrap_or(&manifest).trim_start_matches('/').into();
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    let shipped = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
    Ok(Package {
        name: text(package, "name")?,
        manifest,
        dependencies: shipped
            .map(|dependency| text(dependency, "name"))
            .collect::<Result<_, _>>()?,
    })
}

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let manifest = tree.text(&package.manifest).unwrap_or_default();
        findings.extend(check_layer(package, packages, manifest));
        findings.extend(check_purity(package, manifest));
        findings.extend(check_inherited(package, manifest));
    }
    findings
}

fn check_layer(package: &Package, packages: &[Package], manifest: &str) -> Vec<Finding> {
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == package.name) else {
        return vec![Finding {
            file: package.manifest.clone(),
            line: 1,
            expected: "a package that the layer rule knows".into(),
            found: format!("`{}`", package.name),
            advice:
                "give it a line in LAYERS (xtask/src/tidy/manifests.rs) that names what it may \
                     depend on, and its place in ARCHITECTURE.md"
                    .into(),
        }];
    };
    let is_ours = |name: &&String| packages.iter().any(|other| other.name == **name);
    let own = package.dependencies.iter().filter(is_ours);
    let is_allowed = |name: &str| name == FOR_ALL || allowed.contains(&name);
    let wrong = own.filter(|name| !is_allowed(name));
    let finding = |name: &String| Finding {
        file: package.manifest.clone(),
        line: line_of(manifest, name),
        expected: format!("`{}` to depend on {} of this workspace", package.name, listed(allowed)),
        found: format!("`{name}`"),
        advice: "move what is needed down to a crate both may use, or pass it in through a trait; \
                 if the layers themselves are to change, change LAYERS \
                 (xtask/src/tidy/manifests.rs) and ARCHITECTURE.md together"
            .into(),
    };
    wrong.map(finding).collect()
}

fn check_purity(package: &Package, manifest: &str) -> Vec<Finding> {
    let barred =
        |name: &&String| is_pure(&package.manifest) && REACHES_OUTSIDE.contains(&name.as_str());
    let finding = |name: &String| Finding {
        file: package.manifest.clone(),
        line: line_of(manifest, name),
        expected: "a state machine that reaches nothing outside itself".into(),
        found: format!("a dependency on `{name}`"),
        advice: "leave clocks, chance and I/O to the caller; tests may use it under \
                 [dev-dependencies]"
            .into(),
    };
    package.dependencies.iter().filter(barred).map(finding).collect()
}

fn check_inherited(package: &Package, manifest: &str) -> Vec<Finding> {
    let missing = INHERITED.iter().filter(|(line, _)| !manifest.contains(line));
    let finding = |(line, advice): &(&str, &str)| Finding {
        file: package.manifest.clone(),
        line: 1,
        expected: format!("`{}`", line.replace('\n', " ")),
        found: "none".into(),
        advice: (*advice).into(),
    };
    missing.map(finding).collect()
}

/// The line of the manifest that names the dependency; 1 if it is not found there.
fn line_of(manifest: &str, dependency: &str) -> usize {
    let names_it = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
    };
    manifest.lines().position(names_it).map_or(1, |index| index + 1)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return "nothing".into();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("only {}", quoted.join(", "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.into(),
            manifest: format!("crates/{}/Cargo.toml", name.trim_start_matches("nearhead-")),
            dependencies: dependencies.iter().map(|name| (*name).into()).collect(),
        }
    }

    fn found(packages: &[Package]) -> Vec<String> {
        let good = "license.workspace = true\n[lints]\nworkspace = true\n[dependencies]\n";
        let manifest_of = |package: &Package| {
            let lines =
                package.dependencies.iter().map(|name| format!("{name}.workspace = true\n"));
            format!("{good}{}", lines.collect::<String>())
        };
        let texts: Vec<(String, String)> = packages
            .iter()
            .map(|package| (package.manifest.clone(), manifest_of(package)))
            .collect();
        let files: Vec<(&str, &str)> =
            texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let findings = check(&Tree::of(&files), packages);
        findings
            .iter()
            .map(|finding| format!("{}:{} {}", finding.file, finding.line, finding.found))
            .collect()
    }

    #[test]
    fn a_dependency_on_a_higher_layer_is_found_at_its_line() {
        let packages = [
            package("nearhead-disk", &["zerocopy", "nearhead-engine"]),
            package("nearhead-engine", &["nearhead-disk"]),
        ];
        assert_eq!(found(&packages), ["crates/disk/Cargo.toml:6 `nearhead-engine`"]);
    }

    #[test]
    fn the_disks_know_nothing_but_commands_and_the_engine_knows_no_disk() {
        for (name, wrong) in [
            ("nearhead-models", "nearhead-format"),
            ("nearhead-uring", "nearhead-engine"),
            ("nearhead-engine", "nearhead-models"),
            ("nearhead-volume", "nearhead-uring"),
            ("nearhead-nbd", "nearhead-sim"),
            ("nearhead-nbd", "nearhead-engine"),
            ("nearhead-one-file", "nearhead-volume"),
        ] {
            let packages = [package(name, &[wrong]), package(wrong, &[])];
            assert_eq!(found(&packages).len(), 1, "{name} on {wrong}");
        }
    }

    #[test]
    fn everybody_may_use_the_basics_and_they_use_nobody() {
        let basics = |uses: &[&str]| package(FOR_ALL, uses);
        let packages =
            [basics(&[]), package("nearhead-format", &[FOR_ALL]), package("xtask", &[FOR_ALL])];
        assert!(found(&packages).is_empty());
        assert_eq!(
            found(&[basics(&["nearhead-format"]), package("nearhead-format", &[])]).len(),
            1
        );
    }

    #[test]
    fn a_package_without_a_layer_is_found() {
        assert_eq!(
            found(&[package("nearhead-extra", &[])]),
            ["crates/extra/Cargo.toml:1 `nearhead-extra`"]
        );
    }

    #[test]
    fn the_engine_takes_no_crate_that_reaches_outside() {
        let packages = [package("nearhead-engine", &["rand"]), package("nearhead-nbd", &["rand"])];
        assert_eq!(found(&packages), ["crates/engine/Cargo.toml:5 a dependency on `rand`"]);
    }

    #[test]
    fn a_manifest_without_the_workspaces_lints_is_found() {
        let manifest = "[package]\nlicense.workspace = true\n";
        let tree = Tree::of(&[("crates/disk/Cargo.toml", manifest)]);
        let findings = check(&tree, &[package("nearhead-disk", &[])]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].expected, "`[lints] workspace = true`");
    }

    #[test]
    fn every_layer_names_only_layers_before_it() {
        for (index, (name, allowed)) in LAYERS.iter().enumerate() {
            let before: Vec<&str> = LAYERS[..index].iter().map(|(name, _)| *name).collect();
            assert!(allowed.iter().all(|lower| before.contains(lower)), "{name}");
        }
    }

    #[test]
    fn test_dependencies_are_left_out_when_cargos_words_are_read() {
        let said = serde_json::json!({
            "name": "nearhead-disk",
            "manifest_path": "/somewhere/crates/disk/Cargo.toml",
            "dependencies": [
                { "name": "zerocopy", "kind": null },
                { "name": "proptest", "kind": "dev" },
                { "name": "cc", "kind": "build" },
            ],
        });
        let package = package_from(&said, "/somewhere").unwrap();
        assert_eq!(package.manifest, "crates/disk/Cargo.toml");
        assert_eq!(package.dependencies, ["zerocopy", "cc"]);
    }
}
