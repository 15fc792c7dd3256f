//! Gates at which what is said is believed: where the kernel or a scheduler calls up, and where a program calls itself. Each lies in a text that
//! everybody may call at other gates (pitfalls: H10).

use crate::mbcf::signals::{setup, signals};
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::{GATE_STEP, flag};
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::section::kind;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::mbcf::{condition, start, store};
use musubi::rt::{Bound, Gates, Section, Trap, guard, pager};
use musubi::{Caller, Error, names};

pub const CHECKS: &[Check] = &[
    ("gates_for_the_kernel_alone", for_the_kernel_alone),
    ("what_a_guard_calls_is_its_own", what_a_guard_calls),
    ("a_personality_calls_not_its_own_gate", super::persona::calls_its_own),
];

/// Servers, and how far below the gate that has their name the one lies where they are called up.
const CALLED_UP: [(&str, u64); 2] = [("linux", 2), ("keyboard", 2)];

struct Nothing;

impl Skeleton for Nothing {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values(0, 0)
    }
}

impl Pager for Nothing {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Ok(0)
    }
}

fn for_the_kernel_alone() -> Outcome {
    let is_refused = |gate: u64| match Bound::bind(gate, 0) {
        Err(error) => error.refusal().is_some_and(|refusal| refusal.object == Object::System),
        Ok(_) => false,
    };
    for (name, below) in CALLED_UP {
        let gate = names::lookup(name).map_err(doing(name))?;
        holds!(is_refused(gate - below * GATE_STEP), "{name} lets anybody come in where it is called up");
        holds!(!is_refused(gate), "{name} lets nobody come in");
        // Its guard.
        let bound = Bound::bind(gate - GATE_STEP, 0).map_err(doing("binding to its guard"))?;
        for word in [8, gate] {
            same!(bound.call(0, [word, 0, 0, 0, 0, 0]).and_then(result_of), Err(Error::Denied), "{name}: its guard");
        }
        bound.unbind().map_err(doing("unbind"))?;
    }
    // A person's own.
    let own = Gates::export_with(Nothing, 1, flag::CALLED_UP).map_err(doing("a gate"))?;
    own.admit(&ANYBODY).map_err(doing("admit"))?;
    holds!(is_refused(own.address()), "somebody comes in where only the system may");
    same!(stub::gate_create(&Trap, own.address(), 1, 0, 1 << 20).is_err(), true, "a flag that is none");
    // Nor does a signal's sender have it started.
    let (there, signals, _) = signals(setup(start::SOURCE, store::QUEUE, condition::REFUSE, 0))?;
    same!(signals.send(b"some", own.address()), Err(Error::BadArgument), "a signal that names it");
    there.delete().map_err(doing("delete"))?;
    // A pager's, of its section or its task: no other can be one.
    let open = Gates::export(Nothing, 1).map_err(doing("a gate for others"))?;
    let paged = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(doing("a section"))?;
    let makes_pagers = |gate: u64| (pager::set(paged.base(), gate, 1, 0), pager::set_for_task(gate, 0));
    same!(makes_pagers(open.address()), (Err(Error::BadArgument), Err(Error::BadArgument)), "a pager anybody calls");
    let pagers = pager_serve(&Nothing).map_err(doing("a pager's gate"))?;
    same!(makes_pagers(pagers.address()), (Ok(()), Ok(())), "a pager");
    pager::set_for_task(0, 0).map_err(doing("no pager of the task"))?;
    holds!(is_refused(pagers.address()), "somebody comes in at a pager's gate");
    paged.delete().map_err(doing("delete"))?;
    pagers.close().map_err(doing("close"))?;
    open.close().map_err(doing("close"))?;
    own.close().map_err(doing("close"))
}

static CAME: AtomicU64 = AtomicU64::new(0);

fn came(_: *mut ()) {
    CAME.fetch_add(1, Ordering::SeqCst);
}

/// As a job looks, without its seal.
#[repr(C, align(16))]
struct Head {
    seal: AtomicU64,
    enter: fn(*mut ()),
    more: [u64; 6],
}

/// Somebody may get a program to call its own gates: what it says there is no address to go to.
fn what_a_guard_calls() -> Outcome {
    guard::prepare().map_err(doing("the guard"))?;
    let bound = Bound::bind(guard::gate(), 0).map_err(doing("binding to the own guard"))?;
    let calls = |words: [u64; 6]| bound.call(0, words).and_then(result_of);
    same!(guard::run(|| 7), Ok(7), "what it is there for");
    let head = Head { seal: AtomicU64::new(0), enter: came, more: [0; 6] };
    let at = core::ptr::from_ref(&head) as u64;
    for seal in [0, 1, at, !0] {
        head.seal.store(seal, Ordering::SeqCst);
        for words in [[at, 0, 0, 0, 0, 0], [came as *const () as u64, at, 0, 0, 0, 0], [at + 1, 0, 0, 0, 0, 0]] {
            same!(calls(words), Err(Error::Denied), "{words:x?}, seal {seal:#x}");
        }
    }
    same!(calls([8, 0, 0, 0, 0, 0]), Err(Error::Faulted), "where nothing lies");
    same!((CAME.load(Ordering::SeqCst), head.more), (0, [0; 6]), "calls that came through");
    Ok(())
}
