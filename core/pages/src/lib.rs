#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod chunk;
mod cut;
mod list;
mod marks;
mod row;
mod survey;
mod whose;

use alloc::sync::Arc;
use alloc::vec::Vec;
use chunk::Chunk;
use list::List;

pub use chunk::CHUNK;
pub use cut::Cut;
pub use marks::Marks;
pub use row::Row;
pub use survey::Survey;
pub use whose::Whose;

/// A counted reference to a page of memory. Cloning it makes another owner of the same page.
pub trait Page: Clone {
    /// Whether this is the only reference. Only its holder can make another one from it, so "yes" stays true for as
    /// long as the holder's map is locked.
    fn is_exclusive(&self) -> bool;
}

impl<T> Page for Arc<T> {
    fn is_exclusive(&self) -> bool {
        let one = Arc::strong_count(self) == 1;
        // What former owners did with the page comes before what the only one does next.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        one
    }
}

/// What [`PageMap::make_writable`] did.
#[derive(Debug)]
pub struct Wrote<'a, P> {
    /// The page, which has no other owner now.
    pub page: &'a P,
    /// The page that was shared and of which `page` is a copy: mappings of it must go before it is dropped.
    pub replaced: Option<P>,
    /// There was no page before.
    pub fresh: bool,
}

/// The resident pages of one section. Offsets are counted in pages.
#[derive(Debug)]
pub struct PageMap<P: Page> {
    /// What is not there are chunks without a page.
    chunks: List<Arc<Chunk<P>>>,
    len_pages: u64,
    /// How many pages there are in all chunks.
    resident: u64,
    /// What the chunks take in memory, at the most.
    bytes: u64,
}

/// The chunk of a page, and its place there.
fn split(page: u64) -> (usize, usize) {
    ((page / CHUNK) as usize, (page % CHUNK) as usize)
}

/// The same of a range of pages, one chunk after the other: the chunk, the first place there, and how many.
fn parts(first: u64, count: u64) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut page, end) = (first, first + count);
    core::iter::from_fn(move || {
        let (chunk, at) = split(page);
        let some = (end - page).min(CHUNK - at as u64);
        page += some;
        (some > 0).then_some((chunk, at, some as usize))
    })
}

impl<P: Page> PageMap<P> {
    /// A map of `len_pages` pages, none of them resident.
    pub fn new(len_pages: u64) -> PageMap<P> {
        PageMap { chunks: List::new(), len_pages, resident: 0, bytes: 0 }
    }

    /// What its chunks take in memory at the most, those that it has in common with clones included.
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same of all its lists: it changes with that.
    pub fn bytes_of_lists(&self) -> u64 {
        self.bytes + self.chunks.bytes()
    }

    /// The length of the section.
    pub fn len_pages(&self) -> u64 {
        self.len_pages
    }

    /// The page for reading; `None` if it is not resident or beyond the end.
    #[inline(always)]
    pub fn get(&self, page: u64) -> Option<&P> {
        let (chunk, at) = split(page);
        self.chunk(chunk)?.get(at)
    }

    /// The first page from this one on in whose chunk anything is resident: all before are absent. `None`: all are.
    pub fn resident_from(&self, page: u64) -> Option<u64> {
        let (chunk, _) = split(page);
        let (at, _) = self.chunks.from(chunk).find(|(_, chunk)| chunk.resident() > 0)?;
        Some(page.max(at as u64 * CHUNK))
    }

    /// No page from this one on is resident.
    pub fn end(&self) -> u64 {
        self.chunks.end() as u64 * CHUNK
    }

    /// Whether the page is resident and nobody else can see it: it may be mapped writable.
    #[inline]
    pub fn writable(&self, page: u64) -> bool {
        let (chunk, at) = split(page);
        let Some(chunk) = self.chunk(chunk) else { return false };
        chunk.is_exclusive() && chunk.get(at).is_some_and(P::is_exclusive)
    }

    /// Sees to it that the page is resident and exclusively owned. `make` is asked for one if it is not: with `None` for
    /// a fresh page of zeroes, with the shared page for a copy of it.
    ///
    /// # Errors
    /// That of `make`; the contents have not changed.
    ///
    /// # Panics
    /// If the page lies beyond the end: the caller checks that.
    pub fn make_writable<E>(
        &mut self,
        page: u64,
        make: impl FnOnce(Option<&P>) -> Result<P, E>,
    ) -> Result<Wrote<'_, P>, E> {
        assert!(page < self.len_pages, "page {page} of {}", self.len_pages);
        let old = self.get(page);
        let fresh = old.is_none();
        let mut replaced = None;
        if !self.writable(page) {
            let new = make(old)?;
            replaced = self.put(page, new);
        }
        let page = self.get(page).expect("it was resident or has just been put there");
        Ok(Wrote { page, replaced, fresh })
    }

    /// How many of these pages are not resident.
    ///
    /// # Panics
    /// If they go beyond the end: the caller checks that.
    #[inline]
    pub fn absent(&self, first: u64, count: u64) -> u64 {
        assert!(first + count <= self.len_pages, "{count} pages from {first} of {}", self.len_pages);
        if count == 1 {
            // Most are one page, here and below.
            return u64::from(self.get(first).is_none());
        }
        parts(first, count)
            .map(|(chunk, at, some)| some as u64 - self.chunk(chunk).map_or(0, |chunk| chunk.resident_in(at, some)))
            .sum()
    }

    /// Makes these pages resident, in their order, those that are not. Returns how many were made: when `make` has none, all before are.
    ///
    /// # Panics
    /// If they go beyond the end: the caller checks that.
    #[inline]
    pub fn fill(&mut self, first: u64, count: u64, mut make: impl FnMut() -> Option<P>) -> u64 {
        assert!(first + count <= self.len_pages, "{count} pages from {first} of {}", self.len_pages);
        if count == 1 {
            let new = if self.get(first).is_some() { None } else { make() };
            return u64::from(new.is_some_and(|new| self.put(first, new).is_none()));
        }
        let mut made = 0;
        for (index, at, some) in parts(first, count) {
            let chunk = self.chunks.get_or_insert_with(index, || Arc::new(Chunk::new()));
            // (A clone's chunk is made one of our own only if there is something to be put into it.)
            if chunk.resident_in(at, some) == some as u64 {
                continue;
            }
            let chunk = Arc::make_mut(chunk);
            if at + some > chunk.room() {
                self.bytes += chunk.grow(at + some);
            }
            let (more, all) = chunk.fill(at, some, &mut make);
            made += more;
            self.resident += more;
            if !all {
                self.forget_if_empty(index);
                break;
            }
        }
        made
    }

    /// Puts a page there and returns the one that was there.
    ///
    /// # Panics
    /// If the page lies beyond the end: the caller checks that.
    pub fn supply(&mut self, page: u64, content: P) -> Option<P> {
        assert!(page < self.len_pages, "page {page} of {}", self.len_pages);
        self.put(page, content)
    }

    /// One more reference to a page.
    pub fn share(&mut self, page: u64) -> Option<P> {
        let (chunk, at) = split(page);
        let chunk = self.chunks.get_mut(chunk)?;
        if let Some(chunk) = Arc::get_mut(chunk) {
            chunk.is_shared_now();
        }
        chunk.get(at).cloned()
    }

    /// Takes a page out; the length stays. The caller drops it when no processor can reach it any more.
    pub fn take_one(&mut self, page: u64) -> Option<P> {
        let (index, at) = split(page);
        let chunk = self.chunks.get_mut(index)?;
        chunk.get(at)?;
        let taken = Arc::make_mut(chunk).remove(at);
        self.resident -= u64::from(taken.is_some());
        self.forget_if_empty(index);
        taken
    }

    /// Sees to it that the page is resident, for reading; `make` is asked for one if it is not.
    ///
    /// # Errors
    /// That of `make`; nothing has changed.
    ///
    /// # Panics
    /// If the page lies beyond the end: the caller checks that.
    pub fn ensure<E>(&mut self, page: u64, make: impl FnOnce() -> Result<P, E>) -> Result<&P, E> {
        assert!(page < self.len_pages, "page {page} of {}", self.len_pages);
        if self.get(page).is_none() {
            let new = make()?;
            self.put(page, new);
        }
        Ok(self.get(page).expect("it was resident or has just been put there"))
    }

    /// Changes the length. Returns the pages that were cut off; the caller drops them when no processor can reach them
    /// any more. Pages that are gained read as zeroes, whatever was there before.
    pub fn resize(&mut self, len_pages: u64) -> Cut<P> {
        let mut cut = Cut::default();
        let (chunk, at) = split(len_pages);
        if len_pages < self.len_pages {
            let partly = if at > 0 { self.chunks.get_mut(chunk) } else { None };
            if let Some(partly) = partly {
                Arc::make_mut(partly).cut(at, &mut cut.pages);
                self.resident -= cut.pages.len() as u64;
                self.forget_if_empty(chunk);
            }
            let beyond = self.chunks.split_off(chunk + usize::from(at > 0));
            beyond.for_each(|chunk| {
                self.bytes -= chunk.bytes();
                self.resident -= chunk.resident();
                cut.chunks.push(chunk);
            });
        }
        self.len_pages = len_pages;
        cut
    }

    /// Takes the resident pages of `[first, first + count)` out; the length stays, and they read as zeroes from now on. Whoever is given them
    /// drops them when no processor can reach them any more.
    #[inline(always)]
    pub fn take(&mut self, first: u64, count: u64, mut out: impl FnMut(P)) {
        if count == 1 {
            return self.take_one(first).into_iter().for_each(out);
        }
        let (mut page, end) = (first, first.saturating_add(count).min(self.len_pages));
        while page < end {
            let (chunk, at) = split(page);
            let some = (end - page).min(CHUNK - at as u64);
            if some == CHUNK {
                self.chunks.remove(chunk).into_iter().for_each(|chunk| {
                    self.bytes -= chunk.bytes();
                    self.resident -= chunk.resident();
                    Chunk::take(chunk, &mut out);
                });
            } else if let Some(here) = self.chunks.get_mut(chunk)
                && here.has_any(at, some as usize)
            {
                // (A clone's chunk is made one of our own only if there is something to be taken from it.)
                self.resident -= Arc::make_mut(here).take_out(at, some as usize, &mut out);
                self.forget_if_empty(chunk);
            }
            page += some;
        }
    }

    /// Whether to change these pages, or to take them out, takes memory of its own first: for what a clone has had in common so far.
    #[inline]
    pub fn copies(&self, first: u64, count: u64) -> bool {
        if count == 1 {
            // Most are one page.
            return self.chunk(split(first).0).is_some_and(|chunk| !chunk.is_exclusive());
        }
        let is_partly = |(chunk, _, some): (usize, usize, usize)| {
            (some as u64) < CHUNK && self.chunks.get(chunk).is_some_and(|chunk| !chunk.is_exclusive())
        };
        // Those between the first and the last one are taken as a whole.
        let (last, left) = split(first.saturating_add(count));
        count > 0
            && (parts(first, count.min(CHUNK)).next().is_some_and(is_partly) || left > 0 && is_partly((last, 0, left)))
    }

    /// A copy-on-write clone: both maps go on sharing every page until one of them writes. Mappings of this map's pages
    /// that are writable must be made read-only before anybody uses the clone.
    pub fn clone_shared(&mut self) -> PageMap<P> {
        let mut clone = PageMap::new(self.len_pages);
        self.share_some(&mut clone, 0, usize::MAX);
        clone
    }

    /// A part of that: `most` times 512 pages, from `from` on, which is the first of as many, come into the clone. From where on it goes on; `None`: all is
    /// there.
    pub fn share_some(&mut self, clone: &mut PageMap<P>, from: u64, most: usize) -> Option<u64> {
        let mut chunks = self.chunks.from_mut((from / CHUNK) as usize);
        for (at, chunk) in chunks.by_ref().take(most) {
            // (One that is shared already says so.)
            if let Some(chunk) = Arc::get_mut(chunk) {
                chunk.is_shared_now();
            }
            let PageMap { chunks, resident, bytes, .. } = &mut *clone;
            chunks.get_or_insert_with(at, || {
                *bytes += chunk.bytes();
                *resident += chunk.resident();
                chunk.clone()
            });
        }
        chunks.next().map(|(at, _)| at as u64 * CHUNK)
    }

    /// How many pages are resident.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// Takes all pages out; the length stays. The caller drops them when no processor can reach them any more.
    pub fn take_all(&mut self) -> Vec<P> {
        let mut all = Vec::new();
        (self.resident, self.bytes) = (0, 0);
        self.chunks.split_off(0).for_each(|chunk| Chunk::take(chunk, &mut |page| all.push(page)));
        all
    }

    /// The same, at the end of the map.
    pub fn drain(mut self) -> impl Iterator<Item = P> {
        self.take_all().into_iter()
    }

    #[inline(always)]
    fn chunk(&self, index: usize) -> Option<&Arc<Chunk<P>>> {
        self.chunks.get(index)
    }

    /// A chunk without a page takes memory that nobody pays for. (The first one stays: most have no other, and pages come and go there.)
    #[inline(always)]
    fn forget_if_empty(&mut self, chunk: usize) {
        if chunk > 0 && self.chunk(chunk).is_some_and(|chunk| chunk.resident() == 0) {
            self.bytes -= self.chunks.remove(chunk).map_or(0, |chunk| chunk.bytes());
        }
    }

    /// Puts a page into a chunk of our own.
    fn put(&mut self, page: u64, content: P) -> Option<P> {
        let (chunk, at) = split(page);
        let chunk = Arc::make_mut(self.chunks.get_or_insert_with(chunk, || Arc::new(Chunk::new())));
        if at >= chunk.room() {
            self.bytes += chunk.grow(at + 1);
        }
        let old = chunk.put(at, content);
        self.resident += u64::from(old.is_none());
        old
    }
}

#[cfg(test)]
mod tests;
