//! A semaphore of several places, between four threads of two programs.

use super::{FOR_EVER, Pair, SEMAPHORE, THERE, Words, until_had};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::Error;
use musubi::rt::itc::{Limit, Semaphore, partners};
use musubi::rt::{task, thread, time};

const MEMBERS: u64 = 4;
const PLACES: u64 = 2;
const ROUNDS: u64 = 100;
/// Words behind those of the other checks: who takes part; how many know that; how many are inside, were at most, and have been.
const WHO: usize = 360;
const READY: usize = 364;
const INSIDE: usize = 365;
const MOST: usize = 366;
const TIMES: usize = 367;

/// A program's part: two of the four, the first of which has this number.
pub fn two(words: Words, first: usize, limit: Limit) -> Result<(), Error> {
    let second =
        thread::spawn(move || thread::exit(one(words, first + 1, limit).map_or_else(|e| e.word(), |()| 0)), 0)?;
    let outcome = one(words, first, limit);
    let status = second.join()?;
    outcome.and(if status == 0 { Ok(()) } else { Err(Error::Changed) })
}

fn one(words: Words, at: usize, limit: Limit) -> Result<(), Error> {
    let me = task::identity().thread;
    words[WHO + at].store(me, Ordering::SeqCst);
    let who = || words[WHO..WHO + MEMBERS as usize].iter().map(|word| word.load(Ordering::SeqCst));
    while who().any(|number| number == 0) {
        thread::yield_now();
    }
    let others: Vec<u64> = who().filter(|number| *number != me).collect();
    let partners = partners(&others)?;
    let semaphore = Semaphore::new(&words[SEMAPHORE..THERE], PLACES as usize, &partners).ok_or(Error::TooBig)?;
    // Nobody ends before all watch him.
    words[READY].fetch_add(1, Ordering::SeqCst);
    while words[READY].load(Ordering::SeqCst) < MEMBERS {
        thread::yield_now();
    }
    for round in 0..ROUNDS {
        let held = until_had(|| semaphore.acquire(limit))?;
        let inside = words[INSIDE].fetch_add(1, Ordering::SeqCst) + 1;
        words[MOST].fetch_max(inside, Ordering::SeqCst);
        // At first whoever is inside waits for a second one; where one keeps the others out that ends, too.
        let until = if round == 0 { time::now_ns() + 5_000_000_000 } else { 0 };
        while words[MOST].load(Ordering::SeqCst) < PLACES && time::now_ns() < until {
            thread::yield_now();
        }
        if round.is_multiple_of(4) {
            thread::yield_now();
        }
        words[TIMES].fetch_add(1, Ordering::SeqCst);
        words[INSIDE].fetch_sub(1, Ordering::SeqCst);
        if held.left.is_some() {
            return Err(Error::Dead);
        }
    }
    Ok(())
}

/// As many are inside as there are places, and never more.
pub fn are_shared(what: &str, limit: Limit) -> Outcome {
    let pair = Pair::start(what)?;
    two(pair.words, 0, limit).map_err(doing("this program's part"))?;
    let exit = pair.child.wait_for(60_000_000_000).map_err(doing("the partner's end"))?;
    same!(exit.code, 0, "the partner's status");
    let [inside, most, times] = [INSIDE, MOST, TIMES].map(|word| pair.words[word].load(Ordering::SeqCst));
    same!((inside, times), (0, MEMBERS * ROUNDS), "inside yet, and times that one was");
    same!(most, PLACES, "the most that were inside at once");
    musubi::rt::section::delete(pair.base).map_err(doing("delete"))
}

/// One that has all places keeps the others out, and each that it gives back lets one in.
pub fn come_back_one_by_one() -> Outcome {
    let pair = Pair::start("stay")?;
    let partners = partners(&[pair.other]).map_err(doing("watching"))?;
    let new = |places| Semaphore::new(&pair.words[SEMAPHORE..THERE], places, &partners);
    holds!(new(0).is_none() && new(Semaphore::PLACES_MAX + 1).is_none(), "no places, or too many");
    for places in 1..=Semaphore::PLACES_MAX {
        let semaphore = new(places).ok_or("the semaphore")?;
        let acquire = || semaphore.acquire(Limit::Poll);
        let mut held = (0..places).map(|_| acquire()).collect::<Result<Vec<_>, _>>().map_err(doing("acquire"))?;
        for _ in 0..places {
            same!(acquire().err(), Some(Error::Busy), "with all of {places} places taken");
            held.pop();
            held.push(acquire().map_err(doing("acquire again"))?);
            held.rotate_left(1);
        }
    }
    let semaphore = new(1).ok_or("the semaphore")?;
    drop(semaphore.acquire(FOR_EVER).map_err(doing("acquire"))?);
    pair.kill()
}
