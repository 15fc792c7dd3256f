//! The relocations of a native program.

use crate::Refusal;
use crate::image::{Image, Load};
use elf::abi as record;
use elf::dynamic::DynamicTable;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::parse::ParseAt;
use elf::relocation::{Rela, RelaIterator};

/// Compressed relocations and their length: newer than the crate's list.
const DT_RELRSZ: i64 = 35;
const DT_RELR: i64 = 36;

/// Relocations, each checked: of the kind "relative", all eight bytes within the data that the file has: what follows them is made of pages
/// that nobody has stored to yet.
#[derive(Clone, Debug)]
pub(crate) struct Relocations<'a> {
    table: &'a [u8],
}

impl Relocations<'_> {
    /// The address of each and its addend.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, i64)> {
        entries(self.table).map(|rela| (rela.r_offset, rela.r_addend))
    }
}

fn entries(table: &[u8]) -> RelaIterator<'_, LittleEndian> {
    RelaIterator::new(LittleEndian, Class::ELF64, table)
}

/// Where the dynamic segment says that the table of relocations is.
#[derive(Default)]
struct Place {
    address: Option<u64>,
    len: u64,
}

pub(crate) fn relocations<'a>(
    image: &Image<'a>,
    loads: &[Load<'a>],
    data: Option<&Load<'_>>,
) -> Result<Relocations<'a>, Refusal> {
    let table = match place(image)? {
        Place { len: 0, .. } => &[],
        Place { address: None, .. } => return Err(Refusal::BadDynamic),
        Place { address: Some(address), len } => table(loads, address, len).ok_or(Refusal::BadDynamic)?,
    };
    for (number, rela) in entries(table).enumerate() {
        // Of the record's 64 bits of information the upper half names a symbol; a relative one has none.
        if rela.r_type != record::R_X86_64_RELATIVE || rela.r_sym != 0 {
            return Err(Refusal::RelocationKind(rela.r_type));
        }
        let inside = data.is_some_and(|data| {
            let offset = rela.r_offset.checked_sub(data.vaddr);
            offset.and_then(|offset| offset.checked_add(8)).is_some_and(|end| end <= data.bytes.len() as u64)
        });
        if !inside {
            return Err(Refusal::RelocationOutside(number));
        }
    }
    Ok(Relocations { table })
}

fn place(image: &Image<'_>) -> Result<Place, Refusal> {
    let mut place = Place::default();
    let mut dynamic = image.segments.iter().enumerate().filter(|(_, segment)| segment.p_type == record::PT_DYNAMIC);
    let Some((number, segment)) = dynamic.next() else { return Ok(place) };
    if dynamic.next().is_some() {
        return Err(Refusal::BadDynamic);
    }
    let bytes = image.bytes(segment).ok_or(Refusal::BeyondFile(number))?;
    for entry in DynamicTable::new(LittleEndian, Class::ELF64, bytes).iter() {
        match (entry.d_tag, entry.d_val()) {
            (record::DT_NULL, _) => break,
            (record::DT_NEEDED, _) => return Err(Refusal::SharedLibraries),
            (record::DT_RELA, address) => place.address = Some(address),
            (record::DT_RELASZ, len) => place.len = len,
            (record::DT_RELAENT, len) if len != Rela::size_for(Class::ELF64) as u64 => {
                return Err(Refusal::BadDynamic);
            }
            // Relocations of other forms would be left undone.
            (record::DT_RELSZ | record::DT_PLTRELSZ | DT_RELRSZ, 1..) | (record::DT_REL | DT_RELR, _) => {
                return Err(Refusal::RelocationKind(0));
            }
            _ => {}
        }
    }
    Ok(place)
}

/// The bytes that are loaded to `[address, address + len)`, a whole number of records.
fn table<'a>(loads: &[Load<'a>], address: u64, len: u64) -> Option<&'a [u8]> {
    if !len.is_multiple_of(Rela::size_for(Class::ELF64) as u64) {
        return None;
    }
    loads.iter().find_map(|load| {
        let start = usize::try_from(address.checked_sub(load.vaddr)?).ok()?;
        load.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    })
}
