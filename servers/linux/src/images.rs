//! Programs that were read from their files, kept so that the next instance is a clone: the executable segments are
//! sealed originals (their frames are shared by all instances), the others are copied on the first write.

use abi::Rights;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use window::Section;

use crate::machine::Machine;
use crate::program::{self, Program};
use crate::server::Refusal;
use crate::sync::Mutex;
use crate::tree::File;

/// Images that are kept.
const IMAGES_MAX: usize = 16;

/// A program in sections of this server, one for each segment.
#[derive(Debug)]
pub struct Image {
    file: (u64, u64),
    pub program: Program,
    pub originals: Vec<Section>,
    /// Path of the dynamic linker, without the zero.
    pub interpreter: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub struct Images {
    kept: Mutex<VecDeque<Arc<Image>>>,
}

impl Images {
    /// The image of a file, read now if it is not kept.
    ///
    /// # Errors
    /// The file's defect, or what the machine refuses.
    pub fn get<M: Machine>(&self, machine: &M, file: File) -> Result<Arc<Image>, Refusal> {
        let key = (file.address, file.len);
        if let Some(image) = self.kept.lock().iter().find(|image| image.file == key) {
            return Ok(image.clone());
        }
        // Two threads may read the same file at the same time: harmless, and better than a lock held so long.
        let image = Arc::new(read(machine, file)?);
        let dropped = {
            let mut kept = self.kept.lock();
            kept.push_front(image.clone());
            if kept.len() > IMAGES_MAX { kept.pop_back() } else { None }
        };
        // Whoever still uses it has cloned it or will keep it alive; then it is not deleted.
        if let Some(image) = dropped.and_then(Arc::into_inner) {
            image.originals.iter().for_each(|section| machine.section_delete(section));
        }
        Ok(image)
    }
}

fn read<M: Machine>(machine: &M, file: File) -> Result<Image, Refusal> {
    if !machine.readable(file.address, file.len) {
        return Err(Refusal::NotReadable);
    }
    let mut head = alloc::vec![0; file.len.min(program::HEAD_LEN) as usize];
    machine.read(file.address, &mut head)?;
    let program = program::parse(&head, file.len)?;
    let interpreter = match program.interpreter {
        Some(extent) => {
            let mut path = alloc::vec![0; extent.len as usize];
            machine.read(file.address + extent.offset, &mut path)?;
            let end = path.iter().position(|&c| c == 0).ok_or(program::Defect::BadInterpreter)?;
            path.truncate(end);
            Some(path)
        }
        None => None,
    };
    let mut originals: Vec<Section> = Vec::new();
    for segment in &program.segments {
        match original(machine, file, segment) {
            Ok(section) => originals.push(section),
            Err(error) => {
                originals.iter().for_each(|section| machine.section_delete(section));
                return Err(error.into());
            }
        }
    }
    Ok(Image { file: (file.address, file.len), program, originals, interpreter })
}

fn original<M: Machine>(machine: &M, file: File, segment: &program::Segment) -> Result<Section, abi::Error> {
    let section = machine.section_create(segment.len, segment.len + abi::layout::PAGE)?;
    let fill = || {
        machine.section_load(&section, 0, file.address + segment.file_offset, segment.file_len)?;
        if segment.rights.contains(Rights::EXECUTE) { machine.section_seal(&section) } else { Ok(()) }
    };
    match fill() {
        Ok(()) => {
            machine.section_name(&section, b"linux image");
            Ok(section)
        }
        Err(error) => {
            machine.section_delete(&section);
            Err(error)
        }
    }
}
