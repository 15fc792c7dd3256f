//! From the machine that `arch` has set up to the first program: makes the machine's tables, unpacks the boot pack into
//! sections, starts the first thread.

use crate::claim;
use crate::info as shown;
use crate::machine::{Machine, SYSTEMS_LEN, Table, machine, make};
use crate::place;
use crate::post;
use crate::processor::{Processor, here};
use crate::promise;
use crate::sched;
use crate::section::{New, Ports, Section};
use crate::task::Task;
use crate::thread::{Begin, Thread};
use crate::trace;
use crate::watch;
use abi::boot::{self, DeviceRecord, FileRecord, Manifest, PackEntry, PackHeader, device};
use abi::layout::{COMMON_LEN, FIRST_TEXT, GRANULE, PAGE, SLICE_LEN, STACKS_LEN, UNNAMED_NODE, slice_base};
use abi::rights::principal;
use abi::section::kind;
use abi::start::{START_MAGIC, StartInfo};
use abi::task::{Limits, USER_SYSTEM};
use abi::{AclEntry, Rights};
use ::space::{Directory, Slice};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::frames::{Frame, foreign_bytes};
use spin::Mutex;
use zerocopy::{FromBytes, IntoBytes};

/// The part of all memory that is kept for what is needed (`promise.rs`).
const RESERVE_PART: u64 = 32;
/// Sections, reserved space and threads that the first task may hand on; frames are what the machine has.
const LIMITS: Limits = Limits { frames: 0, sections: 1 << 20, reserve: SLICE_LEN, threads: 1 << 16 };

/// The first processor's way. The order is the point of this function.
pub fn run(info: arch::boot::Info) -> ! {
    let base = slice_base(UNNAMED_NODE);
    let processors = info.processors.iter().enumerate().map(|(i, &apic)| Processor::new(i, apic, info.processors.len() == 1)).collect();
    make(|| Machine {
        node: UNNAMED_NODE,
        common: Mutex::new(Slice::new(base, COMMON_LEN)),
        systems: Mutex::new(Slice::new(base + COMMON_LEN, SYSTEMS_LEN)),
        stacks: Mutex::new(Slice::new(base + SLICE_LEN - STACKS_LEN, STACKS_LEN)),
        sections: Directory::new(base, SLICE_LEN),
        tasks: Table::new(),
        ended: Table::new(),
        threads: Table::new(),
        processors,
        boot_time: info.clock,
    });
    let here = here();
    here.set_online();
    post::set_up();
    shown::set_up();
    let (free, total) = arch::frames::count();
    log::info!("musubi: {} MiB of memory, {} processors", total * PAGE >> 20, info.processors.len());
    log::info!("speculation: {}", arch::cpu::speculation());
    let (address, len) = info.pack.expect("a boot pack (the boot loader's module)");
    let pack = Pack::read(address, foreign_bytes(address, len));
    if let Some(symbols) = pack.members(boot::kind::SYMBOLS).next() {
        arch::symbols::set(pack.bytes(&symbols));
    }
    // Only now: what may go wrong from here on is shown with names.
    start_processors();
    let interactive = !info.command_line.split(' ').any(|word| word == "exec");
    // What the system needs whatever persons' programs use up: 16 MiB of 512.
    arch::frames::keep((total / RESERVE_PART).min(free / 4));
    promise::set_up();
    let limits = Limits { frames: free, ..LIMITS };
    let task = Task::create(None, 0, USER_SYSTEM, limits, *b"first\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").expect("the first task");
    let thread = first_thread(&task, &pack, &info);
    shown::show(&task);
    place::set_up(&task);
    watch::show();
    trace::set_up(&task);
    log::info!("starting the first program");
    arch::log_out::set_quiet(interactive);
    thread.start();
    arch::entry::enter(sched::leave())
}

/// A further processor's way.
pub fn join() -> ! {
    here().set_online();
    arch::entry::enter(sched::leave())
}

fn start_processors() {
    for processor in &machine().processors[1..] {
        if !arch::smp::start(processor.index, processor.apic) {
            log::warn!("processor {} does not start", processor.apic);
        }
    }
}

struct Pack {
    address: u64,
    bytes: &'static [u8],
    header: PackHeader,
}

impl Pack {
    fn read(address: u64, bytes: &'static [u8]) -> Pack {
        let (header, _) = PackHeader::read_from_prefix(bytes).expect("a whole boot pack");
        assert!(header.magic == boot::PACK_MAGIC && header.first_text == FIRST_TEXT, "the boot pack is of another version");
        Pack { address, bytes, header }
    }

    fn entries(&self) -> impl Iterator<Item = PackEntry> {
        let table = &self.bytes[size_of::<PackHeader>()..];
        let count = self.header.count as usize;
        (0..count).map(|i| PackEntry::read_from_prefix(&table[i * size_of::<PackEntry>()..]).expect("a whole boot pack").0)
    }

    fn members(&self, kind: u32) -> impl Iterator<Item = PackEntry> {
        self.entries().filter(move |e| e.kind == kind)
    }

    fn bytes(&self, entry: &PackEntry) -> &'static [u8] {
        &self.bytes[entry.offset as usize..(entry.offset + entry.len) as usize]
    }

    /// Shows a member as the pages of a section, without copying.
    fn supply(&self, entry: &PackEntry, section: &Section) {
        let mut state = section.state.lock();
        for page in 0..entry.len.div_ceil(PAGE) {
            let frame = Frame::foreign(self.address + entry.offset + page * PAGE);
            state.pages.supply(page, Arc::new(frame));
        }
    }
}

const ALL: Rights = Rights::READ.union(Rights::WRITE).union(Rights::EXECUTE).union(Rights::CALL).union(Rights::CHANGE_ACL);

/// All rights for the first program on whatever thread.
const FOR_FIRST: AclEntry = AclEntry { principal: principal::ANY, rights: ALL.bits(), id: 0, text: FIRST_TEXT };

fn section(owner: &Arc<Task>, len: u64, kind: u64, ports: Option<Ports>) -> Arc<Section> {
    Section::create(New { len, reserve: 0, kind, at: 0, room: 0, owner: owner.clone(), entry: FOR_FIRST, ports, live: false })
        .expect("room for the first sections")
}

fn first_thread(task: &Arc<Task>, pack: &Pack, info: &arch::boot::Info) -> Arc<Thread> {
    let text = first_text(task, pack);
    let manifest = manifest(task, pack, info);
    let start = StartInfo {
        magic: START_MAGIC,
        len: size_of::<StartInfo>() as u64,
        task: task.number,
        user: task.user,
        text: text.base,
        data: pack.header.first_data,
        names: 0,
        streams: Default::default(),
        argc: 0,
        envc: 0,
        args_offset: 0,
        manifest,
    };
    let place = section(task, PAGE, kind::DATA, None);
    claim::fill(&place, 0, start.as_bytes()).expect("memory for the first program");
    let begin = Begin::Native { entry: pack.header.first_entry, argument: place.base, stack_len: 0 };
    Thread::create(task, &text, begin).expect("memory for the first thread")
}

/// The first program's text and data, at the addresses for which the host tool has laid them out.
fn first_text(task: &Arc<Task>, pack: &Pack) -> Arc<Section> {
    let header = &pack.header;
    let distance = header.first_data - header.first_text;
    assert!(distance.is_multiple_of(GRANULE) && distance > 0, "the first program's data begins at a granule");
    let text_entry = pack.members(boot::kind::FIRST_TEXT).next().expect("the first program");
    let room = header.first_data_len;
    let new = New { len: text_entry.len, reserve: distance, kind: kind::TEXT, at: 0, room, owner: task.clone(), entry: FOR_FIRST, ports: None, live: false };
    let text = Section::create(new).expect("the first text");
    assert!(text.base == FIRST_TEXT, "the first text is the first section of the slice");
    pack.supply(&text_entry, &text);
    text.look_through();
    let new = New { len: room, reserve: 0, kind: kind::DATA, at: header.first_data, room: 0, owner: task.clone(), entry: FOR_FIRST, ports: None, live: false };
    let data = Section::create(new).expect("the first data");
    if let Some(entry) = pack.members(boot::kind::FIRST_DATA).next() {
        pack.supply(&entry, &data);
    }
    for (section, name) in [(&text, *b"first text"), (&data, *b"first data")] {
        let mut state = section.state.lock();
        state.name[..10].copy_from_slice(&name);
        state.show(section);
    }
    text
}

/// Tells the first program what there is. Returns the address of the manifest.
fn manifest(task: &Arc<Task>, pack: &Pack, info: &arch::boot::Info) -> u64 {
    let mut names: Vec<u8> = Vec::new();
    let mut files: Vec<FileRecord> = Vec::new();
    for entry in pack.members(boot::kind::FILE) {
        let base = if entry.len == 0 {
            0
        } else {
            let section = section(task, entry.len, kind::DATA, None);
            pack.supply(&entry, &section);
            section.base
        };
        let name = &entry.name[..(entry.name_len as usize).min(boot::NAME_LEN)];
        files.push(FileRecord {
            section: base,
            len: entry.len,
            name_offset: names.len() as u64,
            name_len: name.len() as u64,
            mtime: entry.mtime,
            flags: u64::from(entry.flags),
        });
        names.extend_from_slice(name);
    }
    let devices = devices(task, info);
    let words: &[u8] = pack.members(boot::kind::EXEC).next().map_or(&[], |entry| pack.bytes(&entry));
    let head = size_of::<Manifest>() + files.len() * size_of::<FileRecord>() + devices.len() * size_of::<DeviceRecord>();
    files.iter_mut().for_each(|file| file.name_offset += head as u64);
    let exec_offset = head + names.len();
    let len = exec_offset + words.len();
    let manifest = Manifest {
        len: len as u64,
        files: files.len() as u64,
        devices: devices.len() as u64,
        exec_offset: if words.is_empty() { 0 } else { exec_offset as u64 },
        exec_len: words.len() as u64,
        boot_time: info.clock,
        build_id: pack.header.build_id,
    };
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(manifest.as_bytes());
    bytes.extend_from_slice(files.as_bytes());
    bytes.extend_from_slice(devices.as_bytes());
    bytes.extend_from_slice(&names);
    bytes.extend_from_slice(words);
    let section = section(task, bytes.len() as u64, kind::DATA, None);
    for (page, part) in bytes.chunks(PAGE as usize).enumerate() {
        claim::fill(&section, page as u64 * PAGE, part).expect("memory for the manifest");
    }
    section.base
}

/// A section of a device's memory.
fn memory(task: &Arc<Task>, address: u64, len: u64) -> Arc<Section> {
    let section = section(task, len, kind::DEVICE, None);
    let mut state = section.state.lock();
    for page in 0..len.div_ceil(PAGE) {
        state.pages.supply(page, Arc::new(Frame::foreign(address + page * PAGE)));
    }
    drop(state);
    section
}

fn devices(task: &Arc<Task>, info: &arch::boot::Info) -> Vec<DeviceRecord> {
    let record = |kind: u64, section: u64| DeviceRecord { kind, section, a: 0, b: 0, c: 0, d: 0 };
    let mut list = Vec::new();
    let mut ports = |kind: u64, first: u16, count: u16, interrupt: Option<u8>| {
        let section = section(task, 0, abi::section::kind::PORTS, Some(Ports { first, count, interrupt }));
        list.push(record(kind, section.base));
    };
    ports(device::SERIAL, 0x3f8, 8, Some(4));
    ports(device::PS2, 0x60, 5, Some(1));
    if info.command_line.split(' ').any(|word| word == "exec") {
        ports(device::EXEC_OUTPUT, 0xe0, 1, None);
        ports(device::EXEC_STATUS, 0xe2, 1, None);
        let shared = arch::pci::shared_memory().filter(|shared| shared.1 >= boot::output::MEMORY as u64);
        if let Some((address, _)) = shared {
            let section = memory(task, address, boot::output::MEMORY as u64);
            list.push(record(device::EXEC_MEMORY, section.base));
        }
    }
    if let Some(screen) = info.framebuffer {
        let section = memory(task, screen.address / PAGE * PAGE, screen.pitch * screen.height);
        let mut entry = record(device::FRAMEBUFFER, section.base);
        (entry.a, entry.b, entry.c, entry.d) = (screen.width, screen.height, screen.pitch, screen.bits);
        list.push(entry);
    }
    list
}
