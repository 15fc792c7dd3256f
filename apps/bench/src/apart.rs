//! A program with as many bindings as it may have, which loses its place in the view that it shares with what it calls: all that leads into it and out of
//! it goes by the kernel from then on (SSS-24). And it calls on its caller's stack, which holds for all that leads to it (CUBIX-30).

use crate::handlers::{Done, EVERYBODY, say};
use crate::worst::{MOST, strangers};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::Error;
use musubi::abi::gate::{BINDINGS_MAX, flag};
use musubi::command::Command;
use musubi::rt::gate::{Caller, Skeleton, Values};
use musubi::rt::sync::{self, Once};
use musubi::rt::{Bound, Gates, section, thread};

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

/// Calls itself on its caller's stack, one in the other: so deep.
struct Deeper;

static DEEPER: Once<Bound> = Once::new();
const DEEP: u64 = 100;
/// It is as deep as it goes.
static IS_DOWN: AtomicU32 = AtomicU32::new(0);

impl Skeleton for Deeper {
    fn dispatch(&self, _: &Caller, _: u64, &[left, stays, ..]: &[u64; 6]) -> Values {
        if left > 0 {
            return Values::of(deeper(left - 1, stays));
        }
        if stays > 0 {
            IS_DOWN.store(1, Ordering::SeqCst);
            sync::wake(&IS_DOWN, 1);
            thread::park();
        }
        Values::of(Ok(0))
    }
}

fn deeper(left: u64, stays: u64) -> Result<u64, Error> {
    let bound = DEEPER.get().ok_or(Error::NotFound)?;
    Ok(bound.call(0, [left, stays, 0, 0, 0, 0])?[0])
}

/// By calls that come back, and on a thread that ends with all of them under way.
fn on_own_stack() -> Result<(), Error> {
    let gates = Gates::export_with(Deeper, 1, flag::CALLER_STACK)?;
    DEEPER.get_or_try(|| Bound::bind_on_own_stack(gates.address(), 0))?;
    deeper(DEEP, 0)?;
    let _ends_with_all = thread::spawn(|| _ = deeper(DEEP, 1), 0)?;
    while IS_DOWN.load(Ordering::SeqCst) == 0 {
        sync::wait(&IS_DOWN, 0, u64::MAX).or_else(|error| if error == Error::Changed { Ok(()) } else { Err(error) })?;
    }
    Ok(())
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
        on_own_stack()?;
        strangers(text, MOST)?;
        called()
    };
    does().inspect_err(|error| musubi::eprintln!("many bindings: {error}")).is_err().into()
}
