//! The seat of one processor: who decides what runs there, and for how long it may think.

/// How often the kernel looks at a scheduler that decides, in nanoseconds.
pub const BEAT_NS: u64 = 1_000_000;
/// At which beat it has thought for too long, together with the calls that it makes meanwhile: 10 ms are not over yet when the
/// ready threads are given back, either, of which there may be thousands.
pub const BEATS: u32 = 8;
/// At which beat a call that it makes meanwhile, into a driver, has taken too long: the call ends, and the scheduler goes on.
pub const ERRAND_BEATS: u32 = 4;
/// So many beats that came late weigh as much as one that came in time. A program cannot hold up the timer: a beat that was due long ago
/// says that the machine itself was stopped (by its firmware, or by the host of a virtual one), and little about who decides. A
/// machine that is always late condemns one that loops yet.
pub(crate) const LATE: u32 = 4;
/// After so many beats it has thought for too long, too, if so much is over by the clock: where each is a little late but none so late that it weighs less,
/// it is still less than 10 ms.
const BEATS_BY_CLOCK: u32 = 6;
const LONGEST_NS: u64 = 8_200_000;

/// Why a scheduler lost its seat. The numbers are those that programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It gave way to another one.
    Replaced = 1,
    /// Its thread or its program ended, by a fault or otherwise.
    Ended = 2,
    /// It decided for too long.
    Slow = 3,
    /// It named a thread that never was, or a turn that has not been.
    Wrong = 4,
    /// It waited for something else than its seat.
    Waited = 5,
    /// It said that it had read what was not written.
    Ring = 6,
    /// It named nobody while a thread was ready: see [`crate::Neglect`].
    Neglect = 7,
}

/// Of a beat, in parts.
pub(crate) fn weight(on_time: bool) -> u32 {
    if on_time { LATE } else { 1 }
}

/// What a seat counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that a scheduler was asked.
    pub asked: u64,
    /// Threads that it named and got.
    pub named: u64,
    /// Times that it named none.
    pub none: u64,
    /// Threads that it named and somebody else had got.
    pub lost: u64,
    /// Schedulers that were put out.
    pub dismissed: u64,
}

/// What a beat finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    Fine,
    /// The call that it is in is to end.
    Recall,
    /// It has taken too long.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits to be asked.
    Away,
    Deciding(Beats),
}

/// Beats since it was asked, in parts: [`LATE`] of them are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beats {
    all: u32,
    /// The call that the last one found it in, and how often.
    errand: Option<(u64, u32)>,
}

/// Who decides on a processor. `T`: a scheduler.
#[derive(Clone, Debug)]
pub struct Seat<T> {
    holder: Option<T>,
    phase: Phase,
    counts: Counts,
    /// When the one who sits here was asked last.
    asked: u64,
    last: Option<Last>,
}

/// Of the last one who lost the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub why: Reason,
    pub when: u64,
    /// Beats that it had been deciding for.
    pub beats: u32,
    /// When it was asked what it did not decide any more, or else when it lost the seat.
    pub since: u64,
    /// How long it was from then until others decided about all its threads; 0: that is not over yet.
    pub took: u64,
}

impl<T> Default for Seat<T> {
    fn default() -> Self {
        Seat::new()
    }
}

impl<T> Seat<T> {
    /// Nobody: the round robin.
    pub const fn new() -> Seat<T> {
        Seat {
            holder: None,
            phase: Phase::Away,
            counts: Counts { asked: 0, named: 0, none: 0, lost: 0, dismissed: 0 },
            asked: 0,
            last: None,
        }
    }

    /// Who sits there.
    pub fn holder(&self) -> Option<&T> {
        self.holder.as_ref()
    }

    /// The same, to be changed.
    pub fn holder_mut(&mut self) -> Option<&mut T> {
        self.holder.as_mut()
    }

    /// Somebody sits down, at time `now`. Who sat there before has been replaced.
    pub fn sit(&mut self, new: T, now: u64) -> Option<T> {
        let old = self.dismiss(Reason::Replaced, now);
        self.holder = Some(new);
        old
    }

    /// Takes the seat back. Who sat there, if anybody did.
    pub fn dismiss(&mut self, why: Reason, now: u64) -> Option<T> {
        let old = self.holder.take()?;
        let (beats, since) = match self.phase {
            Phase::Deciding(beats) => (beats.all / LATE, self.asked),
            Phase::Away => (0, now),
        };
        self.phase = Phase::Away;
        self.last = Some(Last { why, when: now, beats, since, took: 0 });
        self.counts.dismissed += 1;
        Some(old)
    }

    /// At time `now` all threads that the one who lost the seat at `when` knew of are others'.
    pub fn handed_over(&mut self, when: u64, now: u64) {
        if let Some(last) = self.last.as_mut().filter(|last| last.when == when) {
            last.took = now.saturating_sub(last.since).max(1);
        }
    }

    /// It is asked to decide, at time `now`.
    pub fn ask(&mut self, now: u64) {
        self.asked = now;
        self.phase = Phase::Deciding(Beats::default());
        self.counts.asked += 1;
    }

    /// It is being asked.
    pub fn is_deciding(&self) -> bool {
        matches!(self.phase, Phase::Deciding(_))
    }

    /// It has named a thread (or that none should run).
    pub fn decided(&mut self, named: bool) {
        self.phase = Phase::Away;
        if named {
            self.counts.named += 1;
        } else {
            self.counts.none += 1;
        }
    }

    /// It has named a thread that it does not get. What that means.
    ///
    /// # Errors
    /// The reason to put it out.
    pub fn missed(&mut self, why: crate::Refused) -> Result<(), Reason> {
        match why {
            crate::Refused::Taken => {
                self.counts.lost += 1;
                Ok(())
            }
            crate::Refused::Never => Err(Reason::Wrong),
        }
    }

    /// A beat has passed on this processor at time `now`, and came when it was due (`on_time`) or not; `errand`: the number of the call that the
    /// one in the seat is in, if it is not in its own text.
    pub fn beat(&mut self, errand: Option<u64>, on_time: bool, now: u64) -> Beat {
        let Phase::Deciding(beats) = &mut self.phase else { return Beat::Fine };
        let part = weight(on_time);
        beats.all += part;
        beats.errand = match (errand, beats.errand) {
            (Some(call), Some((last, n))) if call == last => Some((call, n + part)),
            (Some(call), _) => Some((call, part)),
            (None, _) => None,
        };
        let by_clock = beats.all >= BEATS_BY_CLOCK * LATE && now.saturating_sub(self.asked) >= LONGEST_NS;
        if by_clock || beats.all >= BEATS * LATE {
            Beat::Late
        } else if beats.errand.is_some_and(|(_, n)| n >= ERRAND_BEATS * LATE) {
            beats.errand = None;
            Beat::Recall
        } else {
            Beat::Fine
        }
    }

    /// That one was not recalled: it is with the next beat in the same call.
    pub fn recalls_later(&mut self, errand: u64) {
        if let Phase::Deciding(beats) = &mut self.phase {
            beats.errand = Some((errand, ERRAND_BEATS * LATE));
        }
    }

    /// Since boot.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How the last one lost the seat.
    pub fn last(&self) -> Option<Last> {
        self.last
    }
}
