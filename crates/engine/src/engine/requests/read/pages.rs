//! Reads of a volume whose map is paged: the pages that a plan needs come first, and the read holds them until it ends.
//!
//! It holds them itself, so that a cache too small for all of them is no reason to read one twice. A newer snapshot makes them worthless, and
//! the read begins anew; snapshots are seldom, reads short. What it holds is bounded by its length: a page says something of at least one of
//! its sectors.

use super::{Begun, Body, ReadState};
use crate::engine::Engine;
use crate::engine::requests::Active;
use crate::state::paged::{Missing, Page};
use nearhead_service::RequestError;
use std::collections::BTreeSet;

/// Pages of the map, as far as one read has to do with them.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// Those that it has. Of an older snapshot they are never looked at.
    pub(super) held: Vec<Page>,
    /// Those that it waits for.
    awaited: BTreeSet<u32>,
}

impl Pages {
    pub(super) fn with(held: Vec<Page>) -> Self {
        Self { held, awaited: BTreeSet::new() }
    }

    pub(super) fn are_missing(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Those that it has, for the next attempt.
    pub(super) fn take(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.held)
    }
}

impl ReadState {
    /// It is no plan without these.
    pub(super) fn waits_for(&mut self, missing: Missing) {
        self.parts.clear();
        self.transfers.clear();
        self.error = None;
        self.pages.awaited = missing.into_iter().collect();
    }

    fn begun_again(&mut self, pages: Vec<Page>) -> ((u64, u32), Begun) {
        let (attempts, is_bulk, asks_cache) = (self.attempts, self.is_bulk, self.asks_cache);
        ((self.offset, self.len), Begun { attempts, is_bulk, asks_cache, pages })
    }
}

impl Engine {
    fn read_in(&mut self, slot: u32) -> Option<&mut ReadState> {
        match self.requests.active.get_mut(slot) {
            Some(Active { body: Body::Read(state), .. }) => Some(state),
            _ => None,
        }
    }

    /// Asks for all pages that the read waits for.
    pub(super) fn fetch_pages(&mut self, slot: u32) {
        let Some(state) = self.read_in(slot) else { return };
        let awaited: Vec<u32> = state.pages.awaited.iter().copied().collect();
        for page in awaited {
            self.map_pages.want(&mut self.core, page, slot);
        }
    }

    /// A page came for the request in this slot, or does not.
    pub(crate) fn on_page_for_read(
        &mut self,
        slot: u32,
        number: u32,
        page: &Result<Page, RequestError>,
    ) {
        let Some(state) = self.read_in(slot) else { return };
        if !state.pages.awaited.remove(&number) {
            return;
        }
        match page {
            Ok(page) => state.pages.held.push(page.clone()),
            Err(error) => {
                state.error.get_or_insert_with(|| error.clone());
            }
        }
        if state.pages.are_missing() {
            return;
        }
        if state.error.is_some() {
            return self.finish_read(slot);
        }
        let pages = state.pages.take();
        let (range, begun) = state.begun_again(pages);
        self.read_again(slot, range, begun);
    }

    /// There is a newer snapshot, which has other pages.
    pub(crate) fn read_with_new_pages(&mut self, slot: u32) {
        let Some(state) = self.read_in(slot) else { return };
        if state.pages.are_missing() {
            let (range, begun) = state.begun_again(Vec::new());
            self.read_again(slot, range, begun);
        }
    }
}
