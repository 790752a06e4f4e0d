//! The files of a package: found by name in one folder, compressed or not.
//!
//! Names come from inside the files too. Of a path only the last part counts: packages were written
//! where their files lay elsewhere, and nothing can make an import read outside of its folder. A
//! file is read whole, up to a bound.

use super::ImportError;
use super::syntax::{Content, Value};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest text that is read, after decompression: the largest known one has 16 MB.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// Most files that a package reads, the same one counted anew.
const READS_MAX: u32 = 256;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Endings of the files of a package.
const ENDINGS: [&str; 8] =
    [".parv", ".diskspecs", ".model", ".seek", ".seeks", ".layout", ".mappings", ".trace"];

/// The folder of a package, and the package's name.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    name: String,
    /// Files read, so that files which include each other come to an end.
    reads: Cell<u32>,
}

impl Folder {
    /// Splits `DIR/NAME`, where `NAME` may be one of the package's files.
    pub(super) fn of(package: &Path) -> Result<Self, ImportError> {
        let place = package.display();
        if package.is_dir() {
            if let Some(only) = only_package(package) {
                return Self::of(&package.join(only));
            }
            return Err(ImportError::new(
                place,
                format!("expected FOLDER/NAME of one package, found a folder; it has {}", {
                    listing(package)
                }),
            ));
        }
        let Some(name) = package.file_name().and_then(|name| name.to_str()) else {
            return Err(ImportError::new(place, "expected FOLDER/NAME of a package"));
        };
        let parent = package.parent().filter(|parent| !parent.as_os_str().is_empty());
        let path = parent.unwrap_or(Path::new(".")).to_path_buf();
        if !path.is_dir() {
            return Err(ImportError::new(path.display(), "no such folder"));
        }
        let plain = name.strip_suffix(".zst").unwrap_or(name);
        let stem = ENDINGS.iter().find_map(|ending| plain.strip_suffix(ending));
        Ok(Self { path, name: stem.unwrap_or(plain).to_owned(), reads: Cell::new(0) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in the folder, for messages.
    pub(super) fn listing(&self) -> String {
        listing(&self.path)
    }

    /// The file that `value`, the one of `key`, names: its name and its text.
    pub(super) fn named_by<'a>(
        &self,
        value: &'a Value,
        key: &str,
    ) -> Result<(&'a str, String), ImportError> {
        let file = match &value.content {
            Content::Missing(file) => file.as_str(),
            _ => value.word(key)?,
        };
        let text = self.read(file)?.ok_or_else(|| {
            let problem = format!(
                "{key:?}: {file} is not in the package's folder; put it (or {file}.zst) there"
            );
            ImportError::new(&value.place, problem)
        })?;
        Ok((file, text))
    }

    /// The text of `file` or of `file.zst`, or none if there is neither.
    pub(super) fn read(&self, file: &str) -> Result<Option<String>, ImportError> {
        let Some(plain) = plain_name(file) else {
            return Err(ImportError::new(
                self.path.display(),
                format!("expected the name of a file in the package's folder, found {file:?}"),
            ));
        };
        self.reads.set(self.reads.get() + 1);
        if self.reads.get() > READS_MAX {
            let problem = format!("{file}: the files of a package include more than {READS_MAX}");
            return Err(ImportError::new(self.path.display(), problem));
        }
        for candidate in [plain.to_owned(), format!("{plain}.zst")] {
            let path = self.path.join(candidate);
            if path.is_file() {
                let failed = |problem: String| ImportError::new(path.display(), problem);
                return read_text(&path).map(Some).map_err(failed);
            }
        }
        Ok(None)
    }
}

/// The last part of a path as a package names it; none for a name that no file of a package has.
fn plain_name(file: &str) -> Option<&str> {
    let name = file.trim_matches('"').rsplit(['/', '\\']).next()?;
    (!name.is_empty() && !name.starts_with('.')).then_some(name)
}

/// The name of the only package in a folder.
fn only_package(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder).ok()?;
    let mut packages: Vec<String> = names
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| {
            let plain = name.strip_suffix(".zst").unwrap_or(&name);
            plain.strip_suffix(".diskspecs").map(str::to_owned)
        })
        .collect();
    packages.dedup();
    if packages.len() == 1 { packages.pop() } else { None }
}

fn listing(path: &Path) -> String {
    let mut names: Vec<String> = std::fs::read_dir(path)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| {
                    let plain = name.strip_suffix(".zst").unwrap_or(name);
                    ENDINGS.iter().any(|ending| plain.ends_with(ending))
                })
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    if names.is_empty() {
        return "no files of such packages".to_owned();
    }
    let left_out = names.len().saturating_sub(40);
    names.truncate(40);
    let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
    names.join(", ") + &more
}

fn read_text(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| format!("cannot read the file: {error}");
    let mut file = File::open(path).map_err(cannot)?;
    let mut head = Vec::new();
    file.by_ref().take(4).read_to_end(&mut head).map_err(cannot)?;
    let is_compressed = head == ZSTD_MAGIC;
    let whole = BufReader::new(std::io::Cursor::new(head).chain(file));
    let mut bytes = Vec::new();
    let mut reader: Box<dyn Read> = if is_compressed {
        Box::new(zstd::stream::read::Decoder::with_buffer(whole).map_err(cannot)?)
    } else {
        Box::new(whole)
    };
    reader.by_ref().take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(format!("expected at most {TEXT_BYTES_MAX} bytes of text, found more"));
    }
    // Comments of old packages hold bytes that are no UTF-8; names and numbers do not.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
