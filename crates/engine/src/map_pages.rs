//! Pages of a paged map that clients' reads wait for: each is read once, verified, and told to all who wait.
//!
//! A page belongs to one snapshot. Once there is a newer one nobody waits for pages of the older any more: those who did begin anew, and what
//! still comes is dropped. A page that cannot be read, or is not what was written, is read again a few times before those who wait are
//! told; nothing of it is believed. Requests are bounded where clients come in, and so is this.

use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::state::paged::Page;
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Payload};
use nearhead_service::{ErrorKind, RequestError};
use std::collections::{BTreeMap, BTreeSet};

/// How often a page is read before those who wait for it are told that it cannot be.
const READS_MAX: u8 = 3;

/// A page on its way.
#[derive(Debug, Default)]
struct Fetch {
    /// Requests that wait for it.
    slots: Vec<u32>,
    reads: u8,
}

/// What became of a page.
#[derive(Debug)]
pub(crate) struct Fetched {
    slots: Vec<u32>,
    page: Result<Page, RequestError>,
}

impl Fetched {
    /// Who waited, and for what.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Result<Page, RequestError>) {
        (self.slots, self.page)
    }
}

/// All pages that are on their way.
#[derive(Debug, Default)]
pub(crate) struct MapPages {
    under_way: BTreeMap<u32, Fetch>,
    /// Pages of the newest snapshot that are told to be damaged already.
    told: BTreeSet<u32>,
}

impl MapPages {
    /// The request in this slot needs the page.
    pub(crate) fn want(&mut self, core: &mut Core, page: u32, slot: u32) {
        let fetch = self.under_way.entry(page).or_default();
        if !fetch.slots.contains(&slot) {
            fetch.slots.push(slot);
        }
        if fetch.reads == 0 {
            fetch.reads = 1;
            read(core, page);
        }
    }

    /// A page of this snapshot was read, or could not be: who waited for it, once it is here or given up.
    pub(crate) fn on_read(
        &mut self,
        core: &mut Core,
        (page, number): (u32, u64),
        result: Result<Payload, DiskError>,
    ) -> Option<Fetched> {
        let base = core.layers().paged()?.base();
        if base.number() != number {
            return None;
        }
        let can_read_again = result.as_ref().map_or_else(|error| error.kind, |_| DiskErrorKind::Io)
            == DiskErrorKind::Io;
        let found = match result {
            Ok(data) => Page::of(base, page, data),
            Err(error) => Err(format!("page {page} of snapshot {number}: {error}")),
        };
        let fetch = self.under_way.get_mut(&page)?;
        if found.is_err() && can_read_again && fetch.reads < READS_MAX {
            fetch.reads += 1;
            read(core, page);
            return None;
        }
        let slots = self.under_way.remove(&page)?.slots;
        let page = match found {
            Ok(found) => {
                core.recorded_mut().keep_page(found.clone());
                Ok(found)
            }
            Err(problem) => {
                let problem = format!("map: {problem}");
                if self.told.insert(page) {
                    core.note(DamageKind::Snapshot.told(problem.clone()));
                }
                let detail =
                    format!("{problem}; `nearhead repair` makes the map anew from the logs");
                Err(RequestError::new(ErrorKind::Io, detail))
            }
        };
        Some(Fetched { slots, page })
    }

    /// There is a newer snapshot: who waited for pages of the older one.
    pub(crate) fn begin_anew(&mut self) -> Vec<u32> {
        self.told.clear();
        let mut slots: Vec<u32> = std::mem::take(&mut self.under_way)
            .into_values()
            .flat_map(|fetch| fetch.slots)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

fn read(core: &mut Core, page: u32) {
    let Some(paged) = core.layers().paged() else { return };
    let ((offset, len), number) = (paged.base().extent(page, 1), paged.base().number());
    core.stats_mut().map_pages_read += 1;
    core.stats_mut().map_read_bytes += u64::from(len);
    let lane = core.setup().map.lane;
    let purpose = Purpose::MapPage { page, number };
    core.issue_on(lane, Class::Foreground, purpose, Command::Read { offset, len });
}
