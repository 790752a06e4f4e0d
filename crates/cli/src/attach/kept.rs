//! Writes that an attached volume keeps: answered, not flushed, and left by a worker that ended. How many there are, whether they can
//! still be carried out, and which command helps.
//!
//! They can be carried out on the volume and at the generation for which they are kept. [`refuse_if_attached`] keeps other commands from
//! raising that generation. It must never change a kept write, nor wait for a disk without a bound.

use super::place::Place;
use crate::target::{Access, Target};
use nearhead_handover::{KeptFor, KeptWrites, begin_opening, kept_writes, refuse_another_volume};
use nearhead_output::{hex, warn};
use nearhead_settings::{Opener, ServeArgs};
use nearhead_volume::generations;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longest time to find out whether kept writes can be carried out: reading a label takes less, unless the disk hangs.
const VOLUME_WAIT_MAX: Duration = Duration::from_secs(5);
/// Generations that a command which mends a volume raises at most: one at its first change and, on several devices, one at its end.
const RAISED_BY_MEND: u32 = 2;

/// Writes that are kept at a place.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    name: String,
    /// How many there are and where, in words.
    pub(super) words: String,
    /// Each one; none if the file cannot be read.
    pub(super) writes: Option<KeptWrites>,
}

impl Kept {
    /// Reads those at `place`; none if there are none.
    pub(super) fn at(place: &Place) -> Option<Self> {
        let path = place.kept();
        let (what, writes) = match kept_writes(&path) {
            Ok(None) => return None,
            Ok(Some(writes)) => (writes.in_words(), Some(writes)),
            Err(error) => (format!("writes that were answered and not flushed ({error})"), None),
        };
        let words = format!("{what}, in {}", path.display());
        Some(Self { name: place.name.clone(), words, writes })
    }

    /// The command that carries them out, or why none can, and the one that throws them away.
    pub(super) fn advice(&self, place: &Place) -> String {
        let name = &self.name;
        let discard = format!("`nearhead detach {name} --force` throws them away");
        match self.obstacle(place) {
            None => format!("`nearhead attach {name}` carries them out, {discard}"),
            Some(Obstacle::Changed(why)) => {
                format!("no command can carry them out any more ({why}); {discard}")
            }
            Some(Obstacle::Away(why)) => format!(
                "they can be carried out once their volume is back ({why}): bring it back, then `nearhead attach {name}`; {discard}"
            ),
        }
    }

    /// Why they cannot be carried out now, as far as the volume says.
    fn obstacle(&self, place: &Place) -> Option<Obstacle> {
        let of = self.writes.as_ref()?.of?;
        let identity = place.identity_noted().ok()?;
        let target = identity.target().to_owned();
        let (sender, receiver) = channel();
        let reading = std::thread::Builder::new().name("kept".to_owned()).spawn(move || {
            let settings = identity.settings(&ServeArgs::default());
            let found = settings.and_then(|settings| {
                let opened = Target::open(identity.target(), Access::Beside, &settings.disk);
                opened.and_then(|mut target| volume_on(&mut target))
            });
            let _ = sender.send(found);
        });
        reading.ok()?;
        let found = receiver.recv_timeout(VOLUME_WAIT_MAX);
        let now = match found {
            Ok(Ok(now)) => now,
            Ok(Err(why)) => return Some(Obstacle::Away(why)),
            Err(_) => return Some(Obstacle::Away(format!("{target} does not answer"))),
        };
        if now.volume_id != of.volume_id {
            return Some(Obstacle::Away(format!(
                "{target} holds volume {}, expected {}",
                hex(&now.volume_id),
                hex(&of.volume_id)
            )));
        }
        let why = nearhead_handover::refuse_another_generation(&place.kept(), &now).err()?;
        Some(if now.generation < of.generation {
            Obstacle::Away(why)
        } else {
            Obstacle::Changed(why)
        })
    }
}

/// Why kept writes cannot be carried out now.
enum Obstacle {
    /// The volume was changed since.
    Changed(String),
    /// The volume is not there, or an older copy of it.
    Away(String),
}

fn volume_on(target: &mut Target) -> Result<KeptFor, String> {
    let found = generations::generation(&mut target.io());
    let (volume_id, generation) = found.map_err(|error| error.to_string())?;
    Ok(KeptFor { volume_id, generation })
}

/// Refuses to open a volume with a change while it is attached under a name that keeps writes for it, which could not be carried out
/// afterwards, or whose supervisor is about to serve it again. A command that mends the volume is let through, and the kept writes stay good.
///
/// # Errors
/// Says which attached volume keeps it, and which commands help.
pub fn refuse_if_attached(target: &mut Target, opener: &Opener) -> Result<(), String> {
    let is_own = |place: &Place| *opener == Opener::Worker(place.name.clone());
    let others = Place::all().into_iter().filter(|place| !is_own(place));
    let others: Vec<Place> =
        others.filter(|place| place.is_held() || Kept::at(place).is_some()).collect();
    if others.is_empty() {
        return Ok(());
    }
    // Not for a volume that does not open: what opens it is refused in its own words.
    let Ok(now) = volume_on(target) else { return Ok(()) };
    others.iter().try_for_each(|place| refuse_at(place, &target.name, &now, opener))
}

fn refuse_at(place: &Place, target: &str, now: &KeptFor, opener: &Opener) -> Result<(), String> {
    let (name, kept) = (&place.name, Kept::at(place));
    let of = kept.as_ref().and_then(|kept| kept.writes.as_ref()?.of);
    let of = of.map(|of| hex(&of.volume_id));
    let id = of.or_else(|| Some(place.identity_noted().ok()?.volume_id));
    if id != Some(hex(&now.volume_id)) {
        return Ok(());
    }
    let is_mend = *opener == Opener::Mend;
    if let Some(kept) = kept {
        let is_lost = kept.writes.is_some() && refuse_another_volume(&place.kept(), now).is_err();
        let discard = format!("`nearhead detach {name} --force` throws them away");
        if is_lost {
            warn(&format!(
                "{target}: the attached volume {name} keeps {} for this volume as it was before it was changed: no command can carry them \
                 out; {discard}",
                kept.words
            ));
        } else if !is_mend {
            return Err(format!(
                "{target}: expected a volume without kept writes, found that the attached volume {name} keeps {}; a change by another command \
                 would make them useless: `nearhead attach {name}` carries them out, {discard}",
                kept.words
            ));
        }
        if is_mend && !is_lost && kept.writes.is_some() {
            for _ in 0..RAISED_BY_MEND {
                let noted = begin_opening(&place.kept());
                noted.map_err(|error| format!("{}: {error}", place.kept().display()))?;
            }
        }
    }
    if place.is_held() && !is_mend {
        return Err(format!(
            "{target}: expected a volume that nothing else serves, found it attached as {name}, which is about to serve it again; \
             `nearhead detach {name}` ends that"
        ));
    }
    Ok(())
}
