//! Which places a view has mapped sections at, and with which protection keys.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

/// Section, address in the view, offset in the section, length.
pub type Place = [u64; 4];

/// The places that a view knows. It is counted in how many of them each key is, so that who looks for a key that nobody needs does not look
/// through all.
#[derive(Default)]
pub struct Places {
    /// The keys that pages of the place may have, a bit each.
    all: BTreeMap<Place, u16>,
    with: [u32; 16],
}

impl Places {
    pub const fn new() -> Places {
        Places { all: BTreeMap::new(), with: [0; 16] }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn is_known(&self, place: &Place) -> bool {
        self.all.contains_key(place)
    }

    /// A page of the place is about to be mapped with `key`. Whether the place is new.
    pub fn enter(&mut self, place: Place, key: u8) -> bool {
        let mut new = false;
        let keys = self.all.entry(place).or_insert_with(|| {
            new = true;
            0
        });
        if *keys & 1 << key == 0 {
            *keys |= 1 << key;
            self.with[usize::from(key)] += 1;
        }
        new
    }

    pub fn remove(&mut self, place: &Place) {
        let keys = self.all.remove(place).unwrap_or_default();
        (0..16).filter(|key| keys & 1 << key != 0).for_each(|key| self.with[key] -= 1);
    }

    pub fn clear(&mut self) {
        *self = Places::new();
    }

    /// The next places in which a key is, behind `last`, `most` at once: in none of them from now on.
    pub fn take_key(&mut self, key: u8, last: Option<Place>, most: usize) -> Vec<Place> {
        let left = &mut self.with[usize::from(key)];
        let behind = self.all.range_mut((last.map_or(Unbounded, Excluded), Unbounded));
        let with = behind.filter(|(_, keys)| **keys & 1 << key != 0);
        let taken = with.take(most.min(*left as usize)).map(|(place, keys)| {
            *keys &= !(1 << key);
            *left -= 1;
            *place
        });
        taken.collect()
    }

    /// The keys that pages may have, a bit each.
    pub fn keys(&self) -> u16 {
        (0..16).filter(|key| self.with[*key] > 0).fold(0, |keys, key| keys | 1 << key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes and goes: the keys are those of the places that are there.
        #[test]
        fn keys_are_those_of_places(steps in prop::collection::vec((0..4u8, 0..6u64, 0..16u8), 0..200), most in 1..4usize) {
            let mut places = Places::new();
            let mut plain: BTreeMap<Place, Vec<u8>> = BTreeMap::new();
            for (what, n, key) in steps {
                let place = [n, 0, 0, 1];
                match what {
                    0 | 1 => {
                        prop_assert_eq!(places.enter(place, key), !plain.contains_key(&place));
                        plain.entry(place).or_default().push(key);
                    }
                    2 => {
                        places.remove(&place);
                        plain.remove(&place);
                    }
                    _ => {
                        let had: Vec<Place> =
                            plain.iter().filter(|(_, keys)| keys.contains(&key)).map(|(place, _)| *place).collect();
                        let mut taken = Vec::new();
                        loop {
                            let more = places.take_key(key, taken.last().copied(), most);
                            prop_assert!(more.len() <= most);
                            let is_last = more.len() < most;
                            taken.extend(more);
                            if is_last {
                                break;
                            }
                        }
                        prop_assert_eq!(taken, had);
                        plain.values_mut().for_each(|keys| keys.retain(|other| *other != key));
                    }
                }
                let keys = plain.values().flatten().fold(0, |keys, key| keys | 1 << key);
                prop_assert_eq!((places.len(), places.keys()), (plain.len(), keys));
            }
        }
    }
}
