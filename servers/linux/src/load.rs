//! Makes a program ready to run in a task's window: sections for its segments and its stack, the record of what goes
//! where, and the registers to begin with. Nothing is mapped before all of it is there, so that a program that cannot be
//! loaded leaves the caller of `execve` as it was.

use abi::Rights;
use abi::frame::Frame;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use linux_raw_sys::auxvec;
use window::Section;

use crate::images::{Image, Payer};
use crate::machine::Machine;
use crate::map::{Backing, Map, Piece, STACK_LEN, STACK_TOP};
use crate::server::{Refusal, Server};
use crate::stack::{self, Start};
use crate::tree::{File, Node};

/// CPUID leaf 1, edx, as Linux gives it in `AT_HWCAP`: what every 64-bit processor has.
const HWCAP: u64 = 0x078b_fbff;
/// Ticks of `times` in a second.
pub const CLOCK_TICKS: u64 = 100;

/// Which program, for whom.
pub struct Request<'a> {
    pub task: u64,
    pub user: u64,
    pub path: &'a [u8],
    pub file: File,
    pub arguments: &'a [Vec<u8>],
    pub environment: &'a [Vec<u8>],
    /// The window's text; `None`: the first executable segment becomes it.
    pub text: Option<Arc<Backing>>,
}

impl Request<'_> {
    /// Who pays for what is read for it.
    fn payer(&self) -> Payer {
        if self.text.is_some() { Payer::Running(self.task) } else { Payer::New(self.task) }
    }
}

/// A program that is ready.
pub struct Loaded {
    pub map: Map,
    pub frame: Frame,
    pub text: Arc<Backing>,
}

/// The sections made so far: what a failure deletes again.
struct Loading<'a, M: Machine> {
    server: &'a Server<M>,
    task: u64,
    text: Option<Arc<Backing>>,
    made: Vec<Arc<Backing>>,
    map: Map,
}

impl<M: Machine> Server<M> {
    /// # Errors
    /// Why the program is not run. No section is left over, but those of a task that has not begun, which go with it.
    pub fn load(&self, request: &Request<'_>) -> Result<Loaded, Refusal> {
        let mut loading = Loading {
            server: self,
            task: request.task,
            text: request.text.clone(),
            made: Vec::new(),
            map: Map::default(),
        };
        match loading.run(request) {
            Ok(frame) => {
                let Loading { map, text, .. } = loading;
                // An image has an executable segment, or it would have been refused.
                text.map(|text| Loaded { map, frame, text }).ok_or(Refusal::Kernel(abi::Error::BadProgram))
            }
            Err(refusal) => {
                // Of a task that has not begun they go with it, which can be before this: others may have these addresses then.
                if request.text.is_some() {
                    loading.made.iter().for_each(|backing| self.machine.section_delete(&backing.section));
                }
                Err(refusal)
            }
        }
    }

    /// Maps all of a map into the task's window.
    ///
    /// # Errors
    /// What the kernel answers; `Killed`.
    pub fn install(&self, task: u64, map: &Map) -> Result<(), abi::Error> {
        for (range, piece) in map.iter() {
            if self.machine.is_killed() {
                return Err(abi::Error::Killed);
            }
            self.window_set(task, range, piece)?;
        }
        Ok(())
    }

    /// Makes the window agree with a piece of the map.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn window_set(&self, task: u64, range: &Range<u64>, piece: &Piece) -> Result<(), abi::Error> {
        let len = range.end - range.start;
        // What is shared stays mapped, for nobody to use: whose it is may end, and only the mapping knows what it was.
        if piece.rights.is_empty() && !piece.shared {
            return self.machine.window_unmap(task, range.start, len);
        }
        let (section, offset) = (&piece.backing.section, piece.offset(range.start));
        self.machine.window_map(task, range.start, section, offset, len, piece.rights)
    }

    /// Lets a program use a section, and pay for it.
    ///
    /// # Errors
    /// What the kernel answers; the section is deleted then.
    pub fn adopt(
        &self,
        section: Section,
        len: u64,
        task: u64,
        text: u64,
        rights: Rights,
    ) -> Result<Arc<Backing>, abi::Error> {
        let given = self.machine.section_allow(&section, task, text, rights);
        match given.and_then(|()| self.machine.section_give(&section, task)) {
            Ok(()) => Ok(Backing::new(section, task, len)),
            Err(error) => {
                self.machine.section_delete(&section);
                Err(error)
            }
        }
    }

    /// Deletes the sections of pieces that nothing else refers to, as far as they are this task's. (A parent's go with the parent.)
    pub fn discard(&self, own: u64, pieces: Vec<(Range<u64>, Piece)>) {
        let left = pieces.into_iter().filter_map(|(_, piece)| Arc::into_inner(piece.backing));
        for backing in left.filter(|backing| backing.owner == own) {
            self.machine.section_delete(&backing.section);
        }
    }
}

impl<M: Machine> Loading<'_, M> {
    fn run(&mut self, request: &Request<'_>) -> Result<Frame, Refusal> {
        let Server { machine, images, .. } = self.server;
        let image = images.get(machine, request.file, request.payer())?;
        let begins = self.begin(request, &image);
        images.done(machine, image);
        begins
    }

    fn begin(&mut self, request: &Request<'_>, image: &Image) -> Result<Frame, Refusal> {
        let Server { machine, images, .. } = self.server;
        let bias = self.place(image)?;
        let end = image.extent().end + bias;
        self.map.heap = end..end;

        let mut entry = image.entry + bias;
        let mut linker_base = 0;
        if let Some(path) = &image.interpreter {
            let file = self.linker(request, path).ok_or_else(|| Refusal::NoInterpreter(path.clone()))?;
            let linker = images.get(machine, file, request.payer())?;
            let (placed, begins) = (self.place(&linker), linker.entry);
            images.done(machine, linker);
            linker_base = placed?;
            entry = begins + linker_base;
        }

        let mut random = [0; 16];
        machine.random(&mut random);
        let headers = if image.headers == 0 { 0 } else { image.headers + bias };
        let auxiliary = [
            (auxvec::AT_HWCAP, HWCAP),
            (auxvec::AT_PAGESZ, abi::layout::PAGE),
            (auxvec::AT_CLKTCK, CLOCK_TICKS),
            (auxvec::AT_PHDR, headers),
            (auxvec::AT_PHENT, size_of::<linux_raw_sys::elf::Elf_Phdr>() as u64),
            (auxvec::AT_PHNUM, image.header_count),
            (auxvec::AT_BASE, linker_base),
            (auxvec::AT_FLAGS, 0),
            (auxvec::AT_ENTRY, image.entry + bias),
            (auxvec::AT_UID, request.user),
            (auxvec::AT_EUID, request.user),
            (auxvec::AT_GID, request.user),
            (auxvec::AT_EGID, request.user),
            (auxvec::AT_SECURE, 0),
            // No FSGSBASE: programs are to set their bases by arch_prctl.
            (auxvec::AT_HWCAP2, 0),
        ];
        let (arguments, environment) = (request.arguments, request.environment);
        let start = Start { arguments, environment, path: request.path, random, auxiliary: &auxiliary };
        let stack = stack::build(STACK_TOP, &start).map_err(Refusal::Arguments)?;
        let section = machine.section_create(STACK_LEN, STACK_LEN)?;
        let bottom = STACK_TOP - STACK_LEN;
        if let Err(error) = machine.section_write(&section, stack.pointer - bottom, &stack.bytes) {
            machine.section_delete(&section);
            return Err(error.into());
        }
        let rights = Rights::READ | Rights::WRITE;
        self.enter(section, bottom..STACK_TOP, rights)?;
        Ok(Frame { rip: entry, rsp: stack.pointer, rflags: 0x202, task: request.task, ..Frame::default() })
    }

    /// The dynamic linker of that path, as far as the program's person comes to it: a start may run on a thread of the system's, which comes
    /// everywhere.
    fn linker(&self, request: &Request<'_>, path: &[u8]) -> Option<File> {
        let entry = self.server.machine.file_look_for(request.user, path).ok()?;
        match entry.node {
            Node::File(file) if entry.mode.allows(request.user, 4) => Some(file),
            _ => None,
        }
    }

    /// Clones an image's segments and enters them in the map. Answers how far they were moved.
    fn place(&mut self, image: &Image) -> Result<u64, Refusal> {
        let extent = image.extent();
        let bias = match image.base {
            None => 0,
            // The program itself goes where it is best; what comes later (its linker) where there is room.
            Some(base) if self.map.iter().next().is_none() => base,
            Some(_) => {
                let at = self.map.find(extent.end - extent.start).ok_or(Refusal::Kernel(abi::Error::NoMemory))?;
                at.checked_sub(extent.start).ok_or(Refusal::Kernel(abi::Error::NoMemory))?
            }
        };
        let machine = &self.server.machine;
        // The text first: the other sections' ACLs name it.
        let (code, data): (Vec<_>, Vec<_>) = image.segments.iter().partition(|s| s.rights.contains(Rights::EXECUTE));
        for segment in code.into_iter().chain(data) {
            let section = machine.section_clone(&segment.original)?;
            let range = segment.range.start + bias..segment.range.end + bias;
            if !self.map.is_free(&range) {
                machine.section_delete(&section);
                return Err(Refusal::Kernel(abi::Error::Exists));
            }
            self.enter(section, range, segment.rights)?;
        }
        Ok(bias)
    }

    fn enter(&mut self, section: Section, range: Range<u64>, rights: Rights) -> Result<(), Refusal> {
        let len = range.end - range.start;
        let most = most_rights(rights);
        let text = self.text.as_ref().map_or(section.base(), |text| text.section.base());
        let backing = self.server.adopt(section, len, self.task, text, most)?;
        self.made.push(backing.clone());
        self.text.get_or_insert_with(|| backing.clone());
        self.map.insert(range.clone(), Piece { backing, origin: range.start, rights, most, shared: false });
        Ok(())
    }
}

/// What `mprotect` may later give: code stays code, everything else may be written.
#[must_use]
pub fn most_rights(rights: Rights) -> Rights {
    if rights.contains(Rights::EXECUTE) { Rights::READ | Rights::EXECUTE } else { Rights::READ | Rights::WRITE }
}
