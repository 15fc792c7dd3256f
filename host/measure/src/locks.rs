//! Where the kernel takes locks, by its debug information: that says of each instruction which functions it is part of, inlined ones
//! too. So nothing is added to the kernel to count what it takes.

use anyhow::{Context, Result, ensure};
use elf::ElfBytes;
use gimli::constants::{DW_AT_abstract_origin, DW_AT_linkage_name};
use gimli::{AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, Unit};
use std::collections::HashMap;
use tally::{Kind, Locks};

/// The kernel's types of lock: how the names of the functions begin that take one, and how they end.
const TYPES: [(&str, &[&str], Kind); 3] = [
    ("<post::lock::Lock>", &["::take_only", "::take_queued", "::take_beside", "::lock_after"], Kind::Post),
    ("<spin::mutex::spin::SpinMutex<", &["::try_lock", "::try_lock_weak"], Kind::Other),
    ("<spin::rwlock::RwLock<", &["::acquire_reader", "::try_write_internal"], Kind::Other),
];

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// The locks of a kernel, from its file.
///
/// # Errors
/// It has no such information, or of some type of lock nobody takes any: it is called otherwise now.
pub fn find(file: &[u8]) -> Result<Locks> {
    let elf = ElfBytes::<elf::endian::LittleEndian>::minimal_parse(file).context("the kernel is not an ELF file")?;
    let dwarf = Dwarf::load(|id| -> Result<Slice> {
        let header = elf.section_header_by_name(id.name())?;
        let data = header.map(|header| elf.section_data(&header)).transpose()?.map_or(&[][..], |(data, _)| data);
        Ok(EndianSlice::new(data, LittleEndian))
    })?;
    // Functions, and which type's.
    let mut takers = HashMap::new();
    each(&dwarf, |unit, entry| {
        if let Some(name) = entry.attr_value(DW_AT_linkage_name) {
            let name = dwarf.attr_string(unit, name)?;
            if let (Some(lock), Some(at)) = (lock(&name.to_string_lossy()), own(unit, entry)) {
                takers.insert(at, lock);
            }
        }
        Ok(())
    })?;
    for (at, (missing, ..)) in TYPES.iter().enumerate() {
        let is_there = takers.values().any(|lock| *lock == at);
        ensure!(is_there, "the kernel's debug information has no function {missing}... that takes a lock");
    }
    let mut ranges = Vec::new();
    each(&dwarf, |unit, entry| {
        if let Some(lock) = origin(unit, entry).and_then(|origin| takers.get(&origin)) {
            let mut all = dwarf.die_ranges(unit, entry)?;
            while let Some(gimli::Range { begin, end }) = all.next()? {
                ranges.push((begin..end, TYPES[*lock].2));
            }
        }
        Ok(())
    })?;
    // What the linker has left out lies at 0.
    ranges.retain(|(range, _)| range.start >> 63 == 1);
    ensure!(!ranges.is_empty(), "the kernel's debug information does not say where locks are taken");
    Ok(Locks::new(ranges))
}

/// Looks at all entries of all units.
fn each<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    mut look: impl FnMut(&Unit<Slice<'a>>, &Entry<'a>) -> gimli::Result<()>,
) -> gimli::Result<()> {
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            look(&unit, entry)?;
        }
    }
    Ok(())
}

/// The function that an entry is an instance of, perhaps an inlined one; or it itself.
fn origin<'a>(unit: &Unit<Slice<'a>>, entry: &Entry<'a>) -> Option<DebugInfoOffset> {
    match entry.attr_value(DW_AT_abstract_origin) {
        Some(AttributeValue::UnitRef(offset)) => offset.to_debug_info_offset(&unit.header),
        Some(AttributeValue::DebugInfoRef(offset)) => Some(offset),
        _ => own(unit, entry),
    }
}

fn own<'a>(unit: &Unit<Slice<'a>>, entry: &Entry<'a>) -> Option<DebugInfoOffset> {
    entry.offset().to_debug_info_offset(&unit.header)
}

/// Which type of lock a function of this name takes, if it does.
fn lock(name: &str) -> Option<usize> {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    TYPES.iter().position(|(start, ends, _)| name.starts_with(start) && ends.iter().any(|end| name.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_that_take_locks() {
        for (name, expected) in [
            ("_RNvMNtCs2xNeiVCgbH4_4post4lockNtB2_4Lock9take_only", Some(0)),
            ("_RNvMNtCs2xNeiVCgbH4_4post4lockNtB2_4Lock5epoch", None),
            ("_RNvMNtNtCscCWwY5RDB7v_4spin5mutex4spinINtB2_9SpinMutexuE13try_lock_weak", Some(1)),
            ("_RNvMNtNtCscCWwY5RDB7v_4spin5mutex4spinINtB2_9SpinMutexuE7get_mut", None),
            ("_RNvMNtCscCWwY5RDB7v_4spin6rwlockINtB2_6RwLockuE14acquire_reader", Some(2)),
            ("main", None),
        ] {
            assert_eq!(lock(name), expected, "{:#}", rustc_demangle::demangle(name));
        }
    }

    #[test]
    fn a_file_without_the_kernels_locks_is_refused() {
        // This test program has debug information, and none of those.
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let error = find(&me).unwrap_err().to_string();
        assert!(error.contains("takes a lock"), "{error}");
        assert!(find(b"no ELF file").is_err());
    }
}
