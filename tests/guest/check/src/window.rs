//! A page that is reached by two addresses: its section's own, and one in a program's window, by the program's personality (SSS-41;
//! architecture, section 2). Whatever is done to the page is done at both.

mod paged;

use crate::attacks::op;
use crate::peer::Peer;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::{number, stub};
use musubi::abi::frame::Frame;
use musubi::abi::gate::{GATE_BASE, PASSED_FOR_WRITING};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{flag, kind};
use musubi::abi::task::{Limits, cause, exit};
use musubi::abi::{AclEntry, Rights};
use musubi::rt::bound::result_of;
use musubi::rt::{Section, Trap, plain_call, section, task, thread, time};
use musubi::{Error, processes};

pub const CHECKS: &[Check] = &[
    ("two_addresses_of_a_page", || by_two_addresses(true)),
    ("two_addresses_and_another_program", || by_two_addresses(false)),
    ("what_a_personality_finds_by_fs", by_segments),
    ("no_window_reaches_the_gate", at_the_gate),
    ("a_window_without_a_personality", without_a_personality),
    ("nobody_is_passed_a_window", passed),
    ("a_tasks_pager_in_a_window", paged::paged),
];

/// In the window: its code, and two pages of the section from its second on.
const CODE: u64 = 0x40_0000;
const AT: u64 = 0x50_0000;
const SHARED: u64 = 2 * PAGE;
/// Pages of the section.
const PAGES: u64 = 4;

/// What is done to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Invalidate,
    Validate,
    Free,
    Take,
    Clone,
    ReadOnly,
    Writable,
    Protect,
    Unprotect,
    Unmap,
    Map,
    Cut,
    Grow,
    Delete,
}

/// A step; then whether the page can be loaded and stored to at its own address, and in the window; whether it is what it was.
type Row = (Step, [bool; 4], bool);
const BOTH: [bool; 4] = [true; 4];
const NEITHER: [bool; 4] = [false; 4];

const STEPS: [Row; 18] = [
    (Step::Nothing, BOTH, true),
    (Step::Invalidate, NEITHER, true),
    (Step::Validate, BOTH, true),
    (Step::Invalidate, NEITHER, true),
    (Step::Validate, BOTH, true),
    (Step::Free, BOTH, false),
    (Step::Take, BOTH, false),
    (Step::Clone, BOTH, true),
    (Step::ReadOnly, [true, false, true, false], true),
    (Step::Writable, BOTH, true),
    (Step::Protect, [true, true, true, false], true),
    (Step::Unprotect, BOTH, true),
    (Step::Unmap, [true, true, false, false], true),
    (Step::Map, BOTH, true),
    (Step::Cut, NEITHER, true),
    (Step::Grow, BOTH, false),
    (Step::Clone, BOTH, true),
    (Step::Delete, NEITHER, true),
];

/// Of the section, of where its page can be taken to, and the program.
static BASE: AtomicU64 = AtomicU64::new(0);
static OTHER: AtomicU64 = AtomicU64::new(0);
static TASK: AtomicU64 = AtomicU64::new(0);
/// What the personality is to do: a number that goes up with each, which step (index in [`STEPS`]) it does itself, a value to store, and whether
/// at the own address.
static ASKED: AtomicU64 = AtomicU64::new(0);
static DOES: AtomicU64 = AtomicU64::new(NOTHING);
static VALUE: AtomicU64 = AtomicU64::new(0);
static AT_OWN: AtomicU64 = AtomicU64::new(0);
/// And what it says: of which number, what its step came to, causes of faults (0: none) of a load and a store at each address, what was loaded.
static SAID: AtomicU64 = AtomicU64::new(0);
static CAME: AtomicU64 = AtomicU64::new(0);
static FOUND: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];
static CAUSE: AtomicU64 = AtomicU64::new(0);

const NOTHING: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// A load or a store that can fault: then it is 1 in `rdx`, and `r8` says where to go on.
#[repr(C)]
struct Tried {
    value: u64,
    faulted: u64,
}

#[unsafe(naked)]
extern "C" fn load(at: u64) -> Tried {
    naked_asm!("lea r8, [rip + 3f]", "mov rax, [rdi]", "xor edx, edx", "ret", "3:", "mov edx, 1", "ret")
}

#[unsafe(naked)]
extern "C" fn store(at: u64, value: u64) -> Tried {
    naked_asm!("lea r8, [rip + 3f]", "mov [rdi], rsi", "xor edx, edx", "ret", "3:", "mov edx, 1", "ret")
}

/// The fault entry.
extern "C" fn skip(frame: &mut Frame) -> ! {
    CAUSE.store(frame.cause, Ordering::SeqCst);
    frame.rip = frame.r8;
    let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, 1);
    loop {
        thread::yield_now();
    }
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::SeqCst)
}

fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::SeqCst);
}

fn own() -> u64 {
    get(&BASE) + PAGE
}

fn entry(rights: Rights) -> AclEntry {
    AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: task::identity().text }
}

fn map(protection: Rights) -> Result<u64, Error> {
    stub::window_map(&Trap, get(&TASK), AT, get(&BASE), PAGE, SHARED, u64::from(protection.bits()))
}

fn perform(step: Step) -> Result<(), Error> {
    let (task, base) = (get(&TASK), get(&BASE));
    let usual = Rights::READ | Rights::WRITE;
    let protect = |rights: Rights| stub::window_protect(&Trap, task, AT, SHARED, u64::from(rights.bits()));
    match step {
        Step::Nothing => Ok(()),
        Step::Invalidate => section::invalidate(own(), PAGE),
        Step::Validate => section::validate(own(), PAGE),
        Step::Free => section::alloc(own(), PAGE).and_then(|()| section::free(own(), PAGE)),
        Step::Take => stub::page_take(&Trap, own(), get(&OTHER)).map(drop),
        Step::Clone => {
            // Whoever stores next copies the page; what was there is the clone's.
            let before = load(own()).value;
            // Who is not in that window has no other address.
            let at = if task::own() == task { AT } else { own() };
            let clone = Section::clone_of(base, 0, 0, 0)?;
            let stored = store(at, before.wrapping_add(1)).faulted + store(own() + 8, 7).faulted;
            let kept = load(clone.base() + PAGE).value == before;
            let is_new = load(own()).value == before.wrapping_add(1);
            clone.delete()?;
            let back = store(own(), before).faulted;
            if stored + back == 0 && kept && is_new { Ok(()) } else { Err(Error::Changed) }
        }
        Step::ReadOnly => section::grant(base, &entry(Rights::READ | Rights::CHANGE_ACL)),
        Step::Writable => section::grant(base, &entry(usual | Rights::CHANGE_ACL)),
        Step::Protect => protect(Rights::READ).map(drop),
        Step::Unprotect => protect(usual).map(drop),
        Step::Unmap => stub::window_unmap(&Trap, task, AT, SHARED).map(drop),
        Step::Map => map(usual).map(drop),
        Step::Cut => stub::section_resize(&Trap, base, PAGE).map(drop),
        Step::Grow => stub::section_resize(&Trap, base, PAGES * PAGE).map(drop),
        Step::Delete => section::delete(base),
    }
}

static WORDS: [AtomicU64; 2] = [AtomicU64::new(1), AtomicU64::new(2)];
static BY_SEGMENTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

#[unsafe(naked)]
extern "C" fn by_fs(at: u64) -> u64 {
    naked_asm!("mov rax, fs:[rdi]", "ret")
}

#[unsafe(naked)]
extern "C" fn by_gs(at: u64) -> u64 {
    naked_asm!("mov rax, gs:[rdi]", "ret")
}

/// A program in a window chooses both bases; its personality, which it calls, finds by them what it finds without (pitfalls, H5).
fn by_segments() -> Outcome {
    begin().map_err(doing("setting it up"))?;
    ask(NOTHING, 0, false)?;
    same!([get(&BY_SEGMENTS[0]), get(&BY_SEGMENTS[1])], [1, 1], "the word at an address, by FS and by GS");
    end()
}

/// The window ends where the gate begins: a personality that could map there would choose what its program's threads have for frames, and
/// whose (pitfalls, H2).
fn at_the_gate() -> Outcome {
    begin().map_err(doing("setting it up"))?;
    let usual = u64::from((Rights::READ | Rights::WRITE).bits());
    let (task, base) = (get(&TASK), get(&BASE));
    for at in [GATE_BASE, GATE_BASE + (1 << 30) + PAGE, GATE_BASE - PAGE] {
        let tried = [
            stub::window_map(&Trap, task, at, base, 0, 2 * PAGE, usual),
            stub::window_unmap(&Trap, task, at, 2 * PAGE),
            stub::window_protect(&Trap, task, at, 2 * PAGE, usual),
        ];
        same!(tried, [Err(Error::BadAddress); 3], "mapped, unmapped, protected: {at:#x}");
    }
    // The program's thread is well.
    same!(ask(NOTHING, 0, false)?[..4], [0; 4], "afterwards");
    end()
}

/// What was mapped in the window of a program that is started without a personality is not there: touching it ends, as for every other address.
fn without_a_personality() -> Outcome {
    let all = |rights: Rights| AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: ANY_TEXT };
    let pages = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(doing("create"))?;
    section::grant(pages.base(), &all(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut code = Section::create(PAGE, 2 * PAGE, kind::DATA, 0).map_err(doing("create"))?;
    // mov eax, [AT]; mov eax, 2; mov edi, 7; syscall: the end of the program, with a status.
    let load = [0x8b, 0x04, 0x25].into_iter().chain((AT as u32).to_le_bytes());
    let bytes = load.chain([0xb8, 2, 0, 0, 0, 0xbf, 7, 0, 0, 0, 0x0f, 0x05]);
    code.bytes_mut().iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    let text = code.seal().map_err(doing("seal"))?;
    section::grant(text, &all(Rights::READ | Rights::EXECUTE)).map_err(doing("grant"))?;
    let task = task::create(&Limits::default(), task::identity().user, b"native").map_err(doing("task"))?;
    let usual = u64::from((Rights::READ | Rights::WRITE).bits());
    stub::window_map(&Trap, task, AT, pages.base(), 0, PAGE, usual).map_err(doing("map"))?;
    task::start(task, text, text, 0, 0).map_err(doing("start"))?;
    let (_, exit) = processes::collect(task, 20_000_000_000).map_err(doing("its end"))?;
    same!((exit.kind, exit.address), (exit::FAULT, AT), "how it ended");
    section::delete(text).and_then(|()| pages.delete()).map_err(doing("delete"))
}

/// A thread whose task has a window, in this program: what it passes to another one, at its own address and in the window. The peer's gate, and where the words are; then
/// the answers.
static PASSES: [AtomicU64; 5] = [const { AtomicU64::new(u64::MAX) }; 5];

extern "C" fn passes(_: u64) {
    let [gate, words, ..] = PASSES.each_ref().map(|word| word.load(Ordering::SeqCst));
    for at in [0, 1] {
        let asks = [op::KERNEL, number("may_pass"), words + at * 64, 0, 0, 0];
        let answer = plain_call(gate, asks).and_then(result_of).unwrap_or(u64::MAX - 1);
        PASSES[2 + at as usize].store(answer, Ordering::SeqCst);
    }
    let _ = stub::task_exit(&Trap, 0);
}

/// The window may show something else at the next moment, where the one that it was passed to would store with rights of its own.
fn passed() -> Outcome {
    let usual = u64::from((Rights::READ | Rights::WRITE).bits());
    let all = AclEntry { principal: principal::ANY, rights: usual as u32, id: 0, text: ANY_TEXT };
    let pages = Section::create(2 * PAGE, 2 * PAGE, kind::DATA, 0).map_err(doing("create"))?;
    section::grant(pages.base(), &all).map_err(doing("grant"))?;
    let (peer, words) = (Peer::start()?, pages.base() + PAGE);
    // The arguments of two calls: a page by its own address, and in the window.
    crate::memory::store(words, pages.base());
    crate::memory::store(words + 64, AT);
    [words, words + 64].into_iter().for_each(|at| crate::memory::store(at + 8, 8 | PASSED_FOR_WRITING));
    PASSES[0].store(peer.gate, Ordering::SeqCst);
    PASSES[1].store(words, Ordering::SeqCst);
    let task = task::create(&Limits::default(), task::identity().user, b"passes").map_err(doing("task"))?;
    let gate = stub::gate_create(&Trap, upcall as *const () as u64, 1, 0, musubi::abi::gate::flag::CALLED_UP);
    let gate = gate.map_err(doing("gate"))?;
    stub::foreign_set(&Trap, task, gate, musubi::start().text()).map_err(doing("a personality"))?;
    stub::window_map(&Trap, task, AT, pages.base(), 0, PAGE, usual).map_err(doing("map"))?;
    task::start(task, musubi::start().text(), passes as *const () as u64, 0, 0).map_err(doing("start"))?;
    let (_, exit) = processes::collect(task, 20_000_000_000).map_err(doing("its end"))?;
    let answers = [2, 3].map(|at| PASSES[at].load(Ordering::SeqCst));
    same!((exit.kind, exit.code, answers), (exit::EXITED, 0, [1, 0]), "how it ended, and what may be passed");
    peer.end()?;
    pages.delete().map_err(doing("delete"))
}

/// Of the program.
fn end() -> Outcome {
    set(&DOES, END);
    ASKED.fetch_add(1, Ordering::SeqCst);
    processes::collect(get(&TASK), 20_000_000_000).map(drop).map_err(doing("the program's end"))
}

/// The personality, on the program's thread.
extern "C" fn upcall(_: &mut Frame) -> ! {
    let words = WORDS.as_ptr() as u64;
    set(&BY_SEGMENTS[0], by_fs(words));
    set(&BY_SEGMENTS[1], by_gs(words));
    let mut seen = 0;
    // First in the window: by one address nothing is known of the other.
    let _ = load(AT);
    loop {
        while get(&ASKED) == seen {
            thread::yield_now();
        }
        seen = get(&ASKED);
        let does = get(&DOES);
        if does == END {
            let _ = stub::task_end(&Trap, get(&TASK), 0);
        }
        let step = STEPS.get(does as usize).map_or(Step::Nothing, |row| row.0);
        set(&CAME, perform(step).map_or_else(|error| error.word(), |()| 0));
        let value = get(&VALUE);
        if value != 0 {
            let _ = store(if get(&AT_OWN) != 0 { own() } else { AT }, value);
        }
        let mut values = [0; 2];
        for (n, at) in [own(), AT].into_iter().enumerate() {
            let of = |tried: &Tried| if tried.faulted != 0 { get(&CAUSE) } else { 0 };
            let loaded = load(at);
            set(&FOUND[2 * n], of(&loaded));
            values[n] = loaded.value;
            // Not where it is looked at.
            set(&FOUND[2 * n + 1], of(&store(at + 16, seen)));
        }
        values.into_iter().zip(&FOUND[4..]).for_each(|(value, to)| set(to, value));
        set(&SAID, seen);
    }
}

/// Has the personality do something. Value: what it has found.
fn ask(does: u64, value: u64, at_own: bool) -> Result<[u64; 6], alloc::string::String> {
    set(&DOES, does);
    set(&VALUE, value);
    set(&AT_OWN, u64::from(at_own));
    let number = ASKED.fetch_add(1, Ordering::SeqCst) + 1;
    let until = time::now_ns() + 20_000_000_000;
    while get(&SAID) != number {
        holds!(time::now_ns() < until, "the personality does not answer");
        thread::yield_now();
    }
    same!(get(&CAME), 0, "step {does}");
    Ok(core::array::from_fn(|n| get(&FOUND[n])))
}

/// `itself`: the personality does what is done, and nobody else has the section mapped. Otherwise this program does, beside it.
fn by_two_addresses(itself: bool) -> Outcome {
    begin().map_err(doing("setting it up"))?;
    let mut value = 0;
    for (n, (step, can, keeps)) in STEPS.into_iter().enumerate() {
        // What both can be stored at is stored at one of them. If not, this step mends it, and the page is as it was.
        if ask(NOTHING, 0, false)?[..4] == [0; 4] {
            value = 1000 + n as u64;
            same!(ask(NOTHING, value, n % 2 == 0)?[4..], [value; 2], "what was stored before {step:?}");
        }
        if !itself {
            // So that it is mapped here, too.
            let _ = load(own());
            perform(step).map_err(|error| format!("{step:?}: {error}"))?;
        }
        let found = ask(if itself { n as u64 } else { NOTHING }, 0, false)?;
        let could: [bool; 4] = core::array::from_fn(|n| found[n] == 0);
        same!(could, can, "{step:?}: load and store at its own address, and in the window: {found:?}");
        if step == Step::Invalidate {
            same!(found[..4], [cause::INVALID; 4], "why not");
        }
        if can[0] && can[2] {
            same!(found[4], found[5], "{step:?}: what is at both addresses");
        }
        if can[0] {
            same!(found[4], if keeps { value } else { 0 }, "{step:?}: what is there");
        }
    }
    end()
}

fn begin() -> Result<(), Error> {
    let shared = Section::create(PAGES * PAGE, PAGES * PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    set(&BASE, shared.base());
    let other = Section::create(PAGE, PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    set(&OTHER, other.base());
    let mut code = Section::create(PAGE, PAGE, kind::DATA, 0)?;
    // mov eax, 1; syscall; ud2
    code.bytes_mut()[..9].copy_from_slice(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b]);
    let text = code.seal()?;
    stub::fault_entry(&Trap, skip as *const () as u64, 0)?;
    let task = task::create(&Limits::default(), task::identity().user, b"window")?;
    set(&TASK, task);
    let gate = stub::gate_create(&Trap, upcall as *const () as u64, 1, 0, musubi::abi::gate::flag::CALLED_UP)?;
    stub::foreign_set(&Trap, task, gate, text)?;
    let protection = u64::from((Rights::READ | Rights::EXECUTE).bits());
    stub::window_map(&Trap, task, CODE, text, 0, PAGE, protection)?;
    map(Rights::READ | Rights::WRITE)?;
    // Bases that move what is found by them.
    let frame = Frame { rip: CODE, fs_base: 8, gs_base: 8, ..Frame::default() };
    stub::foreign_start(&Trap, task, &raw const frame as u64).map(drop)
}
