//! Names of the kernel's functions, for backtraces: the table that the host tool put into the boot pack.

use spin::Once;

static TABLE: Once<&'static [u8]> = Once::new();

/// Makes the pack's symbol table known. Layout: u64 count, count x (u64 address, u32 offset, u32 length), names.
pub fn set(table: &'static [u8]) {
    TABLE.call_once(|| table);
}

fn word(table: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(table.get(at..at + 8)?.try_into().ok()?))
}

/// The function that contains `address`, and the distance from its start.
pub(crate) fn find(address: u64) -> Option<(&'static str, u64)> {
    let table = TABLE.get()?;
    let count = word(table, 0)? as usize;
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if word(table, 8 + middle * 16)? <= address { low = middle + 1 } else { high = middle }
    }
    let row = 8 + low.checked_sub(1)? * 16;
    let (start, name) = (word(table, row)?, word(table, row + 8)?);
    let from = 8 + count * 16 + (name as u32) as usize;
    let text = table.get(from..from + (name >> 32) as usize)?;
    Some((core::str::from_utf8(text).ok()?, address - start))
}
