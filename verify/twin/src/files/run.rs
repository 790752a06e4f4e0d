//! A run on files: both sides are made, acts are carried out, and everything is compared.
//!
//! The first difference ends the run. Nothing stays mounted after it.

use super::act::FilesAct;
use super::actor::{Actor, Outcome, await_tick, clock};
use super::allowed;
use super::call::Call;
use super::compare::{self, Seen};
use super::sides::{Ext4, Ours};
use super::synced::{Noted, Synced};
use super::view::{Found, Time, attributes, contents};
use crate::medium::MediumKind;
use crate::run::Scratch;
use crate::{Difference, Failed, Step, differs, tools};
use rustix::fs::IFlags;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Modes of a mount, each of which a run may have.
pub const MODES: [&str; 7] =
    ["nearhead", "manylogs", "adaptive", "data", "wasteless", "selective", "ordered"];

/// Image of the volume.
const IMAGE_BYTES: u64 = 256 << 20;

/// Programs and folder of a run.
#[derive(Clone, Debug)]
pub struct FilesSettings {
    /// The program under test.
    pub nearhead: PathBuf,
    /// The program `nearhead-twin`, which is also the process that makes the calls.
    pub twin: PathBuf,
    /// Folder for images.
    pub folder: PathBuf,
    /// Mode of the mount.
    pub mode: String,
    /// Medium of the volume.
    pub medium: MediumKind,
}

impl FilesSettings {
    /// Fails with what this machine lacks.
    pub fn check_machine(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("mounting takes root".to_owned());
        }
        for path in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(path).exists() {
                return Err(format!("mounting takes {path}"));
            }
        }
        tools::need(&["losetup", "mkfs.ext4", "e2fsck", "mount", "umount", "python3"])?;
        let built = [&self.nearhead, &self.twin].into_iter().find(|program| !program.is_file());
        built.map_or(Ok(()), |program| Err(format!("{} is not built", program.display())))
    }
}

type Times = HashMap<u64, [Option<Time>; 4]>;

/// Both sides of a run.
struct Files {
    actors: Option<[[Actor; 2]; 2]>,
    oracle: Ext4,
    subject: Ours,
    settings: FilesSettings,
    /// Every path that the script names.
    paths: BTreeSet<String>,
    times: [Times; 2],
    synced: Synced,
    scratch: Scratch,
}

/// Carries out `acts`; the first difference, if there is one.
pub fn run(settings: &FilesSettings, acts: &[FilesAct]) -> Result<Option<Difference>, String> {
    settings.check_machine()?;
    let scratch = Scratch::new(&settings.folder)?;
    let (medium, mode) = (settings.medium, &settings.mode);
    let subject = Ours::new(&settings.nearhead, &scratch.0, IMAGE_BYTES, medium, mode)?;
    let oracle = Ext4::new(&scratch.0, subject.size_bytes)?;
    let _ = std::fs::remove_dir(oracle.root.join("lost+found"));
    let _ = std::fs::remove_dir(subject.root.join("lost+found"));
    let mut paths: BTreeSet<String> = BTreeSet::from([".".to_owned()]);
    for act in acts {
        if let FilesAct::Call(_, call) = act {
            paths.extend(call.paths().into_iter().map(str::to_owned));
        }
    }
    let (settings, synced) = (settings.clone(), Synced::default());
    let (actors, times) = (None, <[Times; 2]>::default());
    let mut files = Files { actors, oracle, subject, settings, paths, times, synced, scratch };
    files.start_actors()?;
    files.take_times();
    for (number, act) in acts.iter().enumerate() {
        match files.act(act) {
            Ok(()) => {}
            Err(Failed::Differs(law, detail)) => {
                let detail = format!("{act}: {detail}");
                return Ok(Some(Difference { act: number, law, detail }));
            }
            Err(Failed::Cannot(why)) => return Err(format!("act {number}, {act}: {why}")),
        }
    }
    files.actors = None;
    let done = files.subject.unmount().and_then(|()| files.subject.check());
    let act = acts.len().saturating_sub(1);
    let law = "the volume is clean for e2fsck at the end";
    Ok(done.err().map(|detail| Difference { act, law, detail }))
}

impl Files {
    fn roots(&self) -> [PathBuf; 2] {
        [self.oracle.root.clone(), self.subject.root.clone()]
    }

    fn start_actors(&mut self) -> Result<(), String> {
        let start = |root: &Path| -> Result<[Actor; 2], String> {
            let one = || Actor::start(&self.settings.twin, root);
            Ok([one()?, one()?])
        };
        self.actors = Some([start(&self.oracle.root)?, start(&self.subject.root)?]);
        Ok(())
    }

    /// Attributes of all paths on both sides.
    fn look(&self) -> [BTreeMap<String, Found>; 2] {
        self.roots().map(|root| attributes(&root, &self.paths))
    }

    /// Takes the times of both sides as they are.
    fn take_times(&mut self) {
        self.times = self.look().map(|found| times_of(&found));
    }

    fn act(&mut self, act: &FilesAct) -> Step {
        await_tick();
        match act {
            FilesAct::Call(by, call) => self.call(*by, call),
            FilesAct::Look => self.compare_trees(),
            FilesAct::DropCaches => {
                let before = self.look();
                std::fs::write("/proc/sys/vm/drop_caches", "2")
                    .map_err(|error| format!("drop_caches: {error}"))?;
                self.stays(&before, "attributes stay when the kernel drops its caches")?;
                self.compare_trees()
            }
            FilesAct::Remount => {
                let before = self.look();
                self.actors = None;
                self.oracle.unmount()?;
                if let Err(why) = self.subject.unmount().and_then(|()| self.subject.mount()) {
                    return differs("it can be mounted again", why);
                }
                self.oracle.mount()?;
                self.start_actors()?;
                self.stays(&before, "attributes stay over a remount")?;
                self.compare_trees()?;
                let [oracle, subject] = self.look();
                self.synced = Synced::all([&oracle, &subject], &self.oracle.root);
                Ok(())
            }
            FilesAct::KillWorker => {
                let before = self.look();
                self.subject.kill_worker()?;
                std::fs::write("/proc/sys/vm/drop_caches", "2")
                    .map_err(|error| format!("drop_caches: {error}"))?;
                self.stays(&before, "attributes stay when the worker is killed")?;
                self.compare_trees()
            }
            FilesAct::Kill => {
                self.subject.kill();
                self.after_crash("what was synced is there after the daemon was killed")
            }
            FilesAct::PowerCut(seed) => {
                self.subject.cut_power(*seed)?;
                self.after_crash("what was synced is there after a power cut")
            }
        }
    }

    /// Checks what a crash left on both sides, and empties both trees.
    fn after_crash(&mut self, law: &'static str) -> Step {
        let synced = &self.synced;
        let look = |root: &Path| synced.check(root, true);
        if let Err(why) = self.oracle.after_crash(&self.scratch.0, look)? {
            return Err(format!("the twin expects more than ext4 keeps: {why}").into());
        }
        self.actors = None;
        if let Err(why) = self.subject.check().and_then(|()| self.subject.mount()) {
            return differs("it can be mounted after a crash", why);
        }
        if let Err(why) = self.synced.check(&self.subject.root, false) {
            return differs(law, why);
        }
        self.synced = Synced::default();
        self.roots().iter().try_for_each(|root| empty(root))?;
        self.start_actors()?;
        self.take_times();
        Ok(())
    }

    fn call(&mut self, by: usize, call: &Call) -> Step {
        let Some([oracle, subject]) = &mut self.actors else {
            return Err("no actors".to_owned().into());
        };
        let expected = oracle[by].call(call)?;
        let expected = expected.ok_or_else(|| format!("{call} does not end on ext4"))?;
        let Some(found) = subject[by].call(call)? else {
            // The caller waits in the kernel for an answer, and cannot be killed before the daemon is.
            self.subject.kill();
            return differs("a call ends", "no answer");
        };
        if expected.text != found.text && self.is_refused_alike(call, &expected, &found) {
            return if call.verb == "open" {
                self.close_both(by, &call.arguments[0])
            } else {
                Ok(())
            };
        }
        if expected.text != found.text {
            let (expected, found) = (expected.text, found.text);
            let detail = format!("expected {expected:?}, found {found:?}");
            return differs("a call has the same result", detail);
        }
        let now = self.compare_attributes(&expected, &found)?;
        if expected.text.starts_with("ok") {
            let now = [&now[0], &now[1]];
            self.synced.note(&Noted { by, call, now, oracle: &self.oracle.root });
        }
        Ok(())
    }

    /// Whether flags of a node that the call names, or of its folder, explain the difference, as the list allows.
    fn is_refused_alike(&self, call: &Call, expected: &Outcome, found: &Outcome) -> bool {
        let folder =
            |path: &str| path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
        let paths = call.paths().into_iter().flat_map(|path| [path.to_owned(), folder(path)]);
        let paths = paths.collect();
        let forbids = |flags: u32| {
            IFlags::from_bits_retain(flags).intersects(IFlags::IMMUTABLE | IFlags::APPEND)
        };
        allowed::is_refused_alike(call.verb, &expected.text, &found.text)
            && attributes(&self.oracle.root, &paths)
                .values()
                .flatten()
                .any(|node| node.flags.is_some_and(forbids))
    }

    /// One side alone opened a file under this number: both close what they have there.
    fn close_both(&mut self, by: usize, handle: &str) -> Step {
        let call = Call::new("close", &[handle]);
        for side in self.actors.iter_mut().flatten() {
            side[by].call(&call)?;
        }
        let now = self.look();
        self.synced.note(&Noted {
            by,
            call: &call,
            now: [&now[0], &now[1]],
            oracle: &self.oracle.root,
        });
        Ok(())
    }

    fn compare_attributes(
        &mut self,
        expected: &Outcome,
        found: &Outcome,
    ) -> Step<[BTreeMap<String, Found>; 2]> {
        let now = self.look();
        let seen = |side: usize, act| Seen { before: &self.times[side], now: &now[side], act };
        compare::attributes(&seen(0, expected), &seen(1, found))?;
        self.times = [times_of(&now[0]), times_of(&now[1])];
        Ok(now)
    }

    /// Compares both trees; reading them may move times of access.
    fn compare_trees(&mut self) -> Step {
        let [oracle, subject] = self.roots().map(|root| contents(&root));
        let done = compare::trees(&oracle, &subject);
        self.take_times();
        done
    }

    /// The subject's attributes are those before; the oracle's own changes are taken out.
    fn stays(&mut self, before: &[BTreeMap<String, Found>; 2], law: &'static str) -> Step {
        let now = self.look();
        for (path, old) in &before[1] {
            let Some(new) = now[1].get(path) else { continue };
            let has_space = |found: &Found| found.as_ref().map_or(0, |node| node.blocks);
            let may_move = has_space(old).abs_diff(has_space(new)) <= super::allowed::BLOCKS_MAX;
            let strip = |found: &Found| {
                found.clone().map(|mut node| {
                    node.blocks = 0;
                    node
                })
            };
            if strip(old) != strip(new) || !may_move {
                return differs(law, format!("{path}: before {old:?}, then {new:?}"));
            }
        }
        let at = clock();
        let act = Outcome { text: String::new(), before: at, after: at };
        self.compare_attributes(&act, &act).map(drop)
    }
}

fn times_of(found: &BTreeMap<String, Found>) -> Times {
    found.values().flatten().map(|node| (node.ino, node.times)).collect()
}

/// Removes everything below `root`.
fn empty(root: &Path) -> Result<(), String> {
    let script = "chattr -R -ia . 2>/dev/null; find . -mindepth 1 -delete";
    let mut command = tools::command("sh", &["-c", script]);
    let output = command.current_dir(root).output().map_err(|error| format!("find: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(tools::words_of(&output)) }
}
