//! The local interrupt controller: x2APIC where the processor has it, xAPIC registers in memory otherwise
//! (Intel SDM volume 3, chapter 11).

use crate::cpu::{has, rdmsr, wrmsr};
use crate::image;
use abi::info::feature;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Interrupt vectors begin here; up to 64 are used.
pub const FIRST_VECTOR: u8 = 0x20;
/// The one-shot timer of the processor.
pub const TIMER: u8 = 0x20;
/// ISA and I/O APIC interrupts: this plus the line.
pub const LINE: u8 = 0x30;
pub const LINES: u8 = 24;
/// Another processor asks this one to look at its queue.
pub const RESCHEDULE: u8 = 0x50;
/// Another processor changed something that this one may have cached.
pub const SHOOTDOWN: u8 = 0x51;
const SPURIOUS: u8 = 0x5f;

const BASE_MSR: u32 = 0x1b;
const X2APIC: u32 = 0x800;

mod register {
    pub const ID: u32 = 0x02;
    pub const TPR: u32 = 0x08;
    pub const EOI: u32 = 0x0b;
    pub const SVR: u32 = 0x0f;
    pub const ICR: u32 = 0x30;
    pub const ICR_HIGH: u32 = 0x31;
    pub const LVT_TIMER: u32 = 0x32;
    pub const INITIAL: u32 = 0x38;
    pub const CURRENT: u32 = 0x39;
    pub const DIVIDE: u32 = 0x3e;
}

static MEMORY: AtomicUsize = AtomicUsize::new(0);

fn read(register: u32) -> u32 {
    if has(feature::X2APIC) {
        // SAFETY: an x2APIC register.
        return unsafe { rdmsr(X2APIC + register) } as u32;
    }
    let at = MEMORY.load(Ordering::Relaxed) + (register as usize) * 16;
    // SAFETY: the mapped xAPIC page.
    unsafe { (at as *const u32).read_volatile() }
}

fn write(register: u32, value: u32) {
    if has(feature::X2APIC) {
        // SAFETY: an x2APIC register.
        unsafe { wrmsr(X2APIC + register, u64::from(value)) };
    } else {
        let at = MEMORY.load(Ordering::Relaxed) + (register as usize) * 16;
        // SAFETY: the mapped xAPIC page.
        unsafe { (at as *mut u32).write_volatile(value) };
    }
}

/// Turns this processor's controller on.
pub(crate) fn set_up() {
    // SAFETY: the register exists on every x86-64 processor.
    let base = unsafe { rdmsr(BASE_MSR) };
    if has(feature::X2APIC) {
        // SAFETY: bits 10 and 11: x2APIC mode.
        unsafe { wrmsr(BASE_MSR, base | 3 << 10) };
    } else {
        // SAFETY: bit 11: enabled.
        unsafe { wrmsr(BASE_MSR, base | 1 << 11) };
        if MEMORY.load(Ordering::Relaxed) == 0 {
            MEMORY.store(image::map_device(base & 0xf_ffff_f000) as usize, Ordering::Relaxed);
        }
    }
    write(register::TPR, 0);
    write(register::SVR, 0x100 | u32::from(SPURIOUS));
    write(register::DIVIDE, 3);
    write(register::LVT_TIMER, u32::from(TIMER));
}

/// This processor's id.
pub fn id() -> u32 {
    let id = read(register::ID);
    if has(feature::X2APIC) { id } else { id >> 24 }
}

/// Acknowledges an interrupt.
#[inline]
pub fn acknowledge(vector: u8) {
    if vector != SPURIOUS {
        write(register::EOI, 0);
    }
}

fn send(to: u32, command: u32) {
    if has(feature::X2APIC) {
        // SAFETY: the ICR.
        unsafe { wrmsr(X2APIC + register::ICR, u64::from(to) << 32 | u64::from(command)) };
        return;
    }
    while read(register::ICR) & 1 << 12 != 0 {
        core::hint::spin_loop();
    }
    write(register::ICR_HIGH, to << 24);
    write(register::ICR, command);
}

/// Sends an interrupt to another processor.
pub fn interrupt(to: u32, vector: u8) {
    send(to, 1 << 14 | u32::from(vector));
}

pub(crate) fn send_init(to: u32) {
    send(to, 0xc500);
    send(to, 0x8500);
}

pub(crate) fn send_start(to: u32, page: u8) {
    send(to, 0x4600 | u32::from(page));
}

/// Starts the timer for `ticks` of its own clock; 0 stops it.
pub(crate) fn start_timer(ticks: u32) {
    write(register::INITIAL, ticks);
}

pub(crate) fn timer_left() -> u32 {
    read(register::CURRENT)
}
