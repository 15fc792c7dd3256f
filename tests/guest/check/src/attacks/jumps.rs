//! Jumps into the gate's code, with registers of the jumper's choice (pitfalls: H2, H3, H4, H15).
//!
//! What is tried at every byte: to have the gate read, write or go on where a register says; to give `wrpkru` a value of
//! one's own; to get out of the gate with its rights, or another program's. A gate that took an address from a register,
//! compared the key register with a constant, or not at all, would let the jumper touch the secret, or run the victim's code
//! in its name.

use super::asm::{BRAND, Registers, TARGET, TOUCHED, VICTIM, hostile, landing};
use super::{Scene, TOP, ask, earn, has_keys, not_told, op};
use crate::memory::data;
use crate::peer::Peer;
use crate::report::{Check, Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::{Kernel, number};
use musubi::abi::gate::{GATE, GATE_BASE};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::abi::task::exit;
use musubi::rt::{Bound, Trap, probe, section, task};
use musubi::{AclEntry, Rights};

pub const CHECKS: &[Check] = &[
    ("jumps_in_a_callee_at_anothers_secret", || in_a_callee(false)),
    ("jumps_in_a_callee_at_the_callers_secret", || in_a_callee(true)),
    ("jumps_without_a_call", without_a_call),
    ("gates_memory_is_not_to_be_written", gates_memory),
    ("no_call_changes_what_the_gate_keeps", calls_at_the_gate),
    ("index_beyond_32_bits", index_beyond),
    ("servers_code_with_own_rights", servers_code),
];

/// Words that look like frames, records and cells, all of which lead to [`landing`]; the second one opens all keys.
static FORGED: [[AtomicU64; 32]; 2] = [const { [const { AtomicU64::new(0) }; 32] }; 2];

pub fn forge(which: usize) -> u64 {
    let at = FORGED[which].as_ptr() as u64;
    let land = landing as *const () as u64;
    for (n, word) in FORGED[which].iter().enumerate() {
        // Frames: RIP at 0 and 32, REC at 16 and 48. Records: DIRECT at 0, ENTRY at 8, CELL at 16, RECORDS at 24.
        let value = match n {
            2 | 3 | 6 | 7 | 10 => at,
            0 if which == 1 => 0xffff_ffff,
            12.. => 0,
            _ => land,
        };
        word.store(value, Ordering::SeqCst);
    }
    at
}

/// Sets of hostile registers.
const SETS: u64 = 12;
/// With this one the jumper's own procedure stores, if it is called with rights of the jump's; so does a plain call of a server's.
const STORES: u64 = 10;

/// None of them: what a server's entry takes for a call, by a record of its own (which is where the victim's word is otherwise).
const CALLS: u64 = SETS;

fn registers(set: u64, victim: u64, own: u64) -> Registers {
    if set == CALLS {
        let mut all: Registers = [0; 17];
        (all[1], all[5], all[16]) = (victim, op::GET, 0x202);
        return all;
    }
    // A jump may end where the last call came back to; then this is called with anything.
    let set = set % SETS;
    let forged = forge((set % 2) as usize);
    // All open; the gate's own; nothing; the jumper's own; another's, mostly; components of XRSTOR, with and without keys.
    let rax = [0, 0xffff_fff2, u64::from(u32::MAX), own, 0xffff_ff38, 7, 0x207, 0, 0x5555_5550, 0, 0, 0][set as usize];
    // The own stack, the victim's memory, forged words; where a push lies in the victim's memory.
    let rsp = [0, victim, forged, 0, victim, 0, victim, forged, 0, 0, 0, victim + 8][set as usize];
    // Direction; nested task and alignment check; the trap flag, on the own stack.
    let flags =
        [0x202, 0x602, 0x4_4202, 0x302, 0x202, 0x302, 0x4_4602, 0x202, 0x302, 0x602, 0x202, 0x202][set as usize];
    let mut all: Registers = [forged; 17];
    // Where `wrpkru` is reached, rcx and rdx must be 0.
    (all[0], all[2], all[3], all[7], all[16]) = (rax, 0, 0, rsp, flags);
    // Index and offset of a record; arguments that lead to the secret.
    (all[14], all[4], all[5]) = (0, victim, victim);
    match set {
        // Everything leads to the secret itself.
        6 | 8 => (all[1], all[6], all[10], all[11], all[15]) = (victim, victim, victim, victim, victim),
        9 => all[11] = 0,
        STORES => (all[5], all[4], all[12]) = (crate::peer::op::POKE, victim, BRAND),
        11 => all[10] = BRAND,
        _ => {}
    }
    all
}

/// Jumps; comes back only if the gate makes a return of it.
pub fn jump(offset: u64, set: u64, victim: u64, own: u64) -> u64 {
    let all = registers(set, victim, own);
    TARGET.store(GATE_BASE + offset, Ordering::SeqCst);
    VICTIM.store(victim, Ordering::SeqCst);
    hostile(&raw const all)
}

/// Length of what there is in the gate's page.
fn length() -> u64 {
    let last = (0..PAGE).rev().find(|at| probe::read(GATE_BASE + at) != 0);
    last.map_or(0, |at| at + 1)
}

/// A callee jumps, from within its call, at every byte of the gate.
fn in_a_callee(at_the_caller: bool) -> Outcome {
    let scene = Scene::set()?;
    let attacker = Peer::start()?;
    let own = 0x0123_4567_89ab_cdef;
    super::SECRET.store(own, Ordering::SeqCst);
    let (place, secret) =
        if at_the_caller { (super::SECRET.as_ptr() as u64, own) } else { (scene.place, scene.secret) };
    holds!(ask(&attacker, [crate::peer::op::PEEK, place, 0, 0, 0, 0]).is_err(), "the attacker may read the secret");
    // Who has no key lives apart: there would be nothing to get at.
    if has_keys(&attacker.bound) {
        earn(&scene.victim)?;
        earn(&attacker)?;
    }
    let len = length();
    holds!(len > 0x250, "the gate's code is {len} bytes long");
    for offset in 0..=len {
        for set in 0..SETS {
            not_told(
                &attacker,
                [op::JUMP, offset, set, place, 0, 0],
                secret,
                &format!("offset {offset:#x} with registers {set}"),
            )?;
            same!(super::SECRET.load(Ordering::SeqCst), own, "own secret after {offset:#x} {set}");
        }
        scene.holds(&format!("after {offset:#x}"))?;
    }
    same!(attacker.call(crate::peer::op::ADD, &[5]), Ok(5), "a call of the attacker");
    attacker.end()?;
    scene.end()
}

/// What a program is that jumps without having called anybody.
pub fn role(gate: u64, offset: u64, set: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let place = bound.call(0, [op::PLACE, 0, 0, 0, 0, 0]).map_or(0, |values| values[1]);
    // So that the victim's page is there, with its key.
    if place == 0 || bound.call(0, [op::GET, 0, 0, 0, 0, 0]).is_err() {
        return 4;
    }
    jump(offset, set, place, 0xffff_fff8);
    0
}

/// The same from the depth where nobody is to be returned to. Each jump ends a program.
fn without_a_call() -> Outcome {
    let scene = Scene::set()?;
    let gate = format!("{:#x}", scene.victim.gate);
    // Other registers with each machine; and all of them where the key register is written, and behind that.
    let salt = task::processors().count() as u64 + if has_keys(&scene.victim.bound) { 0 } else { SETS / 2 };
    let byte = |at: u64| probe::read(GATE_BASE + at);
    // `wrpkru`, but not in the text of this program, which would be called by the kernel then.
    let wrpkru = core::hint::black_box([0xf0u8, 0xfe, 0x10]).map(|byte| !byte);
    let writes = (0..length()).filter(|at| [0, 1, 2].map(|n| byte(at + n)) == wrpkru);
    let there: Vec<u64> = writes.flat_map(|at| [at, at + 3]).collect();
    holds!(
        there.len() >= 4 || !has_keys(&scene.victim.bound),
        "the gate writes the key register {} times",
        there.len() / 2
    );
    let at_writes = there.into_iter().flat_map(|at| (0..SETS).map(move |set| (at, set)));
    // What follows the code are words for `xrstor`.
    for (offset, set) in (0..=0x260u64).map(|at| (at, (at + salt) % SETS)).chain(at_writes) {
        let exit = run_role(&["attack", "jump", &gate, &format!("{offset}"), &format!("{set}")])?;
        let went_on = exit.kind == exit::EXITED && exit.code as i32 != TOUCHED && ![3, 4].contains(&exit.code);
        holds!(exit.kind == exit::FAULT || went_on, "offset {offset:#x} with registers {set}: {exit:x?}");
        if offset % 16 == 0 {
            scene.holds(&format!("after {offset:#x}"))?;
        }
    }
    scene.end()
}

/// Frames, cells, records and code, with the program's own rights. A gate whose memory could be written by programs would
/// return where they please, in another's name.
fn gates_memory() -> Outcome {
    let scene = Scene::set()?;
    let records = GATE_BASE + (2 << 30);
    let kernels = 0xffff_8680_0000_0000;
    let record = ask(&scene.victim, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("record"))?[1];
    let places =
        [TOP, TOP + 0xfe0, TOP + 0x1000, TOP + 0xf010, records, record, record + 8, GATE, kernels, kernels + (1 << 30)];
    for place in places {
        let exit = run_role(&["store", &format!("{place:#x}")])?;
        same!(exit.kind, exit::FAULT, "a store at {place:#x}");
        same!(scene.victim.call(crate::peer::op::POKE, &[place, 1]), Err(musubi::Error::Faulted), "by a callee");
    }
    // What there is can be read, but not by way of the kernel's addresses.
    let exit = run_role(&["peek", &format!("{kernels:#x}")])?;
    same!(exit.kind, exit::FAULT, "a load from the kernel's addresses");
    scene.end()
}

/// Unmapping it, laying something else in its place, taking its pages, or changing who may do what there.
fn calls_at_the_gate() -> Outcome {
    let scene = Scene::set()?;
    let own = data(2 * PAGE).map_err(doing("create"))?;
    let entry =
        AclEntry { principal: principal::ANY, rights: Rights::all().bits(), id: 0, text: musubi::start().text() };
    let entry = core::ptr::from_ref(&entry) as u64;
    let records = GATE_BASE + (2 << 30);
    let call = |name, words: &[u64]| {
        let mut all = [0; 6];
        all[..words.len()].copy_from_slice(words);
        Trap.enter(number(name), all)
    };
    for at in [GATE, TOP, TOP + 0x1000, records, 0xffff_8680_0000_0000] {
        let page = at & !(PAGE - 1);
        // (By its kernel's address it is no address of a program's.)
        let tried: [(&str, &[u64]); 17] = [
            ("section_create", &[PAGE, PAGE, kind::DATA, 0, page]),
            ("section_clone", &[own.base(), 0, page]),
            ("section_clone", &[page]),
            ("section_delete", &[page]),
            ("section_resize", &[page, 2 * PAGE]),
            ("section_resize", &[page, 0]),
            ("section_seal", &[page]),
            ("section_give", &[page, musubi::start().task()]),
            ("section_pager", &[page, scene.victim.gate, 0, 0]),
            ("acl_set", &[page, entry]),
            ("text_place", &[page, 0, 0]),
            ("page_invalidate", &[page, PAGE]),
            ("page_alloc", &[page, PAGE]),
            ("page_free", &[page, PAGE]),
            ("page_supply", &[page, own.base()]),
            ("page_take", &[page, own.base()]),
            ("page_take", &[own.base(), page]),
        ];
        for (name, words) in tried {
            let outcome = call(name, words);
            holds!(outcome.is_err(), "{name} with {words:x?}: {outcome:?}");
        }
        same!(
            ask(&scene.victim, [op::GET, 0, 0, 0, 0, 0]),
            Ok([0, scene.secret]),
            "a call, after what was tried at {at:#x}"
        );
    }
    own.delete().map_err(doing("delete"))?;
    scene.end()
}

/// The gate and the kernel compare the index with the number of gates; a callee uses it to find its code. A comparison of
/// 32 bits would let the caller choose where the callee looks: in the caller's memory.
fn index_beyond() -> Outcome {
    let scene = Scene::set()?;
    if has_keys(&scene.victim.bound) {
        earn(&scene.victim)?;
    }
    for shift in 32..64 {
        let index = 1 << shift;
        for words in [[op::GET, 0, 0, 0, 0, 0], [crate::peer::op::ADD, 1, 0, 0, 0, 0]] {
            let outcome = scene.victim.bound.call(index, words);
            same!(outcome, Err(musubi::Error::BadArgument), "gate {index:#x}");
        }
        let kernel = Bound::bind_as(scene.victim.gate, 0, musubi::abi::gate::grade::EPC_S).map_err(doing("bind"))?;
        same!(kernel.call(0, [op::GET, 0, 0, 0, 0, 0]), Ok([0, scene.secret]), "a good call by the kernel");
        same!(kernel.call(index, [op::GET, 0, 0, 0, 0, 0]), Err(musubi::Error::BadArgument), "gate {index:#x}");
        kernel.unbind().map_err(doing("unbind"))?;
    }
    scene.end()
}

/// A caller jumps to where the server's gates lead, with a forged record: it runs the server's code, with its own rights.
fn servers_code() -> Outcome {
    let scene = Scene::set()?;
    let attacker = Peer::start()?;
    let [entry, record] = ask(&scene.victim, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("entry"))?;
    if has_keys(&attacker.bound) {
        holds!(section::may(entry, 1, musubi::Rights::EXECUTE, section::Who::Own), "nobody may execute the victim");
    }
    // And to the entry address itself, which is a plain call from whatever stack.
    for to in [entry, scene.victim.gate, scene.victim.no_gate()] {
        for set in (0..SETS).filter(|set| *set != STORES) {
            let words = [op::JUMP, to.wrapping_sub(GATE_BASE), set, scene.place, 0, 0];
            not_told(&attacker, words, scene.secret, &format!("{to:#x} with registers {set}"))?;
        }
    }
    let words = [op::JUMP, entry.wrapping_sub(GATE_BASE), CALLS, record, 0, 0];
    not_told(&attacker, words, scene.secret, "a call at the entry")?;
    attacker.end()?;
    scene.end()
}
