#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use elf_plan::{Program, Refusal};
use scan::{PAGE, Rules, Why};

/// XCR0 as the kernel sets it: x87, SSE, AVX.
pub const XCR0: u64 = 0b111;

/// The executable pages of a program, each with its address.
pub type Pages = Vec<(u64, Box<[u8; PAGE]>)>;

/// Lays out a program's executable pages, as far as the file has bytes for them: what follows is zeroes, and clear. A
/// program that may go anywhere lies at 0.
///
/// # Errors
/// Why it is no program.
pub fn pages(file: &[u8]) -> Result<Pages, Refusal> {
    let mut pages = Pages::new();
    match elf_plan::read(file)? {
        Program::Native(native) => lay_out(0, native.text, &mut pages),
        Program::Linux(linux) => {
            let texts = linux.segments.iter().filter(|segment| segment.execute);
            texts.for_each(|text| lay_out(text.vaddr, text.file, &mut pages));
        }
    }
    Ok(pages)
}

fn lay_out(address: u64, bytes: &[u8], pages: &mut Pages) {
    let mut left = bytes;
    let mut address = address;
    while !left.is_empty() {
        let offset = (address % PAGE as u64) as usize;
        let (part, rest) = left.split_at(left.len().min(PAGE - offset));
        let mut page = Box::new([0; PAGE]);
        page[offset..offset + part.len()].copy_from_slice(part);
        pages.push((address - offset as u64, page));
        (left, address) = (rest, address + part.len() as u64);
    }
}

/// Why the pages are not clear, if they are not.
pub fn judge(pages: &Pages, rules: Rules) -> Option<Why> {
    scan::judge(pages.iter().map(|(address, page)| (*address, &**page)), rules)
}
