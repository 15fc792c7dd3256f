//! A program of another user's that calls are let in by (pitfalls, H14): on its callers' threads it is nobody of theirs. The second user's programs are started as in
//! `two_users.rs`.

use crate::memory::{data, load, load_text, store, store_text};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::two_users::memory;
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{flag, kind};
use musubi::abi::task::USER_NOBODY;
use musubi::interfaces::memory::MemoryClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{Skeleton, Values};
use musubi::rt::{Bound, Gates, Section, Trap, plain_call, probe, section, thread, time};
use musubi::{AclEntry, Caller, Error, Rights, names};

/// In the memory that both see: what the second user's program is to do, where its gate is, whether it is over; and why something went wrong.
const DOES: u64 = 2048;
const SERVES: u64 = 1;
const GATE: u64 = DOES + 8;
const OVER: u64 = DOES + 16;
const REASON: u64 = 64;
/// Longer than this nothing takes.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What it is asked for.
const AUTHOR: u64 = 0;
const NAME: u64 = 1;
const GIVES: u64 = 2;
const COUNTS: u64 = 3;

/// On its callers' threads.
struct Stranger;

impl Skeleton for Stranger {
    fn dispatch(&self, caller: &Caller, _: u64, words: &[u64; 6]) -> Values {
        match words[0] {
            AUTHOR => Values::of(makes_author(caller.task)),
            GIVES => Values::of(memory::gives(caller.task)),
            COUNTS => Values::of(counts(words[1])),
            _ => Values::of(plain_call(words[1], [0; 6]).and_then(result_of)),
        }
    }
}

/// Its data become the caller's, who is paid for by himself, and then code, which would act as him.
fn makes_author(task: u64) -> Result<u64, Error> {
    let one = Section::create(PAGE, 2 * PAGE, kind::DATA, flag::ANY_PRINCIPAL)?;
    probe::write(one.base());
    section::give(one.base(), task)?;
    let sealed = stub::section_seal(&Trap, one.base());
    section::delete(one.base())?;
    Ok(u64::from(sealed.is_ok()))
}

/// How many pages a section has, and in how many pieces, as far as it is told.
fn counts(base: u64) -> Result<u64, Error> {
    let pages = section::pages(base)?;
    Ok(section::info(base)?.resident + pages.resident + pages.pieces)
}

/// As whom it is asked, it says.
struct Tells;

impl Skeleton for Tells {
    fn dispatch(&self, caller: &Caller, _: u64, _: &[u64; 6]) -> Values {
        Values::of(Ok(caller.user))
    }
}

/// Whether the second user's program is to be that one.
pub fn is_wanted(shared: u64) -> bool {
    load(shared + DOES) == SERVES
}

/// The second user's program.
pub fn serves(shared: u64) -> Outcome {
    let gates = Gates::export(Stranger, 1).map_err(doing("gates"))?;
    gates.admit(&everybody(Rights::CALL)).map_err(doing("who may call"))?;
    store(shared + GATE, gates.address());
    let until = time::now_ns() + PATIENCE_NS;
    while load(shared + OVER) == 0 {
        holds!(time::now_ns() < until, "nobody says that it is over");
        time::sleep_ns(5_000_000);
    }
    Ok(())
}

/// The first user's.
pub fn is_called() -> Outcome {
    beside_it(calls)
}

/// Does something while the second user's program is there, by its gate.
fn beside_it(does: impl FnOnce(u64) -> Outcome) -> Outcome {
    static STATUS: AtomicU64 = AtomicU64::new(0);
    STATUS.store(u64::MAX, Ordering::SeqCst);
    let client = MemoryClient::bind(names::lookup("memory").map_err(doing("memory"))?).map_err(doing("other-user"))?;
    let shared = data(PAGE).map_err(doing("memory for both"))?.base();
    let rights = Rights::READ | Rights::WRITE;
    let entry = AclEntry { principal: principal::USER, rights: rights.bits(), id: 2, text: ANY_TEXT };
    section::grant(shared, &entry).map_err(doing("the other user's right"))?;
    store(shared + DOES, SERVES);
    store_text(shared + REASON, "it has said nothing");
    let runs = move || STATUS.store(client.want(shared).unwrap_or(u64::MAX - 1), Ordering::SeqCst);
    let other = thread::spawn(runs, 0).map_err(doing("a thread"))?;
    let until = time::now_ns() + PATIENCE_NS;
    while load(shared + GATE) == 0 && STATUS.load(Ordering::SeqCst) == u64::MAX {
        holds!(time::now_ns() < until, "the other user's program does not come");
        time::sleep_ns(5_000_000);
    }
    let outcome = does(load(shared + GATE));
    store(shared + OVER, 1);
    other.join().map_err(doing("join"))?;
    same!(STATUS.load(Ordering::SeqCst), 0, "the other user: {}", load_text(shared + REASON));
    outcome
}

/// The first user's: what the stranger has may become his.
pub fn is_given() -> Outcome {
    beside_it(|gate| {
        let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
        let given = bound.call(0, [GIVES, 0, 0, 0, 0, 0]).and_then(result_of);
        same!(given, Ok(0b111), "whether he was refused more, to give, and to give when there is enough again");
        bound.unbind().map_err(doing("unbind"))
    })
}

fn calls(gate: u64) -> Outcome {
    let tells = Gates::export(Tells, 1).map_err(doing("gates"))?;
    tells.admit(&everybody(Rights::CALL)).map_err(doing("who may call"))?;
    let me = musubi::start().user();
    same!(plain_call(tells.address(), [0; 6]).and_then(result_of), Ok(me), "as whom this program asks");
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    let asked = |what: u64, word: u64| bound.call(0, [what, word, 0, 0, 0, 0]).and_then(result_of);
    same!(asked(NAME, tells.address()), Ok(USER_NOBODY), "as whom the other one asks on this thread");
    same!(asked(AUTHOR, 0), Ok(0), "whether it has made this program the author of its code");
    let mine = data(PAGE).map_err(doing("create"))?;
    store(mine.base(), 1);
    same!(counts(mine.base()), Ok(3), "what this program is told of its own");
    same!(asked(COUNTS, mine.base()), Ok(0), "what the other one is told of that");
    mine.delete().map_err(doing("delete"))?;
    bound.unbind().map_err(doing("unbind"))
}
