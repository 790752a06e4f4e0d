//! What must hold after a start, and at the end: the content, and that there is progress.

use crate::content::{SECTOR, versions};
use crate::life::Life;
use crate::restart::Stop;
use crate::scenario::Arrangement;
use crate::steps::{Place, WINDOW_SECTORS, WINDOWS};
use nearhead_disk::Nanos;
use nearhead_engine::Phase;
use nearhead_format::BLOCK_SECTORS;
use nearhead_service::{Operation, Request, RequestError, RequestId, Service};
use std::collections::BTreeMap;

/// Virtual time in which a volume without faults answers a few requests and empties its logs.
const PROGRESS_WITHIN: Nanos = Nanos::from_secs(600);
/// Events until everything that was at the disk has come back, or will not.
const EVENTS_ON_THE_WAY_MAX: u32 = 5000;
/// Passes of a checkpoint after which everything is home; one may be under way with other aims.
const PASSES_MAX: u32 = 4;
/// Virtual time in which a member of a mirror is copied to.
const COPIED_WITHIN: Nanos = Nanos::from_secs(60);

type Content = Result<Vec<u64>, RequestError>;

impl Life<'_> {
    /// Reads everything and lets the oracle judge; what it finds is the truth from now on.
    pub(crate) fn check_content(&mut self) -> Result<(), String> {
        let mut content = BTreeMap::new();
        for base in self.bases {
            match self.read_now(base, WINDOW_SECTORS)? {
                Ok(found) => self.note_content(&mut content, base, found),
                Err(error) if !self.is_damaged() => {
                    if self.opens_again(&error)? {
                        return self.check_content();
                    }
                    return Err(format!("after a restart with the disk in order: {error}"));
                }
                Err(_) => self.read_piecewise(base, &mut content)?,
            }
        }
        let judged = self.oracle.adopt(&content);
        judged.map_err(|what| match self.volume() {
            Ok(volume) => format!("after a restart: {what}; status {:?}", volume.status()),
            Err(_) => what,
        })
    }

    /// What the volume counts as it goes is what counting anew finds.
    pub(crate) fn check_counts(&mut self) -> Result<(), String> {
        let checked = self.volume()?.engine().check_counts();
        checked.map_err(|problem| format!("the counts have drifted: {problem}"))
    }

    /// Zeros where nothing was ever written are as they must be; the oracle judges the rest.
    fn note_content(&mut self, content: &mut BTreeMap<u64, u64>, start: u64, found: Vec<u64>) {
        self.tally.sectors_checked += found.len() as u64;
        let telling = |(sector, value): &(u64, u64)| *value != 0 || self.oracle.knows(*sector);
        content.extend((start..).zip(found).filter(telling));
    }

    /// What of a window can be read, block by block.
    fn read_piecewise(
        &mut self,
        base: u64,
        content: &mut BTreeMap<u64, u64>,
    ) -> Result<(), String> {
        for start in (base..base + WINDOW_SECTORS).step_by(BLOCK_SECTORS as usize) {
            match self.read_now(start, BLOCK_SECTORS)? {
                Ok(found) => self.note_content(content, start, found),
                Err(error) if error.detail.is_empty() => {
                    return Err("a read failed and nothing says why".to_owned());
                }
                Err(_) => self.tally.damage_found += 1,
            }
        }
        Ok(())
    }

    /// One read, alone, until it is answered. Wrong bytes are an error of the run.
    fn read_now(&mut self, start: u64, count: u64) -> Result<Content, String> {
        let id = self.next_id;
        self.next_id += 1;
        let operation = Operation::Read { offset: start * SECTOR, len: (count * SECTOR) as u32 };
        let now = self.now;
        self.volume()?.submit(Request { id: RequestId(id), operation }, now);
        loop {
            let now = self.now;
            self.volume()?.drive(now);
            if let Some(reply) = self.volume()?.poll_reply() {
                if reply.id.0 != id {
                    return Err(format!("{:?} was answered after its volume was gone", reply.id));
                }
                return match reply.result {
                    Ok(parts) => self.told_zeros(start, versions(start, &parts)?).map(Ok),
                    Err(error) => Ok(Err(error)),
                };
            }
            let wake = self.volume()?.wake_at();
            self.now = wake.ok_or("a read is never answered")?.max(self.now);
        }
    }

    /// What is called zeros without reading must read as zeros, unless bytes at home were damaged.
    fn told_zeros(&mut self, start: u64, found: Vec<u64>) -> Result<Vec<u64>, String> {
        let len = found.len() as u64 * SECTOR;
        let mut at = 0;
        for extent in self.volume()?.block_status(start * SECTOR, len, usize::MAX) {
            let end = at + (extent.len / SECTOR) as usize;
            let wrong = (at..end).find(|index| extent.zero && found[*index] != 0);
            if let Some(index) = wrong.filter(|_| !self.is_damaged()) {
                let (sector, version) = (start + index as u64, found[index]);
                return Err(format!(
                    "sector {sector} is called zeros and reads as version {version}"
                ));
            }
            at = end;
        }
        Ok(found)
    }

    /// Everything logged goes home; false if a command hangs.
    pub(crate) fn drain(&mut self) -> Result<bool, String> {
        if !self.settle()? {
            return Ok(false);
        }
        let now = self.now;
        self.volume()?.start_checkpoint(true, now);
        self.wait_for("a checkpoint", |life| Ok(!life.volume()?.status().checkpointing))
    }

    /// With all faults gone everything asked for is answered in time, the logs can be emptied, and the
    /// volume says that it is well, or what is broken.
    pub(crate) fn make_progress(&mut self) -> Result<(), String> {
        self.disarm();
        // Faults that were on their way still arrive.
        self.settle()?;
        for _ in 0..EVENTS_ON_THE_WAY_MAX {
            if !self.is_busy() {
                break;
            }
            self.jump(Nanos::MAX)?;
        }
        // Nor does it do with a device again that it gave up, before it is opened anew.
        let given_up = self.volume()?.status().stats.devices_given_up > 0;
        let failed = given_up || self.volume()?.engine().failure().is_some();
        if failed || self.disk.hung() > 0 || self.choices.coin() {
            self.kill(0)?;
            self.disarm();
        }
        if self.over {
            return Ok(());
        }
        self.settle()?;
        self.faults_at_start = self.disk.counts().of_commands();
        let began = self.now;
        for window in 0..WINDOWS {
            let place = Place { window, start: 8 * window, count: 16 };
            self.write(place, true)?;
            self.read(place)?;
        }
        self.flush()?;
        self.settle()?;
        self.empty_logs()?;
        let took = self.now.since(began);
        if took > PROGRESS_WITHIN {
            return Err(format!("progress took {took}, expected at most {PROGRESS_WITHIN}"));
        }
        self.is_well()?;
        if matches!(self.scenario.arrangement, Arrangement::Mirror { .. }) {
            if self.disk.come_back() {
                self.kill(0)?;
                self.disarm();
            }
            self.idle(COPIED_WITHIN)?;
            if self.stop()? == Stop::Clean {
                self.tally.mirrors_alike += u64::from(self.disk.compare()?);
            }
            self.begin(0)?;
        }
        self.cut(1)
    }

    fn empty_logs(&mut self) -> Result<(), String> {
        for _ in 0..PASSES_MAX {
            self.drain()?;
            // What has no home stays.
            let is_chain = self.scenario.preset.layout.is_chain();
            if is_chain || self.volume()?.status().map_entries == 0 {
                return Ok(());
            }
        }
        let status = self.volume()?.status();
        let named = !status.damage.is_empty() || status.stats.unreadable > 0;
        if self.is_damaged() && named {
            return Ok(());
        }
        Err(format!("a checkpoint of everything leaves blocks in the logs: {status:?}"))
    }

    fn is_well(&mut self) -> Result<(), String> {
        let status = self.volume()?.status();
        if status.phase == Phase::Serving { Ok(()) } else { Err(format!("not well: {status:?}")) }
    }
}
