//! A disk image as text: only what is not zero, and what a volume on it must hold.
//!
//! ```text
//! profile disk.toml                        the disk, beside the image
//! disk_bytes 100663296
//! bytes SECTOR OFFSET HEX                  these bytes from there in this device sector
//! fill SECTOR COUNT HOME VERSION           device sectors with the content of home sectors from HOME on
//! holds HOME COUNT VERSION                 what reads of these home sectors must return; 0 is zeros
//! ```
//!
//! The content of a sector is its version and its number, 8 bytes each, little-endian, over and over. Lines
//! that begin with `#` are for people. Numbers are decimal; sectors have 512 bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) const SECTOR: usize = 512;
/// Bytes of a row: one that is all zeros ends a `bytes` line.
const ROW: usize = 16;

/// The bytes of home sector `sector` as write `version` leaves them.
pub(crate) fn content(sector: u64, version: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    if version > 0 {
        for row in bytes.chunks_exact_mut(16) {
            row[..8].copy_from_slice(&version.to_le_bytes());
            row[8..].copy_from_slice(&sector.to_le_bytes());
        }
    }
    bytes
}

/// An image and what is on it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fixture {
    pub(crate) profile: String,
    pub(crate) disk_bytes: u64,
    /// Device sectors that are not zeros.
    pub(crate) sectors: BTreeMap<u64, Vec<u8>>,
    /// Versions of home sectors.
    pub(crate) holds: BTreeMap<u64, u64>,
}

impl Fixture {
    /// Makes the image a sparse file.
    pub(crate) fn expand(&self, path: &Path) {
        let file = File::create(path).unwrap();
        file.set_len(self.disk_bytes).unwrap();
        for (sector, bytes) in &self.sectors {
            file.write_all_at(bytes, sector * SECTOR as u64).unwrap();
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        writeln!(text, "profile {}\ndisk_bytes {}", self.profile, self.disk_bytes).unwrap();
        let mut fill: Option<(u64, u64, u64, u64)> = None;
        for (&sector, bytes) in &self.sectors {
            let Some((home, version)) = as_content(bytes) else {
                write_fill(&mut text, fill.take());
                write_bytes(&mut text, sector, bytes);
                continue;
            };
            match &mut fill {
                Some((start, count, first, same))
                    if *start + *count == sector && *first + *count == home && *same == version =>
                {
                    *count += 1;
                }
                _ => write_fill(&mut text, fill.replace((sector, 1, home, version))),
            }
        }
        write_fill(&mut text, fill);
        for (home, count, version) in runs(&self.holds) {
            writeln!(text, "holds {home} {count} {version}").unwrap();
        }
        text
    }

    pub(crate) fn from_text(text: &str) -> Self {
        let mut fixture = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
            match words[0] {
                "profile" => words[1].clone_into(&mut fixture.profile),
                "disk_bytes" => fixture.disk_bytes = number(1),
                "bytes" => {
                    let (at, bytes) = (number(2) as usize, from_hex(words[3]));
                    let sector = fixture.sectors.entry(number(1)).or_insert(vec![0; SECTOR]);
                    sector[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                "fill" => {
                    let (home, version) = (number(3), number(4));
                    let filled = (0..number(2))
                        .map(|at| (number(1) + at, content(home + at, version).to_vec()));
                    fixture.sectors.extend(filled);
                }
                "holds" => {
                    let sectors = number(1)..number(1) + number(2);
                    fixture.holds.extend(sectors.map(|sector| (sector, number(3))));
                }
                _ => panic!("expected profile, disk_bytes, bytes, fill or holds, found {line:?}"),
            }
        }
        fixture
    }
}

/// What must be held, as runs: first sector, count, version.
pub(crate) fn runs(holds: &BTreeMap<u64, u64>) -> Vec<(u64, u64, u64)> {
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for (&sector, &version) in holds {
        match runs.last_mut() {
            Some((start, count, same)) if *start + *count == sector && *same == version => {
                *count += 1;
            }
            _ => runs.push((sector, 1, version)),
        }
    }
    runs
}

fn as_content(bytes: &[u8]) -> Option<(u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (version, home) = (word(0), word(8));
    (version > 0 && bytes == content(home, version)).then_some((home, version))
}

fn write_fill(text: &mut String, fill: Option<(u64, u64, u64, u64)>) {
    if let Some((sector, count, home, version)) = fill {
        writeln!(text, "fill {sector} {count} {home} {version}").unwrap();
    }
}

fn write_bytes(text: &mut String, sector: u64, bytes: &[u8]) {
    let rows: Vec<&[u8]> = bytes.chunks(ROW).collect();
    let is_zero = |row: &&[u8]| row.iter().all(|byte| *byte == 0);
    let mut row = 0;
    while row < rows.len() {
        let len = rows[row..].iter().take_while(|row| !is_zero(row)).count();
        if len > 0 {
            write!(text, "bytes {sector} {} ", row * ROW).unwrap();
            for byte in rows[row..row + len].concat() {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
        row += len.max(1);
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
