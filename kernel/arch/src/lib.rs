#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "none", no_std)]
#![cfg(target_os = "none")]

extern crate alloc;

mod acpi_tables;
pub mod apic;
mod backtrace;
pub mod boot;
pub mod context;
pub mod cpu;
mod descriptors;
pub mod entry;
mod fatal;
pub mod fpu;
pub mod frames;
pub mod gate;
mod heap;
mod image;
pub mod ioapic;
pub mod light;
pub mod log_out;
pub mod machine_check;
pub mod only;
pub mod pass;
pub mod pci;
pub mod percpu;
pub mod ports;
pub mod post;
pub mod power;
pub mod shown;
pub mod smp;
pub mod symbols;
pub mod tables;
pub mod time;

pub use heap::Heap;
pub use heap::{
    for_promises as heap_for_promises, has_room as heap_has_room, is_plenty as heap_is_plenty, size as heap_size,
};
