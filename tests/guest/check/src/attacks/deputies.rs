//! Addresses that only somebody else may touch, given to who could (pitfalls: H10, H14). A kernel that used addresses with
//! its own rights, or with those of the thread's task, would read and write them for whoever asks.

use super::{SECRET, Scene, op};
use crate::memory::data;
use crate::peer::Peer;
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::calls::{Kernel, TABLE};
use musubi::abi::gate::{GATE, GATE_BASE};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::rt::{Trap, section, task};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("kernel_calls_with_a_callees_memory", || by_a_caller()),
    ("kernel_calls_with_the_callers_memory", || by_a_callee()),
];

/// A call that takes an address: its name, its words with 0 for the address, and where that goes.
struct Deputy(&'static str, [u64; 6], usize);

/// All of them that go through with an address of one's own. `object`: a section of the asker's.
fn deputies(object: u64, gate: u64) -> Vec<Deputy> {
    alloc::vec![
        Deputy("identity", [0; 6], 0),
        Deputy("task_list", [0; 6], 1),
        Deputy("thread_list", [0; 6], 1),
        Deputy("section_info", [object, 0, 0, 0, 0, 0], 1),
        Deputy("section_list", [0; 6], 1),
        Deputy("acl_set", [object, 0, 0, 0, 0, 0], 1),
        Deputy("acl_read", [object, 0, 1, 0, 0, 0], 1),
        Deputy("section_name", [object, 0, 8, 0, 0, 0], 1),
        Deputy("gate_bind", [gate, 0, 0, 0, 0, 0], 3),
        Deputy("wait", [0, 1, 1000, 0, 0, 0], 0),
        Deputy("wake", [0, 1, 0, 0, 0, 0], 0),
        Deputy("task_create", [0, task::identity().user, 0, 0, 0, 0], 0),
        Deputy("processor_info", [0; 6], 1),
        Deputy("memory_info", [0; 6], 0),
    ]
}

fn number(name: &str) -> Result<u64, String> {
    TABLE.iter().find(|row| row.name == name).map(|row| row.number).ok_or_else(|| format!("no call {name}"))
}

/// Whether an error is one of an address that cannot be used; a call that waits or creates says nothing else of it.
fn is_about_the_address(error: Error) -> bool {
    // A callee's own refusals are told as `Denied`.
    matches!(error, Error::BadAddress | Error::Denied) || error.refusal().is_some()
}

/// Tries all deputies by `ask`, with an address of the asker's own and with forbidden ones.
fn try_all(
    own: u64,
    object: u64,
    gate: u64,
    forbidden: &[u64],
    ask: impl Fn(u64, &[u64; 6]) -> Result<u64, Error>,
    intact: impl Fn(&str) -> Outcome,
) -> Outcome {
    for Deputy(name, words, at) in deputies(object, gate) {
        let call = number(name)?;
        for &address in forbidden {
            let mut words = words;
            words[at] = address;
            let outcome = ask(call, &words);
            holds!(outcome.is_err_and(is_about_the_address), "{name} with {address:#x}: {outcome:x?}");
            intact(name)?;
        }
        // The same with one's own memory is good: it was the address.
        let mut words = words;
        words[at] = own;
        let outcome = ask(call, &words);
        let good = outcome.is_ok() || [Error::Changed, Error::TimedOut].map(Err).contains(&outcome);
        holds!(good, "{name} with an own address: {outcome:x?}");
    }
    Ok(())
}

/// The entry that `acl_set` reads from an own address.
fn fill_own(own: u64) {
    let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: 0x1000 };
    let words = [u64::from(entry.principal) | u64::from(entry.rights) << 32, entry.id, entry.text];
    words.iter().zip(0..).for_each(|(word, n)| crate::memory::store(own + 8 * n, *word));
}

fn gates_places() -> [u64; 6] {
    let state = GATE_BASE + (1 << 30);
    [GATE, state + 0x1000, state + 0x2000, GATE_BASE + (2 << 30), 0xffff_8680_0000_0000, 0xffff_8000_0010_0000]
}

fn by_a_caller() -> Outcome {
    let scene = Scene::set()?;
    let own = data(PAGE).map_err(doing("create"))?.base();
    let object = data(PAGE).map_err(doing("create"))?.base();
    let forbidden: Vec<u64> = [scene.place, scene.victim.text].into_iter().chain(gates_places()).collect();
    let ask = |call, words: &[u64; 6]| {
        fill_own(own);
        Trap.enter(call, *words)
    };
    let forbidden: Vec<u64> =
        forbidden.into_iter().filter(|at| !section::may(*at, 8, Rights::READ, section::Who::Own)).collect();
    try_all(own, object, scene.victim.gate, &forbidden, ask, |name| scene.holds(name))?;
    scene.end()
}

/// The callee works on its caller's thread, for its caller's task; the caller's memory is not the callee's for that.
fn by_a_callee() -> Outcome {
    let scene = Scene::set()?;
    let callee = Peer::start()?;
    let secret = 0x1337_0000_0000_7331;
    SECRET.store(secret, Ordering::SeqCst);
    let own = data(PAGE).map_err(doing("create"))?.base();
    section::grant(own, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let object = data(PAGE).map_err(doing("create"))?.base();
    section::grant(object, &everybody(Rights::READ | Rights::CHANGE_ACL)).map_err(doing("grant"))?;
    let stack = core::ptr::from_ref(&scene) as u64 & !7;
    let places = [SECRET.as_ptr() as u64, stack, scene.place];
    let forbidden: Vec<u64> = places.into_iter().chain(gates_places()).collect();
    let words_at = own + 0x800;
    let ask = |call, words: &[u64; 6]| {
        fill_own(own);
        words.iter().zip(0..).for_each(|(word, n)| crate::memory::store(words_at + 8 * n, *word));
        callee.call(op::KERNEL, &[call, words_at])
    };
    let intact = |name: &str| {
        same!(SECRET.load(Ordering::SeqCst), secret, "the caller's secret after {name}");
        scene.holds(name)
    };
    try_all(own, object, scene.victim.gate, &forbidden, ask, intact)?;
    callee.end()?;
    scene.end()
}
