//! Reads of files: pages that are in memory, holes as zeros, and the rest from the service.

use crate::core::{BLOCK, Core};
use crate::error::{EISDIR, ENXIO, FsError, Halt};
use crate::io::Purpose;
use crate::jobs::Tried;
use crate::request::{Answer, Sought};
use nearhead_disk::Payload;
use nearhead_ext4::{Attributes, FileKind, Ino, Place, Run};
use nearhead_service::Operation;
use std::ops::Range;

/// A read whose parts are under way.
#[derive(Debug)]
pub(crate) struct Reading {
    parts: Vec<Vec<Payload>>,
    missing: u32,
    /// What the client asked for, within the pages that are read.
    cut: Range<usize>,
    error: Option<FsError>,
}

/// Where a part of a read comes from.
enum Source {
    Memory(Payload),
    Disk { block: u64, blocks: u64 },
}

impl Core {
    /// A file that can be read and written, with its length as clients see it.
    pub(crate) fn regular(&mut self, ino: Ino) -> Result<Attributes, Halt> {
        let attributes = self.try_attributes(ino)?;
        match attributes.kind {
            FileKind::Regular => Ok(attributes),
            FileKind::Directory => {
                Err(FsError::new(EISDIR, format!("inode {}: is a directory", ino.0)).into())
            }
            _ => {
                let detail = format!("inode {}: expected a regular file", ino.0);
                Err(FsError::new(crate::error::EINVAL, detail).into())
            }
        }
    }

    pub(crate) fn try_read(
        &mut self,
        slot: u32,
        ino: Ino,
        offset: u64,
        len: u32,
    ) -> Result<Tried, Halt> {
        let attributes = self.regular(ino)?;
        let size = attributes.size;
        let end = offset.saturating_add(u64::from(len)).min(size);
        if offset >= end {
            return Ok(Tried::Done(Answer::Bytes(Vec::new())));
        }
        let pages = offset / BLOCK..end.div_ceil(BLOCK);
        let sources = self.sources(ino, pages.clone())?;
        self.note_accessed(&attributes);
        let start = pages.start * BLOCK;
        let cut = (offset - start) as usize..(end - start) as usize;
        let mut reading = Reading { parts: Vec::new(), missing: 0, cut, error: None };
        let piece_max = u64::from(self.info.request_bytes_max / BLOCK as u32).max(1);
        for source in sources {
            match source {
                Source::Memory(payload) => reading.parts.push(vec![payload]),
                Source::Disk { mut block, mut blocks } => {
                    while blocks > 0 {
                        let take = blocks.min(piece_max);
                        let part = reading.parts.len() as u32;
                        reading.parts.push(Vec::new());
                        reading.missing += 1;
                        let (offset, len) = (block * BLOCK, (take * BLOCK) as u32);
                        let read = Operation::Read { offset, len };
                        self.io.ask(Purpose::Read { job: slot, part }, read);
                        (block, blocks) = (block + take, blocks - take);
                    }
                }
            }
        }
        if reading.missing == 0 {
            return Ok(Tried::Done(Answer::Bytes(reading.bytes())));
        }
        Ok(Tried::Reading(Box::new(reading)))
    }

    /// Where each of these pages comes from, neighbours on the disk together.
    fn sources(&mut self, ino: Ino, pages: Range<u64>) -> Result<Vec<Source>, Halt> {
        let runs = self.runs_on_disk(ino, pages.clone())?;
        let file = self.files.get(&ino);
        let mut sources: Vec<Source> = Vec::new();
        for run in runs {
            for at in 0..run.len {
                let page = run.logical + at;
                if let Some(bytes) = file.and_then(|file| file.pages.get(page)) {
                    sources.push(Source::Memory(Payload::Bytes(bytes.clone())));
                    continue;
                }
                let Place::Written(first) = run.place else {
                    sources.push(Source::Memory(Payload::Zeros(BLOCK as usize)));
                    continue;
                };
                match sources.last_mut() {
                    Some(Source::Disk { block, blocks }) if *block + *blocks == first + at => {
                        *blocks += 1;
                    }
                    _ => sources.push(Source::Disk { block: first + at, blocks: 1 }),
                }
            }
        }
        Ok(sources)
    }

    /// Where pages of a file are on the disk; none is asked where all of them are in memory.
    fn runs_on_disk(&mut self, ino: Ino, pages: Range<u64>) -> Result<Vec<Run>, Halt> {
        let (logical, len) = (pages.start, pages.end - pages.start);
        let all_here = self
            .files
            .get(&ino)
            .is_some_and(|file| pages.clone().all(|page| file.pages.get(page).is_some()));
        if all_here {
            return Ok(vec![Run { logical, len, place: Place::Hole }]);
        }
        self.runs(ino, pages)
    }

    /// Where pages of a file are on the disk. Those that are written in place and marked as that only by the next commit count as
    /// written.
    pub(crate) fn runs(&mut self, ino: Ino, pages: Range<u64>) -> Result<Vec<Run>, Halt> {
        let runs = self.ext4()?.map(ino, pages.start, pages.end - pages.start)?;
        let Some(in_place) = self.files.get(&ino).map(|file| &file.in_place) else {
            return Ok(runs);
        };
        if in_place.is_empty() {
            return Ok(runs);
        }
        let mut told = Vec::with_capacity(runs.len());
        for run in runs {
            let Place::Unwritten(first) = run.place else {
                told.push(run);
                continue;
            };
            let mut at = 0;
            while at < run.len {
                let page = run.logical + at;
                let is_here = |page| in_place.contains(page);
                let same =
                    (page..run.logical + run.len).take_while(|it| is_here(*it) == is_here(page));
                let len = same.count() as u64;
                let place = if is_here(page) {
                    Place::Written(first + at)
                } else {
                    Place::Unwritten(first + at)
                };
                told.push(Run { logical: page, len, place });
                at += len;
            }
        }
        Ok(told)
    }

    pub(crate) fn on_read(&mut self, slot: u32, part: u32, result: Result<Vec<Payload>, FsError>) {
        let Some(reading) = self.jobs.get_mut(slot).and_then(|job| job.reading.as_mut()) else {
            return;
        };
        reading.missing -= 1;
        match result {
            Ok(bytes) => {
                if let Some(part) = reading.parts.get_mut(part as usize) {
                    *part = bytes;
                }
            }
            Err(error) => reading.error = Some(error),
        }
        if reading.missing > 0 {
            return;
        }
        let Some(reading) = self.jobs.get_mut(slot).and_then(|job| job.reading.take()) else {
            return;
        };
        let result = match reading.error.clone() {
            Some(error) => Err(error),
            None => Ok(Answer::Bytes(reading.bytes())),
        };
        self.finish_job(slot, result);
    }

    /// The next data or hole from `offset` on.
    pub(crate) fn try_seek(
        &mut self,
        ino: Ino,
        offset: u64,
        sought: Sought,
    ) -> Result<Answer, Halt> {
        let size = self.regular(ino)?.size;
        let nothing = || Halt::Fails(FsError::new(ENXIO, "no such place in the file"));
        if offset >= size {
            return Err(nothing());
        }
        let pages = offset / BLOCK..size.div_ceil(BLOCK);
        let runs = self.runs(ino, pages)?;
        let file = self.files.get(&ino);
        for run in runs {
            let is_stored = matches!(run.place, Place::Written(_));
            // Also while its write is in flight: until that is answered its block is unwritten.
            let is_unsaved = |page| file.is_some_and(|file| file.pages.is_unsaved_at(page));
            let wants_data = sought == Sought::Data;
            let found = (run.logical..run.logical + run.len)
                .find(|page| (is_stored || is_unsaved(*page)) == wants_data);
            if let Some(page) = found {
                return Ok(Answer::Offset((page * BLOCK).max(offset)));
            }
        }
        // Behind its end a file is a hole.
        if sought == Sought::Hole { Ok(Answer::Offset(size)) } else { Err(nothing()) }
    }
}

impl Reading {
    fn bytes(self) -> Vec<Payload> {
        nearhead_disk::range_of(self.parts.into_iter().flatten().collect(), &self.cut)
    }
}
