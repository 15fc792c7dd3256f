//! Memory: every mapping is a section of its own, given to the program and aliased in its window.

use abi::Rights;
use abi::layout::{GRANULE, PAGE, RESERVE_MAX, WINDOW_END, pages_up};
use alloc::sync::Arc;
use core::ops::Range;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::descriptors::Object;
use crate::load::most_rights;
use crate::machine::Machine;
use crate::map::{Backing, HEAP_RESERVE, Piece, page_range};
use crate::process::Call;
use crate::tree::{Device, File};

/// Flags of `mmap` that ask for nothing that is not so anyway: memory is there when it is touched, and is not paged out.
const HARMLESS: u32 = linux::MAP_DENYWRITE
    | linux::MAP_EXECUTABLE
    | linux::MAP_LOCKED
    | linux::MAP_NORESERVE
    | linux::MAP_POPULATE
    | linux::MAP_NONBLOCK
    | linux::MAP_STACK;

/// The right to write includes the right to read, as the processor has it.
fn rights(protection: u32) -> Option<Rights> {
    if protection & !(linux::PROT_READ | linux::PROT_WRITE | linux::PROT_EXEC) != 0 {
        return None;
    }
    let mut rights = Rights::empty();
    rights.set(Rights::READ, protection != 0);
    rights.set(Rights::WRITE, protection & linux::PROT_WRITE != 0);
    rights.set(Rights::EXECUTE, protection & linux::PROT_EXEC != 0);
    Some(rights)
}

/// Answers the new end, or the old one if it cannot be moved: as the call itself does, not its C wrapper.
pub fn brk<M: Machine>(call: &mut Call<'_, M>, end: u64) -> Answer {
    let mut map = call.process.map.lock();
    let heap = map.heap.clone();
    if end < heap.start || end - heap.start > HEAP_RESERVE {
        return Ok(heap.end);
    }
    let (Some(old), Some(new)) = (pages_up(heap.end), pages_up(end)) else { return Ok(heap.end) };
    let moved = if new > old {
        grow_heap(call, &mut map, old..new)
    } else if new < old {
        shrink_heap(call, &mut map, new..old)
    } else {
        Ok(())
    };
    if moved.is_ok() {
        map.heap.end = end;
    }
    Ok(map.heap.end)
}

fn grow_heap<M: Machine>(call: &Call<'_, M>, map: &mut crate::map::Map, more: Range<u64>) -> Result<(), Errno> {
    if more.end > WINDOW_END || !map.is_free(&more) {
        return fail(errno::ENOMEM);
    }
    let (machine, process) = (call.machine(), call.process);
    let start = map.heap.start;
    let len = more.end - start;
    // The heap's own section, if what lies below is still the heap.
    let below = map.pieces(&(start..more.start)).pop().map(|(_, piece)| piece);
    let is_own = |piece: &Piece| piece.backing.owner == process.task;
    let piece = match below.filter(|piece| is_own(piece) && piece.offset(more.start) == piece.backing.len()) {
        Some(piece) => {
            machine.section_resize(&piece.backing.section, piece.offset(more.end))?;
            piece.backing.set_len(piece.offset(more.end));
            piece
        }
        None => {
            let (rights, len) = (Rights::READ | Rights::WRITE, len.min(more.end - more.start));
            let reserve = HEAP_RESERVE - (more.start - start);
            // A quota that does not allow so much address space may allow less.
            let section =
                machine.section_create(len, reserve).or_else(|_| machine.section_create(len, len + GRANULE))?;
            machine.section_name(&section, b"linux heap");
            let backing = call.server.adopt(section, len, process.task, process.text.section.base(), rights)?;
            Piece { backing, origin: more.start, rights, most: rights, shared: false }
        }
    };
    call.server.window_set(process.task, &more, &piece)?;
    map.insert(more, piece);
    Ok(())
}

fn shrink_heap<M: Machine>(call: &Call<'_, M>, map: &mut crate::map::Map, less: Range<u64>) -> Result<(), Errno> {
    call.machine().window_unmap(call.process.task, less.start, less.end - less.start)?;
    for (range, piece) in map.remove(less) {
        // The pages go as well, so that the heap is zero where it grows again.
        let is_own = piece.backing.owner == call.process.task;
        if is_own && piece.offset(range.end) == piece.backing.len() && Arc::strong_count(&piece.backing) > 1 {
            call.machine().section_resize(&piece.backing.section, piece.offset(range.start))?;
            piece.backing.set_len(piece.offset(range.start));
        }
        call.server.discard(call.process.task, alloc::vec![(range, piece)]);
    }
    Ok(())
}

/// What a new mapping is filled with.
enum Source {
    Zero,
    File(File, u64),
}

pub fn mmap<M: Machine>(
    call: &mut Call<'_, M>,
    address: u64,
    len: u64,
    protection: u32,
    flags: u32,
    fd: i32,
    offset: u64,
) -> Answer {
    if len == 0 || !offset.is_multiple_of(PAGE) {
        return fail(errno::EINVAL);
    }
    let Some(rights) = rights(protection) else {
        return call.refuse("mmap protection", protection.into(), errno::EINVAL);
    };
    let placed = linux::MAP_FIXED | linux::MAP_FIXED_NOREPLACE;
    let unknown = flags & !(linux::MAP_TYPE | linux::MAP_ANONYMOUS | placed | HARMLESS);
    let shared = match flags & linux::MAP_TYPE {
        _ if unknown != 0 => return call.refuse("mmap flags", unknown.into(), errno::EINVAL),
        linux::MAP_PRIVATE => false,
        linux::MAP_SHARED | linux::MAP_SHARED_VALIDATE => true,
        _ => return fail(errno::EINVAL),
    };
    let source = if flags & linux::MAP_ANONYMOUS != 0 { Source::Zero } else { source(call, fd, offset)? };
    let most = match source {
        Source::File(..) if shared && rights.contains(Rights::WRITE) => return fail(errno::EACCES),
        Source::File(..) if shared => rights,
        _ => most_rights(rights),
    };
    // Code comes from files: memory is never writable and executable, nor first one and then the other.
    if rights.contains(Rights::EXECUTE) && (rights.contains(Rights::WRITE) || matches!(source, Source::Zero)) {
        return call.refuse("mmap of code that is not a file's, protection", protection.into(), errno::EACCES);
    }

    let len = pages_up(len).ok_or(Errno(errno::ENOMEM))?;
    let range = if flags & placed != 0 {
        let range = page_range(address, len)?;
        if range.start < crate::map::LOWEST {
            return fail(errno::EPERM);
        }
        if flags & linux::MAP_FIXED_NOREPLACE != 0 && !call.process.map.lock().is_free(&range) {
            return fail(errno::EEXIST);
        }
        range
    } else {
        choose(call, address, len)?
    };
    let backing = fill(call, &source, len, rights, most)?;
    let piece = Piece { backing, origin: range.start, rights, most, shared };
    if let Err(error) = call.server.window_set(call.process.task, &range, &piece) {
        call.server.discard(call.process.task, alloc::vec![(range, piece)]);
        return Err(error.into());
    }
    let start = range.start;
    let replaced = call.process.map.lock().insert(range, piece);
    call.server.discard(call.process.task, replaced);
    Ok(start)
}

fn source<M: Machine>(call: &Call<'_, M>, fd: i32, offset: u64) -> Result<Source, Stop> {
    let open = call.description(fd)?;
    match &open.object {
        Object::File(file) if open.flags() & linux::O_ACCMODE != linux::O_WRONLY => {
            Ok(Source::File(call.file(file.number())?, offset))
        }
        Object::File(_) => fail(errno::EACCES),
        Object::Device(Device::Zero) => Ok(Source::Zero),
        _ => fail(errno::ENODEV),
    }
}

/// Room for a mapping: where the program would like it, if that is free.
fn choose<M: Machine>(call: &Call<'_, M>, hint: u64, len: u64) -> Result<Range<u64>, Errno> {
    let map = call.process.map.lock();
    let wish = page_range(hint / PAGE * PAGE, len).ok();
    if let Some(wish) = wish.filter(|r| r.start >= crate::map::LOWEST && map.is_free(r)) {
        return Ok(wish);
    }
    map.find(len).map(|at| at..at + len).ok_or(Errno(errno::ENOMEM))
}

/// A new section with what is to be mapped.
fn fill<M: Machine>(
    call: &Call<'_, M>,
    source: &Source,
    len: u64,
    rights: Rights,
    most: Rights,
) -> Result<Arc<Backing>, Errno> {
    let (machine, process) = (call.machine(), call.process);
    // Room to grow in for `mremap`: the granule is taken up anyway.
    let reserve = len.saturating_mul(2).clamp(GRANULE, RESERVE_MAX).max(len);
    let section = machine.section_create(len, reserve).or_else(|_| machine.section_create(len, len + PAGE))?;
    // Given first: what is copied from a file is paid for by whom it is for, page by page.
    let given = machine.section_give(&section, process.task);
    let filled = given.and_then(|()| match source {
        Source::Zero => Ok(()),
        Source::File(file, offset) => {
            let from_file = len.min(file.len.saturating_sub(*offset));
            crate::images::load(machine, &section, 0, file.address + offset, from_file)?;
            if rights.contains(Rights::EXECUTE) { machine.section_seal(&section) } else { Ok(()) }
        }
    });
    let text = process.text.section.base();
    if let Err(error) = filled.and_then(|()| machine.section_allow(&section, process.task, text, most)) {
        machine.section_delete(&section);
        return Err(error.into());
    }
    machine.section_name(&section, b"linux map");
    Ok(Backing::new(section, process.task, len))
}

pub fn munmap<M: Machine>(call: &mut Call<'_, M>, address: u64, len: u64) -> Answer {
    let range = page_range(address, len).map_err(|_| Errno(errno::EINVAL))?;
    unmap(call, range)
}

fn unmap<M: Machine>(call: &Call<'_, M>, range: Range<u64>) -> Answer {
    call.machine().window_unmap(call.process.task, range.start, range.end - range.start)?;
    let removed = call.process.map.lock().remove(range);
    call.server.discard(call.process.task, removed);
    Ok(0)
}

pub fn mprotect<M: Machine>(call: &mut Call<'_, M>, address: u64, len: u64, protection: u32) -> Answer {
    let Some(rights) = rights(protection) else {
        return call.refuse("mprotect protection", protection.into(), errno::EINVAL);
    };
    if len == 0 && address.is_multiple_of(PAGE) {
        return Ok(0);
    }
    let range = page_range(address, len)?;
    let mut map = call.process.map.lock();
    if !map.is_covered(&range) {
        return fail(errno::ENOMEM);
    }
    let pieces = map.pieces(&range);
    if pieces.iter().any(|(_, piece)| !piece.most.contains(rights)) {
        drop(map);
        return call.refuse("mprotect of data to code or of code to data", protection.into(), errno::EACCES);
    }
    for (range, old) in pieces {
        let piece = Piece { rights, ..old.clone() };
        if old.rights == rights {
            continue;
        }
        if (old.rights.is_empty() || rights.is_empty()) && !old.shared {
            call.server.window_set(call.process.task, &range, &piece)?;
        } else {
            call.machine().window_protect(call.process.task, range.start, range.end - range.start, rights)?;
        }
        map.insert(range, piece);
    }
    Ok(0)
}

pub fn mremap<M: Machine>(
    call: &mut Call<'_, M>,
    address: u64,
    len: u64,
    new_len: u64,
    flags: u32,
    _new_address: u64,
) -> Answer {
    if flags & !linux::MREMAP_MAYMOVE != 0 {
        return call.refuse("mremap flags", flags.into(), errno::EINVAL);
    }
    let old = page_range(address, len)?;
    let new_len = pages_up(new_len).filter(|&len| len > 0).ok_or(Errno(errno::EINVAL))?;
    let old_len = old.end - old.start;
    if new_len <= old_len {
        if new_len < old_len {
            unmap(call, old.start + new_len..old.end)?;
        }
        return Ok(address);
    }
    let (piece, in_place) = {
        let map = call.process.map.lock();
        let piece = match map.pieces(&old).as_slice() {
            // What is shared with a parent is the parent's to change.
            [(range, piece)] if *range == old && piece.backing.owner == call.process.task => piece.clone(),
            _ => return fail(errno::EFAULT),
        };
        let more = old.end..old.start.checked_add(new_len).ok_or(Errno(errno::ENOMEM))?;
        (piece, more.end <= WINDOW_END && map.is_free(&more))
    };
    if !in_place && flags & linux::MREMAP_MAYMOVE == 0 {
        return fail(errno::ENOMEM);
    }
    // The section itself grows if the mapping reaches to its end and there is room reserved. Otherwise a copy.
    let at_end = piece.offset(old.end) == piece.backing.len();
    let grown = piece.offset(old.start) + new_len;
    let piece = if at_end && call.machine().section_resize(&piece.backing.section, grown).is_ok() {
        piece.backing.set_len(grown);
        piece
    } else if flags & linux::MREMAP_MAYMOVE != 0 && !piece.rights.contains(Rights::EXECUTE) {
        let backing = fill(call, &Source::Zero, new_len, piece.rights, piece.most)?;
        let from = piece.backing.section.base() + piece.offset(old.start);
        if let Err(error) = crate::images::load(call.machine(), &backing.section, 0, from, old_len) {
            call.machine().section_delete(&backing.section);
            return Err(error.into());
        }
        let (rights, most, shared) = (piece.rights, piece.most, piece.shared);
        // The map then holds the last reference to the old section, which is how `discard` knows.
        drop(piece);
        Piece { backing, origin: old.start, rights, most, shared }
    } else {
        return fail(errno::ENOMEM);
    };
    let to = if in_place { old.start..old.start + new_len } else { choose(call, 0, new_len)? };
    let offset = piece.offset(old.start);
    let piece = Piece { origin: to.start.wrapping_sub(offset), ..piece };
    call.server.window_set(call.process.task, &to, &piece)?;
    if !in_place {
        call.machine().window_unmap(call.process.task, old.start, old_len)?;
    }
    let replaced = {
        let mut map = call.process.map.lock();
        let mut replaced = map.remove(old);
        replaced.extend(map.insert(to.clone(), piece));
        replaced
    };
    call.server.discard(call.process.task, replaced);
    Ok(to.start)
}

pub fn madvise<M: Machine>(call: &mut Call<'_, M>, address: u64, len: u64, advice: u32) -> Answer {
    if !address.is_multiple_of(PAGE) {
        return fail(errno::EINVAL);
    }
    if len == 0 {
        return Ok(0);
    }
    let range = page_range(address, len)?;
    if !call.process.map.lock().is_covered(&range) {
        return fail(errno::ENOMEM);
    }
    match advice {
        linux::MADV_NORMAL
        | linux::MADV_RANDOM
        | linux::MADV_SEQUENTIAL
        | linux::MADV_WILLNEED
        | linux::MADV_FREE
        | linux::MADV_COLD
        | linux::MADV_HUGEPAGE
        | linux::MADV_NOHUGEPAGE
        | linux::MADV_MERGEABLE
        | linux::MADV_UNMERGEABLE
        | linux::MADV_DONTDUMP
        | linux::MADV_DODUMP => Ok(0),
        // What is not needed reads as zero afterwards: programs rely on it.
        linux::MADV_DONTNEED => {
            for (range, piece) in call.process.map.lock().pieces(&range) {
                if !piece.rights.contains(Rights::WRITE) {
                    return call.refuse("madvise(DONTNEED) of memory that is not writable", range.start, errno::EINVAL);
                }
            }
            let to = call.grant(range.start, range.end - range.start, Rights::WRITE)?;
            super::io::clear(call, to).map(|_| 0)
        }
        _ => call.refuse("madvise", advice.into(), errno::EINVAL),
    }
}
