//! The other program. Its gates do what checks want done in another text: on the caller's thread, with the rights that
//! (that thread, this text) has.

pub mod ways;
mod works;

pub use works::{Nine, nine, work};

use crate::attacks;
use crate::exceptions;
use crate::faults;
use crate::memory::{call, load, store, store_text, word};
use crate::raw;
use crate::report::doing;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::{Kernel, stub};
use musubi::abi::gate::{GATE_STEP, flag};
use musubi::abi::task::Limits;
use musubi::command::{Child, Command};
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, ANYBODY_BY_KERNEL, Skeleton, Values};
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::{Bound, Gates, Mutex, Trap, plain_call, probe, section, sync, task, thread, time};
use musubi::{AclEntry, Caller, Error, Rights, eprintln, names};

/// What the gate does, by the first word of the call; `w0` and so on are the words behind it.
pub mod op {
    /// Loads a byte at `w0`.
    pub const PEEK: u64 = 0;
    /// Stores the word `w1` at `w0`.
    pub const POKE: u64 = 1;
    /// Calls the code at `w0`.
    pub const RUN: u64 = 2;
    /// Changes the section `w0` in a way that takes the right change-acl.
    pub const CHANGE: u64 = 3;
    /// Makes a plain call of the gate at `w0` with the words `w1`...
    pub const RELAY: u64 = 4;
    pub const FAULT: u64 = 5;
    /// Ends the task, with `w0`.
    pub const EXIT: u64 = 6;
    pub const THREAD_EXIT: u64 = 7;
    /// Stores 1 at `w0` and loops for ever.
    pub const LOOP: u64 = 8;
    /// Stores 1 at `w0` and sleeps `w1` ns.
    pub const SLEEP: u64 = 9;
    /// Adds `w0` to the sum; value: the sum.
    pub const ADD: u64 = 10;
    /// Counts at `w0` and then at `w1`, again and again.
    pub const HAMMER: u64 = 11;
    /// Reads at `w0` and then counts at `w1`, again and again.
    pub const WATCH: u64 = 12;
    /// The sum of a list of (value, address of the next) that begins at `w0`.
    pub const SUM_LIST: u64 = 13;
    /// Values: thread and text that execute this.
    pub const WHO: u64 = 14;
    /// Has the program's own thread do [`own`] `w0` with `w1`.
    pub const OWN: u64 = 15;
    /// Writes `w0` to the first half of a pair, stores 1 at `w1`, takes its time, writes the second half.
    pub const UPDATE: u64 = 16;
    /// The two halves.
    pub const PAIR: u64 = 17;
    /// Exports a gate of [`raw::kind`] number `w0` with the flags `w1`; value: its address.
    pub const RAW: u64 = 18;
    /// Calls the same of the peer whose gates are at `w0`, with `w0` and `w1` exchanged and `w2` one more. Value: how deep
    /// it came.
    pub const BOUNCE: u64 = 19;
    /// Exports these gates once more, for callers who bring their stack. Value: the address.
    pub const ON_CALLERS_STACK: u64 = 20;
    /// Binds this text to the gates at `w0`. Value: a number for [`CALL_BOUND`].
    pub const BIND: u64 = 21;
    /// Calls gate `w1` of binding `w0` with the words `w2`...
    pub const CALL_BOUND: u64 = 22;
    /// Value: an address in this program's data.
    pub const ADDRESS_OF_DATA: u64 = 23;
    /// Makes the kernel call `w1` with `w2` and `w3`, answers as it does, and stores what its error says at `w0`.
    pub const TRY: u64 = 24;
    /// As [`UPDATE`], but computes `w2` rounds in between.
    pub const WORK: u64 = 27;
    /// With a lock held: adds 1 to the first half of a pair, copies `w1` bytes from `w0`, adds 1 to the second half; if the copy fails,
    /// takes back what it has done, and says so. Value: the first half.
    pub const COPY_LOCKED: u64 = 28;
    /// From now on this text's faults go to `w0`; 0: nowhere.
    pub const FAULT_ENTRY: u64 = 29;
    /// From now on this text's faults end the call: [`faults::leave`].
    pub const LEAVING_ENTRY: u64 = 30;
    /// From now on this text's faults never end: [`faults::endless`] number `w0`, with the gate `w1` and the word `w2`.
    pub const ENDLESS_ENTRY: u64 = 44;
    /// With the lock held: adds 1 to the first half of a pair, to a word of a section of the server's own (made at the first call), and to
    /// the second half. Value: the word.
    pub const OWN_SECTION: u64 = 31;
    /// Takes the lock of [`COPY_LOCKED`], stores 1 at `w0`, and keeps it for ever.
    pub const HOLD: u64 = 32;
    /// With the lock of [`COPY_LOCKED`] held: stores 1 at `w0` and computes `w1` rounds.
    pub const WORK_LOCKED: u64 = 36;
    /// [`FAULT`] with that lock held.
    pub const FAULT_LOCKED: u64 = 37;
    /// As [`UPDATE`], but gives way twice in between.
    pub const TURN: u64 = 38;
    /// Exports a function of nine arguments; value: its gate.
    pub const WIDE: u64 = 26;
    /// Answers with the two values `w0` and `w1`, whatever they mean.
    pub const ANSWER: u64 = 25;
    /// Values: task and text of the caller, as it is told.
    pub const CALLER: u64 = 33;
    pub const PANIC: u64 = 34;
    /// Stores 1 at `w0` and works in the middle of an update, as long as nobody has killed its caller; then finishes and stores 2.
    pub const HEED: u64 = 40;
    /// As [`HEED`], but before it finishes it counts on each page of the `w3` bytes at `w2`.
    pub const HEED_AND_COUNT: u64 = 42;
    /// Has what it was bound to first do the same, with one more than `w0`, until that is too deep. Value: how deep it came.
    pub const DEEP: u64 = 41;
    /// Leaves its thread's number at `w0` + 8 * `w1`, and waits until `w2` threads that have done so are running at one moment.
    pub const MEET: u64 = 35;
    /// Makes pages valid: where they begin, and their length.
    pub const VALIDATE: u64 = 43;
    /// Raises exception `w0` of [`exceptions::KINDS`]. `w1` 1: its fault entry mends it; 2: nobody does; 3: leaves one of the x87 unit's waiting.
    /// Value: 0 if everything was as it should be.
    pub const RAISE: u64 = 45;
    /// Stores to more pages of its own than it may have.
    pub const HOARD: u64 = 46;
    /// Stores the ticks at `w0` and does `w1` with `w2`...
    pub const STAMPED: u64 = 47;
    /// Stores 1 at `w0`; when its caller is killed, sleeps up to `w1` times, stores how often at `w0` + 8 and 2 at `w0`.
    pub const NAP: u64 = 48;
    /// Writes `w0` to the first half of a pair, makes a plain call of the gate at `w1` with op `w2` and the word `w3`, stores what that says
    /// at `w3` + 8, writes the second half.
    pub const CALL_BACK: u64 = 49;
    /// Makes three plain calls to the gate at `w0` with word `w1`, and fails if its own stack is not as it was. Value: of the last call.
    pub const CALL_BACK_PLAINLY: u64 = 50;
    /// Stores 1 at `w0` + 8 and waits until there is something at `w0`; with `w1`, as one who lets others receive meanwhile.
    pub const AWAIT: u64 = 51;
    /// Has a fault entry that is none, and wants `w0` ([`musubi::abi::frame::wants`]).
    pub const WANTS: u64 = 52;
    /// Stores 1 at `w0` and reads the stream `w2` of the server whose gates are at `w1`.
    pub const READ: u64 = 53;
}

/// What only the program's own thread may do.
pub mod own {
    pub const DELETE_TEXT: u64 = 1;
    /// Nobody may call any more.
    pub const SHUT: u64 = 2;
    pub const OPEN: u64 = 3;
    /// Takes the gates at `w1` back.
    pub const CLOSE: u64 = 4;
    /// Anybody may call, by the kernel only: nobody may execute its code himself.
    pub const BY_KERNEL: u64 = 5;
    /// `Exists` if it may read the word at `w1`.
    pub const LOOK: u64 = 6;
    /// Loads the word at `w1`.
    pub const TOUCH: u64 = 7;
    /// Receives at the post `w1`, and has the kernel write where that message says.
    pub const HAVE: u64 = 8;
}

struct Ops;

static SUM: AtomicU64 = AtomicU64::new(0);
static PAIR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// 0: nothing to do; 1: asked; 2: done.
static ASKED: AtomicU32 = AtomicU32::new(0);
static WHAT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static BOUND: Mutex<[Option<&'static Bound>; 4]> = Mutex::new([None; 4]);

fn value(result: Result<u64, Error>) -> Values {
    Values::of(result)
}

impl Skeleton for Ops {
    fn dispatch(&self, caller: &Caller, gate: u64, w: &[u64; 6]) -> Values {
        let [what, w @ ..] = *w;
        match what {
            attacks::op::FIRST.. => attacks::serve(caller, what, &w),
            op::PEEK => Values(0, u64::from(probe::read(w[0]))),
            op::POKE => {
                store(w[0], w[1]);
                Values(0, 0)
            }
            op::RUN => Values(0, call(w[0])),
            op::CHANGE => value(section::name(w[0], b"changed").map(|()| 0)),
            op::RELAY => {
                let words = [w[1], w[2], w[3], w[4], 0, 0];
                value(plain_call(w[0], words).and_then(result_of))
            }
            op::FAULT => {
                probe::write(8);
                Values(0, 0)
            }
            op::COPY_LOCKED => value(works::copy_locked(w[0], w[1])),
            op::VALIDATE => value(stub::page_validate(&Trap, w[0], w[1])),
            op::FAULT_ENTRY => value(stub::fault_entry(&Trap, w[0], 0)),
            op::RAISE => Values(0, exceptions::raise_here(w[0], w[1])),
            op::LEAVING_ENTRY => value(stub::fault_entry(&Trap, faults::leave as *const () as u64, 0)),
            op::ENDLESS_ENTRY => value(stub::fault_entry(&Trap, faults::endless(w[0], w[1], w[2]), 0)),
            op::HOLD => {
                let _held = works::LOCKED.lock();
                store(w[0], 1);
                loop {
                    core::hint::spin_loop();
                }
            }
            op::WORK_LOCKED => {
                let _held = works::LOCKED.lock();
                store(w[0], 1);
                work(w[1]);
                Values(0, 0)
            }
            op::FAULT_LOCKED => {
                let _held = works::LOCKED.lock();
                probe::write(8);
                Values(0, 0)
            }
            op::OWN_SECTION => value(works::own_section()),
            op::EXIT => task::exit(w[0] as i32),
            op::THREAD_EXIT => thread::exit(w[0]),
            op::HOARD => value(works::hoard()),
            op::STAMPED => {
                store(w[0], time::ticks());
                self.dispatch(caller, gate, &[w[1], w[2], w[3], w[4], 0, 0])
            }
            op::LOOP => {
                store(w[0], 1);
                loop {
                    core::hint::spin_loop();
                }
            }
            op::SLEEP => {
                store(w[0], 1);
                time::sleep_ns(w[1]);
                Values(0, 0)
            }
            op::ADD => Values(0, SUM.fetch_add(w[0], Ordering::Relaxed).wrapping_add(w[0])),
            op::HAMMER => loop {
                word(w[0]).fetch_add(1, Ordering::SeqCst);
                word(w[1]).fetch_add(1, Ordering::SeqCst);
            },
            op::WATCH => loop {
                load(w[0]);
                word(w[1]).fetch_add(1, Ordering::SeqCst);
            },
            op::SUM_LIST => {
                let (mut at, mut sum) = (w[0], 0u64);
                while at != 0 {
                    sum = sum.wrapping_add(load(at));
                    at = load(at + 8);
                }
                Values(0, sum)
            }
            op::WHO => {
                let who = task::identity();
                Values(who.thread, who.text)
            }
            op::OWN => value(ask(w[0], w[1])),
            op::UPDATE => {
                PAIR[0].store(w[0], Ordering::SeqCst);
                store(w[1], 1);
                time::sleep_ns(200_000_000);
                PAIR[1].store(w[0], Ordering::SeqCst);
                Values(0, 0)
            }
            op::WORK => {
                PAIR[0].store(w[0], Ordering::SeqCst);
                store(w[1], 1);
                work(w[2]);
                PAIR[1].store(w[0], Ordering::SeqCst);
                Values(0, 0)
            }
            op::TURN => {
                PAIR[0].store(w[0], Ordering::SeqCst);
                store(w[1], 1);
                (0..2).for_each(|_| thread::yield_now());
                PAIR[1].store(w[0], Ordering::SeqCst);
                Values(0, 0)
            }
            op::PAIR => Values(PAIR[0].load(Ordering::SeqCst), PAIR[1].load(Ordering::SeqCst)),
            op::RAW => value(stub::gate_create(&Trap, raw::raw(w[0]), 1, raw::COOKIE, w[1])),
            op::BOUNCE => match plain_call(w[0], [op::BOUNCE, w[1], w[0], w[2] + 1, 0, 0]).and_then(result_of) {
                Err(Error::TooDeep) => Values(0, w[2]),
                other => value(other),
            },
            op::ON_CALLERS_STACK => value(Gates::export_with(Ops, 1, flag::CALLER_STACK).map(|g| g.address())),
            op::BIND => value(Bound::bind(w[0], 0).and_then(|bound| {
                let mut slots = BOUND.lock();
                let free = slots.iter().position(Option::is_none).ok_or(Error::TooBig)?;
                slots[free] = Some(Box::leak(Box::new(bound)));
                Ok(free as u64)
            })),
            op::CALL_BOUND => {
                let bound = BOUND.lock().get(w[0] as usize).copied().flatten();
                let call = |b: &Bound| b.call(0, [w[1], w[2], w[3], w[4], 0, 0]).and_then(result_of);
                value(bound.ok_or(Error::NotFound).and_then(call))
            }
            op::TRY => {
                let outcome = Trap.enter(w[1], [w[2], w[3], 0, 0, 0, 0]);
                store_text(w[0], &outcome.map_or_else(|e| format!("{e}"), |_| String::new()));
                value(outcome)
            }
            op::WIDE => value(Gates::export_function(nine as Nine).map(|gates| gates.address())),
            op::ANSWER => Values(w[0], w[1]),
            op::READ => value(works::read(w[0], w[1], w[2])),
            op::WANTS => value(stub::fault_entry(&Trap, 0, w[0])),
            op::CALLER => Values(caller.task, caller.text),
            op::MEET => value(works::meet(w[0], w[1], w[2])),
            op::DEEP => {
                let next = BOUND.lock()[0].ok_or(Error::NotFound);
                match next.and_then(|bound| bound.call(0, six(op::DEEP, &[w[0] + 1]))).and_then(result_of) {
                    Err(Error::TooDeep) => Values(0, w[0]),
                    other => value(other),
                }
            }
            op::NAP => works::nap(w[0], w[1]),
            op::CALL_BACK => works::call_back(&PAIR, w[0], w[1], [w[2], w[3]]),
            op::HEED => works::heed(&PAIR, w[0], w[1], (0, 0)),
            op::HEED_AND_COUNT => works::heed(&PAIR, w[0], w[1], (w[2], w[3])),
            op::CALL_BACK_PLAINLY => value(works::call_back_plainly(w[0], w[1])),
            op::AWAIT => value(works::await_there(caller, w[0], w[1] != 0)),
            op::PANIC => panic!("as it was asked to"),
            op::ADDRESS_OF_DATA => Values(0, PAIR.as_ptr() as u64),
            _ => Values(Error::NoSuchCall.word(), 0),
        }
    }
}

/// Lets the program's own thread do something, and waits until it has.
fn ask(what: u64, with: u64) -> Result<u64, Error> {
    WHAT[0].store(what, Ordering::SeqCst);
    WHAT[1].store(with, Ordering::SeqCst);
    ASKED.store(1, Ordering::SeqCst);
    sync::wake(&ASKED, 1);
    while ASKED.load(Ordering::SeqCst) == 1 {
        let _ = sync::wait(&ASKED, 1, 1_000_000);
    }
    Ok(WHAT[2].load(Ordering::SeqCst))
}

/// The gates, of whatever program, for anybody.
pub fn export() -> Result<Gates, Error> {
    let gates = Gates::export(Ops, 1)?;
    gates.admit(&ANYBODY)?;
    Ok(gates)
}

/// The program.
pub fn serve(name: &str) -> i32 {
    serve_by(name, Gates::export(Ops, 1))
}

/// The same, served by threads of its own to who wants that.
pub fn serve_with_lines(name: &str) -> i32 {
    serve_by(name, Gates::export_by::<Ops, 1>(Ops, Ways::default().lines(6)))
}

/// The same with threads that wait at a post: `post` is its address (0: one of its own).
pub fn serve_with_post(name: &str, post: u64, receivers: usize) -> i32 {
    let post = if post == 0 { Post::any() } else { Ok(Post(post)) };
    let ways = post.map(|post| Ways::default().post(post).receivers(receivers));
    serve_by(name, ways.and_then(|ways| Gates::export_by::<Ops, 1>(Ops, ways)))
}

fn serve_by(name: &str, gates: Result<Gates, Error>) -> i32 {
    let gates = match gates.and_then(|gates| names::publish(name, &gates).map(|()| gates)) {
        Ok(gates) => gates,
        Err(e) => {
            eprintln!("peer {name}: {e}");
            return 1;
        }
    };
    let own_text = musubi::start().text();
    loop {
        while ASKED.load(Ordering::SeqCst) != 1 {
            let _ = sync::wait(&ASKED, ASKED.load(Ordering::SeqCst) & !1, u64::MAX);
        }
        let with = WHAT[1].load(Ordering::SeqCst);
        let nobody = AclEntry { rights: 0, ..ANYBODY };
        let done = match WHAT[0].load(Ordering::SeqCst) {
            own::DELETE_TEXT => section::delete(own_text),
            own::SHUT => section::grant(own_text, &nobody),
            own::OPEN => gates.admit(&ANYBODY),
            own::BY_KERNEL => gates.admit(&ANYBODY_BY_KERNEL),
            own::CLOSE => stub::gate_delete(&Trap, with).map(drop),
            own::LOOK if section::may(with, 8, Rights::READ, section::Who::Own) => Err(Error::Exists),
            own::LOOK => Ok(()),
            own::TOUCH => {
                probe::read(with);
                Ok(())
            }
            own::HAVE => attacks::loans::messages::have(with),
            _ => Err(Error::BadArgument),
        };
        WHAT[2].store(done.map_or_else(Error::word, |()| 0), Ordering::SeqCst);
        ASKED.store(2, Ordering::SeqCst);
        sync::wake(&ASKED, u64::MAX);
    }
}

/// A peer that was started, and a binding to it.
pub struct Peer {
    pub child: Child,
    pub gate: u64,
    pub text: u64,
    pub bound: Bound,
}

static STARTED: AtomicU64 = AtomicU64::new(0);

impl Peer {
    pub fn start() -> Result<Peer, String> {
        Peer::start_as("peer")
    }

    /// One that serves by lines, too.
    pub fn start_with_lines() -> Result<Peer, String> {
        Peer::start_as("peer-with-lines")
    }

    /// One that serves by a post, too: see [`serve_with_post`].
    pub fn start_with_post(post: u64, receivers: usize) -> Result<Peer, String> {
        Peer::start_with(&["peer-with-post", &format!("{post}"), &format!("{receivers}")])
    }

    /// One with little memory.
    pub fn start_small() -> Result<Peer, String> {
        Peer::start_within(&["peer"], Limits { frames: works::FEW, ..Limits::default() })
    }

    fn start_as(kind: &str) -> Result<Peer, String> {
        Peer::start_with(&[kind])
    }

    fn start_with(kind: &[&str]) -> Result<Peer, String> {
        Peer::start_within(kind, Limits::default())
    }

    fn start_within(kind: &[&str], limits: Limits) -> Result<Peer, String> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("peer-{}-{number}", musubi::start().task());
        let child = Command::new(b"bin/check")
            .args(["check"].iter().chain(kind))
            .arg(name.as_bytes())
            .limits(limits)
            .spawn()
            .map_err(doing("peer"))?;
        let gate = names::await_name(&name, 20_000_000_000).map_err(doing("peer's name"))?;
        let bound = Bound::bind(gate, 4096).map_err(doing("binding to the peer"))?;
        Ok(Peer { child, gate, text: bound.binding().text, bound })
    }

    /// A bound call of an [`op`].
    pub fn call(&self, what: u64, words: &[u64]) -> Result<u64, Error> {
        self.bound.call(0, six(what, words)).and_then(result_of)
    }

    /// The same by a plain call.
    pub fn plain(&self, what: u64, words: &[u64]) -> Result<u64, Error> {
        plain_call(self.gate, six(what, words)).and_then(result_of)
    }

    /// An [`op`] whose two values are not an error and a value.
    pub fn pair(&self, what: u64) -> Result<[u64; 2], Error> {
        self.bound.call(0, six(what, &[]))
    }

    /// An address in the peer's page of gates where there is no gate.
    pub fn no_gate(&self) -> u64 {
        self.gate + 200 * GATE_STEP
    }

    /// Ends it and waits until it is over.
    pub fn end(self) -> Result<(), String> {
        let _ = self.child.kill();
        self.child.wait_for(20_000_000_000).map_err(doing("the peer's end"))?;
        self.bound.unbind().map_err(doing("unbinding"))
    }
}

pub fn six(what: u64, words: &[u64]) -> [u64; 6] {
    let mut all = [what, 0, 0, 0, 0, 0];
    all[1..=words.len()].copy_from_slice(words);
    all
}

/// Starts a thread that makes one call, and waits until the call has begun: the op stores 1 at `flag` first.
pub fn in_call(
    peer: &'static Peer,
    what: u64,
    flag: u64,
    more: u64,
) -> Result<(thread::Thread, Arc<AtomicU64>), String> {
    ways::inside(flag, move || peer.call(what, &[flag, more]))
}
