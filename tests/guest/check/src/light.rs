//! The light entry (SSS-39, SSS-40, SSS-43): what it answers, which registers it leaves, and what it leaves to the full one.

use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::format;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::calls::{Call, Entry, LIGHT, LIGHT_COUNT, MBCF, MBCF_COUNT, TABLE, stub};
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::rt::{Trap, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("light_and_full_say_the_same", the_same),
    ("light_calls_answer", they_answer),
    ("light_calls_keep_registers", registers),
    ("numbers_beside_light_calls", beside),
    ("light_calls_while_others_run", while_others_run),
];

/// Six arguments, then what rbx rbp r12 r13 r14 r15 xmm6 (low half) held before the call.
type Before = [u64; 13];
/// The same after it, then rax rcx rdx rsi rdi r8 r9 r10 r11, the flags and how far the stack pointer has moved.
type After = [u64; 18];

/// Makes the call of this number by `syscall`.
#[unsafe(naked)]
extern "C" fn bare(number: u64, before: *const Before, after: *mut After) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx",
        "push rsp",
        "mov rax, rdi",
        "mov r11, rsi",
        "mov rdi, [r11]",
        "mov rsi, [r11 + 8]",
        "mov rdx, [r11 + 16]",
        "mov r10, [r11 + 24]",
        "mov r8, [r11 + 32]",
        "mov r9, [r11 + 40]",
        "mov rbx, [r11 + 48]",
        "mov rbp, [r11 + 56]",
        "mov r12, [r11 + 64]",
        "mov r13, [r11 + 72]",
        "mov r14, [r11 + 80]",
        "mov r15, [r11 + 88]",
        "movq xmm6, [r11 + 96]",
        "syscall",
        "push rax",
        "mov rax, [rsp + 16]",
        "mov [rax], rbx",
        "mov [rax + 8], rbp",
        "mov [rax + 16], r12",
        "mov [rax + 24], r13",
        "mov [rax + 32], r14",
        "mov [rax + 40], r15",
        "movq [rax + 48], xmm6",
        "mov [rax + 64], rcx",
        "mov [rax + 72], rdx",
        "mov [rax + 80], rsi",
        "mov [rax + 88], rdi",
        "mov [rax + 96], r8",
        "mov [rax + 104], r9",
        "mov [rax + 112], r10",
        "mov [rax + 120], r11",
        "pushfq",
        "pop [rax + 128]",
        "pop rcx",
        "mov [rax + 56], rcx",
        "pop rcx",
        "sub rcx, rsp",
        "mov [rax + 136], rcx",
        "pop rdx",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

fn made(number: u64, arguments: [u64; 6]) -> After {
    let mut before: Before = core::array::from_fn(|n| 0x5ec7_0000 + n as u64);
    before[..6].copy_from_slice(&arguments);
    let mut after = [0x1111; 18];
    bare(number, &raw const before, &raw mut after);
    after
}

fn the_same() -> Outcome {
    let me = task::identity();
    same!((task::own(), task::own_by_full_entry()), (me.task, me.task), "this program's task");
    // In a callee the thread is still its caller's, whatever text it executes.
    let peer = Peer::start()?;
    same!(peer.call(op::ADD, &[1]), Ok(1), "a call");
    same!((task::own(), task::own_by_full_entry()), (me.task, me.task), "this program's task after it");
    peer.end()?;
    // On a thread that runs elsewhere, and in another task.
    let other = thread::spawn(move || thread::exit(u64::from(task::own() != me.task)), 0);
    same!(other.and_then(thread::Thread::join), Ok(0), "whether another thread's task is another one");
    let exit = run_role(&["light", &format!("{}", me.task)])?;
    same!(
        (exit.kind, exit.code),
        (exit::EXITED, 0),
        "whether another program's task is this one's, or not the same by both"
    );
    Ok(())
}

/// In another program: its number is not `other`, and the same by both ways.
pub fn role(other: u64) -> i32 {
    i32::from(task::own() == other || task::own() != task::own_by_full_entry() || task::own() != task::identity().task)
}

/// Each of them, with something good and something bad.
fn they_answer() -> Outcome {
    let light = TABLE.iter().filter(|row| row.entry == Entry::Light);
    same!(light.count(), LIGHT_COUNT, "light calls in the table");
    let (first, later) = (time::now_ns(), time::now_ns());
    holds!(0 < first && first <= later, "the clock says {first}, then {later}");
    same!(stub::clock(&Trap, 2), Err(Error::BadArgument), "a clock that is not there");
    let own = musubi::rt::Section::create(2 * PAGE, 0, musubi::abi::section::kind::DATA, 0).map_err(doing("create"))?;
    holds!(section::may(own.base(), 2 * PAGE, Rights::WRITE, section::Who::Own), "an own section is not to be written");
    holds!(!section::may(own.base(), 3 * PAGE, Rights::WRITE, section::Who::Own), "what is behind its end is");
    same!(stub::may(&Trap, own.base(), 1, 1 << 40, 0), Err(Error::BadArgument), "rights that are none");
    same!(stub::may_pass(&Trap, own.base(), PAGE, 0, 0, 0, 0), Err(Error::NotFound), "without a caller");
    same!(stub::section_owner(&Trap, own.base(), 0), Ok(task::own()), "whose it is");
    let reserve = section::info(own.base()).map_err(doing("its reserve"))?.reserve;
    same!(stub::section_owner(&Trap, own.base(), reserve), Ok(task::own()), "whose all of it is");
    same!(stub::section_owner(&Trap, own.base(), reserve + 1), Err(Error::NotFound), "more than there is of it");
    same!(stub::section_owner(&Trap, own.base() + PAGE, 0), Err(Error::NotFound), "an address that is no base");
    holds!(stub::running(&Trap).is_ok_and(|base| base != 0), "who runs where");
    Ok(())
}

/// What a procedure keeps is kept, and nothing of the kernel's is left in the rest.
fn registers() -> Outcome {
    for number in (MBCF..MBCF + MBCF_COUNT as u64).chain(LIGHT..LIGHT + LIGHT_COUNT as u64) {
        for round in 0..200u64 {
            let arguments = core::array::from_fn(|n| round.wrapping_mul(0x9e37_79b9_7f4a_7c15 << n));
            let after = made(number, arguments);
            let kept: [u64; 7] = core::array::from_fn(|n| 0x5ec7_0006 + n as u64);
            same!(after[..7], kept, "rbx rbp r12 r13 r14 r15 xmm6 after call {number:#x}");
            let full = after[10..14]
                == arguments[..2].iter().rev().chain(&arguments[4..]).copied().collect::<alloc::vec::Vec<_>>()[..];
            let lost = after[10..15] == [0; 5];
            holds!(lost || full, "rsi rdi r8 r9 r10 after call {number:#x}: {:x?}", &after[10..15]);
            same!(after[17], 0, "how far the stack pointer has moved");
            holds!(
                after[8] < 1 << 47 && after[15] == after[16],
                "rcx {:#x}, r11 and flags {:x?}",
                after[8],
                &after[15..17]
            );
        }
    }
    Ok(())
}

/// No number that is not a call's leads anywhere: in the holes of the table, behind its end and far from it.
fn beside() -> Outcome {
    let end = LIGHT + LIGHT_COUNT as u64;
    let far = [1 << 31, (1 << 31) + LIGHT, u32::MAX.into()];
    let beside: alloc::vec::Vec<u64> =
        (0..end + 0x400).chain(far).filter(|&number| Call::decode(number, [0; 6]).is_none()).collect();
    holds!(beside.iter().any(|&number| number < MBCF), "no hole before the calls of MBCF");
    holds!(beside.iter().any(|&number| (MBCF..LIGHT).contains(&number)), "no hole before the light calls");
    for number in beside {
        same!(made(number, [0; 6])[7], Error::NoSuchCall.word(), "call {number:#x}");
    }
    Ok(())
}

/// Threads are switched, wake each other and send messages meanwhile: now and then the full entry has to serve a light call.
fn while_others_run() -> Outcome {
    static DONE: AtomicBool = AtomicBool::new(false);
    DONE.store(false, Ordering::SeqCst);
    let me = task::own();
    let count = 2 * task::processors().count();
    let works = move |n: usize| {
        let mut wrong = 0;
        let mut last = 0;
        while !DONE.load(Ordering::Relaxed) {
            wrong += u64::from(task::own() != me);
            let now = time::now_ns();
            wrong += u64::from(now < last);
            last = now;
            if n.is_multiple_of(2) {
                thread::yield_now();
            }
        }
        thread::exit(wrong)
    };
    let mut threads = alloc::vec::Vec::new();
    for n in 0..count {
        threads.push(thread::spawn(move || works(n), 0).map_err(doing("thread"))?);
    }
    time::sleep_ns(300_000_000);
    DONE.store(true, Ordering::SeqCst);
    for one in threads {
        same!(one.join(), Ok(0), "wrong answers");
    }
    Ok(())
}
