//! Threads that each append to a file of their own with synchronous writes: what Okeanos measures its streams and checkpoints with.

use super::{Act, Bench, Counted, Image, Script, filler};
use crate::error::FigureError;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::Ino;
use nearhead_fs::{Answer, FsOperation};
use std::cell::Cell;
use std::rc::Rc;

/// What each of them does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppendOptions {
    /// Of a write.
    pub(crate) bytes: u32,
    /// From one write to the next; none: as soon as that before is durable.
    pub(crate) every: Option<Nanos>,
    /// Writes of each thread.
    pub(crate) writes_max: u64,
}

/// So many empty files in one folder.
pub(crate) fn prepare_files(image: &mut Image, count: u32) -> Result<Vec<Ino>, FigureError> {
    let folder = image.folder("streams")?;
    (0..count).map(|nth| image.file(folder, &format!("stream{nth}"), 0)).collect()
}

/// Starts a thread for each file, one after the other within the time of a write.
pub(crate) fn start_appenders(
    bench: &mut Bench,
    files: &[Ino],
    options: AppendOptions,
    counted: &Counted,
) {
    let data = filler(options.bytes as usize);
    for (nth, ino) in (0_u64..).zip(files) {
        let share = options.every.map_or(0, |every| every.0 * nth / files.len() as u64);
        bench.add(Appender {
            ino: *ino,
            options,
            data: data.clone(),
            begins: bench.now() + Nanos(share),
            written: 0,
            issued: Nanos::ZERO,
            counted: Rc::clone(counted),
        });
    }
}

/// How long these files are together.
pub(crate) fn bytes_of(bench: &mut Bench, files: &[Ino]) -> Result<u64, FigureError> {
    let total = Rc::new(Cell::new(0));
    bench.add(Measure { files: files.to_vec(), total: Rc::clone(&total) });
    bench.run(Nanos(u64::MAX))?;
    Ok(total.get())
}

/// Asks for the length of one file after the other.
struct Measure {
    files: Vec<Ino>,
    total: Rc<Cell<u64>>,
}

impl Script for Measure {
    fn act(&mut self, _: Nanos, answer: Option<Answer>) -> Act {
        if let Some(Answer::Node(node)) = answer {
            self.total.set(self.total.get() + node.size);
        }
        self.files.pop().map_or(Act::End, |ino| Act::Do(FsOperation::Attributes { ino }))
    }
}

struct Appender {
    ino: Ino,
    options: AppendOptions,
    data: Buffer,
    begins: Nanos,
    written: u64,
    issued: Nanos,
    counted: Counted,
}

impl Script for Appender {
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act {
        let bytes = u64::from(self.options.bytes);
        if answer.is_some() {
            self.counted.borrow_mut().book(&Ok(Vec::new()), bytes, self.issued, now);
            self.written += 1;
        }
        if self.written >= self.options.writes_max {
            return Act::End;
        }
        let due = self.begins + Nanos(self.options.every.map_or(0, |every| every.0 * self.written));
        if now < due {
            return Act::Wait(due);
        }
        self.issued = now;
        let (offset, data) = (self.written * bytes, self.data.clone());
        Act::Do(FsOperation::Write { ino: self.ino, offset, data, is_durable: true })
    }
}
