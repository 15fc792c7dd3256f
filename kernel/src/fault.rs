//! Faults: a miss of the view asks the ACL and fills it; what the ACL does not allow stops the program that tried, with
//! the section, the right and the (thread, text) pair named (CUBIX-12, 15).

mod bereft;
mod own;

pub use bereft::{Bereft, fall, pager_is_late, text_ended};
pub use own::{Handled, Time, heeds_flags, look_at, set as set_entry};

use crate::claim;
use crate::domain::Domain;
use crate::epc;
use crate::foreign;
use crate::gate;
use crate::keyed::{self, Tag};
use crate::machine::spare_heap_at_all;
use crate::pager;
use crate::post::loan;
use crate::seat;
use crate::secret;
use crate::section::large::Large;
use crate::section::real;
use crate::thread::Thread;
use crate::view::{self, Stale};
use abi::info::feature;
use abi::layout::PAGE;
use abi::section::kind;
use abi::sched::{Event, event};
use abi::task::{Exit, cause, exit};
use abi::{Error, Rights};
use ::post::Question;
use ::view::{Access, while_shared};
use alloc::sync::Arc;
use arch::cpu::has;
use arch::entry::page_fault;
use arch::gate::Stopped;
use arch::context::FLAG_ALIGNMENT;
use arch::{fpu, machine_check};
use paging::Prot;
use core::sync::atomic::{AtomicU64, Ordering};

/// Faults that are logged.
const LINES_MAX: u64 = 100;

/// Why an access cannot be made.
pub struct Denial {
    pub cause: u64,
    pub section: u64,
    pub right: Rights,
    /// What there is to be said besides.
    pub detail: u64,
}

/// A page fault of user code.
pub fn page(thread: &Arc<Thread>, address: u64, error: u64) {
    thread.has_faulted();
    let domain = thread.domain();
    if domain.text.is_dead() {
        return ended(thread, &domain);
    }
    let access = if error & page_fault::FETCH != 0 {
        Access::Execute
    } else if error & page_fault::STORE != 0 {
        Access::Write
    } else {
        Access::Read
    };
    let gate = if access == Access::Execute && !domain.in_window { gate::find_gate(address) } else { None };
    let outcome = match gate {
        Some(gate) => {
            let section = gate.0.base;
            epc::plain_call(thread, gate).map_err(|_| Denial { cause: cause::DENIED, section, right: Rights::CALL, detail: 0 })
        }
        None => fill(thread, &domain, address, access, error & page_fault::PRESENT != 0).inspect(|()| {
            if error & page_fault::KEY != 0 {
                keyed::look_again(thread, &domain);
            }
        }),
    };
    if let Err(denial) = outcome {
        if domain.text.is_dead() {
            return ended(thread, &domain);
        }
        stop(thread, &domain, address, denial);
    }
}

/// A fault between two programs. What was done of the crossing has been undone, or can be finished.
pub fn in_gate(thread: &Arc<Thread>, stopped: Stopped, address: Option<u64>) {
    let domain = {
        let inner = &mut *thread.inner.lock();
        match (stopped, address) {
            // A record that is not there, or no room for another frame: the kernel makes the call, or says why not.
            (Stopped::In, Some(at)) if arch::gate::is_record(at) || arch::gate::is_frame_guard(at) => {
                return arch::gate::send_to_kernel(inner.area.registers_mut());
            }
            // The callee lives apart by now, where the gate cannot write: the kernel makes the return.
            (Stopped::Out, Some(at)) if arch::gate::is_state(at) && inner.depth() > 0 => None,
            // The register was not what the table says now, or the program steps: it goes on.
            (_, None) if inner.vector == 6 && has(feature::PKU) || inner.vector == 1 => return,
            // Only the kernel can return through this frame: by its mark, or because its address is none. That is found out at the jump or at
            // its target, and is not the callee's fault: whoever has called with that address has it as his own.
            (Stopped::KernelFrame, _) => None,
            _ => Some(inner.domain.clone()),
        }
    };
    let Some(domain) = domain else {
        let values = thread.registers(|r| [r.rdi, r.rsi]);
        return epc::give_back(thread, values);
    };
    let gate = Denial { cause: cause::DENIED, section: abi::gate::GATE_BASE, right: Rights::WRITE, detail: 0 };
    stop(thread, &domain, address.unwrap_or(abi::gate::GATE_BASE), gate);
}

/// A thread may go on for a while in a text that has ended, until it is mapped nowhere any more (`Section::end_text`). If it does so it falls out of it
/// here, as it would with the next fault. Whether it did. Call without locks.
pub fn falls_out(thread: &Arc<Thread>) -> bool {
    let domain = thread.domain();
    let is_over = domain.text.is_dead();
    if is_over {
        ended(thread, &domain);
    }
    is_over
}

/// The text that the thread executed is no more: its caller hears of it, or the program is over.
fn ended(thread: &Arc<Thread>, domain: &Domain) {
    if epc::unwind(thread, Error::Dead) {
        return;
    }
    let ip = thread.registers(|r| r.rip);
    let how = Exit {
        kind: exit::FAULT,
        cause: cause::NO_SECTION,
        address: ip,
        right: u64::from(Rights::EXECUTE.bits()),
        thread: thread.number,
        text: domain.text.base,
        ip,
        ..Exit::default()
    };
    tell(&how);
    thread.task.end(how);
    thread.kill();
}

/// Fills the domain's view for one access, as far as the ACL allows, or what is lent to this thread. `is_mapped`: something is there, but not for
/// this access.
fn fill(thread: &Arc<Thread>, domain: &Arc<Domain>, address: u64, access: Access, is_mapped: bool) -> Result<(), Denial> {
    let (mut outcome, mut lent) = (fill_as(thread, domain, address, (access, is_mapped), None), None);
    while let Err(Denial { cause: cause::DENIED, .. }) = outcome {
        // Among many waits it takes long to find, so without the section's lock. If that one is over by then, there may be another.
        let found = loan::find(thread, domain, address, lent);
        if found.is_none() {
            break;
        }
        outcome = fill_as(thread, domain, address, (access, is_mapped), found);
        lent = found;
    }
    outcome
}

/// The same by the list alone, or with what is lent with a question.
fn fill_as(
    thread: &Arc<Thread>,
    domain: &Arc<Domain>,
    address: u64,
    (access, is_mapped): (Access, bool),
    lent: Option<Question>,
) -> Result<(), Denial> {
    let right = access.right();
    let place = domain.locate(address).ok_or(Denial { cause: cause::NO_SECTION, section: 0, right, detail: 0 })?;
    let section = &place.section;
    let denied = |cause, right| Denial { cause, section: section.base, right, detail: 0 };
    // Before the lock: the text may be what is missed.
    let is_short = spare_heap_at_all(&domain.text).is_err();
    let mut state = section.state.lock();
    if access == Access::Execute && section.is_gate_address(address) {
        return Err(denied(cause::NO_GATE, right));
    }
    if place.offset >= state.len || (section.is_text() && section.is_dead()) {
        return Err(denied(cause::NO_SECTION, right));
    }
    let section_kind = section.kind();
    if section_kind == kind::STACK && place.offset / PAGE == 1 {
        return Err(denied(cause::STACK, right));
    }
    let mut rights = state.acl.rights(&domain.subject);
    let mut decided = ::view::decide(rights, section_kind, access, place.window);
    let is_lent = decided.is_err();
    if let Some(question) = lent.filter(|_| is_lent && place.window.is_none()) {
        rights |= loan::rights(question, (thread, domain), section, &state, address);
        decided = ::view::decide(rights, section_kind, access, None);
        if decided.is_ok() && domain.is_keyed() {
            // Keys are for what a list gives. What is lent is seen by this thread alone.
            drop(state);
            return keyed::set_apart(thread, domain, None).map_err(|_| denied(cause::NO_MEMORY, right));
        }
    }
    let prot = decided.map_err(|missing| denied(cause::DENIED, access.named(missing)))?;
    let page = place.offset / PAGE;
    let store = access == Access::Write;
    if state.sealing {
        drop(state);
        // Nobody stores into a text; and a callee does not stand still with its locks until somebody's section is one.
        let is_called = thread.inner.lock().depth() > 0;
        return if store || is_called { Err(denied(cause::DENIED, right)) } else { Ok(()) };
    }
    if state.must_wait(page, store) {
        // It is tried again until the clone is made, or the page forgotten.
        return Ok(());
    }
    if state.misses(page).is_some() {
        return pager::fault(thread, domain, &place, address, access, state);
    }
    if !domain.view().part(address).may_register(is_short, section.base, (place.at, place.from, place.len)) {
        return Err(denied(cause::NO_MEMORY, right));
    }
    // What is lent is not all of a large page, and neither is what a window shows.
    let large = if is_lent || place.window.is_some() { None } else { state.large(section, page) };
    let large = large.filter(|large| !store || large.writable).and_then(|large| Some((large, state.pages.get(large.first)?.clone())));
    let (piece, frame, stale) = match large {
        Some((large, frame)) => (large, frame, Stale::default()),
        None => {
            let shared_before = state.pages.get(page).is_some() && !state.pages.writable(page) || !store && state.paged.clean.has(page);
            let claim::Present { frame, stale } =
                claim::present(&mut state, page, store).map_err(|_| denied(cause::NO_MEMORY, right))?;
            if stale.is_remembered() {
                // The access is made once more, to what is there then.
                drop(frame);
                claim::settle(section, state, stale);
                return Ok(());
            }
            let writable = !state.cloning && (store || !shared_before);
            (Large { first: page, size: PAGE, writable }, frame, stale)
        }
    };
    let prot = while_shared(prot, piece.writable);
    let at = address / PAGE * PAGE - (page - piece.first) * PAGE;
    if !is_mapped && piece.size == PAGE && place.window.is_none() && real::show_one_again(section, &state, domain, (at, &frame), prot) {
        drop(frame);
        drop(state);
        stale.flush();
        return Ok(());
    }
    let whole = domain.view();
    let view = whole.part(at);
    let mut mapped = Ok(());
    let mut emptied = view::make_room(section, &mut state);
    let mut known = core::mem::take(&mut state.mapped);
    let mut map = |key| {
        emptied.join(view.register(&mut known, section.base, (place.at, place.from, place.len), key));
        let (forgotten, outcome) = match view.map(at, &frame, piece.size, Prot { key, ..prot }) {
            Ok(forgotten) => (forgotten.unwrap_or_default(), Ok(())),
            Err((forgotten, why)) => (forgotten, Err(why)),
        };
        emptied.join(forgotten);
        mapped = outcome;
    };
    let tag = match domain.task_view.as_ref().filter(|_| domain.is_keyed()) {
        Some(keys) => {
            keys.tag(domain, section, &state, view, map)
        }
        None => {
            map(0);
            if place.window.is_none() {
                state.last.set((view.shown(state.acl.changes(), 0), 0));
            }
            Tag::Mapped
        }
    };
    state.mapped = known;
    // Before the lock: as long as we hold the frame it looks shared, and the next store would make a copy of a page that
    // others can write.
    drop(frame);
    drop(state);
    stale.flush();
    emptied.flush();
    if place.window.is_some() && !domain.locate(address).is_some_and(|now| now.is_same_page(&place)) {
        // The window's mapping was changed meanwhile, perhaps before there was anything in the view to be forgotten.
        view.forget(at, PAGE).flush();
    }
    let outcome = match tag {
        Tag::Mapped => mapped,
        Tag::Again(change) => {
            if let Some(keys) = &domain.task_view {
                keys.change(change);
            }
            Ok(())
        }
        Tag::LookAt(_) if domain.task_view.as_ref().is_some_and(|keys| keys.look_at(section)) => Ok(()),
        Tag::LookAt(class) => {
            domain.joins.store(false, Ordering::SeqCst);
            keyed::set_apart(thread, domain, Some(class))
        }
        Tag::NoKey(class) | Tag::Apart(class) => keyed::set_apart(thread, domain, Some(class)),
    };
    if section.is_secret() {
        secret::touched(thread, domain);
    }
    outcome.map_err(|_| denied(cause::NO_MEMORY, right))
}

/// An access that is not allowed.
pub fn stop(thread: &Arc<Thread>, domain: &Arc<Domain>, address: u64, denial: Denial) {
    let how = Exit {
        kind: exit::FAULT,
        code: denial.detail,
        cause: denial.cause,
        address,
        section: denial.section,
        right: u64::from(denial.right.bits()),
        thread: thread.number,
        text: domain.text.base,
        ip: thread.registers(|r| r.rip),
    };
    tell(&how);
    if domain.in_window {
        return foreign::fault(thread, &how);
    }
    if !own::deliver(thread, domain, &how) {
        end_program(thread, how);
    }
}

/// Vector of an access that is not aligned.
pub const ALIGNMENT: u64 = 17;

/// An access that is not aligned is made all the same where nobody wants to hear of it, and between two programs: the thread does not have the flag any
/// more by which it, or who has called it, has asked. Whether it is so.
pub fn is_made_all_the_same(thread: &Thread, stopped: Stopped) -> bool {
    let hears = stopped == Stopped::Outside && own::wants_alignment(&thread.domain());
    if !hears {
        thread.inner.lock().area.registers_mut().rflags &= !FLAG_ALIGNMENT;
    }
    !hears
}

/// A processor exception of user code.
pub fn exception(thread: &Arc<Thread>, vector: u64, error: u64) {
    if let Some((domain, how)) = told(thread, vector, error) {
        if domain.in_window {
            return foreign::exception(thread, &how);
        }
        if !own::deliver(thread, &domain, &how) {
            end_program(thread, how);
        }
    }
}

/// What there is to be said of an exception, once the scheduler was told; `None`: its text is no more, and that was dealt with.
fn told(thread: &Arc<Thread>, vector: u64, error: u64) -> Option<(Arc<Domain>, Exit)> {
    let domain = thread.domain();
    if domain.text.is_dead() {
        ended(thread, &domain);
        return None;
    }
    let (cause, code) = match vector {
        0 => (cause::DIVIDE, 0),
        1 => (cause::STEP, 0),
        3 => (cause::BREAKPOINT, 0),
        4 => (cause::OVERFLOW, 0),
        6 | 13 => (cause::INSTRUCTION, error),
        // As the thread left it: the kernel does not calculate.
        16 => (cause::FLOATING, u64::from(fpu::status())),
        ALIGNMENT => (cause::ALIGNMENT, 0),
        19 => (cause::FLOATING, u64::from(fpu::control().mxcsr())),
        machine_check::VECTOR => (cause::MACHINE, error),
        _ => (cause::EXCEPTION, error),
    };
    let how = Exit {
        kind: exit::FAULT,
        code,
        cause,
        address: vector,
        section: 0,
        right: 0,
        thread: thread.number,
        text: domain.text.base,
        ip: thread.registers(|r| r.rip),
    };
    tell(&how);
    Some((domain, how))
}

/// The scheduler hears of it, whoever deals with it (CUBIX-15, 41): of the thread, the address, the text and the right that was missing.
fn tell(how: &Exit) {
    let (detail, b) = (how.cause as u32, how.text | how.right);
    seat::note(Event { kind: event::EXCEPTION, detail, thread: how.thread, a: how.address, b });
}

/// A machine check while a program was executed. Its text hears of it like of any exception, if it can go on; otherwise nothing that was
/// interrupted can be mended, and it ends. The memory that failed is not taken out of use.
pub fn machine(thread: &Arc<Thread>, stopped: Stopped) {
    let found = machine_check::take(|bank, status, address| {
        log::warn!("machine check: bank {bank} status {status:#x} address {:#x}", address.unwrap_or(0));
    });
    match found {
        machine_check::Found::Nothing => {}
        machine_check::Found::Program { status, restartable: true } if stopped == Stopped::Outside => {
            exception(thread, machine_check::VECTOR, status)
        }
        machine_check::Found::Program { status, .. } => {
            if let Some((_, how)) = told(thread, machine_check::VECTOR, status) {
                end_program(thread, how);
            }
        }
        machine_check::Found::Machine(status) => panic!("machine check: status {status:#x}"),
    }
}

/// `fault_return`.
///
/// # Errors
/// As for [`own::give_back`].
pub fn give_back(thread: &Arc<Thread>, domain: &Domain, frame: u64, mended: bool) -> Result<(), Error> {
    if let Some(how) = own::give_back(thread, domain, frame, mended)? {
        end_program(thread, how);
    }
    Ok(())
}

/// What the text itself should have mended, and has not in time.
pub fn end_late(thread: &Arc<Thread>) {
    if let Some(how) = own::end_late(thread) {
        end_program(thread, how);
    }
}

/// What the text itself does not mend. A fault in a callee ends the call, and the caller hears of it, or what was wanting; in a program's own text, the
/// program.
fn end_program(thread: &Arc<Thread>, how: Exit) {
    // A program may fault as often as it likes; the serial line is slow.
    static LINES: AtomicU64 = AtomicU64::new(0);
    if LINES.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
        log::info!(
        "fault: thread {} in text {:#x} at {:#x}: cause {} address {:#x} section {:#x} right {}",
        how.thread, how.text, how.ip, how.cause, how.address, how.section, Rights::from_bits_truncate(how.right as u32)
    );
    }
    let text = thread.domain().text.clone();
    let error = if how.cause == cause::NO_MEMORY { Error::NoMemory } else { Error::Faulted };
    if epc::unwind(thread, error) {
        if seat::is_schedulers(&text) {
            // On a thread that has called it, it writes what the one in the seat does: that may be torn now.
            text.owner().end(how);
        }
        return;
    }
    thread.task.end(how);
}
