#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod free;
mod message;
mod notice;
mod permits;
mod pool;
mod post;
mod question;
mod receive;
mod receiver;
mod send;
mod slots;
mod sync;

pub use account::Share;
pub use message::{Back, Body, Message, Question, Range};
pub use notice::Notice;
pub use permits::Permits;
pub use pool::{Caller, Config, KNOWN_MAX, Permit, Pool, Received, Woken};
pub use question::Loan;
pub use receive::Called;
pub use receiver::{Holder, SEVERAL_MAX};

#[cfg(test)]
mod tests;
