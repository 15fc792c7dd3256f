#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answer;
pub mod calls;
pub mod coverage;
pub mod descriptors;
pub mod family;
pub mod images;
pub mod load;
pub mod machine;
pub mod map;
pub mod musubi;
pub mod process;
pub mod record;
pub mod server;
pub mod signals;
pub mod stack;
pub mod sync;
pub mod trace;
pub mod tree;
