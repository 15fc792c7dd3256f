//! Devices as sections: I/O ports reached by calls, interrupts waited for. Which program may is the section's ACL.

use crate::claim;
use crate::domain::Domain;
use crate::gate;
use crate::machine::machine;
use crate::processor::here;
use crate::seat;
use crate::section::{Ports, Section};
use crate::thread::Thread;
use crate::wait::Waiters;
use abi::refusal::Object;
use abi::sched::event;
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::{apic, ioapic, ports};
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;

/// Most bytes that one call writes to a port: the kernel's time is bounded.
const BYTES_MAX: u64 = 64 << 10;

/// Who serves an interrupt instead of the thread that waits for it.
#[derive(Clone, Copy)]
struct Handler {
    gate: u64,
    /// The device's section.
    section: u64,
}

#[derive(Default)]
struct Line {
    /// Called by the scheduler of the processor that the interrupt comes to.
    handler: Mutex<Option<Handler>>,
    /// An interrupt came that nobody has waited for yet.
    pending: AtomicBool,
    waiters: Waiters,
}

static LINES: spin::Once<[Line; apic::LINES as usize]> = spin::Once::new();

fn lines() -> &'static [Line; apic::LINES as usize] {
    LINES.call_once(|| core::array::from_fn(|_| Line::default()))
}

fn section(domain: &Domain, base: u64, right: Rights) -> Result<(Arc<Section>, Ports), Error> {
    let section = Section::named(base)?;
    if section.kind() != kind::PORTS {
        return Err(Error::NotSupported);
    }
    section.check(domain, right)?;
    let ports = section.ports.ok_or(Error::NotSupported)?;
    Ok((section, ports))
}

fn port(ports: &Ports, port: u64, width: u64) -> Result<u16, Error> {
    if !matches!(width, 1 | 2 | 4) || port.checked_add(width).is_none_or(|end| end > u64::from(ports.count)) {
        return Err(Error::BadArgument);
    }
    Ok(ports.first + port as u16)
}

pub fn read(domain: &Domain, base: u64, number: u64, width: u64) -> Result<u64, Error> {
    let (_, range) = section(domain, base, Rights::READ)?;
    Ok(u64::from(ports::read(port(&range, number, width)?, width)))
}

pub fn write(domain: &Domain, base: u64, number: u64, width: u64, value: u64) -> Result<u64, Error> {
    let (_, range) = section(domain, base, Rights::WRITE)?;
    ports::write(port(&range, number, width)?, width, value as u32);
    Ok(0)
}

pub fn write_bytes(domain: &Domain, base: u64, number: u64, from: u64, len: u64) -> Result<u64, Error> {
    let (_, range) = section(domain, base, Rights::WRITE)?;
    let port = port(&range, number, 1)?;
    let mut page = [0; 4096];
    let len = len.min(BYTES_MAX);
    let mut done = 0;
    while done < len {
        let part = (len - done).min(4096) as usize;
        claim::read(domain, from + done, &mut page[..part])?;
        ports::write_bytes(port, &page[..part]);
        done += part as u64;
    }
    Ok(done)
}

/// `irq_wait`.
pub fn wait(thread: &Arc<Thread>, domain: &Domain, base: u64, timeout: u64) {
    let isa = match section(domain, base, Rights::READ) {
        Ok((_, ports)) => ports.interrupt,
        Err(error) => return thread.answer(Err(error)),
    };
    let Some((line, isa)) = isa.and_then(|isa| Some((&lines()[usize::from(ioapic::line(isa)?)], isa))) else {
        return thread.answer(Err(Error::NotSupported));
    };
    // One that has a handler stays where that was bound.
    if line.handler.lock().is_none() {
        ioapic::set(isa, Some(machine().processors[here().index].apic));
    }
    if line.pending.swap(false, Ordering::SeqCst) {
        return thread.answer(Ok(0));
    }
    line.waiters.wait(thread, timeout, || line.pending.load(Ordering::SeqCst));
}

/// `irq_bind`.
pub fn bind(domain: &Domain, base: u64, gate: u64) -> Result<u64, Error> {
    let (_, ports) = section(domain, base, Rights::READ)?;
    let isa = ports.interrupt.ok_or(Error::NotSupported)?;
    if gate != 0 && !gate::find_gate(gate).is_some_and(|(text, ..)| core::ptr::eq(&*text, &*domain.text)) {
        return Err(Error::NotFound);
    }
    let vector = ioapic::set(isa, Some(machine().processors[here().index].apic)).ok_or(Error::NotSupported)?;
    let line = &lines()[usize::from(vector - apic::LINE)];
    {
        let mut handler = line.handler.lock();
        // An interrupt has one handler, as long as that lives.
        let other = handler.and_then(|h| gate::find_gate(h.gate)).is_some_and(|(text, ..)| !core::ptr::eq(&*text, &*domain.text));
        if other {
            return Err(Error::Busy);
        }
        *handler = (gate != 0).then_some(Handler { gate, section: base });
    }
    // As if one had come: so the scheduler gets to know the handler, and one that did come is not overlooked.
    interrupt(vector);
    Ok(u64::from(vector))
}

/// What is left of an interrupt is for who waits for it. The scheduler will not call the handler at `gate` again (0: it will).
pub fn give_back(domain: &Domain, vector: u64, gate: u64) -> Result<u64, Error> {
    if !machine().processors.iter().any(|p| p.office.is_of(&domain.text)) {
        return Err(domain.subject.refused(Object::System));
    }
    let line = vector.checked_sub(u64::from(apic::LINE)).and_then(|index| lines().get(index as usize)).ok_or(Error::NotFound)?;
    line.handler.lock().take_if(|handler| handler.gate == gate);
    line.wake();
    Ok(0)
}

/// A scheduler is gone: what it was told of goes to those that wait.
pub fn fall_back() {
    lines().iter().filter(|line| line.handler.lock().is_some()).for_each(Line::wake);
}

impl Line {
    fn wake(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }
}

/// An interrupt from a device.
pub fn interrupt(vector: u8) {
    let here = here();
    let line = &lines()[usize::from(vector - apic::LINE)];
    let handler = *line.handler.lock();
    if !handler.is_some_and(|handler| here.office.tell_interrupt(here, vector, handler.section, handler.gate)) {
        seat::note(event::INTERRUPT, u32::from(vector), 0, 0);
        line.wake();
    }
}
