//! A stream of bytes: what was synced survives every crash, what was cut off never comes back.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_uring::IoPriority;
use nearhead_wal::storage::{Access, Directory, Memory, SectorFate, Storage};
use nearhead_wal::writer::{JobThread, PlainWriter};
use nearhead_wal::{At, Result, Stream, StreamOptions, Tail, WalErrorKind};
use std::path::Path;
use std::sync::Arc;
use support::cuts;

const NAME: &str = "stream";

fn options(ahead_bytes: u64) -> StreamOptions {
    StreamOptions { ahead_bytes, ahead_by_thread: false, buffer_bytes: 8192 }
}

fn open(storage: &Memory, at: At, ahead_bytes: u64) -> Result<Stream> {
    Stream::open(Arc::new(storage.clone()), NAME, at, &options(ahead_bytes), None)
}

fn content(storage: &Memory) -> Vec<u8> {
    let file = storage.open(NAME, Access::Read).unwrap();
    let mut bytes = vec![0; file.len_bytes().unwrap() as usize];
    file.read(0, &mut bytes).unwrap();
    bytes
}

fn bytes_of(random: &mut SplitMix, len: usize) -> Vec<u8> {
    (0..len).map(|_| (random.next_u64() as u8).max(1)).collect()
}

/// Writes, syncs and truncates until an error. Returns all bytes, how many were acknowledged, and
/// the length that a truncation under way was to leave.
fn run(mut stream: Stream, random: &mut SplitMix) -> (Vec<u8>, usize, Option<usize>) {
    let (mut all, mut durable) = (Vec::new(), 0);
    for _ in 0..14 {
        let outcome = match random.below(6) {
            0..3 => {
                let len = random.below(6000) as usize;
                let more = bytes_of(random, len);
                all.extend_from_slice(&more);
                stream.write(&more)
            }
            3 | 4 => stream.sync().map(|to| durable = to as usize),
            _ => {
                let len = random.below(all.len() as u64 + 1) as usize;
                if let Err(error) = stream.truncate(len as u64) {
                    let _ = error;
                    return (all, durable.min(len), Some(len));
                }
                all.truncate(len);
                durable = len;
                Ok(())
            }
        };
        if outcome.is_err() {
            break;
        }
    }
    (all, durable, None)
}

#[test]
fn what_was_synced_survives_every_crash_and_the_rest_is_a_beginning_or_zeros() {
    let mut images = 0;
    for seed in 0..300 {
        let ahead_bytes = if seed % 2 == 0 { 0 } else { 4096 };
        let mut random = SplitMix::new(seed);
        let storage = Memory::new();
        storage.lose_power_at(2 + random.below(12));
        let Ok(stream) = open(&storage, At::New, ahead_bytes) else { continue };
        let (all, durable, cut_to) = run(stream, &mut random);
        for mut cut in cuts(&storage, Tail::Rewritten, 12, &mut random) {
            // A sector of a block that is written again is old or new: the device's promise.
            let garbled = cut.sectors.iter_mut().filter(|fate| **fate == SectorFate::Garbled);
            garbled.for_each(|fate| *fate = SectorFate::Old);
            images += 1;
            let found = content(&storage.cut(&cut));
            let context = format!("seed {seed}, durable {durable} of {}, {cut:?}", all.len());
            assert!(found.len() >= durable, "{context}");
            assert!(found[..durable] == all[..durable], "{context}");
            for (at, byte) in found.iter().enumerate().skip(durable) {
                let written = all.get(at).copied().unwrap_or(0);
                assert!(*byte == 0 || *byte == written || cut_to.is_some(), "{context}, byte {at}");
            }
        }
    }
    assert!(images > 2000, "{images}");
}

#[test]
fn what_was_cut_off_never_comes_back() {
    for ahead_bytes in [0, 4096] {
        let storage = Memory::new();
        let mut random = SplitMix::new(1);
        let mut stream = open(&storage, At::New, ahead_bytes).unwrap();
        stream.write(&bytes_of(&mut random, 20_000)).unwrap();
        stream.sync().unwrap();
        stream.truncate(5000).unwrap();
        drop(stream);
        let found = content(&storage);
        assert!(found[5000..].iter().all(|byte| *byte == 0));
        let stream = open(&storage, At::Position(3), ahead_bytes).unwrap();
        assert_eq!(stream.close().unwrap(), 3);
        assert_eq!(content(&storage), found[..3]);
    }
}

#[test]
fn a_stream_reads_what_it_holds_durable_or_not() {
    let storage = Memory::new();
    let mut random = SplitMix::new(2);
    let all = bytes_of(&mut random, 30_000);
    let mut stream = open(&storage, At::New, 4096).unwrap();
    for piece in all.chunks(777) {
        stream.write(piece).unwrap();
    }
    assert_eq!(stream.position(), 30_000);
    assert!(stream.durable_position() < 30_000);
    for (offset, len) in [(0, 30_000), (4090, 10), (29_990, 50), (12_345, 6789), (30_000, 5)] {
        let mut memory = vec![0; len];
        let read = stream.read_at(offset as u64, &mut memory).unwrap();
        assert_eq!(memory[..read], all[offset..(offset + len).min(30_000)]);
    }
    assert_eq!(stream.close().unwrap(), 30_000);
    assert_eq!(content(&storage), all);
    let mut stream = open(&storage, At::End, 4096).unwrap();
    stream.write(b"more").unwrap();
    assert_eq!(stream.close().unwrap(), 30_004);
    assert_eq!(content(&storage), [&all[..], b"more"].concat());
}

#[test]
fn after_a_failed_write_a_stream_is_stopped_but_not_by_a_full_disk() {
    let storage = Memory::new();
    let mut stream = open(&storage, At::New, 4096).unwrap();
    stream.write(b"safe").unwrap();
    stream.sync().unwrap();
    storage.set_capacity(Some(300 << 10));
    stream.write(&[1; 7000]).unwrap();
    let error = loop {
        if let Err(error) = stream.write(&[1; 7000]).and_then(|()| stream.sync()) {
            break error;
        }
    };
    assert_eq!(error.kind, WalErrorKind::NoSpace);
    storage.set_capacity(None);
    assert_eq!(stream.sync().unwrap(), stream.position(), "with room it goes on");
    stream.write(b"lost").unwrap();
    storage.fail_at(storage.operations(), WalErrorKind::Io);
    assert_eq!(stream.sync().unwrap_err().kind, WalErrorKind::Io);
    let operations = storage.operations();
    assert_eq!(stream.sync().unwrap_err().kind, WalErrorKind::Stopped);
    assert_eq!(storage.operations(), operations, "the sync alone is never tried again");
}

#[test]
fn a_second_stream_is_kept_out() {
    let storage = Memory::new();
    let stream = open(&storage, At::New, 0).unwrap();
    assert_eq!(open(&storage, At::End, 0).map(drop).unwrap_err().kind, WalErrorKind::InUse);
    drop(stream);
    assert!(open(&storage, At::End, 0).is_ok());
    let error = open(&storage, At::Position(1), 0).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::OutOfRange);
}

#[test]
fn a_stream_in_a_real_file_is_that_file() {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wal-stream-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    let storage = Arc::new(Directory::open(&path, true, Arc::new(PlainWriter)).unwrap());
    let mut random = SplitMix::new(3);
    let mut all = Vec::new();
    for life in 0..3 {
        let writer = JobThread::start(IoPriority::REAL_TIME).unwrap();
        let at = if life == 0 { At::New } else { At::End };
        let options = StreamOptions { ahead_bytes: 256 << 10, ..StreamOptions::default() };
        let mut stream = Stream::open(storage.clone(), NAME, at, &options, Some(writer)).unwrap();
        for _ in 0..20 {
            let len = random.below(60_000) as usize;
            let more = bytes_of(&mut random, len);
            stream.write(&more).unwrap();
            all.extend_from_slice(&more);
            assert_eq!(stream.sync().unwrap(), all.len() as u64);
        }
        stream.close().unwrap();
        assert!(std::fs::read(path.join(NAME)).unwrap() == all);
    }
    std::fs::remove_dir_all(&path).unwrap();
}
