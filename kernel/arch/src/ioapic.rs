//! I/O interrupt controllers: which line reaches which vector (ICH9 datasheet, 13.5).

use crate::acpi_tables::Machine;
use crate::{apic, image, ports};
use alloc::vec::Vec;
use spin::Mutex;

struct Controller {
    registers: usize,
    first: u32,
    lines: u32,
}

struct Wiring {
    controllers: Vec<Controller>,
    overrides: Vec<(u8, u32, u16)>,
}

static WIRING: Mutex<Wiring> = Mutex::new(Wiring { controllers: Vec::new(), overrides: Vec::new() });

impl Controller {
    fn read(&self, register: u32) -> u32 {
        // SAFETY: the mapped page of an I/O APIC; index and data registers.
        unsafe {
            (self.registers as *mut u32).write_volatile(register);
            ((self.registers + 0x10) as *const u32).read_volatile()
        }
    }
    fn write(&self, register: u32, value: u32) {
        // SAFETY: as above.
        unsafe {
            (self.registers as *mut u32).write_volatile(register);
            ((self.registers + 0x10) as *mut u32).write_volatile(value);
        }
    }
}

pub(crate) fn set_up(machine: &Machine) {
    // The old controllers: moved away from the exceptions' vectors and masked.
    for (port, value) in [
        (0x20, 0x11),
        (0xa0, 0x11),
        (0x21, 0xe0),
        (0xa1, 0xe8),
        (0x21, 4),
        (0xa1, 2),
        (0x21, 1),
        (0xa1, 1),
        (0x21, 0xff),
        (0xa1, 0xff),
    ] {
        ports::write(port, 1, value);
    }
    let mut wiring = WIRING.lock();
    wiring.overrides = machine.overrides.clone();
    for &(address, first) in &machine.io_apics {
        let mut controller = Controller { registers: image::map_device(address) as usize, first, lines: 0 };
        controller.lines = (controller.read(1) >> 16 & 0xff) + 1;
        for line in 0..controller.lines {
            controller.write(0x10 + 2 * line, 1 << 16);
        }
        wiring.controllers.push(controller);
    }
}

fn route(isa: u8) -> (u32, u16) {
    let wiring = WIRING.lock();
    wiring.overrides.iter().find(|o| o.0 == isa).map_or((u32::from(isa), 0), |o| (o.1, o.2))
}

/// The line of an ISA interrupt, counted from that of [`apic::LINE`].
pub fn line(isa: u8) -> Option<u8> {
    u8::try_from(route(isa).0).ok().filter(|&line| line < apic::LINES)
}

/// Lets an ISA interrupt through to the processor with id `to`, or masks it (`None`). Returns its vector.
pub fn set(isa: u8, to: Option<u32>) -> Option<u8> {
    let (line, flags) = route(isa);
    let wiring = WIRING.lock();
    let controller = wiring.controllers.iter().find(|c| (c.first..c.first + c.lines).contains(&line))?;
    let vector = apic::LINE + u8::try_from(line).ok().filter(|&l| l < apic::LINES)?;
    let low_active = u32::from(flags & 3 == 3) << 13;
    let level = u32::from(flags >> 2 & 3 == 3) << 15;
    let at = 0x10 + 2 * (line - controller.first);
    match to {
        Some(to) => {
            controller.write(at + 1, to << 24);
            controller.write(at, u32::from(vector) | low_active | level);
        }
        None => controller.write(at, 1 << 16),
    }
    Some(vector)
}
