//! A record by which the kernel has a thread call a pager, taken again when another program lies where the one did that it was written for
//! (pitfalls, H3).

use super::{earn_by, has_keys, op, record, without_keys};
use crate::memory::{await_word, data, load, store};
use crate::pagers::read;
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use core::arch::naked_asm;
use core::mem::offset_of;
use musubi::abi::calls::number;
use musubi::abi::gate::{Record, flag};
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::section::kind;
use musubi::abi::task::Limits;
use musubi::rt::info::{self, Info};
use musubi::rt::pager::answer;
use musubi::rt::section::{self, invalidate};
use musubi::rt::{Bound, Section, task, thread};
use musubi::{AclEntry, Error, Rights};

/// Words of the block that a program and the check share: the section whose pager it is; its gate; whether its kernel calls failed, when all
/// are made.
const PAGED: u64 = 0;
const GATE: u64 = 8;
const FAILED: u64 = 16;
/// Where its pager loads a word from (0: nowhere), and when; what it got.
const FROM: u64 = 24;
const GO: u64 = 32;
const GOT: u64 = 40;
/// By which record that was called, and the key register's value in it.
const AT: u64 = 48;
const TOLD: u64 = 56;

/// A text that never was, below all others: the first that a class names.
const NOBODY: u64 = GRANULE;
const SECRET: u64 = 0x5ec2_e700;

/// The program: a gate that says by which record it was called, and a pager, which waits before it goes back. None of them touches a stack: there
/// is no class then that names the text, and the register is the same in the next one there.
#[unsafe(naked)]
extern "C" fn program(block: u64) {
    naked_asm!(
        "mov rbx, rdi",
        "mov eax, {gate_create}",
        "lea rdi, [rip + 3f]",
        "mov esi, 1",
        "xor edx, edx",
        "xor r10d, r10d",
        "syscall",
        "mov r12, rdx",
        "mov r13, rax",
        "mov eax, {gate_create}",
        "lea rdi, [rip + 4f]",
        "mov esi, 1",
        "mov rdx, rbx",
        "mov r10d, {called_up}",
        "syscall",
        "or r13, rax",
        "mov eax, {section_pager}",
        "mov rdi, [rbx + {paged}]",
        "mov rsi, rdx",
        "mov edx, 1",
        "xor r10d, r10d",
        "syscall",
        "or r13, rax",
        "mov [rbx + {gate}], r12",
        "mov [rbx + {failed}], r13",
        "2:",
        "mov eax, {sleep}",
        "mov edi, 1000000000",
        "syscall",
        "jmp 2b",
        // The gate.
        "3:",
        "xor eax, eax",
        "mov rdx, rbx",
        "jmp [rbx + {back}]",
        // The pager, whose cookie is the block.
        "4:",
        "mov rcx, [rbx + {cookie}]",
        "mov eax, [rbx + {register}]",
        "mov [rcx + {told}], rax",
        "mov [rcx + {at}], rbx",
        "5:",
        "pause",
        "cmp qword ptr [rcx + {go}], 0",
        "je 5b",
        "mov rax, [rcx + {from}]",
        "test rax, rax",
        "je 6f",
        "mov rax, [rax]",
        "mov [rcx + {got}], rax",
        "6:",
        "xor eax, eax",
        "mov edx, {valid}",
        "jmp [rbx + {back}]",
        gate_create = const number("gate_create"),
        section_pager = const number("section_pager"),
        sleep = const number("sleep"),
        called_up = const flag::CALLED_UP,
        valid = const answer::VALID,
        paged = const PAGED,
        failed = const FAILED,
        gate = const GATE,
        from = const FROM,
        go = const GO,
        got = const GOT,
        at = const AT,
        told = const TOLD,
        back = const offset_of!(Record, back),
        cookie = const offset_of!(Record, cookie),
        register = const offset_of!(Record, register),
    )
}

/// Longer than that.
const LEN: usize = 256;

/// Such a program, at `at`, and a binding to it.
struct Program {
    text: u64,
    bound: Bound,
}

impl Program {
    fn start(at: u64, block: u64, paged: u64) -> Result<Program, String> {
        let mut text =
            Section::create_at(PAGE, GRANULE, kind::DATA, 0, at, 0).map_err(doing("a place for the text"))?;
        // SAFETY: code of this program; what lies behind it is code, too.
        let code = unsafe { core::slice::from_raw_parts(program as *const () as *const u8, LEN) };
        text.bytes_mut()[..LEN].copy_from_slice(code);
        let text = text.seal().map_err(doing("seal"))?;
        let all = Rights::READ | Rights::EXECUTE | Rights::CALL;
        section::grant(text, &everybody(all)).map_err(doing("grant"))?;
        let pager = AclEntry { text, ..everybody(Rights::CHANGE_ACL) };
        section::grant(paged, &pager).map_err(doing("letting it be a pager"))?;
        [FROM, GO, GOT, AT, TOLD].into_iter().for_each(|word| store(block + word, 0));
        store(block + PAGED, paged);
        store(block + FAILED, u64::MAX);
        // Its own thread is of use for as long as it makes that. The text is this program's, and stays.
        let user = musubi::start().user();
        let child = task::create(&Limits::default(), user, b"pager").map_err(doing("task"))?;
        task::start(child, text, text, block, 0).map_err(doing("start"))?;
        while load(block + FAILED) == u64::MAX {
            thread::yield_now();
        }
        same!(load(block + FAILED), 0, "its gates and its section");
        task::kill(child).map_err(doing("kill"))?;
        musubi::processes::collect(child, 20_000_000_000).map_err(doing("its end"))?;
        let bound = Bound::bind(load(block + GATE), 0).map_err(doing("bind"))?;
        Ok(Program { text, bound })
    }

    /// By which record this thread calls it.
    fn record(&self) -> Result<u64, String> {
        let [_, at] = self.bound.call(0, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("a call"))?;
        Ok(at)
    }

    fn end(self) -> Outcome {
        section::delete(self.text).map_err(doing("its end"))?;
        self.bound.unbind().map_err(doing("unbind"))
    }
}

/// The first text that is named by the class that has this key now.
fn holder(key: u32) -> Option<u64> {
    let about = info::of_users(musubi::start().user());
    let own = about.iter().flat_map(Info::keys).find(|one| one.task == task::own())?;
    // The processor's first two are no class's.
    own.key.get((key as usize).checked_sub(2)?).map(|key| key.text)
}

/// Two pagers at one address, one after the other, and the second is called by the record of the first. While it serves, a key that it may read
/// with becomes that of what it may not touch: it has to hear of that.
pub fn by_a_record() -> Outcome {
    let room = Section::create_at(PAGE, GRANULE, kind::DATA, 0, 0, GRANULE).map_err(doing("create with room"))?;
    let at = room.base() + GRANULE;
    let block = data(PAGE).map_err(doing("create"))?.base();
    section::grant(block, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let paged = data(PAGE).map_err(doing("create"))?.base();
    store(paged, 1);
    // All may read it; its class has a key until the text ends that it is named after.
    let named = data(PAGE).map_err(doing("create"))?.seal().map_err(doing("seal"))?;
    let open = data(PAGE).map_err(doing("create"))?.base();
    section::grant(open, &everybody(Rights::READ)).map_err(doing("grant"))?;
    let writer = AclEntry { text: named, ..everybody(Rights::READ | Rights::WRITE) };
    section::grant(open, &writer).map_err(doing("grant"))?;
    store(open, 1);
    // Of a class of its own.
    let secret = data(PAGE).map_err(doing("create"))?.base();
    let nobody = AclEntry { text: NOBODY, ..everybody(Rights::READ) };
    section::grant(secret, &nobody).map_err(doing("grant"))?;

    let first = Program::start(at, block, paged)?;
    if !has_keys(&first.bound) {
        first.end()?;
        return without_keys();
    }
    earn_by(&first.bound)?;
    store(block + GO, 1);
    invalidate(paged, PAGE).map_err(doing("invalidate"))?;
    same!(read(paged), Some(1), "what the first one is the pager of");
    let loose = load(block + AT);
    first.end()?;

    let second = Program::start(at, block, paged)?;
    earn_by(&second.bound)?;
    let kept = record(loose).register;
    let changes = move || {
        await_word(block + AT);
        let ended = section::delete(named);
        store(secret, SECRET);
        store(block + FROM, secret);
        store(block + GO, 1);
        thread::exit(ended.map_or_else(Error::word, |()| 0));
    };
    let changes = thread::spawn(changes, 0).map_err(doing("thread"))?;
    invalidate(paged, PAGE).map_err(doing("invalidate"))?;
    let served = read(paged);
    holds!(load(block + AT) != 0, "the second one was not called");
    same!(changes.join(), Ok(0), "the end of what the class is named after");
    // That it was so: that record, as it was; and the key.
    let told = load(block + TOLD) as u32;
    same!((load(block + AT), told), (loose, kept), "by which record the second one was called, and its register");
    let now = record(second.record()?).register;
    holds!(now != told, "no key has changed hands");
    same!(holder((now ^ told).trailing_zeros() / 2), Some(NOBODY), "whose key it is now");
    same!(load(block + GOT), 0, "what the pager has read of what the key is for now");
    same!((record(loose).register, served), (now, None), "the register by that record, and what it was called for");
    second.end()
}
