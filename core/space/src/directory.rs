//! From an address to what lies there.

use crate::{GIB, round_up};
use abi::layout::GRANULE;
use alloc::boxed::Box;
use core::fmt;
use spin::RwLock;

/// Granules in a slot of the upper level.
const GRANULES: usize = (GIB / GRANULE) as usize;

/// Something lies in the range already, or the range is not made of whole granules of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap;

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the range is taken, or outside the slice")
    }
}

impl core::error::Error for Overlap {}

impl From<Overlap> for abi::Error {
    fn from(_: Overlap) -> abi::Error {
        abi::Error::Exists
    }
}

/// An object and the base address that it was inserted at.
type Entry<T> = (u64, T);

/// What one GiB holds.
enum Slot<T> {
    Empty,
    /// One object covers all of it.
    Whole(Entry<T>),
    /// Objects by granule; `used` granules are not `None`, never 0 of them.
    Leaf {
        used: usize,
        granules: Box<[Option<Entry<T>>]>,
    },
}

/// The directory of a range of addresses: which object covers an address. All methods may be called on several
/// processors at once; a lock is held for one GiB at a time and for a bounded number of steps.
pub struct Directory<T: Clone> {
    base: u64,
    len: u64,
    slots: Box<[RwLock<Slot<T>>]>,
}

/// The part of a range that lies in one slot: granules `[first, end)` of slot `index`.
struct Part {
    index: usize,
    first: usize,
    end: usize,
}

impl<T: Clone> Directory<T> {
    /// An empty directory of `[base, base + len)`. `base` is a multiple of a GiB (a slice's base is).
    pub fn new(base: u64, len: u64) -> Directory<T> {
        debug_assert!(base.is_multiple_of(GIB));
        let slots = (0..len.div_ceil(GIB)).map(|_| RwLock::new(Slot::Empty)).collect();
        Directory { base, len, slots }
    }

    /// Enters `object` for every address in `[base, base + reserve)`, `reserve` rounded up to whole granules.
    ///
    /// While it is being entered, a concurrent [`find`](Self::find) may already see it in one part of the range and
    /// not yet in another.
    ///
    /// # Errors
    /// [`Overlap`], and nothing has changed.
    pub fn insert(&self, base: u64, reserve: u64, object: T) -> Result<(), Overlap> {
        let (first, end) = self.granules(base, reserve).ok_or(Overlap)?;
        let entry = (base, object);
        for part in parts(first, end) {
            let done = (part.index * GRANULES + part.first) as u64;
            if !self.slots[part.index].write().put(&part, &entry) {
                self.clear(first, done, base);
                return Err(Overlap);
            }
        }
        Ok(())
    }

    /// Takes out the object that was inserted at `base` for `reserve` bytes. If there is none, nothing happens.
    pub fn remove(&self, base: u64, reserve: u64) {
        if let Some((first, end)) = self.granules(base, reserve) {
            self.clear(first, end, base);
        }
    }

    /// The object that covers `address`.
    pub fn find(&self, address: u64) -> Option<T> {
        let offset = address.checked_sub(self.base).filter(|&offset| offset < self.len)?;
        match &*self.slots[(offset / GIB) as usize].read() {
            Slot::Empty => None,
            Slot::Whole((_, object)) => Some(object.clone()),
            Slot::Leaf { granules, .. } => {
                let granule = &granules[(offset % GIB / GRANULE) as usize];
                granule.as_ref().map(|(_, object)| object.clone())
            }
        }
    }

    /// The object with the lowest base above `address`, and that base.
    pub fn after(&self, address: u64) -> Option<(u64, T)> {
        // An object with its base above `address` cannot begin in an earlier slot than `address` lies in.
        let first = (address.saturating_sub(self.base) / GIB).min(self.slots.len() as u64) as usize;
        self.slots[first..].iter().find_map(|slot| match &*slot.read() {
            Slot::Empty => None,
            Slot::Whole(entry) => Some(entry).filter(|(base, _)| *base > address).cloned(),
            Slot::Leaf { granules, .. } => granules.iter().flatten().find(|(base, _)| *base > address).cloned(),
        })
    }

    /// The range as granules counted from the start of the directory.
    fn granules(&self, base: u64, reserve: u64) -> Option<(u64, u64)> {
        let offset = base.checked_sub(self.base)?;
        let end = offset.checked_add(round_up(reserve, GRANULE)?)?;
        let good = base.is_multiple_of(GRANULE) && reserve > 0 && end <= self.len;
        good.then_some((offset / GRANULE, end / GRANULE))
    }

    /// Empties what `base` holds of the granules `[first, end)`.
    fn clear(&self, first: u64, end: u64, base: u64) {
        for part in parts(first, end) {
            let taken = self.slots[part.index].write().take(&part, base);
            // Not under the lock: dropping the last copy may be work.
            drop(taken);
        }
    }
}

/// Splits granules `[first, end)` at the borders of slots.
fn parts(first: u64, end: u64) -> impl Iterator<Item = Part> {
    let per = GRANULES as u64;
    (first / per..end.div_ceil(per)).map(move |slot| {
        let start = slot * per;
        Part {
            index: slot as usize,
            first: (first.max(start) - start) as usize,
            end: (end.min(start + per) - start) as usize,
        }
    })
}

impl<T: Clone> Slot<T> {
    /// Enters an object; `false`, and nothing has changed, if something is there.
    fn put(&mut self, part: &Part, entry: &Entry<T>) -> bool {
        if let Slot::Empty = self {
            if part.first == 0 && part.end == GRANULES {
                *self = Slot::Whole(entry.clone());
                return true;
            }
            // Collected, not an array: an array would be made on the (small) kernel stack first.
            *self = Slot::Leaf { used: 0, granules: (0..GRANULES).map(|_| None).collect() };
        }
        let Slot::Leaf { used, granules } = self else { return false };
        let range = &mut granules[part.first..part.end];
        if range.iter().any(Option::is_some) {
            return false;
        }
        range.fill(Some(entry.clone()));
        *used += range.len();
        true
    }

    /// Takes out the object that was entered at `base`, as far as it lies in `part`. Returns one copy of it, so that the
    /// last one is not dropped here.
    fn take(&mut self, part: &Part, base: u64) -> Option<T> {
        match self {
            Slot::Empty => None,
            Slot::Whole((there, _)) if *there != base => None,
            Slot::Whole(_) => {
                let Slot::Whole((_, object)) = core::mem::replace(self, Slot::Empty) else { return None };
                Some(object)
            }
            Slot::Leaf { used, granules } => {
                let mut last = None;
                for granule in &mut granules[part.first..part.end] {
                    if granule.as_ref().is_some_and(|(there, _)| *there == base) {
                        *used -= 1;
                        last = last.or(granule.take().map(|(_, object)| object));
                    }
                }
                if *used == 0 {
                    *self = Slot::Empty;
                }
                last
            }
        }
    }
}

#[cfg(test)]
mod tests;
