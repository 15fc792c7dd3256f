//! What is in the middle of something while another thread changes what it stands on, at any instruction (pitfalls: H3, H12).

use super::{Scene, has_keys, op, without_keys};
use crate::memory::load;
use crate::peer::{self, Peer};
use crate::report::{Check, Outcome, doing};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Rights;
use musubi::abi::calls::stub;
use musubi::abi::frame::Frame;
use musubi::abi::gate::DONE;
use musubi::abi::layout::PAGE;
use musubi::abi::section::flag;
use musubi::rt::{Bound, Trap, section, task, thread, time};

pub const CHECKS: &[Check] =
    &[("back_where_no_call_is", where_no_call_is), ("calls_on_a_stack_that_is_cloned", on_a_stack_that_is_cloned)];

/// Where the stack pointer of the one who jumps is kept: the gate's way back sets it.
static STACK: AtomicU64 = AtomicU64::new(0);
static JUMPS: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Jumps to the gate's way back. The fault that this comes to is where it goes on.
#[unsafe(naked)]
extern "C" fn jump() {
    naked_asm!(
        "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
        "mov [rip + {stack}], rsp",
        "mov rcx, {done}",
        "jmp rcx",
        stack = sym STACK,
        done = const DONE,
    )
}

#[unsafe(naked)]
extern "C" fn landing() {
    naked_asm!(
        "mov rsp, [rip + {stack}]",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
        "ret",
        stack = sym STACK,
    )
}

extern "C" fn mend(frame: &mut Frame) -> ! {
    JUMPS.fetch_add(1, Ordering::SeqCst);
    frame.rip = landing as *const () as u64;
    let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, 1);
    loop {
        core::hint::spin_loop();
    }
}

/// More servers than there are keys for.
const SERVERS: usize = 20;
/// So often at least.
const JUMPS_MIN: u64 = 20_000;

/// A thread jumps to the way back of the gate, again and again, where no call of its is; keys of its program change hands meanwhile, and each time
/// the kernel looks how deep every thread is in calls.
fn where_no_call_is() -> Outcome {
    let all: Result<Vec<Scene>, String> = (0..SERVERS).map(|_| Scene::set()).collect();
    let all = all?;
    if !has_keys(&all[0].victim.bound) {
        all.into_iter().try_for_each(Scene::end)?;
        return without_keys();
    }
    stub::fault_entry(&Trap, mend as *const () as u64, 0).map_err(doing("fault_entry"))?;
    let jumps = thread::spawn(
        || {
            while !STOP.load(Ordering::SeqCst) {
                jump();
            }
        },
        0,
    )
    .map_err(doing("a thread"))?;
    let (before, until) = (super::races::evicted(), time::now_ns() + 20_000_000_000);
    let changed = || super::races::evicted() - before;
    while (JUMPS.load(Ordering::SeqCst) < JUMPS_MIN || changed() < 100) && time::now_ns() < until {
        for scene in &all {
            for _ in 0..400 {
                same!(scene.victim.call(op::GET, &[]), Ok(scene.secret), "a server that wants a key");
            }
        }
    }
    STOP.store(true, Ordering::SeqCst);
    jumps.join().map_err(doing("join"))?;
    stub::fault_entry(&Trap, 0, 0).map_err(doing("no fault_entry"))?;
    let jumped = JUMPS.load(Ordering::SeqCst);
    holds!(jumped >= 100 && changed() >= 10, "only {jumped} jumps, and {} keys have changed hands", changed());
    all.into_iter().try_for_each(Scene::end)
}

/// A thread calls on its own stack, which another one clones and reads meanwhile; its processor is interrupted. Each call is made, and nobody waits for
/// somebody who waits for him.
fn on_a_stack_that_is_cloned() -> Outcome {
    const CALLS: u64 = 400;
    let peer: &'static Peer = leak(Peer::start()?);
    let gate = peer.call(peer::op::ON_CALLERS_STACK, &[]).map_err(doing("its gate"))?;
    let [own, made, wrong, over] = [const { AtomicU64::new(0) }; 4].map(|word| leak(word));
    let calls = move || {
        let here = 0u64;
        let at = core::ptr::from_ref(&here) as u64;
        let open = section::info(at).and_then(|stack| section::grant(stack.base, &everybody(Rights::READ)));
        wrong.fetch_add(u64::from(open.is_err()), Ordering::SeqCst);
        own.store(at, Ordering::SeqCst);
        let Ok(bound) = Bound::bind_on_own_stack(gate, 0) else { return };
        for _ in 0..CALLS {
            let got = bound.call(0, peer::six(peer::op::ADD, &[0]));
            wrong.fetch_add(u64::from(got.is_err()), Ordering::SeqCst);
            made.fetch_add(1, Ordering::SeqCst);
            // Others are woken where it runs.
            time::sleep_ns(0);
        }
        let _ = bound.unbind();
        // Its stack is looked at as long.
        while over.load(Ordering::SeqCst) == 0 {
            time::sleep_ns(1_000_000);
        }
    };
    let caller = thread::spawn(calls, 0).map_err(doing("a thread"))?;
    let until = time::now_ns() + 60_000_000_000;
    let (mut clones, mut refused) = (0, None);
    while made.load(Ordering::SeqCst) < CALLS && time::now_ns() < until {
        let at = own.load(Ordering::SeqCst);
        if at == 0 {
            thread::yield_now();
            continue;
        }
        let stack = section::info(at).map_err(doing("the stack"))?.base;
        match section::clone_at(stack, flag::ANY_PRINCIPAL, 0, 0) {
            Ok(clone) => {
                // What the processors remember of the page is to be forgotten with the next store.
                let _ = (load(at), load(at - at % PAGE));
                section::delete(clone).map_err(doing("delete"))?;
                clones += 1;
            }
            Err(why) => refused = Some(why),
        }
        time::sleep_ns(20_000);
    }
    over.store(1, Ordering::SeqCst);
    caller.join().map_err(doing("join"))?;
    same!((made.load(Ordering::SeqCst), wrong.load(Ordering::SeqCst)), (CALLS, 0), "calls, and such that failed");
    holds!(clones >= 10 || task::processors().count() == 1, "only {clones} clones: {refused:?}");
    peer.child.kill().map_err(doing("kill"))
}
