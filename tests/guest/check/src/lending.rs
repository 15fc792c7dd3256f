//! Data that calls pass from outside of the argument section: the stub copies it there and back.

use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::rt::thread;

pub const CHECKS: &[Check] = &[
    ("what_does_not_fit_is_refused_at_once", what_does_not_fit),
    ("many_threads_share_one_argument_section", many_threads),
];

/// A page to lend: two calls of [`PIXELS`] with their tables fit, a third waits.
const ARGS: u64 = 4096;
const PIXELS: usize = 1500;
const THREADS: u64 = 12;
const EACH: u64 = 400;

fn with_client(name: &str, body: impl FnOnce(&'static ColourMapClient) -> Outcome) -> Outcome {
    let server = Command::new(b"bin/colour-map").args(["colour-map", name]).spawn().map_err(doing("server"))?;
    let gate = musubi::names::await_name(name, 10_000_000_000).map_err(doing("server's name"))?;
    let client = ColourMapClient::bind_with_args(gate, ARGS).map_err(doing("bind"))?;
    let outcome = body(Box::leak(Box::new(client)));
    server.kill().map_err(doing("kill"))?;
    outcome
}

/// Adds `by` to each value.
fn table(by: u8) -> [u8; 256] {
    core::array::from_fn(|value| (value as u8).wrapping_add(by))
}

/// The slices of one call share the argument section: if they do not fit together, nobody could ever make room.
fn what_does_not_fit() -> Outcome {
    with_client("lending", |client| {
        let table = table(1);
        let fits = ARGS as usize - table.len();
        let mut pixels = vec![7; fits + 1];
        same!(client.map(&mut pixels, &table), Err(Error::TooBig), "one byte too many");
        holds!(pixels.iter().all(|p| *p == 7), "pixels changed by a call that was not made");
        same!(client.map(&mut pixels[..fits], &table), Ok(()), "all of it");
        holds!(pixels[..fits].iter().all(|p| *p == 8) && pixels[fits] == 7, "not what was asked for");
        let mut lent = client.alloc(fits).map_err(doing("alloc"))?;
        lent.fill(7);
        same!(client.map(&mut lent, &table), Ok(()), "pixels that lie there already");
        holds!(lent.iter().all(|p| *p == 8), "pixels that lie there already");
        Ok(())
    })
}

/// Each thread gets back what it passed and nobody else's, also where it was stopped in the middle of a copy.
fn many_threads() -> Outcome {
    with_client("lending-many", |client| {
        let wrong: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let next: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(1)));
        let body = move || {
            let by = next.fetch_add(1, Ordering::SeqCst) as u8;
            let (table, start) = (table(by), |at: usize| (at as u8).wrapping_mul(by));
            let mut pixels: Vec<u8> = (0..PIXELS).map(start).collect();
            for round in 1..=EACH {
                let added = by.wrapping_mul(round as u8);
                let good = client.map(&mut pixels, &table).is_ok()
                    && pixels.iter().enumerate().all(|(at, pixel)| *pixel == start(at).wrapping_add(added));
                if !good {
                    wrong.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        };
        let all: Result<Vec<_>, _> = (0..THREADS).map(|_| thread::spawn(body, 0)).collect();
        for thread in all.map_err(doing("thread"))? {
            thread.join().map_err(doing("join"))?;
        }
        same!(wrong.load(Ordering::SeqCst), 0, "threads with another result");
        let each_way = THREADS * EACH * PIXELS as u64;
        same!(client.bound().copied().bytes, 2 * each_way + THREADS * EACH * 256, "bytes copied");
        same!(client.mapped(), Ok(each_way), "pixels mapped");
        same!(client.alloc(ARGS as usize).map(|loan| loan.len()), Ok(ARGS as usize), "all is free again");
        Ok(())
    })
}
