//! What is remembered of a scanned page: enough to decide about it, and about any two pages side by side.

use crate::PAGE;
use crate::encoding::{Encoding, Rules};
use crate::search;

/// What a scan found, in seven bits.
///
/// An encoding that crosses a border was cut behind its first byte or behind its second. All begin with 0F, so the first
/// of these cuts is one case; the second is one for each encoding. A page has a bit for each case at its tail (it ends
/// so) and at its head (it begins with what is missing then).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Summary(u8);

const HEAD: u32 = 0;
const TAIL: u32 = 3;
const CASES: u8 = 0b111;
const INSIDE: u8 = 1 << 6;
const ALL: u8 = INSIDE | CASES << TAIL | CASES << HEAD;

/// Reads one page. Its bytes must not change any more.
pub fn scan(page: &[u8; PAGE], rules: Rules) -> Summary {
    let inside = if search::find(page, rules).is_some() { INSIDE } else { 0 };
    Summary(edges(search::head(page), search::tail(page), rules).0 | inside)
}

/// The bits of the borders.
pub(crate) fn edges(head: [u8; 2], tail: [u8; 2], rules: Rules) -> Summary {
    let mut bits = 0;
    let mut set = |case: u32, ends: bool, begins: bool| {
        bits |= u8::from(ends) << (TAIL + case) | u8::from(begins) << (HEAD + case);
    };
    for (encoding, case) in Encoding::ALL.into_iter().zip(1..) {
        if rules.forbid(encoding) {
            set(0, tail[1] == Encoding::FIRST, encoding.second(head[0]) && encoding.third(head[1]));
            set(case, tail[0] == Encoding::FIRST && encoding.second(tail[1]), encoding.third(head[0]));
        }
    }
    Summary(bits)
}

/// Whether the second page, mapped behind the first, completes a forbidden encoding that the first ends with.
pub const fn borders(left: Summary, right: Summary) -> bool {
    left.0 >> TAIL & right.0 >> HEAD & CASES != 0
}

impl Summary {
    /// That of a page of zeroes, under any rules.
    pub const ZEROES: Summary = Summary(0);

    /// Whether no forbidden encoding lies wholly within the page.
    pub const fn is_clear(self) -> bool {
        self.0 & INSIDE == 0
    }

    /// For storing it.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// What [`bits`](Self::bits) gave.
    pub const fn from_bits(bits: u8) -> Option<Summary> {
        if bits & !ALL == 0 { Some(Summary(bits)) } else { None }
    }
}

impl core::fmt::Debug for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (head, tail) = (self.0 >> HEAD & CASES, self.0 >> TAIL & CASES);
        write!(f, "Summary(clear: {}, head: {head:03b}, tail: {tail:03b})", self.is_clear())
    }
}
