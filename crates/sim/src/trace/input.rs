//! Where the bytes of a trace come from: a file or any reader, decompressed on the way.
//!
//! The compression is told by the first bytes, never by the name. Archives of several members
//! (`cat a.gz b.gz`) read as one; a truncated or corrupt one is an error, not a short trace. A trace that `blktrace` left as a file for each
//! processor is named by one of them, or by what they have in common.

use super::TraceError;
use super::blktrace::FILES_MAX;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];
const BZIP2_MAGIC: [u8; 3] = *b"BZh";

/// Bytes read from the operating system at a time.
const READ_BYTES: usize = 128 * 1024;

/// A stream of trace text and what to call it.
pub struct Input {
    /// For messages, and as a hint to the format.
    pub(super) name: String,
    pub(super) bytes: Box<dyn Read + Send>,
    /// The files of other processors, if it is one of `blktrace`'s.
    pub(super) others: Vec<PathBuf>,
}

impl Input {
    /// The file at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let failed = |source| TraceError::Io { trace: name.clone(), line: 0, source };
        let (file, others) = match File::open(path) {
            Ok(file) => (file, of_other_processors(path)),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                let first = PathBuf::from(format!("{name}{PROCESSOR}0"));
                let file = File::open(&first).map_err(|_| failed(source))?;
                (file, of_other_processors(&first))
            }
            Err(source) => return Err(failed(source)),
        };
        Ok(Self { others, ..Self::from_reader(name, file)? })
    }

    /// Any stream, compressed or not, called `name` in messages.
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        match decompressed(reader) {
            Ok(bytes) => Ok(Self { name, bytes, others: Vec::new() }),
            Err(source) => Err(TraceError::Io { trace: name, line: 0, source }),
        }
    }
}

/// What stands between a trace's name and the number of a processor (`blktrace(8)`).
const PROCESSOR: &str = ".blktrace.";

/// The files beside the one at `path` that have the same name but for the processor.
fn of_other_processors(path: &Path) -> Vec<PathBuf> {
    let number_in = |name: &str| {
        let (base, number) = name.rsplit_once(PROCESSOR)?;
        Some((base.to_owned(), number.parse::<u32>().ok()?))
    };
    let own_name = path.file_name().and_then(|name| name.to_str());
    let Some((base, own)) = own_name.and_then(number_in) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries =
        std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut others: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((number_in(entry.file_name().to_str()?)?, entry.path())))
        .filter(|((other, number), _)| *other == base && *number != own)
        .map(|((_, number), path)| (number, path))
        .take(FILES_MAX)
        .collect();
    others.sort();
    others.into_iter().map(|(_, path)| path).collect()
}

/// The whole text of `bytes`, compressed or not, called `name` in messages.
pub fn text(name: impl Into<String>, bytes: Vec<u8>) -> Result<String, TraceError> {
    let name = name.into();
    let mut text = Vec::new();
    decompressed(io::Cursor::new(bytes))
        .and_then(|mut reader| reader.read_to_end(&mut text))
        .map_err(|source| TraceError::Io { trace: name, line: 0, source })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

pub(super) fn decompressed(
    mut reader: impl Read + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    let mut head = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut head)?;
    let whole = io::Cursor::new(head.clone()).chain(reader);
    let buffered = BufReader::with_capacity(READ_BYTES, whole);
    Ok(if head.starts_with(&ZSTD_MAGIC) {
        Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?)
    } else if head.starts_with(&GZIP_MAGIC) {
        Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
    } else if head.starts_with(&BZIP2_MAGIC) {
        Box::new(bzip2::bufread::MultiBzDecoder::new(buffered))
    } else {
        Box::new(buffered)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEXT: &[u8] = b"938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n";

    fn zstd(text: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn bzip2(text: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        decompressed(io::Cursor::new(bytes))?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn every_compression_is_told_by_its_first_bytes() {
        for bytes in [TEXT.to_vec(), zstd(TEXT), gzip(TEXT), bzip2(TEXT)] {
            assert_eq!(read(bytes).unwrap(), TEXT);
        }
        assert_eq!(read(b"12".to_vec()).unwrap(), b"12", "shorter than the longest magic");
        assert_eq!(read(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn members_one_after_the_other_read_as_one_trace() {
        for compress in [zstd, gzip, bzip2] {
            let mut bytes = compress(TEXT);
            bytes.extend(compress(TEXT));
            assert_eq!(read(bytes).unwrap(), [TEXT, TEXT].concat());
        }
    }

    #[test]
    fn a_truncated_archive_is_an_error_not_a_short_trace() {
        for (name, compress) in
            [("zstd", zstd as fn(&[u8]) -> Vec<u8>), ("gzip", gzip), ("bzip2", bzip2)]
        {
            let mut bytes = compress(TEXT);
            bytes.truncate(bytes.len() - 3);
            assert!(read(bytes).is_err(), "{name}");
        }
    }

    #[test]
    fn the_files_of_all_processors_are_found_by_any_of_them_and_by_what_they_share() {
        let folder = std::env::temp_dir().join(format!("nearhead-input-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in
            ["a.blktrace.0", "a.blktrace.1", "a.blktrace.10", "a.blktrace.x", "b.blktrace.2"]
        {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let others = |name: &str| -> Vec<String> {
            let input = Input::open(folder.join(name)).unwrap();
            let names = input.others.iter().filter_map(|path| path.file_name()?.to_str());
            names.map(str::to_owned).collect()
        };
        assert_eq!(others("a"), ["a.blktrace.1", "a.blktrace.10"]);
        assert_eq!(others("a.blktrace.1"), ["a.blktrace.0", "a.blktrace.10"]);
        assert_eq!(others("b.blktrace.2"), [""; 0]);
        assert!(Input::open(folder.join("b")).is_err(), "without the first nobody can say which");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let text = Input::open("no/such/trace.csv").err().unwrap().to_string();
        assert!(text.contains("no/such/trace.csv"), "{text}");
    }
}
