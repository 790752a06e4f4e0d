//! The labels of a mirror of which a member is being replaced.
//!
//! The new member has the number of the old one, and its own label says that it lacks something until it has everything. What stays true:
//! - the old member counts as before, if it has everything, until the label of the new one says that this one has, too; so whichever of the
//!   two is named after a cut, the labels decide what it holds;
//! - a label that is written once the old member is used no more has a greater generation than the old one's: the old member is older from
//!   then on;
//! - nothing is written to a disk whose label does not name this array and this number.
//!
//! Pure decisions over what was read, and one label that makes a disk a new member.

use super::label::{LABEL_BYTES, Label};
use super::missed::Missed;
use super::open::{RunOne, invalid, read_label};
use super::plan::{Found, Plan, by_labels};
use super::spec::{ArrayKind, ArraySpec};
use nearhead_disk::{BufferMut, Command, Disk, DiskError, Payload};

/// Decides what the mirror of `spec` is while the member at place `old` is replaced by the last named disk.
pub(super) fn planned(spec: &ArraySpec, found: &[Found], old: usize) -> Result<Plan, String> {
    let place = spec.members.len() - 1;
    let name = &spec.members[place];
    let Some(new) = found[place].label() else {
        let what = if found[place] == Found::Missing { "none" } else { "a disk without a label" };
        return Err(format!(
            "{name}: expected the disk that is to replace {}, with the label that `nearhead replace` wrote, found {what}; to go on without it \
             leave it and ?replace= out of the target",
            spec.members[old]
        ));
    };
    let newest = found.iter().filter_map(|one| one.label()).map(|label| label.generation).max();
    let has_everything = |label: &Label| {
        let is_newest = Some(label.generation) == newest;
        is_newest && label.counts(label.index)
    };
    let is_twin = |label: &Label| {
        label.array_id == new.array_id && label.index == new.index && label.is_mirror()
    };
    let before = found[old].label().filter(is_twin).filter(has_everything);
    if before.is_none() || has_everything(&new) {
        return substituted(spec, found, old);
    }
    let mut plan = by_labels(&members_of(spec, old, old), &found[..place])?;
    let Some((_, first)) = plan.members.first() else { return Ok(plan) };
    let others = first.in_sync & !(1 << new.index);
    let resumes = Some(new.generation) == newest && !first.in_use && others & !new.in_sync == 0;
    let label = Label {
        generation: first.generation,
        // Its own number is the old member's, too, until it has everything.
        in_sync: others,
        synced_bytes: if resumes { new.synced_bytes } else { 0 },
        sequence: first.sequence.max(new.sequence + 1),
        ..Label { index: new.index, ..*first }
    };
    plan.members.push((place, label));
    plan.members.sort_by_key(|(_, label)| label.index);
    plan.newcomer = Some(place);
    Ok(plan)
}

/// The mirror with the new member in the place of the old one, which is used no more.
fn substituted(spec: &ArraySpec, found: &[Found], old: usize) -> Result<Plan, String> {
    let place = spec.members.len() - 1;
    let mut members = found[..place].to_vec();
    members[old] = found[place];
    let mut plan = by_labels(&members_of(spec, old, place), &members)?;
    for (of, _) in plan.members.iter_mut().filter(|(of, _)| *of == old) {
        *of = place;
    }
    plan.newcomer = Some(place);
    Ok(plan)
}

/// The mirror without a replacement; the member at place `old` is the one named at place `by`.
fn members_of(spec: &ArraySpec, old: usize, by: usize) -> ArraySpec {
    let mut members = spec.members.clone();
    members[old].clone_from(&spec.members[by]);
    members.pop();
    let kind = match spec.kind {
        ArrayKind::Mirror { policy, .. } => ArrayKind::Mirror { policy, take: None, replace: None },
        other @ ArrayKind::Stripe { .. } => other,
    };
    ArraySpec { kind, members }
}

/// Makes the last named disk of `spec` the successor of the member that it replaces: writes a label by which it has nothing yet. `disks` are
/// as for [`super::open`]; of these only the last one is written to.
///
/// # Errors
/// The members are no mirror by their labels, the successor is too small, or a disk fails.
pub fn label_successor<D: Disk>(
    spec: &ArraySpec,
    disks: &mut [Option<D>],
    run: RunOne<'_, D>,
) -> Result<(), DiskError> {
    let Some((old, place)) = spec.replaced() else {
        return Err(invalid("expected a mirror with ?replace=, found none".to_owned()));
    };
    let mut found = Vec::new();
    for disk in disks.iter_mut() {
        let label = disk.as_mut().map(|disk| read_label(disk, run)).transpose()?;
        found.push(label.map_or(Found::Missing, |label| {
            label.map_or(Found::Unlabelled, |read| Found::Labelled(read.label))
        }));
    }
    let sequence = found.iter().filter_map(|one| one.label()).map(|label| label.sequence).max();
    let (before, known) = (found[place], &mut found[..place]);
    let other = known.iter().enumerate().find_map(|(at, one)| one.label().filter(|_| at != old));
    let Some(other) = other.filter(Label::is_mirror) else {
        return Err(invalid(format!(
            "expected another member with the label of a mirror, found none among {}; a mirror without labels cannot replace a member",
            spec.members[..place].join(", ")
        )));
    };
    // A disk that lost its label is what is replaced, as one that is away.
    if known[old].label().is_none_or(|label| label.array_id != other.array_id) {
        known[old] = Found::Missing;
    }
    let plan = by_labels(&members_of(spec, old, old), known).map_err(invalid)?;
    let is_named = |index: u16| plan.members.iter().any(|(_, label)| label.index == index);
    let of_old = known[old].label().map(|label| label.index);
    let index = of_old.or_else(|| (0..other.count).find(|index| !is_named(*index)));
    let label = Label {
        sequence: sequence.unwrap_or(0) + 1,
        generation: 0,
        synced_bytes: 0,
        index: index.unwrap_or(0),
        in_sync: 0,
        in_use: false,
        taken: 0,
        ..other
    };
    let over = before.label().is_some_and(|before| before.slot_offset() == label.slot_offset());
    let label = Label { sequence: label.sequence + u64::from(over), ..label };
    let Some(disk) = &mut disks[place] else {
        return Err(invalid(format!("{}: expected a disk, found none", spec.members[place])));
    };
    let capacity_bytes = disk.properties().capacity_bytes;
    let room = Label::offset(capacity_bytes).filter(|offset| *offset >= label.member_bytes);
    let offset = room.ok_or_else(|| {
        invalid(format!(
            "{}: expected at least {} bytes, as much as the other members use, found {capacity_bytes}; choose a larger one",
            spec.members[place],
            label.member_bytes + LABEL_BYTES
        ))
    })?;
    let slot = Missed::nothing(label.member_bytes).slot(&label, true);
    let parts = vec![Payload::Bytes(BufferMut::copy_of(&slot).freeze())];
    let offset = offset + label.slot_offset();
    run(disk, Command::Write { offset, parts, durable: true }).map(drop)
}
