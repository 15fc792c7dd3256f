#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

pub mod boot;
pub mod calls;
pub mod error;
pub mod frame;
pub mod gate;
pub mod info;
pub mod layout;
pub mod mbcf;
pub mod pager;
pub mod post;
pub mod refusal;
pub mod rights;
pub mod sched;
pub mod section;
pub mod start;
pub mod task;
pub mod trace;

pub use error::Error;
pub use rights::{AclEntry, Rights};
