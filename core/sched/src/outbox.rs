//! What the kernel has to tell to the scheduler of one processor: a ring in memory that the scheduler reads, and what
//! does not fit.

use crate::Pieces;

/// The reader's position cannot be: it has read what was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonsense;

/// Whether something may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It may be counted instead, if there is no room.
    Light,
    /// It waits until there is room.
    Heavy,
    /// It waits until there is room, unless the same waits already.
    Once,
}

/// The writer's side of a ring of `N` entries. Positions count entries since the beginning, modulo 2^32.
#[derive(Clone, Debug)]
pub struct Outbox<E, const N: u32> {
    pub(crate) tail: u32,
    backlog: Pieces<E>,
    missed: u64,
}

impl<E: PartialEq, const N: u32> Default for Outbox<E, N> {
    fn default() -> Self {
        Outbox::new()
    }
}

impl<E: PartialEq, const N: u32> Outbox<E, N> {
    const POWER: () = assert!(N.is_power_of_two() && N >= 4);

    /// Nothing has been told.
    pub const fn new() -> Self {
        let () = Self::POWER;
        Outbox { tail: 0, backlog: Pieces::new(), missed: 0 }
    }

    /// How many entries are in the ring that was read up to `head`.
    ///
    /// # Errors
    /// `Nonsense`.
    pub fn unread(&self, head: u32) -> Result<u32, Nonsense> {
        let unread = self.tail.wrapping_sub(head);
        if unread <= N { Ok(unread) } else { Err(Nonsense) }
    }

    /// Whether there is anything to read, or will be as soon as there is room.
    ///
    /// # Errors
    /// `Nonsense`.
    pub fn is_empty(&self, head: u32) -> Result<bool, Nonsense> {
        Ok(self.unread(head)? == 0 && self.backlog.is_empty())
    }

    /// Tells something, after everything that was told before. `write` puts an entry into a slot of the ring; whoever
    /// reads may see it when the position of [`Outbox::tail`] is made known. Whether the reader should soon be let read.
    ///
    /// # Errors
    /// `Nonsense`; nothing is written, and heavy entries wait.
    pub fn post(&mut self, entry: E, weight: Weight, head: u32, write: impl FnMut(u32, &E)) -> Result<bool, Nonsense> {
        let full = self.refill(head, write, Some((entry, weight)))?;
        Ok(full)
    }

    /// Puts what waits into the ring, as far as there is room.
    ///
    /// # Errors
    /// `Nonsense`.
    pub fn catch_up(&mut self, head: u32, write: impl FnMut(u32, &E)) -> Result<(), Nonsense> {
        self.refill(head, write, None).map(drop)
    }

    fn refill(
        &mut self,
        head: u32,
        mut write: impl FnMut(u32, &E),
        entry: Option<(E, Weight)>,
    ) -> Result<bool, Nonsense> {
        let unread = self.unread(head);
        let mut room = unread.map_or(0, |unread| N - unread);
        let mut put = |tail: &mut u32, entry: &E| {
            write(*tail % N, entry);
            *tail = tail.wrapping_add(1);
        };
        while room > 0
            && let Some(entry) = self.backlog.pop_front()
        {
            put(&mut self.tail, &entry);
            room -= 1;
        }
        match entry {
            Some((entry, _)) if room > 0 => {
                put(&mut self.tail, &entry);
                room -= 1;
            }
            Some((entry, Weight::Once)) if self.backlog.iter().any(|one| *one == entry) => {}
            Some((entry, Weight::Heavy | Weight::Once)) => self.backlog.push_back(entry),
            Some((_, Weight::Light)) => self.missed += 1,
            None => {}
        }
        unread?;
        Ok(room < N / 4)
    }

    /// How many entries would be in the ring at once: none, if others wait.
    pub fn room(&self, head: u32) -> u32 {
        if self.backlog.is_empty() { self.unread(head).map_or(0, |unread| N - unread) } else { 0 }
    }

    /// The position after the last entry.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Light entries that had no room.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
