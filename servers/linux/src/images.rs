//! Programs that were read from their files, kept so that the next instance is a clone: the executable segments are
//! sealed originals (their frames are shared by all instances), the others are copied on the first write.

use abi::Rights;
use abi::layout::{PAGE, pages_up};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use elf_plan::Program;
use window::Section;

use crate::machine::Machine;
use crate::server::Refusal;
use crate::sync::Mutex;
use crate::tree::File;

/// Images that are kept.
const IMAGES_MAX: usize = 16;

/// A segment as a section of this server, in whole pages.
#[derive(Debug)]
pub struct Segment {
    pub original: Section,
    /// As the file says; a program that may go anywhere is moved.
    pub range: Range<u64>,
    pub rights: Rights,
}

/// A program that was read.
#[derive(Debug)]
pub struct Image {
    /// Where it lies, if it stays what it is.
    file: Option<(u64, u64)>,
    /// In ascending order; one at least may be executed.
    pub segments: Vec<Segment>,
    pub entry: u64,
    /// Where the program headers are in memory (0: nowhere), and how many.
    pub headers: u64,
    pub header_count: u64,
    /// Where to put a program that may go anywhere.
    pub base: Option<u64>,
    /// Path of its dynamic linker.
    pub interpreter: Option<Vec<u8>>,
}

impl Image {
    /// From the first to the last byte.
    #[must_use]
    pub fn extent(&self) -> Range<u64> {
        let start = self.segments.first().map_or(0, |s| s.range.start);
        start..self.segments.last().map_or(start, |s| s.range.end)
    }

    fn delete<M: Machine>(&self, machine: &M) {
        self.segments.iter().for_each(|segment| machine.section_delete(&segment.original));
    }
}

#[derive(Debug, Default)]
pub struct Images {
    kept: Mutex<VecDeque<Arc<Image>>>,
}

impl Images {
    /// The image of a file, read now if it is not kept. Whoever has it says when he needs it no more ([`Images::done`]).
    ///
    /// # Errors
    /// Why the file is no program, or what the machine refuses.
    pub fn get<M: Machine>(&self, machine: &M, file: File) -> Result<Arc<Image>, Refusal> {
        // What may be written over is read each time.
        let key = Some((file.address, file.len)).filter(|_| file.fixed);
        let known = key.and_then(|_| self.kept.lock().iter().find(|image| image.file == key).cloned());
        if let Some(image) = known {
            return Ok(image);
        }
        // Two threads may read the same file at the same time: harmless, and better than a lock held so long.
        let image = Arc::new(read(machine, file)?);
        if key.is_none() {
            return Ok(image);
        }
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push_front(image.clone());
            if kept.len() > IMAGES_MAX { kept.pop_back() } else { None }
        };
        if let Some(image) = dropped {
            self.done(machine, image);
        }
        Ok(image)
    }

    /// An image is not needed any more by somebody: with the last one its sections go.
    pub fn done<M: Machine>(&self, machine: &M, image: Arc<Image>) {
        if let Some(image) = Arc::into_inner(image) {
            image.delete(machine);
        }
    }
}

fn read<M: Machine>(machine: &M, file: File) -> Result<Image, Refusal> {
    // A fault on what somebody has taken away would end this call with everything that it has made left behind.
    let mut copy = Vec::new();
    let bytes = if file.fixed {
        machine.view(file.address, file.len).ok_or(Refusal::NotReadable)?
    } else {
        copy.try_reserve_exact(file.len as usize).map_err(|_| Refusal::Kernel(abi::Error::NoMemory))?;
        copy.resize(file.len as usize, 0);
        if !machine.copied(file.address, &mut copy) {
            return Err(Refusal::NotReadable);
        }
        copy.as_slice()
    };
    let Program::Linux(plan) = elf_plan::read(bytes)? else { return Err(Refusal::Native) };
    let mut image = Image {
        file: Some((file.address, file.len)).filter(|_| file.fixed),
        segments: Vec::new(),
        entry: plan.entry,
        headers: plan.phdr_vaddr,
        header_count: plan.phnum,
        base: plan.is_pie.then_some(plan.base_hint),
        interpreter: plan.interpreter.map(<[u8]>::to_vec),
    };
    for segment in &plan.segments {
        match original(machine, segment) {
            Ok(segment) => image.segments.push(segment),
            Err(refusal) => {
                image.delete(machine);
                return Err(refusal);
            }
        }
    }
    Ok(image)
}

fn original<M: Machine>(machine: &M, segment: &elf_plan::Segment<'_>) -> Result<Segment, Refusal> {
    let start = segment.vaddr / PAGE * PAGE;
    let end = pages_up(segment.vaddr + segment.memsz).ok_or(Refusal::Kernel(abi::Error::TooBig))?;
    let mut rights = Rights::empty();
    rights.set(Rights::READ, segment.read || segment.write);
    rights.set(Rights::WRITE, segment.write);
    rights.set(Rights::EXECUTE, segment.execute);
    // A text's reserve leaves a page free for gates.
    let original = machine.section_create(end - start, end - start + PAGE)?;
    let fill = || {
        machine.section_write(&original, segment.vaddr - start, segment.file)?;
        if segment.execute { machine.section_seal(&original) } else { Ok(()) }
    };
    if let Err(error) = fill() {
        machine.section_delete(&original);
        return Err(error.into());
    }
    machine.section_name(&original, b"linux image");
    Ok(Segment { original, range: start..end, rights })
}
