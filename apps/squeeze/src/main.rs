#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod keeper;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use keeper::Keeper;
use musubi::abi::layout::PAGE;
use musubi::rt::{task, time};
use musubi::{Start, eprintln, println};

musubi::program!(run);

const WORDS: usize = PAGE as usize / 8;

fn run(start: &Start) -> i32 {
    let words: Vec<Option<u64>> = start.words().map(|word| word.parse().ok()).collect();
    let (megabytes, resident, seconds) = match words[..] {
        [Some(megabytes @ 1..=65536), Some(resident @ 1..)] => (megabytes, resident, 0),
        [Some(megabytes @ 1..=65536), Some(resident @ 1..), Some(seconds)] => (megabytes, resident, seconds),
        _ => {
            eprintln!("squeeze: squeeze MEGABYTES RESIDENT [SECONDS]: all are numbers, the first two from 1 on");
            return 2;
        }
    };
    match fill_and_read(megabytes << 20, resident as usize, seconds) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("squeeze: {why}");
            1
        }
    }
}

fn fill_and_read(len: u64, resident: usize, seconds: u64) -> Result<(), String> {
    let memory = task::memory().map_err(|e| format!("the machine's memory: {e}"))?.total;
    let (mut section, keeper) = Keeper::section(len, resident).map_err(|e| format!("a section of {len} bytes: {e}"))?;
    let mut written = Sum::new();
    for (number, page) in section.bytes_mut().chunks_exact_mut(PAGE as usize).enumerate() {
        for (at, word) in page.chunks_exact_mut(8).enumerate() {
            let value = value(number as u64, at);
            written.add(value);
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
    if seconds > 0 {
        println!("filled");
        time::sleep_ns(seconds.saturating_mul(1_000_000_000));
    }
    let mut read = Sum::new();
    for page in section.bytes().chunks_exact(PAGE as usize) {
        let words = page.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        words.for_each(|word| read.add(word));
    }
    keeper.shrink(0).map_err(|e| format!("giving pages back: {e}"))?;
    let counts = keeper.counts();
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{} MiB in a machine of {} MiB, {} MiB of them at a time",
        mib(len),
        mib(memory),
        mib(resident as u64 * PAGE)
    );
    println!("{} faults, {} pages compressed, {} dropped as they were", counts.faults, counts.squeezed, counts.dropped);
    if keeper.given() > 0 {
        println!("gave {} pages back", keeper.given());
    }
    println!("kept: {} pages in {} KiB", counts.kept, counts.bytes >> 10);
    if written.0 != read.0 {
        return Err(format!("sum {:016x} written, {:016x} read", written.0, read.0));
    }
    println!("sum {:016x}", read.0);
    if len > memory {
        println!("more than the machine has");
    }
    Ok(())
}

/// What is written: the same in no two pages, and every sixteenth word of a page like nothing else.
fn value(page: u64, at: usize) -> u64 {
    if at.is_multiple_of(16) {
        (page * WORDS as u64 + at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    } else {
        page
    }
}

/// A sum in which the order counts (FNV-1a over words).
struct Sum(u64);

impl Sum {
    const fn new() -> Sum {
        Sum(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }
}
