//! Memory operations (`abi::mbcf`; the book's page on programs): bytes and words in sections of whoever, by their addresses, and queues that
//! records are appended to. None of them waits: [`Error::Absent`] and [`Error::Busy`] mean later. (Who makes a structure, or takes something out of
//! one, has the pager asked of a page that he misses, as by any other call.) Addresses are those of sections that are used
//! by address; what this program refers to otherwise is not to be named here.

use abi::calls::stub;
use abi::mbcf::status;
pub use abi::mbcf::{
    DATA_MAX, FifoWords, Report, STRUCTURE_ALIGN, Sender, SignalSetup, SignalWords, condition, fifo_flag, option,
    start, store,
};
use abi::{Error, Rights};

use crate::Trap;

/// Writes bytes (at most [`DATA_MAX`]) to `to`, which need not be mapped or near.
///
/// # Errors
/// What the kernel answers; nothing was written then, unless memory was used up.
pub fn write(to: u64, bytes: &[u8]) -> Result<(), Error> {
    stub::mbcf_write(&Trap, to, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0).map(drop)
}

/// Reads as many bytes from `address`.
///
/// # Errors
/// What the kernel answers.
pub fn read(address: u64, bytes: &mut [u8]) -> Result<(), Error> {
    stub::mbcf_read(&Trap, address, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0).map(drop)
}

/// Adds to the word at `address`, undivided. Value: what was there.
///
/// # Errors
/// What the kernel answers.
pub fn add(address: u64, value: u64) -> Result<u64, Error> {
    stub::mbcf_add(&Trap, address, value, 0, 0)
}

/// Stores `value` at `address` if `expected` is there. Value: what was there.
///
/// # Errors
/// What the kernel answers.
pub fn compare_swap(address: u64, expected: u64, value: u64) -> Result<u64, Error> {
    stub::mbcf_compare_swap(&Trap, address, expected, value, 0, 0)
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is in the queue.
    Registered,
    /// There was no room for it.
    Cancelled,
    /// Nor for any other one of this sender's, until the first of those was sent again ([`Queue::again`]).
    Stopped,
}

impl Sent {
    fn of(value: u64) -> Sent {
        match value {
            status::DONE => Sent::Registered,
            status::STOPPED => Sent::Stopped,
            _ => Sent::Cancelled,
        }
    }
}

/// A queue of records, by the address of its structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(u64);

impl Queue {
    /// Makes a structure at `structure` (a multiple of [`STRUCTURE_ALIGN`]) with the buffer `[start, end)` in the same section, which the
    /// caller may change the list of. Senders need [`Rights::CALL`] there, readers [`Rights::READ`].
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn init(structure: u64, start: u64, end: u64, with_sender: bool) -> Result<Queue, Error> {
        let flags = if with_sender { fifo_flag::SENDER } else { 0 };
        stub::fifo_init(&Trap, structure, start, end, flags).map(|_| Queue(structure))
    }

    /// One that somebody has made there.
    #[must_use]
    pub const fn at(structure: u64) -> Queue {
        Queue(structure)
    }

    /// What others need to send.
    pub const TO_SEND: Rights = Rights::CALL;

    /// Appends a record whole, or not at all; no order is promised between one that was refused and a later one.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn append(self, record: &[u8]) -> Result<Sent, Error> {
        stub::mbcf_fifo(&Trap, self.0, record.as_ptr() as u64, record.len() as u64, 0, 0).map(Sent::of)
    }

    /// Appends the sender's next record in its order. `packet`: its number.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn append_in_order(self, record: &[u8], packet: u64) -> Result<Sent, Error> {
        stub::mbcf_fifoe_normal(&Trap, self.0, record.as_ptr() as u64, record.len() as u64, packet, 0, 0).map(Sent::of)
    }

    /// Sends the record again at which this sender has stopped.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn again(self, record: &[u8], packet: u64) -> Result<Sent, Error> {
        stub::mbcf_fifoe_retry(&Trap, self.0, record.as_ptr() as u64, record.len() as u64, packet, 0, 0).map(Sent::of)
    }

    /// Takes the first record out, undivided. `None`: there is none. (Whether there is can be seen in memory: [`FifoWords`].)
    ///
    /// # Errors
    /// What the kernel answers; `TooBig`: the record is longer, and stays.
    pub fn read(self, to: &mut [u8]) -> Result<Option<usize>, Error> {
        let len = stub::fifo_read(&Trap, self.0, to.as_mut_ptr() as u64, to.len() as u64)?;
        Ok(usize::try_from(len).ok().filter(|len| *len <= to.len()))
    }

    /// It is no queue any more.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn end(self) -> Result<(), Error> {
        stub::structure_end(&Trap, self.0).map(drop)
    }
}

/// A structure of signals, by its address. See the interface `Signalled` for what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals(u64);

impl Signals {
    /// Makes one at `structure`, as `setup` says. Senders need [`Rights::CALL`] there.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn init(structure: u64, setup: &SignalSetup) -> Result<Signals, Error> {
        stub::signal_init(&Trap, structure, core::ptr::from_ref(setup) as u64).map(|_| Signals(structure))
    }

    /// One that somebody has made there.
    #[must_use]
    pub const fn at(structure: u64) -> Signals {
        Signals(structure)
    }

    /// Sends a signal with data. `named`: the program that is asked for; 0: none.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn send(self, data: &[u8], named: u64) -> Result<Sent, Error> {
        stub::mbcf_signal(&Trap, self.0, data.as_ptr() as u64, data.len() as u64, named, 0, 0).map(Sent::of)
    }

    /// Takes the data of the next signal out of the structure's queue; from a structure with a buffer `Some(0)` if one has come since its
    /// program was started.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn take(self, to: &mut [u8]) -> Result<Option<usize>, Error> {
        let len = stub::signal_take(&Trap, self.0, to.as_mut_ptr() as u64, to.len() as u64)?;
        Ok(usize::try_from(len).ok().filter(|len| *len <= to.len()))
    }
}
