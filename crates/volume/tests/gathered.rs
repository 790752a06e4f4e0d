//! A rearranged shingled disk holds what was written to it, each byte in a place of its own.

#![allow(clippy::unwrap_used)]

use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Disk, DiskError, DiskErrorKind, Nanos,
    Payload, Properties, Region, RegionKind, Submission, Ticket, Zones,
};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_volume::GatheredDisk;

const CAPACITY_BYTES: u64 = 4 << 20;
const DEPTH: u16 = 3;

/// A disk that says where it is shingled and counts what it has to do at once.
struct Told {
    disk: InstantDisk,
    zones: Zones,
    outstanding: usize,
    /// Writes by their first byte below.
    written: Vec<(u64, u64)>,
    lost: Option<String>,
}

impl Disk for Told {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.outstanding += 1;
        assert!(self.outstanding <= usize::from(DEPTH), "more commands than the disk takes");
        if let Command::Write { offset, parts, .. } = &submission.command {
            self.written.push((*offset, nearhead_disk::total_len(parts) as u64));
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let done = self.disk.poll(now)?;
        self.outstanding -= 1;
        Some(done)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }

    fn zones(&self) -> Option<&Zones> {
        Some(&self.zones)
    }

    fn lost_writes(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        self.lost = None;
        Ok(())
    }
}

/// Free ranges of odd sizes between bands of odd sizes.
fn zones(first_is_band: bool) -> Zones {
    let (mut regions, mut offset, mut band) = (Vec::new(), 0, first_is_band);
    let mut random = SplitMix::new(8);
    while offset < CAPACITY_BYTES {
        let sectors = if band { 300 + random.below(900) } else { 40 + random.below(90) };
        let len = (sectors * 512).min(CAPACITY_BYTES - offset);
        let kind = if band {
            RegionKind::Bands { band_bytes: 101 * 512 }
        } else {
            RegionKind::NonShingled
        };
        regions.push(Region { offset, len, kind });
        (offset, band) = (offset + len, !band);
    }
    Zones::new(regions, CAPACITY_BYTES).unwrap()
}

fn disk(zones: Zones) -> GatheredDisk<Told> {
    let properties = Properties { queue_depth_max: DEPTH, ..plain_properties(CAPACITY_BYTES, 512) };
    let store = Box::new(MemoryStore::new());
    let disk = InstantDisk::new(properties, store, Nanos::from_micros(10));
    GatheredDisk::new(Told { disk, zones, outstanding: 0, written: Vec::new(), lost: None })
        .unwrap()
}

/// Carries out up to as many commands at once as the disk takes; the result of each, in order.
fn carry_out(
    disk: &mut GatheredDisk<Told>,
    commands: Vec<Command>,
    now: &mut Nanos,
) -> Vec<Completion> {
    let count = commands.len();
    for (id, command) in commands.into_iter().enumerate() {
        let ticket = Ticket::new(CommandId(id as u64));
        disk.submit(Submission { ticket, class: Class::Foreground, command }, *now);
    }
    disk.kick();
    let mut done = Vec::new();
    while done.len() < count {
        match disk.poll(*now) {
            Some(completion) => done.push(completion),
            None => *now = disk.wake_at().unwrap().max(*now),
        }
    }
    assert!(disk.poll(*now).is_none(), "one command, one answer");
    done.sort_by_key(|completion| completion.id);
    done
}

fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

#[test]
fn random_commands_read_back_what_a_flat_disk_would_hold() {
    for (seed, first_is_band) in [(1, false), (2, true), (3, false)] {
        let mut random = SplitMix::new(seed);
        let mut disk = disk(zones(first_is_band));
        let capacity = disk.properties().capacity_bytes;
        let mut flat = vec![0_u8; capacity as usize];
        let mut now = Nanos::ZERO;
        for _ in 0..2000 {
            let mut commands = Vec::new();
            let mut expected = Vec::new();
            // Of commands outstanding at once only reads may overlap.
            let reads = random.coin();
            let batch = if reads { 1 + random.below(u64::from(DEPTH)) } else { 1 };
            for _ in 0..batch {
                let sector = random.below(capacity / 512);
                let sectors = (1 + random.below(700)).min(capacity / 512 - sector);
                let (offset, len) = (sector * 512, sectors * 512);
                let range = offset as usize..(offset + len) as usize;
                if reads {
                    expected.push(flat[range].to_vec());
                    commands.push(Command::Read { offset, len: len as u32 });
                } else if random.below(4) == 0 {
                    flat[range].fill(0);
                    commands.push(Command::WriteZeroes { offset, len, durable: false });
                } else {
                    let bytes: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                    flat[range].copy_from_slice(&bytes);
                    let cut = random.below(sectors + 1) as usize * 512;
                    let part = |bytes: &[u8]| Payload::Bytes(BufferMut::copy_of(bytes).freeze());
                    let parts = vec![part(&bytes[..cut]), part(&bytes[cut..])];
                    commands.push(Command::Write { offset, parts, durable: random.coin() });
                }
            }
            for (index, done) in carry_out(&mut disk, commands, &mut now).into_iter().enumerate() {
                let read = bytes_of(&done.result.unwrap());
                assert!(!reads || read == expected[index], "seed {seed}");
            }
        }
    }
}

#[test]
fn what_is_not_shingled_comes_first_in_whole_blocks_and_bands_keep_their_sizes() {
    let told = zones(true);
    let mut disk = disk(told.clone());
    let shown = disk.zones().unwrap().clone();
    let free = shown.non_shingled_start_bytes();
    assert!(shown.non_shingled().all(|range| range.end <= free));
    let sizes = |zones: &Zones| zones.bands().map(|band| band.end - band.start).collect::<Vec<_>>();
    assert_eq!(sizes(&shown), sizes(&told));
    let mut now = Nanos::ZERO;
    for block in 0..free / 4096 {
        let parts = vec![Payload::Zeros(4096)];
        let write = Command::Write { offset: block * 4096, parts, durable: true };
        carry_out(&mut disk, vec![write], &mut now).remove(0).result.unwrap();
    }
    let written = &disk.disk().written;
    assert_eq!(written.len() as u64, free / 4096, "no block is torn in two");
    let whole = |(offset, len): &(u64, u64)| offset.is_multiple_of(4096) && *len == 4096;
    assert!(written.iter().all(whole));
    assert!(written.iter().all(|(offset, _)| told.band_at(*offset).is_none()));
    assert!(written.is_sorted(), "the order of the addresses is kept");
}

#[test]
fn past_the_end_is_an_error_and_nothing_is_carried_out() {
    let mut disk = disk(zones(false));
    let end = disk.properties().capacity_bytes;
    let mut now = Nanos::ZERO;
    for offset in [end - 512, end, u64::MAX - 511] {
        let parts = vec![Payload::Zeros(1024)];
        let write = Command::Write { offset, parts, durable: true };
        let done = carry_out(&mut disk, vec![write], &mut now).remove(0);
        let error = done.result.unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Invalid, "{error}");
    }
    assert!(disk.disk().written.is_empty());
}

#[test]
fn a_disk_with_nothing_to_gather_is_left_as_it_is() {
    let plain = InstantDisk::new(
        plain_properties(CAPACITY_BYTES, 512),
        Box::new(MemoryStore::new()),
        Nanos::ZERO,
    );
    assert!(!GatheredDisk::is_needed(&plain));
    assert!(GatheredDisk::new(plain).is_err());
    for name in ["st8000as0002-slsmr", "st8000as0002-mlsmr"] {
        let text = format!("model:{name},content=none");
        let disk = nearhead_arrays::model_from_text(&text).unwrap();
        assert_eq!(GatheredDisk::is_needed(&disk), name.ends_with("mlsmr"), "{name}");
    }
}

/// Free ranges of these lengths, each behind a band.
fn disk_with_ranges(lens: &[u64]) -> Result<GatheredDisk<Told>, DiskError> {
    let (mut regions, mut offset) = (Vec::new(), 0);
    for (len, kind) in lens.iter().flat_map(|len| {
        let bands = RegionKind::Bands { band_bytes: 101 * 512 };
        [(101 * 512, bands), (*len, RegionKind::NonShingled)]
    }) {
        regions.push(Region { offset, len, kind });
        offset += len;
    }
    regions.retain(|region| region.len > 0);
    let zones = Zones::new(regions, offset).unwrap();
    let properties = Properties { queue_depth_max: DEPTH, ..plain_properties(offset, 512) };
    let disk = InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO);
    GatheredDisk::new(Told { disk, zones, outstanding: 0, written: Vec::new(), lost: None })
}

/// A range that has no whole block: too short, or with its ends just beside one.
#[test]
fn a_range_without_a_whole_block_is_left_out_and_commands_go_across() {
    let band = 101 * 512;
    // From where the range in the middle begins.
    let to_block = 4096 - (band + 40_960 + band) % 4096;
    for len in [to_block + 512, to_block, 512, 2 * 4096] {
        let mut disk = disk_with_ranges(&[40_960, len, 40_960]).unwrap();
        let end = disk.properties().capacity_bytes;
        let mut now = Nanos::ZERO;
        let bytes: Vec<u8> = (0..end).map(|at| (at / 512) as u8).collect();
        let parts = vec![Payload::Bytes(BufferMut::copy_of(&bytes).freeze())];
        let write = Command::Write { offset: 0, parts, durable: true };
        carry_out(&mut disk, vec![write], &mut now).remove(0).result.unwrap();
        let read = Command::Read { offset: 0, len: end as u32 };
        let read = carry_out(&mut disk, vec![read], &mut now).remove(0).result.unwrap();
        assert!(bytes_of(&read) == bytes, "a range of {len} bytes");
    }
}

#[test]
fn a_disk_with_only_bands_is_refused_in_these_words() {
    for lens in [&[0][..], &[512]] {
        let Err(error) = disk_with_ranges(lens) else { panic!("{lens:?}: it was taken") };
        let told = "instant: expected a part that is not shingled, found only bands";
        assert_eq!(error.detail, told, "{lens:?}");
    }
}

#[test]
fn a_disk_may_be_dropped_while_commands_wait_for_it() {
    let mut disk = disk(zones(false));
    for id in 0..u64::from(DEPTH) + 5 {
        let ticket = Ticket::new(CommandId(id));
        let command = Command::Read { offset: 0, len: 1 << 20 };
        disk.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
    }
    drop(disk);
}

#[test]
fn a_loss_below_is_told_and_the_disk_below_starts_over() {
    let lossy = Told { lost: Some("a page".to_owned()), ..disk(zones(true)).into_disk() };
    let mut disk = GatheredDisk::new(lossy).unwrap();
    assert_eq!(disk.lost_writes(), Some("a page"));
    disk.start_over().unwrap();
    assert_eq!((disk.lost_writes(), disk.disk().lost.as_ref()), (None, None));
}
