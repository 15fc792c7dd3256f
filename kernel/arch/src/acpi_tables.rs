//! What the firmware's tables say about processors and interrupt wiring (read by the `acpi` crate).

use crate::image::direct;
use crate::ports;
use acpi::sdt::madt::{Madt, MadtEntry};
use acpi::{AcpiTables, Handle, Handler, PhysicalMapping};
use alloc::vec::Vec;
use core::ptr::NonNull;
use pci_types::PciAddress;

/// The part of the tables that the kernel uses.
#[derive(Default)]
pub(crate) struct Machine {
    pub processors: Vec<u32>,
    /// I/O APICs: physical address, first interrupt.
    pub io_apics: Vec<(u64, u32)>,
    /// ISA interrupt, global interrupt, flags.
    pub overrides: Vec<(u8, u32, u16)>,
}

/// Reads the tables at `rsdp` (0: looks where BIOSes put them).
pub(crate) fn read(rsdp: u64) -> Machine {
    let mut machine = Machine::default();
    let rsdp = if rsdp != 0 { rsdp } else { search() };
    // SAFETY: the address was given by the boot loader or has the signature.
    if let Ok(tables) = unsafe { AcpiTables::from_rsdp(Firmware, rsdp as usize) } {
        if let Some(madt) = tables.find_table::<Madt>() {
            for entry in madt.get().entries() {
                note(&mut machine, entry);
            }
        }
    }
    machine
}

fn note(machine: &mut Machine, entry: MadtEntry) {
    match entry {
        MadtEntry::LocalApic(e) if e.flags & 1 != 0 => machine.processors.push(u32::from(e.apic_id)),
        MadtEntry::LocalX2Apic(e) if e.flags & 1 != 0 => machine.processors.push(e.x2apic_id),
        MadtEntry::IoApic(e) => machine.io_apics.push((u64::from(e.io_apic_address), e.global_system_interrupt_base)),
        MadtEntry::InterruptSourceOverride(e) => machine.overrides.push((e.irq, e.global_system_interrupt, e.flags)),
        _ => {}
    }
}

fn search() -> u64 {
    (0xe_0000..0x10_0000)
        .step_by(16)
        // SAFETY: the BIOS area is always mapped.
        .find(|&at| unsafe { core::slice::from_raw_parts(direct(at), 8) } == b"RSD PTR ")
        .unwrap_or(0)
}

/// Access for the crate: tables are in memory that the direct map covers.
#[derive(Clone)]
struct Firmware;

impl Handler for Firmware {
    /// # Safety
    /// The table must lie there.
    unsafe fn map_physical_region<T>(&self, address: usize, size: usize) -> PhysicalMapping<Self, T> {
        PhysicalMapping {
            physical_start: address,
            virtual_start: NonNull::new(direct(address as u64).cast()).expect("not null"),
            region_length: size,
            mapped_length: size,
            handler: self.clone(),
        }
    }
    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
    // What follows serves AML, which the kernel does not run.
    fn read_u8(&self, _: usize) -> u8 {
        0
    }
    fn read_u16(&self, _: usize) -> u16 {
        0
    }
    fn read_u32(&self, _: usize) -> u32 {
        0
    }
    fn read_u64(&self, _: usize) -> u64 {
        0
    }
    fn write_u8(&self, _: usize, _: u8) {}
    fn write_u16(&self, _: usize, _: u16) {}
    fn write_u32(&self, _: usize, _: u32) {}
    fn write_u64(&self, _: usize, _: u64) {}
    fn read_io_u8(&self, port: u16) -> u8 {
        ports::read(port, 1) as u8
    }
    fn read_io_u16(&self, port: u16) -> u16 {
        ports::read(port, 2) as u16
    }
    fn read_io_u32(&self, port: u16) -> u32 {
        ports::read(port, 4)
    }
    fn write_io_u8(&self, _: u16, _: u8) {}
    fn write_io_u16(&self, _: u16, _: u16) {}
    fn write_io_u32(&self, _: u16, _: u32) {}
    fn read_pci_u8(&self, _: PciAddress, _: u16) -> u8 {
        0
    }
    fn read_pci_u16(&self, _: PciAddress, _: u16) -> u16 {
        0
    }
    fn read_pci_u32(&self, _: PciAddress, _: u16) -> u32 {
        0
    }
    fn write_pci_u8(&self, _: PciAddress, _: u16, _: u8) {}
    fn write_pci_u16(&self, _: PciAddress, _: u16, _: u16) {}
    fn write_pci_u32(&self, _: PciAddress, _: u16, _: u32) {}
    fn nanos_since_boot(&self) -> u64 {
        0
    }
    fn stall(&self, _: u64) {}
    fn sleep(&self, _: u64) {}
    fn create_mutex(&self) -> Handle {
        Handle(0)
    }
    fn acquire(&self, _: Handle, _: u16) -> Result<(), acpi::aml::AmlError> {
        Ok(())
    }
    fn release(&self, _: Handle) {}
}
