//! Faults of the subject, and what must hold after each; the oracle is not touched.
//!
//! A kill of one process is a pause. After a kill of both, `attach` brings everything back that the
//! device had answered. What fails changes nothing. What ends with success is true.

use crate::act::{Binary, Who};
use crate::attached::Attached;
use crate::carry_out::read_direct;
use crate::history::Reached;
use crate::run::Twin;
use crate::side::{Open, Side, size_of};
use crate::{Step, differs, tools};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

const NOTHING_LOST: &str = "a killed process loses nothing that was answered";
const BRINGS_BACK: &str = "attach brings back what was answered before both were killed";
const DETACH_IS_TRUE: &str = "detach says durable only of what is";
const DETACHES: &str = "detach works where nothing uses the device";
const ATTACHES: &str = "attach works where it worked before";
const ONE_IDENTITY: &str = "every worker serves the volume that was attached";
const UPGRADE_FAILS: &str = "an upgrade that cannot be carried out changes nothing";
const GROWS: &str = "a device that grows is larger and keeps its bytes";
const REPAIRS: &str = "check and repair find a sound volume sound";

/// How long a worker has to serve another volume, if it does.
const IMPOSTOR_WAIT: Duration = Duration::from_secs(1);

/// Detaches in order and attaches again, on both sides.
pub fn reattach(twin: &mut Twin) -> Step {
    twin.close_both();
    reattach_subject(twin)?;
    twin.oracle.reattach()?;
    twin.open_both()?;
    twin.compare(Reached::Cache, DETACH_IS_TRUE)
}

/// The same of the subject alone, and nothing is compared.
pub fn reattach_subject(twin: &mut Twin) -> Step {
    detach(twin)?;
    attach(twin)
}

fn detach(twin: &mut Twin) -> Step {
    twin.subject.detach().or_else(|why| differs(DETACHES, why))
}

fn attach(twin: &mut Twin) -> Step {
    twin.subject.attach().or_else(|why| differs(ATTACHES, why))
}

/// Kills with nothing outstanding.
pub fn kill(twin: &mut Twin, who: Who) -> Step {
    twin.subject.kill(who)?;
    match who {
        Who::Worker => twin.compare(Reached::Cache, NOTHING_LOST),
        Who::Supervisor => {
            twin.compare(Reached::Cache, NOTHING_LOST)?;
            reattach(twin)
        }
        Who::Both => {
            bring_back(twin)?;
            twin.compare(Reached::Device, BRINGS_BACK)
        }
    }
}

/// Attaches again after both were killed.
pub fn bring_back(twin: &mut Twin) -> Step {
    twin.close_both();
    if let Err(why) = twin.subject.attach() {
        return differs(BRINGS_BACK, format!("attach fails: {why}"));
    }
    twin.open_both()?;
    Ok(())
}

/// Kills both and detaches; success of that means that all of it is durable.
pub fn kill_both_then_detach(twin: &mut Twin) -> Step {
    twin.subject.kill(Who::Both)?;
    twin.close_both();
    let detached = twin.subject.detach();
    let words = twin.subject.last_words.clone();
    twin.subject.attach().or_else(|why| {
        differs(BRINGS_BACK, format!("detach: {detached:?}; then attach fails: {why}"))
    })?;
    twin.open_both()?;
    let law = if detached.is_ok() { DETACH_IS_TRUE } else { BRINGS_BACK };
    twin.compare(Reached::Device, law).map_err(|failed| match failed {
        crate::Failed::Differs(law, why) => {
            crate::Failed::Differs(law, format!("{why}; detach: {words:?}"))
        }
        cannot @ crate::Failed::Cannot(_) => cannot,
    })
}

/// Upgrades to `binary`.
pub fn upgrade(twin: &mut Twin, binary: Binary) -> Step {
    let path = match binary {
        Binary::Good => {
            let copy = twin.scratch.0.join("nearhead-new");
            if !copy.exists() {
                let copied = std::fs::copy(&twin.settings.nearhead, &copy);
                copied.map_err(|error| format!("{}: {error}", copy.display()))?;
            }
            copy
        }
        Binary::Ends => PathBuf::from("/bin/false"),
        Binary::NoProgram => PathBuf::from("/etc/passwd"),
    };
    let text = path.to_string_lossy();
    let output = twin.subject.nearhead(&["upgrade", &twin.subject.name, "--binary", &text])?;
    let words = tools::words_of(&output);
    if output.status.success() != (binary == Binary::Good) {
        return differs(UPGRADE_FAILS, format!("upgrade to {text}: {}: {words}", output.status));
    }
    if binary != Binary::Good {
        let worker = twin.subject.worker();
        let worker = worker.or_else(|why| differs(UPGRADE_FAILS, format!("{words}; {why}")))?;
        if Attached::supervisor(worker).is_none() {
            return differs(UPGRADE_FAILS, format!("{text}: the supervisor is gone; {words}"));
        }
    }
    twin.compare(Reached::Cache, UPGRADE_FAILS)
}

/// Kills the worker while the image is away; with `swapped`, while another volume has its path.
pub fn image_away(twin: &mut Twin, swapped: bool) -> Step {
    let Some(image) =
        twin.subject.below().first().cloned().filter(|_| twin.medium.disks.is_empty())
    else {
        return Err("only an image file can be moved away".to_owned().into());
    };
    let away = image.with_extension("away");
    let moved = |from: &PathBuf, to: &PathBuf| {
        std::fs::rename(from, to).map_err(|error| format!("{}: {error}", from.display()))
    };
    let worker = twin.subject.worker()?;
    moved(&image, &away)?;
    if swapped {
        let (size, target) = (twin.settings.image_bytes.to_string(), twin.subject.target.clone());
        let preset = twin.settings.preset.clone();
        let args = ["create", &target, "--size", &size, "--preset", &preset];
        tools::ok(twin.settings.nearhead.to_str().unwrap_or_default(), &args)?;
    }
    twin.subject.kill_found(Who::Worker, worker)?;
    // A reader that waits for the next worker, whichever volume that serves.
    let device = twin.subject.device();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let read = Open::device(&device).map(|open| read_direct(&open, 0, 4096));
        let _ = sender.send(read);
    });
    let early = receiver.recv_timeout(IMPOSTOR_WAIT).ok();
    moved(&away, &image)?;
    if early.is_none() {
        let _ = receiver.recv();
    }
    twin.compare(Reached::Cache, ONE_IDENTITY)
}

/// Makes both devices larger.
pub fn grow(twin: &mut Twin, bytes: u64) -> Step {
    let Some(image) =
        twin.subject.below().first().cloned().filter(|_| twin.medium.disks.is_empty())
    else {
        return Err("only an image file can be grown".to_owned().into());
    };
    let failed = |error: std::io::Error| format!("{}: {error}", image.display());
    let file = std::fs::File::options().write(true).open(&image).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len() + bytes;
    file.set_len(size).map_err(failed)?;
    let before = size_of(&twin.subject.device())?;
    let output = twin.subject.nearhead(&["grow", &twin.subject.name])?;
    let after = size_of(&twin.subject.device())?;
    if !output.status.success() || after <= before {
        let words = tools::words_of(&output);
        return differs(GROWS, format!("{before} bytes, then {after}: {}: {words}", output.status));
    }
    twin.oracle.resize(after)?;
    twin.windows.push((after - crate::script::WINDOW) / 4096 * 4096);
    twin.compare(Reached::Cache, GROWS)
}

/// Detaches, checks, repairs and attaches.
pub fn repair(twin: &mut Twin) -> Step {
    twin.close_both();
    detach(twin)?;
    for words in [&["check"][..], &["repair"], &["check"]] {
        let more = twin.medium.words.iter().map(String::as_str);
        let more: Vec<&str> = [twin.subject.target.as_str()].into_iter().chain(more).collect();
        let args = [words, &more].concat();
        let output = twin.subject.nearhead(&args)?;
        if !output.status.success() {
            let words = tools::words_of(&output);
            return differs(REPAIRS, format!("{args:?}: {}: {words}", output.status));
        }
    }
    attach(twin)?;
    twin.open_both()?;
    twin.compare(Reached::Cache, REPAIRS)
}
