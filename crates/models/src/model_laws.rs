//! Laws that every kind of modelled disk keeps, as functions for the tests of each kind.
//!
//! Each takes a way to make the disk (with its write cache on or off) and the ranges of bytes to
//! work in, so that a kind can name its interesting places.

use crate::model::Model;
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Nanos, Payload, Submission, Ticket,
};
use std::collections::HashMap;
use std::ops::Range;

pub(crate) type Make<'a> = &'a dyn Fn(bool) -> Box<dyn Model>;

pub(crate) fn give(disk: &mut dyn Model, id: u64, command: Command, now: Nanos) {
    let ticket = Ticket::new(CommandId(id));
    disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
}

/// Lets time pass until something completes.
pub(crate) fn next(disk: &mut dyn Model) -> (Nanos, Completion) {
    loop {
        let at = disk.wake_at().expect("a command is outstanding");
        if let Some(completion) = disk.poll(at) {
            return (at, completion);
        }
    }
}

/// Runs one command alone; when it was answered.
pub(crate) fn run(disk: &mut dyn Model, at: Nanos, command: Command) -> Nanos {
    give(disk, 0, command, at);
    let (at, completion) = next(disk);
    completion.result.unwrap();
    at
}

pub(crate) fn write(offset: u64, byte: u8, len: usize, durable: bool) -> Command {
    let bytes = BufferMut::copy_of(&vec![byte; len]).freeze();
    Command::Write { offset, parts: vec![Payload::Bytes(bytes)], durable }
}

pub(crate) fn read(disk: &mut dyn Model, at: Nanos, range: Range<u64>) -> (Nanos, Vec<u8>) {
    let len = (range.end - range.start) as u32;
    give(disk, 0, Command::Read { offset: range.start, len }, at);
    let (at, completion) = next(disk);
    match completion.result.unwrap() {
        Payload::Bytes(bytes) => (at, bytes.to_vec()),
        other => panic!("expected bytes, found {other:?}"),
    }
}

fn place(random: &mut SplitMix, places: &[Range<u64>], most: u64) -> Range<u64> {
    let range = &places[random.below(places.len() as u64) as usize];
    let len = (1 + random.below(most.min(range.end - range.start) / 512)) * 512;
    let offset = range.start + random.below((range.end - range.start - len) / 512 + 1) * 512;
    offset..offset + len
}

/// Reads return the last write that was answered, in both modes of the cache, through pauses in
/// which the disk works for itself.
pub(crate) fn reads_return_the_last_write(make: Make<'_>, places: &[Range<u64>], pause: Nanos) {
    for (seed, cache) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut disk = make(cache);
        let mut flat: HashMap<u64, u8> = HashMap::new();
        let mut random = SplitMix::new(seed);
        let mut at = Nanos::ZERO;
        for step in 0..150 {
            at += Nanos(random.below(20_000_000));
            if random.below(20) == 0 {
                at += pause;
            }
            let range = place(&mut random, places, 64 << 10);
            let sectors = range.clone().step_by(512);
            let len = (range.end - range.start) as usize;
            match random.below(8) {
                0 => at = run(&mut disk, at, Command::Flush),
                1 => {
                    let (offset, len) = (range.start, len as u64);
                    at = run(&mut disk, at, Command::WriteZeroes { offset, len, durable: false });
                    sectors.for_each(|sector| {
                        flat.insert(sector, 0);
                    });
                }
                2..=4 => {
                    let (done, found) = read(&mut disk, at, range.clone());
                    at = done;
                    for (sector, bytes) in sectors.zip(found.chunks(512)) {
                        let expected = flat.get(&sector).copied().unwrap_or(0);
                        let wrong = bytes.iter().find(|&&byte| byte != expected);
                        let place = format!("seed {seed}, cache {cache}, step {step}");
                        assert_eq!(wrong, None, "{place}, byte {sector}: expected {expected}");
                    }
                }
                kind => {
                    let byte = random.next_u64() as u8;
                    at = run(&mut disk, at, write(range.start, byte, len, kind == 5));
                    sectors.for_each(|sector| {
                        flat.insert(sector, byte);
                    });
                }
            }
        }
    }
}

/// Polling late changes neither times nor bytes nor order.
pub(crate) fn polling_late_changes_nothing(make: Make<'_>, places: &[Range<u64>]) {
    for (seed, cache) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let outcome = |often: bool| {
            let mut disk = make(cache);
            let mut random = SplitMix::new(seed);
            let mut results = Vec::new();
            let mut now = Nanos::ZERO;
            for id in 1..200_u64 {
                let pause = if random.below(30) == 0 { 3_000_000_000 } else { 8_000_000 };
                let at = now + Nanos(random.below(pause));
                while often && let Some(wake) = disk.wake_at().filter(|&wake| wake <= at) {
                    let done = disk.poll(wake);
                    results.extend(done.map(|done| (done.id.0, format!("{:?}", done.result))));
                }
                let range = place(&mut random, places, 64 << 10);
                let len = range.end - range.start;
                let command = match random.below(8) {
                    0 => Command::Flush,
                    1..=3 => Command::Read { offset: range.start, len: len as u32 },
                    kind => write(range.start, id as u8, len as usize, kind == 4),
                };
                give(&mut disk, id, command, at);
                now = at;
            }
            while let Some(done) = disk.poll(now + Nanos::from_secs(3600)) {
                results.push((done.id.0, format!("{:?}", done.result)));
            }
            (results, format!("{:?}", disk.report()))
        };
        let (exact, late) = (outcome(true), outcome(false));
        assert!(exact == late, "seed {seed}, cache {cache}");
        assert_eq!(exact.0.len(), 199, "seed {seed}: every command completes once");
    }
}

/// After a power cut what was durable is there, and every other sector is old or new.
pub(crate) fn a_power_cut_tears_only_what_was_not_safe(make: Make<'_>, area: &Range<u64>) {
    let sectors = ((area.end - area.start) / 512).min(128) as usize;
    let (mut lost, mut kept) = (0, 0);
    for (seed, cache) in (0..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut disk = make(cache);
        let mut random = SplitMix::new(seed);
        // Per sector: the newest that must survive, the newest answered, all that were ever sent.
        let mut safe = vec![0_u8; sectors];
        let mut answered = vec![0_u8; sectors];
        let mut sent = vec![vec![0_u8]; sectors];
        let mut waiting: HashMap<u64, (Range<usize>, bool)> = HashMap::new();
        let mut flushing: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut now = Nanos::ZERO;
        for id in 1..40_u64 {
            let count = 1 + random.below(8) as usize;
            let first = random.below((sectors - count) as u64) as usize;
            let range = first..first + count;
            let clash = |(other, _): &(Range<usize>, bool)| {
                other.start < range.end && range.start < other.end
            };
            if random.below(6) == 0 {
                flushing.insert(id, answered.clone());
                give(&mut disk, id, Command::Flush, now);
            } else if !waiting.values().any(clash) {
                let durable = random.below(3) == 0;
                let offset = area.start + first as u64 * 512;
                give(&mut disk, id, write(offset, id as u8, count * 512, durable), now);
                range.clone().for_each(|sector| sent[sector].push(id as u8));
                waiting.insert(id, (range, durable || !cache));
            }
            now += Nanos(random.below(6_000_000));
            while let Some(completion) = disk.poll(now) {
                completion.result.unwrap();
                if let Some((range, durable)) = waiting.remove(&completion.id.0) {
                    for sector in range {
                        answered[sector] = completion.id.0 as u8;
                        if durable {
                            safe[sector] = completion.id.0 as u8;
                        }
                    }
                }
                for (sector, covered) in
                    flushing.remove(&completion.id.0).unwrap_or_default().into_iter().enumerate()
                {
                    safe[sector] = safe[sector].max(covered);
                }
            }
        }
        disk.power_cut(now, &mut random).unwrap();
        assert_eq!(disk.report().power_cuts(), 1);
        let (_, found) = read(&mut disk, now, area.start..area.start + sectors as u64 * 512);
        for (sector, bytes) in found.chunks(512).enumerate() {
            let byte = bytes[0];
            assert!(bytes.iter().all(|&other| other == byte), "a sector is never torn inside");
            let may = byte >= safe[sector] && sent[sector].contains(&byte);
            let place = format!("seed {seed}, cache {cache}, sector {sector}");
            assert!(may, "{place}: found {byte}, safe {}, sent {:?}", safe[sector], sent[sector]);
            let newest = sent[sector].last().copied().unwrap_or(0);
            lost += usize::from(byte < newest);
            kept += usize::from(byte > safe[sector]);
        }
    }
    assert!(lost > 20 && kept > 20, "both must happen: {lost} lost, {kept} kept");
}
