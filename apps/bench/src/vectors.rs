//! Ways into the kernel that are no calls: each exception and each interrupt that this run can bring is in the trace, and of each other one it is said
//! why it is not (SSS-24).

use crate::handlers::{Done, say};
use crate::report::Report;
use alloc::format;
use alloc::string::String;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::Error;
use musubi::abi::section::class;
use musubi::abi::task::exit;
use musubi::abi::trace::{Handler, handler};
use musubi::command::Command;
use musubi::rt::guard;
use musubi::rt::probe::{self, Instruction};

/// What raises exceptions in user mode, and which.
const RAISED: [(Instruction, u64); 8] = [
    (Instruction::Divide, 0),
    (Instruction::Step, 1),
    (Instruction::Breakpoint, 3),
    (Instruction::Overflow, 4),
    (Instruction::Undefined, 6),
    (Instruction::Privileged, 13),
    (Instruction::NonCanonical, 13),
    (Instruction::X87, 16),
];
/// Those that no program raises on this processor: their numbers are asked for, which supervisor mode may. (Not of those with an error code, which would not
/// be there.)
const ASKED_FOR: [(Instruction, u64); 3] =
    [(Instruction::Bound, 5), (Instruction::NoDevice, 7), (Instruction::Vector, 19)];
const PAGE_FAULT: u64 = 14;
/// Exceptions that are raised by nothing here, and why.
const UNSEEN: [(RangeInclusive<u64>, &str); 10] = [
    (2..=2, "an interrupt that nothing keeps out ends the machine"),
    (8..=8, "a fault on the way to the kernel's handler is the kernel's own, and ends the machine"),
    (9..=9, "processors do not have it any more"),
    (10..=10, "it is about what the processor loads when tasks are switched, which nothing here does"),
    (11..=11, "there is no segment that is not present"),
    (12..=12, "the emulator has 13 in its place (system::s30_epc::a_stack_exception_is_heard)"),
    (15..=15, "processors do not have it"),
    (
        17..=17,
        "the emulator raises it by no access, its debugger does (system::s30_epc::an_access_that_is_not_aligned_is_heard_by_who_wants_it)",
    ),
    (18..=18, "a machine check is the machine's to raise (system::s38_trace::a_machine_check_is_measured)"),
    (20..=31, "processors do not have them, or for what is not used here"),
];

/// Interrupts by vector: the timer's,
const TIMER: u64 = 0x20;
/// those that processors send each other,
const OF_OTHERS: [u64; 2] = [0x50, 0x51];
/// and devices'.
const OF_DEVICES: RangeInclusive<u64> = 0x30..=0x47;

const fn exception(vector: u64) -> u64 {
    handler::EXCEPTION + vector
}

const fn interrupt(vector: u64) -> u64 {
    handler::INTERRUPT + vector - 32
}

/// In a call, which each ends (SSS-56); in supervisor mode in a program, which each ends, too.
pub fn exceptions() -> Done {
    for (which, _) in RAISED.iter().cycle().take(3 * RAISED.len()) {
        if guard::run(|| probe::instruction(*which)) != Err(Error::Faulted) {
            return Err(("an exception", Error::NotSupported));
        }
    }
    ASKED_FOR.iter().try_for_each(|(_, vector)| in_supervisor_mode(*vector))
}

fn in_supervisor_mode(vector: u64) -> Done {
    let words = ["bench", "vector", &format!("{vector}")];
    let asks = match Command::new(b"bin/bench").args(words).placed(class::PSYS, 0).spawn() {
        Err(refused) if refused.error == Error::Denied => {
            UNPLACED.store(true, Ordering::Relaxed);
            return Ok(());
        }
        asks => asks.map_err(|refused| ("a program in supervisor mode", refused.error))?,
    };
    match say("a program in supervisor mode", asks.wait())? {
        ended if (ended.kind, ended.address) == (exit::FAULT, vector) => Ok(()),
        _ => Err(("an exception in supervisor mode", Error::NotSupported)),
    }
}

/// Whether that was refused to it.
static UNPLACED: AtomicBool = AtomicBool::new(false);
/// Why.
pub const NO_PLACE: &str = "the image does not say in etc/placement that `bench` may be in supervisor mode";

/// The program, in supervisor mode, which may ask for the number. It ends by that.
pub fn ask_for(vector: &str) -> i32 {
    let asked = ASKED_FOR.iter().find(|(_, one)| vector.parse::<u64>() == Ok(*one));
    asked.map_or(2, |(which, _)| {
        probe::instruction(*which);
        0
    })
}

/// Whether each exception is raised, asked for, or named, and what was brought is among these ways that the trace has seen.
pub fn check(seen: &[u64], processors: usize) -> Result<(), String> {
    let by = |vector: u64, all: &[(Instruction, u64)]| all.iter().any(|one| one.1 == vector);
    let is_named = |vector: u64| UNSEEN.iter().any(|one| one.0.contains(&vector));
    let is_brought = |vector: u64| by(vector, &RAISED) || by(vector, &ASKED_FOR) || vector == PAGE_FAULT;
    if let Some(vector) = (0..32).find(|vector| is_brought(*vector) == is_named(*vector)) {
        return Err(format!("exception {vector} is neither raised nor said why not, or both"));
    }
    let is_placed = !UNPLACED.load(Ordering::Relaxed);
    let asked_for = ASKED_FOR.iter().filter(|_| is_placed).map(|one| exception(one.1));
    let of_others = OF_OTHERS.iter().filter(|_| processors > 1).map(|vector| interrupt(*vector));
    let raised = RAISED.iter().map(|one| exception(one.1)).chain([exception(PAGE_FAULT), interrupt(TIMER)]);
    if let Some(by) = raised.chain(asked_for).chain(of_others).find(|by| !seen.contains(by)) {
        return Err(format!("{} was brought, and is not in the trace", Handler(by)));
    }
    // The keyboard's is (`system::interrupts`), by whatever vector.
    let is_any = OF_DEVICES.clone().any(|vector| seen.contains(&interrupt(vector)));
    if is_any { Ok(()) } else { Err("a device had something to tell, and no interrupt of one is in the trace".into()) }
}

/// Says what is not among them, and why.
pub fn tell_unseen(report: &Report, seen: &[u64]) {
    for (vectors, why) in &UNSEEN {
        let (first, last) = (vectors.start(), vectors.end());
        let name = if first == last { format!("exception-{first}") } else { format!("exception-{first} to {last}") };
        report.not_measured(&name, why);
    }
    if UNPLACED.load(Ordering::Relaxed) {
        ASKED_FOR.iter().for_each(|(_, vector)| report.not_measured(&format!("exception-{vector}"), NO_PLACE));
    }
    for by in OF_OTHERS.iter().map(|vector| interrupt(*vector)).filter(|by| !seen.contains(by)) {
        report.not_measured(&format!("{}", Handler(by)), "there is no other processor that sends it");
    }
}
