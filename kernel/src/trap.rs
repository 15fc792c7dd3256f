//! Where the machine enters the kernel proper. The functions here are the only ones that `arch` calls.

use crate::domain::Domain;
use crate::gate::lent;
use crate::machine::machine;
use crate::post::{put_by, short};
use crate::processor::{Processor, count};
use crate::saved::Saved;
use crate::thread::{Inner, Thread, answer};
use crate::{boot, call, epc, fault, foreign, light, line, mbcf, pager, pass, pressure, processor, sched, trace};
use abi::Error;
use abi::calls::Call;
use abi::gate::CALL_BASE;
use abi::layout::SPACE_END;
use alloc::sync::Arc;
use arch::apic;
use arch::context::Resume;
use arch::entry::{Trap, page_fault};
use arch::gate::Stopped;
use arch::{log_out, machine_check};

/// The vector of the fault that a jump to no address is.
const GENERAL_PROTECTION: u64 = 13;

arch::kernel! {
    main: first_processor, processor: further_processor, own: Processor, call: called, trap: trap,
    sends_and_receives: short::sends_and_receives, asks_for_answer: short::asks, answers_and_receives: short::answers_and_receives,
    plain: short::enter_plain,
    asks: pager::again, answered: pager::back, light: light::TABLE, mbcf: mbcf::TABLE
}

/// First processor, machine set up.
fn first_processor(info: arch::boot::Info) -> ! {
    boot::run(info)
}

/// Every further processor.
fn further_processor(_index: usize) -> ! {
    boot::join()
}

/// Every call by the full entry. The kernel runs with interrupts off and never blocks (architecture, section 7).
fn called() -> Resume {
    serve_call(entered(&Trap::Call))
}

/// Every other entry from user mode.
fn trap(trap: Trap) -> Resume {
    serve(entered(&trap), trap)
}

/// First thing on either.
#[inline(always)]
fn entered(trap: &Trap) -> &'static Processor {
    let here = processor::here();
    here.left_user();
    if arch::percpu::is_traced() {
        trace::enters(here, trap);
    }
    pass::settle(here);
    here
}

#[inline(never)]
fn serve_call(here: &Processor) -> Resume {
    let thread = here.current();
    let calls = {
        let inner = &mut *thread.inner.lock();
        inner.entered();
        Calls::of(inner)
    };
    match calls {
        Some(calls) => {
            if let Some(resume) = system_call(&thread, calls).and_then(|result| answered(here, &thread, result)) {
                return resume;
            }
        }
        None => fault::exception(&thread, GENERAL_PROTECTION, 0),
    }
    drop(thread);
    sched::leave()
}

#[inline(never)]
fn serve(here: &Processor, trap: Trap) -> Resume {
    let thread = here.current();
    let stopped = thread.inner.lock().entered();
    match trap {
        Trap::Exception { vector: machine_check::VECTOR, .. } => fault::machine(&thread, stopped),
        Trap::Exception { vector: fault::ALIGNMENT, .. } if fault::is_made_all_the_same(&thread, stopped) => {}
        Trap::PageFault { address, .. } if stopped != Stopped::Outside => fault::in_gate(&thread, stopped, Some(address)),
        Trap::Exception { .. } if stopped != Stopped::Outside => fault::in_gate(&thread, stopped, None),
        Trap::Call => unreachable!("a call is served elsewhere"),
        Trap::Posted => short::finish_short(&thread),
        Trap::Left => light::left(here, &thread),
        // The processor's own access, made for an instruction of the program's: nothing that we map makes it good.
        Trap::PageFault { error, .. } if error & page_fault::USER == 0 && !thread.domain().supervisor => {
            fault::exception(&thread, GENERAL_PROTECTION, 0)
        }
        Trap::PageFault { address, error } => {
            count(&here.counters.faults);
            fault::page(&thread, address, error);
            pressure::look();
        }
        Trap::Exception { vector, error } => {
            count(&here.counters.faults);
            fault::exception(&thread, vector, error);
        }
        Trap::Interrupt { vector } => {
            count(&here.counters.interrupts);
            interrupt(vector);
            pressure::look();
            log_out::look();
            apic::acknowledge(vector);
            lent::look();
            if !goes_on(&thread) {
                fault::exception(&thread, GENERAL_PROTECTION, 0);
            }
        }
    }
    drop(thread);
    sched::leave()
}

/// Whether the program is at an address. It may have jumped elsewhere, and an interrupt may come before the fault.
fn goes_on(thread: &Thread) -> bool {
    thread.registers(|r| r.rip < SPACE_END)
}

/// Who calls, which call, with what.
struct Calls {
    domain: Arc<Domain>,
    number: u64,
    arguments: [u64; 6],
}

impl Calls {
    /// `None`: there is nowhere to return to.
    fn of(inner: &Inner) -> Option<Calls> {
        let r = inner.area.as_saved();
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        (r.rip < SPACE_END).then(|| Calls { domain: inner.domain.clone(), number: r.rax, arguments })
    }
}

#[inline]
fn system_call(thread: &Arc<Thread>, Calls { domain, number, arguments }: Calls) -> Option<Result<u64, Error>> {
    if domain.in_window {
        foreign::system_call(thread);
    } else if number >= CALL_BASE {
        epc::bound_call(thread, number);
    } else {
        return match Call::decode(number, arguments) {
            Some(call) => match call::serve(Saved::by_full_entry(thread), &domain, call) {
                Some(Ok(value)) => Some(Ok(value)),
                result => match pager::noted_since_entry() {
                    Some(absent) => pager::repeat(thread, &domain, (number, arguments[2]), absent, result),
                    None => result,
                },
            },
            None => Some(Err(Error::NoSuchCall)),
        };
    }
    None
}

/// The way out after a call that simply answers: the same thread goes on, in the same domain. What others may have changed of it meanwhile is
/// loaded; what only a switch or a crossing changes is as it was on the way in. `None`: the processor is to look around, and the thread to be let
/// go of before: it may have ended, and nobody else come for long.
#[inline]
fn answered(here: &Processor, thread: &Arc<Thread>, result: Result<u64, Error>) -> Option<Resume> {
    let mut inner = thread.inner.lock();
    answer(inner.area.registers_mut(), result);
    if arch::percpu::must_attend_here() {
        return None;
    }
    let inner = &mut *inner;
    inner.gate.activate();
    thread.card.leaves(&inner.area, &inner.gate);
    arch::gate::load_root(inner.domain.root());
    arch::gate::set_register(inner.register);
    let resume = inner.area.resume(inner.domain.supervisor);
    here.enter_user();
    Some(resume)
}

/// An interrupt, taken from user mode or noted while idle.
pub fn interrupt(vector: u8) {
    match vector {
        apic::TIMER => sched::tick(),
        apic::RESCHEDULE => put_by::is_told(processor::here()),
        apic::SHOOTDOWN => {}
        line if (apic::LINE..apic::LINE + apic::LINES).contains(&line) => line::interrupt(line),
        other => log::warn!("interrupt {other:#x} from nowhere on processor {}", machine().processors[processor::here().index].apic),
    }
}
