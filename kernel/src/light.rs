//! The light calls (SSS-39, SSS-40). Each has one function, which serves it by the light entry (`arch/src/light.S`) and, where something
//! else has to be seen to first, by the full one. None has a [`Saved`](crate::saved::Saved) thread: there is nothing that they could wait with.

use crate::call;
use crate::claim::passed::{self, Ranges};
use crate::device;
use crate::domain::Domain;
use crate::gate::lent;
use crate::machine::machine;
use crate::mbcf::{self, queue, signal, structure};
use crate::pager;
use crate::processor::{Processor, here};
use crate::section::{Section, large, real, supply};
use crate::section::valid::{self, Again};
use crate::sched::{Made, Step, go_on_from};
use crate::thread::Thread;
use crate::watch;
use abi::Error;
use abi::calls::{Call, LIGHT, LIGHT_COUNT, number};
use alloc::sync::Arc;
use arch::light::{Answer, Handler, Table};

/// A call's name, to be compared with the table of all calls, and what the light entry runs.
type Row = (&'static str, Handler);

/// A handler for a call that wants to know who calls.
macro_rules! of_caller {
    ($variant:ident ( $($argument:ident),* )) => {{
        extern "C" fn handler(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> Answer {
            let mut next = [a, b, c, d, e, f].into_iter();
            let call = Call::$variant { $($argument: next.next().unwrap_or(0)),* };
            let (thread, domain) = caller();
            answer(serve(&thread, &domain, call))
        }
        handler
    }};
}
pub(crate) use of_caller;

/// Such a row, of a call that is made again if it misses a page of a program's memory: that page's pager is asked first.
macro_rules! that_asks {
    ($name:literal, $variant:ident ( $($argument:ident),* )) => {{
        extern "C" fn handler(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> Answer {
            let arguments = [a, b, c, d, e, f];
            let mut next = arguments.into_iter();
            let call = Call::$variant { $($argument: next.next().unwrap_or(0)),* };
            let (thread, domain) = caller();
            // What somebody else has missed here is not this call's.
            let _ = pager::noted();
            let result = serve(&thread, &domain, call);
            if result == Err(Error::Absent)
                && let Some(absent) = pager::noted()
            {
                leave_undone(const { number($name) }, arguments, Some(absent));
            }
            answer(result)
        }
        ($name, handler)
    }};
}

/// A row of a call that is made again as long as somebody does something with all of a section, which takes as long as that is large.
macro_rules! that_comes_back {
    ($name:literal, $variant:ident ( $($argument:ident),* )) => {{
        extern "C" fn handler(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> Answer {
            let mut next = [a, b, c, d, e, f].into_iter();
            $(let $argument = next.next().unwrap_or(0);)*
            match of_pages(&callers_domain(), Call::$variant { $($argument),* }) {
                Err(Error::Changed) => comes_back(const { number($name) }, &[$($argument),*]),
                result => answer(result),
            }
        }
        ($name, handler)
    }};
}

#[cold]
#[inline(never)]
fn comes_back(number: u64, given: &[u64]) -> Answer {
    let mut arguments = [0; 6];
    arguments[..given.len()].copy_from_slice(given);
    leave_undone(number, arguments, None);
    answer(Err(Error::Changed))
}

/// The running thread, and the domain that it is in.
#[inline(always)]
pub fn caller() -> (Arc<Thread>, Arc<Domain>) {
    let local = here().local.hold();
    let thread = local.current.as_ref().expect("user code runs on a thread");
    let inner = &mut *thread.inner.lock();
    inner.sync();
    (thread.clone(), inner.domain.clone())
}

/// The domain alone, for a call that is no other affair of the thread's.
#[inline(always)]
fn callers_domain() -> Arc<Domain> {
    let local = here().local.hold();
    let inner = &mut *local.current.as_ref().expect("user code runs on a thread").inner.lock();
    inner.sync();
    inner.domain.clone()
}

const ROWS: [Row; LIGHT_COUNT] = [
    ("get_taskid_light", get_taskid),
    ("clock", clock),
    ("may", may),
    ("may_pass", may_pass),
    ("section_owner", section_owner),
    ("running", running),
    ("page_invalidate", page_invalidate),
    ("page_validate", page_validate),
    that_asks!("fifo_init", FifoInit(queue, start, end, flags)),
    that_asks!("fifo_read", FifoRead(queue, to, max)),
    ("structure_end", of_caller!(StructureEnd(address))),
    that_asks!("signal_init", SignalInit(structure, setup)),
    that_asks!("signal_take", SignalTake(structure, to, max)),
    that_comes_back!("page_alloc", PageAlloc(address, len, attributes)),
    that_comes_back!("page_free", PageFree(address, len)),
    ("page_supply", of_caller!(PageSupply(address, from, flags))),
    ("page_take", of_caller!(PageTake(address, to))),
    ("section_hold", of_caller!(SectionHold(base, len, owner))),
    ("port_read", of_caller!(PortRead(section, port, width))),
    ("port_write", of_caller!(PortWrite(section, port, width, value))),
];

/// What `light.S` looks in.
pub static TABLE: Table = {
    let mut table: Table = [get_taskid; LIGHT_COUNT];
    let mut i = 0;
    while i < LIGHT_COUNT {
        assert!(number(ROWS[i].0) == LIGHT + i as u64, "the order is that of the numbers");
        table[i] = ROWS[i].1;
        i += 1;
    }
    table
};

/// A light call that is to be made again, as it was made: it has changed nothing, since it has missed a page, or goes on later.
pub struct Undone {
    number: u64,
    arguments: [u64; 6],
    absent: Option<(u64, bool)>,
}

/// The running thread's call leaves as a full entry ([`left`]), which looks for the page if one is `absent` that a pager may have.
#[cold]
#[inline(never)]
fn leave_undone(number: u64, arguments: [u64; 6], absent: Option<(u64, bool)>) {
    here().local.hold().undone = Some(Undone { number, arguments, absent });
    here().attend();
}

/// A light call of this thread's leaves as a full entry. One that was left undone is as if it had come by one: the pager is asked, and the call made again.
pub fn left(here: &Processor, thread: &Arc<Thread>) {
    let undone = here.local.hold().undone.take();
    let Some(Undone { number, arguments: [rdi, rsi, rdx, r10, r8, r9], absent }) = undone else { return };
    {
        let inner = &mut *thread.inner.lock();
        let r = inner.area.registers_mut();
        (r.rdi, r.rsi, r.r10, r.r8, r.r9) = (rdi, rsi, r10, r8, r9);
        if absent.is_none() {
            (r.rax, r.rdx) = (number, rdx);
            r.repeat_call();
        }
    }
    let Some(absent) = absent else { return };
    let _ = pager::repeat(thread, &thread.domain(), (number, rdx), absent, None);
}

pub fn answer(result: Result<u64, Error>) -> Answer {
    match result {
        Ok(value) => Answer { status: 0, value },
        Err(error) => Answer { status: error.word(), value: 0 },
    }
}

/// Serves a light call or a memory operation of this thread's.
///
/// # Errors
/// `NoSuchCall`: it is none of them; what it refuses with.
pub fn serve(thread: &Thread, d: &Domain, call: Call) -> Result<u64, Error> {
    match call {
        Call::GetTaskidLight {} => Ok(thread.task.number),
        Call::Clock { which } => time(which),
        // Others' locks are looked into, whose holders may wait until all have forgotten something: not for this processor.
        Call::MayPass { a, a_len, b, b_len, c, c_len } => {
            here().away_from_user(|| passed::may_pass(thread, d, &[(a, a_len), (b, b_len), (c, c_len)]))
        }
        Call::SectionOwner { base, len } => owner(base, len),
        Call::SectionHold { base, len, owner } => lent::hold(d, base, len, owner),
        Call::Running {} => watch::section(),
        Call::PageInvalidate { address, len } => valid::set(thread, d, address, len, false),
        Call::PageValidate { address, len } => valid::set(thread, d, address, len, true),
        Call::FifoInit { queue, start, end, flags } => queue::init(d, queue, start, end, flags),
        Call::FifoRead { queue, to, max } => queue::read(d, queue, to, max),
        Call::StructureEnd { address } => structure::end(d, address),
        Call::SignalInit { structure, setup } => here().away_from_user(|| signal::init(d, structure, setup)),
        Call::SignalTake { structure, to, max } => signal::take(d, structure, to, max),
        // Many pages take long, and others are to forget: meanwhile nobody waits for this processor.
        Call::PageAlloc { .. } | Call::PageFree { .. } => of_pages(d, call),
        Call::PageSupply { address, from, flags } => here().away_from_user(|| supply::supply(d, address, from, flags)),
        Call::PageTake { address, to } => here().away_from_user(|| supply::take(d, address, to)),
        Call::PortRead { section, port, width } => device::read(d, section, port, width),
        Call::PortWrite { section, port, width, value } => device::write(d, section, port, width, value),
        _ => mbcf::serve(thread, d, call),
    }
}

/// Pages that are had and given back.
#[inline(always)]
fn of_pages(d: &Domain, call: Call) -> Result<u64, Error> {
    match call {
        Call::PageAlloc { address, len, attributes: 0 } => here().away_from_user(|| real::alloc(d, address, len)),
        Call::PageAlloc { address, len, attributes } => here().away_from_user(|| large::alloc(d, address, len, attributes)),
        Call::PageFree { address, len } => here().away_from_user(|| real::free(d, address, len)),
        _ => Err(Error::NotSupported),
    }
}

/// The same for one that comes back, by the full entry.
pub fn serve_or_later(thread: &Thread, d: &Domain, call: Call) -> Result<Step, Error> {
    match serve(thread, d, call) {
        Err(Error::Changed) => Ok(Step::At(0)),
        done => done.map(Step::Done),
    }
}

extern "C" fn get_taskid(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    Answer { status: 0, value: arch::light::task() }
}

extern "C" fn clock(which: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(time(which))
}

extern "C" fn section_owner(base: u64, len: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(owner(base, len))
}

extern "C" fn running(_: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    answer(watch::section())
}

extern "C" fn page_invalidate(address: u64, len: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    validity::<false>(address, len)
}

extern "C" fn page_validate(address: u64, len: u64, _: u64, _: u64, _: u64, _: u64) -> Answer {
    validity::<true>(address, len)
}

/// Of as many sections as a range has. Where it is to go on later it leaves as a full entry, by which the call is made again.
extern "C" fn may(address: u64, len: u64, rights: u64, who: u64, e: u64, f: u64) -> Answer {
    let (thread, domain) = caller();
    let arguments = [address, len, rights, who, e, f];
    let made = Made::new(&thread.inner.lock(), const { number("may") }, arguments);
    let result = go_on_from(&thread, made, |from| call::may(&thread, &domain, (address, len), rights, who, from));
    answer(result.unwrap_or_else(|| {
        leave_undone(const { number("may") }, arguments, None);
        Ok(0)
    }))
}

/// First by what is known of the last answers.
extern "C" fn may_pass(a: u64, a_len: u64, b: u64, b_len: u64, c: u64, c_len: u64) -> Answer {
    let ranges = [(a, a_len), (b, b_len), (c, c_len)];
    let is_known = {
        let local = here().local.hold();
        let thread = local.current.as_ref().expect("user code runs on a thread");
        passed::again(&thread.inner.lock(), &ranges)
    };
    if is_known { Answer { status: 0, value: 1 } } else { not_known(&ranges) }
}

#[cold]
#[inline(never)]
fn not_known(ranges: &Ranges) -> Answer {
    let (thread, domain) = caller();
    answer(here().away_from_user(|| passed::may_pass(&thread, &domain, ranges)))
}

/// First as if it were what the thread has done before.
#[inline(always)]
fn validity<const VALID: bool>(address: u64, len: u64) -> Answer {
    let me = here();
    let again = {
        let local = me.local.hold();
        let thread = local.current.as_ref().expect("user code runs on a thread");
        let inner = &mut *thread.inner.lock();
        inner.sync();
        valid::again::<VALID>(me, inner, address, len)
    };
    match again {
        Again::Done => {
            // Nothing is in it, which would be looked for otherwise.
            core::mem::forget(again);
            Answer { status: 0, value: len }
        }
        other => not_again(other, address, len, VALID),
    }
}

#[cold]
#[inline(never)]
fn not_again(again: Again, address: u64, len: u64, valid: bool) -> Answer {
    match again {
        Again::Done => Answer { status: 0, value: len },
        Again::Owed(stale) => {
            here().away_from_user(|| stale.flush());
            Answer { status: 0, value: len }
        }
        Again::No => {
            let (thread, domain) = caller();
            answer(valid::set(&thread, &domain, address, len, valid))
        }
    }
}

fn time(which: u64) -> Result<u64, Error> {
    match which {
        0 => Ok(arch::time::now()),
        1 => Ok(machine().boot_time * 1_000_000_000 + arch::time::now()),
        _ => Err(Error::BadArgument),
    }
}

fn owner(base: u64, len: u64) -> Result<u64, Error> {
    let section = Section::named(base)?;
    if section.reserve < len {
        return Err(Error::NotFound);
    }
    let owner = section.state.lock().owner.number;
    Ok(owner)
}
