//! Addresses that only somebody else may touch, given to who could (pitfalls: H10, H14). A kernel that used addresses with
//! its own rights, or with those of the thread's task, would read and write them for whoever asks.
//!
//! The table of calls says which arguments are such addresses, and each of them is tried.

use super::{SECRET, Scene, op, stopped};
use crate::memory::{data, store};
use crate::peer::{Peer, op as peer_op};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::calls::{Kernel, Memory, TABLE, stub};
use musubi::abi::gate::{GATE, GATE_BASE};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::rt::post::Post;
use musubi::rt::{Trap, section, task};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("every_address_in_the_table_is_tried", every_address),
    ("kernel_calls_with_a_callees_memory", by_a_caller),
    ("kernel_calls_with_the_callers_memory", by_a_callee),
    ("pages_of_others_by_their_addresses", super::given::pages),
    ("registers_from_anothers_memory_after_a_fault", || stopped::from("fault-return")),
    ("registers_from_anothers_memory_in_a_window", || stopped::from("foreign-return")),
];

/// What only the system may: its deputy is a driver in the place of the keyboard's.
pub const OF_THE_SYSTEM: &[Check] = &[
    ("the_systems_threads_stay_in_its_texts", stay_inside),
    ("the_systems_calls_with_the_callers_memory", by_the_system),
];

/// An argument where the kernel accesses memory: the call and the argument, all words, and what lies at the address if it is an own one.
/// `None`: it takes more than the call, and is tried by another check.
struct Deputy(&'static str, &'static str, Option<([u64; 6], Good)>);

/// What lies at an address with which a call goes through.
#[derive(Clone, Copy, PartialEq)]
enum Good {
    /// An entry of an access list, for calls that read one; others write there.
    Entry,
    Zeroes,
}

/// What the asker has of its own.
struct Own {
    /// A page to read and write.
    page: u64,
    /// Zeroes.
    limits: u64,
    /// A section.
    object: u64,
    /// Gates of the victim's, a post.
    gate: u64,
    post: u64,
}

fn deputies(own: &Own) -> Vec<Deputy> {
    use Good::{Entry, Zeroes};
    let user = task::identity().user;
    let simple = |call, argument, words, good| Deputy(call, argument, Some((words, good)));
    let elsewhere = |call, argument| Deputy(call, argument, None);
    alloc::vec![
        simple("identity", "out", [0; 6], Zeroes),
        simple("task_list", "out", [0; 6], Zeroes),
        simple("thread_list", "out", [0; 6], Zeroes),
        simple("section_info", "out", [own.object, 0, 0, 0, 0, 0], Zeroes),
        simple("section_list", "out", [0; 6], Zeroes),
        simple("section_pages", "out", [own.object, 0, 0, 0, 0, 0], Zeroes),
        simple("acl_set", "entry", [own.object, 0, 0, 0, 0, 0], Entry),
        simple("acl_read", "out", [own.object, 0, 1, 0, 0, 0], Zeroes),
        simple("section_name", "name", [own.object, 0, 8, 0, 0, 0], Zeroes),
        simple("gate_bind", "out", [own.gate, 0, 0, 0, 0, 0], Zeroes),
        simple("wait", "address", [0, 1, 1000, 0, 0, 0], Zeroes),
        simple("wake", "address", [0, 1, 0, 0, 0, 0], Zeroes),
        simple("task_create", "limits", [0, user, 0, 0, 0, 0], Zeroes),
        simple("task_create", "name", [own.limits, user, 0, 8, 0, 0], Zeroes),
        simple("post_send_many", "address", [own.post, 0, 1, 1, 0, 0], Zeroes),
        elsewhere("thread_registers", "out"),
        elsewhere("fault_return", "frame"),
        elsewhere("foreign_start", "frame"),
        elsewhere("foreign_return", "frame"),
        elsewhere("foreign_vectors", "to"),
        elsewhere("foreign_vectors", "from"),
        elsewhere("port_write_bytes", "from"),
        elsewhere("log_write", "from"),
        elsewhere("task_wait", "out"),
        elsewhere("task_ended", "out"),
        elsewhere("task_limit", "limits"),
        elsewhere("page_supply", "from"),
        elsewhere("page_take", "to"),
    ]
    .into_iter()
    .chain(OPERATIONS.iter().flat_map(|(call, arguments)| arguments.iter().map(|argument| elsewhere(call, argument))))
    .collect()
}

/// Memory operations and what belongs to them: `check mbcf` tries each.
const OPERATIONS: &[(&str, &[&str])] = &[
    ("mbcf_write", &["to", "from", "report"]),
    ("mbcf_read", &["address", "to", "report"]),
    ("mbcf_fill", &["to", "report"]),
    ("mbcf_copy", &["to", "from", "report"]),
    ("mbcf_store", &["address", "report"]),
    ("mbcf_load", &["address", "report"]),
    ("mbcf_swap", &["address", "report"]),
    ("mbcf_add", &["address", "report"]),
    ("mbcf_compare_swap", &["address", "report"]),
    ("mbcf_set_bits", &["address", "report"]),
    ("mbcf_clear_bits", &["address", "report"]),
    ("mbcf_fifo", &["from", "report"]),
    ("mbcf_fifoe_normal", &["from", "report"]),
    ("mbcf_fifoe_retry", &["from", "report"]),
    ("mbcf_signal", &["from", "report"]),
    ("fifo_read", &["to"]),
    ("signal_init", &["setup"]),
    ("signal_take", &["to"]),
];

/// A new call that takes an address has to be tried, too.
fn every_address() -> Outcome {
    let nothing = Own { page: 0, limits: 0, object: 0, gate: 0, post: 0 };
    let tried: Vec<(&str, &str)> =
        deputies(&nothing).iter().map(|Deputy(call, argument, _)| (*call, *argument)).collect();
    let mut in_table = Vec::new();
    for row in TABLE {
        let arguments = row.arguments.iter().zip(row.memory).filter(|(_, memory)| **memory != Memory::No);
        in_table.extend(arguments.map(|(argument, _)| (row.name, *argument)));
    }
    let missing: Vec<_> = in_table.iter().filter(|one| !tried.contains(one)).collect();
    let unknown: Vec<_> = tried.iter().filter(|one| !in_table.contains(one)).collect();
    holds!(missing.is_empty() && unknown.is_empty(), "not tried: {missing:?}; not in the table: {unknown:?}");
    Ok(())
}

/// Number of a call, which of its words the argument is, and what the kernel does there.
fn place_of(call: &str, argument: &str) -> Result<(u64, usize, Memory), String> {
    let row = TABLE.iter().find(|row| row.name == call).ok_or_else(|| format!("no call {call}"))?;
    let at =
        row.arguments.iter().position(|name| *name == argument).ok_or_else(|| format!("no {argument} of {call}"))?;
    Ok((row.number, at, row.memory[at]))
}

/// Whether an error is one of an address that cannot be used; a call that waits or creates says nothing else of it.
pub fn is_about_the_address(error: Error) -> bool {
    // A callee's own refusals are told as `Denied`.
    matches!(error, Error::BadAddress | Error::Denied) || error.refusal().is_some()
}

/// Addresses that nobody may use: the gate's code and state, the kernel's alias of it, the kernel.
pub fn gates_places() -> [u64; 6] {
    let state = GATE_BASE + (1 << 30);
    [GATE, state + 0x1000, state + 0x2000, GATE_BASE + (2 << 30), 0xffff_8680_0000_0000, 0xffff_8000_0010_0000]
}

/// What makes a call with an address go through.
fn fill(good: Good, own: &Own) {
    let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: 0x1000 };
    let words = match good {
        Good::Entry => [u64::from(entry.principal) | u64::from(entry.rights) << 32, entry.id, entry.text],
        Good::Zeroes => [0; 3],
    };
    words.iter().zip(0..).for_each(|(word, n)| store(own.page + 8 * n, *word));
}

/// Pages that the asker may only read, and only write; `only` says so to the kernel.
fn halves(only: impl Fn(u64, Rights) -> Outcome) -> Result<[(Memory, u64); 2], String> {
    let page = |rights| -> Result<u64, String> {
        let base = data(PAGE).map_err(doing("create"))?.base();
        only(base, rights)?;
        Ok(base)
    };
    Ok([(Memory::Write, page(Rights::READ)?), (Memory::Read, page(Rights::empty())?)])
}

/// Tries all deputies by `ask`, with an address of the asker's own and with forbidden ones: those that are forbidden for everything, and
/// those that are for one kind of access.
fn try_all(
    own: &Own,
    forbidden: &[u64],
    halves: &[(Memory, u64)],
    ask: impl Fn(u64, &[u64; 6]) -> Result<u64, Error>,
    intact: impl Fn(&str) -> Outcome,
) -> Outcome {
    for Deputy(name, argument, simple) in deputies(own) {
        let Some((words, good)) = simple else { continue };
        let (call, at, access) = place_of(name, argument)?;
        let half = halves.iter().filter(|(kind, _)| *kind == access).map(|(_, address)| address);
        for &address in forbidden.iter().chain(half) {
            let mut words = words;
            words[at] = address;
            let outcome = ask(call, &words);
            holds!(outcome.is_err_and(is_about_the_address), "{name} with {address:#x} for {argument}: {outcome:x?}");
            intact(name)?;
        }
        // The same with one's own memory is good: it was the address.
        fill(good, own);
        let mut words = words;
        words[at] = own.page;
        let outcome = ask(call, &words);
        let good = outcome.is_ok() || [Error::Changed, Error::TimedOut].map(Err).contains(&outcome);
        holds!(good, "{name} with an own address for {argument}: {outcome:x?}");
    }
    Ok(())
}

fn own(scene: &Scene, page: u64, object: u64) -> Result<Own, String> {
    let post = || -> Result<u64, String> {
        let post = Post::any().map_err(doing("getting a post"))?;
        section::grant(post.0, &everybody(Rights::READ | Rights::CALL)).map_err(doing("grant"))?;
        Ok(post.0)
    };
    Ok(Own { page, limits: page + 0x400, object, gate: scene.victim.gate, post: post()? })
}

fn by_a_caller() -> Outcome {
    let scene = Scene::set()?;
    let page = data(PAGE).map_err(doing("create"))?.base();
    let object = data(PAGE).map_err(doing("create"))?.base();
    let own = own(&scene, page, object)?;
    let forbidden = [scene.place, scene.victim.text].into_iter().chain(gates_places());
    let forbidden: Vec<u64> = forbidden.filter(|at| !section::may(*at, 8, Rights::READ, section::Who::Own)).collect();
    // Its maker has all rights to a section, until he gives some away.
    let only = |base, rights: Rights| {
        let start = musubi::start();
        let text = start.text();
        let entry = AclEntry {
            principal: principal::TASK,
            rights: (rights | Rights::CHANGE_ACL).bits(),
            id: start.task(),
            text,
        };
        section::grant(base, &entry).map_err(doing("grant"))
    };
    let halves = halves(only)?;
    try_all(&own, &forbidden, &halves, |call, words| Trap.enter(call, *words), |name| scene.holds(name))?;
    scene.end()
}

/// The callee works on its caller's thread, for its caller's task; the caller's memory is not the callee's for that.
fn by_a_callee() -> Outcome {
    let scene = Scene::set()?;
    let callee = Peer::start()?;
    let secret = 0x1337_0000_0000_7331;
    SECRET.store(secret, Ordering::SeqCst);
    let page = data(PAGE).map_err(doing("create"))?.base();
    section::grant(page, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let object = data(PAGE).map_err(doing("create"))?.base();
    section::grant(object, &everybody(Rights::READ | Rights::CHANGE_ACL)).map_err(doing("grant"))?;
    let own = own(&scene, page, object)?;
    let stack = core::ptr::from_ref(&scene) as u64 & !7;
    let places = [SECRET.as_ptr() as u64, stack, scene.place];
    let forbidden: Vec<u64> = places.into_iter().chain(gates_places()).collect();
    let halves = halves(|base, rights| match rights.is_empty() {
        true => Ok(()),
        false => section::grant(base, &everybody(rights)).map_err(doing("grant")),
    })?;
    let words_at = page + 0x800;
    let ask = |call, words: &[u64; 6]| {
        words.iter().zip(0..).for_each(|(word, n)| store(words_at + 8 * n, *word));
        callee.call(op::KERNEL, &[call, words_at])
    };
    let intact = |name: &str| {
        same!(SECRET.load(Ordering::SeqCst), secret, "the caller's secret after {name}");
        scene.holds(name)
    };
    try_all(&own, &forbidden, &halves, ask, intact)?;
    callee.end()?;
    scene.end()
}

/// A server's own thread is asked to call a program of a person's: whoever that calls would take it for the system.
fn stay_inside() -> Outcome {
    let peer = Peer::start()?;
    let driver = crate::interrupts::keyboard()?;
    same!(driver.listen(peer.gate | 1), Err(Error::Denied), "the call");
    same!(peer.plain(peer_op::ADD, &[0]), Ok(0), "what has been added");
    peer.end()
}

/// The kernel lets a driver write ports and the log, and hear how tasks have ended; not what it could not read itself.
fn by_the_system() -> Outcome {
    let scene = Scene::set()?;
    SECRET.store(0x1337_0000_0000_7331, Ordering::SeqCst);
    let driver = crate::interrupts::keyboard()?;
    let stack = core::ptr::from_ref(&scene) as u64 & !7;
    let hidden = data(PAGE).map_err(doing("create"))?.base();
    store(hidden, 1);
    let places = [SECRET.as_ptr() as u64, stack, scene.place, hidden];
    for address in places.into_iter().chain(gates_places().into_iter().filter(|at| *at != GATE)) {
        same!(driver.listen(address), Ok(()), "with {address:#x}");
    }
    // That it would be told: what everybody may read goes through.
    section::grant(hidden, &everybody(Rights::READ)).map_err(doing("grant"))?;
    same!(driver.listen(hidden), Err(Error::Exists), "with what all may read");
    let _ = stub::section_delete(&Trap, hidden);
    scene.end()
}
