//! Values in reusable places.
//!
//! A tag adds the number of uses to the place, so that a late answer to a forgotten command is
//! never taken for the answer to a newer one. The number of places is the largest number of values
//! that were ever held at once, which the owner bounds.

/// Values in reusable places.
#[derive(Debug)]
pub struct Slots<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Number of values held.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts `value` into a free place; its number.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            let (uses, slot) = &mut self.places[place as usize];
            *uses = uses.wrapping_add(1);
            *slot = Some(value);
            return place;
        }
        self.places.push((0, Some(value)));
        (self.places.len() - 1) as u32
    }

    /// As [`Slots::insert`], but returns a tag that is never given out again.
    pub fn insert_tagged(&mut self, value: T) -> u64 {
        let place = self.insert(value);
        u64::from(self.places[place as usize].0) << 32 | u64::from(place)
    }

    /// All values held, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, slot)| slot.as_ref())
    }

    /// The value at `place`.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.1.as_mut()
    }

    /// The value to which `tag` was given, if it is still held.
    pub fn get_tagged_mut(&mut self, tag: u64) -> Option<&mut T> {
        let (uses, slot) = self.places.get_mut(tag as u32 as usize)?;
        if *uses == (tag >> 32) as u32 { slot.as_mut() } else { None }
    }

    /// Takes the value at `place` out.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.1.take()?;
        self.free.push(place);
        Some(value)
    }

    /// Takes the value out to which `tag` was given.
    pub fn remove_tagged(&mut self, tag: u64) -> Option<T> {
        let place = tag as u32;
        let uses = self.places.get(place as usize)?.0;
        if uses == (tag >> 32) as u32 { self.remove(place) } else { None }
    }

    /// Takes every value out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        let free = &mut self.free;
        let places = self.places.iter_mut().enumerate();
        places.filter_map(move |(place, (_, slot))| {
            let value = slot.take()?;
            free.push(place as u32);
            Some(value)
        })
    }
}
