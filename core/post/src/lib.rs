#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod alone;
mod face;
mod free;
mod further;
mod lent;
mod limit;
mod lock;
mod message;
mod notice;
mod part;
mod pool;
mod post;
mod question;
mod receive;
mod receiver;
mod send;
mod shown;
mod slots;
mod sync;

pub use account::Share;
pub use face::Known;
pub use limit::Rung;
pub use message::{Back, Body, Hands, Letter, Lies, Message, Question, REGISTERS, Range, Sender, Sent};
pub use notice::Notice;
pub use part::{Reserve, Whose};
pub use pool::{By, Caller, Config, KNOWN_MAX, Permit, Pool, Received, Woken};
pub use question::Loan;
pub use receive::{Called, Step};
pub use receiver::{Holder, SEVERAL_MAX};
pub use shown::{SHOWN, Shown};

#[cfg(test)]
mod tests;
