//! Calls that miss pages of a program's memory other than by the kernel's copies for calls by the full entry (`pages::by_the_kernel`): light
//! calls on queues and signals, and calls that carry messages. The pager is asked, and the call made again (pitfalls, H14).

use super::{Does, Own, own, paged, read};
use crate::mbcf::signals::{self, setup, until};
use crate::memory::{data, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::rt::mbcf::{Queue, Sent, SignalSetup, Signals, condition, start, store};
use musubi::rt::pager::{self, TRIES};
use musubi::rt::post::Post;
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, Trap, thread, time};
use musubi::{Error, trace};

/// Bytes of a record; with the word before it a multiple of eight that divides neither a page nor the buffer.
const LEN: u64 = 104;
const STEP: u64 = LEN + 8;
/// Two pages behind the structure's.
const BUFFER: u64 = 2 * PAGE;
/// More than go once round.
const RECORDS: u64 = 90;
const NONE: u64 = u64::MAX;

fn record(n: u64) -> Vec<u8> {
    (0..LEN).map(|at| (n * 31 + at) as u8).collect()
}

/// What lies there.
fn bytes(at: u64) -> Option<Vec<u8>> {
    let words: Option<Vec<u64>> = (at..at + LEN).step_by(8).map(read).collect();
    Some(words?.into_iter().flat_map(u64::to_le_bytes).collect())
}

fn all(base: u64, pages: u64) -> Outcome {
    invalidate(base, pages * PAGE).map_err(doing("invalidate"))
}

/// Pages of the buffer that the record of this number lies on.
fn pages_of(n: u64) -> u64 {
    let at = |byte: u64| (n * STEP + byte) % BUFFER / PAGE;
    (0..STEP).map(at).collect::<BTreeSet<u64>>().len() as u64
}

/// A queue with its pager, and where records go, over a border of two pages with another one.
struct Scene {
    at: u64,
    of_queue: &'static Own,
    target: Section,
    of_target: &'static Own,
    sent: u64,
}

impl Scene {
    fn set() -> Result<Scene, alloc::string::String> {
        let (target, of_target) = paged(2, Does::Validate, 0)?;
        let (queue, of_queue) = paged(4, Does::Validate, 0)?;
        let at = queue.base();
        all(at, 4)?;
        let made = Queue::init(at, at + PAGE, at + PAGE + BUFFER, false);
        same!((made, of_queue.calls()), (Ok(Queue::at(at)), 1), "a queue on a page that is not valid");
        // Who sends waits for nobody.
        same!((Queue::at(at).append(&record(0)), of_queue.calls()), (Err(Error::Absent), 0), "a record for its buffer");
        Ok(Scene { at, of_queue, target, of_target, sent: 0 })
    }

    fn to(&self) -> u64 {
        self.target.base() + PAGE - LEN / 2
    }

    fn append(&mut self) -> Result<u64, alloc::string::String> {
        validate(self.at, 4 * PAGE).map_err(doing("validate"))?;
        same!(Queue::at(self.at).append(&record(self.sent)), Ok(Sent::Registered), "record {}", self.sent);
        self.sent += 1;
        Ok(self.sent - 1)
    }

    fn take(&self) -> Result<u64, Error> {
        stub::fifo_read(&Trap, self.at, self.to(), LEN)
    }

    /// All pages that reading a record needs are missed, one after the other.
    fn rounds(&mut self) -> Outcome {
        for _ in 0..RECORDS {
            let n = self.append()?;
            all(self.at, 4)?;
            all(self.target.base(), 2)?;
            same!(self.take(), Ok(LEN), "record {n}");
            same!(
                (self.of_queue.calls(), self.of_target.calls()),
                (1 + pages_of(n), 2),
                "who was asked for record {n}"
            );
            same!(bytes(self.to()), Some(record(n)), "what is in record {n}");
            same!(self.take(), Ok(NONE), "what comes after record {n}");
            same!((self.of_queue.calls(), self.of_target.calls()), (0, 0), "who was asked then");
        }
        Ok(())
    }
}

/// By the light entry, and by the full one, which serves them while a trace is on.
pub fn queues() -> Outcome {
    let mut scene = Scene::set()?;
    scene.rounds()?;
    trace::on().map_err(doing("a trace"))?;
    let outcome = scene.rounds();
    trace::off().map_err(doing("no trace"))?;
    outcome.map_err(|why| alloc::format!("by the full entry: {why}"))?;
    errors(&mut scene)?;
    // Pages that were never there.
    let base = scene.target.base();
    scene.target.delete().map_err(doing("delete"))?;
    holds!(read(base).is_none(), "what was deleted");
    let scratch = data(PAGE).map_err(doing("scratch"))?;
    let (supplies, gate) = own(Does::Supply)?;
    supplies.at.store(scratch.base(), Ordering::SeqCst);
    scene.target = data(2 * PAGE).map_err(doing("create"))?;
    pager::set(scene.target.base(), gate, 1, 0).map_err(doing("pager"))?;
    let n = scene.append()?;
    same!((scene.take(), supplies.calls()), (Ok(LEN), 2), "a record for pages that are to be supplied");
    same!(bytes(scene.to()), Some(record(n)), "what is in it");
    same!((read(scene.target.base()), read(scene.target.base() + 2 * PAGE - 8)), (Some(1), Some(0)), "and beside it");
    scene.target.delete().map_err(doing("delete"))?;
    section::delete(scene.at).map_err(doing("delete"))
}

/// Whoever is refused a page has taken nothing.
fn errors(scene: &mut Scene) -> Outcome {
    let n = scene.append()?;
    for (does, asked) in [(Does::Refuse, 1), (Does::Decline, 1), (Does::Fault, 1), (Does::Nothing, u64::from(TRIES))] {
        scene.of_target.set(does);
        all(scene.target.base(), 2)?;
        same!((scene.take(), scene.of_target.calls()), (Err(Error::Absent), asked), "a pager that does {does:?}");
        scene.of_target.set(Does::Validate);
        // For what it has refused the last time.
        scene.of_queue.calls();
        scene.of_queue.set(does);
        all(scene.at, 4)?;
        same!(
            (scene.take(), scene.of_queue.calls()),
            (Err(Error::Absent), asked),
            "one of the queue's that does {does:?}"
        );
        scene.of_queue.set(Does::Validate);
    }
    // Where there is no pager it is as if there were no memory.
    let bare = data(PAGE).map_err(doing("create"))?;
    store(bare.base(), 1);
    all(bare.base(), 1)?;
    same!(stub::fifo_read(&Trap, scene.at, bare.base(), LEN), Err(Error::BadAddress), "a page that nobody supplies");
    validate(bare.base(), PAGE).map_err(doing("validate"))?;
    // Nor is a page beyond the end anybody's.
    let end = scene.target.base() + 2 * PAGE;
    same!(stub::fifo_read(&Trap, scene.at, end - 8, LEN), Err(Error::BadAddress), "a record over the end");
    bare.delete().map_err(doing("delete"))?;
    scene.of_target.calls();
    same!((scene.take(), bytes(scene.to())), (Ok(LEN), Some(record(n))), "the record, after all");
    scene.of_target.calls();
    scene.of_queue.calls();
    Ok(())
}

/// Calls that are made again take one record each, however many threads make them.
pub fn by_many() -> Outcome {
    static QUEUE: AtomicU64 = AtomicU64::new(0);
    static TARGET: AtomicU64 = AtomicU64::new(0);
    static LEFT: AtomicU64 = AtomicU64::new(0);
    static SUM: AtomicU64 = AtomicU64::new(0);
    static WRONG: AtomicU64 = AtomicU64::new(0);
    const READERS: u64 = 4;
    let (target, of_target) = paged(READERS, Does::Validate, 0)?;
    let queue = data(2 * PAGE).map_err(doing("create"))?;
    let at = queue.base();
    let made = Queue::init(at, at + PAGE, at + 2 * PAGE, false).map_err(doing("fifo_init"))?;
    [(&QUEUE, at), (&TARGET, target.base()), (&LEFT, RECORDS * 4), (&SUM, 0), (&WRONG, 0)]
        .into_iter()
        .for_each(|(word, value)| word.store(value, Ordering::SeqCst));
    let reader = |n: u64| {
        let (queue, page) = (QUEUE.load(Ordering::SeqCst), TARGET.load(Ordering::SeqCst) + n * PAGE);
        while LEFT.load(Ordering::SeqCst) > 0 {
            let is_invalid = invalidate(page, PAGE).is_ok();
            match stub::fifo_read(&Trap, queue, page, 8) {
                Ok(8) if is_invalid => {
                    SUM.fetch_add(read(page).unwrap_or(0), Ordering::SeqCst);
                    LEFT.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(NONE) | Err(Error::Busy) => thread::yield_now(),
                _ => _ = WRONG.fetch_add(1, Ordering::SeqCst),
            }
        }
    };
    let readers: Result<Vec<_>, _> = (0..READERS).map(|n| thread::spawn(move || reader(n), 0)).collect();
    let readers = readers.map_err(doing("threads"))?;
    let end = time::now_ns() + 60_000_000_000;
    for n in 1..=RECORDS * 4 {
        while made.append(&n.to_le_bytes()) != Ok(Sent::Registered) {
            holds!(time::now_ns() < end, "record {n} finds no room");
            thread::yield_now();
        }
    }
    while LEFT.load(Ordering::SeqCst) > 0 {
        holds!(time::now_ns() < end, "{} records are left", LEFT.load(Ordering::SeqCst));
        thread::yield_now();
    }
    readers.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("a reader"))?;
    same!(SUM.load(Ordering::SeqCst), RECORDS * 4 * (RECORDS * 4 + 1) / 2, "the sum of all records");
    same!(WRONG.load(Ordering::SeqCst), 0, "other answers");
    holds!(of_target.calls() >= RECORDS * 4, "the pager was asked less often than records came");
    queue.delete().map_err(doing("delete"))?;
    target.delete().map_err(doing("delete"))
}

/// What a signal's structure is told, and its data.
pub fn signals() -> Outcome {
    let scene = Scene::set()?;
    let (program, gate) = signals::Own::new(signals::Does::Count)?;
    let wanted = setup(start::DESTINATION, store::QUEUE, condition::REFUSE, gate);
    let SignalSetup { thread, entry, start, store: kept, condition, most, .. } = wanted;
    // The queue's structure is the buffer, and there are no flags.
    let told = scene.target.base() + 8;
    for (n, word) in [thread, entry, start, kept, condition, most, scene.at, 0, 0].into_iter().enumerate() {
        store(told + 8 * n as u64, word);
    }
    let structure = scene.at + 128;
    for round in 1..=10 {
        all(scene.at, 4)?;
        all(scene.target.base(), 2)?;
        scene.of_target.calls();
        scene.of_queue.calls();
        same!(stub::signal_init(&Trap, structure, told), Ok(0), "round {round}");
        same!((scene.of_queue.calls(), scene.of_target.calls()), (1, 1), "who was asked for the structure");
        validate(scene.at, 4 * PAGE).map_err(doing("validate"))?;
        let sent = Signals::at(structure).send(&record(round), 0);
        same!(sent, Ok(Sent::Registered), "a signal");
        holds!(until(|| program.count() == round), "it has started nothing");
        all(scene.at, 4)?;
        all(scene.target.base(), 2)?;
        same!(stub::signal_take(&Trap, structure, scene.to(), LEN), Ok(LEN), "its data");
        same!(scene.of_target.calls(), 2, "how often the pager of where they go was asked");
        holds!(scene.of_queue.calls() >= 2, "the queue's pager was not asked");
        same!(bytes(scene.to()), Some(record(round)), "what they are");
        same!(stub::signal_take(&Trap, structure, scene.to(), LEN), Ok(NONE), "what comes after them");
    }
    scene.target.delete().map_err(doing("delete"))?;
    section::delete(scene.at).map_err(doing("delete"))
}

/// Addresses of posts, and messages, that lie in memory.
pub fn messages() -> Outcome {
    let (section, own) = paged(2, Does::Validate, 0)?;
    let base = section.base();
    let post = Post::any().map_err(doing("post"))?;
    // Over the border of two pages.
    let at = base + PAGE - 16;
    for round in 1..=10u64 {
        validate(base, 2 * PAGE).map_err(doing("validate"))?;
        // An operation and six words.
        (0..7).for_each(|n| store(at + 8 * n, round + n));
        all(base, 2)?;
        same!((stub::post_send_many(&Trap, post.0, at, 1, 0), own.calls()), (Ok(1), 2), "a message");
        let came = post.receive(0).map_err(doing("receive"))?;
        let wanted = (round as u32, [1, 2, 3, 4, 5, 6].map(|n| round + n));
        same!((came.op, came.words), wanted, "the message that was sent");
        same!(post.receive(0).map(drop), Err(Error::TimedOut), "a second one");
    }
    own.set(Does::Refuse);
    all(base, 2)?;
    same!(
        (stub::post_send_many(&Trap, post.0, at, 1, 0), own.calls()),
        (Err(Error::Absent), 1),
        "a pager that refuses"
    );
    post.free(true).map_err(doing("free"))?;
    section.delete().map_err(doing("delete"))
}
