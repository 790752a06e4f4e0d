//! A fixed number of places for what is outstanding, each reply finding its own.
//!
//! A tag holds the place and a running number, so that a second reply to the same request, or one
//! to a request long gone, is told from a good one.

/// Places for values of outstanding requests.
#[derive(Clone, Debug)]
pub struct Slots<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

/// Tags have 56 bits: a place of 24 and a running number of 32.
const PLACE_BITS: u32 = 24;
const PLACES_MAX: u32 = 1 << PLACE_BITS;

impl<T> Slots<T> {
    /// `count` free places, at least one and at most 2^24.
    pub fn new(count: u32) -> Self {
        let count = count.clamp(1, PLACES_MAX);
        Self { places: (0..count).map(|_| (0, None)).collect(), free: (0..count).rev().collect() }
    }

    /// Whether no place is free.
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether every place is free.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Takes a place for `value` and returns its tag; gives the value back when all are taken.
    pub fn insert(&mut self, value: T) -> Result<u64, T> {
        let Some(place) = self.free.pop() else { return Err(value) };
        let (number, slot) = &mut self.places[place as usize];
        *number = number.wrapping_add(1);
        *slot = Some(value);
        Ok(u64::from(*number) << PLACE_BITS | u64::from(place))
    }

    /// The value behind `tag`, if that is outstanding.
    pub fn get_mut(&mut self, tag: u64) -> Option<&mut T> {
        let (number, slot) = self.places.get_mut(place_of(tag))?;
        slot.as_mut().filter(|_| u64::from(*number) == tag >> PLACE_BITS)
    }

    /// The values in taken places, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// Frees the place of `tag`, if that is outstanding.
    pub fn remove(&mut self, tag: u64) -> Option<T> {
        let (number, slot) = self.places.get_mut(place_of(tag))?;
        if u64::from(*number) != tag >> PLACE_BITS {
            return None;
        }
        let value = slot.take()?;
        self.free.push(place_of(tag) as u32);
        Some(value)
    }
}

fn place_of(tag: u64) -> usize {
    (tag & u64::from(PLACES_MAX - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_leads_to_its_value_once() {
        let mut slots = Slots::new(3);
        let tags: Vec<u64> = (0..3).map(|value| slots.insert(value).unwrap()).collect();
        assert_eq!(slots.insert(9), Err(9));
        assert!(slots.is_full() && slots.taken() == 3);
        for (value, tag) in tags.iter().enumerate() {
            assert_eq!(slots.get_mut(*tag).copied(), Some(value));
            assert_eq!(slots.remove(*tag), Some(value));
            assert_eq!(slots.remove(*tag), None, "a second reply");
        }
        assert!(slots.is_empty());
    }

    #[test]
    fn an_old_tag_does_not_reach_a_new_value() {
        let mut slots = Slots::new(1);
        let old = slots.insert('a').unwrap();
        slots.remove(old);
        let new = slots.insert('b').unwrap();
        assert_eq!((slots.remove(old), slots.get_mut(old)), (None, None));
        assert_eq!(slots.remove(new), Some('b'));
        assert_eq!(slots.remove(u64::MAX >> 8), None);
    }
}
