//! A call that is over for its time in the middle of the gate's way back (pitfalls: H3, H12). The gate takes the callee's frame off first and
//! jumps through it last. Where the frame is marked as one that only the kernel can return through, which a caller can do, the kernel
//! makes the return then; if it has ended the call before, the mark must not stay above the top: who jumps there later would
//! have the kernel take back a call that is over, with a stack pointer and a record of his choice.
//!
//! And one that is over in the middle of what is everybody's: that is left whole (docs/decisions/0004).

use super::asm::through;
use super::sweep::{instructions, stopped_on_the_way_back};
use super::{EARNED, FRAME, Scene, TOP, has_keys, op, record, without_keys};
use crate::memory::{data, load, store};
use crate::peer::{self, Peer};
use crate::report::{Outcome, doing};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::{GATE, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::task::{CALLEE_GRACE_NS, CALLEE_TURNS, USER_SYSTEM};
use musubi::interfaces::passing::PassingClient;
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, Trap, sched, section, task, thread, time};
use musubi::{Error, Rights, ended, names};

/// How far the late text has come: its call has not begun; has; its callee has done what it was called for; it is back.
mod stage {
    pub const CALLS: u64 = 1;
    pub const CALLED: u64 = 2;
    pub const BACK: u64 = 3;
}

/// How far around the end of its time the moment is looked for at which the call has to be made.
const AROUND_NS: u64 = 1_000_000;
/// Instructions of the callee behind what it was called for, and of the gate's way back: more than there are.
const WAY_BACK: u64 = 150;
/// Times that all this is tried until there was an interrupt everywhere. (A call takes a second of the machine's time, not of the host's.)
const ROUNDS_MAX: u64 = 12;
/// Calls that have come back in a row: all of their instructions lie behind.
const BACK_ENOUGH: u32 = 20;
/// Of calls of the scheduler that have woken nobody: as many may be others', who enter it meanwhile.
const FEW: u64 = 5;
/// Places in a call of what is everybody's.
const PLACES: u64 = 200;

/// Of the late text: its binding's slot, and the page with the stage and, behind it, after how many ns it makes its call.
static SLOT: AtomicU64 = AtomicU64::new(0);
static ROOM: AtomicU64 = AtomicU64::new(0);
/// What a late text calls.
static EVERYBODYS: AtomicPtr<Everybodys> = AtomicPtr::new(core::ptr::null_mut());
/// What a late text asks the name server for.
const NAME: &str = "files";
/// Behind the stage, the delay and how long the call is: the number of a thread that sleeps in the scheduler, and where the name is.
const SLEEPER: u64 = 24;
const NAME_AT: u64 = 64;
/// Of `Names`.
const LOOKUP: u64 = 1;

/// Texts that everybody calls: the scheduler's, for a thread to be woken, and the name server's.
enum Everybodys {
    Scheduler(PassingClient, u64),
    /// A binding and where a name is that it may read. (A client would have a lock of its own, where it puts what it lends.)
    Names(Bound, u64),
}

impl Everybodys {
    fn call(&self) -> Result<(), Error> {
        match self {
            Everybodys::Scheduler(passing, thread) => passing.wake_up(*thread),
            Everybodys::Names(names, at) => {
                let found = names.call(LOOKUP, peer::six(*at, &[NAME.len() as u64]))?;
                result_of(found).map(drop)
            }
        }
    }
}

/// A peer's part: from now on its faults go to [`late`], which calls the gates at `gate`.
pub fn prepare(gate: u64, room: u64) -> Result<u64, Error> {
    let bound: &'static Bound = Box::leak(Box::new(Bound::bind(gate, 0)?));
    SLOT.store(slot(bound.binding().number), Ordering::SeqCst);
    ROOM.store(room, Ordering::SeqCst);
    // Until the gate makes the calls, and both have had what they touch meanwhile: who has no key for that is called by the kernel.
    for _ in 0..EARNED {
        store(room, 0);
        bound.call(0, peer::six(peer::op::POKE, &[room, 0]))?;
        let [_, at] = bound.call(0, peer::six(op::ENTRY, &[]))?;
        if record(at).direct > 0 {
            return stub::fault_entry(&Trap, late as *const () as u64, 0);
        }
    }
    Err(Error::NotSupported)
}

/// A peer's part: from now on its faults go to [`late_at_everybodys`].
pub fn prepare_everybodys(scheduler: bool, room: u64) -> Result<u64, Error> {
    ROOM.store(room, Ordering::SeqCst);
    let everybodys = if scheduler {
        Everybodys::Scheduler(names::lookup("passing").and_then(PassingClient::bind)?, load(room + SLEEPER))
    } else {
        // SAFETY: it is the check's page, of which nobody uses that part.
        unsafe { ((room + NAME_AT) as *mut u8).copy_from(NAME.as_ptr(), NAME.len()) };
        Everybodys::Names(Bound::bind(musubi::start().names(), 0)?, room + NAME_AT)
    };
    // Until calls do not go by the kernel.
    (0..EARNED).try_for_each(|_| everybodys.call())?;
    EVERYBODYS.store(core::ptr::from_mut(Box::leak(Box::new(everybodys))), Ordering::SeqCst);
    stub::fault_entry(&Trap, late_at_everybodys as *const () as u64, 0)
}

/// A fault entry that makes a call just when its time is over, with a return address that is marked.
extern "C" fn late() -> ! {
    let room = just_in_time(|| ());
    store(room, stage::CALLS);
    through(GATE, SLOT.load(Ordering::SeqCst), peer::op::POKE, room, stage::CALLED, 1 << 63);
    store(room, stage::BACK);
    computes()
}

/// One that calls what is everybody's. (With a lock of its own it would end, too: that is its own loss.)
extern "C" fn late_at_everybodys() -> ! {
    // SAFETY: it was leaked for this by `prepare_everybodys`, and is never freed.
    let everybodys = unsafe { &*EVERYBODYS.load(Ordering::SeqCst) };
    let call = || {
        let _ = everybodys.call();
    };
    // What it takes only the first time is over by then, and who was woken by that sleeps again.
    let room = just_in_time(|| {
        call();
        if matches!(everybodys, Everybodys::Scheduler(..)) {
            time::sleep_ns(AROUND_NS / 4);
        }
    });
    let began = time::ticks();
    store(room, stage::CALLS);
    call();
    store(room, stage::BACK);
    store(room + 16, time::ticks() - began);
    computes()
}

fn computes() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Until it is time for the call. The page with the stage.
fn just_in_time(before: impl Fn()) -> u64 {
    let (began, room) = (time::now_ns(), ROOM.load(Ordering::SeqCst));
    // Who has had as many turns as this needs no time of his own.
    for _ in 0..=CALLEE_TURNS {
        time::sleep_ns(CALLEE_GRACE_NS * 3 / 4 / CALLEE_TURNS);
    }
    let at = began + load(room + 8);
    time::sleep_ns(at.saturating_sub(time::now_ns() + AROUND_NS));
    before();
    // (Ticks stand still while nobody runs.)
    wait_until(time::ticks() + at.saturating_sub(time::now_ns()));
    room
}

/// Where ticks are instructions, exactly until then.
fn wait_until(ticks: u64) {
    // SAFETY: reads the clock until less is left than there are instructions behind, and jumps over those that are too many.
    unsafe {
        asm!(
            "2:",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov rcx, {ticks}",
            "sub rcx, rax",
            "cmp rcx, 128",
            "jg 2b",
            "xor eax, eax",
            "test rcx, rcx",
            "cmovs rcx, rax",
            "lea rax, [rip + 3f]",
            "sub rax, rcx",
            "jmp rax",
            ".rept 128",
            "nop",
            ".endr",
            "3:",
            ticks = in(reg) ticks,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            options(nomem, nostack),
        );
    }
}

/// The frame above the top, once for each instruction of the callee's way back at which its caller's time may be over. First of
/// its machine: where the kernel has stopped threads in the gate is counted from the start.
pub fn late_on_the_way_back() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let (scene, texts) = (Scene::set()?, Peer::start()?);
    if !has_keys(&texts.bound) {
        texts.end()?;
        scene.end()?;
        return without_keys();
    }
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    texts.call(op::LATE, &[scene.victim.gate, room]).map_err(doing("a text that is late"))?;
    let after = |delay: u64| -> Result<u64, String> {
        (store(room, 0), store(room + 8, delay));
        same!(texts.call(peer::op::FAULT, &[]), Err(Error::Faulted), "a call that is late, {delay} ns after its fault");
        same!(task::identity().depth, 0, "the depth afterwards");
        let address = load(load(TOP) + 2 * FRAME);
        holds!(
            address >> 63 == 0,
            "a call made {delay} ns after the fault is over, and its frame left with the mark: {address:#x}"
        );
        Ok(load(room))
    };
    let wanted = instructions("out_open", "out_trap");
    for _ in 0..ROUNDS_MAX {
        // The latest that its callee still does what it was called for; the earlier it calls, the further they come.
        let (mut done, mut late) = (CALLEE_GRACE_NS - AROUND_NS, CALLEE_GRACE_NS + AROUND_NS);
        same!(after(done)?, stage::BACK, "how far it comes with time enough");
        while late - done > 1 {
            let middle = done.midpoint(late);
            *(if after(middle)? >= stage::CALLED { &mut done } else { &mut late }) = middle;
        }
        for earlier in 0..WAY_BACK {
            after(done - earlier)?;
            if stopped_on_the_way_back() >= wanted {
                texts.end()?;
                return scene.end();
            }
        }
    }
    Err(alloc::format!("stopped at {} places of {wanted} on the way back", stopped_on_the_way_back()))
}

/// A fault entry is late all through a call of the scheduler that puts a thread into a queue. One that was ended there, with that half
/// changed, would lose the thread, or cost the scheduler its seat.
pub fn late_in_the_scheduler() -> Outcome {
    crate::sched::with("ageing", || {
        let dismissed = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let (before, over) = (dismissed(), leak(AtomicBool::new(false)));
        let (slept, woken) = (leak(AtomicU64::new(0)), leak(AtomicU64::new(0)));
        let passing: &'static PassingClient =
            leak(names::lookup("passing").and_then(PassingClient::bind).map_err(doing("passing"))?);
        let sleeps = move || {
            while !over.load(Ordering::SeqCst) {
                slept.fetch_add(1, Ordering::SeqCst);
                if passing.sleep().is_ok() {
                    woken.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let sleeper = thread::spawn(sleeps, 0).map_err(doing("thread"))?;
        // Calls of the scheduler that are not the sleeper's own, and how often that was woken. When it sleeps.
        let counts = || -> Result<[u64; 2], String> {
            time::sleep_ns(2_000_000);
            let entered = passing.entered(0).map_err(doing("calls of the scheduler"))?;
            Ok([entered.wrapping_sub(slept.load(Ordering::SeqCst)), woken.load(Ordering::SeqCst)])
        };
        let (so_far, lost) = (Cell::new(None::<[u64; 2]>), Cell::new(0));
        let outcome = at_everybodys(sleeper.number(), &|| {
            let now = counts()?;
            if let Some(then) = so_far.get() {
                // The call before it in time, and the late one if it has come that far: each has woken the sleeper, without anybody's help.
                let [entered, was_woken] = [0, 1].map(|n| now[n].wrapping_sub(then[n]));
                lost.set(lost.get() + u64::from(entered > was_woken));
            }
            let (was, until) = (woken.load(Ordering::SeqCst), time::now_ns() + 5_000_000_000);
            while woken.load(Ordering::SeqCst) == was {
                passing.wake_up(sleeper.number()).map_err(doing("a wake-up"))?;
                holds!(time::now_ns() < until, "a thread that sleeps cannot be woken any more");
                time::sleep_ns(1000);
            }
            same!(dismissed(), before, "schedulers that were put out for that");
            so_far.set(Some(counts()?));
            Ok(())
        });
        over.store(true, Ordering::SeqCst);
        outcome?;
        holds!(lost.get() <= FEW, "{} calls had entered the scheduler and woke nobody", lost.get());
        passing.wake_up(sleeper.number()).map_err(doing("the last wake-up"))?;
        sleeper.join().map(drop).map_err(doing("join"))
    })
}

/// The same in the name server, which has a lock, and would end of it when that is asked for again; another one would be started.
pub fn late_in_a_server() -> Outcome {
    let server =
        || task::list().find(|one| one.user == USER_SYSTEM && ended::text(&one.name) == "names").map(|one| one.task);
    let before = server().ok_or("no name server")?;
    at_everybodys(0, &|| {
        holds!(names::lookup(NAME).is_ok(), "the name server does not know it any more");
        same!(server(), Some(before), "the name server's task");
        Ok(())
    })
}

/// `sleeper`: a thread that sleeps in the scheduler; 0: it is the name server that is called.
fn at_everybodys(sleeper: u64, is_whole: &dyn Fn() -> Outcome) -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let texts = Peer::start()?;
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    store(room + SLEEPER, sleeper);
    texts.call(op::LATE_AT_EVERYBODYS, &[u64::from(sleeper != 0), room]).map_err(doing("a text that is late"))?;
    let after = |delay: u64| -> Result<u64, String> {
        (store(room, 0), store(room + 8, delay));
        same!(texts.call(peer::op::FAULT, &[]), Err(Error::Faulted), "a call that is late, {delay} ns after its fault");
        same!(task::identity().depth, 0, "the depth afterwards");
        is_whole().map_err(|why| alloc::format!("a call {delay} ns after its fault: {why}"))?;
        Ok(load(room))
    };
    let (mut begun, mut not) = (CALLEE_GRACE_NS - AROUND_NS, CALLEE_GRACE_NS + AROUND_NS);
    same!(after(begun)?, stage::BACK, "how far it comes with time enough");
    let long = load(room + 16);
    while not - begun > 1 {
        let middle = begun.midpoint(not);
        *(if after(middle)? >= stage::CALLS { &mut begun } else { &mut not }) = middle;
    }
    let step = (long / PLACES).max(1);
    let (mut inside, mut back) = (0, 0);
    for place in 0..PLACES * 3 / 2 {
        back = if after(begun - place * step)? == stage::BACK { back + 1 } else { 0 };
        inside += u64::from(back == 0);
        if back == BACK_ENOUGH {
            holds!(inside >= PLACES / 2, "late at {inside} places of a call of {long} instructions");
            return texts.end();
        }
    }
    Err(alloc::format!("late at {inside} places of a call of {long} instructions, and there are more"))
}
