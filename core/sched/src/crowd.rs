//! A crowd that waits for one thing: who has left without it is forgotten a few at a time, so that joining takes no longer where many wait.

use alloc::vec::Vec;

/// Who waits, in no order. At most as many as have left since the list was last gone through are in it beside those who wait, and those.
#[derive(Debug)]
pub struct Crowd<T> {
    all: Vec<T>,
    /// Who is looked at next.
    next: usize,
}

impl<T> Default for Crowd<T> {
    fn default() -> Crowd<T> {
        Crowd::new()
    }
}

impl<T> Crowd<T> {
    /// How many of the others are looked at when one joins: more than one, or the list would be gone through never.
    pub const LOOKS: usize = 2;

    /// How many of a part that have left are forgotten at once.
    pub const FORGETS: usize = 4;

    /// Nobody.
    pub const fn new() -> Crowd<T> {
        Crowd { all: Vec::new(), next: 0 }
    }

    /// One joins. `has_left` says of another one whether it need not be remembered.
    pub fn join(&mut self, one: T, has_left: impl Fn(&T) -> bool) {
        for _ in 0..Crowd::<T>::LOOKS {
            if self.next >= self.all.len() {
                self.next = 0;
            }
            match self.all.get(self.next) {
                Some(other) if has_left(other) => drop(self.all.swap_remove(self.next)),
                Some(_) => self.next += 1,
                None => break,
            }
        }
        self.all.push(one);
    }

    /// All of them, who wait no longer.
    pub fn disband(&mut self) -> Vec<T> {
        self.next = 0;
        core::mem::take(&mut self.all)
    }

    /// At most `most` of those before `end`, from the back, and the end for the next time; to begin with [`usize::MAX`]. Whoever is in the crowd from the
    /// first time to the last is among them, whoever joins or is forgotten in between.
    pub fn before(&self, end: usize, most: usize) -> (&[T], usize) {
        let end = end.min(self.all.len());
        let begin = end.saturating_sub(most);
        (&self.all[begin..end], begin)
    }

    /// The same, by whoever goes through all in any case: who has left is forgotten on the way, a few of them, since to forget one may take long. Some may
    /// be met twice, and who has come meanwhile.
    pub fn sifted(&mut self, end: usize, most: usize, has_left: impl Fn(&T) -> bool) -> (&[T], usize) {
        let end = end.min(self.all.len());
        let begin = end.saturating_sub(most);
        let mut left = Crowd::<T>::FORGETS;
        for at in (begin..end).rev() {
            if left > 0 && has_left(&self.all[at]) {
                left -= 1;
                // Who comes in his place was behind him, and so met before.
                drop(self.all.swap_remove(at));
            }
        }
        (&self.all[begin..end.min(self.all.len())], begin)
    }

    /// All that are remembered.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
