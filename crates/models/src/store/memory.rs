//! A store in memory: only written pages take room, and images share what they have in common.
//!
//! A crash tester makes an image per crash, so copies are cheap: every page is shared until one
//! side writes it, and [`MemoryStore::consolidate`] moves the pages written so far into a table
//! that copies share as a whole. A page that repeats one byte shares its memory with all such pages: zeros and
//! fillers are much of what benches and logs write, and fresh memory costs more time than the rest of a write.

use super::Store;
use nearhead_basics::NumberHash;
use nearhead_disk::{DiskError, Run};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

const PAGE_BYTES: u64 = 4096;
/// Pages looked at to tell how long a run is.
const RUN_PAGES_MAX: u64 = 1024;

type Page = Arc<[u8; PAGE_BYTES as usize]>;
/// `None` marks a page of zeros that hides the one in the base.
type Pages = HashMap<u64, Option<Page>, NumberHash>;

/// Sparse bytes in memory.
#[derive(Clone, Default)]
pub struct MemoryStore {
    base: Option<Arc<Pages>>,
    pages: Pages,
}

/// The pages that repeat one byte, by that byte; of the program and not of a store, so that copies stay cheap.
static REPEATED: [OnceLock<Page>; 256] = [const { OnceLock::new() }; 256];

impl MemoryStore {
    /// A store of zeros.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the pages written since the last call into the table that copies share.
    ///
    /// Copying a store then costs one reference count plus the pages written after this call. The
    /// call itself is cheapest while no other copy is alive.
    pub fn consolidate(&mut self) {
        let changed = std::mem::take(&mut self.pages);
        // Copies the shared table (not the pages) if another store still holds it.
        Arc::make_mut(self.base.get_or_insert_default()).extend(changed);
    }

    /// Pages written since the last [`Self::consolidate`].
    pub fn pages_unshared(&self) -> usize {
        self.pages.len()
    }

    /// Bytes of memory held by pages at most, shared ones included.
    pub fn page_bytes(&self) -> u64 {
        let shared = self.base.as_ref().map_or(0, |base| base.len());
        (shared + self.pages.len()) as u64 * PAGE_BYTES
    }

    fn page(&self, number: u64) -> Option<&[u8; PAGE_BYTES as usize]> {
        let own = self.pages.get(&number);
        own.or_else(|| self.base.as_ref()?.get(&number))?.as_deref()
    }

    fn page_mut(&mut self, number: u64) -> &mut [u8; PAGE_BYTES as usize] {
        let base = self.base.as_ref();
        let page = self.pages.entry(number).or_insert_with(|| base?.get(&number)?.clone());
        Arc::make_mut(page.get_or_insert_with(|| Arc::new([0; PAGE_BYTES as usize])))
    }

    /// Replaces a whole page.
    fn put_page(&mut self, number: u64, bytes: &[u8; PAGE_BYTES as usize]) {
        if bytes[1..] == bytes[..PAGE_BYTES as usize - 1] {
            let page = REPEATED[bytes[0] as usize].get_or_init(|| Arc::new(*bytes));
            self.pages.insert(number, Some(Arc::clone(page)));
        } else if let Some(Some(own)) = self.pages.get_mut(&number)
            && let Some(own) = Arc::get_mut(own)
        {
            *own = *bytes;
        } else {
            self.pages.insert(number, Some(Arc::new(*bytes)));
        }
    }
}

/// Calls `each(page number, range in the page, range in the whole)` for the pages of a range.
fn for_each_page(
    offset: u64,
    len: u64,
    mut each: impl FnMut(u64, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < len {
        let (page, inside) = ((offset + done) / PAGE_BYTES, (offset + done) % PAGE_BYTES);
        let step = (PAGE_BYTES - inside).min(len - done);
        let (inside, from) = (inside as usize, done as usize);
        each(page, inside..inside + step as usize, from..from + step as usize);
        done += step;
    }
}

impl Store for MemoryStore {
    fn run_at(&self, offset: u64) -> Run {
        let first = offset / PAGE_BYTES;
        let zero = self.page(first).is_none();
        let alike = (1..RUN_PAGES_MAX).take_while(|n| self.page(first + n).is_none() == zero);
        Run { len: (1 + alike.count() as u64) * PAGE_BYTES - offset % PAGE_BYTES, zero }
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), DiskError> {
        for_each_page(offset, target.len() as u64, |number, inside, part| {
            match self.page(number) {
                Some(page) => target[part].copy_from_slice(&page[inside]),
                None => target[part].fill(0),
            }
        });
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        for_each_page(offset, bytes.len() as u64, |number, inside, part| {
            match bytes[part.clone()].try_into() {
                Ok(whole) => self.put_page(number, whole),
                Err(_) => self.page_mut(number)[inside].copy_from_slice(&bytes[part]),
            }
        });
        Ok(())
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), DiskError> {
        for_each_page(offset, len, |number, inside, _| {
            let hides = self.base.as_ref().is_some_and(|base| base.contains_key(&number));
            if inside.len() as u64 == PAGE_BYTES {
                if hides {
                    self.pages.insert(number, None);
                } else {
                    self.pages.remove(&number);
                }
            } else if self.page(number).is_some() {
                self.page_mut(number)[inside].fill(0);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    fn read(store: &MemoryStore, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        store.read(offset, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_copy_keeps_its_content_whatever_happens_to_the_original() {
        let mut original = MemoryStore::new();
        original.write(4000, b"before").unwrap();
        original.consolidate();
        let mut image = original.clone();
        original.write(4000, b"after!").unwrap();
        original.zero(0, 1 << 20).unwrap();
        image.write(9000, b"own").unwrap();
        assert_eq!(read(&image, 4000, 6), b"before");
        assert_eq!(read(&original, 4000, 6), [0; 6]);
        assert_eq!(read(&original, 9000, 3), [0; 3]);
        original.consolidate();
        assert_eq!(read(&original, 4000, 6), [0; 6]);
    }

    #[test]
    fn pages_that_repeat_one_byte_share_memory_until_they_are_written() {
        let mut store = MemoryStore::new();
        let page = PAGE_BYTES as usize;
        store.write(0, &vec![7; 3 * page]).unwrap();
        let at = |store: &MemoryStore, number| std::ptr::from_ref(store.page(number).unwrap());
        assert_eq!(at(&store, 0), at(&store, 2));
        store.write(PAGE_BYTES + 5, b"other").unwrap();
        assert_ne!(at(&store, 0), at(&store, 1));
        assert_eq!(read(&store, PAGE_BYTES + 4, 7), b"\x07other\x07");
        assert_eq!(read(&store, 0, page), vec![7; page]);
        let mut one_differs = vec![7; page];
        one_differs[page - 1] = 8;
        store.write(2 * PAGE_BYTES, &one_differs).unwrap();
        assert_eq!(read(&store, 2 * PAGE_BYTES, page), one_differs);
        assert_eq!(read(&store, 0, page), vec![7; page]);
    }

    #[test]
    fn it_behaves_as_one_flat_array_does() {
        for seed in 0..50 {
            let mut random = SplitMix::new(seed);
            let mut flat = vec![0_u8; 64 * 1024];
            let mut store = MemoryStore::new();
            let mut kept = Vec::new();
            for _ in 0..40 {
                let offset = random.below(60_000);
                let len = random.below(16_000).min(flat.len() as u64 - offset);
                let range = offset as usize..(offset + len) as usize;
                match random.below(6) {
                    0 => {
                        store.zero(offset, len).unwrap();
                        flat[range].fill(0);
                    }
                    1 => kept.push((store.clone(), flat.clone())),
                    2 => store.consolidate(),
                    _ => {
                        let byte = random.next_u64() as u8;
                        store.write(offset, &vec![byte; len as usize]).unwrap();
                        flat[range].fill(byte);
                    }
                }
            }
            kept.push((store, flat));
            for (store, flat) in kept {
                assert!(read(&store, 0, flat.len()) == flat, "seed {seed}");
            }
        }
    }
}
