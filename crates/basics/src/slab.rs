//! Values in places that are used again, addressed by small numbers.
//!
//! For what is outstanding: requests, commands, jobs. Insertion and removal are O(1), nothing is moved, and there are
//! never more places than values were ever held at once, a number that the owner bounds: by what it lets in, or by
//! [`Slab::with_room`]. Who answers by the number alone uses the place; where an answer may come late or twice, a *tag*
//! adds how often the place was used, so that an answer to a forgotten value never reaches a newer one.

/// Bits of a tag that name the place. The other 32 of its 56 bits count the uses: eight stay free for the caller.
const PLACE_BITS: u32 = 24;
/// Most places that tags can name.
const PLACES_MAX: u32 = 1 << PLACE_BITS;

/// Values in reusable places. The place that was freed last is used first.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    /// How often each place was used, and what is in it.
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    room: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// Grows as its owner inserts.
    pub fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), room: u32::MAX }
    }

    /// Is full with `count` values, at least one and at most 2^24.
    pub fn with_room(count: u32) -> Self {
        Self { room: count.clamp(1, PLACES_MAX), ..Self::new() }
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.len() >= self.room as usize
    }

    /// Puts `value` into a free place; its number. Whoever set a room asks [`Slab::is_full`] before.
    pub fn insert(&mut self, value: T) -> u32 {
        debug_assert!(!self.is_full(), "a value more than there is room for");
        if let Some(place) = self.free.pop() {
            let (uses, slot) = &mut self.places[place as usize];
            *uses = uses.wrapping_add(1);
            *slot = Some(value);
            return place;
        }
        self.places.push((1, Some(value)));
        (self.places.len() - 1) as u32
    }

    /// As [`Slab::insert`], but gives a tag, of 56 bits, that is not given again before 2^32 uses of the place.
    pub fn insert_tagged(&mut self, value: T) -> u64 {
        let place = self.insert(value);
        debug_assert!(place < PLACES_MAX, "a place that no tag can name");
        u64::from(self.places[place as usize].0) << PLACE_BITS | u64::from(place)
    }

    /// As [`Slab::insert_tagged`]; gives the value back where there is no room.
    pub fn try_insert_tagged(&mut self, value: T) -> Result<u64, T> {
        if self.is_full() { Err(value) } else { Ok(self.insert_tagged(value)) }
    }

    /// The values held, each with its place.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &T)> {
        let with_places = (0..).zip(&self.places);
        with_places.filter_map(|(place, (_, value))| Some((place, value.as_ref()?)))
    }

    /// The values held, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// The value at `place`.
    pub fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.1.as_ref()
    }

    /// The value at `place`, to change it.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.1.as_mut()
    }

    /// The value to which `tag` was given, if it is still held.
    pub fn get_tagged_mut(&mut self, tag: u64) -> Option<&mut T> {
        let place = self.place_of(tag)?;
        self.get_mut(place)
    }

    /// Takes the value at `place` out.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.1.take()?;
        self.free.push(place);
        Some(value)
    }

    /// Takes the value out to which `tag` was given, if it is still held.
    pub fn remove_tagged(&mut self, tag: u64) -> Option<T> {
        let place = self.place_of(tag)?;
        self.remove(place)
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

    /// The place that `tag` names, if this is its latest use.
    fn place_of(&self, tag: u64) -> Option<u32> {
        let place = (tag & u64::from(PLACES_MAX - 1)) as u32;
        let (uses, _) = self.places.get(place as usize)?;
        (u64::from(*uses) == tag >> PLACE_BITS).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_after_removal() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.insert("c"), a);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (Some(&"c"), Some(&"b"), 2));
        assert_eq!(slab.iter().copied().collect::<String>(), "cb");
    }

    #[test]
    fn every_tag_leads_to_its_value_once() {
        let mut slab = Slab::with_room(3);
        let tags: Vec<u64> = (0..3).map(|value| slab.try_insert_tagged(value).unwrap()).collect();
        assert_eq!(slab.try_insert_tagged(9), Err(9));
        assert!(slab.is_full() && slab.len() == 3);
        for (value, tag) in tags.iter().enumerate() {
            assert_eq!(slab.get_tagged_mut(*tag).copied(), Some(value));
            assert_eq!(slab.remove_tagged(*tag), Some(value));
            assert_eq!(slab.remove_tagged(*tag), None, "a second reply");
        }
        assert!(slab.is_empty());
    }

    #[test]
    fn an_old_tag_does_not_reach_a_new_value() {
        let mut slab = Slab::with_room(1);
        let old = slab.insert_tagged('a');
        slab.remove_tagged(old);
        let new = slab.insert_tagged('b');
        assert_eq!((slab.remove_tagged(old), slab.get_tagged_mut(old)), (None, None));
        assert_eq!(slab.remove_tagged(u64::MAX >> 8), None);
        assert_eq!(slab.remove_tagged(new | 1 << 60), None, "bits that no tag has");
        assert_eq!(slab.remove_tagged(new), Some('b'));
    }

    /// Digests of simulated runs contain tags.
    #[test]
    fn the_tags_of_a_slab_never_change() {
        let mut slab = Slab::new();
        let tags = [slab.insert_tagged('a'), slab.insert_tagged('b')];
        assert_eq!(tags, [1 << 24, 1 << 24 | 1]);
        slab.remove(0);
        assert_eq!(slab.insert_tagged('c'), 2 << 24);
    }

    #[test]
    fn what_is_drained_leaves_its_places() {
        let mut slab: Slab<u8> = Slab::new();
        (0..4).for_each(|value| assert!(slab.insert(value) < 4));
        slab.remove(2);
        assert_eq!(slab.drain().collect::<Vec<_>>(), [0, 1, 3]);
        assert!(slab.is_empty());
        (0..4).for_each(|value| assert!(slab.insert(value) < 4));
    }
}
