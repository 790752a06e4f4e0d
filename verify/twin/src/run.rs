//! A run: both sides are made, acts are carried out one by one, and everything is compared.
//!
//! The history takes what the oracle answered; subject and oracle must have answered the same. The
//! first difference ends the run. Nothing stays attached or mounted after it.

use crate::act::{Act, Part, Way, What, Who};
use crate::attached::Attached;
use crate::carry_out::{EIO, EOPNOTSUPP, Outcome, carry_out};
use crate::content;
use crate::history::{History, Reached};
use crate::kernel_loop::KernelLoop;
use crate::medium::{Medium, MediumKind};
use crate::observer::{self, Pair};
use crate::script::{Shape, WINDOW};
use crate::side::{Open, Side, size_of};
use crate::watchdog::Watchdog;
use crate::{Difference, Failed, Step, differs, faults, file_systems, power, tools};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the subject's image unless a run names another one.
pub const IMAGE_BYTES: u64 = 160 << 20;

/// Presets of several groups, which are small here: so that writes meet several, and a volume can grow by some.
const GROUPED: [&str; 4] = ["nearhead", "mlb", "mlb-32", "mlb-256"];
const GROUP: &str = "16MiB";

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program under test.
    pub nearhead: PathBuf,
    /// Folder for images; a folder of its own is made in it and removed.
    pub folder: PathBuf,
    /// Smallest block of the devices: 512 or 4096.
    pub block_bytes: u32,
    /// Bytes of the subject's image.
    pub image_bytes: u64,
    /// What it lies on.
    pub medium: MediumKind,
    /// Preset of the volume.
    pub preset: String,
}

impl Settings {
    /// The default run of `nearhead`, with its images in `folder`.
    pub fn new(nearhead: PathBuf, folder: PathBuf) -> Self {
        let preset = "nearhead".to_owned();
        let (block_bytes, image_bytes, medium) = (4096, IMAGE_BYTES, MediumKind::File);
        Self { nearhead, folder, block_bytes, image_bytes, medium, preset }
    }

    /// Fails with what this machine lacks for any run at all.
    pub fn check_machine(&self) -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("attaching takes root".to_owned());
        }
        for path in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(path).exists() {
                return Err(format!("attaching takes {path}"));
            }
        }
        if !self.nearhead.is_file() {
            return Err(format!("{} is not built", self.nearhead.display()));
        }
        tools::need(&["losetup", "blockdev", "blkdiscard", "dd", "cksum"])
    }
}

/// Both sides of a run, and what is known of them.
#[derive(Debug)]
pub struct Twin {
    /// The open devices; None while a fault has them closed. First, so that it is dropped first.
    pub open: Option<Pair>,
    /// Our side.
    pub subject: Attached,
    /// The kernel's side.
    pub oracle: KernelLoop,
    /// What the subject lies on.
    pub medium: Medium,
    /// What each sector may hold.
    pub history: History,
    /// First bytes of the windows that are compared.
    pub windows: Vec<u64>,
    /// Takes every write for flushed: then power cuts must show a difference, or they lose nothing.
    pub assumes_flushed: bool,
    /// What the run is made of.
    pub settings: Settings,
    /// Folder of the run.
    pub scratch: Scratch,
}

/// A folder that is removed when dropped.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A new folder in `folder`.
    pub fn new(folder: &Path) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("twin-{}-{number}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Carries out `acts`; the first difference, if there is one.
pub fn run(settings: &Settings, acts: &[Act]) -> Result<Option<Difference>, String> {
    run_generated(settings, |_| acts.to_vec()).map(|(_, found)| found)
}

/// The same for acts that depend on the shape of the device; also returns them.
pub fn run_generated(
    settings: &Settings,
    acts: impl FnOnce(Shape) -> Vec<Act>,
) -> Result<(Vec<Act>, Option<Difference>), String> {
    let mut twin = Twin::new(settings)?;
    let acts = acts(twin.shape()?);
    let found = twin.carry_out_all(&acts)?;
    Ok((acts, found))
}

impl Twin {
    /// Makes both sides.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        settings.check_machine()?;
        let scratch = Scratch::new(&settings.folder)?;
        let name = scratch.0.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let medium = Medium::new(settings.medium, &settings.nearhead, &scratch.0)?;
        let size = settings.image_bytes.to_string();
        let words: Vec<String> = medium.words.clone();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut create = [&["--preset", settings.preset.as_str()], &words[..]].concat();
        if GROUPED.contains(&&*settings.preset) {
            create.extend(["--group-size", GROUP, "--log-size", "1MiB"]);
        }
        let is_file = settings.medium == MediumKind::File;
        if is_file {
            create.extend(["--size", &size]);
        }
        let (target, files) = (medium.target.clone(), medium.files.clone());
        let block = settings.block_bytes;
        let mut subject = Attached::new(&settings.nearhead, &name, &target, files, block, &create)?;
        if is_file {
            // A word that must act once, and never on an image that is there.
            subject.attach_with(&["--create-if-missing", "--size", &size]);
        } else {
            subject.attach_with(&words);
        }
        subject.attach()?;
        let size_bytes = size_of(&subject.device())?;
        let oracle = KernelLoop::new(&scratch.0.join("oracle.img"), size_bytes, block)?;
        let mut twin = Self {
            open: None,
            subject,
            oracle,
            medium,
            history: History::default(),
            windows: Vec::new(),
            assumes_flushed: false,
            settings: settings.clone(),
            scratch,
        };
        twin.windows = twin.shape()?.windows().to_vec();
        twin.open_both()?;
        Ok(twin)
    }

    /// Shape of both devices.
    pub fn shape(&self) -> Result<Shape, String> {
        let size_bytes = size_of(&self.subject.device())?;
        Ok(Shape { size_bytes, block_bytes: u64::from(self.settings.block_bytes) })
    }

    /// Opens both devices.
    pub fn open_both(&mut self) -> Result<(), String> {
        let (subject, oracle) = (self.subject.device(), self.oracle.device());
        self.open = Some(Pair { subject: Open::device(&subject)?, oracle: Open::device(&oracle)? });
        Ok(())
    }

    /// Closes both devices.
    pub fn close_both(&mut self) {
        self.open = None;
    }

    /// Compares what both hold; only what did not reach `kept` may be lost.
    pub fn compare(&mut self, kept: Reached, law: &'static str) -> Step {
        let Some(pair) = &self.open else { return Err("the devices are closed".to_owned().into()) };
        observer::compare(pair, &mut self.history, &self.windows, kept, law)
    }

    /// Carries out acts until one differs.
    pub fn carry_out_all(&mut self, acts: &[Act]) -> Result<Option<Difference>, String> {
        let watchdog = Watchdog::over(&self.settings.nearhead, &self.subject.name);
        let mut last = 0;
        for (number, act) in acts.iter().enumerate() {
            last = number;
            watchdog.begin();
            let done = self.carry_out(act);
            if let Some(found) = verdict(done, number, act, watchdog.has_bitten())? {
                return Ok(Some(found));
            }
        }
        watchdog.begin();
        let end = [Act::Reattach, Act::Observe];
        let done = end.iter().try_for_each(|act| self.carry_out(act));
        verdict(done, last, &Act::Reattach, watchdog.has_bitten())
    }

    fn carry_out(&mut self, act: &Act) -> Step {
        match act {
            Act::One(part) => self.one(part),
            Act::Together(parts, kill) => self.together(parts, *kill),
            Act::Observe => {
                self.compare(Reached::Cache, "both hold the same bytes")?;
                observer::by_another_process(&self.subject, &self.oracle)
            }
            Act::Reattach => faults::reattach(self),
            Act::Kill(who) => faults::kill(self, *who),
            Act::KillBothThenDetach => faults::kill_both_then_detach(self),
            Act::Upgrade(binary) => faults::upgrade(self, *binary),
            Act::ImageAway => faults::image_away(self, false),
            Act::ImageSwapped => faults::image_away(self, true),
            Act::Grow(bytes) => faults::grow(self, *bytes),
            Act::PowerCut(seed) => power::cut(self, *seed),
            Act::Repair => faults::repair(self),
            Act::FileSystem(kind) => file_systems::use_one(self, *kind),
            Act::Swap => file_systems::swap(self),
        }
    }

    fn one(&mut self, part: &Part) -> Step {
        let Some(pair) = &self.open else { return Err("the devices are closed".to_owned().into()) };
        let found = with_zeroing(part, &pair.subject, &self.subject.device());
        let is_discard = part.what == What::Discard && !self.medium.disks.is_empty();
        if is_discard && found.result == Err(EOPNOTSUPP) {
            return Ok(());
        }
        let expected = with_zeroing(part, &pair.oracle, &self.oracle.device());
        same_outcome(part, &expected, &found)?;
        if expected.bytes != found.bytes {
            let pairs = expected.bytes.iter().zip(&found.bytes);
            let at = part.at + pairs.take_while(|(one, other)| one == other).count() as u64;
            return differs(
                "a read returns what was written",
                format!("{part}: byte {at} differs"),
            );
        }
        note_in(&mut self.history, part, &expected, self.assumes_flushed);
        if is_discard {
            return self.settle_discarded(part);
        }
        Ok(())
    }

    /// Takes what a discarded range holds, where the medium cannot make zeros of it.
    fn settle_discarded(&mut self, part: &Part) -> Step {
        let Some(pair) = &self.open else { return Err("the devices are closed".to_owned().into()) };
        let first = part.at / 4096 * 4096;
        let len = (part.at + part.len).div_ceil(4096) * 4096 - first;
        let [found, _] = observer::read_both(pair, first, len, "a discarded range can be read")?;
        for (sector, bytes) in (first / 512..).zip(found.chunks_exact(512)) {
            if (part.at..part.at + part.len).contains(&(sector * 512)) {
                self.history.choose(sector, bytes, Reached::Device);
            }
        }
        let from = (part.at - first) as usize;
        let own = &found[from..from + part.len as usize];
        observer::write_to_oracle(pair, part.at, own)
    }

    fn together(&mut self, parts: &[Part], kill: Option<Who>) -> Step {
        let Some(pair) = &self.open else { return Err("the devices are closed".to_owned().into()) };
        let (device, subject) = (self.subject.device(), &self.subject);
        let worker = kill.map(|_| subject.worker()).transpose()?;
        let mut killed = Ok(());
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let started: Vec<_> = parts
                .iter()
                .map(|part| scope.spawn(|| carry_out(part, &pair.subject, &device)))
                .collect();
            if let (Some(who), Some(worker)) = (kill, worker) {
                killed = subject.kill_found(who, worker);
            }
            let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
            let died = || Outcome { result: Err(-1), bytes: Vec::new() };
            ended.map(|ended| ended.unwrap_or_else(|_| died())).collect()
        });
        killed?;
        // Per sector what it may hold, from what its writes bring.
        let mut candidates: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        for (part, found) in parts.iter().zip(&outcomes) {
            let expected = carry_out(part, &pair.oracle, &self.oracle.device());
            let excused = kill == Some(Who::Both) && found.result == Err(EIO);
            if !excused {
                same_outcome(part, &expected, found)?;
            }
            let Some(bytes) = written_by(part, &expected) else { continue };
            for (index, sector) in bytes.chunks_exact(512).enumerate() {
                let number = part.at / 512 + index as u64;
                let own = candidates.entry(number).or_default();
                if excused {
                    own.push(self.history.current(number).to_vec());
                }
                own.push(sector.to_vec());
            }
            let reached = if excused { Reached::Cache } else { Reached::Device };
            self.history.write(part.at, &bytes, reached);
        }
        match kill {
            Some(Who::Both) => faults::bring_back(self)?,
            Some(Who::Supervisor) => faults::reattach(self)?,
            _ => {}
        }
        self.settle(&candidates)
    }

    /// Reads what writes in flight together left, and takes it as settled.
    fn settle(&mut self, candidates: &BTreeMap<u64, Vec<Vec<u8>>>) -> Step {
        let law = "a sector holds one of the writes that were in flight";
        let Some(pair) = &self.open else { return Err("the devices are closed".to_owned().into()) };
        let mut blocks: Vec<u64> = candidates.keys().map(|sector| sector / 8).collect();
        blocks.dedup();
        for block in blocks {
            let [found, _] = observer::read_both(pair, block * 4096, 4096, law)?;
            for (sector, bytes) in (block * 8..).zip(found.chunks_exact(512)) {
                let Some(own) = candidates.get(&sector) else { continue };
                if !own.iter().any(|one| one == bytes) {
                    let name = content::describe(bytes);
                    return differs(law, format!("sector {sector}: found {name}"));
                }
                self.history.choose(sector, bytes, Reached::Device);
            }
            observer::write_to_oracle(pair, block * 4096, &found)?;
        }
        Ok(())
    }
}

fn verdict(
    done: Step,
    act: usize,
    text: &Act,
    has_hung: bool,
) -> Result<Option<Difference>, String> {
    match done {
        _ if has_hung => {
            let detail = format!("{text}: not ended after minutes; detached by force");
            Ok(Some(Difference { act, law: "every act ends", detail }))
        }
        Ok(()) => Ok(None),
        Err(Failed::Differs(law, detail)) => Ok(Some(Difference { act, law, detail })),
        Err(Failed::Cannot(why)) => Err(format!("act {act}, {text}: {why}")),
    }
}

/// The operation; a hole that the device cannot make is zeroed.
fn with_zeroing(part: &Part, open: &Open, device: &Path) -> Outcome {
    let outcome = carry_out(part, open, device);
    if part.what == What::Punch && outcome.result == Err(EOPNOTSUPP) {
        return carry_out(&Part { what: What::Zero, ..*part }, open, device);
    }
    outcome
}

fn same_outcome(part: &Part, expected: &Outcome, found: &Outcome) -> Step {
    if expected.result == found.result {
        return Ok(());
    }
    let (expected, found) = (expected.describe(), found.describe());
    differs(
        "an operation has the same result",
        format!("{part}: expected {expected}, found {found}"),
    )
}

/// The bytes that an operation put at its place, if it did.
fn written_by(part: &Part, outcome: &Outcome) -> Option<Vec<u8>> {
    let count = outcome.result.ok()?;
    match part.what {
        What::Write(_, number) => Some(content::bytes(number, part.at, count)),
        What::Zero | What::Punch | What::Discard => Some(vec![0; count as usize]),
        What::Read(_) | What::Flush => None,
    }
}

fn note_in(history: &mut History, part: &Part, outcome: &Outcome, assumes_flushed: bool) {
    let reached = match part.what {
        What::Write(Way::Buffered, _) => Reached::Cache,
        _ => Reached::Device,
    };
    if let Some(bytes) = written_by(part, outcome) {
        history.write(part.at, &bytes, reached);
    }
    if (part.what == What::Flush || assumes_flushed) && outcome.result.is_ok() {
        history.flush();
    }
}

/// Ends of windows are inside the device.
const _: () = assert!(WINDOW.is_multiple_of(4096));
