//! The scheduler called as a procedure: threads that sleep, wake each other and pass the processor on without a kernel call of
//! their own (docs/decisions/0007).

use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sched::{choose, high_calls, leak, one_priority, switches, with};
use crate::stretches::exactly;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::task::exit;
use musubi::interfaces::passing::PassingClient;
use musubi::rt::Gates;
use musubi::rt::gate::{Skeleton, Values};
use musubi::rt::{sched, task, thread, time};
use musubi::{Caller, Error, names};

pub const CHECKS: &[Check] = &[
    ("there_and_back", there_and_back),
    ("one_switch_for_each_pass", one_switch),
    ("no_wake_up_is_lost_between_processors", woken_from_everywhere),
    ("a_wake_up_before_its_sleep_counts_here_too", kept),
    ("who_calls_again_and_again_is_not_slow", calls_on),
    ("killed_while_put_aside", killed),
    ("the_scheduler_goes_while_threads_are_put_aside", scheduler_goes),
    ("who_passes_to_nobody", to_nobody),
    ("preempted_in_between", preempted),
    ("a_stranger_offers_it", stranger_offers),
    ("return_addresses_that_are_none", marked),
    ("late_in_the_scheduler", late),
    ("a_million_switches_by_the_fast_level_alone", a_million),
];

/// Answers whatever it is asked, and wakes nobody.
struct Mute;

static CALLED: AtomicU64 = AtomicU64::new(0);

impl Skeleton for Mute {
    fn dispatch(&self, _: &Caller, _: u64, _: &[u64; 6]) -> Values {
        CALLED.fetch_add(1, Ordering::SeqCst);
        Values(0, 0)
    }
}

/// A person's program offers it before any scheduler does: nobody calls that, and the next scheduler begins all the same.
fn stranger_offers() -> Outcome {
    choose("none")?;
    time::sleep_ns(100_000_000);
    let gates = Gates::export(Mute, 4).map_err(doing("gates"))?;
    names::publish("passing", &gates).map_err(doing("a stranger's name"))?;
    for name in ["queues_block", "semaphores_block", "events_block"] {
        let check = crate::itc::CHECKS.iter().find(|check| check.0 == name).ok_or(name)?;
        check.1()?;
    }
    same!(CALLED.load(Ordering::SeqCst), 0, "calls into a stranger's program");
    with("ageing", || {
        same!(client()?.wake_up(task::identity().thread), Ok(()), "a call of the scheduler");
        let gate = names::lookup("passing").map_err(doing("passing"))?;
        holds!(gate != gates.address(), "the name is the stranger's");
        same!(names::publish("passing", &gates), Err(Error::Exists), "a name that the system has");
        Ok(())
    })?;
    same!(CALLED.load(Ordering::SeqCst), 0, "calls into a stranger's program");
    Ok(())
}

fn client() -> Result<&'static PassingClient, String> {
    let client = names::lookup("passing").and_then(PassingClient::bind).map_err(doing("passing"))?;
    // It has just sat down.
    let me = task::identity().thread;
    holds!(comes(|| client.wake_up(me) != Err(Error::NotSupported)), "it cannot be called");
    Ok(leak(client))
}

/// Until it has happened, or ten seconds.
fn comes(what: impl Fn() -> bool) -> bool {
    let until = time::now_ns() + 10_000_000_000;
    while !what() && time::now_ns() < until {
        time::sleep_ns(1_000_000);
    }
    what()
}

/// Two threads in turn, and each knows whose turn it is.
fn alternate(rounds: u64) -> Outcome {
    let passing = client()?;
    let me = task::identity().thread;
    let turn = leak(AtomicU64::new(0));
    let other = thread::spawn(
        move || {
            let mut wrong = 0;
            for round in 0..rounds {
                while turn.load(Ordering::SeqCst) != 2 * round + 1 {
                    let _ = passing.sleep();
                }
                wrong += u64::from(turn.swap(2 * round + 2, Ordering::SeqCst) != 2 * round + 1);
                let _ = passing.wake_up(me);
            }
            thread::exit(wrong)
        },
        0,
    );
    let other = other.map_err(doing("thread"))?;
    for round in 0..rounds {
        turn.store(2 * round + 1, Ordering::SeqCst);
        while turn.load(Ordering::SeqCst) != 2 * round + 2 {
            let _ = passing.pass(other.number());
        }
    }
    same!(other.join(), Ok(0), "turns out of order");
    Ok(())
}

/// Two threads in turn, as often as `stir` does what it is given. `spared`: so many times the scheduler may be put out, as it is by the clock of a host that stops
/// the machine for long; then another one comes.
pub fn stirred(spared: u32, stir: impl FnOnce(&mut dyn FnMut(u64) -> Outcome) -> Outcome) -> Outcome {
    with("ageing", || {
        let dismissed = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let (mut before, mut left) = (dismissed(), spared);
        stir(&mut |_| {
            alternate(20)?;
            if dismissed() != before && left > 0 {
                left -= 1;
                choose("ageing")?;
                before = dismissed();
            }
            same!(dismissed(), before, "schedulers that were put out meanwhile");
            Ok(())
        })
    })
}

fn there_and_back() -> Outcome {
    with("ageing", || alternate(5000))
}

/// Passes the processor to a thread that passes it back, `rounds` times in a row as often as `again` says; what it says at last.
fn to_and_fro<T>(rounds: u64, mut again: impl FnMut(&dyn Fn()) -> Result<T, String>) -> Result<T, String> {
    let passing = client()?;
    let (me, stop) = (task::identity().thread, leak(AtomicBool::new(false)));
    let other = thread::spawn(
        move || {
            let _ = passing.sleep();
            while !stop.load(Ordering::SeqCst) {
                let _ = passing.pass(me);
            }
        },
        0,
    );
    let other = other.map_err(doing("thread"))?;
    let passes = || {
        for _ in 0..rounds {
            let _ = passing.pass(other.number());
        }
    };
    // What woke them in the kernel before they had a bed here may wake them once more.
    passes();
    let outcome = again(&passes);
    stop.store(true, Ordering::SeqCst);
    passing.wake_up(other.number()).map_err(doing("wake-up"))?;
    other.join().map_err(doing("join"))?;
    outcome
}

/// Each pass is one change into the scheduler and one switch between threads, out of it.
fn one_switch() -> Outcome {
    with("ageing", || exactly(2, client()?))
}

/// As long as no priority changes the high level runs for ended quanta only (CUBIX-53).
fn a_million() -> Outcome {
    const ROUNDS: u64 = 500_000;
    with("ageing", || {
        if task::processors().count() != 1 {
            return Ok(());
        }
        to_and_fro(ROUNDS / 10, |passes| {
            let (before, called) = (switches(), high_calls()?);
            (0..10).for_each(|_| passes());
            let (made, calls) = (switches() - before, high_calls()?);
            holds!(made >= 2 * ROUNDS, "{made} switches");
            one_priority(called.0, calls.0)?;
            // Two for each quantum that has ended: to the high level and back.
            let for_quanta = calls.1 - called.1;
            holds!(made - 2 * ROUNDS < 1000 + 10 * for_quanta, "{made} switches, {for_quanta} ended quanta");
            Ok(())
        })
    })
}

fn woken_from_everywhere() -> Outcome {
    const EACH: u64 = 300;
    with("ageing", || {
        let passing = client()?;
        let seen: &'static [AtomicU64; 6] = leak([const { AtomicU64::new(0) }; 6]);
        let wanted: &'static [AtomicU64; 6] = leak([const { AtomicU64::new(0) }; 6]);
        let mut sleepers = Vec::new();
        for n in 0..6 {
            let body = move || {
                for round in 1..=EACH {
                    while wanted[n].load(Ordering::SeqCst) < round {
                        let _ = passing.sleep();
                    }
                    seen[n].store(round, Ordering::SeqCst);
                }
            };
            sleepers.push(thread::spawn(body, 0).map_err(doing("thread"))?);
        }
        let numbers: &'static [u64] = leak(sleepers.iter().map(|one| one.number()).collect::<Vec<_>>());
        let mut wakers = Vec::new();
        for part in 0..2 {
            let body = move || {
                let mut late = 0;
                for round in 1..=EACH {
                    for n in (part..6).step_by(2) {
                        wanted[n].store(round, Ordering::SeqCst);
                        let _ = passing.wake_up(numbers[n]);
                    }
                    late += u64::from(!comes(|| (part..6).step_by(2).all(|n| seen[n].load(Ordering::SeqCst) >= round)));
                    if late > 0 {
                        break;
                    }
                }
                thread::exit(late)
            };
            wakers.push(thread::spawn(body, 0).map_err(doing("thread"))?);
        }
        for waker in wakers {
            same!(waker.join(), Ok(0), "wake-ups that were lost");
        }
        for one in sleepers {
            one.join().map_err(doing("join"))?;
        }
        Ok(())
    })
}

fn kept() -> Outcome {
    with("ageing", || {
        let passing = client()?;
        let me = task::identity().thread;
        for _ in 0..100 {
            same!(passing.wake_up(me), Ok(()), "a wake-up of oneself");
            same!(passing.sleep(), Ok(()), "the sleep after it");
        }
        Ok(())
    })
}

/// Found in the scheduler's text whenever somebody looks, though each of its calls is short.
fn calls_on() -> Outcome {
    with("ageing", || {
        let passing = client()?;
        let stop = leak(AtomicBool::new(false));
        let beside = || while !stop.load(Ordering::SeqCst) {};
        let others: Vec<_> = task::processors().map(|_| thread::spawn(beside, 0)).collect();
        let me = task::identity().thread;
        let until = time::now_ns() + 500_000_000;
        while time::now_ns() < until {
            same!(passing.wake_up(me), Ok(()), "a wake-up of oneself");
        }
        stop.store(true, Ordering::SeqCst);
        for other in others {
            other.and_then(|other| other.join()).map_err(doing("who is beside"))?;
        }
        let _ = passing.sleep();
        Ok(())
    })
}

/// Somebody else who was put aside meanwhile is still there, and is woken by who calls him.
fn killed() -> Outcome {
    with("ageing", || {
        let passing = client()?;
        let (aside, rounds) = (leak(AtomicU64::new(0)), leak(AtomicU64::new(0)));
        let bystander = move || {
            while rounds.load(Ordering::SeqCst) < 50 {
                aside.fetch_add(1, Ordering::SeqCst);
                // (It may come back for the scheduler's own reasons, and hears that nobody has woken it.)
                while passing.sleep() == Err(Error::Changed) {}
            }
            thread::exit(aside.load(Ordering::SeqCst))
        };
        let bystander = thread::spawn(bystander, 0).map_err(doing("thread"))?;
        for round in 1..=50 {
            // He has gone to sleep `round` times, woken once for each of these rounds.
            holds!(comes(|| aside.load(Ordering::SeqCst) >= round), "the bystander does not sleep in round {round}");
            let asleep = leak(AtomicBool::new(false));
            let body = move || {
                loop {
                    asleep.store(true, Ordering::SeqCst);
                    let _ = passing.sleep();
                }
            };
            let one = thread::spawn(body, 0).map_err(doing("thread"))?;
            holds!(comes(|| asleep.load(Ordering::SeqCst)), "it does not begin");
            one.kill().map_err(doing("kill"))?;
            same!(one.join(), Ok(Error::Killed.word()), "the killed thread");
            same!(aside.load(Ordering::SeqCst), round, "who was put aside was woken by somebody's death");
            rounds.store(round, Ordering::SeqCst);
            same!(passing.wake_up(bystander.number()), Ok(()), "a wake-up of the bystander");
        }
        same!(bystander.join(), Ok(50), "how often the bystander has slept");
        alternate(100)
    })
}

fn dismissed() -> u64 {
    sched::seats().map(|seat| seat.dismissed).sum()
}

/// A caller to whom nobody can return has that fault himself: it is not the scheduler's, whom he has called.
fn marked() -> Outcome {
    with("ageing", || {
        let before = dismissed();
        let gate = names::lookup("passing").map_err(doing("passing"))?;
        for tag in [1_u64 << 47, 0xffff_8000_0000_0000, 0xffff_ffff_ffff_0000, 1 << 48] {
            let exit = crate::sections::role(&["attack", "marked", &format!("{gate:#x}"), &format!("{tag:#x}")])?;
            same!(exit.kind, exit::FAULT, "a call with {tag:#x} added to the return address");
            same!(dismissed(), before, "schedulers that were put out for that");
        }
        alternate(20)
    })
}

/// Whoever is late with a fault calls the scheduler again and again, and is most of the time in its text: the call in which the fault was is over
/// when that is left, and nobody is lost who waits there.
fn late() -> Outcome {
    with("ageing", || {
        let before = dismissed();
        let peer = leak(Peer::start()?);
        same!(peer.call(op::ENDLESS_ENTRY, &[4, 0, 0]), Ok(0), "the entry");
        for round in 0..2 {
            let told = leak(AtomicBool::new(false));
            let call = move || {
                let outcome = peer.call(op::FAULT, &[]);
                told.store(true, Ordering::SeqCst);
                thread::exit(u64::from(outcome == Err(Error::Faulted)))
            };
            let call = thread::spawn(call, 0).map_err(doing("thread"))?;
            let until = time::now_ns() + 30_000_000_000;
            while !told.load(Ordering::SeqCst) {
                holds!(time::now_ns() < until, "round {round}: its caller was never told");
                alternate(20)?;
            }
            same!(call.join(), Ok(1), "what its caller was told in round {round}");
        }
        same!(dismissed(), before, "schedulers that were put out for that");
        alternate(100)
    })
}

/// They all come back, and hear that nobody has woken them.
fn scheduler_goes() -> Outcome {
    for _ in 0..5 {
        choose("ageing")?;
        let passing = client()?;
        let asleep = leak(AtomicU64::new(0));
        let mut sleepers = Vec::new();
        for _ in 0..8 {
            let body = move || {
                asleep.fetch_add(1, Ordering::SeqCst);
                thread::exit(u64::from(passing.sleep().is_ok()))
            };
            sleepers.push(thread::spawn(body, 0).map_err(doing("thread"))?);
        }
        holds!(comes(|| asleep.load(Ordering::SeqCst) == 8), "they do not begin");
        time::sleep_ns(5_000_000);
        choose("none")?;
        for one in sleepers {
            same!(one.join(), Ok(0), "a sleep that nobody has ended");
        }
    }
    Ok(())
}

fn to_nobody() -> Outcome {
    with("ageing", || {
        let passing = client()?;
        same!(passing.pass(1 << 50), Err(Error::NotFound), "nobody's number");
        same!(passing.wake_up(0), Err(Error::NotFound), "number 0");
        alternate(100)
    })
}

/// Threads that never sleep take the processor away from those that pass it on, and the other way round.
fn preempted() -> Outcome {
    with("ageing", || {
        let stop = leak(AtomicBool::new(false));
        let counts: &'static [AtomicU64; 4] = leak([const { AtomicU64::new(0) }; 4]);
        let mut busy = Vec::new();
        for count in counts {
            let body = move || {
                while !stop.load(Ordering::SeqCst) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            };
            busy.push(thread::spawn(body, 0).map_err(doing("thread"))?);
        }
        let all_ran = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 0);
        // A few rounds may be over before a quantum is.
        let until = time::now_ns() + 20_000_000_000;
        let mut outcome = alternate(200);
        while outcome.is_ok() && !all_ran() && time::now_ns() < until {
            outcome = alternate(200);
        }
        stop.store(true, Ordering::SeqCst);
        for one in busy {
            one.join().map_err(doing("join"))?;
        }
        outcome?;
        holds!(all_ran(), "a busy thread never ran");
        Ok(())
    })
}
