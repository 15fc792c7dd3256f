//! Memory operations on the own node (SSS-44 to 49; docs/decisions/0019): a door of their own (`arch/src/light.S`), and functions that neither
//! wait nor take long. Like light calls they are served by the full entry where something else has to be seen to first.

mod memory;
mod pair;
pub mod queue;
mod report;
pub mod signal;
pub mod structure;

use crate::domain::Domain;
use crate::light::{answer, caller, of_caller};
use crate::processor::{count, here};
use crate::thread::Thread;
use ::mbcf::fifo::How;
use abi::Error;
use abi::calls::{Call, MBCF, MBCF_COUNT};
use abi::mbcf::{DATA_MAX, option, status};
use arch::light::{Answer, Handler, MbcfTable};
use memory::Change;
use report::Report;

/// A call's name, and what the door runs.
type Row = (&'static str, Handler);

const ROWS: [Row; MBCF_COUNT] = [
    ("mbcf_write", of_caller!(MbcfWrite(to, from, len, options, report))),
    ("mbcf_read", of_caller!(MbcfRead(address, to, len, options, report))),
    ("mbcf_fill", of_caller!(MbcfFill(to, value, len, options, report))),
    ("mbcf_copy", of_caller!(MbcfCopy(to, from, len, options, report))),
    ("mbcf_store", of_caller!(MbcfStore(address, value, options, report))),
    ("mbcf_load", of_caller!(MbcfLoad(address, options, report))),
    ("mbcf_swap", of_caller!(MbcfSwap(address, value, options, report))),
    ("mbcf_add", of_caller!(MbcfAdd(address, value, options, report))),
    ("mbcf_compare_swap", of_caller!(MbcfCompareSwap(address, expected, value, options, report))),
    ("mbcf_set_bits", of_caller!(MbcfSetBits(address, bits, options, report))),
    ("mbcf_clear_bits", of_caller!(MbcfClearBits(address, bits, options, report))),
    ("mbcf_fifo", of_caller!(MbcfFifo(queue, from, len, options, report))),
    ("mbcf_fifoe_normal", of_caller!(MbcfFifoeNormal(queue, from, len, packet, options, report))),
    ("mbcf_fifoe_retry", of_caller!(MbcfFifoeRetry(queue, from, len, packet, options, report))),
    ("mbcf_signal", of_caller!(MbcfSignal(structure, from, len, entry, options, report))),
];

/// What `light.S` looks in.
pub static TABLE: MbcfTable = {
    let mut table: MbcfTable = [ROWS[0].1; MBCF_COUNT];
    let mut i = 0;
    while i < MBCF_COUNT {
        assert!(abi::calls::number(ROWS[i].0) == MBCF + i as u64, "the order is that of the numbers");
        table[i] = ROWS[i].1;
        i += 1;
    }
    table
};

/// What became of an operation that was not refused.
#[derive(Clone, Copy)]
pub struct Done {
    /// What the call answers.
    value: u64,
    status: u64,
    packet: u64,
}

impl Done {
    fn with(value: u64) -> Done {
        Done { value, status: status::DONE, packet: 0 }
    }

    /// Of a record or a signal: the answer is the outcome.
    pub fn as_status(status: u64, packet: u64) -> Done {
        Done { value: status, status, packet }
    }
}

/// Serves a memory operation of this thread's.
///
/// # Errors
/// `NoSuchCall`: it is none; `BadArgument`, `TooBig`: options or a length that there are not; what the operation is refused with, or writing
/// the report would be: nothing was done then.
pub fn serve(_: &Thread, d: &Domain, call: Call) -> Result<u64, Error> {
    use Call::{MbcfClearBits, MbcfCompareSwap, MbcfCopy, MbcfFifo, MbcfFifoeNormal, MbcfFifoeRetry, MbcfFill, MbcfLoad, MbcfRead, MbcfSetBits, MbcfSignal, MbcfStore, MbcfSwap, MbcfAdd, MbcfWrite};
    let (len, options, report) = match call {
        MbcfWrite { len, options, report, .. }
        | MbcfRead { len, options, report, .. }
        | MbcfFill { len, options, report, .. }
        | MbcfCopy { len, options, report, .. }
        | MbcfFifo { len, options, report, .. }
        | MbcfFifoeNormal { len, options, report, .. }
        | MbcfFifoeRetry { len, options, report, .. }
        | MbcfSignal { len, options, report, .. } => (len, options, report),
        MbcfStore { options, report, .. }
        | MbcfLoad { options, report, .. }
        | MbcfSwap { options, report, .. }
        | MbcfAdd { options, report, .. }
        | MbcfCompareSwap { options, report, .. }
        | MbcfSetBits { options, report, .. }
        | MbcfClearBits { options, report, .. } => (0, options, report),
        _ => return Err(Error::NoSuchCall),
    };
    if options & !option::ALL != 0 {
        return Err(Error::BadArgument);
    }
    let report = Report::open(d, options, report)?;
    let done = if len > DATA_MAX {
        Err(Error::TooBig)
    } else {
        match call {
            MbcfWrite { to, from, .. } | MbcfCopy { to, from, .. } => memory::copy(d, from, to, len),
            MbcfRead { address, to, .. } => memory::copy(d, address, to, len),
            MbcfFill { to, value, .. } => memory::fill(d, to, value as u8, len),
            MbcfLoad { address, .. } => memory::load(d, address),
            MbcfStore { address, value, .. } => memory::change(d, address, Change::Store(value)),
            MbcfSwap { address, value, .. } => memory::change(d, address, Change::Swap(value)),
            MbcfAdd { address, value, .. } => memory::change(d, address, Change::Add(value)),
            MbcfCompareSwap { address, expected, value, .. } => memory::change(d, address, Change::Replace(expected, value)),
            MbcfSetBits { address, bits, .. } => memory::change(d, address, Change::Set(bits)),
            MbcfClearBits { address, bits, .. } => memory::change(d, address, Change::Clear(bits)),
            MbcfFifo { queue, from, .. } => queue::append(d, queue, from, len, How::Plain),
            MbcfFifoeNormal { queue, from, packet, .. } => queue::append(d, queue, from, len, How::Normal(packet)),
            MbcfFifoeRetry { queue, from, packet, .. } => queue::append(d, queue, from, len, How::Retry(packet)),
            // What it has looked up may be the last of a thread, which others have to forget.
            MbcfSignal { structure, from, entry, .. } => here().away_from_user(|| signal::send(d, structure, from, len, entry)),
            _ => Err(Error::NoSuchCall),
        }
    };
    report.write(d, &done);
    if done.is_ok() {
        count(&here().counters.operations);
    }
    done.map(|done| done.value)
}
