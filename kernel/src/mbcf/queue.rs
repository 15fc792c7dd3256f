//! Queues of records (SSS-80 to 97, 103, 104): `core/mbcf` decides, under the lock of the section that the queue lies in; so appending and reading
//! are undivided, and no record is seen before it is whole.

use super::Done;
use super::pair::{Both, Range, TRIES, get_word, needs, prepare, prepare_needed, put, settle};
use super::structure::{Site, show};
use crate::domain::Domain;
use crate::machine::machine;
use crate::section::State;
use crate::view::Stale;
use ::mbcf::fifo::{Fifo, How, UNIT, Verdict};
use ::mbcf::registry::Structure;
use abi::mbcf::{STRUCTURE_ALIGN, Sender, fifo_flag, status};
use abi::{Error, Rights};
use alloc::sync::Arc;
use zerocopy::IntoBytes;

/// What `fifo_read` answers where there is no record.
pub const NONE: u64 = u64::MAX;

/// `fifo_init`.
pub fn init(d: &Domain, queue: u64, start: u64, end: u64, flags: u64) -> Result<u64, Error> {
    let site = Site::new(queue)?;
    if flags & !fifo_flag::SENDER != 0 {
        return Err(Error::BadArgument);
    }
    for _ in 0..TRIES {
        let mut state = site.section.state.lock();
        site.check(d, &state, Rights::CHANGE_ACL)?;
        let fifo = Fifo::new(start, end, flags & fifo_flag::SENDER != 0).ok_or(Error::BadArgument)?;
        if !site.may_use(&state, start, end) {
            return Err(Error::BadAddress);
        }
        match site.register(&mut state, Structure::Fifo(fifo))? {
            Some(stale) => settle(&site.section, state, stale),
            None => return Ok(0),
        }
    }
    Err(Error::Busy)
}

/// As whom a domain issues an operation, which it has no say in (SSS-117).
pub fn sender(d: &Domain) -> Sender {
    let by = &d.subject;
    Sender { node: by.node, user: d.speaks_for, task: by.task, thread: by.thread, text: by.text }
}

/// What comes to a queue: what the kernel puts before it, and bytes of the issuer's.
pub struct Record<'a> {
    pub prefix: &'a [u8],
    pub data: Option<&'a Range>,
    pub len: u64,
}

impl Record<'_> {
    pub fn total(&self) -> u64 {
        self.prefix.len() as u64 + self.len
    }
}

/// What became of a record in one try.
pub enum Step {
    Verdict(Verdict),
    /// A page is to be settled, and all to be begun anew.
    Settle(Stale),
}

/// `mbcf_fifo`, `mbcf_fifoe_normal`, `mbcf_fifoe_retry`.
pub fn append(d: &Domain, queue: u64, from: u64, len: u64, how: How) -> Result<Done, Error> {
    let site = Site::new(queue)?;
    let range = if len == 0 { None } else { Some(Range::new(d, from, len)?) };
    let source = range.as_ref().map_or(&site.section, Range::section);
    let sender = sender(d);
    for _ in 0..TRIES {
        let mut both = Both::lock(source, &site.section)?;
        site.check(d, both.b(), Rights::CALL)?;
        if let Some(range) = &range {
            range.check(d, both.a(), Rights::READ)?;
        }
        let wants_sender = both.b().structures.fifo(site.offset).ok_or(Error::NotFound)?.has_sender();
        let prefix = if wants_sender { sender.as_bytes() } else { &[] };
        let record = Record { prefix, data: range.as_ref(), len };
        match store(&mut both, site.section.base, site.offset, how, d.subject.task, &record)? {
            Step::Settle(stale) => both.settle_b(&site.section, stale),
            Step::Verdict(verdict) => return told(verdict),
        }
    }
    Err(Error::Busy)
}

fn told(verdict: Verdict) -> Result<Done, Error> {
    match verdict {
        Verdict::Store => Ok(Done::as_status(status::DONE, 0)),
        Verdict::Cancelled => Ok(Done::as_status(status::CANCELLED, 0)),
        Verdict::Stopped(packet) => Ok(Done::as_status(status::STOPPED, packet)),
        Verdict::TooLong => Err(Error::TooBig),
    }
}

/// Stores a record in the queue at `offset` of `both`'s second section, which begins at `base`; the issuer's bytes are in the first one.
pub fn store(both: &mut Both<'_>, base: u64, offset: u64, how: How, source: u64, record: &Record<'_>) -> Result<Step, Error> {
    let total = record.total();
    // Whatever comes of it, the picture changes.
    if let Some(stale) = prepare(both.b(), offset, STRUCTURE_ALIGN)? {
        return Ok(Step::Settle(stale));
    }
    let lives = |task: u64| machine().tasks.has(task);
    let fifo = both.b().structures.fifo(offset).ok_or(Error::NotFound)?;
    let verdict = fifo.admit(how, source, total, lives);
    if verdict != Verdict::Store {
        show(both.b(), offset)?;
        return Ok(Step::Verdict(verdict));
    }
    let [head, ..] = fifo.pieces(0, UNIT);
    let (whole, rest) = (fifo.pieces(0, UNIT + total), UNIT + record.prefix.len() as u64);
    let (prefix, data) = (fifo.pieces(UNIT, record.prefix.len() as u64), fifo.pieces(rest, record.len));
    for (at, len) in whole {
        if let Some(stale) = prepare(both.b(), at - base, len)? {
            return Ok(Step::Settle(stale));
        }
    }
    put(both.b(), head.0 - base, &total.to_le_bytes())?;
    let mut done = 0;
    for (at, len) in prefix {
        let len = len as usize;
        put(both.b(), at - base, &record.prefix[done..done + len])?;
        done += len;
    }
    if let Some(range) = record.data {
        let mut from = range.offset();
        for (at, len) in data {
            both.copy(from, at - base, len)?;
            from += len;
        }
    }
    if let Some(fifo) = both.b().structures.fifo(offset) {
        fifo.commit(how, source, total);
    }
    show(both.b(), offset)?;
    Ok(Step::Verdict(Verdict::Store))
}

/// `fifo_read`.
pub fn read(d: &Domain, queue: u64, to: u64, max: u64) -> Result<u64, Error> {
    let site = Site::new(queue)?;
    take(d, &site, site.offset, None, to, max)
}

/// Takes a record out of the queue at `offset` of the site's section. If there is none, the signal at `signal` knows that somebody has looked,
/// in the same step.
pub fn take(d: &Domain, site: &Site, offset: u64, signal: Option<u64>, to: u64, max: u64) -> Result<u64, Error> {
    let base = site.section.base;
    // First how long it is; then it is still there, or another one.
    let target = Range::new(d, to, 0)?;
    for _ in 0..TRIES {
        let mut both = Both::lock(&site.section, target.section())?;
        site.check(d, both.a(), Rights::READ)?;
        if let Some(stale) = prepare_needed(&site.section, both.a(), offset, STRUCTURE_ALIGN)? {
            both.settle_a(&site.section, stale);
            continue;
        }
        let Some(at) = both.a().structures.fifo(offset).ok_or(Error::NotFound)?.first() else {
            signal.and_then(|at| both.a().structures.signal(at)).map(|signal| signal.seen());
            return Ok(NONE);
        };
        needs(&site.section, both.a(), at - base, UNIT)?;
        let len = first_len(both.a(), at - base, offset)?;
        if len > max {
            return Err(Error::TooBig);
        }
        if len > 0 {
            let whole = Range::new(d, to, len)?;
            if !Arc::ptr_eq(whole.section(), target.section()) {
                return Err(Error::Busy);
            }
            whole.needs(d, both.b(), Rights::WRITE)?;
            if let Some(stale) = prepare(both.b(), whole.offset(), len)? {
                both.settle_b(target.section(), stale);
                continue;
            }
            let pieces = both.a().structures.fifo(offset).ok_or(Error::NotFound)?.first_pieces(UNIT, len);
            pieces.iter().filter(|(_, part)| *part > 0).try_for_each(|(at, part)| needs(&site.section, both.a(), at - base, *part))?;
            let mut onto = whole.offset();
            for (at, part) in pieces {
                both.copy(at - base, onto, part)?;
                onto += part;
            }
        }
        if let Some(fifo) = both.a().structures.fifo(offset) {
            fifo.take(len);
        }
        show(both.a(), offset)?;
        return Ok(len);
    }
    Err(Error::Busy)
}

/// The length of the first record, which lies at `at`, as its buffer says. A buffer that says what cannot be is emptied.
fn first_len(state: &mut State, at: u64, offset: u64) -> Result<u64, Error> {
    let len = get_word(state, at)?;
    let fifo = state.structures.fifo(offset).ok_or(Error::NotFound)?;
    if fifo.is_length(len) {
        return Ok(len);
    }
    fifo.empty();
    show(state, offset)?;
    Err(Error::Changed)
}
