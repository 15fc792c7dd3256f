//! A program with as many bindings as it may have, which loses its place in the view that it shares with what it calls: all that leads into it and out of
//! it goes by the kernel from then on (SSS-24).

use crate::handlers::{Done, EVERYBODY, say};
use crate::worst::{MOST, strangers};
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::gate::BINDINGS_MAX;
use musubi::command::Command;
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::{Bound, Gates, section};

/// Some that the program has already.
const BINDINGS: u64 = BINDINGS_MAX - 96;

pub fn programs() -> Done {
    let refused = |_| ("a program with many bindings", Error::Refused);
    let bound = Command::new(b"bin/bench").args(["bench", "bound"]).spawn().map_err(refused)?;
    match say("a program with many bindings", bound.wait())?.code {
        0 => Ok(()),
        _ => Err(("a program with many bindings", Error::Refused)),
    }
}

struct Answers;

impl Skeleton for Answers {
    fn dispatch(&self, _: &Caller, _: u64, words: &[u64; 6]) -> Values {
        Values::of(Ok(words[0]))
    }
}

/// The program. With a list as long as may be it lives apart.
pub fn bound() -> i32 {
    let does = || {
        let text = musubi::start().text();
        section::grant(text, &EVERYBODY)?;
        let gates = Gates::export(Answers, 1)?;
        gates.admit(&EVERYBODY)?;
        let all: Vec<Bound> = (0..BINDINGS).map(|_| Bound::bind(gates.address(), 0)).collect::<Result<_, _>>()?;
        if all.iter().any(|one| one.binding().why == musubi::abi::gate::why::NO_ROOM) {
            return Err(Error::TooBig);
        }
        let called = || all.iter().try_for_each(|one| one.call(0, [1; 6]).map(drop));
        called()?;
        strangers(text, MOST)?;
        called()
    };
    does().inspect_err(|error| musubi::eprintln!("many bindings: {error}")).is_err().into()
}
