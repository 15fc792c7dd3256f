#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::rt::{task, time};
use musubi::{Start, eprintln, parallel, println};

musubi::program!(run);

const USAGE: &str = "usage: matrix [SIZE [THREADS]]: the product of two matrices of SIZE rows (1 to 1024), by so many threads (1 to 64)";
const SIZE: usize = 256;
const SIZE_MAX: usize = 1024;
const THREADS_MAX: usize = 64;

fn run(start: &Start) -> i32 {
    let processors = task::processors().count();
    let Some((size, threads)) = wanted(start, processors) else {
        eprintln!("{USAGE}");
        return 2;
    };
    let (a, b) = (filled(size, 3), filled(size, 5));
    let product: Arc<Vec<AtomicU32>> = Arc::new((0..size * size).map(|_| AtomicU32::new(0)).collect());
    let result = product.clone();
    let began = time::now_ns();
    let done = parallel::each(size, threads, 1, move |rows| rows.for_each(|row| multiply(row, size, &a, &b, &product)));
    if let Err(why) = done {
        eprintln!("matrix: {threads} threads: {why}");
        return 1;
    }
    let ms = (time::now_ns() - began) / 1_000_000;
    let sum = result.iter().fold(0u32, |sum, cell| sum.rotate_left(5) ^ cell.load(Ordering::Relaxed));
    let s = |n: usize| if n == 1 { "" } else { "s" };
    println!(
        "{size} x {size} by {threads} thread{} on {processors} processor{}: {ms} ms, checksum {sum:08x}",
        s(threads),
        s(processors)
    );
    0
}

/// Size and threads.
fn wanted(start: &Start, processors: usize) -> Option<(usize, usize)> {
    let words: Vec<&[u8]> = start.args().skip(1).collect();
    let number = |at: usize, most: usize, otherwise: usize| match words.get(at) {
        None => Some(otherwise),
        Some(word) => core::str::from_utf8(word).ok()?.parse().ok().filter(|n| (1..=most).contains(n)),
    };
    if words.len() > 2 {
        return None;
    }
    Some((number(0, SIZE_MAX, SIZE)?, number(1, THREADS_MAX, processors.min(THREADS_MAX))?))
}

fn filled(size: usize, seed: u32) -> Vec<u32> {
    let next = |last: &u32| Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    core::iter::successors(Some(seed), next).take(size * size).collect()
}

fn multiply(row: usize, size: usize, a: &[u32], b: &[u32], product: &[AtomicU32]) {
    let row_of_a = &a[row * size..][..size];
    for column in 0..size {
        let terms = row_of_a.iter().zip(b[column..].iter().step_by(size));
        let sum = terms.fold(0u32, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)));
        product[row * size + column].store(sum, Ordering::Relaxed);
    }
}
