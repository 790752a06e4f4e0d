//! Inputs for the decoders: valid encodings, made by the encoders.

use crate::decoders::{BLOCK_BYTES, COUNT_BYTES, MAP_DEVICE_BYTES, VOLUME_ID};
use nearhead_arrays::Label;
use nearhead_format::backup::BackupHead;
use nearhead_format::blank_map::{BLANK_UNIT_BYTES, BLANK_UNIT_WORDS, encode_unit};
use nearhead_format::record::{Claim, Fragment, NO_POSITION, SectorRange, WriteItem};
use nearhead_format::snapshot::{
    BodyItem, BodySummary, BodyWriter, CELL_CONTENT_BYTES, FragmentCell, HintRange, LogState,
};
use nearhead_format::{
    AckMode, BlankMapHeader, Entry, Label as Name, Layout, LayoutOptions, MapDevice, Place,
    RecordHeader, SnapshotHeader, Superblock,
};
use nearhead_volume::{DEFAULT_PRESET, NamedPreset, PRESETS};

/// A block as an input: the choice, then all up to the last byte that says anything; the checksum
/// is left to the target.
fn block_input(choice: u8, block: &[u8]) -> Vec<u8> {
    let said = &block[..block.len().min(BLOCK_BYTES - 4)];
    let end = said.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    [&[choice | 1], &said[..end]].concat()
}

pub(crate) fn superblock() -> Vec<Vec<u8>> {
    let mut presets = PRESETS.to_vec();
    presets.dedup_by_key(|preset| preset.number);
    let mut seeds = Vec::new();
    // The default one once more, with fragments.
    let presets = presets.into_iter().map(|preset| (preset, false));
    let last = NamedPreset::by_name(DEFAULT_PRESET).ok().map(|preset| (preset, true));
    for (index, (preset, fragments)) in (0_u8..).zip(presets.chain(last)) {
        let mut options = LayoutOptions { fragments, ..LayoutOptions::new(preset.layout) };
        options.non_shingled_bytes = preset.layout.is_for_shingled().then_some(64 << 20);
        let Ok(layout) = Layout::plan(1 << 30, &options) else { continue };
        let superblock = Superblock {
            volume_id: VOLUME_ID,
            generation: 3,
            created_unix_s: 1_700_000_000,
            layout,
            preset: preset.number,
            ack: if index % 2 == 0 { AckMode::Durable } else { AckMode::Flush },
            logged_write_bytes_max: 32 << 10,
            feature_incompat: nearhead_format::superblock::features_of(&layout),
            feature_ro_compat: u64::from(index == 4),
            label: Name::new("a disk").unwrap_or_default(),
            map_device_id: (index == 2).then_some([9; 16]),
        };
        let copy = index % 3;
        seeds.push(block_input(copy << 1, &superblock.encode(u32::from(copy))));
    }
    seeds
}

pub(crate) fn record_header() -> Vec<Vec<u8>> {
    let range = |start_sector, len_sectors| SectorRange { start_sector, len_sectors };
    let plain = RecordHeader {
        volume_id: VOLUME_ID,
        sequence: 12,
        log_index: 3,
        position: 40,
        previous_position: NO_POSITION,
        oldest_live_position: 8,
        writes: vec![WriteItem::Chunk { home_sector: 8, len_sectors: 8, crc: 0x1234_5678 }],
        ..RecordHeader::default()
    };
    let everything = RecordHeader {
        flags: 2,
        writes: vec![
            WriteItem::Chunk { home_sector: 17, len_sectors: 3, crc: 1 },
            WriteItem::Zeros { home_sector: 64, run_sectors: 4000 },
        ],
        invalidations: vec![range(8, 8), range(800, 16)],
        claims: vec![Claim { log_index: 4, position: 0 }],
        echo: vec![range(0, 1)],
        ..plain.clone()
    };
    let fragment =
        |home_sector, offset, bytes: &[u8]| Fragment { home_sector, offset, bytes: bytes.into() };
    let fragments = RecordHeader {
        fragments: vec![
            fragment(8, 0, b"a"),
            fragment(15, 500, &[7; 12]),
            fragment(64, 511, &[1; 2]),
        ],
        ..plain.clone()
    };
    let mut seeds = Vec::new();
    let empty = RecordHeader::default();
    for (header, block) in [(plain, 512), (everything, 4096), (empty, 512), (fragments, 512)] {
        let mut bytes = vec![0; header.encoded_bytes(block)];
        header.encode_into(&mut bytes);
        seeds.push(block_input(0, &bytes));
    }
    seeds
}

fn items() -> Vec<BodyItem> {
    let log = |chunk_sector, chunk_len, offset| Place::Log { chunk_sector, chunk_len, offset };
    let entry = |home_sector, len_sectors, place, crc| {
        BodyItem::Entry(Entry { home_sector, len_sectors, place, crc })
    };
    let cell = |home_byte, content: &[u8]| {
        let mut bytes = [0; CELL_CONTENT_BYTES];
        bytes[..content.len()].copy_from_slice(content);
        let len = content.len() as u8;
        BodyItem::Fragment(FragmentCell { home_byte, record_sector: 4096, len, bytes })
    };
    vec![
        entry(0, 8, log(4096, 8, 0), 77),
        entry(9, 3, log(8192, 7, 1), 78),
        entry(16, 8, Place::Zero, 0),
        entry(31, 1, Place::Poisoned, 0),
        entry(40, 8, Place::Home, 0),
        BodyItem::Log(LogState { log_index: 0, position: 8 }),
        BodyItem::Log(LogState { log_index: 2, position: 0 }),
        BodyItem::Claim(2),
        BodyItem::Hint(HintRange { start_sector: 64, len_sectors: 640 }),
        cell(40 * 512 + 7, b"piece"),
        cell(47 * 512 + 500, &[9; 12]),
    ]
}

fn body() -> (BodySummary, Vec<u8>) {
    let mut writer = BodyWriter::new();
    let mut body = vec![0; 2 * BLOCK_BYTES];
    let filled = writer.fill(&mut body, &mut items().into_iter()).unwrap_or(0);
    body.truncate(filled);
    (writer.summary().unwrap_or_default(), body)
}

pub(crate) fn snapshot_header() -> Vec<Vec<u8>> {
    let header = |snapshot_number, flags, body| SnapshotHeader {
        volume_id: VOLUME_ID,
        snapshot_number,
        record_sequence: 40,
        flags,
        body,
    };
    vec![
        block_input(0, &header(4, 0, body().0).encode()),
        block_input(2, &header(5, 1, BodySummary::default()).encode()),
    ]
}

pub(crate) fn snapshot_body() -> Vec<Vec<u8>> {
    let input = |choice: u8, counts: [u8; COUNT_BYTES], body: &[u8]| {
        let block = block_input(choice, body);
        [&block[..1], &counts[..], &block[1..]].concat()
    };
    let (summary, body) = body();
    let counts = [summary.entry_count as u8, 2, 1, 1, summary.fragment_count as u8];
    vec![
        input(2 * 6, counts, &body),
        input(2 * 127, counts, &body),
        input(0, [0; COUNT_BYTES], &[]),
    ]
}

pub(crate) fn map_device() -> Vec<Vec<u8>> {
    let device = MapDevice::plan(MAP_DEVICE_BYTES, VOLUME_ID, [9; 16]);
    device.iter().map(|device| block_input(0, &device.encode())).collect()
}

pub(crate) fn blank_map() -> Vec<Vec<u8>> {
    let header = BlankMapHeader { volume_id: VOLUME_ID, region_bytes: 1 << 20 };
    let mut bits = [u64::MAX; BLANK_UNIT_WORDS];
    bits[7] = 0x0102_0304;
    let unit = encode_unit(&VOLUME_ID, 5, &bits);
    vec![
        block_input(0, &header.encode()),
        block_input(2 | 5 << 2, &unit[..BLANK_UNIT_BYTES - 4]),
        block_input(2, &encode_unit(&VOLUME_ID, 0, &[0; BLANK_UNIT_WORDS])[..24]),
    ]
}

pub(crate) fn metadata_backup() -> Vec<Vec<u8>> {
    let Ok(preset) = NamedPreset::by_name(DEFAULT_PRESET) else { return Vec::new() };
    let Ok(layout) = Layout::plan(1 << 30, &LayoutOptions::new(preset.layout)) else {
        return Vec::new();
    };
    let superblock = Superblock {
        volume_id: VOLUME_ID,
        generation: 1,
        created_unix_s: 1_700_000_000,
        layout,
        preset: preset.number,
        ack: AckMode::Flush,
        logged_write_bytes_max: 32 << 10,
        feature_incompat: nearhead_format::superblock::features_of(&layout),
        feature_ro_compat: nearhead_format::superblock::FEATURE_LOGS_TELL_ALL,
        label: Name::default(),
        map_device_id: None,
    };
    let (summary, body) = body();
    let snapshot = SnapshotHeader {
        volume_id: VOLUME_ID,
        snapshot_number: 4,
        record_sequence: 40,
        flags: 0,
        body: summary,
    };
    let head = BackupHead {
        volume_id: VOLUME_ID,
        made_unix_s: 1_700_000_000,
        snapshot_number: 4,
        body_bytes: summary.body_bytes,
    };
    let parts = [head.encode(), superblock.encode(0), snapshot.encode()];
    let mut seed = vec![15];
    let said = |part: &[u8]| part[..BLOCK_BYTES - 4].iter().rposition(|byte| *byte != 0);
    let lengths = parts.map(|part| said(&part).map_or(0, |last| last + 1));
    for len in lengths {
        seed.extend((len as u16).to_le_bytes());
    }
    for (part, len) in parts.iter().zip(lengths) {
        seed.extend_from_slice(&part[..len]);
    }
    let end = body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    seed.extend_from_slice(&body[..end]);
    vec![seed]
}

pub(crate) fn array_label() -> Vec<Vec<u8>> {
    let mirror = Label {
        array_id: [5; 16],
        sequence: 6,
        generation: 3,
        member_bytes: 1 << 30,
        chunk_bytes: 0,
        synced_bytes: 1 << 30,
        count: 2,
        index: 1,
        in_sync: 3,
        in_use: false,
        whole_runs: None,
        taken: 0,
    };
    let stripe = Label { chunk_bytes: 64 << 10, count: 4, in_sync: 15, ..mirror };
    let older = Label { sequence: 5, ..mirror }.encode();
    let both = [&[2], &older[..128], &block_input(0, &mirror.encode())[1..]].concat();
    let mut both = both;
    both[0] |= 1;
    let used = Label { in_use: true, ..mirror };
    let labels = [mirror, stripe, used].map(|label| block_input(0, &label.encode()));
    labels.into_iter().chain([both, noted(&mirror)]).collect()
}

/// With what the other member missed: two regions of 64 KiB.
fn noted(label: &Label) -> Vec<u8> {
    let mut slot = label.encode();
    slot[512..520].copy_from_slice(b"NHMISSED");
    slot[536..544].copy_from_slice(&(64_u64 << 10).to_le_bytes());
    slot[544] = 2;
    slot[800] = 0b101;
    block_input(4, &slot)
}
