#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]

extern crate alloc;

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::abi::AclEntry;
use musubi::abi::calls::stub;
use musubi::abi::rights::principal;
use musubi::abi::section::{SectionInfo, kind};
use musubi::abi::task::{Limits, exit};
use musubi::rt::{Trap, thread};
use musubi::{Rights, Start, println};

musubi::program!(run);

/// As many calls as a thread can be in.
const DEPTH_MAX: u64 = musubi::abi::gate::DEPTH_MAX as u64;
const GRANULE: u64 = musubi::abi::layout::GRANULE;

type Attack = (&'static str, &'static str, fn());

const ATTACKS: &[Attack] = &[
    ("nested-task", "enters the kernel with the flag NT set", nested_task),
    ("reuse", "keeps a page of a section that was deleted, by a second section at the same address", reuse),
    ("clone-resize", "resizes a section while it is being cloned", clone_resize),
    ("waits", "waits a million times for something that does not come", waits),
    ("timers", "is woken again and again long before its time-outs", timers),
    ("sections", "makes sections until it may not", sections),
    ("tasks", "makes tasks that never start", tasks),
    ("chunks", "touches one page in every 2 MiB", chunks),
    ("copies", "stores to clones when the kernel's heap is nearly used up", copies),
    ("holes", "leaves holes in the kernel's heap, and wants pieces that fit in none", holes),
    ("early_end", "ends a task while the stack of its first thread is being made", early_end),
    ("mappings", "takes every second page out of one great mapping", mappings),
    ("wild-return", "a plain call with a return address that no code can have, too deep to be made", wild_return),
    ("kernel-jump", "threads jump into the kernel's half while their task ends", kernel_jump),
    ("alarm", "sleeps, on every processor, while threads keep it busy", alarm),
];

fn run(start: &Start) -> i32 {
    let Some(name) = start.words().next() else {
        for (name, about, _) in ATTACKS {
            println!("{name:<14} {about}");
        }
        return 0;
    };
    let Some((_, _, attack)) = ATTACKS.iter().find(|a| a.0 == name) else {
        println!("attack: {name}: no such attack");
        return 2;
    };
    attack();
    println!("attack: {name}: survived");
    0
}

/// NT is a flag that any program can set; the kernel must not take it for a mistake of its own.
fn nested_task() {
    // SAFETY: changes flags only, and `yield_now` touches no memory of ours.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], 0x4000", "popfq", "syscall",
             "pushfq", "and qword ptr [rsp], 0xffffffffffffbfff", "popfq",
             inout("rax") 6u64 => _, out("rcx") _, out("r11") _, out("rdx") _);
    }
}

fn peek(address: u64) -> u64 {
    // SAFETY: an address of a section that this program has made; where it has not, it ends.
    unsafe { (address as *const u64).read_volatile() }
}

fn poke(address: u64, value: u64) {
    // SAFETY: as above.
    unsafe { (address as *mut u64).write_volatile(value) }
}

/// The second section at an address must be forgotten when it is deleted, like the first.
fn reuse() {
    let create = |at, room| stub::section_create(&Trap, 4096, GRANULE, kind::DATA, 0, at, room).expect("a section");
    let first = create(0, 4 * GRANULE);
    let at = first + GRANULE;
    for round in 0..3u64 {
        assert_eq!(create(at, 0), at);
        assert_eq!(peek(at), 0, "round {round}: a new section is not of zeroes");
        poke(at, 0x6d75_7375_6269 + round);
        stub::section_delete(&Trap, at).expect("to delete it");
    }
    println!("attack: reading a deleted section must end this program");
    println!("attack: NOT STOPPED, read {:#x}", peek(at));
}

static STOP: AtomicBool = AtomicBool::new(false);
static BASE: AtomicU64 = AtomicU64::new(0);

fn clone_resize() {
    const LONG: u64 = 64 << 12;
    let base = stub::section_create(&Trap, LONG, GRANULE, kind::DATA, musubi::abi::section::flag::ANY_PRINCIPAL, 0, 0)
        .expect("a section");
    BASE.store(base, Ordering::SeqCst);
    let other = thread::spawn(
        || {
            let base = BASE.load(Ordering::SeqCst);
            while !STOP.load(Ordering::SeqCst) {
                let _ = stub::section_resize(&Trap, base, 4096);
                let _ = stub::section_resize(&Trap, base, LONG);
            }
        },
        0,
    )
    .expect("a thread");
    for _ in 0..20_000 {
        poke(base, 1);
        let Ok(clone) = stub::section_clone(&Trap, base, 0, 0, 0) else { continue };
        let mut info = SectionInfo::default();
        let _ = stub::section_info(&Trap, clone, &raw mut info as u64);
        if info.len == LONG {
            poke(clone + LONG - 4096, 1);
        }
        let _ = stub::section_delete(&Trap, clone);
    }
    STOP.store(true, Ordering::SeqCst);
    let _ = other.join();
}

static WORD: AtomicU32 = AtomicU32::new(0);

fn heap_used() -> u64 {
    musubi::rt::task::memory().map_or(0, |memory| memory.kernel_heap_used)
}

fn waits() {
    let before = heap_used();
    for _ in 0..200_000 {
        let _ = stub::wait(&Trap, WORD.as_ptr() as u64, 0, 1);
    }
    let grown = heap_used().saturating_sub(before);
    println!("attack: the kernel's heap grew by {grown} bytes");
    assert!(grown < 64 << 10, "the kernel remembers waits that are over");
}

fn timers() {
    const YEAR: u64 = 365 * 86400 * 1_000_000_000;
    let before = heap_used();
    let other = thread::spawn(
        || {
            while !STOP.load(Ordering::SeqCst) {
                let _ = stub::wait(&Trap, WORD.as_ptr() as u64, 0, YEAR);
            }
        },
        0,
    )
    .expect("a thread");
    let mut woken = 0;
    while woken < 50_000 {
        woken += stub::wake(&Trap, WORD.as_ptr() as u64, 1).unwrap_or(0);
        let _ = stub::yield_now(&Trap);
    }
    let grown = heap_used().saturating_sub(before);
    println!("attack: the kernel's heap grew by {grown} bytes");
    STOP.store(true, Ordering::SeqCst);
    while stub::wake(&Trap, WORD.as_ptr() as u64, 1) == Ok(0) {
        let _ = stub::yield_now(&Trap);
    }
    let _ = other.join();
    assert!(grown < 64 << 10, "the kernel remembers time-outs of waits that are over");
}

/// Where an attack has come to nothing because it was done at all.
fn stopped_after(done: u64, least: u64) {
    if done >= least {
        println!("attack: stopped after {done}");
    }
}

fn sections() {
    println!("attack: making sections");
    let mut made = 0;
    while stub::section_create(&Trap, 0, 0, kind::DATA, 0, 0, 0).is_ok() {
        made += 1;
    }
    stopped_after(made, 100);
    let _ = stub::task_exit(&Trap, 0);
}

fn tasks() {
    println!("attack: making tasks");
    let limits = Limits::default();
    let user = musubi::start().user();
    let mut made = 0;
    while stub::task_create(&Trap, &raw const limits as u64, user, 0, 0, 0).is_ok_and(|task| task < 2_000_000) {
        made += 1;
    }
    stopped_after(made, 50);
    let _ = stub::task_exit(&Trap, 0);
}

/// What stops it is an error of the call that makes a section, or a fault in the middle of one: as the memory has it.
fn chunks() {
    println!("attack: touching pages");
    let mut touched = 0;
    loop {
        let Ok(base) = stub::section_create(&Trap, 1 << 30, 1 << 30, kind::DATA, 0, 0, 0) else { break };
        for chunk in 1..=512 {
            poke(base + chunk * GRANULE - 4096, 1);
        }
        touched += 512;
        stopped_after(touched, 512);
    }
    let _ = stub::task_exit(&Trap, 0);
}

/// What the kernel does with pages is refused, and no fault.
fn touched(base: u64, chunks: u64) -> u64 {
    let one = |chunk: &u64| stub::identity(&Trap, base + chunk * GRANULE - 4096).is_ok();
    (1..=chunks).take_while(one).count() as u64
}

fn copies() {
    const CHUNKS: u64 = 4096;
    let len = CHUNKS * GRANULE;
    let section = || stub::section_create(&Trap, len, len, kind::DATA, 0, 0, 0);
    let original = section().expect("a section");
    let all = touched(original, CHUNKS);
    println!("attack: a clone of {all} chunks");
    let clone = stub::section_clone(&Trap, original, 0, 0, 0).expect("a clone");
    while section().is_ok_and(|base| touched(base, CHUNKS) == CHUNKS) {}
    stopped_after(all, CHUNKS);
    let copied = touched(clone, CHUNKS);
    let cut = (1..all).filter(|chunk| stub::page_free(&Trap, clone + chunk * GRANULE - 4096, 4096).is_ok()).count();
    println!("attack: {copied} were copied, of {cut} something taken out");
    let _ = stub::task_exit(&Trap, 0);
}

/// A page of each chunk in turn, at this place in it, until that is refused.
fn at_each(base: u64, page: u64, chunks: u64) -> u64 {
    let one = |chunk: &u64| stub::identity(&Trap, base + chunk * GRANULE + page * 4096).is_ok();
    (0..chunks).take_while(one).count() as u64
}

fn holes() {
    const CHUNKS: u64 = 16384;
    let section = || stub::section_create(&Trap, CHUNKS * GRANULE, CHUNKS * GRANULE, kind::DATA, 0, 0, 0);
    let (small, great) = (section().expect("a section"), section().expect("another one"));
    // A list of pages is as long as the last one needs it.
    let lists = at_each(small, 255, CHUNKS);
    let free = (0..lists / 2).filter(|n| stub::page_free(&Trap, small + 2 * n * GRANULE, GRANULE).is_ok()).count();
    println!("attack: {free} holes between {lists} lists");
    let more = at_each(great, 511, CHUNKS);
    stopped_after(lists.min(more), 500);
    // All of it can be used again.
    [small, great].into_iter().for_each(|base| _ = stub::section_delete(&Trap, base));
    let again = section().map_or(0, |base| at_each(base, 511, CHUNKS));
    println!("attack: {more} lists of the other length, {again} where nothing else is");
    if again >= more {
        println!("attack: all of it can be used again");
    }
    let _ = stub::task_exit(&Trap, 0);
}

extern "C" fn rest() -> ! {
    loop {
        let _ = stub::yield_now(&Trap);
    }
}

fn early_end() {
    static TASK: AtomicU64 = AtomicU64::new(0);
    let limits = Limits::default();
    let user = musubi::start().user();
    let other = thread::spawn(
        || {
            let (mut before, mut wait) = (0, 0u64);
            while !STOP.load(Ordering::SeqCst) {
                let task = TASK.load(Ordering::SeqCst);
                if task != before {
                    // A little later each time.
                    wait = (wait + 7) % 3000;
                    (0..wait).for_each(|_| core::hint::spin_loop());
                    let _ = stub::task_kill(&Trap, task);
                    before = task;
                }
            }
        },
        0,
    )
    .expect("a thread");
    let text = musubi::start().text();
    let mut started = 0;
    for _ in 0..3000 {
        let task = stub::task_create(&Trap, &raw const limits as u64, user, 0, 0, 0).expect("a task");
        TASK.store(task, Ordering::SeqCst);
        started += u64::from(stub::task_start(&Trap, task, text, rest as *const () as u64, 0, 0).is_ok());
        let _ = musubi::processes::collect(task, 1_000_000_000);
    }
    STOP.store(true, Ordering::SeqCst);
    let _ = other.join();
    println!("attack: {started} of 3000 were started before their end");
    assert!((30..=2990).contains(&started), "the end does not come in between");
}

fn mappings() {
    const LEN: u64 = 64 << 30;
    let limits = Limits::default();
    let user = musubi::start().user();
    let task = stub::task_create(&Trap, &raw const limits as u64, user, 0, 0, 0).expect("a task");
    let section = stub::section_create(&Trap, 4096, LEN, kind::DATA, 0, 0, 0).expect("a section");
    stub::window_map(&Trap, task, 0, section, 0, LEN, Rights::READ.bits().into()).expect("a mapping");
    println!("attack: making mappings");
    let out = (0..LEN / 8192).take_while(|n| stub::window_unmap(&Trap, task, n * 8192 + 4096, 4096).is_ok()).count();
    stopped_after(out as u64, 1000);
    let _ = stub::task_exit(&Trap, 0);
}

// Makes a gate at itself, whose address it is given, and calls it by `jmp` with a return address that none can be, until
// that is too deep. In a clone of this text there are no data, so it has none.
global_asm!(
    "deeper: mov r13, rdi",
    "mov eax, 0x30",
    "lea rdi, [rip + 2f]",
    "mov esi, 1",
    "mov rdx, r13",
    "xor r10d, r10d",
    "syscall",
    "2: mov rax, -1",
    "shl rax, 47",
    "push rax",
    "mov rcx, r13", // the next one finds it in r13
    "jmp r13",
);

// SAFETY: the label above; only its address is used.
unsafe extern "C" {
    static deeper: u8;
}

fn wild_return() {
    // A clone, because this program must not call itself.
    let text = musubi::start().text();
    let clone = stub::section_clone(&Trap, text, 0, 0, 0).expect("a clone");
    let entry = AclEntry { principal: principal::ANY, rights: 0xf & !2, id: 0, text: clone };
    stub::acl_set(&Trap, clone, &raw const entry as u64).expect("to set its list");
    let mut info = SectionInfo::default();
    stub::section_info(&Trap, clone, &raw mut info as u64).expect("its gates");
    let limits = Limits::default();
    let calls = || musubi::rt::task::processors().map(|processor| processor.epc).sum::<u64>();
    let before = calls();
    let task = stub::task_create(&Trap, &raw const limits as u64, musubi::start().user(), 0, 0, 0).expect("a task");
    let start = &raw const deeper as u64 - text + clone;
    stub::task_start(&Trap, task, clone, start, info.gates, 0).expect("to start it");
    let (_, end) = musubi::processes::collect(task, u64::MAX).expect("its end");
    println!("attack: it ended by {end:x?}");
    let deep = calls() - before;
    // What is not returned from counts half, where the kernel makes it on its short way.
    assert!(deep >= DEPTH_MAX / 2, "{deep} calls are less than half of {DEPTH_MAX}");
    assert_eq!(end.kind, exit::FAULT);
}

fn kernel_jump() {
    for _ in 0..4 {
        let _ = thread::spawn(
            || {
                while !STOP.load(Ordering::SeqCst) {}
                // SAFETY: the fetch faults.
                unsafe { asm!("jmp {}", in(reg) 0xffff_8000_0000_0000u64, options(noreturn)) }
            },
            0,
        );
    }
    let _ = stub::sleep(&Trap, 10_000_000);
    STOP.store(true, Ordering::SeqCst);
    // Those that run jump now, and the others when they are to end.
    for _ in 0..10_000 {
        core::hint::spin_loop();
    }
    let _ = stub::task_exit(&Trap, 0);
}

fn alarm() {
    // Fifty milliseconds, on whatever host.
    let until = musubi::rt::time::now_ns() + 20_000_000_000;
    for _ in 0..4 {
        let busy = move || {
            while !STOP.load(Ordering::SeqCst) {
                for _ in 0..100_000 {
                    core::hint::spin_loop();
                }
                if musubi::rt::time::now_ns() > until {
                    println!("attack: alarm: NOT STOPPED, who sleeps does not go on");
                    let _ = stub::task_exit(&Trap, 1);
                }
            }
        };
        let _ = thread::spawn(busy, 0);
    }
    for _ in 0..50 {
        let _ = stub::sleep(&Trap, 1_000_000);
    }
    STOP.store(true, Ordering::SeqCst);
}
