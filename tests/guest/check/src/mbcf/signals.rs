//! Signals (SSS-105 to 121): what they start, when, and what is left of what they interrupt.

use super::only;
use crate::memory::{data, load, store as put};
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use musubi::abi::layout::PAGE;
use musubi::abi::mbcf::signal_flag;
use musubi::interfaces::signal::{Signalled, signalled_serve};
use musubi::rt::mbcf::{Queue, Sent, SignalSetup, Signals, condition, start, store};
use musubi::rt::{Section, task, thread, time};
use musubi::{Error, Rights};

/// What a program of a check does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Count,
    /// Takes data until there are none, and sums up their first bytes.
    Take,
    /// Sends to its own structure, once from each depth, and waits for what comes of that.
    Send,
    /// Sends to its own structure the first time.
    SendOnce,
    /// Has a fault.
    Fault,
}

pub struct Own {
    does: Does,
    count: AtomicU64,
    structure: AtomicU64,
    named: AtomicU64,
    pub sum: AtomicU64,
    /// Calls deep that it ran, and the text it ran in.
    depth: AtomicU64,
    text: AtomicU64,
    /// How it went when it sent; of who takes, how often it was not just one call deep.
    done: AtomicU64,
    cancelled: AtomicU64,
    now: AtomicU64,
    most: AtomicU64,
}

impl Own {
    pub fn new(does: Does) -> Result<(&'static Own, u64), String> {
        let zero = || AtomicU64::new(0);
        let own: &'static Own = Box::leak(Box::new(Own {
            does,
            count: zero(),
            structure: zero(),
            named: zero(),
            sum: zero(),
            depth: zero(),
            text: zero(),
            done: zero(),
            cancelled: zero(),
            now: zero(),
            most: zero(),
        }));
        let gates = signalled_serve(own).map_err(doing("gates"))?;
        Ok((own, gates.address()))
    }

    pub fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    fn send(&self, structure: u64, data: u8) {
        match Signals::at(structure).send(&[data; 4], 0) {
            Ok(Sent::Registered) => self.done.fetch_add(1, SeqCst),
            _ => self.cancelled.fetch_add(1, SeqCst),
        };
    }
}

impl Signalled for Own {
    fn signal(&self, structure: u64, named: u64) -> Result<(), Error> {
        let me = task::identity();
        self.depth.store(me.depth, SeqCst);
        self.text.store(me.text, SeqCst);
        self.structure.store(structure, SeqCst);
        self.named.store(named, SeqCst);
        let count = self.count.fetch_add(1, SeqCst) + 1;
        let deep = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(deep, SeqCst);
        match self.does {
            Does::Count => {}
            Does::Take => {
                self.cancelled.fetch_add(u64::from(me.depth != 1), SeqCst);
                let mut bytes = [0; 64];
                while let Ok(Some(_)) = Signals::at(structure).take(&mut bytes) {
                    self.sum.fetch_add(bytes[0].into(), SeqCst);
                }
            }
            Does::Send => {
                let before = self.done.load(SeqCst);
                self.send(structure, deep as u8);
                if self.done.load(SeqCst) > before {
                    // The nested one runs to its end before this goes on.
                    until(|| self.count() > count);
                }
            }
            Does::SendOnce if count == 1 => self.send(structure, 1),
            Does::SendOnce => {}
            Does::Fault => _ = load(8),
        }
        self.now.fetch_sub(1, SeqCst);
        Ok(())
    }
}

/// Computes until it is so; not for ever.
pub fn until(is_so: impl Fn() -> bool) -> bool {
    let begin = time::now_ns();
    while !is_so() {
        if time::now_ns() > begin + 20_000_000_000 {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// A section with a structure of signals at its beginning, and behind it the queue of those, whose buffer is a page.
pub fn signals(setup: SignalSetup) -> Result<(Section, Signals, Queue), String> {
    let section = data(4 * PAGE).map_err(doing("create"))?;
    let at = section.base();
    let queue = Queue::init(at + 64, at + PAGE, at + 2 * PAGE, false).map_err(doing("fifo_init"))?;
    let (buffer, buffer_len) = if setup.store == store::QUEUE { (at + 64, 0) } else { (at + 2 * PAGE, PAGE) };
    let setup = SignalSetup { buffer, buffer_len, ..setup };
    Ok((section, Signals::init(at, &setup).map_err(doing("signal_init"))?, queue))
}

pub fn setup(start: u64, store: u64, condition: u64, entry: u64) -> SignalSetup {
    let entry = if start == start::SOURCE { 0 } else { entry };
    SignalSetup { thread: task::identity().thread, entry, start, store, condition, most: 1, ..SignalSetup::default() }
}

fn data_of(queue: Queue) -> Option<Vec<u8>> {
    let mut bytes = [0; 1100];
    queue.read(&mut bytes).ok().flatten().map(|len| bytes[..len].to_vec())
}

pub fn start_types() -> Outcome {
    let me = task::identity();
    let (one, gate) = Own::new(Does::Count)?;
    let (other, other_gate) = Own::new(Does::Count)?;
    let peer = Peer::start()?;
    for kept in [store::MEMORY, store::QUEUE] {
        for kind in [start::SCHEDULER, start::DESTINATION, start::SOURCE] {
            for len in [0_usize, 4, 100, 1024] {
                let (section, signal, queue) = signals(setup(kind, kept, condition::REFUSE, gate))?;
                let at = section.base();
                same!(load(at), kind | kept << 8 | condition::REFUSE << 16, "the three choices, as they are seen");
                same!(load(at + 8), if kind == start::SOURCE { 0 } else { gate }, "the entry, as it is seen");
                let runs = if kind == start::SOURCE { other } else { one };
                let named = if kind == start::DESTINATION { 0 } else { other_gate };
                let (before, others) = (runs.count(), one.count() + other.count());
                let bytes: Vec<u8> = (0..len).map(|n| (n + 3) as u8).collect();
                same!(
                    signal.send(&bytes, named),
                    Ok(Sent::Registered),
                    "a signal of kind {kind} to {kept} with {len} bytes"
                );
                holds!(until(|| runs.count() > before), "kind {kind}: nothing was started");
                same!(one.count() + other.count(), others + 1, "programs that were started");
                same!((runs.structure.load(SeqCst), runs.named.load(SeqCst)), (at, named), "what it was told");
                same!((runs.depth.load(SeqCst), runs.text.load(SeqCst)), (1, me.text), "where it ran");
                let mut wanted = if kind == start::SCHEDULER { named.to_le_bytes().to_vec() } else { Vec::new() };
                wanted.extend(&bytes);
                let got = if kept == store::QUEUE {
                    data_of(queue).unwrap_or_default()
                } else {
                    let len = load(at + 2 * PAGE) as usize;
                    let words = (0..len.div_ceil(8) as u64).flat_map(|n| load(at + 2 * PAGE + 8 + 8 * n).to_le_bytes());
                    words.take(len).collect()
                };
                same!(got, wanted, "the data of kind {kind}");
                section.delete().map_err(doing("delete"))?;
            }
        }
    }
    // What the receiver does not allow (SSS-110, 113, 114).
    let before = one.count() + other.count();
    let (_kept, fixed, queue) = signals(setup(start::DESTINATION, store::QUEUE, condition::REFUSE, gate))?;
    same!(fixed.send(b"some", other_gate), Err(Error::BadArgument), "a program where the receiver's is meant");
    let (_kept2, open, _) = signals(setup(start::SOURCE, store::QUEUE, condition::REFUSE, 0))?;
    for gate in [0, 8, gate + 16 * 200, start_types as *const () as u64, peer.gate] {
        same!(open.send(b"some", gate), Err(Error::BadArgument), "a program at {gate:#x}");
    }
    same!((data_of(queue), one.count() + other.count()), (None, before), "what came of all that");
    // Nor a structure that names others' threads or programs.
    let base = data(2 * PAGE).map_err(doing("create"))?.base();
    let good = SignalSetup {
        buffer: base + PAGE,
        buffer_len: PAGE,
        ..setup(start::DESTINATION, store::MEMORY, condition::REFUSE, gate)
    };
    let others = task::threads().find(|thread| thread.task != me.task).map_or(0, |thread| thread.thread);
    for (what, bad) in [
        ("another task's thread", SignalSetup { thread: others, ..good }),
        ("no thread", SignalSetup { thread: 0, ..good }),
        ("no program", SignalSetup { entry: 0, ..good }),
        ("another text's program", SignalSetup { entry: peer.gate, ..good }),
        ("a buffer that is no one", SignalSetup { buffer_len: 2 * PAGE, ..good }),
        ("a queue that is none", SignalSetup { store: store::QUEUE, buffer_len: 0, ..good }),
        ("too many at once", SignalSetup { most: 100, ..good }),
    ] {
        holds!(Signals::init(base, &bad).is_err(), "a structure with {what}");
        same!(Signals::at(base).send(b"", 0), Err(Error::NotFound), "a signal to one with {what}");
    }
    peer.end()
}

pub fn rights() -> Outcome {
    let me = task::identity();
    let (own, gate) = Own::new(Does::Count)?;
    let wants = SignalSetup {
        flags: signal_flag::SENDER,
        ..setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate)
    };
    let (section, signal, queue) = signals(wants)?;
    let at = section.base();
    for given in
        [Rights::empty(), Rights::READ, Rights::READ | Rights::WRITE, Rights::CALL, Rights::READ | Rights::CALL]
    {
        only(at, given)?;
        let before = own.count();
        let sent = signal.send(b"some", 0);
        same!(sent == Ok(Sent::Registered), given.contains(Rights::CALL), "a signal with {given}: {sent:?}");
        holds!(!given.contains(Rights::CALL) || until(|| own.count() > before), "with {given} nothing was started");
        holds!(given.contains(Rights::READ) == signal.take(&mut [0; 64]).is_ok(), "taking with {given}");
    }
    // The structure cannot be written, and is changed by the kernel (SSS-111).
    only(at, Rights::READ | Rights::CALL)?;
    holds!(musubi::rt::mbcf::write(at, &[0; 8]).is_err(), "an operation has written the structure");
    while data_of(queue).is_some() {}
    same!(signal.send(b"some", 0), Ok(Sent::Registered), "a signal");
    let told = data_of(queue).unwrap_or_default();
    let words: Vec<u64> =
        told.chunks_exact(8).take(5).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default())).collect();
    same!(words, [me.node, me.user, me.task, me.thread, me.text], "who has sent it");
    same!(told.get(40..), Some(&b"some"[..]), "what was sent");
    only(at, Rights::READ | Rights::WRITE | Rights::CALL)?;
    (0..8).for_each(|n| put(at + 256 + 8 * n, load(at + 8 * n)));
    same!(Signals::at(at + 256).send(b"", 0), Err(Error::NotFound), "a copy of a structure");
    same!(Signals::at(at + 8).send(b"", 0), Err(Error::BadAddress), "an address that is not aligned");
    same!(Signals::at(at + 64).send(b"", 0), Err(Error::NotFound), "a queue's structure");
    same!(Queue::at(at).append(b""), Err(Error::NotFound), "a record to a signal's structure");
    // A thread that has ended is signalled no more.
    static GO: AtomicU64 = AtomicU64::new(0);
    let waits = || {
        while GO.load(SeqCst) == 0 {
            thread::yield_now()
        }
    };
    let other = thread::spawn(waits, 0).map_err(doing("thread"))?;
    let (_kept, late, _) = signals(SignalSetup { thread: other.number(), ..wants })?;
    GO.store(1, SeqCst);
    other.join().map_err(doing("join"))?;
    same!(late.send(b"", 0), Err(Error::Dead), "a signal to a thread that has ended");
    Ok(())
}

/// SSS-118 to 121, from the program itself.
pub fn conditions() -> Outcome {
    // Refused while it runs; nothing is stored.
    let (own, gate) = Own::new(Does::SendOnce)?;
    let (_kept, signal, queue) = signals(setup(start::DESTINATION, store::QUEUE, condition::REFUSE, gate))?;
    same!(signal.send(&[9; 4], 0), Ok(Sent::Registered), "the first");
    holds!(until(|| own.cancelled.load(SeqCst) == 1), "the second was not cancelled");
    same!((data_of(queue), data_of(queue)), (Some(alloc::vec![9; 4]), None), "data");
    holds!(until(|| signal.send(&[8; 4], 0) == Ok(Sent::Registered)), "one when it has ended");
    holds!(until(|| own.count() == 2), "it was not started");
    // Stored only: who does not look is started again, once; who looks is not.
    let (own, gate) = Own::new(Does::SendOnce)?;
    let (_kept, signal, queue) = signals(setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate))?;
    same!(signal.send(&[9; 4], 0), Ok(Sent::Registered), "the first");
    holds!(until(|| own.count() == 2), "data that came meanwhile were overslept");
    same!((own.done.load(SeqCst), own.most.load(SeqCst)), (1, 1), "what was sent, and how many ran at once");
    same!(
        (data_of(queue), data_of(queue), data_of(queue)),
        (Some(alloc::vec![9; 4]), Some(alloc::vec![1; 4]), None),
        "data"
    );
    let (own, gate) = Own::new(Does::Take)?;
    let (section, signal, _) = signals(setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate))?;
    static AT: AtomicU64 = AtomicU64::new(0);
    AT.store(section.base(), SeqCst);
    let senders: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(
                || {
                    for _ in 0..200 {
                        while Signals::at(AT.load(SeqCst)).send(&[1; 8], 0) != Ok(Sent::Registered) {
                            thread::yield_now();
                        }
                    }
                },
                0,
            )
        })
        .collect::<Result<_, _>>()
        .map_err(doing("threads"))?;
    // The queue may be full just then, as for the others.
    holds!(until(|| signal.send(&[1; 8], 0) == Ok(Sent::Registered)), "one more");
    holds!(until(|| own.sum.load(SeqCst) == 601), "{} of 601 were taken", own.sum.load(SeqCst));
    for sender in senders {
        sender.join().map_err(doing("join"))?;
    }
    // Started anyway: the last one runs first, to its end, and so many at once.
    for most in [1, 3, 8] {
        let (own, gate) = Own::new(Does::Send)?;
        let wants = SignalSetup { most, ..setup(start::DESTINATION, store::QUEUE, condition::START_ANYWAY, gate) };
        let (_kept, signal, _) = signals(wants)?;
        same!(signal.send(&[0; 4], 0), Ok(Sent::Registered), "the first");
        holds!(until(|| own.count() > 0 && own.now.load(SeqCst) == 0), "they have not ended");
        same!(
            (own.most.load(SeqCst), own.count(), own.cancelled.load(SeqCst)),
            (most, most, 1),
            "at once, all, cancelled"
        );
    }
    // With a buffer: something has come since, or nothing has.
    let (own, gate) = Own::new(Does::SendOnce)?;
    let (section, signal, _) = signals(setup(start::DESTINATION, store::MEMORY, condition::STORE_ONLY, gate))?;
    same!(signal.take(&mut [0; 8]), Ok(None), "before any");
    same!(signal.send(&[9; 4], 0), Ok(Sent::Registered), "the first");
    holds!(until(|| own.count() == 2), "a second one that came meanwhile was overslept");
    same!(load(section.base() + 2 * PAGE + 8) & 0xffff_ffff, 0x0101_0101, "the last one's data");
    Ok(())
}

/// H12: a thread in a callee is not interrupted for a signal; it hears of it when it is back.
pub fn in_calls() -> Outcome {
    static AT: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(u64::MAX);
    let me = task::identity();
    let (own, gate) = Own::new(Does::Count)?;
    let (section, ..) = signals(setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate))?;
    let flags = data(PAGE).map_err(doing("create"))?;
    musubi::rt::section::grant(flags.base(), &crate::sections::everybody(Rights::READ | Rights::WRITE))
        .map_err(doing("grant"))?;
    let (in_callee, back) = (flags.base(), flags.base() + 8);
    AT.store(section.base(), SeqCst);
    let peer = Peer::start()?;
    // One that sleeps, and one that computes.
    let sleeps = (op::SLEEP, [in_callee, 200_000_000, 0]);
    let computes = (op::WORK, [1, in_callee, 50_000_000]);
    for (plain, (what, words)) in [(false, sleeps), (true, sleeps), (false, computes), (true, computes)] {
        for round in 1..=3 {
            put(in_callee, 0);
            put(back, 0);
            let before = own.count();
            let other = thread::spawn(
                move || {
                    while load(in_callee) == 0 {
                        thread::yield_now();
                    }
                    let sent = Signals::at(AT.load(SeqCst)).send(b"some", 0);
                    time::sleep_ns(50_000_000);
                    let count = own.count() - before;
                    // It says nothing if the call is over.
                    let early = if load(back) == 0 { count } else { 0 };
                    SEEN.store(early + 10 * u64::from(sent != Ok(Sent::Registered)), SeqCst);
                },
                0,
            )
            .map_err(doing("thread"))?;
            let called = if plain { peer.plain(what, &words) } else { peer.call(what, &words) };
            put(back, 1);
            holds!(called.is_ok(), "the call: {called:?}");
            holds!(until(|| own.count() == before + 1), "round {round}: nothing was started after the call");
            other.join().map_err(doing("join"))?;
            same!(SEEN.load(SeqCst), 0, "programs that were started inside the callee");
            same!((own.depth.load(SeqCst), own.text.load(SeqCst)), (1, me.text), "where it ran");
        }
    }
    peer.end()
}

/// A thread that makes calls all the time is between two programs as often as in one: whatever it is stopped in, nothing is lost, nothing
/// starts elsewhere than in its own text, and no call comes to harm.
pub fn among_calls() -> Outcome {
    const EACH: u64 = 200;
    static AT: AtomicU64 = AtomicU64::new(0);
    let (own, gate) = Own::new(Does::Take)?;
    let (section, ..) = signals(setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate))?;
    AT.store(section.base(), SeqCst);
    let peer = Peer::start()?;
    let senders: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(
                || {
                    for n in 0..EACH {
                        while Signals::at(AT.load(SeqCst)).send(&[1; 8], 0) != Ok(Sent::Registered) {
                            thread::yield_now();
                        }
                        // Not always at the same point.
                        time::sleep_ns(50_000 + n % 7 * 13_000);
                    }
                },
                0,
            )
        })
        .collect::<Result<_, _>>()
        .map_err(doing("threads"))?;
    let (mut sum, begin) = (0, time::now_ns());
    while own.sum.load(SeqCst) < 2 * EACH && time::now_ns() < begin + 60_000_000_000 {
        for plain in [false, true] {
            sum += 1;
            let called = if plain { peer.plain(op::ADD, &[1]) } else { peer.call(op::ADD, &[1]) };
            same!(called, Ok(sum), "call {sum}");
        }
    }
    same!((own.sum.load(SeqCst), own.cancelled.load(SeqCst)), (2 * EACH, 0), "signals that came, and starts elsewhere");
    for sender in senders {
        sender.join().map_err(doing("join"))?;
    }
    peer.end()
}

/// A thread that waits in the kernel goes on waiting; the data are there, and the program runs before its own code.
pub fn waiting() -> Outcome {
    static AT: AtomicU64 = AtomicU64::new(0);
    static WORD: AtomicU64 = AtomicU64::new(0);
    let (own, gate) = Own::new(Does::Count)?;
    let (section, _, queue) = signals(setup(start::DESTINATION, store::QUEUE, condition::STORE_ONLY, gate))?;
    AT.store(section.base(), SeqCst);
    for round in 1..=3 {
        WORD.store(0, SeqCst);
        let (begin, before) = (time::now_ns(), own.count());
        let other = thread::spawn(
            move || {
                time::sleep_ns(20_000_000);
                let sent = Signals::at(AT.load(SeqCst)).send(b"some", 0);
                let there = data_of(Queue::at(AT.load(SeqCst) + 64)).is_some();
                WORD.store(1 + u64::from(sent == Ok(Sent::Registered) && there), SeqCst);
            },
            0,
        )
        .map_err(doing("thread"))?;
        time::sleep_ns(100_000_000);
        let (count, slept) = (own.count(), time::now_ns() - begin);
        holds!(slept >= 100_000_000, "the sleep was cut to {slept} ns");
        other.join().map_err(doing("join"))?;
        same!(WORD.load(SeqCst), 2, "data that were there while it slept");
        // If it was sent before the end of the sleep, it ran before this did.
        holds!(count == before + 1 || until(|| own.count() == before + 1), "round {round}: nothing was started");
        same!(data_of(queue), None, "what is left");
    }
    Ok(())
}

/// SSS-108: as many structures as one likes, each with its own program.
pub fn thousand() -> Outcome {
    let section = data(48 * PAGE).map_err(doing("create"))?;
    let at = section.base();
    let programs: Vec<_> = (0..8).map(|_| Own::new(Does::Count)).collect::<Result<_, _>>()?;
    for n in 0..1000_u64 {
        let here = at + n * 192;
        let wants = setup(start::DESTINATION, store::MEMORY, condition::REFUSE, programs[n as usize % 8].1);
        Signals::init(here, &SignalSetup { buffer: here + 64, buffer_len: 128, ..wants })
            .map_err(doing("signal_init"))?;
    }
    for n in 0..1000_u64 {
        let (here, program) = (at + n * 192, programs[n as usize % 8].0);
        let before = program.count();
        same!(Signals::at(here).send(&n.to_le_bytes(), 0), Ok(Sent::Registered), "signal {n}");
        holds!(until(|| program.count() == before + 1), "the program of structure {n} was not started");
        same!((program.structure.load(SeqCst), load(here + 72)), (here, n), "which structure, and its data");
    }
    section.delete().map_err(doing("delete"))
}
