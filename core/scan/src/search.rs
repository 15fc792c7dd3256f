//! Looking for forbidden encodings in bytes. All text passes here when it is loaded, so it goes by the byte that code has
//! least of, 32 bytes at a step.

use crate::PAGE;
use crate::encoding::{Encoding, LEN, Rules};

/// A forbidden encoding, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub encoding: Encoding,
    /// Where in its page its first byte is.
    pub offset: usize,
}

/// Bytes that are looked at together.
const BLOCK: usize = 32;
const _: () = assert!(PAGE.is_multiple_of(BLOCK));

const WORD: usize = size_of::<u64>();
const ONES: u64 = u64::from_ne_bytes([1; WORD]);
const HIGHS: u64 = ONES << 7;

/// The first forbidden encoding that lies wholly within the page, at whatever byte.
pub fn find(page: &[u8; PAGE], rules: Rules) -> Option<Found> {
    rules.forbidden().filter_map(|encoding| first(page, encoding)).min_by_key(|found| found.offset)
}

fn first(page: &[u8; PAGE], encoding: Encoding) -> Option<Found> {
    let (byte, place) = encoding.rarest();
    let pattern = u64::from(byte) * ONES;
    let marks = |word: &[u8; WORD]| zeroes(u64::from_le_bytes(*word) ^ pattern);
    let is_at = |offset: usize| page.get(offset..).and_then(<[u8]>::first_chunk).is_some_and(|b| encoding.is(*b));
    for (number, block) in page.as_chunks::<BLOCK>().0.iter().enumerate() {
        let words = block.as_chunks().0;
        if words.iter().fold(0, |any, word| any | marks(word)) & HIGHS == 0 {
            continue;
        }
        for (word, start) in words.iter().zip((number * BLOCK..).step_by(WORD)) {
            let mut marks = marks(word) & HIGHS;
            while marks != 0 {
                let at = start + marks.trailing_zeros() as usize / 8;
                if let Some(offset) = at.checked_sub(place).filter(|offset| is_at(*offset)) {
                    return Some(Found { encoding, offset });
                }
                marks &= marks - 1;
            }
        }
    }
    None
}

/// Has high bits set if the word has a byte of zero. (Perhaps more of them than zeroes, never without one. Other bits mean
/// nothing.)
const fn zeroes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}

/// The first forbidden encoding that begins in one page and ends in the next, by the last and the first bytes of the two.
pub fn find_across(tail: [u8; LEN - 1], head: [u8; LEN - 1], rules: Rules) -> Option<Found> {
    let bytes = [tail[0], tail[1], head[0], head[1]];
    bytes.windows(LEN).zip(PAGE - tail.len()..).find_map(|(window, offset)| {
        let bytes = *window.first_chunk()?;
        rules.forbidden().find(|encoding| encoding.is(bytes)).map(|encoding| Found { encoding, offset })
    })
}

/// What an encoding that began in the page before could end with.
pub(crate) fn head(page: &[u8; PAGE]) -> [u8; LEN - 1] {
    let [first, second, ..] = *page;
    [first, second]
}

/// What an encoding that ends in the next page could begin with.
pub(crate) fn tail(page: &[u8; PAGE]) -> [u8; LEN - 1] {
    let [.., last_but_one, last] = *page;
    [last_but_one, last]
}
