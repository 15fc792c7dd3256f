//! The light calls (SSS-39, SSS-40). Each has one function, which serves it by the light entry (`arch/src/light.S`) and, where something
//! else has to be seen to first, by the full one. None has a [`Saved`](crate::saved::Saved) thread: there is nothing that they could wait with.

use crate::call;
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::here;
use crate::section::{Section, valid};
use crate::thread::Thread;
use crate::watch;
use abi::Error;
use abi::calls::{Call, LIGHT, LIGHT_COUNT};
use arch::light::{Answer, Handler, Table};

/// A call's name, to be compared with the table of all calls, and what the light entry runs.
type Row = (&'static str, Handler);

/// A handler for a call that wants to know who calls.
macro_rules! of_caller {
    ($variant:ident ( $($argument:ident),* )) => {{
        extern "C" fn handler(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> Answer {
            let mut next = [a, b, c, d, e, f].into_iter();
            let call = Call::$variant { $($argument: next.next().unwrap_or(0)),* };
            let thread = here().current();
            let domain = {
                let inner = &mut *thread.inner.lock();
                inner.sync();
                inner.domain.clone()
            };
            answer(serve(&thread, &domain, call))
        }
        handler
    }};
}

const ROWS: [Row; LIGHT_COUNT] = [
    ("get_taskid_light", get_taskid),
    ("clock", clock),
    ("may", of_caller!(May(address, len, rights, who))),
    ("may_pass", of_caller!(MayPass(a, a_len, b, b_len, c, c_len))),
    ("section_owner", section_owner),
    ("running", running),
    ("page_invalidate", of_caller!(PageInvalidate(address, len))),
    ("page_validate", of_caller!(PageValidate(address, len))),
];

/// What `light.S` looks in.
pub static TABLE: Table = {
    let mut table: Table = [get_taskid; LIGHT_COUNT];
    let mut i = 0;
    while i < LIGHT_COUNT {
        assert!(abi::calls::number(ROWS[i].0) == LIGHT + i as u64, "the order is that of the numbers");
        table[i] = ROWS[i].1;
        i += 1;
    }
    table
};

fn answer(result: Result<u64, Error>) -> Answer {
    match result {
        Ok(value) => Answer { status: 0, value },
        Err(error) => Answer { status: error.word(), value: 0 },
    }
}

/// Serves a light call of this thread's.
///
/// # Errors
/// `NoSuchCall`: it is none of them; what it refuses with.
pub fn serve(thread: &Thread, d: &Domain, call: Call) -> Result<u64, Error> {
    match call {
        Call::GetTaskidLight {} => Ok(thread.task.number),
        Call::Clock { which } => time(which),
        Call::May { address, len, rights, who } => call::may(thread, d, address, len, rights, who),
        Call::MayPass { a, a_len, b, b_len, c, c_len } => call::may_pass(thread, d, [(a, a_len), (b, b_len), (c, c_len)]),
        Call::SectionOwner { base } => owner(base),
        Call::Running {} => watch::section(),
        Call::PageInvalidate { address, len } => valid::set(d, address, len, false),
        Call::PageValidate { address, len } => valid::set(d, address, len, true),
        _ => Err(Error::NoSuchCall),
    }
}

extern "C" fn get_taskid(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    Answer { status: 0, value: arch::light::task() }
}

extern "C" fn clock(which: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(time(which))
}

extern "C" fn section_owner(base: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(owner(base))
}

extern "C" fn running(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(watch::section())
}

fn time(which: u64) -> Result<u64, Error> {
    match which {
        0 => Ok(arch::time::now()),
        1 => Ok(machine().boot_time * 1_000_000_000 + arch::time::now()),
        _ => Err(Error::BadArgument),
    }
}

fn owner(base: u64) -> Result<u64, Error> {
    Section::named(base).map(|section| section.state.lock().owner.number)
}
