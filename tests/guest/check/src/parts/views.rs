//! A page that changes in more views than lose it at a stretch: whoever looks afterwards, in whichever view, sees what is there then.

use crate::mbcf::signals::{Does, Own, setup, until};
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::pager::supply;
use musubi::abi::section::{flag, kind};
use musubi::abi::task::Identity;
use musubi::rt::mbcf::{Sent, SignalSetup, Signals, condition, start, store as kept};
use musubi::rt::section::{Section, invalidate};
use musubi::rt::{Trap, pager, probe, sync, task, thread, time};

/// Of threads that have touched a secret: each lives in a view of its own.
const VIEWS: u64 = 80;
const PATIENCE_NS: u64 = 60_000_000_000;
/// In the place of a round's number.
const OVER: u32 = u32::MAX;

static ROUND: AtomicU32 = AtomicU32::new(0);
static LOOKED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// What one of them sees in each round, of a page whose first word is to be the round's number.
fn looks(hidden: u64, page: u64) {
    let _ = probe::read(hidden);
    let mut seen = 0;
    loop {
        match ROUND.load(Ordering::SeqCst) {
            OVER => return,
            round if round == seen => _ = sync::wait(&ROUND, round, PATIENCE_NS),
            round => {
                seen = round;
                WRONG.fetch_add(u64::from(load(page) != u64::from(round)), Ordering::SeqCst);
                LOOKED.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// All look, and see this.
fn all_see(round: u32) -> Outcome {
    ROUND.store(round, Ordering::SeqCst);
    sync::wake(&ROUND, u64::MAX);
    let until = time::now_ns() + PATIENCE_NS;
    while LOOKED.load(Ordering::SeqCst) < VIEWS * u64::from(round) {
        holds!(time::now_ns() < until, "round {round}: {} have looked", LOOKED.load(Ordering::SeqCst));
        thread::yield_now();
    }
    same!(WRONG.load(Ordering::SeqCst), 0, "who saw something else in round {round}");
    Ok(())
}

pub fn a_page_changes_in_all() -> Outcome {
    let secret = Section::create(PAGE, PAGE, kind::DATA, flag::SECRET).map_err(doing("a secret"))?;
    let section = data(PAGE).map_err(doing("create"))?;
    let (hidden, base) = (secret.base(), section.base());
    let crowd: Result<Vec<_>, Error> = (0..VIEWS).map(|_| thread::spawn(move || looks(hidden, base), 0)).collect();
    let crowd = crowd.map_err(doing("starting"))?;
    let seen = rounds(&section);
    ROUND.store(OVER, Ordering::SeqCst);
    sync::wake(&ROUND, u64::MAX);
    crowd.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("joining"))?;
    seen?;
    section.delete().and_then(|()| secret.delete()).map_err(doing("deleting"))
}

fn rounds(section: &Section) -> Outcome {
    let base = section.base();
    let clone = || Section::clone_of(base, 0, 0, 0).map_err(doing("cloning"));
    store(base, 1);
    all_see(1)?;
    // The page is shared, and a store makes it another one: of this program's, and of the kernel's in its name.
    let first = clone()?;
    store(base, 2);
    all_see(2)?;
    let second = clone()?;
    let result = base + PAGE / 2;
    stub::identity(&Trap, result).map_err(doing("a result"))?;
    let thread = load(result + offset_of!(Identity, thread) as u64);
    same!(thread, task::identity().thread, "what the kernel has stored");
    store(base, 3);
    all_see(3)?;
    same!([first.base(), second.base()].map(load), [1, 2], "what the clones have");
    // Another one is put in its place, a copy and itself.
    let other = data(PAGE).map_err(doing("create"))?;
    for (round, how) in [(4, supply::COPY), (5, 0)] {
        store(other.base(), u64::from(round));
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        pager::supply_page(base, other.base(), how).map_err(doing("supply"))?;
        all_see(round)?;
    }
    // It is taken, and another one comes.
    pager::take_page(base, other.base()).map_err(doing("take"))?;
    same!(load(other.base()), 5, "what was taken");
    store(base, 6);
    all_see(6)?;
    let third = signalled(base)?;
    store(base, 7);
    all_see(7)?;
    same!(load(third.base()), 6, "what that clone has");
    third.delete().map_err(doing("deleting"))?;
    [first, second, other].into_iter().try_for_each(Section::delete).map_err(doing("deleting"))
}

/// A signal's program starts when its thread is woken; its state lies in the page, which is shared by then.
fn signalled(base: u64) -> Result<Section, String> {
    static WOKEN: AtomicU32 = AtomicU32::new(0);
    let (own, gate) = Own::new(Does::Count)?;
    let sleeps = || {
        while WOKEN.load(Ordering::SeqCst) == 0 {
            _ = sync::wait(&WOKEN, 0, PATIENCE_NS);
        }
    };
    let sleeper = thread::spawn(sleeps, 0).map_err(doing("starting"))?;
    let setup = setup(start::DESTINATION, kept::MEMORY, condition::REFUSE, gate);
    let (buffer, buffer_len) = (base + PAGE / 4 * 3, PAGE / 4);
    let setup = SignalSetup { thread: sleeper.number(), buffer, buffer_len, ..setup };
    let signal = Signals::init(base + PAGE / 4, &setup).map_err(doing("signal_init"))?;
    time::sleep_ns(20_000_000);
    same!(signal.send(&[1; 4], 0), Ok(Sent::Registered), "a signal");
    let clone = Section::clone_of(base, 0, 0, 0).map_err(doing("cloning"))?;
    WOKEN.store(1, Ordering::SeqCst);
    sync::wake(&WOKEN, u64::MAX);
    holds!(until(|| own.count() == 1), "its program was started {} times", own.count());
    sleeper.join().map_err(doing("joining"))?;
    stub::structure_end(&Trap, base + PAGE / 4).map_err(doing("structure_end"))?;
    Ok(clone)
}
