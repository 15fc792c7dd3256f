//! A list with holes: as long as a section may be, and never more memory in one piece than some hundred bytes. (The kernel's heap may be in pieces itself,
//! and an allocation that fails stops the kernel.)

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Where most have all that they have: found without a search.
const LOW: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct List<T> {
    /// As many as were ever needed.
    low: Vec<Option<T>>,
    high: BTreeMap<usize, T>,
}

impl<T> List<T> {
    pub(crate) const fn new() -> List<T> {
        List { low: Vec::new(), high: BTreeMap::new() }
    }

    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        match self.low.get(at) {
            Some(one) => one.as_ref(),
            None => self.get_high(at),
        }
    }

    #[inline(never)]
    fn get_high(&self, at: usize) -> Option<&T> {
        if self.high.is_empty() { None } else { self.high.get(&at) }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at < self.low.len() { self.low[at].as_mut() } else { self.get_high_mut(at) }
    }

    #[inline(never)]
    fn get_high_mut(&mut self, at: usize) -> Option<&mut T> {
        if self.high.is_empty() { None } else { self.high.get_mut(&at) }
    }

    /// The one there, made now if there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, at: usize, make: impl FnOnce() -> T) -> &mut T {
        if at >= self.low.len() {
            if at >= LOW {
                return self.high.entry(at).or_insert_with(make);
            }
            self.low.resize_with(at + 1, || None);
        }
        self.low[at].get_or_insert_with(make)
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        if at < LOW { self.low.get_mut(at)?.take() } else { self.high.remove(&at) }
    }

    /// Those from `at` on, which it has no more.
    pub(crate) fn split_off(&mut self, at: usize) -> impl Iterator<Item = T> + use<T> {
        let low = if at < self.low.len() { self.low.split_off(at) } else { Vec::new() };
        low.into_iter().flatten().chain(self.high.split_off(&at).into_values())
    }

    /// From `at` on, with their places.
    pub(crate) fn from(&self, at: usize) -> impl Iterator<Item = (usize, &T)> {
        let low = self.low.iter().enumerate().skip(at).filter_map(|(at, one)| Some((at, one.as_ref()?)));
        low.chain(self.high.range(at..).map(|(at, one)| (*at, one)))
    }

    /// The same, to be changed.
    pub(crate) fn from_mut(&mut self, at: usize) -> impl Iterator<Item = (usize, &mut T)> {
        let low = self.low.iter_mut().enumerate().skip(at).filter_map(|(at, one)| Some((at, one.as_mut()?)));
        low.chain(self.high.range_mut(at..).map(|(at, one)| (*at, one)))
    }

    /// What the places of the first ones take in memory, at the most.
    pub(crate) fn bytes(&self) -> u64 {
        (2 * self.low.len() * size_of::<Option<T>>()) as u64
    }

    /// Behind the last one there may be.
    pub(crate) fn end(&self) -> usize {
        self.high.last_key_value().map_or(self.low.len(), |(at, _)| at + 1)
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_list_with_holes(steps in prop::collection::vec((0..4u8, 0..200usize), 0..60)) {
            let (mut list, mut plain) = (List::new(), BTreeMap::new());
            for (n, (what, at)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        prop_assert_eq!(*list.get_or_insert_with(at, || n), *plain.entry(at).or_insert(n));
                    }
                    2 => prop_assert_eq!(list.remove(at), plain.remove(&at)),
                    _ => {
                        prop_assert!(list.split_off(at).eq(plain.split_off(&at).into_values()));
                        prop_assert!(list.end() <= at || list.end() <= LOW);
                    }
                }
                prop_assert!(list.from(at).eq(plain.range(at..).map(|(at, one)| (*at, one))));
                prop_assert!(list.from_mut(at).map(|(at, one)| (at, *one)).eq(plain.range(at..).map(|(at, one)| (*at, *one))));
                prop_assert_eq!((list.get(at).copied(), list.get_mut(at).copied()), (plain.get(&at).copied(), plain.get(&at).copied()));
                prop_assert!(plain.keys().all(|at| *at < list.end()));
            }
        }
    }
}
