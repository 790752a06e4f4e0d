//! What the labels of an array's members mean together: who is which, who has everything, who must
//! be copied to, and which sets of disks are no array at all.
//!
//! Pure decisions over what was read; nothing here touches a disk. When in doubt it refuses: of two
//! members that were each used without the other neither can be called older.

use super::label::Label;
use super::missed::Missed;
use super::noted::MemberLabel;
use super::spec::{ArrayKind, ArraySpec, Take};

/// Members in the order of their labels, each as its label is to be from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Which of the named members, and its label.
    pub(super) members: Vec<(usize, Label)>,
    /// The members that have everything may differ where writes were under way: the mirror was not left in
    /// order. The first of them is the one to go by.
    pub(super) unsure: bool,
    /// What members missed that are away or to be copied to.
    pub(super) missed: Missed,
    /// One member counts by a decision of the owner, whatever the others hold.
    pub(super) is_taken: bool,
    /// The named disk that replaces another one, if one does.
    pub(super) newcomer: Option<usize>,
    /// What people should know.
    pub(super) notes: Vec<String>,
}

/// What was found of a named member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is away.
    Missing,
    /// A disk that has no label.
    Unlabelled,
    /// A disk with this label.
    Labelled(Label),
}

impl Plan {
    /// A plan without members, of an array that uses so many bytes of each.
    pub(super) fn of(member_bytes: u64) -> Self {
        let missed = Missed::nothing(member_bytes);
        Self {
            members: Vec::new(),
            unsure: false,
            missed,
            is_taken: false,
            newcomer: None,
            notes: Vec::new(),
        }
    }

    /// Takes what is known of what members missed, and says so of those that are here.
    pub(super) fn know_missed(&mut self, spec: &ArraySpec, found: Vec<(usize, MemberLabel)>) {
        let bytes = self.members.iter().map(|(_, label)| label.member_bytes).min().unwrap_or(0);
        let (places, found): (Vec<usize>, Vec<MemberLabel>) = found.into_iter().unzip();
        let newcomer = self.newcomer.and_then(|place| places.iter().position(|of| *of == place));
        let successor = newcomer.and_then(|at| found.get(at));
        let mut missed = Missed::at_opening(bytes, &found, successor);
        self.know_copied(spec, &mut missed);
        for (place, label) in &self.members {
            if missed.covers(label.index) {
                self.notes.push(format!(
                    "what changed while {} was away is known: it is copied {} of {} bytes",
                    spec.members[*place],
                    missed.regions().bytes_from(label.synced_bytes),
                    label.member_bytes
                ));
            }
        }
        self.missed = missed;
    }

    /// Goes on with the copy to a disk that replaces a member, or begins it.
    fn know_copied(&mut self, spec: &ArraySpec, missed: &mut Missed) {
        let is_newcomer = |(place, _): &&(usize, Label)| self.newcomer == Some(*place);
        let Some((place, label)) = self.members.iter().find(is_newcomer) else { return };
        if label.counts(label.index) {
            return missed.end_copy();
        }
        let bytes = label.member_bytes;
        if !missed.covers_copy() {
            // Generations grow at every opening, so no label has the number of an earlier copy.
            missed.begin_copy((label.generation as u32).max(1), bytes);
        }
        let all = bytes - label.synced_bytes.min(bytes);
        let regions = missed.regions();
        let left = if missed.covers_copy() { regions.bytes_from(label.synced_bytes) } else { all };
        let old = spec.replaced().map_or(0, |(old, _)| old);
        self.notes.push(format!(
            "{} replaces {}: {left} of {bytes} bytes are to be copied to it",
            spec.members[*place], spec.members[old]
        ));
    }
}

impl Found {
    pub(super) fn label(self) -> Option<Label> {
        if let Self::Labelled(label) = self { Some(label) } else { None }
    }
}

/// Decides what the array of `spec` is, of members with these labels; none if no member has one.
pub(super) fn plan(spec: &ArraySpec, found: &[Found]) -> Result<Option<Plan>, String> {
    if found.iter().all(|member| member.label().is_none()) {
        return Ok(None);
    }
    match spec.kind {
        ArrayKind::Mirror { take: Some(take), .. } => decided(spec, found, take),
        ArrayKind::Mirror { replace: Some(number), .. } => {
            super::replacing::planned(spec, found, usize::from(number) - 1)
        }
        _ => by_labels(spec, found),
    }
    .map(Some)
}

/// The array as its labels have it.
pub(super) fn by_labels(spec: &ArraySpec, found: &[Found]) -> Result<Plan, String> {
    let members = recognised(spec, found)?;
    match spec.kind {
        ArrayKind::Stripe { chunk_bytes } => stripe(spec, members, chunk_bytes),
        ArrayKind::Mirror { .. } => mirror(spec, members),
    }
}

/// Carries out the owner's decision if it was made for the labels as they are. The same text is passed again at every start of
/// a service, long after the members went on. So without a generation it acts only where the labels make no mirror, and only if
/// no label records the same decision.
fn decided(spec: &ArraySpec, found: &[Found], take: Take) -> Result<Plan, String> {
    let known = || found.iter().filter_map(|member| member.label());
    let newest = known().map(|label| label.generation).max().unwrap_or(0);
    if take.generation == Some(newest) {
        return taken(spec, found, take.member);
    }
    let problem = match by_labels(spec, found) {
        Ok(mut plan) => {
            plan.members.iter_mut().for_each(|(_, label)| label.taken = take.member);
            let note =
                format!("?{take} has nothing to do: the labels decide which member is newer");
            plan.notes.push(note);
            return Ok(plan);
        }
        Err(problem) => problem,
    };
    let newer = newer_than(found, take.member);
    let is_new = known().all(|label| label.taken != take.member);
    if take.generation.is_none() && is_new && newer.is_none() {
        return taken(spec, found, take.member);
    }
    let now = Take { generation: Some(newest), ..take };
    let why = match newer.filter(|_| is_new) {
        Some(place) => {
            format!("by the labels {} is newer than the member it names", spec.members[place])
        }
        None => "it is for an earlier state of the mirror, and is not carried out again".to_owned(),
    };
    Err(format!(
        "{problem} (?{take} does nothing: {why}; to copy member {} onto all the others now, write `?{now}`)",
        take.member
    ))
}

/// A member that is certainly newer than the one named by `take`, by their labels.
fn newer_than(found: &[Found], take: u16) -> Option<usize> {
    let chosen = found.get(usize::from(take).wrapping_sub(1))?.label()?;
    let is_newer = |other: &Label| {
        let knows_more = other.generation > chosen.generation || !other.counts(chosen.index);
        let is_of_array = other.array_id == chosen.array_id && other.index != chosen.index;
        is_of_array && other.counts(other.index) && chosen.counts(other.index) && knows_more
    };
    found.iter().position(|member| member.label().is_some_and(|label| is_newer(&label)))
}

/// The members by their labels: all of one array, each one once.
fn recognised(spec: &ArraySpec, found: &[Found]) -> Result<Vec<(usize, Label)>, String> {
    let mut members: Vec<(usize, Label)> = Vec::new();
    let advice = advice(spec);
    for (place, member) in found.iter().enumerate() {
        let name = &spec.members[place];
        let label = match member {
            Found::Missing => continue,
            Found::Unlabelled => {
                return Err(format!(
                    "{name}: expected the label of an array member, as another member has one, found \
                     none; name the member that belongs here{advice}"
                ));
            }
            Found::Labelled(label) => *label,
        };
        let first = members.first().map_or(label, |(_, first)| *first);
        if label.array_id != first.array_id {
            return Err(format!(
                "{name}: expected a member of array {}, found one of array {}; name the member that \
                 belongs here{advice}",
                first.array_name(),
                label.array_name()
            ));
        }
        if usize::from(label.count) != spec.members.len() {
            return Err(format!(
                "{name}: expected a member of an array of {}, found one of {}; name all of them{}",
                spec.members.len(),
                label.count,
                if label.is_mirror() { ", and `missing` for one that is away" } else { "" }
            ));
        }
        if let Some((twin, _)) = members.iter().find(|(_, other)| other.index == label.index) {
            return Err(format!(
                "{} and {name}: expected different members, found both to be member {}, one a copy \
                 of the other; name only one of them",
                spec.members[*twin],
                label.index + 1
            ));
        }
        members.push((place, label));
    }
    Ok(members)
}

fn advice(spec: &ArraySpec) -> &'static str {
    match spec.kind {
        ArrayKind::Stripe { .. } => "",
        ArrayKind::Mirror { .. } => {
            ", or add `?take=N` to copy the N-th named member onto all the others"
        }
    }
}

fn stripe(
    spec: &ArraySpec,
    mut members: Vec<(usize, Label)>,
    chunk_bytes: u64,
) -> Result<Plan, String> {
    if members.len() < spec.members.len() {
        return Err("a stripe needs all of its members".to_owned());
    }
    for (place, label) in &members {
        let name = &spec.members[*place];
        if label.chunk_bytes != chunk_bytes {
            let expected = match label.chunk_bytes {
                0 => "mirror:".to_owned(),
                chunk => format!("raid0: with ?chunk={}k", chunk >> 10),
            };
            return Err(format!(
                "{name} was made a member of another kind of array: expected {expected}, found \
                 chunks of {} KiB",
                chunk_bytes >> 10
            ));
        }
        if label.whole_runs != members[0].1.whole_runs {
            return Err(format!(
                "{name}: expected the runs on one member that {} was made with, found others: its making was cut short, before a volume \
                 was made on it; make it again with `nearhead create --force`",
                spec.members[members[0].0]
            ));
        }
        if usize::from(label.index) != *place {
            return Err(format!(
                "{name} is named as member {}, and is member {} of {}; name them in that order",
                place + 1,
                label.index + 1,
                label.count
            ));
        }
    }
    raise_stripe(spec, &mut members)?;
    Ok(Plan { members, ..Plan::of(0) })
}

/// Refuses a member that is older than the others, and gives all the next generation. While it is written the first member's label is
/// marked as in use: then the others have it or the one before, and nothing was changed since. Such a raise is completed.
fn raise_stripe(spec: &ArraySpec, members: &mut [(usize, Label)]) -> Result<(), String> {
    let newest = members.iter().map(|(_, label)| label.generation).max().unwrap_or(0);
    let is_interrupted = members.first().is_some_and(|(_, first)| first.in_use);
    for (place, label) in members.iter() {
        let may_lag = u64::from(is_interrupted && *place > 0);
        if label.generation + may_lag < newest {
            return Err(format!(
                "{}: expected generation {newest} as another member has it, found {}: it is an older copy of the member; attach the newest \
                 one, or copies of all members that were made at one time while the array was not in use",
                spec.members[*place], label.generation
            ));
        }
    }
    let sequence = members.iter().map(|(_, label)| label.sequence).max().unwrap_or(0) + 1;
    let generation = newest + u64::from(!is_interrupted);
    for (_, label) in members {
        (label.generation, label.sequence, label.in_use) = (generation, sequence, false);
    }
    Ok(())
}

fn mirror(spec: &ArraySpec, mut members: Vec<(usize, Label)>) -> Result<Plan, String> {
    if let Some((place, label)) = members.iter().find(|(_, label)| !label.is_mirror()) {
        return Err(format!(
            "{} was made a member of a stripe: expected raid0: with ?chunk={}k, found mirror:",
            spec.members[*place],
            label.chunk_bytes >> 10
        ));
    }
    let apart = |one: &Label, other: &Label| one.counts(one.index) && !one.counts(other.index);
    for (index, (place, one)) in members.iter().enumerate() {
        let other = members[..index].iter().find(|(_, two)| apart(one, two) && apart(two, one));
        if let Some((other, _)) = other {
            return Err(format!(
                "{} and {} were each used without the other, so neither has everything; decide whose \
                 content counts, and add `?take=N` to copy the N-th named member onto all the others",
                spec.members[*other], spec.members[*place]
            ));
        }
    }
    let newest = members.iter().map(|(_, label)| label.generation).max().unwrap_or(0);
    let is_whole = |label: &Label| label.generation == newest && label.counts(label.index);
    if !members.iter().any(|(_, label)| is_whole(label)) {
        return Err(format!(
            "expected a member that has everything, found only such as were being copied to or were \
             away; name the others too{}",
            advice(spec)
        ));
    }
    let mut notes = Vec::new();
    let sequence = members.iter().map(|(_, label)| label.sequence).max().unwrap_or(0) + 1;
    members.sort_by_key(|(_, label)| label.index);
    let in_sync = members.iter().filter(|(_, label)| is_whole(label));
    let in_use = in_sync.clone().any(|(_, label)| label.in_use);
    let unsure = in_use && in_sync.clone().count() > 1;
    if unsure {
        let first = in_sync.clone().next().map_or(0, |(place, _)| *place);
        notes.push(format!(
            "the mirror was not left in order, so its members may differ where writes were under way: they \
             are compared in the background, and made alike as {} is",
            spec.members[first]
        ));
    }
    let whole = in_sync.fold(0, |bits, (_, label)| bits | 1 << label.index);
    for (place, label) in &mut members {
        if !is_whole(label) {
            // Where changes were under way it may lack what the others have, and a copy of another member is none of these.
            let is_their_copy = whole & !label.in_sync == 0;
            let resumes = label.generation == newest && !in_use && is_their_copy;
            label.synced_bytes = if resumes { label.synced_bytes } else { 0 };
            notes.push(format!(
                "{} was away, and is older: it is copied to from byte {} on and not read before",
                spec.members[*place], label.synced_bytes
            ));
        }
        // What one that was away says of its last use is not true of this one.
        label.in_use = in_use;
        (label.generation, label.in_sync, label.sequence) = (newest + 1, whole, sequence);
    }
    let member_bytes = members[0].1.member_bytes;
    Ok(Plan { members, unsure, notes, ..Plan::of(member_bytes) })
}

/// The member that the user decided for, and everybody else as a copy to be.
fn taken(spec: &ArraySpec, found: &[Found], take: u16) -> Result<Plan, String> {
    let place = usize::from(take).wrapping_sub(1);
    let Some(Found::Labelled(chosen)) = found.get(place).copied() else {
        return Err(format!(
            "?take={take}: expected the number of a named member that has a label, 1 to {}",
            spec.members.len()
        ));
    };
    if !chosen.is_mirror() || usize::from(chosen.count) != spec.members.len() {
        return Err(format!(
            "{}: expected a member of a mirror of {}, found one of {} members",
            spec.members[place],
            spec.members.len(),
            chosen.count
        ));
    }
    let known = found.iter().filter_map(|member| member.label());
    let generation = known.clone().map(|label| label.generation).max().unwrap_or(0) + 1;
    let sequence = known.map(|label| label.sequence).max().unwrap_or(0) + 1;
    let mut free = (0..chosen.count).filter(|index| *index != chosen.index);
    let mut members = Vec::new();
    let mut notes = Vec::new();
    for (number, member) in found.iter().enumerate() {
        if *member == Found::Missing {
            continue;
        }
        let is_chosen = number == place;
        let index = if is_chosen { Some(chosen.index) } else { free.next() };
        let label = Label {
            index: index.unwrap_or(chosen.index),
            synced_bytes: if is_chosen { chosen.member_bytes } else { 0 },
            in_sync: 1 << chosen.index,
            generation,
            sequence,
            taken: take,
            ..chosen
        };
        if !is_chosen {
            notes.push(format!(
                "{} becomes a copy of {}",
                spec.members[number], spec.members[place]
            ));
        }
        members.push((number, label));
    }
    members.sort_by_key(|(_, label)| label.index);
    Ok(Plan { members, is_taken: true, notes, ..Plan::of(chosen.member_bytes) })
}
