//! The ways in which a peer is called. What becomes of callers and callees must not depend on them, nor on whether the kernel has seen the call.

use super::{op, six};
use crate::memory::{await_word, store};
use crate::report::{Outcome, doing};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::gate::grade;
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, plain_call, task, thread};
use musubi::{Error, eprintln};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A thread's first bound call, which the kernel makes with all that belongs to it.
    First,
    /// One of many: by the gate, which the kernel sees nothing of; without keys by the kernel's short way.
    Again,
    /// One of many that the kernel is to make, also where there are keys.
    ByKernel,
    /// One of many plain calls.
    Plain,
    /// On the caller's own stack.
    OnOwnStack,
}

pub const WAYS: [Way; 5] = [Way::First, Way::Again, Way::ByKernel, Way::Plain, Way::OnOwnStack];

/// Calls that are made for one that is not the first.
const BEFORE: u64 = 4;
/// Calls that are looked at together, and how often they are, until one goes by the gate.
const TOGETHER: u64 = 16;
const LOOKS: u64 = 1000;

/// A peer, to be called in one way.
pub struct By {
    pub way: Way,
    gate: u64,
    bound: Option<Bound>,
}

impl By {
    pub fn to(gate: u64, way: Way) -> Result<By, String> {
        let bound = match way {
            Way::First | Way::Again => Some(Bound::bind(gate, 0)),
            Way::ByKernel => Some(Bound::bind_as(gate, 0, grade::EPC_S)),
            Way::Plain => None,
            Way::OnOwnStack => {
                let there = plain_call(gate, six(op::ON_CALLERS_STACK, &[])).and_then(result_of);
                Some(Bound::bind_on_own_stack(there.map_err(doing("a gate for callers' stacks"))?, 0))
            }
        };
        Ok(By { way, gate, bound: bound.transpose().map_err(doing("binding"))? })
    }

    /// In each way.
    pub fn all(gate: u64) -> Result<Vec<By>, String> {
        WAYS.into_iter().map(|way| By::to(gate, way)).collect()
    }

    pub fn call(&self, what: u64, words: &[u64]) -> Result<u64, Error> {
        let words = six(what, words);
        match &self.bound {
            Some(bound) => bound.call(0, words),
            None => plain_call(self.gate, words),
        }
        .and_then(result_of)
    }

    /// Until a call by this thread goes as it goes from then on.
    pub fn prepare(&self) -> Outcome {
        let call = || self.call(op::ADD, &[0]).map(drop).map_err(doing("a call before"));
        if self.way == Way::First {
            return Ok(());
        }
        (0..BEFORE).try_for_each(|_| call())?;
        let is_by_gate =
            self.way == Way::Again && self.bound.as_ref().is_some_and(|b| b.binding().grade == grade::EPC_H);
        if !is_by_gate {
            return Ok(());
        }
        let seen = || task::processors().map(|p| p.epc).sum::<u64>();
        for _ in 0..LOOKS {
            let before = seen();
            (0..TOGETHER).try_for_each(|_| call())?;
            if seen() - before < TOGETHER {
                return Ok(());
            }
        }
        Err(format!("{:?}: the kernel makes all calls", self.way))
    }

    /// Its binding ends.
    pub fn end(self) -> Outcome {
        self.bound.map_or(Ok(()), Bound::unbind).map_err(doing("unbinding"))
    }
}

/// [`super::in_call`] in some way, when the thread has come so far that its calls go so.
pub fn in_call_by(by: &Arc<By>, what: u64, flag: u64, more: u64) -> Result<(thread::Thread, Arc<AtomicU64>), String> {
    let by = by.clone();
    inside(flag, move || {
        if let Err(why) = by.prepare() {
            eprintln!("{why}");
            task::exit(1);
        }
        by.call(what, &[flag, more])
    })
}

/// The same with a call of any kind.
pub fn inside(
    flag: u64,
    call: impl FnOnce() -> Result<u64, Error> + Send + 'static,
) -> Result<(thread::Thread, Arc<AtomicU64>), String> {
    let outcome = Arc::new(AtomicU64::new(u64::MAX));
    let told = outcome.clone();
    store(flag, 0);
    let body = move || {
        let result = call();
        told.store(result.map_or_else(Error::word, |_| 0), Ordering::SeqCst);
    };
    let thread = thread::spawn(body, 0).map_err(doing("thread"))?;
    await_word(flag);
    Ok((thread, outcome))
}
