#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use core::hint::black_box;
use musubi::rt::probe::{self, Instruction};
use musubi::rt::{Section, section, thread};
use musubi::{Start, eprintln, println};

musubi::program!(run);

/// An address of the single space that nobody has: the last page.
const NOWHERE: u64 = musubi::abi::layout::SPACE_END - musubi::abi::layout::PAGE;

type Way = (&'static str, &'static str, fn(Option<&str>));

const WAYS: &[Way] = &[
    ("null", "reads address 0", |_| look(0)),
    ("null-write", "writes address 0", |_| probe::write(0)),
    ("wild-read", "reads where there is no section", |_| look(NOWHERE)),
    ("wild-jump", "jumps to where there is no section", |_| probe::execute(NOWHERE)),
    ("jump-data", "jumps into its own data", |_| {
        static DATA: [u64; 4] = [0; 4];
        let heap = alloc::boxed::Box::new(DATA);
        probe::execute(heap.as_ptr() as u64);
    }),
    ("kernel", "reads the kernel's half of the addresses", |_| look(0xffff_8000_0000_0000)),
    ("non-canonical", "reads an address that the processor does not have", |_| {
        probe::instruction(Instruction::NonCanonical);
    }),
    ("stack", "recurses without end", |_| {
        black_box(recurse(1));
    }),
    ("divide", "divides by zero", |_| probe::instruction(Instruction::Divide)),
    ("privileged", "executes an instruction of the kernel's", |_| probe::instruction(Instruction::Privileged)),
    ("undefined", "executes an instruction that does not exist", |_| probe::instruction(Instruction::Undefined)),
    ("breakpoint", "executes a breakpoint that nobody set", |_| probe::instruction(Instruction::Breakpoint)),
    ("port", "reads an I/O port", |_| probe::instruction(Instruction::Port)),
    ("panic", "panics", |_| panic!("as asked")),
    ("memory", "takes memory until there is none", |_| {
        loop {
            let block = alloc::vec![1u8; 1 << 20];
            core::mem::forget(black_box(block));
        }
    }),
    ("sections", "makes sections until it may not", |_| {
        // Printing needs sections of its own, so the first comes before there are none left.
        println!("making sections");
        let mut count = 0u64;
        let why = loop {
            match Section::create(4096, 4096, 0, 0) {
                Ok(_) => count += 1,
                Err(e) => break e,
            }
        };
        println!("{count} sections, then: {why}");
        fault();
    }),
    ("threads", "starts threads until it may not, and then faults", |_| {
        let mut count = 0u64;
        let why = loop {
            match thread::spawn(|| thread::park(), 0) {
                Ok(_) => count += 1,
                Err(e) => break e,
            }
        };
        println!("{count} threads, then: {why}");
        fault();
    }),
    ("thread", "faults on a second thread", |_| {
        if let Ok(second) = thread::spawn(|| probe::write(0), 0) {
            let _ = second.join();
        }
    }),
    ("unmap-self", "deletes its own text section", |_| {
        let _ = section::delete(musubi::start().text());
    }),
    ("fault-write", "writes into the section at the address given", |address| {
        match address.and_then(|a| u64::from_str_radix(a.trim_start_matches("0x"), 16).ok()) {
            Some(address) => probe::write(address),
            None => eprintln!("crash: fault-write needs an address, in hexadecimal"),
        }
    }),
    ("loop", "loops for ever (end it with ^C or kill)", |_| {
        loop {
            core::hint::spin_loop();
        }
    }),
];

fn run(start: &Start) -> i32 {
    let mut words = start.words();
    let Some(name) = words.next() else {
        for (name, about, _) in WAYS {
            println!("{name:<14} {about}");
        }
        return 0;
    };
    match WAYS.iter().find(|w| w.0 == name) {
        Some((_, _, way)) => way(words.next()),
        None => {
            eprintln!("crash: {name}: no such way");
            return 2;
        }
    }
    println!("crash: {name}: still here");
    3
}

fn look(address: u64) {
    black_box(probe::read(address));
}

/// Ends by a fault, for ways whose crash is that they got far.
fn fault() {
    probe::instruction(Instruction::Undefined);
}

#[expect(unconditional_recursion, reason = "that is the crash")]
fn recurse(n: u64) -> u64 {
    let room = black_box([n; 64]);
    recurse(black_box(n + room[3])) + room[5]
}
