//! The part of a recovery that reads logs: each one that a claim names, from there on, or the map's journal, which
//! says what the logs hold without any of them being read.

use super::journal_scan::JournalScan;
use super::load::BODY_READ_BYTES;
use super::scan::LogScan;
use super::{Next, Recovery, Step, bytes_of};
use nearhead_disk::{DiskError, Payload};

impl Recovery {
    pub(super) fn read_journal(&mut self, mut scan: Box<JournalScan>) -> Next {
        let place = self.terms.journal;
        let left = place.map_or(0, |place| place.bytes - scan.len());
        if left == 0 {
            scan.parse(&self.context);
            return self.verify_next(scan);
        }
        let offset = place.map_or(0, |place| place.offset) + scan.len();
        self.step = Step::Journal(scan);
        self.read(offset, left.min(BODY_READ_BYTES))
    }

    pub(super) fn on_journal_read(
        &mut self,
        mut scan: Box<JournalScan>,
        result: Result<Payload, DiskError>,
    ) -> Next {
        match bytes_of(result) {
            Ok(bytes) => {
                scan.push(&bytes);
                self.read_journal(scan)
            }
            Err(problem) => self.refuse(format!("the map device could not be read: {problem}")),
        }
    }

    fn verify_next(&mut self, mut scan: Box<JournalScan>) -> Next {
        while let Some(index) = scan.to_verify.pop() {
            if let Some((offset, len)) = scan.payload_of(index) {
                self.step = Step::Verify(scan, index);
                return self.read(offset, len);
            }
        }
        self.outside = scan.found.iter().find_map(|found| found.past_volume.clone());
        self.found = scan.found;
        self.scans_are_done()
    }

    /// A payload that cannot be read may be that of a record that was acknowledged.
    pub(super) fn on_payload_read(
        &mut self,
        mut scan: Box<JournalScan>,
        index: usize,
        result: Result<Payload, DiskError>,
    ) -> Next {
        let bytes = bytes_of(result);
        if let Err(problem) = &bytes {
            let offset = scan.payload_of(index).map_or(0, |(offset, _)| offset);
            let sequence = scan.found[index].header.sequence;
            let problem =
                format!("record {sequence} at device byte {offset}: could not be read: {problem}");
            self.unreadable.get_or_insert(problem);
        }
        scan.verify(index, bytes.ok().as_deref());
        self.verify_next(scan)
    }

    pub(super) fn scan_next_log(&mut self) -> Next {
        let claim = loop {
            if let Some(claim) = self.to_scan.pop_front() {
                break claim;
            }
            let Some(claim) = self.doubtful.pop_front() else { return self.scans_are_done() };
            self.follow(claim, u64::MAX);
        };
        self.result.logs += 1;
        let scan = Box::new(LogScan::new(claim, self.context.floor_sequence));
        self.continue_scan(scan)
    }

    fn continue_scan(&mut self, mut scan: Box<LogScan>) -> Next {
        if let Some((offset, len)) = scan.next_read(&self.context) {
            self.step = Step::Scan(scan);
            return self.read(offset, len);
        }
        self.take_scan(*scan);
        self.scan_next_log()
    }

    pub(super) fn on_log_read(
        &mut self,
        mut scan: Box<LogScan>,
        result: Result<Payload, DiskError>,
    ) -> Next {
        match bytes_of(result) {
            Ok(bytes) => scan.take(bytes, &self.context),
            Err(problem) => scan.unreadable(&problem, &self.context),
        }
        self.continue_scan(scan)
    }
}
