//! Against the plain definition, with and without AVX.

use super::*;
use std::sync::{Mutex, MutexGuard};
use std::vec::Vec;

// SAFETY: memory.S defines them with the C ABI.
unsafe extern "C" {
    fn musubi_copy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
    fn musubi_fill(at: *mut u8, with: i32, len: usize) -> *mut u8;
    fn musubi_compare(a: *const u8, b: *const u8, len: usize) -> i32;
}

/// One test at a time: they choose what the processor is said to have.
static CHOICE: Mutex<()> = Mutex::new(());

fn each_way(test: impl Fn()) {
    let _choice: MutexGuard<()> = CHOICE.lock().unwrap();
    AVX.store(false, Ordering::Relaxed);
    test();
    look_at_processor();
    test();
}

/// All short lengths, and some around where the ways of copying change.
fn lengths() -> impl Iterator<Item = usize> {
    let turns = [384usize, 512, 640, 768, 1024, 1536, 4096];
    (0..=300).chain(turns.into_iter().flat_map(|n| [n - 33, n - 1, n, n + 1, n + 31, n + 129]))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Copies inside of one piece of memory.
fn copy(memory: &mut [u8], to: usize, from: usize, len: usize) {
    assert!(to + len <= memory.len() && from + len <= memory.len());
    let start = memory.as_mut_ptr();
    // SAFETY: both ranges lie in the slice.
    let at = unsafe { musubi_copy(start.add(to), start.add(from), len) };
    assert_eq!(at as usize, start as usize + to);
}

#[test]
fn copies_are_as_by_the_definition_however_they_lie_and_overlap() {
    each_way(|| {
        for len in lengths() {
            let apart =
                [len + 40, len, len.saturating_sub(1), len / 2, 129, 128, 127, 64, 33, 32, 31, 17, 16, 9, 8, 3, 1, 0];
            let size = 2 * len + 140;
            let mut memory = pattern(size);
            for distance in apart.into_iter().filter(|distance| distance + len + 65 <= size) {
                for (to, from) in [(32, 32 + distance), (32 + distance, 32), (33, 33 + distance), (63 + distance, 63)] {
                    let mut expected = memory.clone();
                    expected.copy_within(from..from + len, to);
                    copy(&mut memory, to, from, len);
                    assert!(memory == expected, "{len} bytes from {from} to {to}");
                }
            }
        }
    });
}

#[test]
fn alignment_does_not_matter() {
    each_way(|| {
        for len in [5, 31, 100, 200, 700] {
            for (to, from) in (0..64).flat_map(|to| (0..64).map(move |from| (to, 800 + from))) {
                let mut memory = pattern(1600);
                let mut expected = memory.clone();
                expected.copy_within(from..from + len, to);
                copy(&mut memory, to, from, len);
                assert!(memory == expected, "{len} bytes from {from} to {to}");
            }
        }
    });
}

#[test]
fn exactly_what_was_asked_for_is_filled() {
    each_way(|| {
        for (len, at) in lengths().flat_map(|len| [0, 1, 7, 31].map(|at| (len, at))) {
            let mut memory = pattern(len + 64);
            let mut expected = memory.clone();
            expected[at..at + len].fill(0xa7);
            // SAFETY: the range lies in the vector. All but the lowest byte of the value does not count.
            let filled = unsafe { musubi_fill(memory.as_mut_ptr().add(at), 0x1234_56a7, len) };
            assert_eq!(filled as usize, memory.as_ptr() as usize + at);
            assert!(memory == expected, "{len} bytes at {at}");
        }
    });
}

#[test]
fn the_first_difference_decides() {
    for len in lengths() {
        let a = pattern(len + 1);
        let compare = |b: &[u8]| {
            // SAFETY: both are at least that long.
            unsafe { musubi_compare(a.as_ptr(), b.as_ptr(), len) }.signum()
        };
        let mut b = a.clone();
        b[len] ^= 0xff;
        assert_eq!(compare(&b), 0, "{len}");
        for at in (0..len).filter(|at| len <= 300 || at % 7 == 0 || at + 70 > len) {
            let mut b = a.clone();
            b[at] ^= 0x80;
            b[at + 1..len].iter_mut().for_each(|byte| *byte ^= 0x80);
            b[at + 1..len].iter_mut().step_by(2).for_each(|byte| *byte = !*byte);
            assert_eq!(compare(&b), a.cmp(&b) as i32, "{len} bytes, different from {at} on");
        }
    }
}
