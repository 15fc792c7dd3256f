//! Where the machine enters the kernel proper. The three functions here are the only ones that `arch` calls.

use crate::domain::Domain;
use crate::machine::machine;
use crate::post::short;
use crate::processor::count;
use crate::saved::Saved;
use crate::thread::{Inner, Thread};
use crate::{boot, call, epc, fault, foreign, light, line, pass, processor, sched};
use abi::calls::Call;
use abi::gate::CALL_BASE;
use abi::layout::SPACE_END;
use alloc::sync::Arc;
use arch::apic;
use arch::context::Resume;
use arch::entry::Trap;
use arch::gate::Stopped;

/// The vector of the fault that a jump to no address is.
const GENERAL_PROTECTION: u64 = 13;
/// In the error code of a page fault: the access was made with the program's rights.
const BY_USER: u64 = 4;

arch::kernel! {
    main: first_processor, processor: further_processor, trap: trap, post: short::enter, plain: short::enter_plain, light: light::TABLE
}

/// First processor, machine set up.
fn first_processor(info: arch::boot::Info) -> ! {
    boot::run(info)
}

/// Every further processor.
fn further_processor(_index: usize) -> ! {
    boot::join()
}

/// Every entry from user mode. The kernel runs with interrupts off and never blocks (architecture, section 7).
fn trap(trap: Trap) -> Resume {
    let here = processor::here();
    here.left_user();
    pass::settle(here);
    let thread = here.current();
    let (stopped, calls) = {
        let inner = &mut *thread.inner.lock();
        let stopped = inner.entered();
        (stopped, matches!(trap, Trap::Call).then(|| Calls::of(inner)))
    };
    match trap {
        Trap::PageFault { address, .. } if stopped != Stopped::Outside => fault::in_gate(&thread, stopped, Some(address)),
        Trap::Exception { .. } if stopped != Stopped::Outside => fault::in_gate(&thread, stopped, None),
        Trap::Call => match calls.flatten() {
            Some(calls) => system_call(&thread, calls),
            None => fault::exception(&thread, GENERAL_PROTECTION, 0),
        },
        Trap::Posted => short::finish_short(&thread),
        // The processor's own access, made for an instruction of the program's: nothing that we map makes it good.
        Trap::PageFault { error, .. } if error & BY_USER == 0 => fault::exception(&thread, GENERAL_PROTECTION, 0),
        Trap::PageFault { address, error } => {
            count(&here.counters.faults);
            fault::page(&thread, address, error);
        }
        Trap::Exception { vector, error } => {
            count(&here.counters.faults);
            fault::exception(&thread, vector, error);
        }
        Trap::Interrupt { vector } => {
            count(&here.counters.interrupts);
            interrupt(vector);
            apic::acknowledge(vector);
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
        let r = inner.area.registers();
        let arguments = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
        (r.rip < SPACE_END).then(|| Calls { domain: inner.domain.clone(), number: r.rax, arguments })
    }
}

fn system_call(thread: &Arc<Thread>, Calls { domain, number, arguments }: Calls) {
    if domain.in_window {
        foreign::system_call(thread);
    } else if number >= CALL_BASE {
        epc::bound_call(thread, number);
    } else {
        match Call::decode(number, arguments) {
            Some(call) => call::serve(Saved::by_full_entry(thread), &domain, call),
            None => thread.answer(Err(abi::Error::NoSuchCall)),
        }
    }
}

/// An interrupt, taken from user mode or noted while idle.
pub fn interrupt(vector: u8) {
    match vector {
        apic::TIMER => sched::tick(),
        apic::RESCHEDULE | apic::SHOOTDOWN => {}
        line if (apic::LINE..apic::LINE + apic::LINES).contains(&line) => line::interrupt(line),
        other => log::warn!("interrupt {other:#x} from nowhere on processor {}", machine().processors[processor::here().index].apic),
    }
}
