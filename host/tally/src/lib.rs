#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod copies;
mod held;
mod instruction;
mod locks;
mod record;
mod recorder;
mod touched;

pub use copies::Copies;
pub use held::Held;
pub use instruction::{Costly, Mark};
pub use locks::{Kind, Locks};
pub use record::{Case, Counts, KERNEL, REGION_BITS, Round, STEPS_MAX, WAYS, read};
pub use recorder::Recorder;
pub use touched::Touched;
