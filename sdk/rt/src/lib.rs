#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(target_os = "musubi", feature(allow_internal_unsafe))]
#![cfg_attr(
    target_os = "musubi",
    expect(internal_features, reason = "lets `program!` export one symbol in crates that forbid unsafe")
)]

extern crate alloc;
#[cfg(not(target_os = "musubi"))]
extern crate std;

pub use abi;

/// What every program is linked with: named here so that cargo knows that a change of it changes programs.
const _: &str = include_str!("../program.ld");

pub mod answers;
mod arguments;
pub mod bound;
mod elsewhere;
mod entry;
pub mod fault;
pub mod gate;
pub mod guard;
#[cfg(target_os = "musubi")]
mod heap;
#[cfg(not(target_os = "musubi"))]
mod host;
pub mod info;
pub mod interrupt;
pub mod itc;
pub mod later;
pub mod lend;
pub mod line;
mod local;
pub mod mark;
pub mod mbcf;
#[cfg(target_arch = "x86_64")]
mod memory;
pub mod pager;
mod panic;
mod ports;
pub mod post;
pub mod probe;
pub mod random;
pub mod request;
pub mod sched;
pub mod section;
pub mod serve;
pub mod service;
pub mod spare;
mod start;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;
pub mod trace;
mod trap;

pub use abi::{AclEntry, Error, Rights};
pub use answers::Answers;
pub use bound::Bound;
pub use gate::{Caller, Gates};
pub use lend::Copied;
pub use local::Local;
pub use panic::set_panic_output;
pub use section::Section;
pub use service::Service;
pub use start::{Start, start};
pub use sync::{Barrier, Cancel, Condition, Mutex, Once};
pub use trap::{Trap, is_own_code, own_text, plain_call};

#[doc(hidden)]
pub mod hidden {
    pub use crate::entry::run;
    #[cfg(not(target_os = "musubi"))]
    pub use crate::entry::run_on_host;
}
