//! Programs that were read from their files, kept so that the next instance is a clone: the executable segments are
//! sealed originals (their frames are shared by all instances), the others are copied on the first write.

use abi::Rights;
use abi::layout::{PAGE, pages_up};
use abi::task::{Limits, USER_SYSTEM};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use elf_plan::Program;
use window::Section;

use crate::calls::io::STEP;
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
    /// The task that has it, if that is there for nothing else.
    keeper: Option<u64>,
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
        self.keeper.into_iter().for_each(|keeper| machine.task_drop(keeper));
    }
}

/// Who pays for what is read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// The task on whose thread this is: it stays meanwhile.
    Running(u64),
    /// One that has not begun, and may be ended meanwhile: what is read is in a task of the system's own for it, or others might have its addresses by then.
    New(u64),
}

#[derive(Debug, Default)]
pub struct Images {
    kept: Mutex<VecDeque<Arc<Image>>>,
}

impl Images {
    /// The image of a file for a task, read now if it is not kept. Whoever has it says when he needs it no more ([`Images::done`]).
    ///
    /// # Errors
    /// Why the file is no program, or what the machine refuses.
    pub fn get<M: Machine>(&self, machine: &M, file: File, payer: Payer) -> Result<Arc<Image>, Refusal> {
        // What may be written over is read each time.
        let key = Some((file.address, file.len)).filter(|_| file.fixed);
        let known = key.and_then(|_| self.kept.lock().iter().find(|image| image.file == key).cloned());
        if let Some(image) = known {
            return Ok(image);
        }
        // Two threads may read the same file at the same time: harmless, and better than a lock held so long.
        let image = Arc::new(read(machine, file, payer)?);
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

fn read<M: Machine>(machine: &M, file: File, payer: Payer) -> Result<Image, Refusal> {
    if file.fixed || file.len == 0 {
        return read_at(machine, file, file.address, None);
    }
    // A clone: a fault on what somebody has taken away would end this call with everything that it has made left behind.
    let snapshot = machine.snapshot(file.address, file.len).map_err(|error| match error {
        error if error.refusal().is_some() || error == abi::Error::NotFound => Refusal::NotReadable,
        error => Refusal::Kernel(error),
    })?;
    let keeper = match payer {
        Payer::Running(_) => None,
        Payer::New(task) => Some(machine.task_create(task, USER_SYSTEM, &Limits::default(), b"laid out")),
    };
    let image = keeper.transpose().map_err(Refusal::Kernel).and_then(|keeper| {
        let (Payer::Running(task) | Payer::New(task)) = payer;
        if let Some(keeper) = keeper {
            // What is read of it is paid by whom it is for, and goes with him wherever this ends.
            machine.section_give(&snapshot, keeper).inspect_err(|_| machine.task_drop(keeper))?;
        }
        let given = keeper.map_or((Some(&snapshot), task), |keeper| (None, keeper));
        let image = read_at(machine, file, snapshot.base(), Some(given));
        match (image, keeper) {
            (Ok(image), _) => Ok(Image { keeper, ..image }),
            (Err(refusal), keeper) => {
                keeper.into_iter().for_each(|keeper| machine.task_drop(keeper));
                Err(refusal)
            }
        }
    });
    machine.section_delete(&snapshot);
    image
}

/// `at`: where its bytes lie now; `snapshot`: what that is then, unless it was given away already, and the task that pays for what is read.
fn read_at<M: Machine>(
    machine: &M,
    file: File,
    at: u64,
    snapshot: Option<(Option<&Section>, u64)>,
) -> Result<Image, Refusal> {
    let bytes = machine.view(at, file.len).ok_or(Refusal::NotReadable)?;
    let Program::Linux(plan) = elf_plan::read(bytes)? else { return Err(Refusal::Native) };
    let mut image = Image {
        file: Some((file.address, file.len)).filter(|_| file.fixed),
        segments: Vec::new(),
        entry: plan.entry,
        headers: plan.phdr_vaddr,
        header_count: plan.phnum,
        base: plan.is_pie.then_some(plan.base_hint),
        interpreter: plan.interpreter.map(<[u8]>::to_vec),
        keeper: None,
    };
    // The headers are known. From here on the bytes are only copied, and may go with the task; each page that is missing in the file
    // becomes one of the clone, and another one of the program.
    if let Some((Some(snapshot), task)) = snapshot {
        machine.section_give(snapshot, task)?;
    }
    for segment in &plan.segments {
        let from = at + (segment.file.as_ptr().addr() - bytes.as_ptr().addr()) as u64;
        match original(machine, segment, from, snapshot.map(|(_, task)| task)) {
            Ok(segment) => image.segments.push(segment),
            Err(refusal) => {
                image.delete(machine);
                return Err(refusal);
            }
        }
    }
    Ok(image)
}

/// `from`: where the segment's bytes lie.
fn original<M: Machine>(
    machine: &M,
    segment: &elf_plan::Segment<'_>,
    from: u64,
    payer: Option<u64>,
) -> Result<Segment, Refusal> {
    let start = segment.vaddr / PAGE * PAGE;
    let end = pages_up(segment.vaddr + segment.memsz).ok_or(Refusal::Kernel(abi::Error::TooBig))?;
    let mut rights = Rights::empty();
    rights.set(Rights::READ, segment.read || segment.write);
    rights.set(Rights::WRITE, segment.write);
    rights.set(Rights::EXECUTE, segment.execute);
    // A text's reserve leaves a page free for gates.
    let original = machine.section_create(end - start, end - start + PAGE)?;
    let fill = || {
        if let Some(task) = payer {
            machine.section_give(&original, task)?;
        }
        load(machine, &original, segment.vaddr - start, from, segment.file.len() as u64)?;
        if segment.execute { machine.section_seal(&original) } else { Ok(()) }
    };
    if let Err(error) = fill() {
        machine.section_delete(&original);
        return Err(error.into());
    }
    machine.section_name(&original, b"linux image");
    Ok(Segment { original, range: start..end, rights })
}

/// Writes to a section what lies at an address, such as a part of a file.
///
/// # Errors
/// What the machine refuses; `Killed`.
pub fn load<M: Machine>(machine: &M, to: &Section, at: u64, from: u64, len: u64) -> Result<(), abi::Error> {
    (0..len).step_by(STEP as usize).try_for_each(|done| match machine.is_killed() {
        true => Err(abi::Error::Killed),
        false => machine.section_load(to, at + done, from + done, STEP.min(len - done)),
    })
}
