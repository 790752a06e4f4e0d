//! How long the codecs take on the write path and in recovery. Prints nanoseconds; asserts nothing.

use nearhead_format::record::WriteItem;
use nearhead_format::snapshot::{BodyItem, BodyReader, BodyWriter};
use nearhead_format::{Entry, Layout, LayoutKind, LayoutOptions, Place, RecordHeader, crc};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    records();
    addresses();
    snapshots();
}

/// Best of several rounds, which leaves out what other programs did meanwhile.
fn measure(name: &str, repeats: u32, mut work: impl FnMut()) {
    let mut best_ns = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..repeats {
            work();
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(repeats));
    }
    println!("{name:<48} {best_ns:>12.1} ns");
}

fn records() {
    for (writes, log_block_bytes) in [(1, 512), (1, 4096), (30, 512), (64, 4096)] {
        let write = WriteItem::Chunk { home_sector: 800, len_sectors: 8, crc: 1 };
        let record = RecordHeader { writes: vec![write; writes], ..RecordHeader::default() };
        let mut bytes = vec![0; record.encoded_bytes(log_block_bytes)];
        measure(&format!("encode {writes} writes, {log_block_bytes} B"), 100_000, || {
            black_box(&record).encode_into(black_box(&mut bytes));
        });
        measure(&format!("decode {writes} writes, {log_block_bytes} B"), 100_000, || {
            black_box(RecordHeader::decode(black_box(&bytes)).is_ok());
        });
    }
    let chunk = vec![7; 4096];
    measure("checksum of a 4 KiB chunk", 100_000, || {
        black_box(crc::chunk_crc(black_box(8), black_box(&chunk)));
    });
}

fn addresses() {
    let layout = Layout::plan(1_000_204_886_016, &LayoutOptions::new(LayoutKind::ManyLogs));
    let Ok(layout) = layout else { return };
    let mut offset = 0;
    measure("home of a client offset", 1_000_000, || {
        offset = (offset + 987_654_321 * 4096) % layout.client_bytes();
        black_box(layout.home(black_box(offset)));
    });
    measure("ten nearest logs", 100_000, || {
        offset = (offset + 987_654_321 * 4096) % layout.client_bytes();
        black_box(layout.logs_near(black_box(offset)).take(10).sum::<u32>());
    });
}

fn snapshots() {
    const ENTRIES: u64 = 1_000_000;
    let entries = || {
        (0..ENTRIES).map(|block| {
            let place = Place::Log { chunk_sector: block * 9 + 1, chunk_len: 8, offset: 0 };
            BodyItem::Entry(Entry { home_sector: block * 8, len_sectors: 8, place, crc: 5 })
        })
    };
    let mut piece = vec![0; 1 << 20];
    let mut body = Vec::new();
    let mut summary = None;
    measure("write a body of a million entries", 1, || {
        let (mut writer, mut items) = (BodyWriter::new(), entries());
        body.clear();
        while let Ok(filled @ 1..) = writer.fill(&mut piece, &mut items) {
            body.extend_from_slice(&piece[..filled]);
        }
        summary = writer.summary();
    });
    let Some(summary) = summary else { return };
    measure("read a body of a million entries", 1, || {
        let mut reader = BodyReader::new(summary);
        let mut sum = 0;
        for piece in body.chunks(1 << 20) {
            let count = &mut |item| sum += u64::from(matches!(item, BodyItem::Entry(_)));
            black_box(reader.feed(piece, count).is_ok());
        }
        assert_eq!((reader.finish(), sum), (Ok(()), ENTRIES));
    });
}
