//! Steps that somebody chose, for what chance seldom comes to.

use super::asks::payload;
use super::{Asked, Client, SECTOR, Sector};
use nearhead_disk::Nanos;
use nearhead_laws::options::Options;
use nearhead_service::{Changed, Operation, Service};
use std::ops::Range;

impl<'a> Client<'a> {
    /// Random bytes through the logs, if they are small, in whole sectors; nobody waits here. What others write to stays as it is.
    pub(crate) fn write(&mut self, sectors: Range<u64>) {
        if self.is_busy(&sectors) {
            return;
        }
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        self.random.fill(&mut bytes);
        self.becomes(&sectors, &bytes);
        let (offset, data) = (sectors.start * SECTOR as u64, payload(&bytes));
        self.send(Asked::write(sectors), Operation::Write { offset, data, fua: true });
    }

    /// The same in place.
    pub(crate) fn write_in_place(&mut self, sectors: Range<u64>, fua: bool) {
        self.ask_write(sectors, |offset, data| Operation::WriteInPlace { offset, data, fua });
    }

    /// Zeros through the logs.
    pub(crate) fn zeros(&mut self, sectors: Range<u64>) {
        self.ask_zeros(sectors, |offset, len| Operation::WriteZeroes {
            offset,
            len,
            fua: true,
            fast_only: false,
            may_unmap: false,
        });
    }

    /// The same of a client that does not wait until it is durable.
    pub(crate) fn write_in_place_for_now(&mut self, sectors: Range<u64>) {
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        self.random.fill(&mut bytes);
        self.becomes(&sectors, &bytes);
        let (offset, data) = (sectors.start * SECTOR as u64, payload(&bytes));
        let asked = Asked { is_volatile: true, ..Asked::write(sectors) };
        self.send(asked, Operation::WriteInPlace { offset, data, fua: false });
    }

    /// Reads them: the head is there then.
    pub(crate) fn read(&mut self, sectors: Range<u64>) {
        self.ask_read(sectors);
    }

    /// A few bytes in each of these sectors, as one atomic write.
    pub(crate) fn fragments(&mut self, sectors: impl IntoIterator<Item = u64>) {
        let (mut extents, mut changed) = (Vec::new(), Vec::new());
        let mut written = Vec::new();
        for number in sectors {
            let sector = self.sectors.entry(number).or_insert_with(Sector::blank);
            let mut bytes = sector.is.clone();
            let from = self.random.below(400) as usize;
            self.random.fill(&mut bytes[from..from + 30]);
            let start = number * 512;
            changed.push(start + from as u64..start + from as u64 + 30);
            extents.push((start, payload(&bytes)));
            self.becomes(&(number..number + 1), &bytes);
            written.push(number);
        }
        // One range that holds all of them: what lies between is not written, and becomes nothing.
        let all = written[0]..written[written.len() - 1] + 1;
        let changed = Changed::Only(changed);
        self.send(Asked::write(all), Operation::WriteAtomic { extents, changed });
    }

    /// Everything is answered.
    pub(crate) fn until_answered(&mut self) {
        self.settle();
    }

    /// Nobody asks anything for so long.
    pub(crate) fn rest(&mut self, time: Nanos) {
        self.wait(time);
    }

    pub(crate) fn begin_checkpoint(&mut self) {
        self.volume.start_checkpoint(true, self.now);
        self.turn();
    }

    /// One snapshot more is there.
    pub(crate) fn snapshot(&mut self) {
        let before = self.begin_snapshot();
        self.until_snapshot_after(before);
    }

    /// The first piece of a snapshot is on its way; gives the number of the one before.
    pub(crate) fn begin_snapshot(&mut self) -> u64 {
        let before = self.volume.status().snapshot_number;
        self.volume.start_snapshot(self.now);
        self.turn();
        before
    }

    /// The one after that is there.
    pub(crate) fn until_snapshot_after(&mut self, before: u64) {
        while self.volume.status().snapshot_number == before {
            self.now = self.volume.wake().at.expect("a snapshot comes").max(self.now);
            self.turn();
        }
    }

    /// Power goes, and it is opened with other options.
    pub(crate) fn open_as(&mut self, options: &'a Options) {
        self.options = options;
        self.cut();
    }

    /// Power goes, and everything is as it should be.
    pub(crate) fn cut_now(&mut self) {
        self.cut();
    }

    /// Everything reads as it should.
    pub(crate) fn compare(&mut self) {
        self.settle();
        self.compare_all();
    }

    /// Small writes that found no log with room, and logs that were moved, since it was opened last.
    pub(crate) fn spills_and_swaps(&self) -> (u64, u64) {
        let stats = self.volume.status().stats;
        (stats.spills, stats.swaps)
    }

    /// Number below that, by chance.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }
}
