//! One plane of a flash disk: its blocks, and which page holds what of the host.
//!
//! Pages are programmed in order inside a block and never twice before the block is erased. A page
//! of the host has at most one valid copy; what was programmed over or trimmed is invalid and is
//! given back when its block is collected. The map is sparse: a plane that was never written costs
//! a few dozen KiB, and at most 8 bytes for each page that was.

/// Host pages of one leaf of the map.
const LEAF_PAGES: usize = 64;

/// Values of a leaf: where the page was at the start; nowhere; else its place plus this.
const AT_START: u32 = 0;
const NOWHERE: u32 = 1;
const PLACES_FROM: u32 = 2;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// Being filled.
    Open,
    Full,
}

#[derive(Clone, Debug)]
struct Block {
    state: Use,
    programmed: u32,
    valid: u32,
    /// Pages that are being programmed.
    pending: u32,
    /// The host's page in each of its pages, where it was programmed since the start; `u32::MAX`
    /// where it is not valid.
    content: Option<Box<[u32]>>,
}

/// The blocks of a plane and its part of the map.
#[derive(Clone, Debug)]
pub(super) struct Plane {
    pages_per_block: u32,
    host_pages: u32,
    /// Whether the host's pages were programmed in order at the start.
    filled: bool,
    map: Vec<Option<Box<[u32; LEAF_PAGES]>>>,
    blocks: Vec<Block>,
    free: u32,
    /// The block that the host's pages go to, and the one that moved pages go to.
    open: [Option<u32>; 2],
}

/// Who programs a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Host = 0,
    Collector = 1,
}

impl Plane {
    pub(super) fn new(blocks: u32, pages_per_block: u32, host_pages: u32, filled: bool) -> Self {
        let mut left = if filled { host_pages } else { 0 };
        let block = || {
            let valid = left.min(pages_per_block);
            left -= valid;
            let state = if valid == 0 { Use::Free } else { Use::Full };
            Block {
                state,
                programmed: if valid == 0 { 0 } else { pages_per_block },
                valid,
                pending: 0,
                content: None,
            }
        };
        let blocks: Vec<Block> = std::iter::repeat_with(block).take(blocks as usize).collect();
        Self {
            pages_per_block,
            host_pages,
            filled,
            map: vec![None; (host_pages as usize).div_ceil(LEAF_PAGES)],
            free: blocks.iter().filter(|block| block.state == Use::Free).count() as u32,
            blocks,
            open: [None; 2],
        }
    }

    /// Memory of the map and of what blocks hold.
    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> usize {
        let leaves = self.map.iter().flatten().count() * size_of::<[u32; LEAF_PAGES]>();
        let contents = self.blocks.iter().filter_map(|block| block.content.as_ref());
        let contents: usize = contents.map(|content| size_of_val(&**content)).sum();
        leaves + contents + self.map.len() * 8 + self.blocks.len() * size_of::<Block>()
    }

    /// Blocks that are erased and unused.
    pub(super) fn free_blocks(&self) -> u32 {
        self.free
    }

    /// Where the host's page is; none if it holds nothing.
    pub(super) fn place(&self, page: u32) -> Option<u32> {
        let leaf = self.map[page as usize / LEAF_PAGES].as_ref();
        match leaf.map_or(AT_START, |leaf| leaf[page as usize % LEAF_PAGES]) {
            AT_START => self.filled.then_some(page),
            NOWHERE => None,
            place => Some(place - PLACES_FROM),
        }
    }

    fn set(&mut self, page: u32, value: u32) {
        let leaf = self.map[page as usize / LEAF_PAGES]
            .get_or_insert_with(|| Box::new([AT_START; LEAF_PAGES]));
        leaf[page as usize % LEAF_PAGES] = value;
    }

    /// Takes the next page to program. None if there is no free block for this use: the last two
    /// are kept for the collector.
    pub(super) fn allocate(&mut self, by: By) -> Option<u32> {
        let kept = if by == By::Host { 2 } else { 0 };
        let block = match self.open[by as usize] {
            Some(block) => block,
            None if self.free <= kept => return None,
            None => {
                let free = self.blocks.iter().position(|block| block.state == Use::Free)? as u32;
                self.blocks[free as usize].state = Use::Open;
                self.free -= 1;
                self.open[by as usize] = Some(free);
                free
            }
        };
        let pages_per_block = self.pages_per_block;
        let state = &mut self.blocks[block as usize];
        let place = block * pages_per_block + state.programmed;
        state.programmed += 1;
        state.pending += 1;
        if state.programmed == pages_per_block {
            state.state = Use::Full;
            self.open[by as usize] = None;
        }
        Some(place)
    }

    /// The host's page is at `place` now, which was programmed; its older copy is invalid.
    pub(super) fn settle(&mut self, page: u32, place: u32) {
        self.forget(page);
        self.set(page, place + PLACES_FROM);
        let per_block = self.pages_per_block as usize;
        let block = &mut self.blocks[place as usize / per_block];
        block.pending -= 1;
        let content =
            block.content.get_or_insert_with(|| vec![u32::MAX; per_block].into_boxed_slice());
        content[place as usize % per_block] = page;
        block.valid += 1;
    }

    /// What was programmed at `place` is wanted no more.
    pub(super) fn waste(&mut self, place: u32) {
        self.blocks[(place / self.pages_per_block) as usize].pending -= 1;
    }

    /// Nothing is being programmed any more: the power is off.
    pub(super) fn waste_all(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.pending = 0);
    }

    /// The host's page holds nothing any more.
    pub(super) fn forget(&mut self, page: u32) {
        let Some(place) = self.place(page) else { return };
        let per_block = self.pages_per_block as usize;
        let block = &mut self.blocks[place as usize / per_block];
        block.valid -= 1;
        if let Some(content) = &mut block.content {
            content[place as usize % per_block] = u32::MAX;
        }
        self.set(page, NOWHERE);
    }

    /// The full block with the fewest valid pages (greedy), if collecting it gains anything.
    pub(super) fn victim(&self) -> Option<u32> {
        let full = self
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| block.state == Use::Full && block.pending == 0);
        let (index, block) = full.min_by_key(|(_, block)| block.valid)?;
        (block.valid < self.pages_per_block).then_some(index as u32)
    }

    /// A valid page of `block`: its host page and its place.
    pub(super) fn valid_page(&self, block: u32) -> Option<(u32, u32)> {
        let first = block * self.pages_per_block;
        let held = &self.blocks[block as usize];
        if held.valid == 0 {
            return None;
        }
        (0..self.pages_per_block).find_map(|index| {
            let place = first + index;
            let page = match &held.content {
                Some(content) => content[index as usize],
                None => place,
            };
            let valid = page < self.host_pages && self.place(page) == Some(place);
            valid.then_some((page, place))
        })
    }

    /// The block is erased.
    pub(super) fn erase(&mut self, block: u32) {
        debug_assert_eq!(self.blocks[block as usize].valid, 0, "nothing valid is erased");
        self.blocks[block as usize] =
            Block { state: Use::Free, programmed: 0, valid: 0, pending: 0, content: None };
        self.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    #[test]
    fn a_block_with_pages_being_programmed_is_not_collected() {
        let mut plane = Plane::new(8, 4, 16, true);
        let places: Vec<u32> = (0..4).map(|_| plane.allocate(By::Host).unwrap()).collect();
        plane.settle(0, places[0]);
        // The new block is full and has one valid page so far, the block of the older copy three.
        assert_eq!(plane.victim(), Some(0));
        plane.settle(4, places[1]);
        places[2..].iter().for_each(|place| plane.waste(*place));
        assert_eq!(plane.victim(), Some(places[0] / 4), "nothing is on its way there any more");
    }

    #[test]
    fn every_page_is_where_it_was_programmed_last_whatever_is_collected() {
        for (seed, filled) in (0..20).flat_map(|seed| [(seed, true), (seed, false)]) {
            const HOST: u32 = 700;
            let mut plane = Plane::new(60, 16, HOST, filled);
            let mut random = SplitMix::new(seed);
            // What each page of the plane holds, and the newest content of each of the host's.
            let mut cells = vec![0_u64; 60 * 16];
            let mut newest: Vec<Option<u64>> = vec![None; HOST as usize];
            if filled {
                for page in 0..HOST as usize {
                    cells[page] = page as u64 + 1_000_000;
                    newest[page] = Some(page as u64 + 1_000_000);
                }
            }
            let mut collected = 0;
            for version in 1..4000_u64 {
                let page = random.below(u64::from(HOST)) as u32;
                if random.below(20) == 0 {
                    plane.forget(page);
                    newest[page as usize] = None;
                } else if let Some(place) = plane.allocate(By::Host) {
                    cells[place as usize] = version;
                    plane.settle(page, place);
                    newest[page as usize] = Some(version);
                }
                if plane.free_blocks() <= 4 {
                    let Some(victim) = plane.victim() else { continue };
                    while let Some((page, from)) = plane.valid_page(victim) {
                        let to = plane.allocate(By::Collector).expect("kept for the collector");
                        cells[to as usize] = cells[from as usize];
                        plane.settle(page, to);
                    }
                    plane.erase(victim);
                    cells[(victim * 16) as usize..][..16].fill(0);
                    collected += 1;
                }
                if version % 50 == 0 {
                    for page in 0..HOST {
                        let held = plane.place(page).map(|place| cells[place as usize]);
                        assert_eq!(
                            held, newest[page as usize],
                            "seed {seed}, {version}, page {page}"
                        );
                    }
                }
            }
            assert!(collected > 50, "seed {seed}: {collected}");
            let valid: u32 = plane.blocks.iter().map(|block| block.valid).sum();
            assert_eq!(valid as usize, newest.iter().flatten().count(), "seed {seed}");
        }
    }
}
