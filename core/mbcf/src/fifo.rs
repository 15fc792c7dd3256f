//! A queue of records in a buffer that goes round (SSS-80 to 97, 103, 104): where the next record lies, and what becomes of one for which there
//! is no room. A record is a word with the length of its data, and the data, up to the next word's border.

use abi::mbcf::{FifoWords, STOPPED_MAX, fifo_flag, magic};
use alloc::vec::Vec;

/// Positions in the buffer are multiples of this.
pub const UNIT: u64 = 8;

/// How a record comes (SSS-90, 92, 96). The number is the packet's, as its sender counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// No order is promised.
    Plain,
    Normal(u64),
    Retry(u64),
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be stored where the queue's [`Fifo::pieces`] say, and then [`Fifo::commit`]ted.
    Store,
    /// It is cancelled, whole.
    Cancelled,
    /// It is cancelled, and the sender's records are until this packet has been sent again.
    Stopped(u64),
    /// The buffer could never hold it.
    TooLong,
}

/// A sender that has stopped: its first packet that was refused, and the room that this one takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    source: u64,
    packet: u64,
    need: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fifo {
    start: u64,
    end: u64,
    write: u64,
    read: u64,
    sender: bool,
    /// In the order of stopping.
    stopped: Vec<Stop>,
}

/// What a record of so many bytes of data takes.
const fn total(len: u64) -> u64 {
    UNIT + len.next_multiple_of(UNIT)
}

impl Fifo {
    /// An empty queue in `[start, end)`. `sender`: every record begins with who sent it. `None`: not whole units, or no room for anything.
    #[must_use]
    pub fn new(start: u64, end: u64, sender: bool) -> Option<Fifo> {
        let whole = start.is_multiple_of(UNIT) && end.is_multiple_of(UNIT);
        let size = end.checked_sub(start)?;
        (whole && size >= 2 * UNIT).then_some(Fifo {
            start,
            end,
            write: start,
            read: start,
            sender,
            stopped: Vec::new(),
        })
    }

    #[must_use]
    pub const fn has_sender(&self) -> bool {
        self.sender
    }

    /// Where its buffer ends.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    fn size(&self) -> u64 {
        self.end - self.start
    }

    fn used(&self) -> u64 {
        if self.write >= self.read { self.write - self.read } else { self.size() - (self.read - self.write) }
    }

    /// One unit stays free: else a full queue would look like an empty one to who looks at the positions.
    fn room(&self) -> u64 {
        self.size() - UNIT - self.used()
    }

    fn after(&self, at: u64, len: u64) -> u64 {
        let at = at + len;
        if at >= self.end { at - self.size() } else { at }
    }

    /// Room that is kept for the stopped senders before the one at this place.
    fn kept_for(&self, before: usize) -> u64 {
        self.stopped[..before].iter().map(|stop| stop.need).sum()
    }

    /// What becomes of a record of `len` bytes. `source`: who sends, a number that nobody else ever has; `lives`: whether there still is who has
    /// it, else what is kept for it is free again (SSS-103). Of what is to be stored nothing is done yet.
    pub fn admit(&mut self, how: How, source: u64, len: u64, lives: impl Fn(u64) -> bool) -> Verdict {
        let need = total(len);
        if need > self.size() - UNIT {
            return Verdict::TooLong;
        }
        let verdict = self.judge(how, source, need);
        if verdict == Verdict::Store || self.stopped.iter().all(|stop| lives(stop.source)) {
            return self.note(how, source, need, verdict);
        }
        self.stopped.retain(|stop| lives(stop.source));
        let verdict = self.judge(how, source, need);
        self.note(how, source, need, verdict)
    }

    fn judge(&self, how: How, source: u64, need: u64) -> Verdict {
        let stop = self.stopped.iter().position(|stop| stop.source == source);
        let fits = |before| self.room() >= self.kept_for(before) + need;
        match (how, stop) {
            (How::Plain, _) | (How::Normal(_) | How::Retry(_), None) if fits(self.stopped.len()) => Verdict::Store,
            (How::Plain, _) | (How::Normal(_), Some(_)) => Verdict::Cancelled,
            // A retry that reaches a sender that is not stopped is an ordinary one (SSS-104).
            (How::Normal(packet) | How::Retry(packet), None) => Verdict::Stopped(packet),
            (How::Retry(packet), Some(at)) if self.stopped[at].packet != packet => Verdict::Cancelled,
            (How::Retry(_), Some(at)) if fits(at) => Verdict::Store,
            (How::Retry(packet), Some(_)) => Verdict::Stopped(packet),
        }
    }

    /// A sender that stops is remembered, while there is room for one more; else its record is cancelled only.
    fn note(&mut self, how: How, source: u64, need: u64, verdict: Verdict) -> Verdict {
        let Verdict::Stopped(packet) = verdict else { return verdict };
        if self.stopped.iter().any(|stop| stop.source == source) {
            return verdict;
        }
        if self.stopped.len() >= STOPPED_MAX || how == How::Plain {
            return Verdict::Cancelled;
        }
        self.stopped.push(Stop { source, packet, need });
        verdict
    }

    /// The parts of the buffer, as (position, length), where the bytes `[from, from + len)` of the next record go; its first [`UNIT`] bytes are
    /// the length of its data.
    #[must_use]
    pub fn pieces(&self, from: u64, len: u64) -> [(u64, u64); 2] {
        self.pieces_at(self.write, from, len)
    }

    /// The same for the first record, to be read.
    #[must_use]
    pub fn first_pieces(&self, from: u64, len: u64) -> [(u64, u64); 2] {
        self.pieces_at(self.read, from, len)
    }

    fn pieces_at(&self, record: u64, from: u64, len: u64) -> [(u64, u64); 2] {
        let at = self.after(record, from);
        let first = len.min(self.end - at);
        [(at, first), (self.start, len - first)]
    }

    /// The record is stored. A stopped sender goes on.
    pub fn commit(&mut self, how: How, source: u64, len: u64) {
        self.write = self.after(self.write, total(len));
        if let How::Retry(_) = how {
            self.stopped.retain(|stop| stop.source != source);
        }
    }

    /// Where the length of the first record lies; `None`: there is no record.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        (self.read != self.write).then_some(self.read)
    }

    /// Whether the first record can have so many bytes: what says so lies where a program may write.
    #[must_use]
    pub fn is_length(&self, len: u64) -> bool {
        len <= self.size() && total(len) <= self.used()
    }

    /// The first record was read.
    pub fn take(&mut self, len: u64) {
        self.read = self.after(self.read, total(len));
    }

    /// All that is there is dropped.
    pub fn empty(&mut self) {
        self.read = self.write;
    }

    /// What everybody sees of it.
    #[must_use]
    pub fn words(&self) -> FifoWords {
        let stopped = if self.stopped.is_empty() { 0 } else { fifo_flag::STOPPED };
        let sender = if self.sender { fifo_flag::SENDER } else { 0 };
        FifoWords {
            start: self.start,
            end: self.end,
            write: self.write,
            read: self.read,
            flags: magic::FIFO | stopped | sender,
        }
    }
}
