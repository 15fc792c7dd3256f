//! From the boot loader's two dialects (PVH, multiboot2) to one record, and the order in which the machine is set up.

use crate::frames::Range;
use crate::{acpi_tables, apic, cpu, descriptors, entry, fatal, frames, heap, image, ioapic, log_out, percpu, time};
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::global_asm;

global_asm!(include_str!("../../boot/start.S"), options(att_syntax));

const PVH: u32 = 0x4856_4d21;
const MULTIBOOT2: u32 = multiboot2::MAGIC;
const RANGES: usize = 64;

/// A linear framebuffer that the boot loader set up.
#[derive(Clone, Copy, Debug)]
pub struct Framebuffer {
    pub address: u64,
    pub width: u64,
    pub height: u64,
    /// Bytes a line, bits a pixel.
    pub pitch: u64,
    pub bits: u64,
}

/// What the kernel is told by its boot loader and its machine.
pub struct Info {
    pub command_line: String,
    /// The boot pack: physical address and length.
    pub pack: Option<(u64, u64)>,
    pub framebuffer: Option<Framebuffer>,
    /// Interrupt-controller ids of all usable processors, this one first.
    pub processors: Vec<u32>,
    /// Seconds since 1970 at boot.
    pub clock: u64,
}

/// First stage, before there is a heap.
struct Found {
    ram: [Range; RANGES],
    ram_count: usize,
    pack: Option<(u64, u64)>,
    rsdp: u64,
    /// The boot loader's own record, which is still read when memory is already handed out.
    information: Range,
    framebuffer: Option<Framebuffer>,
    command_line: [u8; 2048],
    command_line_len: usize,
}

impl Found {
    fn add_ram(&mut self, base: u64, len: u64) {
        if self.ram_count < RANGES {
            self.ram[self.ram_count] = Range { base, end: base + len };
            self.ram_count += 1;
        }
    }

    fn set_command_line(&mut self, text: &[u8]) {
        let len = text.len().min(self.command_line.len());
        self.command_line[..len].copy_from_slice(&text[..len]);
        self.command_line_len = len;
    }
}

// SAFETY: `kernel!` defines it with this type.
unsafe extern "Rust" {
    /// Defined by the kernel proper: runs on the first processor when the machine is set up.
    safe fn kernel_main(info: Info) -> !;
}

/// Reads a record in physical memory below 4 GiB, as the boot tables map it.
///
/// # Safety
/// The boot loader promises a record of this type there.
unsafe fn physical<T: Copy>(address: u64) -> T {
    // SAFETY: the caller's promise; the direct map covers it.
    unsafe { (image::direct(address) as *const T).read_unaligned() }
}

#[unsafe(no_mangle)]
extern "C" fn kmain(magic: u32, address: u32) -> ! {
    log_out::set_up();
    let mut found = Found {
        ram: [Range::default(); RANGES],
        ram_count: 0,
        pack: None,
        rsdp: 0,
        information: Range::default(),
        framebuffer: None,
        command_line: [0; 2048],
        command_line_len: 0,
    };
    match magic {
        PVH => read_pvh(u64::from(address), &mut found),
        MULTIBOOT2 => read_multiboot(u64::from(address), &mut found),
        _ => panic!("started by an unknown boot loader (magic {magic:#x})"),
    }
    percpu::set_up(0, image::stack_top(0, 0));
    cpu::detect();
    let command_line = core::str::from_utf8(&found.command_line[..found.command_line_len]).unwrap_or("");
    set_build_id(command_line);
    let top = add_memory(&found);
    heap::set_up(command_line);
    frames::set_up();
    cpu::set_up();
    image::build(top);
    descriptors::set_up(0);
    entry::set_up();
    let tables = acpi_tables::read(found.rsdp);
    apic::set_up();
    time::calibrate();
    log_out::set_logger();
    ioapic::set_up(&tables);
    let mine = apic::id();
    let mut processors: Vec<u32> = tables.processors.iter().copied().filter(|&id| id != mine).collect();
    processors.insert(0, mine);
    let processors: Vec<u32> = processors.into_iter().step_by(every(command_line)).take(cpu::PROCESSORS_MAX).collect();
    kernel_main(Info {
        command_line: String::from(command_line),
        pack: found.pack,
        framebuffer: found.framebuffer,
        processors,
        clock: time::read_clock(),
    })
}

fn set_build_id(command_line: &str) {
    let id = command_line.split(' ').find_map(|word| word.strip_prefix("build="));
    fatal::set_build_id(id.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0));
}

/// `every=2`: every second one of the processors that the firmware names is ours, from the first one on. The others stay as it has left them.
fn every(command_line: &str) -> usize {
    let step = command_line.split(' ').find_map(|word| word.strip_prefix("every="));
    step.and_then(|step| step.parse().ok()).unwrap_or(1).max(1)
}

/// Hands usable memory to the frame allocator: not the first MiB, not the image, not the pack. Returns the top of RAM.
fn add_memory(found: &Found) -> u64 {
    let mut holes = [Range { base: 0, end: 0x10_0000 }; 4];
    let (base, end) = image::physical();
    holes[1] = Range { base, end };
    if let Some((base, len)) = found.pack {
        holes[2] = Range { base, end: base + len };
    }
    holes[3] = found.information;
    holes.sort_unstable_by_key(|h| h.base);
    let ram = &found.ram[..found.ram_count];
    for range in ram {
        let mut base = range.base;
        for hole in holes {
            if hole.end <= base || hole.base >= range.end {
                continue;
            }
            frames::add(Range { base, end: hole.base });
            base = hole.end;
        }
        frames::add(Range { base, end: range.end });
    }
    frames::seal_ranges();
    ram.iter().map(|r| r.end).max().expect("the boot loader names some memory")
}

fn read_pvh(address: u64, found: &mut Found) {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Start {
        magic: u32,
        version: u32,
        flags: u32,
        modules: u32,
        module_list: u64,
        command_line: u64,
        rsdp: u64,
        memory_map: u64,
        entries: u32,
        reserved: u32,
    }
    // SAFETY: PVH puts an hvm_start_info at this address.
    let start: Start = unsafe { physical(address) };
    assert!(start.magic == 0x336e_c578 && start.version >= 1, "damaged PVH start information");
    for i in 0..u64::from(start.entries) {
        // SAFETY: `entries` records of 24 bytes.
        let (base, len, kind): (u64, u64, u32) = unsafe {
            let at = start.memory_map + 24 * i;
            (physical(at), physical(at + 8), physical(at + 16))
        };
        if kind == 1 {
            found.add_ram(base, len);
        }
    }
    if start.modules > 0 {
        // SAFETY: a list of `modules` records that begin with address and length.
        found.pack = Some(unsafe { (physical(start.module_list), physical(start.module_list + 8)) });
    }
    found.rsdp = start.rsdp;
    if start.command_line != 0 {
        let mut text = [0; 2048];
        let mut len = 0;
        while len < text.len() {
            // SAFETY: a NUL-terminated string.
            let byte: u8 = unsafe { physical(start.command_line + len as u64) };
            if byte == 0 {
                break;
            }
            text[len] = byte;
            len += 1;
        }
        found.set_command_line(&text[..len]);
    }
}

fn read_multiboot(address: u64, found: &mut Found) {
    // SAFETY: the boot loader's magic says that its information lies here.
    let info = unsafe { multiboot2::BootInformation::load(image::direct(address).cast()) }
        .expect("readable multiboot2 information");
    let map = info.memory_map_tag().expect("a memory map from the boot loader");
    for area in map.memory_areas() {
        if area.typ() == multiboot2::MemoryAreaType::Available {
            found.add_ram(area.start_address(), area.size());
        }
    }
    if let Some(module) = info.module_tags().next() {
        found.pack = Some((u64::from(module.start_address()), u64::from(module.module_size())));
    }
    if let Some(Ok(text)) = info.command_line_tag().map(|tag| tag.cmdline().map(str::as_bytes)) {
        found.set_command_line(text);
    }
    // The RSDP is a copy inside the information: kept from the allocator until the tables have been read.
    found.information =
        Range { base: address / 4096 * 4096, end: (address + info.total_size() as u64).next_multiple_of(4096) };
    let copy = |at: *const u8| at as u64 - image::DIRECT;
    found.rsdp = if let Some(tag) = info.rsdp_v2_tag() {
        copy((tag as *const multiboot2::RsdpV2Tag).cast()) + 8
    } else if let Some(tag) = info.rsdp_v1_tag() {
        copy((tag as *const multiboot2::RsdpV1Tag).cast()) + 8
    } else {
        0
    };
    if let Some(Ok(tag)) = info.framebuffer_tag() {
        found.framebuffer = Some(Framebuffer {
            address: tag.address(),
            width: u64::from(tag.width()),
            height: u64::from(tag.height()),
            pitch: u64::from(tag.pitch()),
            bits: u64::from(tag.bpp()),
        });
    }
}
