//! Where the bytes of a trace come from: a file or any reader, decompressed on the way.
//!
//! The compression is told by the first bytes, never by the name. Archives of several members
//! (`cat a.gz b.gz`) read as one; a truncated or corrupt one is an error, not a short trace.

use super::TraceError;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

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
}

impl Input {
    /// The file at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let name = path.as_ref().display().to_string();
        match File::open(path) {
            Ok(file) => Self::from_reader(name, file),
            Err(source) => Err(TraceError::Io { trace: name, line: 0, source }),
        }
    }

    /// Any stream, compressed or not, called `name` in messages.
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Self, TraceError> {
        let name = name.into();
        match decompressed(reader) {
            Ok(bytes) => Ok(Self { name, bytes }),
            Err(source) => Err(TraceError::Io { trace: name, line: 0, source }),
        }
    }
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

fn decompressed(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
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
    fn a_file_that_is_not_there_is_named() {
        let text = Input::open("no/such/trace.csv").err().unwrap().to_string();
        assert!(text.contains("no/such/trace.csv"), "{text}");
    }
}
