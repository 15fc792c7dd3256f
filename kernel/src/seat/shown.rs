//! What programs read of the seats.

use super::Inner;
use crate::info;
use crate::machine::machine;
use abi::info::layout;
use abi::sched::SeatInfo;
use ::sched::BEAT_NS;
use arch::shown::Page;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

/// Where programs read of the seats (`abi::info::layout::Seat`).
pub static SHOWN: Page = Page::new();

const WORDS: usize = info::words::<layout::Seat>();

/// Nobody sits anywhere yet.
pub fn show_all() {
    machine().processors.iter().for_each(|p| show(p.index, &p.office.inner.lock()));
}

/// A count of what happens here; its place in `SeatInfo`.
pub fn shows_count(index: usize, field: usize, value: u64) {
    SHOWN.0[index * WORDS + (offset_of!(layout::Seat, seat) + field) / 8].store(value, Ordering::Relaxed);
}

/// Who sits there, and what became of the last one.
pub fn show(index: usize, inner: &Inner) {
    let seat = words_of(&known(index, inner));
    let record: &[AtomicU64] = &SHOWN.0[index * WORDS..(index + 1) * WORDS];
    ::info::write(record, |record| ::info::fields(record, offset_of!(layout::Seat, seat) / 8, &seat));
}

fn words_of(seat: &SeatInfo) -> [u64; size_of::<SeatInfo>() / 8] {
    <[u64; size_of::<SeatInfo>() / 8]>::read_from_bytes(seat.as_bytes()).unwrap_or_default()
}

/// What is known of a seat.
fn known(index: usize, inner: &Inner) -> SeatInfo {
    let counts = inner.seat.counts();
    let (thread, text) = inner.seat.holder().map_or((0, 0), |holder| (holder.thread.number, holder.text.base));
    let last = inner.seat.last();
    let (reason, when) = last.map_or((0, 0), |last| (last.why as u64, last.when));
    SeatInfo {
        processor: index as u64,
        thread,
        text,
        asked: counts.asked,
        named: counts.named,
        none: counts.none,
        lost: counts.lost,
        missed: inner.ring.missed(),
        dismissed: counts.dismissed,
        reason,
        when,
        decided_ms: last.map_or(0, |last| u64::from(last.beats) * BEAT_NS / 1_000_000),
        took_ns: last.map_or(0, |last| last.took),
    }
}
