#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod called;
mod class;
mod crowd;
mod exclusion;
mod home;
mod life;
mod neglect;
mod outbox;
mod pieces;
mod place;
mod put_by;
mod ring;
mod roll;
mod row;
mod seat;
mod spared;
mod timers;
mod watch;
mod wish;

pub use called::{CALLING, Called};
pub use class::{Class, InUse, Placement};
pub use crowd::Crowd;
pub use exclusion::Exclusion;
pub use home::Home;
pub use life::{Life, Phase, Refused};
pub use neglect::{Look, NEGLECT_NS, Neglect, REST_NS, Rest, Seen};
pub use outbox::{Nonsense, Outbox, Weight};
pub use pieces::Pieces;
pub use place::{helper, place, successor};
pub use put_by::PutBy;
pub use ring::Ring;
pub use roll::Roll;
pub use row::{IN_A_ROW, Row};
pub use seat::{BEAT_NS, BEATS, Beat, Counts, ERRAND_BEATS, Last, Reason, Seat};
pub use spared::Spared;
pub use timers::{Key, Timers};
pub use watch::{NSYS_BEATS, Watch};
pub use wish::{Shelf, WISHES, Wish};

/// How long a thread runs before the next one's turn, in nanoseconds.
pub const QUANTUM_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "tests/machine.rs"]
mod tests_machine;
#[cfg(test)]
#[path = "tests/race.rs"]
mod tests_race;
