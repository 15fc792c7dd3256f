//! Code that writes the key register: hidden, changed after it was looked at, run by who should not (pitfalls: H3, H6, H7).

use super::asm::{LOAD, STORE, TOUCHED, binds, exports, open_all, restore, run};
use super::{Scene, has_keys, op};
use crate::memory::{data, load, store};
use crate::peer::{self, Peer};
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::{Binding, GATE_BASE, grade, why};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::task::{Limits, exit};
use musubi::rt::{Bound, Trap, section, task, thread, time};
use musubi::{AclEntry, Rights};

pub const CHECKS: &[Check] = &[
    ("keys_opened_by_unclear_code", opened_by_unclear_code),
    ("keys_restored_from_memory", restored_from_memory),
    ("code_changed_while_it_is_sealed", changed_while_sealed),
    ("code_that_comes_while_it_is_sealed", taken_while_sealed),
    ("code_that_the_kernel_writes", super::writers::the_kernel),
    ("a_clone_that_is_sealed_as_it_comes", super::writers::who_clones),
    ("a_page_that_is_written_while_it_is_shared", super::writers::who_goes_on),
    ("hidden_instructions_are_found", hidden_instructions),
    ("reasons_of_the_callee_are_told", reasons_of_the_callee),
];

/// What unclear code tries with all keys open.
const AIMS: u64 = 6;
/// It is sealed: what is written last is what opens all keys.
static SEALED: AtomicBool = AtomicBool::new(false);
/// With [`restore`]; and with a second thread that changes the code while it is sealed.
const BY_XRSTOR: u64 = 10;
const CHANGED: u64 = 11;

/// The gate's head, where the pointer to the frame on top is; frames, cells.
const HEAD: u64 = GATE_BASE + (1 << 30) + 0x1000;

/// Runs such code. Ends by a fault, if the system is as it should be.
pub fn role(gate: u64, aim: u64, at: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let ask = |what| bound.call(0, [what, 0, 0, 0, 0, 0]).map_or(0, |values| values[1]);
    let (place, secret) = (ask(op::PLACE), ask(op::GET));
    let Ok(mut code) = data(3 * PAGE) else { return 4 };
    let bytes: Vec<u8> = match aim {
        0 => [&open_all(), LOAD].concat(),
        BY_XRSTOR => [&restore(), LOAD].concat(),
        // The place of what is put in later.
        CHANGED => [&[0x90; 16], LOAD].concat(),
        _ => [&open_all(), STORE].concat(),
    };
    code.bytes_mut()[at as usize..][..bytes.len()].copy_from_slice(&bytes);
    let (base, start) = (code.base(), code.base() + at);
    // If others might not fetch it, its program would be set apart by that alone, whatever the code holds.
    let writes = if aim == CHANGED { Rights::WRITE } else { Rights::empty() };
    if section::grant(base, &everybody(Rights::READ | Rights::EXECUTE | writes)).is_err() {
        return 5;
    }
    if aim == CHANGED {
        let Ok(writer) = Peer::start() else { return 5 };
        let writer: &'static Peer = Box::leak(Box::new(writer));
        let words = opening();
        let nops = [0x9090_9090_9090_9090; 2];
        let write = move || {
            for round in 0u64.. {
                let last = SEALED.load(Ordering::SeqCst);
                let now = if last || round % 2 == 0 { words } else { nops };
                let wrote = |n: usize| writer.call(peer::op::POKE, &[start + 8 * n as u64, now[n]]).is_ok();
                if !(wrote(0) && wrote(1)) || last {
                    return;
                }
            }
        };
        let Ok(_) = thread::spawn(write, 0) else { return 5 };
        // At some moment while it writes.
        while load(start) != words[0] {
            thread::yield_now();
        }
        time::sleep_ns(20_000 * (secret % 97));
    }
    if code.seal().is_err() {
        return 6;
    }
    SEALED.store(true, Ordering::SeqCst);
    if aim == CHANGED && section::info(base).is_ok_and(|info| info.unclear == 0) {
        // It counts as harmless: as soon as it is not, it is run.
        let until = time::now_ns() + CHANGES_NS;
        while [load(start), load(start + 8)] != opening() && time::now_ns() < until {
            core::hint::spin_loop();
        }
    }
    let area = Box::new([[0u64; 8]; 64]);
    let words = area.as_ptr() as u64 & !63;
    let _ = ask(op::GET);
    match aim {
        0 | CHANGED => i32::from(run(start, place, 0) == secret) * TOUCHED,
        BY_XRSTOR => {
            store(words + 512, 0x200);
            i32::from(run(start, place, words) == secret) * TOUCHED
        }
        _ => {
            let (to, value) = match aim {
                1 => (place, 1),
                // The frame on top: none; the kernel's memory; a frame of one's own making.
                2 => (HEAD, 0),
                3 => (HEAD, 0xffff_8000_0000_1000),
                4 => (HEAD + 0xff0, place),
                _ => (HEAD + 0xf010, place),
            };
            run(start, to, value);
            // It went through. What does the kernel make of it?
            let _ = (ask(op::GET), task::identity());
            TOUCHED
        }
    }
}

fn attack(scene: &Scene, aim: u64, at: u64) -> Result<(), String> {
    let gate = format!("{:#x}", scene.victim.gate);
    let exit = run_role(&["attack", "code", &gate, &format!("{aim}"), &format!("{at}")])?;
    same!(exit.kind, exit::FAULT, "aim {aim} at {at:#x}: code {}", exit.code);
    scene.holds("after that")
}

/// It may run, alone with what it may touch. If the gate's memory were there for it, with a key that it opens, it would make
/// its own frames; the kernel believes them.
fn opened_by_unclear_code() -> Outcome {
    let scene = Scene::set()?;
    for aim in 0..AIMS {
        // Plainly, and across the borders of pages.
        for at in [0, 5, PAGE - 8, PAGE - 7, 2 * PAGE - 8] {
            attack(&scene, aim, at)?;
        }
    }
    scene.end()
}

/// XRSTOR counts as harmless, since XCR0 does not let it load the key register: it runs where others are.
fn restored_from_memory() -> Outcome {
    let scene = Scene::set()?;
    attack(&scene, BY_XRSTOR, 0)?;
    scene.end()
}

/// How long a text that counts as harmless is watched.
const CHANGES_NS: u64 = 20_000_000;

/// The code that opens all keys, as it is stored.
fn opening() -> [u64; 2] {
    let mut open = open_all();
    open.resize(16, 0x90);
    [0, 8].map(|n| u64::from_le_bytes(open[n..n + 8].try_into().unwrap_or_default()))
}

/// Who looks at the code first and makes it unwritable afterwards has looked at something else.
fn changed_while_sealed() -> Outcome {
    let scene = Scene::set()?;
    for round in 0..12 {
        let secret = scene.secret + round;
        scene.victim.call(op::SET, &[secret]).map_err(doing("the secret"))?;
        let gate = format!("{:#x}", scene.victim.gate);
        let exit = run_role(&["attack", "code", &gate, &format!("{CHANGED}"), "0"])?;
        same!(exit.kind, exit::FAULT, "round {round}: code {}", exit.code);
        same!(scene.victim.call(op::GET, &[]), Ok(secret), "the secret in round {round}");
    }
    scene.victim.end()
}

/// So often a page is on its way into a section when that becomes a text.
const ON_ITS_WAY: u64 = 150;
/// Pages of their own that keep whoever takes the page waiting in between.
const BESIDE: u64 = 256;

/// Who looks where a page is to go, and waits for the page, puts it into something else by then. A text that has it is one that was looked
/// through with it; and the page is in one of the two, or else its own program's race has cost it its own page.
fn taken_while_sealed() -> Outcome {
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let source = data((BESIDE + 1) * PAGE).map_err(doing("create"))?.base();
    let page = source + BESIDE * PAGE;
    let mut bytes = open_all()[6..].to_vec();
    bytes.resize(8, 0x90);
    let code = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let beside = thread::spawn(
        move || {
            while !STOP.load(Ordering::Relaxed) {
                let _ =
                    (stub::page_alloc(&Trap, source, BESIDE * PAGE, 0), stub::page_free(&Trap, source, BESIDE * PAGE));
            }
        },
        0,
    )
    .map_err(doing("a thread"))?;
    let (mut went, mut late) = (0u64, 0);
    for round in 0..ON_ITS_WAY {
        let text = data(2 * PAGE).map_err(doing("create"))?;
        let to = text.base() + PAGE;
        store(page, code);
        let take = move || {
            let _ = stub::page_take(&Trap, page, to);
        };
        let taker = thread::spawn(take, 0).map_err(doing("a thread"))?;
        time::sleep_ns(1000 * (round * 37 % 211));
        let text = text.seal().map_err(doing("seal"))?;
        taker.join().map_err(doing("join"))?;
        if load(to) == code {
            went += 1;
            same!(
                section::info(text).map_err(doing("section"))?.unclear,
                to,
                "round {round}: the unclear page of what has it"
            );
        } else {
            late += 1;
            same!(load(page), code, "round {round}: what was not taken");
        }
        section::delete(text).map_err(doing("delete"))?;
    }
    STOP.store(true, Ordering::Relaxed);
    beside.join().map_err(doing("join"))?;
    same!(went + late, ON_ITS_WAY, "rounds");
    section::delete(source).map_err(doing("delete"))
}

/// A program of its own that has these bytes at this offset of its text, and begins with `code`; others have these rights to it.
struct Made {
    task: u64,
    text: u64,
    /// What it is told and says: see `asm.rs`.
    block: u64,
}

const ALL: Rights = Rights::READ.union(Rights::EXECUTE).union(Rights::CALL);

impl Made {
    fn start(code: extern "C" fn(u64), word: u64, bytes: &[u8], at: u64, rights: Rights) -> Result<Made, String> {
        let block = data(PAGE).map_err(doing("create"))?.base();
        section::grant(block, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        store(block, word);
        store(block + 8, u64::MAX);
        let child = task::create(&Limits::default(), 1, b"made").map_err(doing("task"))?;
        let mut text = data(3 * PAGE).map_err(doing("create"))?;
        // SAFETY: code of this program, shorter than that; what lies behind it is code, too.
        let code = unsafe { core::slice::from_raw_parts(code as *const () as *const u8, 96) };
        text.bytes_mut()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        text.bytes_mut()[0x800..0x860].copy_from_slice(code);
        let base = text.seal().map_err(doing("seal"))?;
        section::grant(base, &everybody(rights)).map_err(doing("grant"))?;
        // Who executes it may go on, on whatever thread.
        let own = AclEntry { text: base, ..everybody(ALL) };
        section::grant(base, &own).map_err(doing("grant"))?;
        // Its maker has no more rights than others, but to start it.
        let start = musubi::start();
        let rights = Rights::CHANGE_ACL.bits();
        let maker = AclEntry { principal: principal::TASK, rights, id: start.task(), text: start.text() };
        section::grant(base, &maker).map_err(doing("grant"))?;
        section::give(base, child).map_err(doing("give"))?;
        task::start(child, base, base + 0x800, block, 0).map_err(doing("start"))?;
        Ok(Made { task: child, text: base, block })
    }
}

/// The binding of such a program to the gates at `gate`.
fn bound_with(gate: u64, bytes: &[u8], at: u64) -> Result<(u64, Binding), String> {
    let made = Made::start(binds, gate, bytes, at, ALL)?;
    let (_, exit) = musubi::processes::collect(made.task, 20_000_000_000).map_err(doing("its end"))?;
    same!((exit.kind, exit.code, load(made.block + 8)), (exit::EXITED, 0, 0), "how it ended");
    // SAFETY: the kernel wrote it there for the child.
    Ok((made.text, unsafe { *((made.block + 16) as *const Binding) }))
}

/// This program's binding to such a program, which answers 42 whatever it is asked; and which page of its text is told not to be clear.
fn bound_to(bytes: &[u8], at: u64, rights: Rights) -> Result<(u64, Binding, u64), String> {
    let made = Made::start(exports, 0, bytes, at, rights)?;
    while load(made.block + 8) == u64::MAX {
        thread::yield_now();
    }
    same!(load(made.block + 8), 0, "its gate");
    let bound = Bound::bind(load(made.block + 16), 0).map_err(doing("bind"))?;
    for round in 0..40 {
        same!(bound.call(0, [round; 6]), Ok([0, 42]), "call {round}");
    }
    let (binding, shown) = (*bound.binding(), section::info(made.text).map_err(doing("section"))?.unclear);
    bound.unbind().map_err(doing("unbind"))?;
    task::kill(made.task).map_err(doing("kill"))?;
    Ok((made.text, binding, shown))
}

/// Such a program, for people to look at, for so many milliseconds.
pub fn unclear_for(ms: u64) -> i32 {
    let Ok(made) = Made::start(exports, 0, &open_all()[6..], PAGE + 3, ALL) else { return 1 };
    time::sleep_ns(ms * 1_000_000);
    i32::from(task::kill(made.task).is_err())
}

/// What a callee is decides, too, and a binding says what it was. The calls work either way.
fn reasons_of_the_callee() -> Outcome {
    let keys = has_keys(&Peer::start()?.bound);
    let open = open_all();
    let wanted = |why, page| if keys { (why, page) } else { (why::NO_KEYS, 0) };
    let (_, clear, none) = bound_to(&[0x90; 8], 0, ALL)?;
    same!((clear.why, clear.page), wanted(why::DIRECT, 0), "of a clear text");
    let (base, unclear, shown) = bound_to(&open[6..], PAGE + 3, ALL)?;
    same!((unclear.why, unclear.page), wanted(why::CALLEE_UNCLEAR, base + PAGE), "of one that is not");
    let (_, closed, _) = bound_to(&[0x90; 8], 0, Rights::CALL)?;
    same!((closed.why, closed.page), wanted(why::NOT_EXECUTABLE, 0), "of one that nobody else executes");
    same!([none, shown], [0, base + PAGE], "what everybody can read of both texts");
    same!([unclear.grade, closed.grade], [grade::EPC_S; 2], "grades");
    Ok(())
}

/// At any byte, across pages, within other instructions: such a text is bound by EPC-S, and the binding says why.
fn hidden_instructions() -> Outcome {
    let scene = Scene::set()?;
    let keys = has_keys(&scene.victim.bound);
    let grade_of = |good: bool| if keys && good { grade::EPC_H } else { grade::EPC_S };
    let (_, plain) = bound_with(scene.victim.gate, &[0x90; 8], 0)?;
    same!(plain.grade, grade_of(true), "the grade of a clear text");
    same!(plain.why, if keys { why::DIRECT } else { why::NO_KEYS }, "why");
    let open = open_all();
    let write = &open[6..];
    // mov eax, imm32, whose last bytes are the instruction; an instruction with a useless prefix.
    let within = [&[0xb8, 0x00][..], write].concat();
    let prefixed = [&[0x2e, 0x66, 0x48][..], write].concat();
    let cases =
        [(write, 3, 0), (write, PAGE - 1, 1), (write, PAGE - 2, 1), (write, 2 * PAGE - 1, 2), (write, 3 * PAGE - 3, 2)];
    let more = [(&within[..], 0, 0), (&prefixed[..], 0x123, 0), (&within[..], PAGE - 4, 1)];
    for (bytes, at, page) in cases.into_iter().chain(more) {
        let (base, binding) = bound_with(scene.victim.gate, bytes, at)?;
        same!(binding.grade, grade::EPC_S, "the grade with it at {at:#x}");
        if keys {
            same!((binding.why, binding.page), (why::CALLER_UNCLEAR, base + page * PAGE), "why, with it at {at:#x}");
        }
    }
    holds!(scene.victim.bound.binding().grade == grade_of(true), "the grade of this program");
    scene.end()
}
