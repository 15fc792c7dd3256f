//! How much of a cache and of a TLB a round is: lines and pages that it touches, each the first time (CUBIX-33). No cache is
//! modelled: what is told are the loads of one that is empty when the round begins, is addressed by programs' addresses as the
//! Cubix paper's, and is large enough. One without tags loses what is the programs' where the meaning of their addresses changes.

use std::collections::HashSet;

/// Bytes of a cache's line, and of a page, as a power of two.
const LINE: u32 = 6;
const PAGE: u32 = 12;
/// The kernel's half, whose pages are in all address spaces.
const KERNELS: u64 = 1 << 63;

/// What the round that is under way has touched.
#[derive(Debug, Default)]
pub struct Touched {
    /// Instructions and data have caches of their own.
    code: HashSet<u64>,
    data: HashSet<u64>,
    pages: HashSet<u64>,
}

impl Touched {
    pub fn begin(&mut self) {
        self.code.clear();
        self.data.clear();
        self.pages.clear();
    }

    /// So many bytes of instructions from `at` are executed. Value: lines and pages that are new.
    pub fn executes(&mut self, at: u64, bytes: u64) -> (u64, u64) {
        (new(&mut self.code, at, bytes, LINE), new(&mut self.pages, at, bytes, PAGE))
    }

    /// So many bytes are loaded or stored.
    pub fn accesses(&mut self, at: u64, bytes: u64) -> (u64, u64) {
        (new(&mut self.data, at, bytes, LINE), new(&mut self.pages, at, bytes, PAGE))
    }

    /// Another page-table root: other rights, so a TLB that does not tell roots apart forgets the programs' pages. If addresses mean something else
    /// under it, too, so does a cache that is addressed by them.
    pub fn loads_root(&mut self, is_another_space: bool) {
        let is_kernels = |shift: u32| move |at: &u64| at << shift & KERNELS != 0;
        self.pages.retain(is_kernels(PAGE));
        if is_another_space {
            self.code.retain(is_kernels(LINE));
            self.data.retain(is_kernels(LINE));
        }
    }
}

fn new(known: &mut HashSet<u64>, at: u64, bytes: u64, shift: u32) -> u64 {
    let last = at.saturating_add(bytes.max(1) - 1);
    (at >> shift..=last >> shift).filter(|unit| known.insert(*unit)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_again_is_not_new() {
        let mut touched = Touched::default();
        assert_eq!(touched.executes(0x1000, 64), (1, 1));
        assert_eq!(touched.executes(0x1010, 64), (1, 0), "over a line's end");
        assert_eq!(touched.executes(0x1000, 0x50), (0, 0));
        // The same line as data is in another cache, but its page is known.
        assert_eq!(touched.accesses(0x1008, 8), (1, 0));
        assert_eq!(touched.accesses(0x1ffc, 8), (2, 1), "over a page's end");
        touched.begin();
        assert_eq!(touched.executes(0x1000, 1), (1, 1));
        assert_eq!(touched.accesses(u64::MAX - 3, 8), (1, 1), "no further than there are addresses");
    }

    #[test]
    fn a_root_takes_pages_and_another_space_lines() {
        let (program, kernel) = (0x4200_0000_0000, 0xffff_8000_0000_0000);
        let mut touched = Touched::default();
        let again = |touched: &mut Touched| [program, kernel].map(|at| touched.accesses(at, 8));
        assert_eq!(again(&mut touched), [(1, 1), (1, 1)]);
        touched.loads_root(false);
        assert_eq!(again(&mut touched), [(0, 1), (0, 0)]);
        touched.loads_root(true);
        assert_eq!(again(&mut touched), [(1, 1), (0, 0)]);
    }
}
