//! A queue in pieces, none of which is longer than a page: the kernel's heap may be in pieces as well, and has to have the next one whoever
//! has made that so.

use alloc::collections::VecDeque;

/// A queue.
#[derive(Clone, Debug)]
pub struct Pieces<T> {
    /// None is empty, unless it is the only one.
    all: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces::new()
    }
}

impl<T> Pieces<T> {
    /// Most in one piece.
    pub const PIECE: usize = 4096 / size_of::<T>();

    /// Empty.
    pub const fn new() -> Pieces<T> {
        Pieces { all: VecDeque::new(), len: 0 }
    }

    /// Puts one behind all others.
    pub fn push_back(&mut self, one: T) {
        if self.all.back().is_none_or(|last| last.len() == Self::PIECE) {
            self.all.push_back(VecDeque::new());
        }
        if let Some(last) = self.all.back_mut() {
            last.push_back(one);
            self.len += 1;
        }
    }

    /// Takes the first one.
    pub fn pop_front(&mut self) -> Option<T> {
        let one = self.all.front_mut()?.pop_front()?;
        self.has_left(0);
        Some(one)
    }

    /// Takes the last one.
    pub fn pop_back(&mut self) -> Option<T> {
        let one = self.all.back_mut()?.pop_back()?;
        self.has_left(self.all.len() - 1);
        Some(one)
    }

    /// Takes the first one that `wanted` says yes to.
    pub fn remove(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let mut places = self.all.iter().enumerate();
        let (piece, at) = places.find_map(|(piece, of)| Some((piece, of.iter().position(&mut wanted)?)))?;
        let one = self.all.get_mut(piece)?.remove(at)?;
        self.has_left(piece);
        Some(one)
    }

    /// One is taken out of this piece.
    fn has_left(&mut self, piece: usize) {
        self.len -= 1;
        if self.all.len() > 1 && self.all[piece].is_empty() {
            self.all.remove(piece);
        }
    }

    /// All, from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[cfg(test)]
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(VecDeque::len)
    }
}
