//! Mutations as a fuzzer makes them, but without one and the same every time: what the ordinary
//! test tries beside the corpus.

use nearhead_basics::SplitMix;

/// Longest input that is made, in bytes.
const INPUT_BYTES_MAX: usize = 4096;

/// Values at the edges of ranges, where mistakes are.
const EDGES: [u64; 12] =
    [0, 1, 7, 8, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 48, u64::MAX - 1, u64::MAX];

/// Numbers that a text may hold and nobody expects.
const NUMBERS: [&str; 10] =
    ["0", "1", "-1", "2", "4096", "1e300", "nan", "9223372036854775807", "0.0001", "[]"];

/// One of `inputs`, changed in one to eight places; parts of another may come in.
pub fn mutated(inputs: &[Vec<u8>], random: &mut SplitMix) -> Vec<u8> {
    let any = |random: &mut SplitMix| &inputs[random.below(inputs.len() as u64) as usize];
    let mut bytes = any(random).clone();
    for _ in 0..=random.below(8) {
        let donor = any(random).clone();
        mutate(&mut bytes, &donor, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, donor: &[u8], random: &mut SplitMix) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let some = (1 + random.below(16) as usize).min(bytes.len() - at);
    match random.below(9) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        3 => {
            let width = 1 << random.below(4);
            let edge = EDGES[random.below(EDGES.len() as u64) as usize];
            let edge = if random.coin() { edge.to_le_bytes() } else { edge.to_be_bytes() };
            let edge = if random.coin() { &edge[..width] } else { &edge[8 - width..] };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&edge[..end - at]);
        }
        4 => drop(bytes.drain(at..at + some)),
        5 => {
            let again = bytes[at..at + some].to_vec();
            bytes.splice(at..at, again);
        }
        6 => {
            let from = random.below(donor.len() as u64 + 1) as usize;
            let until = from + (random.below(64) as usize).min(donor.len() - from);
            bytes.splice(at..at + some, donor[from..until].iter().copied());
        }
        7 => replace_number(bytes, at, random),
        _ => bytes.insert(at, random.next_u64() as u8),
    }
}

/// Puts another number in the place of the digits behind `at`, as texts have them.
fn replace_number(bytes: &mut Vec<u8>, at: usize, random: &mut SplitMix) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else { return };
    let start = at + start;
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let end = bytes[start..].iter().position(|byte| !is_part(byte));
    let end = end.map_or(bytes.len(), |len| start + len);
    let number = NUMBERS[random.below(NUMBERS.len() as u64) as usize];
    bytes.splice(start..end, number.bytes());
}
