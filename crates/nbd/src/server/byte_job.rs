//! One request that is not whole sectors: the pieces it is put together of.
//!
//! First whatever has to be known or can be left to the service: reads, and the whole sectors of a
//! trim or of zeros. When all of that succeeded, the sectors that are covered in part are written.

use nearhead_disk::{BufferMut, Payload, total_len};
use nearhead_service::{Operation, Reply, Request, RequestError, RequestId};
use std::ops::Range;

/// What a piece is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The read with this number.
    Read(usize),
    /// Nothing but its success matters.
    Change,
}

/// What a request does with its bytes.
enum Task {
    Read,
    Write {
        data: Payload,
        fua: bool,
    },
    /// Zeros over the ends; the operation does the rest.
    Fill {
        middle: Option<Operation>,
        fua: bool,
    },
}

/// Sectors to be read, and what was found there.
struct Known {
    sectors: Range<u64>,
    found: Vec<Payload>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    /// The reads and the middle are at the service.
    First,
    /// The writes are.
    Last,
}

/// A request on its way.
pub(crate) struct Job {
    id: RequestId,
    bytes: Range<u64>,
    /// The whole sectors around `bytes`.
    sectors: Range<u64>,
    task: Task,
    known: Vec<Known>,
    transfer_bytes_max: u64,
    sector_bytes: u64,
    step: Step,
    pieces_left: usize,
    error: Option<RequestError>,
}

impl Job {
    /// A job for a request whose bytes lie inside `sectors` and do not fill them.
    pub(crate) fn new(
        Request { id, operation }: Request,
        sectors: Range<u64>,
        sector_bytes: u64,
        transfer_bytes_max: u64,
    ) -> Self {
        let mut job = Self {
            id,
            bytes: sectors.clone(),
            sectors,
            task: Task::Read,
            known: Vec::new(),
            transfer_bytes_max,
            sector_bytes,
            step: Step::Begin,
            pieces_left: 0,
            error: None,
        };
        match operation {
            Operation::Read { offset, len } => {
                job.bytes = offset..offset + u64::from(len);
                job.known = job.transfers().map(Known::nothing).collect();
            }
            Operation::Write { offset, data: Payload::Bytes(data), fua } => {
                job.bytes = offset..offset + data.len() as u64;
                job.task = Task::Write { data: Payload::Bytes(data), fua };
                job.known = job.ends();
            }
            Operation::Write { offset, data, fua } => {
                let middle = |offset, len| Operation::Write {
                    offset,
                    data: Payload::Zeros(len as usize),
                    fua,
                };
                job.fill(offset, data.len() as u64, fua, middle);
            }
            Operation::Trim { offset, len, fua } => {
                job.fill(offset, len, fua, |offset, len| Operation::Trim { offset, len, fua });
            }
            Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap } => {
                let middle =
                    |offset, len| Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap };
                job.fill(offset, len, fua, middle);
            }
            // They have no bytes that could lie beside sectors, or come from no client over a socket.
            Operation::Flush
            | Operation::WriteInPlace { .. }
            | Operation::WriteAtomic { .. }
            | Operation::Hint { .. } => {}
        }
        job
    }

    fn fill(
        &mut self,
        offset: u64,
        len: u64,
        fua: bool,
        middle: impl FnOnce(u64, u64) -> Operation,
    ) {
        self.bytes = offset..offset + len;
        self.known = self.ends();
        // What lies between the sectors at the ends.
        let mut whole = self.sectors.clone();
        for Known { sectors, .. } in &self.known {
            if sectors.start == whole.start {
                whole.start = sectors.end;
            } else {
                whole.end = sectors.start;
            }
        }
        let has_middle = whole.start < whole.end;
        let middle = has_middle.then(|| middle(whole.start, whole.end - whole.start));
        self.task = Task::Fill { middle, fua };
    }

    /// The sectors that `bytes` covers in part: at most one at each end, as one if they touch.
    fn ends(&self) -> Vec<Known> {
        let Range { start, end } = self.sectors;
        let head = (self.bytes.start > start).then(|| start..start + self.sector_bytes);
        let tail = (self.bytes.end < end).then(|| end - self.sector_bytes..end);
        let ends = match (head, tail) {
            (Some(head), Some(tail)) if head.end >= tail.start => [Some(start..end), None],
            ends => ends.into(),
        };
        ends.into_iter().flatten().map(Known::nothing).collect()
    }

    /// All of the sectors, in transfers that the service takes: one, or two if a request of the
    /// largest size has a sector more than its length says.
    fn transfers(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        let Range { start, end } = self.sectors;
        let fits = end - start <= self.transfer_bytes_max;
        let cut = if fits { end } else { start + self.sector_bytes };
        [start..cut, cut..end].into_iter().filter(|sectors| !sectors.is_empty())
    }

    /// The sectors that it touches.
    pub(crate) fn sectors(&self) -> &Range<u64> {
        &self.sectors
    }

    /// Whether it is more than a read.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.task, Task::Read)
    }

    /// Whether pieces of it are at the service.
    pub(crate) fn is_running(&self) -> bool {
        self.pieces_left > 0
    }

    /// The pieces to submit now: none while others are under way, or when it is done.
    pub(crate) fn next_pieces(&mut self) -> Vec<(Piece, Operation)> {
        if self.is_running() || self.error.is_some() {
            return Vec::new();
        }
        let pieces = match self.step {
            Step::Begin => {
                self.step = Step::First;
                self.first_pieces()
            }
            Step::First => {
                self.step = Step::Last;
                self.last_pieces()
            }
            Step::Last => Vec::new(),
        };
        self.pieces_left = pieces.len();
        pieces
    }

    fn first_pieces(&mut self) -> Vec<(Piece, Operation)> {
        let mut pieces = Vec::with_capacity(3);
        for (number, Known { sectors, .. }) in self.known.iter().enumerate() {
            // No longer than the largest request.
            let len = (sectors.end - sectors.start) as u32;
            pieces.push((Piece::Read(number), Operation::Read { offset: sectors.start, len }));
        }
        if let Task::Fill { middle, .. } = &mut self.task {
            pieces.extend(middle.take().map(|operation| (Piece::Change, operation)));
        }
        pieces
    }

    fn last_pieces(&self) -> Vec<(Piece, Operation)> {
        let (whole, fua): (Vec<Range<u64>>, bool) = match &self.task {
            Task::Read => return Vec::new(),
            Task::Write { fua, .. } => (self.transfers().collect(), *fua),
            Task::Fill { fua, .. } => {
                (self.known.iter().map(|known| known.sectors.clone()).collect(), *fua)
            }
        };
        let write = |sectors: Range<u64>| {
            let (offset, data) = (sectors.start, self.composed(&sectors));
            (Piece::Change, Operation::Write { offset, data, fua })
        };
        whole.into_iter().map(write).collect()
    }

    /// What these sectors hold afterwards.
    fn composed(&self, sectors: &Range<u64>) -> Payload {
        let len = (sectors.end - sectors.start) as usize;
        let mut content = BufferMut::zeroed(len);
        for known in &self.known {
            let mut at = known.sectors.start;
            for part in &known.found {
                put(&mut content[..len], sectors, at, part);
                at += part.len() as u64;
            }
        }
        match &self.task {
            Task::Write { data, .. } => put(&mut content[..len], sectors, self.bytes.start, data),
            Task::Read | Task::Fill { .. } => {
                let from = self.bytes.start.max(sectors.start) - sectors.start;
                let to = self.bytes.end.min(sectors.end).saturating_sub(sectors.start);
                if from < to {
                    content[from as usize..to as usize].fill(0);
                }
            }
        }
        Payload::Bytes(content.freeze().slice(0..len))
    }

    /// Books what became of a piece.
    pub(crate) fn took(&mut self, piece: Piece, result: Result<Vec<Payload>, RequestError>) {
        self.pieces_left -= 1;
        match (result, piece) {
            (Err(error), _) => {
                self.error.get_or_insert(error);
            }
            (Ok(found), Piece::Read(number)) => {
                if let Some(known) = self.known.get_mut(number) {
                    self.error = self.error.take().or_else(|| known.wrong_length(&found));
                    known.found = found;
                }
            }
            (Ok(_), Piece::Change) => {}
        }
    }

    /// The answer, once nothing is left to do.
    pub(crate) fn into_reply(self) -> Reply {
        let Self { id, bytes, sectors, task, known, error, .. } = self;
        let result = match (error, task) {
            (Some(error), _) => Err(error),
            (None, Task::Read) => {
                let found = known.into_iter().flat_map(|known| known.found);
                Ok(cut(found, bytes.start - sectors.start, bytes.end - bytes.start))
            }
            (None, _) => Ok(Vec::new()),
        };
        Reply { id, result }
    }
}

impl Known {
    fn nothing(sectors: Range<u64>) -> Self {
        Self { sectors, found: Vec::new() }
    }

    /// A service that returns too little would leave zeros where data was.
    fn wrong_length(&self, found: &[Payload]) -> Option<RequestError> {
        let expected = self.sectors.end - self.sectors.start;
        let found = total_len(found) as u64;
        (found != expected).then(|| {
            let words = format!("the service returned {found} of {expected} bytes");
            RequestError::new(nearhead_service::ErrorKind::Io, words)
        })
    }
}

/// Copies what of `part`, which lies at byte `at`, lies inside `sectors`, of which `target` is the
/// content.
fn put(target: &mut [u8], sectors: &Range<u64>, at: u64, part: &Payload) {
    let from = at.max(sectors.start);
    let to = (at + part.len() as u64).min(sectors.end);
    if from < to {
        let piece = part.slice((from - at) as usize..(to - at) as usize);
        let range = (from - sectors.start) as usize..(to - sectors.start) as usize;
        piece.copy_to(&mut target[range]);
    }
}

/// `len` bytes of `parts` from byte `skip` on.
fn cut(parts: impl Iterator<Item = Payload>, skip: u64, len: u64) -> Vec<Payload> {
    let (mut at, wanted) = (0, skip..skip + len);
    let mut found = Vec::new();
    for part in parts {
        let here = at..at + part.len() as u64;
        at = here.end;
        let (from, to) = (here.start.max(wanted.start), here.end.min(wanted.end));
        if from < to {
            found.push(part.slice((from - here.start) as usize..(to - here.start) as usize));
        }
    }
    found
}
