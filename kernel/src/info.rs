//! What the kernel tells about itself (the info section will replace these calls).

use crate::machine::machine;
use abi::info::{Memory, Processor};
use core::sync::atomic::Ordering;

pub fn processor(index: u64) -> Option<Processor> {
    let p = machine().processors.get(usize::try_from(index).ok()?).filter(|p| p.online.load(Ordering::Relaxed))?;
    let c = &p.counters;
    let short = arch::percpu::counts(p.index);
    let get = |counter: &core::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    Some(Processor {
        index,
        apic: u64::from(p.apic),
        thread: p.local.lock().current.as_ref().map_or(0, |t| t.number),
        entries: get(&c.entries) + short.crossings + short.passes + short.stays,
        switches: get(&c.switches) + short.passes,
        view_switches: short.views,
        faults: get(&c.faults),
        interrupts: get(&c.interrupts),
        shootdowns: get(&c.shootdowns),
        idle: get(&c.idle_ns),
        features: arch::cpu::features(),
        epc: get(&c.epc) + short.crossings / 2,
        tlb_flushes: get(&c.tlb_flushes),
        copied_bytes: get(&c.copied_bytes),
        copies: get(&c.copies),
        events: get(&c.events),
        stops: core::array::from_fn(|n| get(&c.stops[n])),
    })
}

pub fn processors() -> u64 {
    machine().processors.iter().filter(|p| p.online.load(Ordering::Relaxed)).count() as u64
}

pub fn memory() -> Memory {
    let (free, total) = arch::frames::count();
    let (heap, used) = arch::heap_usage();
    let machine = machine();
    Memory {
        total: total * 4096,
        free: free * 4096,
        kernel_heap: heap,
        kernel_heap_used: used,
        views: machine.view_frames.load(Ordering::Relaxed) * 4096,
        sections: machine.section_count.load(Ordering::Relaxed),
        tasks: machine.tasks.len(),
        threads: machine.threads.len(),
    }
}
