#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::{Start, println};

musubi::program!(run);

fn run(start: &Start) -> i32 {
    let words: Vec<&str> = start.words().collect();
    println!("Hello from task {}, at {:#x}.", start.task(), start.text());
    for (i, word) in words.iter().enumerate() {
        println!("argument {}: {word}", i + 1);
    }
    let squares: BTreeMap<u64, String> = (1..=1000).map(|n| (n, alloc::format!("{}", n * n))).collect();
    let digits: usize = squares.values().map(String::len).sum();
    println!("heap: {} squares with {digits} digits", squares.len());
    println!("floating point: pi is about {:.6}", pi(200_000));
    0
}

/// Machin would be faster; this keeps the floating-point unit busy long enough to be interrupted.
fn pi(terms: u32) -> f64 {
    let sum: f64 = (0..terms).rev().map(|k| if k % 2 == 0 { 1.0 } else { -1.0 } / f64::from(2 * k + 1)).sum();
    // The mean of two partial sums is far closer than either.
    4.0 * (sum + if terms.is_multiple_of(2) { 0.5 } else { -0.5 } / f64::from(2 * terms + 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn pi_is_about_pi() {
        assert!((super::pi(200_000) - core::f64::consts::PI).abs() < 1e-9);
    }
}
