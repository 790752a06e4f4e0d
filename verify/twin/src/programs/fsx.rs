//! Random operations on one file, after fsx: writes, reads, truncations, holes and zeroed ranges.
//!
//! A model in memory says what each read must return. After a kill of both the file system is mounted
//! again: every byte that an fsync covered and no later operation touched must be there.

use super::{Place, Plan, bring_back};
use crate::act::Who;
use crate::run::Twin;
use crate::{Step, differs};
use nearhead_basics::SplitMix;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;

const READS: &str = "a read of a file returns what was written";
const SYNCED: &str = "what fsync covered is there after both were killed";
/// Largest size of the file.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// Largest single operation.
const PART_MAX: u64 = 128 << 10;

/// The file's content, and what is known of its durability.
#[derive(Debug, Default)]
struct Model {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// Per byte of `synced`: whether an operation touched it since.
    is_touched: Vec<bool>,
    is_resized: bool,
}

impl Model {
    fn touch(&mut self, at: u64, len: u64) {
        let end = (at + len).min(self.is_touched.len() as u64) as usize;
        if let Some(range) = self.is_touched.get_mut((at as usize).min(end)..end) {
            range.fill(true);
        }
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.bytes);
        self.is_touched = vec![false; self.bytes.len()];
        self.is_resized = false;
    }

    /// Takes what the file holds after a loss.
    fn adopt(&mut self, found: Vec<u8>) -> Step {
        let is_short = !self.is_resized && found.len() < self.synced.len();
        let kept = self.synced.iter().zip(&found).zip(&self.is_touched);
        let wrong = kept.enumerate().find(|(_, ((old, new), touched))| !**touched && old != new);
        if is_short || wrong.is_some() {
            let (had, has) = (self.synced.len(), found.len());
            let at = wrong.map_or(has, |(at, _)| at);
            return differs(SYNCED, format!("{had} bytes, found {has}; byte {at} differs"));
        }
        self.bytes = found;
        self.sync();
        Ok(())
    }
}

/// Runs the operations, with kills among them.
pub(super) fn run(place: &Place, twin: &mut Twin, plan: Plan) -> Step {
    place.make_ext4()?;
    let mut mounted = place.mount()?;
    let path = place.folder.join("fsx");
    let failed = |error: std::io::Error| format!("fsx: {error}");
    let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = open().map_err(failed)?;
    let (mut model, mut random) = (Model::default(), SplitMix::new(plan.seed));
    let every = plan.acts / u64::from(plan.kills + 1);
    for number in 1..=plan.acts {
        operate(&file, &mut model, &mut random, number)?;
        let Some(who) = plan.kill.filter(|_| every > 0 && number % every == 0) else { continue };
        if who != Who::Both {
            twin.subject.kill(who)?;
        }
        if who == Who::Worker {
            continue;
        }
        if who == Who::Both {
            file.sync_all().map_err(failed)?;
            model.sync();
            for later in 0..random.below(8) {
                operate(&file, &mut model, &mut random, number * 1000 + later)?;
            }
            twin.subject.kill(who)?;
        }
        drop(file);
        // After a loss it may not end in order; what is mounted again counts.
        let _ = mounted.unmount();
        bring_back(twin, who)?;
        mounted = place.mount()?;
        file = open().map_err(failed)?;
        let found = std::fs::read(&path).map_err(failed)?;
        if who == Who::Both {
            model.adopt(found)?;
        } else if found != model.bytes {
            return differs(READS, "other bytes after the supervisor was killed".to_owned());
        }
    }
    file.sync_all().map_err(failed)?;
    drop(file);
    mounted.unmount()?;
    crate::tools::ok("e2fsck", &["-fn".as_ref(), place.device.as_os_str()])?;
    let mounted = place.mount()?;
    let found = std::fs::read(&path).map_err(failed)?;
    mounted.unmount()?;
    if found == model.bytes { Ok(()) } else { differs(READS, "other bytes after a remount") }
}

fn operate(file: &File, model: &mut Model, random: &mut SplitMix, number: u64) -> Step {
    let failed = |error: std::io::Error| format!("fsx, operation {number}: {error}");
    let at = random.below(FILE_BYTES_MAX - PART_MAX);
    let len = 1 + random.below(PART_MAX);
    let range = |model: &Model| {
        let end = ((at + len) as usize).min(model.bytes.len());
        (at as usize).min(end)..end
    };
    match random.below(12) {
        0..5 => {
            let bytes = crate::content::bytes(number, at, len);
            file.write_all_at(&bytes, at).map_err(failed)?;
            let end = (at + len) as usize;
            if model.bytes.len() < end {
                model.bytes.resize(end, 0);
                model.is_resized = true;
            }
            model.bytes[at as usize..end].copy_from_slice(&bytes);
            model.touch(at, len);
        }
        5..9 => {
            let expected = &model.bytes[range(model)];
            let mut found = vec![0; expected.len()];
            file.read_exact_at(&mut found, at).map_err(failed)?;
            if found != expected {
                return differs(READS, format!("operation {number}: {len} bytes at {at}"));
            }
        }
        9 => {
            file.set_len(at).map_err(failed)?;
            model.bytes.resize(at as usize, 0);
            model.touch(at, FILE_BYTES_MAX);
            model.is_resized = true;
        }
        10 => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
            let flags = if random.coin() { hole } else { zero };
            let done = rustix::fs::fallocate(file, flags, at, len);
            done.map_err(|error| failed(error.into()))?;
            let inside = range(model);
            model.bytes[inside].fill(0);
            model.touch(at, len);
        }
        _ => {
            file.sync_all().map_err(failed)?;
            model.sync();
        }
    }
    Ok(())
}
