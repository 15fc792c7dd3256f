#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod accel;
mod exec;
pub mod guard;
mod image;
mod load;
mod options;
mod outcome;
mod peer;
mod put;
mod qemu;
mod run;
mod rundir;
mod stream;

pub use accel::{Accel, Wish};
pub use exec::{Exec, Finished, Sink};
pub use image::{check_place as check_image_place, make as make_image};
pub use load::{Load, Parts};
pub use options::{Options, TURN_US, Via};
pub use outcome::Outcome;
pub use peer::Peer;
pub use put::Put;
pub use qemu::{Emulator, cpu};
pub use run::run;
