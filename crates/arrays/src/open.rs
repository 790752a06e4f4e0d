//! Making an array of disks that are open: labels read, judged, written, and the array built.
//!
//! Labels are written before the array is handed out, the members that have everything first: so
//! whatever a crash leaves, the newest label lies on a member that has everything. Nothing is written
//! to a member when an array is only looked at, and never to disks without labels unless a volume is
//! being made on them.

use super::label::{LABEL_BYTES, Label};
use super::mirror::Mirror;
use super::missed::Missed;
use super::noted::MemberLabel;
use super::plan::{Found, Plan, plan};
use super::spec::{AnyArray, ArrayKind, ArraySpec};
use super::stripe::Stripe;
use nearhead_disk::{BufferMut, Command, Disk, DiskError, DiskErrorKind, Payload, WholeRuns};

/// The name of a member of a mirror that is away.
pub const MISSING: &str = "missing";

/// What an array is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be read; nothing of it changes.
    Look,
    /// To be used as it is.
    Use,
    /// To make something on it: disks without labels get some.
    Make {
        /// Identity of the array that is made.
        array_id: [u8; 16],
        /// Whatever labels the disks have, they are a new array.
        anew: bool,
        /// Runs of a stripe's addresses that are each to lie on one member.
        whole_runs: Option<WholeRuns>,
    },
}

/// Carries out one command on a disk and waits for it.
pub type RunOne<'a, D> = &'a mut dyn FnMut(&mut D, Command) -> Result<Payload, DiskError>;

/// Forgets the label of a disk, which then is a disk like any other.
pub fn remove_label<D: Disk>(disk: &mut D, run: RunOne<'_, D>) -> Result<(), DiskError> {
    let Some(offset) = Label::offset(disk.properties().capacity_bytes) else { return Ok(()) };
    run(disk, Command::WriteZeroes { offset, len: LABEL_BYTES, durable: true }).map(drop)
}

/// The label of a disk, if it is a member of an array. Errors tell of a label of a later version; a
/// disk that cannot be read has none.
pub fn label_of<D: Disk>(disk: &mut D, run: RunOne<'_, D>) -> Result<Option<Label>, DiskError> {
    Ok(read_label(disk, run)?.map(|read| read.label))
}

/// Its label with the notes, as [`label_of`].
pub(super) fn read_label<D: Disk>(
    disk: &mut D,
    run: RunOne<'_, D>,
) -> Result<Option<MemberLabel>, DiskError> {
    let properties = disk.properties();
    let name = properties.name.clone();
    let Some(offset) = Label::offset(properties.capacity_bytes) else { return Ok(None) };
    let command = Command::Read { offset, len: LABEL_BYTES as u32 };
    // A disk that keeps no content reads as nothing.
    let Ok(Payload::Bytes(bytes)) = run(disk, command) else { return Ok(None) };
    MemberLabel::decode(&bytes).map_err(|problem| invalid(format!("{name}: {problem}")))
}

/// Makes the array that `spec` describes of its members in their order, none for one that is
/// missing; with it comes what people should know.
pub fn open<D: Disk + 'static>(
    spec: &ArraySpec,
    disks: Vec<Option<D>>,
    purpose: Purpose,
    run: RunOne<'_, D>,
) -> Result<(Box<dyn Disk>, Vec<String>), DiskError> {
    open_any(spec, disks, purpose, run).map(|(array, notes)| (array.boxed(), notes))
}

/// The same for who uses the array on several threads, one at a time.
pub fn open_to_send<D: Disk + Send + 'static>(
    spec: &ArraySpec,
    disks: Vec<Option<D>>,
    purpose: Purpose,
    run: RunOne<'_, D>,
) -> Result<(Box<dyn Disk + Send>, Vec<String>), DiskError> {
    open_any(spec, disks, purpose, run).map(|(array, notes)| (array.boxed_to_send(), notes))
}

fn open_any<D: Disk>(
    spec: &ArraySpec,
    mut disks: Vec<Option<D>>,
    purpose: Purpose,
    run: RunOne<'_, D>,
) -> Result<(AnyArray<D>, Vec<String>), DiskError> {
    let planned = prepare(spec, &mut disks, purpose, run)?;
    let Some(plan) = planned else {
        let all = disks.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| {
            invalid("its members have no labels, so none of them can be missing".to_owned())
        })?;
        let note = "this array keeps no labels on its members: nothing tells whether they are the \
                    right ones, in their order and up to date";
        return Ok((spec.build_any(all)?, vec![note.to_owned()]));
    };
    let mut taken = Vec::new();
    let mut labels = Vec::new();
    let mut newcomer = None;
    for (place, label) in plan.members {
        if let Some(disk) = disks[place].take().filter(|_| keeps(purpose, &label)) {
            newcomer = newcomer.or((plan.newcomer == Some(place)).then_some(taken.len()));
            taken.push(disk);
            // Who only looks writes no label, and has none to take back.
            labels.push(Label { in_use: label.in_use && purpose != Purpose::Look, ..label });
        }
    }
    let disk = match spec.kind {
        ArrayKind::Stripe { chunk_bytes } => {
            let member_bytes = labels.iter().map(|label| label.member_bytes).min().unwrap_or(0);
            let whole_runs = labels.first().and_then(|label| label.whole_runs);
            let stripe = Stripe::labelled(taken, (chunk_bytes, whole_runs), member_bytes)?;
            AnyArray::Stripe(Box::new(stripe))
        }
        ArrayKind::Mirror { policy, .. } => {
            let mirror = Mirror::labelled(taken, policy, labels, (plan.unsure, plan.missed))?;
            let mirror = mirror.replacing(newcomer);
            let is_looked_at = purpose == Purpose::Look;
            let mirror = if is_looked_at { mirror.only_looked_at() } else { mirror };
            AnyArray::Mirror(Box::new(mirror))
        }
    };
    Ok((disk, plan.notes))
}

/// Reads the labels, decides what they mean, and writes those that change; none without labels.
pub(super) fn prepare<D: Disk>(
    spec: &ArraySpec,
    disks: &mut [Option<D>],
    purpose: Purpose,
    run: RunOne<'_, D>,
) -> Result<Option<Plan>, DiskError> {
    let (mut found, mut read) = (Vec::new(), Vec::new());
    for disk in disks.iter_mut() {
        let Some(disk) = disk else {
            found.push(Found::Missing);
            continue;
        };
        let label = read_label(disk, run)?;
        let place = found.len();
        found.push(label.as_ref().map_or(Found::Unlabelled, |read| Found::Labelled(read.label)));
        read.extend(label.map(|label| (place, label)));
    }
    if matches!(purpose, Purpose::Make { .. }) && spec.replaced().is_some() {
        let problem = "expected a mirror of which no member is being replaced, found ?replace=";
        return Err(invalid(problem.to_owned()));
    }
    let sequence = found.iter().filter_map(|member| member.label()).map(|label| label.sequence);
    let sequence = sequence.max().unwrap_or(0) + 1;
    let mut planned = match purpose {
        Purpose::Make { array_id, anew: true, .. } => fresh(spec, disks, array_id, sequence),
        Purpose::Make { array_id, anew: false, .. } => match plan(spec, &found).map_err(invalid)? {
            None => fresh(spec, disks, array_id, sequence),
            planned => planned,
        },
        Purpose::Look | Purpose::Use => plan(spec, &found).map_err(invalid)?,
    };
    if let (Some(plan), Purpose::Make { whole_runs, .. }) = (&mut planned, purpose) {
        plan.members.iter_mut().for_each(|(_, label)| {
            label.whole_runs = whole_runs.filter(|_| !label.is_mirror());
        });
    }
    let is_kept = match (purpose, spec.kind) {
        (Purpose::Make { anew, .. }, _) if anew => false,
        (_, ArrayKind::Mirror { .. }) => planned.as_ref().is_some_and(|plan| !plan.is_taken),
        (_, ArrayKind::Stripe { .. }) => false,
    };
    if let Some(plan) = planned.as_mut().filter(|_| is_kept) {
        plan.know_missed(spec, read);
    }
    if let Some(plan) = planned.as_mut().filter(|_| purpose != Purpose::Look) {
        spare_the_newest(plan, &found);
        let is_new = |(place, label): &&(usize, Label)| found[*place] != Found::Labelled(*label);
        let changed: Vec<_> = plan.members.iter().filter(is_new).collect();
        if let (Purpose::Use, ArrayKind::Stripe { .. }) = (purpose, spec.kind) {
            raise_stripe(spec, disks, plan, run)?;
        } else {
            write_labels(spec, disks, (changed, &plan.missed, plan.newcomer), run)?;
        }
    }
    Ok(planned)
}

/// Writes the labels of a stripe, whose first member says before and after that the others get theirs.
fn raise_stripe<D: Disk>(
    spec: &ArraySpec,
    disks: &mut [Option<D>],
    plan: &mut Plan,
    run: RunOne<'_, D>,
) -> Result<(), DiskError> {
    let Some((first, others)) = plan.members.split_first_mut() else { return Ok(()) };
    let begun = (first.0, Label { in_use: true, ..first.1 });
    first.1.sequence += 1;
    for labels in [vec![&begun], others.iter().collect(), vec![&*first]] {
        write_labels(spec, disks, (labels, &plan.missed, None), run)?;
    }
    Ok(())
}

/// Labels that are written go into the slot that the newest one of their member is not in. A member that was away for a
/// while has an older one, and the next sequence of all may have that one's slot: torn, it would be gone, and the one before
/// it in the other slot says what was long ago.
fn spare_the_newest(plan: &mut Plan, found: &[Found]) {
    for (place, label) in &mut plan.members {
        let before = found[*place].label().filter(|before| *before != *label);
        let is_over_it = before.is_some_and(|before| before.slot_offset() == label.slot_offset());
        label.sequence += u64::from(is_over_it);
    }
}

/// Whether a member is used: one that would have to be copied to is of no use to a reader.
fn keeps(purpose: Purpose, label: &Label) -> bool {
    purpose != Purpose::Look || !label.is_mirror() || label.counts(label.index)
}

/// Labels for disks that have none; none if one of them has no room, or keeps no content.
fn fresh<D: Disk>(
    spec: &ArraySpec,
    disks: &[Option<D>],
    array_id: [u8; 16],
    sequence: u64,
) -> Option<Plan> {
    let rooms: Option<Vec<u64>> = disks
        .iter()
        .map(|disk| Label::offset(disk.as_ref()?.properties().capacity_bytes))
        .collect();
    let member_bytes = rooms?.into_iter().min()?;
    let (chunk_bytes, count) = match spec.kind {
        ArrayKind::Stripe { chunk_bytes } => (chunk_bytes, disks.len()),
        ArrayKind::Mirror { .. } => (0, disks.len()),
    };
    let in_sync = u32::MAX >> (32 - count.clamp(1, 32));
    let label = |index: usize| Label {
        array_id,
        sequence,
        generation: 1,
        member_bytes,
        chunk_bytes,
        synced_bytes: member_bytes,
        count: count as u16,
        index: index as u16,
        in_sync,
        in_use: false,
        whole_runs: None,
        taken: 0,
    };
    let members = (0..count).map(|index| (index, label(index))).collect();
    Some(Plan { members, ..Plan::of(member_bytes) })
}

fn write_labels<D: Disk>(
    spec: &ArraySpec,
    disks: &mut [Option<D>],
    (mut order, missed, successor): (Vec<&(usize, Label)>, &Missed, Option<usize>),
    run: RunOne<'_, D>,
) -> Result<(), DiskError> {
    order.sort_by_key(|(_, label)| !label.counts(label.index));
    for (place, label) in order {
        let Some(disk) = &mut disks[*place] else { continue };
        let room = Label::offset(disk.properties().capacity_bytes);
        let Some(offset) = room.filter(|offset| *offset >= label.member_bytes) else {
            return Err(invalid(format!(
                "{}: expected at least {} bytes, as much as the other members have, found {}",
                spec.members[*place],
                label.member_bytes + LABEL_BYTES,
                disk.properties().capacity_bytes
            )));
        };
        let offset = offset + label.slot_offset();
        let slot = missed.slot(label, successor == Some(*place));
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&slot).freeze())];
        run(disk, Command::Write { offset, parts, durable: true })?;
    }
    Ok(())
}

pub(super) fn invalid(detail: String) -> DiskError {
    DiskError { kind: DiskErrorKind::Invalid, detail }
}
